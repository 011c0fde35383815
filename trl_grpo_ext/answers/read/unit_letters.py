"""Separate a number from a one-letter unit that touches it: `36m` is no product if the question has metres."""

from __future__ import annotations

import re
from functools import lru_cache

from trl_grpo_ext.answers.read.units import is_unit, unit

# Characters at the end of a text that are searched for units.
_REACH = 2_000
# 36m, -2.5L, 600m^2, 30m/s, \text{36m}, 36m left
_GLUED = re.compile(
    r"(\s*(?:\\text\s*\{\s*)?[-\u2212]?\d[\d.,]*)([A-Za-z])"
    r"((?:\^?\{?[23]\}?|[²³])?(?:\s*/\s*[A-Za-z]{1,3}(?:\^?\{?[23]\}?|[²³])?)?(?:\s+[a-z]{2,}){0,2}[\s.}]*)"
)
# 36π m^2, 10\\pi m: letters behind a constant
_BEHIND_PI = re.compile(
    r"(\s*\$?\s*[-\u2212]?(?:\d[\d.,]*)?\s*(?:π|\\pi(?![a-z])))\s*(?:\\[,;]\s*)?([A-Za-z])((?:\^?\{?[23]\}?|[²³])?)([\s.$]*)"
)
# A unit behind a number, or a word that may be a unit's name: 9 m, 20cm, minutes
_SPOKEN = re.compile(
    r"\d(?:\s+([A-Za-z]{1,3})|([A-Za-z]{2,3}))(?![A-Za-z])|\b([A-Za-z]{4,})\b"
)


def with_unit_apart(text: str, spoken: str) -> str:
    """Write a space before a one-letter unit, if `spoken` has units of its measure; other texts are unchanged.

    Of a chain of equations, the last side is looked at.

    Examples:
        >>> with_unit_apart("36m", "A square has a side of 9 m."), with_unit_apart("36m", "Simplify 30m + 6m.")
        ('36 m', '36m')
        >>> with_unit_apart("30m/s", "How many metres is that in a second?"), with_unit_apart("36m", "9 g")
        ('30 m/s', '36m')
        >>> with_unit_apart("36π m²", "A circle has a radius of 6 m.")
        '36π \\\\text{ m}²'
    """
    sides, sign, last = text.rpartition("=")
    behind = _BEHIND_PI.fullmatch(last)
    if behind is not None and _is_spoken(behind[2], spoken):
        return rf"{sides}{sign}{behind[1]} \text{{ {behind[2]}}}{behind[3]}{behind[4]}"
    glued = _GLUED.fullmatch(last)
    if glued is None or not _is_spoken(glued[2], spoken):
        return text
    return f"{sides}{sign}{glued[1]} {glued[2]}{glued[3]}"


def _is_spoken(letter: str, spoken: str) -> bool:
    """Check whether a letter is a unit whose measure `spoken` has too."""
    if not is_unit(letter):
        return False
    measures = {measure for measure, _ in unit(letter).measures}
    return measures <= _measures(spoken[-_REACH:])


@lru_cache(maxsize=256)
def _measures(text: str) -> frozenset[str]:
    """Collect the measures of the units in a text: length, time."""
    found: set[str] = set()
    for groups in _SPOKEN.findall(text):
        word = "".join(groups)
        if is_unit(word):
            found.update(measure for measure, _ in unit(word).measures)
    return frozenset(found)
