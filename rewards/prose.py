"""Extract the prose of a completion, without code, mathematics and markup, and split it into passages by script.

Every function takes time linear in the length of its input.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

# So many words between the marks of code or mathematics can count as prose.
MIN_WORDS = 5
# The same number for a text without symbols and digits.
MIN_PLAIN_WORDS = 3
MAX_GAP_CHARS = 10
# The least share of words in runs of three or more words that makes marked text prose. Measured on two hundred
# functions of Python's standard library: 0.2.
RUN_SHARE = 0.65

_MARK = re.compile(
    r"\n|`{3,}|~{3,}|`|\\\$|\$\$|\$|\\[()\[\]]"
    r"|\\(?:begin|end)\{(?:equation|align|gather|multline|array|[a-z]?matrix|cases)\*?\}"
)
# An unclosed mark of these ends with its line, so that a price such as $5 opens no formula.
_LINE_MARKS = ("`", "$")
_CLOSERS = {r"\(": r"\)", r"\[": r"\]", "$$": "$$", "$": "$", "`": "`"}

_NO_WORDS = re.compile(
    # ASCII only, or text in a language without spaces would vanish behind a URL.
    r"(?:https?://|www\.)[!-~]+"
    r"|</?[A-Za-z][\w-]{0,30}\s?/?>|<\|[\w-]{1,40}\|>"
    r"|\\[A-Za-z]{1,40}"
    r"|&[a-z]{2,8};",
    re.ASCII,
)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SYMBOL = re.compile(r"[\d(){}\[\]=<>+*/_^&|#@%;\\]")
# Three or more words in a row, with punctuation between them.
_RUN = re.compile(
    r"(?<![^\W\d_])[^\W\d_]++(?:(?:[,;:.!?]?[ \t]{1,3}+|['’-])[^\W\d_]++){2,}+"
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z]{1,20}\*?\}")
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox)\{([^{}]*)\}")
_NO_MARKS = str.maketrans("`~$", "   ")
_LATIN_OR_GREEK = re.compile(
    r"[\u0000-\u03ff\u1e00-\u1fff\u2000-\u2bff\U0001d400-\U0001d7ff]+"
)
# A passage ends with the first sentence end after so many words.
PASSAGE_WORDS = 12
# Without a sentence end, a passage ends after so many words or characters.
MAX_PASSAGE_WORDS = 50
MAX_PASSAGE_CHARS = 600
# A longer word is split.
MAX_WORD_CHARS = 100
# Chinese and Japanese share Han characters, so all their scripts, kana and Bopomofo included, count as one script.
CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\u30fc"
SCRIPTS = (
    *(
        "Latin",
        "Cyrillic",
        "Arabic",
        "Hangul",
        "Devanagari",
        "Greek",
        "Hebrew",
        "Thai",
        "Bengali",
        "Tamil",
    ),
    *(
        "Telugu",
        "Kannada",
        "Malayalam",
        "Gujarati",
        "Gurmukhi",
        "Oriya",
        "Sinhala",
        "Khmer",
        "Lao",
        "Myanmar",
    ),
    *("Tibetan", "Georgian", "Armenian", "Ethiopic"),
)
# Words of formulas that stand without marks are not prose.
FUNCTIONS = frozenset(
    """sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp sqrt max min sup inf lim mod gcd lcm
    det ker dim""".split()  # noqa: SIM905
)
# One to three Greek letters without accents and without a Greek word beside them, such as αβγ or Δθ, are symbols:
# a word in Greek prose has Greek neighbours.
_GREEK_LETTER = "[\u0391-\u03a9\u03b1-\u03c9\u03d0-\u03d6\u03f0-\u03f5\u2126]"
_GREEK_SYMBOLS = (
    rf"(?={_GREEK_LETTER})(?<!\p{{Greek}}\p{{M}}?['’\s]{{0,2}}){_GREEK_LETTER}{{1,3}}+"
    r"(?![\p{M}'’]|\s{0,2}\p{Greek})"
)
UNSPACED = ("Thai", "Khmer", "Lao", "Myanmar", "Tibetan")


def prose(text: str) -> str:
    r"""Remove code blocks, inline code, LaTeX mathematics, URLs and tags from a text.

    Text that reads as prose is kept even inside code or formula marks, or a policy would hide its thoughts in code
    blocks. Words in scripts other than Latin and Greek are kept as well, such as Chinese comments. An unclosed mark is
    ignored.

    Examples:
        >>> prose(r"So $x = 4$ and `print(x)` shows \(x\).").split()
        ['So', 'and', 'shows', '.']
        >>> prose("```\nThis is where I think about it.\n```").split()[:3]
        ['This', 'is', 'where']
    """
    kept = "".join(_kept(text))
    return _NO_WORDS.sub(" ", kept)


def _kept(text: str) -> Iterator[str]:
    start = 0
    for begins, ends in _marked(text):
        yield text[start:begins]
        yield f" {_hidden(text[begins:ends])} "
        start = ends
    yield text[start:]


def _marked(text: str) -> list[tuple[int, int]]:
    """Find the (start, end) spans of code and mathematics, marks included, sorted and without overlap."""
    marks = list(_MARK.finditer(text))
    # Kind of mark -> its last place, to ignore marks that nothing closes.
    last = {_kind(mark[0]): mark.start() for mark in marks}
    found: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    closer = ""
    for mark in marks:
        token = mark[0]
        if opened is None:
            closer = _closer(token)
            may_be_closed = closer != "" and last.get(_kind(closer), -1) > mark.start()
            if may_be_closed and _opens(mark):
                opened = mark
        elif token == closer or (_is_fence(closer) and token.startswith(closer)):
            if _closes(mark):
                _append(found, text, opened.start(), mark.end())
                opened = None
        elif token == "\n" and opened[0] in _LINE_MARKS:
            opened = None
    return found


def _kind(token: str) -> str:
    """Return a mark without the length of a fence, since a longer fence may close a shorter fence."""
    return token[:3] if token[0] in "`~" else token


def _is_fence(token: str) -> bool:
    return token.startswith(("```", "~~~"))


def _append(found: list[tuple[int, int]], text: str, begins: int, ends: int) -> None:
    """Add a span, and merge it with the previous span if only white space lies between: `$a$ $b$`."""
    if found:
        earlier_begins, earlier_ends = found[-1]
        is_near = begins - earlier_ends <= MAX_GAP_CHARS
        if is_near and not text[earlier_ends:begins].strip():
            found.pop()
            begins = earlier_begins
    found.append((begins, ends))


def _closer(token: str) -> str:
    """Return the closing mark of an opening mark; empty if the mark opens nothing."""
    if _is_fence(token):
        return token
    if token.startswith(r"\begin"):
        return token.replace(r"\begin", r"\end")
    return _CLOSERS.get(token, "")


def _opens(mark: re.Match[str]) -> bool:
    """Reject an opening dollar before a space, since `$ 5` is a price."""
    if mark[0] != "$":
        return True
    after = mark.string[mark.end() : mark.end() + 1]
    return not after.isspace()


def _closes(mark: re.Match[str]) -> bool:
    """Reject a closing dollar after a space or before a digit, so that two prices make no formula."""
    if mark[0] != "$":
        return True
    before = mark.string[mark.start() - 1]
    after = mark.string[mark.end() : mark.end() + 1]
    return not before.isspace() and not after.isdigit()


def _hidden(marked: str) -> str:
    r"""Return the prose inside a span of code or mathematics.

    A span that reads as prose counts in full. In any other span, text in `\text{}` counts from `MIN_WORDS` words on,
    and words in scripts other than Latin and Greek always count.
    """
    plain = _ENVIRONMENT.sub(" ", marked)
    plain = _COMMAND.sub(" ", plain)
    plain = plain.translate(_NO_MARKS).strip("\\[](){} \n")
    words = _words_in(plain)
    words_in_runs = sum(_words_in(run) for run in _RUN.findall(plain))
    if words >= MIN_WORDS and words_in_runs >= RUN_SHARE * words:
        return plain
    if words >= MIN_PLAIN_WORDS and not _SYMBOL.search(plain):
        return plain
    texts = " ".join(_TEXT.findall(marked))
    if _words_in(texts) >= MIN_WORDS:
        rest = _TEXT.sub(" ", marked)
        return f"{texts} {_LATIN_OR_GREEK.sub(' ', rest)}"
    return _LATIN_OR_GREEK.sub(" ", marked)


def _words_in(text: str) -> int:
    return len(_WORD.findall(text))


@dataclass(slots=True)
class Passage:
    """A passage of prose, made of one script's words in one or several sentences.

    Attributes:
        script: One of `SCRIPTS`, `CJK`, or `other`.
        words: The words, in order.
        weight: The number of words; an estimate for scripts without spaces between words.
        chars: The number of characters of all words.
    """

    script: str
    words: list[str] = field(default_factory=list)
    weight: float = 0.0
    chars: int = 0

    @property
    def text(self) -> str:
        return " ".join(self.words)


def passages(prose: str) -> list[Passage]:
    """Split prose into passages: sentences, merged up to `PASSAGE_WORDS` words and separated by script.

    Examples:
        >>> [(passage.script, passage.text) for passage in passages("The price is 5, 也就是说。")]
        [('Latin', 'The price is'), ('CJK', '也就是说')]
    """
    done: dict[str, list[Passage]] = {}
    open_passages: dict[str, Passage] = {}
    for script, word in _tokens(prose):
        if script == "end":
            for name, passage in list(open_passages.items()):
                if passage.weight >= PASSAGE_WORDS:
                    done.setdefault(name, []).append(passage)
                    del open_passages[name]
            continue
        weight = _weight(script, word)
        if not weight:
            continue
        passage = open_passages.setdefault(script, Passage(script))
        passage.words.append(word)
        passage.weight += weight
        passage.chars += len(word)
        if passage.weight >= MAX_PASSAGE_WORDS or passage.chars >= MAX_PASSAGE_CHARS:
            done.setdefault(script, []).append(passage)
            del open_passages[script]
    for script, passage in open_passages.items():
        done.setdefault(script, []).append(passage)
    return list(chain.from_iterable(done.values()))


def word_count(passages: Iterable[Passage], outside: Collection[str] = ()) -> float:
    """Count the words in scripts not listed in `outside`; all words by default.

    Examples:
        >>> found = passages("The price is 5, 也就是说。")
        >>> word_count(found), word_count(found, outside=["Latin"])
        (5.0, 2.0)
    """
    return sum(
        (passage.weight for passage in passages if passage.script not in outside), 0.0
    )


def _tokens(prose: str) -> Iterator[tuple[str, str]]:
    patterns = _patterns()
    visible = patterns.invisible.sub("", prose)
    plain = patterns.common.sub(_nfkc, visible)
    for token in patterns.words.finditer(plain):
        yield token.lastgroup, token[0]


def _nfkc(letter: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", letter[0])


class _Patterns(NamedTuple):
    """Patterns of the package `regex`."""

    words: Any
    invisible: Any
    common: Any


@cache
def _patterns() -> _Patterns:
    # Python's `re` has no classes for scripts; `regex`, which transformers installs, has. It is imported at first use.
    regex = import_module("regex")

    more = MAX_WORD_CHARS - 1
    groups = [
        rf"(?P<{script}>\p{{{script}}}[\p{{{script}}}\p{{M}}'’]{{0,{more}}}+)"
        for script in SCRIPTS
    ]
    groups.insert(1, rf"(?P<CJK>[{CJK}]{{1,{MAX_WORD_CHARS}}}+)")
    groups.insert(0, rf"(?P<symbols>{_GREEK_SYMBOLS})")
    groups.append(rf"(?P<other>\p{{L}}[\p{{L}}\p{{M}}]{{0,{more}}}+)")
    groups.append(r"(?P<end>[.!?。！？।؟։\n])")
    # Invisible characters, such as zero-width spaces, could split each word.
    invisible = regex.compile(r"\p{Cf}+")
    # Letters without a script stand for letters that have one, such as the µ of µm.
    common = regex.compile(r"(?=\p{L})\p{Common}")
    return _Patterns(regex.compile("|".join(groups)), invisible, common)


def _weight(script: str, word: str) -> float:
    """Estimate the word count of a letter run; symbols such as `x`, `ABC` or `cos` count 0."""
    if script == "symbols":
        return 0.0
    if script == "CJK":
        return len(word) / 2
    if script in UNSPACED:
        return len(word) / 5
    if len(word) == 1:
        return 0.0
    is_abbreviation = len(word) <= 4 and word.isupper()
    if script == "Latin" and (is_abbreviation or word in FUNCTIONS):
        return 0.0
    # No word of a spaced script is that long: the run lacks its spaces.
    if len(word) > 30:
        return len(word) / 6
    return 1.0
