"""Find the fenced code blocks of an answer, and join a program with helpers from other blocks.

Completions are read line by line in linear time, never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trl_grpo_ext.programs.suites.free_names import assigned_names, free_names

PYTHON_TAGS = frozenset({"python", "py", "python3", "py3"})
_MARKDOWN_TAGS = frozenset({"markdown", "md"})
_TRIPLE_QUOTES = ('"""', "'''")

_MARKS = re.compile(r"`{3,}|~{3,}")
_TAG = re.compile(r"[{.\s]*([\w+#-]*)")
_ONE_WORD = re.compile(r"[\w+#-]+\s*")
_QUOTE_MARK = re.compile(r" {0,3}> ?")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
# What may stand behind a closing fence: tags, special tokens of models, marks of a sentence or of Markdown, and the end
# of a formula, `}$` or `}\]`. DeepSeek's special tokens have a wide bar, and a low block between their words.
_BEHIND = re.compile(r"(?:<[/|｜]?[\w▁-]+[|｜]?>|\[/?[A-Z]+\]|\\[\])]|[\s.,:;!?)*}$])*")
# A formula that holds the fence: `\boxed{` and `\text{`
_FORMULAS = ("\\boxed{", "\\fbox{", "\\text{")
# A closing fence with the next block's fence on its line, as where the thinking ends.
_TWO_FENCES = re.compile(r"^([ \t]*`{3,})<[^`\n]*>(?=`{3,}\w+[ \t]*$)", re.MULTILINE)
# A fence on a line of its own, and its tag
_FENCE_LINE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#-]*)[ \t]*$", re.MULTILINE)
# The rest of an opening fence that the prompt holds
_TAG_ALONE = re.compile(r"\A\s*(?:python|py)3?[ \t]*\n")
# A line that can only be code: indented, a definition, an import, a statement with a block, a return or an assignment
_BEGINS_WITH_CODE = re.compile(
    rf"(?:{_TAG_ALONE.pattern})?"
    r"\s*?(?:^[ \t]{2,}\S|(?:async )?def \w|class \w|@\w|import \w|from [\w.]+ import\b|(?:return|yield|raise)\b"
    r"|(?:for|while|if|with|try)\b[^\n]*:[ \t]*$|[\w.]+(?:\[[^\n]*\])?(?:, \w+)*[ \t]*[-+*/]?=[ \t]*\S)",
    re.MULTILINE,
)
# What may begin or end a string, or begin a comment; a string without its end reaches to the end of the line.
_QUOTE = re.compile(r"\"{3}|'{3}|#|\"(?:[^\"\\]|\\.?)*\"?|'(?:[^'\\]|\\.?)*'?")
# A function, class or constant at the top of a program.
_TOP_NAME = re.compile(
    r"^(?:(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)|([A-Z_][A-Z0-9_]*)[ \t]*=[^=])",
    re.MULTILINE,
)
# Values of input are read in the program's order.
_READS_INPUT = re.compile(r"\b(?:input|open|argv|stdin|parse_args)\b")
_NAME = re.compile(
    r"^[ \t]*(?:(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)|([^\W\d]\w*)[ \t]*[:=])",
    re.MULTILINE,
)
# What an import binds: `sqrt` of `from math import sqrt`, no name of the module
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import\b[ \t]*(\([^)]*\)?|[^#\n]*)", re.MULTILINE
)
_FUTURE_IMPORT = re.compile(
    r"^from[ \t]+__future__[ \t]+import\b[ \t]*(?:\([^)]*\)?|[^#;\n]*)\n", re.MULTILINE
)
# A string with its prefix, or a comment; a string without its end reaches to the end of the line.
TEXT = (
    r"(?<!\w)([A-Za-z]{0,2})(?:\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}"
    r"|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?)|#[^\n]*"
)
_TEXT = re.compile(TEXT)
_COMMENT = re.compile(r"#.*")
_MENTION = re.compile(r"(?<![\w.])[^\W\d]\w*")
_NEXT_STATEMENT = re.compile(r"^(?=[^\s#)\]}])", re.MULTILINE)
_DEFINITION = re.compile(
    r"(?:async[ \t]+def|def|class|from|import)[ \t]|@|[A-Z_][A-Z0-9_]*[ \t]*=[^=]"
)


@dataclass(frozen=True, slots=True)
class FencedBlock:
    """A fenced code block: its tag, the first word after the fence in lower case, and its content."""

    tag: str
    code: str

    @property
    def is_python(self) -> bool:
        return self.tag in PYTHON_TAGS


@dataclass(frozen=True, slots=True)
class _Fence:
    """A line's Markdown fence.

    Attributes:
        indent: The indentation of its block.
        marks: Its backticks or tildes.
        tag: The first word after it, in lower case.
        follows_text: Whether text stands before it on its line.
    """

    indent: str
    marks: str
    tag: str
    follows_text: bool


def fenced_blocks(text: str) -> list[FencedBlock]:
    """List the fenced blocks of a Markdown text, in order.

    A tagged opening fence also ends an unclosed block before it. Fences tagged `markdown` or `md`, around a whole
    document, are ignored. A fence may follow text on its line: an opening fence after a list marker, a colon or an XML
    tag, or with a tag of its own; a closing fence after code, unless it stands in a string or comment. Behind a closing
    fence may stand tags, special tokens and punctuation. A block in a block quote ends with the quote.

    Examples:
        >>> fenced_blocks("~~~py\\n1\\n~~~")
        [FencedBlock(tag='py', code='1\\n')]
        >>> fenced_blocks("<answer>```py\\nx = 1```</answer>")
        [FencedBlock(tag='py', code='x = 1\\n')]
        >>> fenced_blocks("> ~~~py\\n> x = 1\\n\\nIt binds x.")
        [FencedBlock(tag='py', code='x = 1\\n')]
    """
    if not _MARKS.search(text):
        return []
    found: list[FencedBlock] = []
    opened: _Fence | None = None
    lines: list[str] = []
    # The quotes of a string that is open at the end of the last line, in a block or in a program without one.
    quotes = ""
    # How many block quotes the open block, or else the line, is in.
    depth = 0
    for whole_line in _TWO_FENCES.sub(r"\1\n", text).split("\n"):
        marks = _quote_marks(whole_line)
        if opened is not None and depth >= len(marks):
            # A model may quote the fence alone.
            if lines:
                found.append(_block(opened, lines))
                opened = None
                quotes = ""
            depth = 0
        if opened is None:
            depth = 0 if quotes else len(marks) - 1
        line = whole_line[marks[depth] :]
        last = _last_code(line, opened, quotes)
        opening = _opening(line, opened, quotes)
        if last is None and opening is None:
            lines.append(line)
            quotes = open_quotes(line, quotes)
            continue
        if last:
            lines.append(last)
        if opened is not None:
            found.append(_block(opened, lines))
        # A bare fence ends a block rather than open the next.
        opened = opening if last is None else None
        lines = []
        quotes = ""
    if opened is not None:
        found.append(_block(opened, lines))
    return found


def with_first_fence(text: str) -> str:
    r"""Put an opening fence before code that begins an answer, if a bare fence ends the code and cannot open a block.

    Such an answer continues a block or a function of its prompt.

    Examples:
        >>> with_first_fence("    return x\n```\nIt returns `x`.").startswith("```python\n    return")
        True
        >>> with_first_fence("def f(): ...\n```\nNone\n```") == "def f(): ...\n```\nNone\n```"
        True
    """
    fences = list(_FENCE_LINE.finditer(text))
    if not fences or fences[0][2] or not _BEGINS_WITH_CODE.match(text[: fences[0].start()]):
        return text
    marks = fences[0][1]
    # The first fence opens a block, unless no fence closes it.
    is_open = True
    for fence in fences[1:]:
        if is_open and fence[2]:
            break
        is_open = not is_open
    return f"{marks}python\n{_TAG_ALONE.sub('', text)}" if is_open else text


def begins_with_code(text: str) -> bool:
    """Test if a text's first line is code beyond doubt, such as `import` or `def`."""
    return _BEGINS_WITH_CODE.match(text) is not None


def _quote_marks(line: str) -> list[int]:
    """Return a line's start at each depth of block quotes, from depth 0.

    Examples:
        >>> _quote_marks("> > x > 1")
        [0, 2, 4]
    """
    places = [0]
    while mark := _QUOTE_MARK.match(line, places[-1]):
        places.append(mark.end())
    return places


def _opening(line: str, opened: _Fence | None, quotes: str) -> _Fence | None:
    """Read a line's opening fence; None for lines without an opening fence."""
    marks = _MARKS.search(line)
    if marks is None:
        return None
    before = line[: marks.start()]
    info = line[marks.end() :]
    # CommonMark allows no backtick after a fence of backticks: such a line has code within its text.
    is_code_in_text = "`" in info and marks[0][0] == "`"
    tag = _tag(info)
    # A fence is followed by nothing but its tag; in a program, quotes may follow.
    if is_code_in_text or tag in _MARKDOWN_TAGS or (info.strip() and not tag):
        return None
    if not before.strip():
        fence = _Fence(before, marks[0], tag, follows_text=False)
        return fence if opened is None or _ends(fence, opened) else None
    is_in_program = opened is not None or quotes
    if is_in_program or marks[0][0] != "`" or not _may_follow(before, info):
        return None
    indent = ""
    if _LIST_ITEM.fullmatch(before):
        # The lines below a list marker stand under its text.
        indent = " " * len(before)
    return _Fence(indent, marks[0], tag, follows_text=True)


def _may_follow(before: str, info: str) -> bool:
    """Test if text may precede an opening fence on its line."""
    # Quotes begin a string of a program without a fence.
    if before[-1] in "\"'":
        return False
    if before.rstrip().endswith(_FORMULAS):
        return True
    return before.rstrip()[-1] in ":>" or bool(
        _LIST_ITEM.fullmatch(before) or _ONE_WORD.fullmatch(info)
    )


def _last_code(line: str, opened: _Fence | None, quotes: str) -> str | None:
    """Return the code in front of a closing fence, often empty; None for lines without a closing fence."""
    if opened is None:
        return None
    end = line.rfind(opened.marks[0]) + 1
    behind = line[end:].rstrip()
    if not _BEHIND.fullmatch(behind):
        return None
    code = line[:end].rstrip(opened.marks[0])
    fence = _Fence(code, line[len(code) : end], "", follows_text=bool(code.strip()))
    if not (fence.follows_text or (behind and quotes)):
        return "" if _ends(fence, opened) else None
    # No backtick of Python stands outside of strings and comments.
    is_end = (
        opened.marks[0] == "`"
        and _ends(fence, opened)
        and not open_quotes(code, quotes, comments=True)
    )
    return code if is_end else None


def _ends(fence: _Fence, opened: _Fence) -> bool:
    """Test if a fence may end an open block."""
    # As in CommonMark; a docstring of the program may hold a fence.
    is_content = not fence.follows_text and len(fence.indent) > len(opened.indent) + 3
    return fence.marks.startswith(opened.marks) and not is_content


def open_quotes(line: str, quotes: str, *, comments: bool = False) -> str:
    """Return the triple quotes of an open string at a line's end, or `#` in a comment; else an empty text.

    Args:
        line: A line of a program.
        quotes: The triple quotes open at its beginning.
        comments: Whether to tell comments.
    """
    may_open = any(each in line for each in _TRIPLE_QUOTES)
    if not (quotes or comments or may_open):
        return ""
    place = 0
    while True:
        if quotes:
            end = line.find(quotes, place)
            if end < 0:
                return quotes
            place = end + len(quotes)
        found = _QUOTE.search(line, place)
        if found is None:
            return ""
        if found[0] == "#":
            return "#" if comments else ""
        quotes = found[0] if found[0] in _TRIPLE_QUOTES else ""
        place = found.end()


def _tag(info: str) -> str:
    tag = _TAG.match(info)
    if tag is None:
        return ""
    return tag[1].lower()


def _block(opened: _Fence, lines: list[str]) -> FencedBlock:
    first = next((line for line in lines if line.strip()), "")
    # Below a list marker, a model may write its code without indentation.
    if first.startswith(opened.indent):
        lines = [line.removeprefix(opened.indent) for line in lines]
    code = "\n".join(lines)
    if code and not code.endswith("\n"):
        code += "\n"
    return FencedBlock(opened.tag, code)


def with_helpers(
    program: str,
    others: Sequence[str],
    names: Collection[str] = (),
    taken: Collection[str] = (),
) -> str:
    """Prepend definitions from other blocks, if the program lacks names that it mentions or that are in `names`.

    Args:
        program: The chosen block.
        others: The answer's other blocks.
        names: Names that the tests need.
        taken: Names that blocks import from each other: their values are definitions too.

    Examples:
        >>> print(with_helpers("def f(x): return sq(x)", ["def sq(x): return x * x\\nprint(sq(2))\\n", "f(1)\\n"]))
        def sq(x): return x * x
        def f(x): return sq(x)
    """
    pieces = [program]
    bound = _bound(program)
    missing = _mentions(program).union(names) - bound
    written = written_names(program)
    values = _free(program).union(names) - written
    # From the last block on, since a helper may need a helper of an earlier block.
    for other in reversed(others):
        block = _Block(other, taken, written)
        if not block.has(missing, values):
            continue
        helper = block.helper(values)
        pieces.append(helper)
        bound |= _bound(helper)
        missing = (missing | _mentions(helper)) - bound
        written |= written_names(helper)
        values = (values | _free(helper)) - written
    if len(pieces) == 1:
        return program
    return _with_futures_first("".join(reversed(pieces)))


class _Block:
    """Another block of an answer, by its top-level statements.

    Args:
        code: The block.
        taken: Names whose values are definitions.
        written: Names of functions, classes and values of the program, which stands behind the block.
    """

    def __init__(self, code: str, taken: Collection[str], written: set[str]) -> None:
        self._parts = top_statements(code)
        self._definitions: set[int] = set()
        # The names that each value binds
        self._values: dict[int, set[str]] = {}
        for place, part in enumerate(self._parts):
            assigned = assigned_names(part)
            if is_definition(part) or not assigned.isdisjoint(taken):
                self._definitions.add(place)
            elif assigned and _is_independent(part, written):
                self._values[place] = assigned

    def has(self, missing: set[str], values: set[str]) -> bool:
        """Test if the block defines a missing name, or has a missing value."""
        defined = _names_at_the_top(self._joined(self._definitions))
        assigned = set().union(*self._values.values())
        return not (missing.isdisjoint(defined) and values.isdisjoint(assigned))

    def helper(self, values: set[str]) -> str:
        """Return the block's definitions with the values that these definitions or the program use."""
        kept = set(self._definitions)
        wanted = values | _free(self._joined(kept))
        # A value may need an earlier value.
        for place, assigned in reversed(self._values.items()):
            if not wanted.isdisjoint(assigned):
                kept.add(place)
                wanted |= _free(self._parts[place])
        return self._joined(kept)

    def _joined(self, places: Collection[int]) -> str:
        lines = []
        for place in sorted(places):
            part = self._parts[place]
            lines.append(part if part.endswith("\n") else f"{part}\n")
        return "".join(lines)


def _is_independent(part: str, written: set[str]) -> bool:
    """Test if an assignment neither uses the program, as `result = add(1, 2)` does, nor reads input."""
    is_whole = not any(part.count(quotes) % 2 for quotes in _TRIPLE_QUOTES)
    return (
        is_whole and _mentions(part).isdisjoint(written) and not _READS_INPUT.search(part)
    )


def _with_futures_first(code: str) -> str:
    futures = _FUTURE_IMPORT.findall(code)
    return "".join([*futures, _FUTURE_IMPORT.sub("", code)]) if futures else code


def names_read_but_not_bound(program: str) -> set[str]:
    """Return the names that a program mentions outside of texts and comments, and nowhere binds or imports."""
    return _mentions(program) - _bound(program)


def _mentions(code: str) -> set[str]:
    return _mentions_in(without_texts(code))


def _mentions_in(plain: str) -> set[str]:
    return set(_MENTION.findall(_IMPORT.sub("", plain)))


def without_texts(code: str) -> str:
    """Empty the strings and comments of a code text; a text with names in braces, `f"{name}"`, is kept whole."""
    return _TEXT.sub(lambda text: text[0] if is_formatted(text) else '""', code)


def is_formatted(text: re.Match[str]) -> bool:
    """Recognize a match of `TEXT` that may have names in braces."""
    return "f" in (text[1] or "").casefold()


def _bound(code: str) -> set[str]:
    return _bound_in(without_texts(code))


def _bound_in(plain: str) -> set[str]:
    return _matched(_NAME, plain) | _imported(plain)


def _free(code: str) -> set[str]:
    plain = without_texts(code)
    return free_names(plain, _mentions_in(plain), _bound_in(plain))


def top_statements(code: str) -> list[str]:
    """Split a code text into its top-level statements, each with the lines and comments below it."""
    return _NEXT_STATEMENT.split(code)


def is_definition(statement: str) -> bool:
    """Test if a statement is an import, a function, a class, a decorator or a constant."""
    return _DEFINITION.match(statement) is not None


def written_names(code: str) -> set[str]:
    """Return the names of functions, classes and values at the top of a program."""
    return _matched(_TOP_NAME, code).union(*map(assigned_names, top_statements(code)))


def _names_at_the_top(code: str) -> set[str]:
    parts = top_statements(code)
    imports = "".join(part for part in parts if _IMPORT.match(part))
    return written_names(code) | _imported(imports)


def _matched(pattern: re.Pattern[str], code: str) -> set[str]:
    """Collect what either group of a pattern matches, and the empty text."""
    return set().union(*pattern.findall(code))


def _imported(code: str) -> set[str]:
    lines = "\n".join(_IMPORT.findall(code))
    return set(_MENTION.findall(_COMMENT.sub("", lines))) - {"as"}
