"""Find the fenced code blocks of an answer, and join a program with helpers from other blocks.

Completions are read line by line in linear time, never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

PYTHON_TAGS = frozenset({"python", "py", "python3", "py3"})
_MARKDOWN_TAGS = frozenset({"markdown", "md"})

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)", re.DOTALL)
_TAG = re.compile(r"[{.\s]*([\w+#-]*)")
# A function, class or constant at the top of a program.
_TOP_NAME = re.compile(
    r"^(?:(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)|([A-Z_][A-Z0-9_]*)[ \t]*=[^=])", re.MULTILINE
)
_NAME = re.compile(r"^[ \t]*(?:(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)|([^\W\d]\w*)[ \t]*[:=])", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t].*", re.MULTILINE)
_MENTION = re.compile(r"(?<![\w.])[^\W\d]\w*")
_NEXT_STATEMENT = re.compile(r"^(?=[^\s#)\]}])", re.MULTILINE)
_DEFINITION = re.compile(r"(?:async[ \t]+def|def|class|from|import)[ \t]|@|[A-Z_][A-Z0-9_]*[ \t]*=[^=]")


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced code block: its tag, the first word after the fence in lower case, and its content."""

    tag: str
    code: str

    @property
    def is_python(self) -> bool:
        return self.tag in PYTHON_TAGS


def fenced_blocks(text: str) -> list[FencedBlock]:
    """List the fenced blocks of a Markdown text, in order.

    A tagged opening fence also ends an unclosed block before it. Fences tagged `markdown` or `md`, around a whole
    document, are ignored.

    Examples:
        >>> fenced_blocks("~~~py\\n1\\n~~~")
        [FencedBlock(tag='py', code='1\\n')]
    """
    found: list[FencedBlock] = []
    opened: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        fence = _fence(line, opened)
        if fence is None:
            lines.append(line)
            continue
        if opened is not None:
            found.append(_block(opened, lines))
        opened = None if opened is not None and not fence[3].strip() else fence
        lines = []
    if opened is not None:
        found.append(_block(opened, lines))
    return found


def _fence(line: str, opened: re.Match[str] | None) -> re.Match[str] | None:
    """Match a fence that opens a block or ends the open block; None for any other line."""
    fence = _FENCE.match(line)
    if fence is None or ("`" in fence[3] and fence[2][0] == "`") or _tag(fence) in _MARKDOWN_TAGS:
        return None
    if opened is None:
        return fence
    is_shorter = len(fence[2]) < len(opened[2])
    # As in CommonMark; a docstring of the program may hold a fence.
    is_content = len(fence[1]) > len(opened[1]) + 3
    return None if is_content or is_shorter or fence[2][0] != opened[2][0] else fence


def _tag(fence: re.Match[str]) -> str:
    tag = _TAG.match(fence[3])
    return tag[1].lower() if tag else ""


def _block(opened: re.Match[str], lines: list[str]) -> FencedBlock:
    indent = opened[1]
    code = "\n".join(line.removeprefix(indent) for line in lines) if indent else "\n".join(lines)
    return FencedBlock(_tag(opened), code if not code or code.endswith("\n") else code + "\n")


def with_helpers(program: str, others: Sequence[str]) -> str:
    """Prepend definitions from other blocks to a program, if the program mentions but does not define their names.

    Examples:
        >>> print(with_helpers("def f(x): return sq(x)", ["def sq(x): return x * x\\nprint(sq(2))\\n", "f(1)\\n"]))
        def sq(x): return x * x
        def f(x): return sq(x)
    """
    pieces, bound = [program], _bound(program)
    missing = _mentions(program) - bound
    for other in reversed(others):
        if not missing.isdisjoint(_names_at_the_top(other)):
            pieces.append(_definitions(other))
            found = _bound(pieces[-1])
            bound |= found
            missing -= found
            missing |= _mentions(pieces[-1]) - bound
    return "".join(reversed(pieces))


def _mentions(code: str) -> set[str]:
    return set(_MENTION.findall(code))


def _bound(code: str) -> set[str]:
    return {*(name for pair in _NAME.findall(code) for name in pair), *_imported(code)}


def _names_at_the_top(code: str) -> set[str]:
    imports = "".join(line for line in code.splitlines(keepends=True) if not line[0].isspace())
    return {*(name for pair in _TOP_NAME.findall(code) for name in pair), *_imported(imports)}


def _imported(code: str) -> set[str]:
    return {name for line in _IMPORT.findall(code) for name in _MENTION.findall(line)}


def _definitions(code: str) -> str:
    """Keep imports, functions, classes, constants and decorated definitions of a code text; drop other statements."""
    found = [part for part in _NEXT_STATEMENT.split(code) if _DEFINITION.match(part)]
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in found)
