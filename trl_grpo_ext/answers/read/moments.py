"""Read times of day and dates as types of their own, and times in words: `2:30 pm` is no ratio, `July 4` no list."""

from __future__ import annotations

import re
from calendar import day_name, month_abbr, month_name
from dataclasses import replace

from trl_grpo_ext.answers.read.signal_words import contains_any
from trl_grpo_ext.answers.read.tree import Apply, Date, Node, Number, Time

_NOON = 12
_DAY_HOURS = 24
_MONTHS = {
    name.casefold(): place
    for names in (month_abbr, month_name)
    for place, name in enumerate(names)
    if name
}
_MONTHS["sept"] = 9
_HALF = r"(?:[ap]\.?\s?m\b\.?|(?:o['’]clock )?in the (?:morning|afternoon|evening)|(?:o['’]clock )?at night|o['’]clock)"
# The first letters are a cheap test before the names.
_MONTH = rf"(?=[adfjmnos])(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
# A month with its capital, as "may" is a verb, or a season.
PERIOD = rf"(?:(?:{'|'.join(month_name[1:])})|(?i:spring|summer|autumn|fall|winter))"
# The words before a month, a season or a weekday that stands alone: "in July", "on the Tuesday".
WITHIN = re.compile(
    rf"\A(?:in|during|on)\s(?:the\s)?(?=(?:{PERIOD}|{'|'.join(day_name)})\Z)", re.IGNORECASE
)
_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?(?![\d:.])"
_YEAR = r"\d{4}(?!\d)"
WEEKDAY = (
    r"(?=[fmstw])(?:mon|tue(?:s(?:day)?)?|wed|thu(?:rs?)?|fri|sat|sun|wednesday|thursday|saturday"
    r"|(?:mon|fri|sun)day)\b\.?"
)
# Several days, "Friday or Saturday", are read as a single one, which equals no other.
_WEEKDAYS = rf"{WEEKDAY}(?:(?:,?\s+(?:or|and)\s+|\s?/\s?){WEEKDAY}){{0,6}}"
# Between a weekday and a moment, "Thursday at 3 pm", and the other way, "3 pm on Thursday", "13 January (Monday)".
_BEFORE = r"(?:\s+(?:morning|afternoon|evening|night))?,?\s+(?:(?:at|on|the)\s+){0,2}"
_BEHIND = r"(?:,?\s+(?:which\s+(?:is|was)\s+)?(?:on\s+)?(?:an?\s+)?|\s?\()"
# The weekday behind belongs to the next moment: "3 pm, Thursday at 5 pm".
_NEXT = rf"(?!{_BEFORE}(?:\d|{_MONTH}))"
_CLOCK = (
    rf"(?:(?<![\d:])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])(?:\s?{_HALF})?"
    rf"|(?<![\d.:])(?:1[0-2]|[1-9])\s?{_HALF})"
)
_CALENDAR = (
    rf"(?:\b{_MONTH}\s+(?:the\s+)?{_DAY}(?:,?\s+{_YEAR})?|(?<!\d){_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?"
    r"|(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)|(?<![\d/])\d{1,2}/\d{1,2}/\d{4}(?![\d/]))"
)
# Patterns with which `find` searches sentences.
TIME, DATE = (
    rf"\b{_WEEKDAYS}{_BEFORE}{moment}|{moment}(?:{_BEHIND}{_WEEKDAYS}{_NEXT}\)?)?"
    for moment in (_CLOCK, _CALENDAR)
)
# A year, a decade, a century, a month or a date, and a phrase of time: "around 1600", "in the early 16th century", also
# with the occasion at a sentence's end: "on July 20, 1969, during the mission".
_POINT = (
    rf"(?:{DATE}|(?:{_MONTH}\s+)?[12]\d{{3}}s?(?!\d)|\d{{1,2}}(?:st|nd|rd|th)[\s-]centur(?:y|ies)\b"
    rf"|{_MONTH}(?:\s+\d{{1,2}}\b)?)"
)
WHEN = (
    r"\b(?:in|on|around|about|circa|between|from|during|by|since|at)\s+"
    r"(?:(?:the|early|late|mid|middle|beginning|start|end|turn|of|year|years|spring|summer|autumn|fall|winter)[\s-]+){0,5}"
    rf"{_POINT}(?:\s*(?:and|to|until|till|[-–])\s*{_POINT})?(?:,\s+(?:during|in|at|as)\s[^,;:()?]{{1,60}}$)?"
)
_DAYS = re.compile(WEEKDAY, re.IGNORECASE)
_WITH_WEEKDAY = re.compile(
    rf"(?:on )?({_WEEKDAYS}){_BEFORE}(?P<moment>.+)|(?P<moment_>.+?){_BEHIND}({_WEEKDAYS})\)?",
    re.IGNORECASE,
)
_TIME = re.compile(
    rf"(?:at )?(?P<hour>[01]?\d|2[0-3])(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?\s*(?P<half>{_HALF})?",
    re.IGNORECASE,
)
_DATE = re.compile(
    rf"(?:on )?(?:"
    rf"(?P<month>{_MONTH})\s+(?:the\s+)?(?P<day>{_DAY})(?:,?\s+(?P<year>{_YEAR}))?"
    rf"|(?P<day_>{_DAY})\s+(?:of\s+)?(?P<month_>{_MONTH})(?:,?\s+(?P<year_>{_YEAR}))?)",
    re.IGNORECASE,
)
_HOUR_NAMES = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_MINUTES_SAID = {
    "half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20, "twenty-five": 25, "twenty five": 25,
}  # fmt: skip
_HOUR_SAID = (
    rf"(?P<hour>{'|'.join(_HOUR_NAMES)}|1[0-2]|[1-9])\b(?![:.]?\d)(?:\s+o['’]clock)?"
)
_MEASURED = (
    rf"(?P<minutes>{'|'.join(sorted(_MINUTES_SAID, key=len, reverse=True))}|[0-5]?\d)"
)
# `ten to five` may be a range; `ten minutes to five` is a time.
_BESIDE_HOUR = re.compile(
    rf"\b(?:an?\s+)?{_MEASURED}(?P<named>[\s-]+minutes?)?[\s-]+(?P<side>past|after|to|till|before)\s+{_HOUR_SAID}",
    re.IGNORECASE,
)
_OF_DAY = re.compile(
    r"\s+(?:in the (?:morning|afternoon|evening)|at night)\b", re.IGNORECASE
)
_FULL_HOUR = re.compile(
    rf"\b(?P<hour>{'|'.join(_HOUR_NAMES)}|1[0-2]|[1-9])\s+o['’]clock\b", re.IGNORECASE
)
_NAMED = re.compile(r"\b(?:12\s+)?(noon|midnight)\b", re.IGNORECASE)
_NAMED_TIMES = {"noon": "12:00 pm", "midnight": "12:00 am"}
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_MONTHS_OF_YEAR = 12
_ISO = re.compile(r"(\d{4})-(0\d|1[0-2])-([0-2]\d|3[01])")


def read_time(text: str) -> Time | None:
    """Read a whole text as a time of day; None for other texts and for ambiguous ratios such as `2:30`.

    A weekday beside it shows that the text is a time.

    Examples:
        >>> read_time("Thursday at 3 pm") == read_time("3 pm on Thurs"), read_time("Sunday, 2:30").weekday
        (True, 'sun')
        >>> read_time("2:30 p.m."), read_time("3 pm").hour, read_time("9:05").is_open, read_time("2:30")
        (Time(hour=14, minute=30, second=0, is_open=False, weekday=''), 15, True, None)
    """
    weekday, text = _split_weekday(text)
    found = _TIME.fullmatch(text)
    if found is None or (found["minute"] is None and found["half"] is None):
        return None
    hour = int(found["hour"])
    half = (found["half"] or "").casefold()
    if half and not 0 < hour <= _NOON:
        return None
    is_padded = found["hour"].startswith("0")
    is_sure = half or weekday or found["second"] or is_padded
    if not (is_sure or found["minute"].startswith("0")):
        return None
    half = half.replace("o'clock", "").replace("o’clock", "").strip()
    if half:
        is_late = half.startswith("p") or any(
            name in half for name in ("afternoon", "evening", "night")
        )
        hour = hour % _NOON + _NOON * is_late
    is_open = not half and not is_padded and 0 < hour <= _NOON
    minute = int(found["minute"] or 0)
    second = int(found["second"] or 0)
    return Time(hour, minute, second, is_open, weekday)


def _split_weekday(text: str) -> tuple[str, str]:
    """Return the weekday that a text tells beside a moment, as three letters, and the text without it."""
    found = _WITH_WEEKDAY.fullmatch(text)
    if found is None:
        return "", text
    days = _DAYS.findall(found[1] or found[4])
    return "/".join(day[:3].casefold() for day in days), found["moment"] or found["moment_"]


def on_any_day(moment: Node) -> Node:
    """Return a date or a time without its weekday; other values unchanged."""
    return replace(moment, weekday="") if isinstance(moment, Date | Time) else moment


def as_time(node: Node) -> Time | None:
    """Convert times, and ratios such as `2:30`, to times of day; None for other types."""
    match node:
        case Time():
            return node
        case Apply("ratio", (Number(hour, None), Number(minute, None))):
            are_whole = hour.denominator == minute.denominator == 1
            if are_whole and 0 <= hour < _DAY_HOURS and 0 <= minute < 60:
                return Time(int(hour), int(minute), 0, is_open=0 < hour <= _NOON)
    return None


def same_time(one: Time, other: Time) -> bool:
    """Check whether a time is the gold's; if either lacks am or pm, compare them modulo twelve hours.

    A weekday of the gold is a part of it; other weekdays change nothing.
    """
    if one.weekday and one.weekday != other.weekday:
        return False
    if (one.minute, one.second) != (other.minute, other.second):
        return False
    if one.is_open or other.is_open:
        return one.hour % _NOON == other.hour % _NOON
    return one.hour == other.hour


def read_date(text: str) -> Date | None:
    """Read a whole text as a date; None for other texts.

    `03/04/2020` is ambiguous: `is_open` marks it, and it equals only dates in the same notation.

    Examples:
        >>> read_date("4 July 1990") == read_date("July 4th, 1990") == read_date("1990-07-04"), read_date("May 3").year
        (True, None)
    """
    weekday, text = _split_weekday(text)
    date = _read_date(text)
    return replace(date, weekday=weekday) if date and weekday else date


def _read_date(text: str) -> Date | None:
    iso = _ISO.fullmatch(text)
    if iso:
        return Date(int(iso[2]), int(iso[3]), int(iso[1]))
    slashed = _SLASHED.fullmatch(text)
    if slashed:
        return _of_slashed(*map(int, slashed.groups()))
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    month, day, year = (
        found[name] or found[name + "_"] for name in ("month", "day", "year")
    )
    name = month.casefold().rstrip(".")
    # 3rd
    digits = re.sub(r"\D", "", day)
    return Date(_MONTHS[name], int(digits), int(year) if year else None)


def _of_slashed(first: int, second: int, year: int) -> Date | None:
    """Read `05/14/2019` as month, day, year; the day comes first if the first number exceeds twelve."""
    month, day = first, second
    if first > _MONTHS_OF_YEAR:
        month, day = second, first
    if not (0 < month <= _MONTHS_OF_YEAR and 0 < day <= 31):
        return None
    return Date(month, day, year, is_open=day <= _MONTHS_OF_YEAR and day != month)


def same_date(gold: Date, answer: Date) -> bool:
    """Check whether two dates are equal, also in their weekdays if both tell one.

    An answer may add a year that the gold leaves out.
    """
    if gold.weekday and answer.weekday and gold.weekday != answer.weekday:
        return False
    year = gold.year or answer.year
    if gold.is_open != answer.is_open:
        return False
    return (gold.month, gold.day, year) == (answer.month, answer.day, answer.year)


def clock_in_digits(text: str) -> str:
    """Rewrite a text's times of day in digits; return all other text unchanged.

    Examples:
        >>> clock_in_digits("at half past two"), clock_in_digits("a quarter to five"), clock_in_digits("ten to five")
        ("at 2:30 o'clock", "4:45 o'clock", 'ten to five')
        >>> clock_in_digits("ten minutes to five o'clock, or noon")
        "4:50 o'clock, or 12:00 pm"
    """
    # Every such time contains one of these words; this cheap test avoids the slow expression.
    if (
        "past" in text
        or "after" in text
        or "to" in text
        or "till" in text
        or "before" in text
    ):
        text = _BESIDE_HOUR.sub(_beside_hour, text)
    if contains_any(text, ("clock",)):
        text = _FULL_HOUR.sub(lambda found: f"{_hour(found['hour'])}:00 o'clock", text)
    if contains_any(text, _NAMED_TIMES):
        text = _NAMED.sub(lambda found: _NAMED_TIMES[found[1].casefold()], text)
    return text


def _beside_hour(found: re.Match[str]) -> str:
    said = found["minutes"].casefold()
    is_past = found["side"].casefold() == "past"
    is_named = found["named"] or _OF_DAY.match(found.string, found.end())
    is_sure = is_named or said == "quarter" or (is_past and said in _MINUTES_SAID)
    if not is_sure or (said == "half" and not is_past):
        return found[0]
    minutes = _MINUTES_SAID.get(said) or int(said)
    hour = _hour(found["hour"])
    if is_past or found["side"].casefold() == "after":
        return f"{hour}:{minutes:02d} o'clock"
    # The hour before 1 is 12.
    previous = (hour - 2) % 12 + 1
    return f"{previous}:{60 - minutes:02d} o'clock"


def _hour(said: str) -> int:
    if said.isdigit():
        return int(said)
    return _HOUR_NAMES.index(said.casefold()) + 1
