"""The prose of a completion: what is left of it without code, mathematics, addresses and markup.

Everything here takes time linear in the length of its input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MIN_WORDS = 5  # of prose between the marks of code or mathematics, to be taken for prose
MIN_PLAIN_WORDS = 3  # the same, where no symbol or digit stands with them
MAX_GAP_CHARS = 10
RUN_SHARE = 0.65  # of prose's words that stand three or more in a row; two hundred functions of Python's library: 0.2

_MARK = re.compile(
    r"\n|`{3,}|~{3,}|`|\\\$|\$\$|\$|\\[()\[\]]"
    r"|\\(?:begin|end)\{(?:equation|align|gather|multline|array|[a-z]?matrix|cases)\*?\}"
)
_LINE_MARKS = ("`", "$")  # end with their line, if nothing has closed them: a price is no formula
_CLOSERS = {r"\(": r"\)", r"\[": r"\]", "$$": "$$", "$": "$", "`": "`"}

_NO_WORDS = re.compile(
    r"(?:https?://|www\.)[!-~]+"  # ASCII alone: a language without spaces would hide behind its first letters
    r"|</?[A-Za-z][\w-]{0,30}\s?/?>|<\|[\w-]{1,40}\|>"
    r"|\\[A-Za-z]{1,40}"
    r"|&[a-z]{2,8};",
    re.ASCII,
)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SYMBOL = re.compile(r"[\d(){}\[\]=<>+*/_^&|#@%;\\]")
_RUN = re.compile(r"(?<![^\W\d_])[^\W\d_]++(?:(?:[,;:.!?]?[ \t]{1,3}+|['’-])[^\W\d_]++){2,}+")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z]{1,20}\*?\}")
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\{([^{}]*)\}")
_NO_MARKS = str.maketrans("`~$", "   ")
_LATIN_OR_GREEK = re.compile(r"[\u0000-\u03ff\u1e00-\u1fff\u2000-\u2bff\U0001d400-\U0001d7ff]+")


def prose(text: str) -> str:
    r"""The text without code blocks, inline code, LaTeX mathematics, addresses and tags.

    Marks alone make no code: what stands in them and reads as prose is kept, or a policy would put its thoughts in
    there. So are words of other scripts than Latin and Greek, such as comments in Chinese. A mark that nothing closes
    is none.

    Example:
        >>> prose(r"So $x = 4$ and `print(x)` shows \(x\).").split()
        ['So', 'and', 'shows', '.']
        >>> prose("```\nThis is where I think about it.\n```").split()[:3]
        ['This', 'is', 'where']
    """
    return _NO_WORDS.sub(" ", "".join(_kept(text)))


def _kept(text: str) -> Iterator[str]:
    start = 0
    for begins, ends in _marked(text):
        yield text[start:begins]
        yield f" {_hidden(text[begins:ends])} "
        start = ends
    yield text[start:]


def _marked(text: str) -> list[tuple[int, int]]:
    """Where code and mathematics begin and end, with their marks, in order; they do not overlap."""
    marks = list(_MARK.finditer(text))
    last = {mark[0][:3] if mark[0][0] in "`~" else mark[0]: mark.start() for mark in marks}
    found: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    closer = ""
    for mark in marks:
        token = mark[0]
        if opened is None:
            closer = _closer(token)
            if closer and last.get(closer[:3] if closer[0] in "`~" else closer, -1) > mark.start() and _opens(mark):
                opened = mark
        elif token == closer or (closer[:3] in ("```", "~~~") and token.startswith(closer)):
            if _closes(mark):
                _append(found, text, opened.start(), mark.end())
                opened = None
        elif token == "\n" and opened[0] in _LINE_MARKS:
            opened = None
    return found


def _append(found: list[tuple[int, int]], text: str, begins: int, ends: int) -> None:
    """Add a piece; if nothing but space parts it from the one before, they are one: `$a$ $b$`."""
    if found and begins - found[-1][1] <= MAX_GAP_CHARS and not text[found[-1][1] : begins].strip():
        begins = found.pop()[0]
    found.append((begins, ends))


def _closer(token: str) -> str:
    """What closes this mark; empty if it opens nothing."""
    if token[:3] in ("```", "~~~"):
        return token
    return token.replace(r"\begin", r"\end") if token.startswith(r"\begin") else _CLOSERS.get(token, "")


def _opens(mark: re.Match[str]) -> bool:
    return mark[0] != "$" or not mark.string[mark.end() : mark.end() + 1].isspace()


def _closes(mark: re.Match[str]) -> bool:
    """Whether a dollar may close: no space before it, no digit after it, so that two prices are no formula."""
    if mark[0] != "$":
        return True
    before, after = mark.string[mark.start() - 1], mark.string[mark.end() : mark.end() + 1]
    return not before.isspace() and not after.isdigit()


def _hidden(marked: str) -> str:
    """What of code or mathematics counts as prose: all of it if it reads so, else its texts and its other scripts."""
    plain = _COMMAND.sub(" ", _ENVIRONMENT.sub(" ", marked)).translate(_NO_MARKS).strip("\\[](){} \n")
    words = len(_WORD.findall(plain))
    in_runs = sum(len(_WORD.findall(run)) for run in _RUN.findall(plain))
    if words >= MIN_WORDS and in_runs >= RUN_SHARE * words:
        return plain
    if words >= MIN_PLAIN_WORDS and not _SYMBOL.search(plain):
        return plain
    texts = " ".join(_TEXT.findall(marked))
    if len(_WORD.findall(texts)) >= MIN_WORDS:
        return f"{texts} {_LATIN_OR_GREEK.sub(' ', _TEXT.sub(' ', marked))}"
    return _LATIN_OR_GREEK.sub(" ", marked)
