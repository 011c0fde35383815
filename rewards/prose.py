"""The prose of a completion, without code, mathematics and markup, and the passages and scripts that it has.

Everything here takes time linear in the length of its input.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

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
PASSAGE_WORDS = 12  # a passage ends with the first sentence that makes it as long
MAX_PASSAGE_WORDS = 50  # or here, without one
MAX_PASSAGE_CHARS = 600
MAX_WORD_CHARS = 100  # a longer one is cut
# Chinese and Japanese share Han characters, so they are one script here, and so is all that Japanese is written in.
CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\u30fc"
SCRIPTS = (
    *("Latin", "Cyrillic", "Arabic", "Hangul", "Devanagari", "Greek", "Hebrew", "Thai", "Bengali", "Tamil"),
    *("Telugu", "Kannada", "Malayalam", "Gujarati", "Gurmukhi", "Oriya", "Sinhala", "Khmer", "Lao", "Myanmar"),
    *("Tibetan", "Georgian", "Armenian", "Ethiopic"),
)
# A formula without its marks is no prose.
FUNCTIONS = frozenset(
    """sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp sqrt max min sup inf lim mod gcd lcm
    det ker dim""".split()  # noqa: SIM905
)
# Up to three Greek letters without accents, with no Greek word before or after them, such as αβγ or Δθ: symbols. In
# Greek prose a word has neighbours.
_GREEK_LETTER = "[\u0391-\u03a9\u03b1-\u03c9\u03d0-\u03d6\u03f0-\u03f5\u2126]"
_GREEK_SYMBOLS = (
    rf"(?={_GREEK_LETTER})(?<!\p{{Greek}}\p{{M}}?['’\s]{{0,2}}){_GREEK_LETTER}{{1,3}}+"
    r"(?![\p{M}'’]|\s{0,2}\p{Greek})"
)
UNSPACED = ("Thai", "Khmer", "Lao", "Myanmar", "Tibetan")


def prose(text: str) -> str:
    r"""The text without code blocks, inline code, LaTeX mathematics, addresses and tags.

    Marks alone make no code: what stands in them and reads as prose is kept, or a policy would put its thoughts in
    there. So are words of other scripts than Latin and Greek, such as comments in Chinese. A mark that nothing closes
    is none.

    Examples:
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


@dataclass(slots=True)
class Passage:
    """A piece of prose of one script: a few sentences, or those words of them.

    Attributes:
        script: One of `SCRIPTS`, `CJK`, or `other`.
        words: The words, in order.
        weight: How many words they are; where no spaces part words, an estimate.
        chars: Their characters.
    """

    script: str
    words: list[str] = field(default_factory=list)
    weight: float = 0.0
    chars: int = 0

    @property
    def text(self) -> str:
        return " ".join(self.words)


def passages(prose: str) -> list[Passage]:
    """The words of a prose, by script, in passages of a sentence or more.

    Examples:
        >>> [(passage.script, passage.text) for passage in passages("The price is 5, 也就是说。")]
        [('Latin', 'The price is'), ('CJK', '也就是说')]
    """
    done: dict[str, list[Passage]] = {}
    open_passages: dict[str, Passage] = {}
    for script, word in _tokens(prose):
        if script == "end":
            for name in [name for name, passage in open_passages.items() if passage.weight >= PASSAGE_WORDS]:
                done.setdefault(name, []).append(open_passages.pop(name))
            continue
        weight = _weight(script, word)
        if not weight:
            continue
        passage = open_passages.setdefault(script, Passage(script))
        passage.words.append(word)
        passage.weight += weight
        passage.chars += len(word)
        if passage.weight >= MAX_PASSAGE_WORDS or passage.chars >= MAX_PASSAGE_CHARS:
            done.setdefault(script, []).append(open_passages.pop(script))
    for script, passage in open_passages.items():
        done.setdefault(script, []).append(passage)
    return [passage for named in done.values() for passage in named]


def word_count(passages: Iterable[Passage], outside: Collection[str] = ()) -> float:
    """How many words there are in other scripts than these.

    Examples:
        >>> found = passages("The price is 5, 也就是说。")
        >>> word_count(found), word_count(found, outside=["Latin"])
        (5.0, 2.0)
    """
    return sum((passage.weight for passage in passages if passage.script not in outside), 0.0)


def _tokens(prose: str) -> Iterator[tuple[str, str]]:
    words, invisible, common = _patterns()
    plain = common.sub(lambda letter: unicodedata.normalize("NFKC", letter[0]), invisible.sub("", prose))
    for token in words.finditer(plain):
        yield token.lastgroup, token[0]


@cache
def _patterns() -> tuple[Any, Any, Any]:
    # Python's own `re` knows no scripts; `regex` does, and transformers brings it. Imported when first needed.
    regex = import_module("regex")

    more = MAX_WORD_CHARS - 1
    groups = [rf"(?P<{script}>\p{{{script}}}[\p{{{script}}}\p{{M}}'’]{{0,{more}}}+)" for script in SCRIPTS]
    groups.insert(1, rf"(?P<CJK>[{CJK}]{{1,{MAX_WORD_CHARS}}}+)")
    groups.insert(0, rf"(?P<symbols>{_GREEK_SYMBOLS})")
    groups.append(rf"(?P<other>\p{{L}}[\p{{L}}\p{{M}}]{{0,{more}}}+)")
    groups.append(r"(?P<end>[.!?。！？।؟։\n])")
    invisible = regex.compile(r"\p{Cf}+")  # such as a zero-width space in each word
    common = regex.compile(r"(?=\p{L})\p{Common}")  # letters of no script that stand for others: the µ of µm
    return regex.compile("|".join(groups)), invisible, common


def _weight(script: str, word: str) -> float:
    """How many words a run of letters is; 0 for what is a symbol rather than a word."""
    if script == "symbols":
        return 0.0
    if script == "CJK":
        return len(word) / 2
    if script in UNSPACED:
        return len(word) / 5
    if len(word) == 1 or (script == "Latin" and ((len(word) <= 4 and word.isupper()) or word in FUNCTIONS)):
        return 0.0  # x, ABC, GCD, cos
    return 1.0 if len(word) <= 30 else len(word) / 6
