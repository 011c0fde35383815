"""Prose cut into windows of one script each, long enough to tell their language.

Everything here takes time linear in the length of its input.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

WINDOW_WORDS = 12  # a window ends with the first sentence that makes it as long
MAX_WINDOW_WORDS = 50  # or here, without one
MAX_WINDOW_CHARS = 600
MAX_WORD_CHARS = 100  # a longer one is cut

# Chinese and Japanese share Han characters, so they are one script here, and so is all that Japanese is written in.
CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\u30fc"
SCRIPTS = (
    *("Latin", "Cyrillic", "Arabic", "Hangul", "Devanagari", "Greek", "Hebrew", "Thai", "Bengali", "Tamil"),
    *("Telugu", "Kannada", "Malayalam", "Gujarati", "Gurmukhi", "Oriya", "Sinhala", "Khmer", "Lao", "Myanmar"),
    *("Tibetan", "Georgian", "Armenian", "Ethiopic"),
)
FUNCTIONS = frozenset(  # a formula without its marks is no prose
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh"),
        *(
            "log",
            "ln",
            "lg",
            "exp",
            "sqrt",
            "max",
            "min",
            "sup",
            "inf",
            "lim",
            "mod",
            "gcd",
            "lcm",
            "det",
            "ker",
            "dim",
        ),
    )
)
# Up to three Greek letters without accents, with no Greek word before or after them, such as αβγ or Δθ: symbols. In
# Greek prose a word has neighbours.
_GREEK_LETTER = "[\u0391-\u03a9\u03b1-\u03c9\u03d0-\u03d6\u03f0-\u03f5\u2126]"
_GREEK_SYMBOLS = (
    rf"(?={_GREEK_LETTER})(?<!\p{{Greek}}\p{{M}}?['’\s]{{0,2}}){_GREEK_LETTER}{{1,3}}+"
    r"(?![\p{M}'’]|\s{0,2}\p{Greek})"
)
UNSPACED = ("Thai", "Khmer", "Lao", "Myanmar", "Tibetan")


@dataclass(slots=True)
class Window:
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

    def add(self, word: str, weight: float) -> None:
        self.words.append(word)
        self.weight += weight
        self.chars += len(word)


def windows(prose: str) -> list[Window]:
    """The words of a prose, by script, in windows of a sentence or more.

    Example:
        >>> [(window.script, window.text) for window in windows("The price is 5, 也就是说。")]
        [('Latin', 'The price is'), ('CJK', '也就是说')]
    """
    done: dict[str, list[Window]] = {}
    open_windows: dict[str, Window] = {}
    for script, word in _tokens(prose):
        if script == "end":
            for name in [name for name, window in open_windows.items() if window.weight >= WINDOW_WORDS]:
                done.setdefault(name, []).append(open_windows.pop(name))
            continue
        weight = _weight(script, word)
        if not weight:
            continue
        window = open_windows.setdefault(script, Window(script))
        window.add(word, weight)
        if window.weight >= MAX_WINDOW_WORDS or window.chars >= MAX_WINDOW_CHARS:
            done.setdefault(script, []).append(open_windows.pop(script))
    for script, window in open_windows.items():
        done.setdefault(script, []).append(window)
    return [window for named in done.values() for window in named]


def word_count(windows: Iterable[Window], outside: Collection[str] = ()) -> float:
    """How many words there are in other scripts than these.

    Example:
        >>> found = windows("The price is 5, 也就是说。")
        >>> word_count(found), word_count(found, outside=["Latin"])
        (5.0, 2.0)
    """
    return sum((window.weight for window in windows if window.script not in outside), 0.0)


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
