"""Finding the program in an answer: the last Python block if there is a fence, else the whole answer.

Every function here takes time linear in the length of its input, and parses no Python, so it may run in the trainer's
process on hostile text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PYTHON_TAGS = frozenset({"python", "py", "python3", "py3"})
_MARKDOWN_TAGS = frozenset({"markdown", "md"})

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)", re.DOTALL)
_TAG = re.compile(r"[{.\s]*([\w+#-]*)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code: the first word after its fence, in lower case, and what it holds."""

    tag: str
    code: str

    @property
    def is_python(self) -> bool:
        return self.tag in PYTHON_TAGS


def extract_program(text: str) -> str | None:
    r"""The program in an answer, which is what follows a completion's thinking; None if there is none.

    The last block that is tagged as Python, else the last block whatever its tag, else, without a fence, all of it.
    Blocks that hold nothing but white space are passed over. A block that is never closed ends with the text. Of an
    indented fence, as in a list, the indentation is taken off its lines too. A program's own indentation stays: it
    may be the body of a function, see `complete_program`.

    Example:
        >>> extract_program("Here it is:\n```python\nx = 1\n```\nIt prints:\n```\n1\n```")
        'x = 1\n'
        >>> extract_program("    return x + 1\n")
        '    return x + 1\n'
    """
    text = text.replace("\r\n", "\n")
    found = fenced_blocks(text)
    if not found:
        return _without_blank_lines(text)
    filled = [block for block in found if block.code.strip()]
    chosen = [block for block in filled if block.is_python] or filled
    return chosen[-1].code if chosen else None


def _without_blank_lines(text: str) -> str | None:
    """The text without the blank lines before it; None if nothing is left."""
    program = text.lstrip()
    if not program:
        return None
    start = text.rfind("\n", 0, len(text) - len(program)) + 1
    return text[start:]


def fenced_blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order.

    A fence that opens a block with a tag also ends the one before it if that was left open. Fences around a whole
    Markdown document are not seen as fences.

    Example:
        >>> fenced_blocks("~~~py\\n1\\n~~~")
        [Block(tag='py', code='1\\n')]
    """
    found: list[Block] = []
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
    """The line's fence, if it opens a block or ends the open one."""
    fence = _FENCE.match(line)
    if fence is None or ("`" in fence[3] and fence[2][0] == "`") or _tag(fence) in _MARKDOWN_TAGS:
        return None
    if opened is not None and (fence[2][0] != opened[2][0] or len(fence[2]) < len(opened[2])):
        return None
    return fence


def _tag(fence: re.Match[str]) -> str:
    tag = _TAG.match(fence[3])
    return tag[1].lower() if tag else ""


def _block(opened: re.Match[str], lines: list[str]) -> Block:
    indent = opened[1]
    code = "\n".join(line.removeprefix(indent) for line in lines) if indent else "\n".join(lines)
    return Block(_tag(opened), code if not code or code.endswith("\n") else code + "\n")
