r"""Write number sets told in words as intervals: "x is greater than 2 and at most 5" becomes `$(2, 5]$`."""

from __future__ import annotations

import re

from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import contains_any

# Characters at the end of a text that are rewritten.
_MAX_CHARS = 1_000
_NUMBER = r"[-−]?(?:\d+(?:\.\d+)?(?:\s?/\s?\d+)?|\\[dt]?frac\{-?\d+\}\{\d+\}|√\d+|\\sqrt\{\d+\}|\\?pi\b|π)"
_VALUE = rf"\$?({_NUMBER})\$?(?![\w.]*\d)"
_ITEM = rf"\$?(?:[a-z]\s*=\s*)?(?:±|\\pm\s?)?{_NUMBER}\$?"
_ITEMS = rf"({_ITEM}(?:(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+){_ITEM})*)"
_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+")
_BOTH_SIGNS = re.compile(r"±|\\pm\s?")
_REALS = (
    r"\b(?:(?:all|any|every|the)\s+)?(?:real\s+)?(?:numbers?|values?|reals)"
    r"(?:\s+(?:of\s+)?\$?[a-z]\$?(?![a-z]))?"
)
# "all real numbers except 2 and 3", "x cannot be 2", "x ≠ 2, 3"
_EXCEPTED = re.compile(
    rf"(?:{_REALS},?\s+(?:except(?:\s+for)?|other\s+than|but|excluding|(?:that\s+are\s+)?not\s+equal\s+to)\s+(?:when\s+|where\s+)?"
    rf"|\b[a-z]\s+(?:cannot|can['’]t|must\s+not)\s+(?:be|equal)\s+"
    # A set "{x | x ≠ 2}" and an inequality with a single value are read as they are.
    rf"|(?<!\|\s)(?<!mid\s)(?<!:\s)\$?\b[a-z]\s*(?:≠|!=|\\neq?(?![a-z]))\s*(?={_ITEM}\s*(?:,|and\b|or\b)|±|\\pm)){_ITEMS}",
    re.IGNORECASE,
)
_MORE = r"(?:greater|larger|bigger|more|higher)\s+than"
_LESS = r"(?:less|smaller|lower)\s+than"
# The longer phrase comes first.
_SIGNS = {
    ">=": rf"{_MORE}\s+or\s+equal\s+to|at\s+least|not?\s+{_LESS}",
    "<=": rf"{_LESS}\s+or\s+equal\s+to|at\s+most|not?\s+{_MORE}",
    ">": _MORE,
    "<": _LESS,
}
_BOUND = rf"(?:(?:strictly|is|are)\s+){{0,2}}({'|'.join(_SIGNS.values())})\s+{_VALUE}"
# "all real numbers greater than or equal to 1", "x is less than 1 or greater than 3"
_BOUNDED = re.compile(
    rf"(?:{_REALS}\s+(?:(?:that|which)\s+are\s+)?|\b\$?[a-z]\$?\s+(?=is\b|must\s+be\b|can\s+be\b)(?:(?:must|can)\s+be\s+)?)"
    rf"{_BOUND}(?:,?\s+(?:and|but|(or))\s+(?:\$?[a-z]\$?\s+(?=is\b))?{_BOUND})?",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    rf"\b(?:strictly\s+between\s+{_VALUE}\s+and\s+{_VALUE}|between\s+{_VALUE}\s+and\s+{_VALUE},?\s+\(?inclusive\b\)?)",
    re.IGNORECASE,
)
# "all real numbers x such that" before a condition, which alone names the set
_SUCH_THAT = re.compile(
    r"\b(?:the\s+set\s+of\s+)?(?:all|any|every)\s+real\s+(?:numbers?\s+|values?\s+)?(?:of\s+)?"
    r"(?:\$?[a-z]\$?\s+(?:such\s+that|where|with|for\s+which|satisfying)\s+)?"
    r"(?=\$?[a-z]\s*(?:[≥≤<>]|\\[gl]eq?\b|\\[gl]t\b|is\s))",
    re.IGNORECASE,
)
_EVERY = re.compile(
    r"\b(?:the\s+set\s+of\s+)?(?:all|any|every|each)\s+(?:real\s+(?:numbers?|values?)\b|reals\b|real\s+(?=\$?[a-z]\b))"
    r"(?:\s+(?:of\s+)?\$?[a-z]\$?(?![a-z]))?|(?<=\bfor\s)(?:all|any|every)\s+(?:values?\s+of\s+)?\$?[a-z]\$?(?![a-z])",
    re.IGNORECASE,
)
_SIGNED = re.compile(
    r"\ball\s+(positive|negative|non-?negative|non-?positive)\s+(?:real\s+)?(?:numbers|reals|values)\b(?:\s+of\s+\$?[a-z]\$?)?",
    re.IGNORECASE,
)
_OF_SIGN = {
    "positive": r"(0, \infty)",
    "negative": r"(-\infty, 0)",
    "nonnegative": r"[0, \infty)",
    "nonpositive": r"(-\infty, 0]",
}
_EMPTY = re.compile(
    r"\bsolution set is (?:the )?empty(?: set)?\b|\bno solutions? exists?\b", re.IGNORECASE
)
# Every phrase of a number set contains one of these; this cheap test avoids slow expressions.
_CLUES = (
    "all",
    "any",
    "every",
    "each",
    "except",
    "excluding",
    "other",
    "but",
    "equal",
    "can",
    "must",
    "≠",
    "!=",
    "\\ne",
    "than",
    "least",
    "most",
    "between",
    "solution",
    "lies",
    "falls",
)
_LIES_IN = re.compile(r"\b(?:lies|falls)\s+(?:in|within)\b", re.IGNORECASE)
_TEXT = re.compile(r"\\text\s?\{([^{}$\\]*)\}")


def in_intervals(text: str) -> str:
    r"""Write the number sets that a text's end tells in words as intervals.

    Examples:
        >>> in_intervals("The range is all real numbers greater than or equal to 1.")
        'The range is $[1, \\infty)$.'
        >>> in_intervals("x can be any real number except 2.")
        'x can be $(-\\infty, 2) \\cup (2, \\infty)$.'
        >>> in_intervals("x is greater than 2 and at most five.")
        '$(2, 5]$.'
    """
    end = in_digits(_TEXT.sub(r"\1", text[-_MAX_CHARS:]))
    if not contains_any(end, _CLUES):
        return text
    rewritten = _EXCEPTED.sub(_without_items, _SUCH_THAT.sub("", end))
    rewritten = _BOUNDED.sub(_interval, rewritten)
    rewritten = _BETWEEN.sub(_interval_between, rewritten)
    rewritten = _SIGNED.sub(_of_sign, rewritten)
    rewritten = _EMPTY.sub("no solution", _EVERY.sub(r"$\\mathbb{R}$", rewritten))
    rewritten = _LIES_IN.sub("is in", rewritten)
    return text if rewritten == end else text[:-_MAX_CHARS] + rewritten


def _without_items(found: re.Match[str]) -> str:
    """Return all numbers but the listed ones: two intervals beside one number, else the common part of such pairs."""
    items = _SEPARATOR.split(found[1].replace("$", ""))
    parts = []
    for item in items:
        value = item.rpartition("=")[2].strip()
        sign = _BOTH_SIGNS.match(value)
        values = [value[sign.end() :], f"-{value[sign.end() :]}"] if sign else [value]
        parts += [rf"((-\infty, {each}) \cup ({each}, \infty))" for each in values]
    if len(parts) == 1:
        return f"${parts[0][1:-1]}$"
    return "$" + r" \cap ".join(parts) + "$"


def _of_sign(found: re.Match[str]) -> str:
    return f"${_OF_SIGN[found[1].casefold().replace('-', '')]}$"


def _interval(found: re.Match[str]) -> str:
    """Return the interval of one bound, the common part of two, or both intervals if "or" joins them."""
    phrase, value, is_either, second, other = found.groups()
    if second is None:
        return f"${_ray(phrase, value)}$"
    if is_either:
        return rf"${_ray(phrase, value)} \cup {_ray(second, other)}$"
    bounds = {_sign(phrase)[0]: _ray(phrase, value), _sign(second)[0]: _ray(second, other)}
    if len(bounds) < 2:
        return found[0]
    low, high = bounds[">"].partition(",")[0], bounds["<"].rpartition(",")[2]
    return f"${low},{high}$"


def _interval_between(found: re.Match[str]) -> str:
    low, high, first, last = found.groups()
    return f"$({low}, {high})$" if low else f"$[{first}, {last}]$"


def _ray(phrase: str, value: str) -> str:
    """Return the interval of all numbers on one side of a value."""
    rays = {
        ">=": rf"[{value}, \infty)",
        "<=": rf"(-\infty, {value}]",
        ">": rf"({value}, \infty)",
        "<": rf"(-\infty, {value})",
    }
    return rays[_sign(phrase)]


def _sign(phrase: str) -> str:
    """Return the sign of a bound's words."""
    for sign, words in _SIGNS.items():
        if re.fullmatch(words, phrase, re.IGNORECASE):
            return sign
    raise ValueError(f"{phrase!r} is no bound.")
