"""Read ranges, remainders and ratios as separate types: `20-25` is no difference, `7 remainder 2` is not 2."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Node,
    Number,
    Quantity,
    Range,
    Relation,
    Remainder,
    Symbol,
)

_AMOUNT = r"\\?\$?\d+(?:,\d{3})*(?:\.\d+)?%?"
_REST = r"(?:\s*,?\s*(?:with|and)?\s*(?:a |the )?remainder(?:\s+(?:is|of))?|\s*rem\.?|\s*R)\s*[:=]?\s*"
# 5 with 3 left over
_WITH, _OVER = r"\s+(?:with|and)\s+", r"\s+(?:left over|leftover|remaining|to spare)\b"
_TO = r"\s+(?:to|(?:up )?through|up to)\s+(?:pages?\s+)?"
_INCLUSIVE = r",?\s+\(?inclusive\b\)?"
# Patterns with which `find` searches sentences.
RANGE = (
    rf"(?:(?:\b(?:from|between)\s+)?(?<![\w.,^/-]){_AMOUNT}(?:\s*(?:--?|–)\s*|{_TO}){_AMOUNT}(?![\w./^]|:\d)"
    rf"|\bbetween\s+{_AMOUNT}\s+and\s+{_AMOUNT}(?![\w./^]))(?:{_INCLUSIVE})?"
)
_THINGS = r"(?:\s+[a-z]+){0,3}?"
REMAINDER = rf"(?<![\d.])\d+(?:{_REST}\d+(?!\.?\d)|{_THINGS},?{_WITH}\d+{_THINGS}{_OVER})"
RATIO = (
    r"(?<![\d.])\d+(?:\s[a-z]+){0,2}\s(?:for|to)\severy\s\d+(?!\.?\d)(?:\s[a-z]+)?"
    r"|(?<![\d.])\d+\sparts?(?:\s[a-z]+){0,2}\sto\s\d+\sparts?"
    r"|\bfor\severy\s\d+(?:\s[a-z]+){1,4},?\sthere\s(?:is|are)\s\d+(?!\.?\d)(?:\s[a-z]+)?"
)
_RATIO = re.compile(
    r"(?:for every\s)?(\d+)\D+?\s(?:every|is|are|to)\s(\d+)(?:\s[a-z]+)?", re.IGNORECASE
)
_RATIO_SAID = re.compile(RATIO, re.IGNORECASE)
_RANGE = re.compile(
    rf"(?:from\s+)?({_AMOUNT})(?:--?|{_TO}|(?<!-)\s+-\s+)({_AMOUNT})((?:[\s,]|\\[ ,]).*)?"
    rf"|between\s+({_AMOUNT})\s+and\s+({_AMOUNT})((?:[\s,]|\\[ ,]).*)?",
    re.IGNORECASE | re.DOTALL,
)
_REMAINDER = re.compile(
    rf"(?:the\s+)?(?:quotient(?:\s+(?:is|of|=))?\s*[:=]?\s*)?(\d+){_REST}(\d+)|(\d+){_THINGS},?{_WITH}(\d+){_THINGS}{_OVER}",
    re.IGNORECASE,
)


def read_range(text: str, read: Callable[[str], Node]) -> Range | Collection | None:
    """Read a range with rising bounds; None for texts without range, such as `5-3`.

    A range with the word "inclusive" is a closed interval.

    Args:
        text: A text without commands.
        read: Reads an end of the range, with the range's unit appended.

    Examples:
        >>> of = lambda text: Number(Fraction(text.strip("%")))
        >>> read_range("20 to 25", of) == read_range("between 20 and 25", of) == read_range("20-25", of)
        True
        >>> read_range("25-20", of), read_range("20 - 25", of) is None
        (None, False)
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    groups = found.groups()
    low, high, rest = groups[:3] if found[1] else groups[3:]
    # 5-10% is 5% to 10%.
    if high.endswith("%") and not low.endswith("%"):
        low += "%"
    is_closed = re.fullmatch(_INCLUSIVE, rest or "", re.IGNORECASE)
    behind = "" if is_closed else rest or ""
    lower = read(low + behind)
    upper = read(high + behind)
    least = _size(lower)
    most = _size(upper)
    if least is None or most is None or least >= most:
        return None
    return Collection("[]", (lower, upper)) if is_closed else Range(lower, upper)


def _size(node: Node) -> Fraction | None:
    match node:
        case Number(value) | Quantity(Number(value)) | Apply("%", (Number(value),)):
            return value
    return None


def read_remainder(text: str) -> Remainder | None:
    """Read a quotient with a remainder; None for other texts.

    Examples:
        >>> read_remainder("7 R 2") == read_remainder("7 with a remainder of 2") == read_remainder("7 remainder 2")
        True
    """
    found = _REMAINDER.fullmatch(text)
    if found is None:
        return None
    groups = found.groups()
    quotient, rest = groups[:2] if found[1] else groups[2:]
    return Remainder(Number(Fraction(quotient)), Number(Fraction(rest)))


def read_ratio(text: str) -> Node | None:
    """Read a ratio in words: `3 cats for every 2 dogs`; None for other texts."""
    if not _RATIO_SAID.fullmatch(text):
        return None
    found = _RATIO.fullmatch(text)
    if found is None:
        return None
    above = Number(Fraction(found[1]))
    below = Number(Fraction(found[2]))
    return Apply("ratio", (above, below))


def ends_of(node: Node) -> tuple[Node, ...]:
    """Return a range's two ends, or a collection's items; an empty tuple for other nodes."""
    match node:
        case Range(low, high):
            return low, high
        case Collection(_, items):
            return items
    return ()


def as_range(node: Node) -> Node:
    """Return `19 <= T <= 23` as a range; other nodes unchanged."""
    match node:
        case Relation(("<=", "<="), (low, Symbol(), high)) | Relation(
            (">=", ">="), (high, Symbol(), low)
        ):
            return Range(low, high)
    return node


def is_same_range(gold: Node, answer: Node) -> bool | None:
    """Compare a range with a ratio: `2 to 3` may mean either; None for other pairs."""
    match gold, answer:
        case (Range(low, high), Apply("ratio", (one, other))) | (
            Apply("ratio", (one, other)),
            Range(low, high),
        ):
            return (low, high) == (one, other)
    return None
