"""Write intercepts as the values of their axes, if the question asks for them: `(0, -8)` as `y = -8`."""

from __future__ import annotations

import re
from functools import lru_cache

# Characters at the end of a text that are read.
_MAX_CHARS = 1_000
# Characters before a point that may name it.
_LABEL = 40
_INTERCEPT = r"([xy])\s?-?\s?intercepts?\b"
_BESIDE = r"(?:(?:the|all|any|both|its|coordinates?|points?|values?|of|real|exact|and|[xy]|intercepts?)\b[\s,-]*)*"
# "Find the x- and y-intercepts", not "the line with x-intercept 4"
_ASKED = re.compile(
    r"\b(?:find|what(?:\s(?:is|are)|['’]s)|determine|identify|give|state|calculate|compute|name|list)"
    rf"\s+({_BESIDE}){_INTERCEPT}"
    r"|\b(?:where|at (?:what|which) points?)\b[^.?!]{1,80}"
    r"\b(?:cross|crosses|intersects?|meets?|hits?)\s+the\s+([xy])\s?-?\s?axis",
    re.IGNORECASE,
)
_AXIS = re.compile(r"\b([xy])(?=\s?-|\s?intercept)")
_VALUE = r"[^(),;=\n]{1,40}?"
_POINT = re.compile(
    rf"(?<![\w)])(?:\\left)?\(\s?({_VALUE})\s?,\s?({_VALUE})\s?(?:\\right)?\)"
)
_NUMERAL = re.compile(r"[-−+]?\d+(?:[./]\d+)?")
# The words of a label before a point
_NAMED = re.compile(rf"\b{_INTERCEPT}(?:\W|\b(?:is|are|at|the|point)\b){{0,30}}\Z")
# "the x-intercept is at x = 6"
_VALUE_NAMED = re.compile(
    r"\b([xy])-intercept(?:\s(?:is|occurs))?(?:\sat)?[:\s]\s?\1\s?=\s?"
)
_NUMBER_NAMED = re.compile(
    rf"\b{_INTERCEPT}(?:\s(?:is|are|occurs))?(?:\sat)?\s?:?\s?(?=[-−\d])"
)


def with_intercepts(
    golds: tuple[str, ...], completion: str, prompt: str
) -> tuple[tuple[str, ...], str]:
    """Write the points in golds and in a completion's end as intercepts, if a question asks for these.

    Examples:
        >>> with_intercepts(("-8",), "The y-intercept is (0, -8).", "What is the y-intercept of y = x - 8?")
        (('-8',), 'The y-intercept is y = -8.')
        >>> asked = "Find the x- and y-intercepts of 2x + 3y = 12."
        >>> with_intercepts(("(6, 0) and (0, 4)",), "(6, 0), (0, 4)", asked)[0]
        ('x-intercept 6 and y-intercept 4',)
    """
    axes = _axes_asked(prompt[-_MAX_CHARS:])
    # Several points on an axis have no names of their own.
    is_one_each = len(axes) < 2 or all(len(_POINT.findall(gold)) <= 2 for gold in golds)
    if not axes or not is_one_each:
        return golds, completion
    written = tuple(_written(gold, axes) for gold in golds)
    end = completion[-_MAX_CHARS:]
    return written, completion[:-_MAX_CHARS] + _written(end, axes)


@lru_cache(maxsize=1024)
def _axes_asked(prompt: str) -> str:
    """Return the axes whose intercepts a question asks for: `x`, `y` or `xy`; empty without such a question."""
    asked = _ASKED.search(prompt.replace("$", ""))
    if asked is None:
        return ""
    beside, axis, crossed = asked.groups()
    named = {axis or crossed, *_AXIS.findall(beside or "")}
    return "".join(sorted(name.casefold() for name in named))


def _written(text: str, axes: str) -> str:
    """Write the points of axes in a text by their values, and name the axes."""
    if len(axes) == 1:
        named = _NUMBER_NAMED.sub(lambda name: _value_named(axes, name), text)
        return _POINT.sub(lambda point: _value_on(axes, point), named)
    named = _VALUE_NAMED.sub(r"\1-intercept is ", text)
    return _POINT.sub(_with_name, named)


def _value_named(axis: str, name: re.Match[str]) -> str:
    """Write the other axis before its intercept's value: "The x-intercept is x = 3"."""
    return name[0] if name[1] == axis else f"{name[0]}{name[1]} = "


def _value_on(axis: str, point: re.Match[str]) -> str:
    """Write a point of an axis as the axis's value; other points unchanged."""
    value, zero = point.groups() if axis == "x" else point.groups()[::-1]
    if zero == "0":
        return f"{axis} = {value}"
    # A point off the axis is no list of intercepts.
    is_point = all(map(_NUMERAL.fullmatch, point.groups()))
    return f"(x, y) = {point[0]}" if is_point else point[0]


def _with_name(point: re.Match[str]) -> str:
    """Write a point of one axis as the named intercept; unchanged behind the name of the other axis."""
    first, second = point.groups()
    if (first == "0") == (second == "0"):
        # A point of no axis gives the intercepts no values.
        are_named = "intercept" in point.string
        return point[0] if are_named else f"x-intercept {point[0]}"
    axis, value = ("x", first) if second == "0" else ("y", second)
    named = _NAMED.search(point.string[max(0, point.start() - _LABEL) : point.start()])
    if named is None:
        return f"{axis}-intercept {value}"
    return value if named[1] == axis else point[0]
