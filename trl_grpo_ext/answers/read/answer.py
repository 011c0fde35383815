r"""Read a whole answer as a typed value with its unit and the words around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from trl_grpo_ext.answers.read.moments import WITHIN, read_date, read_time
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import contains_any
from trl_grpo_ext.answers.read.spans import read_range, read_ratio, read_remainder
from trl_grpo_ext.answers.read.spelling import (
    TEXTS,
    Rewritings,
    rewritten,
    spelled,
    strip_delimiters,
    with_money,
    without_label,
    without_text_commands,
)
from trl_grpo_ext.answers.read.statements import Statements
from trl_grpo_ext.answers.read.structures import OperatorError, SideBySideError
from trl_grpo_ext.answers.read.tokens import Token, UnreadableError, tokens
from trl_grpo_ext.answers.read.tree import Collection, Node, Number, Opaque, Words
from trl_grpo_ext.answers.read.units import is_unit
from trl_grpo_ext.answers.read.working import with_unit_letters, with_units

# Longer texts are cut: no honest answer needs more.
MAX_CHARS = 2_000
_SPACES = re.compile(r"\\[ ,;:!]|~")
# Longer texts are not tried as a date, a time, a remainder or a range.
MAX_TYPED = 80
_INTEGER = re.compile(r"[0-9]{1,18}")
_SAME = re.compile(
    r"(?:,|\bor\b|\(|\\text\s*\{)?\s*\b(?:i\.e\.|or equivalently|equivalently|that is,)\s*,?",
    re.IGNORECASE,
)
# Every such phrase contains a word of these; this cheap test avoids the slow expression.
_SAME_WORDS = ("i.e.", "equivalently", "that is,")
_PER_CENT = re.compile(r"(?<![A-Za-z])per\s+cent\b", re.IGNORECASE)
_PARTS = re.compile(r"(?:^|(?<=[\s;,.]))\(([a-h1-8])\)(?:\s|\\[ ,;:])*")
# Beside a letter, these words make a statement about the letter: `no such n`.
_TELLING = frozenset("no not all every any each none odd even prime only composite".split())  # noqa: SIM905
_PUNCTUATION = (".", ",", "'", "-", '"', "!", "?", "$", ";")
_CLOSING = re.compile(r"(?:\\[,;:! ]|[\s.,;])+\Z")
# Signs of formulas, which no date, time, place, remainder or ratio has.
_FORMULA = re.compile(r"[\\^{}+*]")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}")
_PLACE = re.compile(
    r"(?:in |on |at )?(?:the )?(\d{1,9})(?:st|nd|rd|th)(?: (?!power|root|degree|order)[a-z]+)?",
    re.IGNORECASE,
)
# A dollar without a closing dollar means money.
_LONE_DOLLAR = re.compile(r"\A([^$\d\\=]*)\$(?=\s*\d[^$]*\Z)")


def _units_side_by_side(fraction: re.Match[str]) -> str:
    r"""Write a fraction of units in one line: `\frac{km}{h}` as `\text{km/h}`."""
    above, below = fraction[2], fraction[3]
    are_units = is_unit(above) and is_unit(below)
    return rf"\text{{ {above}/{below} }}" if are_units else fraction[0]


# Rewritings of a text before `spelled`.
_EARLY: Rewritings = (
    # 135 min (2 h 15 min), not 4ab(3 - 2a)
    (
        "(",
        re.compile(r"(?<=\d)(\s?[a-z²³]+)\s*\((\d[^-−+*^()]{0,40}[a-z²³])\)\s*\Z"),
        r"\1 (i.e. \2)",
    ),
    # \frac{km}{h}
    (
        "frac",
        re.compile(
            r"\\[dt]?frac\s*\{\s*(\\(?:text|mathrm)\{)?([A-Za-z]+)\}?\}\s*\{\s*(?:\1)?([A-Za-z]+)\}?\}"
        ),
        _units_side_by_side,
    ),
    ("degree", re.compile(r"(?<=\d)\s?degrees?\s(?=[CF]\b)"), "°"),
)
# Rewritings of a text that is spelled as usual.
_SAME_IN_BRACKETS: Rewritings = (
    (
        "(",
        re.compile(
            r"\(\s*(?:or|i\.e\.|that is|equivalently|=)[,:]?\s+([^()]{1,80})\)",
            re.IGNORECASE,
        ),
        r" \\same \1",
    ),
)
# Rewritings of a text that is spelled as usual and has no delimiters.
_LATE: Rewritings = (
    (
        "(",
        re.compile(
            r"\(\s*(?:about|approximately|approx\.?|roughly|≈|\\approx)\s*([^()]{1,60})\)",
            re.IGNORECASE,
        ),
        r"\\approx \1",
    ),
    # \text{Plan B}, \textbf{Bag II}: a name that ends with a letter is read as without the command.
    (
        "\\",
        re.compile(
            rf"\A\\(?:{'|'.join(sorted(TEXTS))})\{{\s*((?:[A-Z]?[a-z]+\s+)*(?:[A-Z]|[IVX]+))\s*\}}\Z"
        ),
        r"\1",
    ),
    # 1.5 x 10^3
    ("10", re.compile(r"(?<=\d)\s*x\s*(?=10\s*(?:\^|\*\*))"), r"\\times "),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's value with qualifying words.

    Attributes:
        node: The value.
        stray: Words beside the value that may change its meaning, in lower case.
        counted: Words after a number that name the counted things, such as `apples`, in lower case.
        whole: Letters that the answer declares to be any integer or number.
        domain: The numbers these letters range over: `Integers`, `even`.
    """

    node: Node
    stray: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    domain: frozenset[str] = frozenset()


@lru_cache(maxsize=8192)
def read(text: str) -> Answer:
    r"""Read a text as a value; text without mathematics becomes `Words` or `Opaque`.

    Examples:
        >>> read(r"\frac{1}{2}").node, read("12 apples").counted, read("5 is wrong").stray
        (Number(value=Fraction(1, 2), places=None), frozenset({'apples'}), frozenset({'wrong'}))
        >>> read("5 km") == read(r"5\,\mathrm{km}"), read("{1, 2}").node.kind, read("forty two").node
        (True, 'list', Number(value=Fraction(42, 1), places=None))
    """
    # Most answers are integers; the general path gives the same result ten times slower.
    if _INTEGER.fullmatch(text):
        return Answer(Number(Fraction(text)))
    plain = _plain(text[:MAX_CHARS])
    known = _of_own_type(plain)
    if known:
        return Answer(known)
    parts = _parts(plain) if plain.startswith("(") else ()
    if parts:
        return Answer(Collection("()", parts))
    try:
        row = tokens(plain)
    except UnreadableError:
        return Answer(Opaque(plain))
    said = [token for token in row if token.kind == "word"]
    if said and _tells_of_letter(row):
        return Answer(Words(" ".join(token.text.casefold() for token in row)))
    if said and all(token.kind == "word" or token.text in _PUNCTUATION for token in row):
        return Answer(_words(row))
    reader = Statements(with_unit_letters(row), plain)
    try:
        node = reader.answer()
    except OperatorError as operator:
        return Answer(Opaque(plain, str(operator)))
    except SideBySideError:
        return Answer(Words(plain))
    except (UnreadableError, RecursionError, ValueError):
        is_prose = len(said) > 1 and not any(
            token.kind in ("command", "function") for token in row
        )
        return Answer(_words(row) if is_prose else Opaque(plain))
    return Answer(
        with_units(node),
        *map(frozenset, (reader.stray, reader.counted, reader.whole, reader.domain)),
    )


def _plain(text: str) -> str:
    """Return an answer in the one spelling that `tokens` splits, without label, delimiters and closing marks."""
    text = rewritten(spelled(rewritten(text, _EARLY)), _SAME_IN_BRACKETS)
    if contains_any(text, _SAME_WORDS):
        text = _SAME.sub(r" \\same ", text)
    text = rewritten(strip_delimiters(text), _LATE)
    if "cent" in text.casefold():
        text = _PER_CENT.sub(r"\\%", text)
    text = without_label(text)
    # Most answers end with a letter or a digit.
    if not text[-1:].isalnum():
        text = _CLOSING.sub("", text)
    if "$" in text:
        text = _LONE_DOLLAR.sub(r"\\$\1", with_money(text))
    return in_digits(text)


def _parts(text: str) -> tuple[Node, ...]:
    """Read the parts of `(1) 2; (2) 3`, in order; an empty tuple for a text without labelled parts."""
    _, *rest = _PARTS.split(text)
    labels, values = "".join(rest[::2]), [value.strip(" ;,.\\") for value in rest[1::2]]
    if len(labels) < 2 or not names_parts(labels) or not all(values):
        return ()
    return tuple(read(value).node for value in values) if _PARTS.match(text) else ()


def names_parts(labels: str) -> bool:
    """Check whether labels count parts from the first on: `ab`, `123`."""
    return "abcdefgh".startswith(labels) or "12345678".startswith(labels)


def _tells_of_letter(row: tuple[Token, ...]) -> bool:
    """Check whether words make a statement about a letter that has no value: `no such n`, `all odd n`."""
    kinds = [token.kind for token in row]
    said = {token.text.casefold() for token in row if token.kind == "word"}
    return (
        kinds.count("symbol") == 1
        and kinds.count("word") == len(kinds) - 1
        and bool(said & _TELLING)
    )


def _words(row: tuple[Token, ...]) -> Node:
    said = [token.text.casefold() for token in row if token.text not in _PUNCTUATION]
    return Words(WITHIN.sub("", " ".join(said)))


def _of_own_type(text: str) -> Node | None:
    """Read a whole text as a date, time, remainder, ratio or range; None for other texts."""
    if len(text) > MAX_TYPED or not any(map(str.isdigit, text)):
        return None
    said = " ".join(
        _SPACES.sub(" ", without_text_commands(text.replace("{:}", ":"))).split()
    )
    if _FORMULA.search(said):
        return read_range(said, _read_end)
    if _DATE.fullmatch(said):
        return read_date(said) or Words(said)
    date = read_date(said)
    # 12th March is no place
    if date is None and (place := _PLACE.fullmatch(said)):
        return Number(Fraction(place[1]))
    return (
        date
        or read_time(said)
        or read_remainder(said)
        or read_ratio(said)
        or read_range(said, _read_end)
    )


def _read_end(text: str) -> Node:
    return read(text).node
