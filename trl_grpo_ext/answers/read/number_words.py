r"""Rewrite number phrases (words, digits or both) in digits.

`four hundred` becomes `400`, `two and a half` `2 1/2`, `3 quarters` `3/4`, `2.5 million` `2500000`, `minus two` `-2`.
Every path that finds or reads values calls this module first, so other modules handle digits only. It takes time
linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from trl_grpo_ext.answers.read.moments import clock_in_digits
from trl_grpo_ext.answers.read.signal_words import contains_any
from trl_grpo_ext.answers.read.units import LENGTHS, is_unit

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen""".split()  # noqa: SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
CARDINALS = {
    **{word: value for value, word in enumerate(_SMALL)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
}
_HUNDRED = 100
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
# A scale that may have a word behind it, as in "two score and five", is read in `_cardinal`; a word with another
# meaning, as "the score", goes through `_stands_alone` too.
SCALES = {"hundred": _HUNDRED, "dozen": 12, **_LARGE}
ORDINALS = {
    **dict(
        zip(
            "first second third fourth fifth sixth seventh eighth ninth tenth".split(),  # noqa: SIM905
            range(1, 11),
            strict=True,
        )
    ),
    "eleventh": 11,
    "twelfth": 12,
    "hundredth": 100,
    "thousandth": 1000,
    "millionth": 10**6,
    **{word + "th": CARDINALS[word] for word in _SMALL[13:]},
    **{word[:-1] + "ieth": CARDINALS[word] for word in _TENS},
}
# Denominators of fractions in words: `second` is a time, and `first` is no part.
PARTS = {"half": 2, "halve": 2, "quarter": 4} | {
    word: value for word, value in ORDINALS.items() if word not in ("first", "second")
}
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_SIGNS = ("minus", "negative")
_CLOCK_WORDS = ("clock", "noon", "midnight", "past")
# Words of a number phrase.
MAX_WORDS = 24
_PIECE = re.compile(r"\d[\d,]*(?:\.\d+)?|(?<![\\A-Za-z])[A-Za-z]+")
# The gap between two words of a phrase.
_GAP = re.compile(r"[ \t\n]+|-|(?:\s|~|\\[ ,;:!])*\\(?:text|mathrm)\s*\{\s*")
_WORD = re.compile(r"\w+")
# A text without these words, or their plurals, has no number phrase and no clock words.
_ANY = frozenset(
    f"{word}{ending}"
    for word in (*CARDINALS, *SCALES, *_SIGNS, *ORDINALS, *PARTS, *_CLOCK_WORDS)
    for ending in ("", "s")
)
# Neighbours that decide whether `one` and `half` are numbers: not in `the last one`, `one of them`, `half as many`.
_BEFORE_ONE = frozenset(
    "is are be was were only exactly just equals equal gives leaves makes has have".split()  # noqa: SIM905
)
_PLACES = ("place", "position")
_BEFORE_ORDINAL = frozenset(
    """the is was are were be been came comes come finished finishes finish ranked ranks placed became becomes
    took takes in on at over him her it them""".split()  # noqa: SIM905
)
# Characters before and after a phrase that are examined.
REACH = 20
# A phrase tied to a word before it, or to a command's backslash: `ten-`.
_TIED_BEFORE = re.compile(r"(?:\\|[^\W_]-?)$")
_TIED_BEHIND = re.compile(r"[-'’][^\W\d_]")
_NOT_BEFORE_HALF = frozenset(
    "first second other each every last top bottom upper lower left right better".split()  # noqa: SIM905
)
_NOT_BEHIND_HALF = frozenset("as way life time".split())  # noqa: SIM905
_BOTH_SIGNS = re.compile(r"\bplus or minus\s+(?=[\da-z])", re.IGNORECASE)
_MONEY_SCALES = {"k": "thousand", "m": "million"}
_SCALED_MONEY = re.compile(r"([$€£]\d[\d,]*(?:\.\d+)?)([kM])\b(?![/^])")
# 48 000; the first digit comes before the test of the character before it, because `re` searches a digit fast.
_SPACED_THOUSANDS = re.compile(
    r"(\d(?<![\w.,^{/$]\d)\d{0,2}(?: \d{3})+)(?![\w.,]?\d)(?! *[/×*+=^])"
)
# Units of a fraction: "a third of a day".
_MEASURES = (
    rf"{LENGTHS}|second|minute|hour|day|week|month|year|decade|century|gram|kilogram|kg|ton|tonne|ounce|pound"
    r"|lit(?:er|re)|millilit(?:er|re)|pint|quart|gallon|dollar|euro|degree"
)
# Rows of: substrings of which a text must have one, in lower case; a spelling of amounts in digits; and the spelling
# that the reader knows.
_SPELLINGS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (("%",), re.compile(r"(?<=\d)\s+%"), "%"),
    (("watt-hour",), re.compile(r"(?<=watt)-(?=hours?\b)", re.I), " "),
    # 5'3"
    (
        ("'", "′", "’"),
        re.compile(r"(?<![\w°.])(\d+)['′’](\d{1,2})(?:[\"″”]|'')"),
        r"\1 ft \2 in",
    ),
    # 2h15m
    (
        ("h",),
        re.compile(
            r"(?<![\w.])(\d+)\s?h(?:rs?\.?)?\s?(?:and\s)?(\d{1,2})\s?(?:m|min\.?)?(?![\w/^²])"
        ),
        r"\1 h \2 min",
    ),
    (
        ("hour", "minute", "day", "week", "month", "year"),
        re.compile(
            r"\b(takes?|lasts?|is|exactly|just|only)\s+an?\s+(hour|minute|day|week|month|year)\b(?!\s+and)"
        ),
        r"\1 1 \2",
    ),
    # 60 miles an hour
    (
        ("hour", "minute", "second", "day"),
        re.compile(
            rf"(\d\s+(?:{LENGTHS}))\s+(?:an?|each|every)\s+(hour|minute|second|day)\b"
        ),
        r"\1 per \2",
    ),
    (
        ("below",),
        re.compile(
            r"(?<![\w.-])(\d[\d.]*(?:\s?(?:°\s?[CF]?|degrees?(?:\s(?:celsius|fahrenheit))?))?)\s+below\s+(?:zero|0)\b",
            re.I,
        ),
        r"-\1",
    ),
    # five pounds fifty
    (
        ("dollars", "pounds", "euros"),
        re.compile(
            r"(?<![\w.])(\d+)\s+(dollars|pounds|euros)\s+(?:and\s+)?(\d\d)(?=[\s.!]*$)"
        ),
        r"\1.\3 \2",
    ),
    # three quarters of an hour, but not a quarter of a cup of tea
    (
        (" of a", " of 1 "),
        re.compile(
            r"((?<![\w.])\d{1,3}/\d{1,4}|[½¼¾⅐-⅞]|\\[dt]?frac(?:\d\d|\{\d{1,3}\}\{\d{1,4}\})\$?) of (?:an?|1) "
            rf"(?=(?:{_MEASURES})\b(?! of\b))",
            re.I,
        ),
        r"\1 ",
    ),
    (
        ("whole", "full", "entire"),
        re.compile(r"(\d)\s+(?:whole|full|entire)\s+(?=[a-z])"),
        r"\1 ",
    ),
)
_HALF_BEHIND = re.compile(
    rf"\b(an?|{'|'.join(CARDINALS)}|\d+)\s+([a-z]+)\s+and\s+(a half|a quarter|three quarters)\b",
    re.IGNORECASE,
)

# Beside other coins, 3 quarters are coins.
_OTHER_COIN = re.compile(r"\b(?:dime|nickel|penny|pennie)s?\b")
# Stands for the word that is no part of a number here.
_COIN = "\ue000"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A number phrase.

    Attributes:
        digits: The value in digits.
        words: Number of words.
    """

    digits: str
    words: int


@lru_cache(maxsize=8192)
def in_digits(text: str) -> str:
    r"""Rewrite a text's number phrases and clock words in digits; return all other text unchanged.

    Examples:
        >>> in_digits("He paid four hundred dollars for two and a half dozen.")
        'He paid 400 dollars for 30.'
        >>> [in_digits(text) for text in ("minus two", "three-quarters", "half a dozen", "one hundred and five")]
        ['-2', '3/4', '6', '105']
        >>> [in_digits(text) for text in ("a two-digit number", "the last one", "half past two", "the seventh")]
        ['a two-digit number', 'the last one', "2:30 o'clock", 'the 7th']
        >>> in_digits(r"2.5 \text{ million}")
        '2500000 \\text{ }'
    """
    if "quarter" in text and _OTHER_COIN.search(text):
        return in_digits(text.replace("quarter", _COIN)).replace(_COIN, "quarter")
    if "$" in text or "£" in text or "€" in text:
        text = _SCALED_MONEY.sub(
            lambda money: f"{money[1]} {_MONEY_SCALES[money[2].casefold()]}", text
        )
    if " " in text:
        text = _SPACED_THOUSANDS.sub(lambda thousands: thousands[1].replace(" ", ","), text)
    if not _ANY.isdisjoint(_WORD.findall(text.casefold())):
        text = _without_number_words(text)
    return _respelled(text)


def _respelled(text: str) -> str:
    """Rewrite amounts in digits as the reader knows them: `5'3"` as `5 ft 3 in`, `5 degrees below zero` as `-5`."""
    folded = text.casefold()
    for signs, written, known in _SPELLINGS:
        # `sub` parses its second text before it searches, which takes longer than most searches.
        if any(map(folded.__contains__, signs)) and written.search(text):
            text = written.sub(known, text)
    return text


def _without_number_words(text: str) -> str:
    """Rewrite a text's number phrases in digits."""
    if "or minus" in text:
        text = _BOTH_SIGNS.sub("±", text)
    text = clock_in_digits(text)
    if contains_any(text, ("half", "quarter")):
        text = _HALF_BEHIND.sub(_half_before, text)
    pieces = list(_PIECE.finditer(text))
    words = [piece[0].casefold() for piece in pieces]
    written: list[str] = []
    at = 0
    end = 0
    while at < len(pieces):
        run = _run(text, pieces, at)
        phrase = _phrase(words[at:run])
        if phrase is None or not _stands_alone(text, pieces, at, at + phrase.words):
            at += 1
            continue
        first = pieces[at]
        last = pieces[at + phrase.words - 1]
        written.append(text[end : first.start()])
        written.append(phrase.digits)
        written.append(_opened(text[first.end() : last.start()]))
        end = last.end()
        at += phrase.words
    return "".join([*written, text[end:]])


def _half_before(found: re.Match[str]) -> str:
    """Move a fraction before its unit: `an hour and a half` becomes `one and a half hour`."""
    count, measure, part = found.groups()
    if not is_unit(measure):
        return found[0]
    if count.casefold() in ("a", "an"):
        count = "one"
    return f"{count} and {part} {measure}"


def _run(text: str, pieces: Sequence[re.Match[str]], at: int) -> int:
    """Return the end of a run of words that only white space or hyphens separate, starting from `at`."""
    longest = min(len(pieces), at + MAX_WORDS)
    for run in range(at + 1, longest):
        if not _GAP.fullmatch(text, pieces[run - 1].end(), pieces[run].start()):
            return run
    return longest


def _opened(gaps: str) -> str:
    r"""Return a phrase's inner group openings, ` \text{ ` each, so that braces stay in pairs."""
    return r" \text{ " * gaps.count("{")


def _stands_alone(text: str, pieces: Sequence[re.Match[str]], at: int, end: int) -> bool:
    """Check that neighbouring words leave a phrase a number: not in `two-digit`, `one of them`, `the other half`."""
    first = pieces[at]
    last = pieces[end - 1]
    before = text[max(first.start() - REACH, 0) : first.start()]
    behind = text[last.end() : last.end() + REACH]
    if _TIED_BEFORE.search(before) or _TIED_BEHIND.match(behind):
        return False
    said = first[0].casefold()
    previous = pieces[at - 1][0].casefold() if at else ""
    following = pieces[end][0].casefold() if end < len(pieces) else ""
    if said == "half":
        return previous not in _NOT_BEFORE_HALF and following not in _NOT_BEHIND_HALF
    if end - at > 1:
        return True
    if said == "one":
        if following in CARDINALS and behind.startswith(","):
            return True
        if following in ("of", "another"):
            return False
        is_all = not previous and not following
        is_measured = is_unit(following) and behind.lstrip().casefold().startswith(
            following
        )
        return is_all or previous in _BEFORE_ONE or is_measured
    if said in ORDINALS:
        is_all = not previous and end + 1 >= len(pieces)
        is_place = previous in _BEFORE_ORDINAL or following in _PLACES
        return is_place or is_all or (not following and said != "second")
    return True


def _phrase(words: Sequence[str]) -> Phrase | None:
    """Return the longest number phrase at the start of a row of words, else None."""
    if words[0] in _SIGNS:
        return _negative_phrase(words[1:])
    value, at, places = _count(words)
    if at == 0:
        return _ordinal(words, 0, 0)
    value, at, is_whole = _with_parts(words, value, at)
    if (
        value.denominator != 1
        and words[at : at + 2] in (["of", "a"], ["of", "one"])
        and words[at + 2 :][:1] != []
    ):
        # a quarter of a million
        at += 2 * (words[at + 2] in SCALES)
    if at < len(words) and words[at] in SCALES:
        value *= SCALES[words[at]]
        at += 1
    elif (
        is_whole
        and not words[0][0].isdigit()
        and (ordinal := _ordinal(words, at, int(value)))
    ):
        return ordinal
    if at == 1 and words[0][0].isdigit():
        # Digits alone need no rewriting.
        return None
    return Phrase(_written(value, mixed=places == 0), at)


def _negative_phrase(words: Sequence[str]) -> Phrase | None:
    """Return the phrase of a sign word, such as `minus`, and its number; None without positive number."""
    if not words:
        return None
    amount = _phrase(words)
    if amount is None and words[0][0].isdigit():
        amount = Phrase(words[0], 1)
    if amount is None:
        return None
    is_positive = amount.digits[0].isdigit() and not amount.digits[-1].isalpha()
    if not is_positive:
        return None
    return Phrase("-" + amount.digits, amount.words + 1)


def _count(words: Sequence[str]) -> tuple[Fraction, int, int]:
    """Read a phrase's leading count: a cardinal, digits, `a` before a scale or a part, or `half`.

    Returns:
        The value, the number of its words, and the number of its decimal places.
    """
    first = words[0]
    following = words[1] if len(words) > 1 else ""
    if first in ("a", "an") and (following in SCALES or following in PARTS):
        return *_cardinal(["one", *words[1:]]), 0
    if first == "half":
        article = following in ("a", "an")
        measured = len(words) > 2 and (words[2] in SCALES or is_unit(words[2]))
        return Fraction(1, 2), 1 + (article and measured), 0
    if first[0].isdigit():
        value = Fraction(first.replace(",", "").rstrip("."))
        places = len(first.partition(".")[2])
        return value, 1, places
    value, at = _cardinal(words)
    if at == 0 or words[at : at + 1] != ["point"]:
        return value, at, 0
    decimals = ""
    for word in words[at + 1 :]:
        if word not in _SMALL[:10]:
            break
        decimals += str(CARDINALS[word])
    places = len(decimals)
    if places == 0:
        return value, at, 0
    return value + Fraction(int(decimals), 10**places), at + 1 + places, places


def _cardinal(words: Sequence[str]) -> tuple[Fraction, int]:
    """Read a cardinal at the start of a row of words; return its value and number of words, 0 without cardinal."""
    total = 0
    at = 0
    # Scales fall: a thousand follows a million, not the other way round.
    least = 10**15
    group: int | None = None
    while at < len(words):
        word = words[at]
        if word == "and" and at and words[at - 1] in SCALES and _continues(words, at + 1):
            pass
        elif word in CARDINALS and (group is None or _may_follow(group, CARDINALS[word])):
            group = (group or 0) + CARDINALS[word]
        elif word == "hundred" and group is not None and 0 < group < _HUNDRED:
            group *= _HUNDRED
        elif word in _LARGE and group is not None and _LARGE[word] < least:
            least = _LARGE[word]
            total += group * least
            group = None
        else:
            break
        at += 1
    return Fraction(total + (group or 0)), at


def _continues(words: Sequence[str], at: int) -> bool:
    """Check whether `and` continues a cardinal: `and five` does, `and three quarters` starts another number."""
    if at >= len(words) or words[at] not in CARDINALS:
        return False
    following = words[at + 1] if at + 1 < len(words) else ""
    return following.removesuffix("s") not in PARTS and following != words[at - 2]


def _may_follow(group: int, value: int) -> bool:
    """Check whether a cardinal may follow a larger cardinal inside a group: 5 after 20, 42 after 300."""
    if group == 0:
        return True
    if group % _HUNDRED == 0:
        return value < _HUNDRED and value > 0
    return group % 10 == 0 and group % _HUNDRED >= 20 and 0 < value < 10


def _with_parts(
    words: Sequence[str], value: Fraction, at: int
) -> tuple[Fraction, int, bool]:
    """Add fractional parts to a count: `three quarters`, `two and a half`.

    Returns:
        The value, the number of its words, and whether it has no fractional part.
    """
    if value.denominator != 1:
        return value, at, False
    name = words[at] if at < len(words) else ""
    part = PARTS.get(name.removesuffix("s"), 0)
    is_plural = name.endswith("s") == (value != 1)
    is_proper = value < part or (at + 1 < len(words) and words[at + 1] == "of")
    if part and is_plural and is_proper and value > 0:
        return value / part, at + 1, False
    if name == "and" and at + 2 < len(words):
        counting, name = words[at + 1 : at + 3]
        count = 1 if counting in ("a", "an") else CARDINALS.get(counting, 0)
        part = PARTS.get(name.removesuffix("s"), 0)
        is_plural = name.endswith("s")
        if 0 < count < part and is_plural == (count != 1):
            return value + Fraction(count, part), at + 3, False
    return value, at, True


def _ordinal(words: Sequence[str], at: int, tens: int) -> Phrase | None:
    """Read the ordinal at index `at`, after tens or alone: `seventh`, `twenty-first`; None for other words."""
    if at >= len(words) or words[at] not in ORDINALS:
        return None
    number = ORDINALS[words[at]]
    may_follow = tens % 10 == 0 and tens % _HUNDRED and number < 10
    if tens and not may_follow:
        return None
    suffix = _ENDINGS.get(number, "th")
    return Phrase(f"{tens + number}{suffix}", at + 1)


def _written(value: Fraction, *, mixed: bool) -> str:
    """Write a value in digits: `400`, `3/4`, `2 1/2` if `mixed`, else as a decimal: `2.5`."""
    if value.denominator == 1:
        return str(value.numerator)
    whole, rest = divmod(value.numerator, value.denominator)
    if not mixed:
        return str(float(value))
    fraction = f"{rest}/{value.denominator}"
    if whole == 0:
        return fraction
    return f"{whole} {fraction}"
