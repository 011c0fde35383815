"""Rewrite times of day from words to digits: `half past two` becomes `2:30 o'clock`, which is not read as a ratio."""

from __future__ import annotations

import re

_HOURS = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_MINUTES = {
    "half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25, "twenty five": 25,
}  # fmt: skip
_HOUR = rf"(?P<hour>{'|'.join(_HOURS)}|1[0-2]|[1-9])\b(?![:.]?\d)(?:\s+o['’]clock)?"
_MEASURED = rf"(?P<minutes>{'|'.join(sorted(_MINUTES, key=len, reverse=True))}|[0-5]?\d)"
# `ten to five` may be a range; `ten minutes to five` is a time.
_BESIDE_HOUR = re.compile(
    rf"\b(?:an?\s+)?{_MEASURED}(?P<named>[\s-]+minutes?)?[\s-]+(?P<side>past|after|to|till|before)\s+{_HOUR}",
    re.IGNORECASE,
)
_OF_DAY = re.compile(r"\s+(?:in the (?:morning|afternoon|evening)|at night)\b", re.IGNORECASE)
_FULL_HOUR = re.compile(rf"\b(?P<hour>{'|'.join(_HOURS)}|1[0-2]|[1-9])\s+o['’]clock\b", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:12\s+)?(noon|midnight)\b", re.IGNORECASE)


def clock_in_digits(text: str) -> str:
    """Rewrite a text's times of day in digits; return all other text unchanged.

    Examples:
        >>> clock_in_digits("at half past two"), clock_in_digits("a quarter to five"), clock_in_digits("ten to five")
        ("at 2:30 o'clock", "4:45 o'clock", 'ten to five')
        >>> clock_in_digits("ten minutes to five o'clock, or noon")
        "4:50 o'clock, or 12:00 pm"
    """
    if "past" in text or "after" in text or "to" in text or "till" in text or "before" in text:
        text = _BESIDE_HOUR.sub(_beside_hour, text)
    text = _FULL_HOUR.sub(lambda found: f"{_hour(found['hour'])}:00 o'clock", text)
    return _NAMED.sub(lambda found: f"12:00 {'pm' if found[1].casefold() == 'noon' else 'am'}", text)


def _beside_hour(found: re.Match[str]) -> str:
    said = found["minutes"].casefold()
    is_past = found["side"].casefold() == "past"
    is_named = found["named"] or _OF_DAY.match(found.string, found.end())
    is_sure = is_named or said == "quarter" or (is_past and said in _MINUTES)
    if not is_sure or (said == "half" and not is_past):
        return found[0]
    minutes = _MINUTES.get(said) or int(said)
    hour = _hour(found["hour"])
    if is_past or found["side"].casefold() == "after":
        return f"{hour}:{minutes:02d} o'clock"
    return f"{(hour - 2) % 12 + 1}:{60 - minutes:02d} o'clock"


def _hour(said: str) -> int:
    return int(said) if said.isdigit() else _HOURS.index(said.casefold()) + 1
