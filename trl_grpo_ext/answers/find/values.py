r"""Find the values in a line of text: formulas, numbers with units, times, dates, ranges and remainders."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from trl_grpo_ext.answers.find.asked_values import asked_conclusion
from trl_grpo_ext.answers.find.conclusions import REACH, Span, ends
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.moments import DATE, TIME
from trl_grpo_ext.answers.read.numerals import POWER
from trl_grpo_ext.answers.read.spans import RANGE, RATIO, REMAINDER
from trl_grpo_ext.answers.read.spelling import is_in_money
from trl_grpo_ext.answers.read.tree import Apply, Number, Quantity, Range

# A sentence with more values than these has no conclusion.
MAX_VALUES = 40
# Characters of a number with its unit.
MAX_QUANTITY = 40

FORMULA = re.compile(
    r"\$\$([^$]+)\$\$|(?<!\\)\$([^$\n]+?)(?<!\\)\$|\\\(([^\n]+?)\\\)|\\\[((?:(?!\\\]).)+)\\\]"
    r"|((?:[A-Za-z]\w*\s*=\s*)?\\begin\{([a-z]?matrix|aligned|cases)\}.*?\\end\{\6\})"
    r"|(\\[dt]?frac\{[^{}]+\}\{[^{}]+\}|\\sqrt\{[^{}]+\})",
    re.DOTALL,
)
_CURRENCY = r"(?:\\?\$|[€£₹¥])"
_NUMBER = re.compile(
    # No value begins inside a word, nor with a space unless a fraction follows; this cheap test avoids the rest.
    r"(?=[^a-z\s]|\b[a-z]|\s[¼½¾⅐-⅞])"
    rf"(?:{DATE}|{TIME}|{REMAINDER}|{RATIO}|{RANGE}|(?<![\w./])\d+(?:st|nd|rd|th)\b|"
    r"(?<!\d)\d*\s?[¼½¾⅐-⅞]|(?<![\w./^{])\d+ (?:\d+/\d+|out of (?:the )?\d+|and a half\b)"
    r"|(?<![\w./^{])1 in \d+(?!\s?[a-z\d.,/%])"
    rf"|(?<![A-Za-z0-9_.^{{])[-−+±]?{_CURRENCY}?(?:\d(?:,?\d)*(?:\.\d+)?|\.\d+)(?:{POWER})?"
    r"(?:(?:\s*/\s*|:|\s+:\s*)\d+(?:,\d{3})*)?%?(?:\s*[€£%])?)",
    re.IGNORECASE,
)
# A brace that opens a group of LaTeX, not a set: {1, 2}.
_GROUP = re.compile(r"(?<=[\w}^_\]\\]){")
TYPED = re.compile(
    # Each begins with a word, a digit or a currency sign; this cheap test avoids the rest.
    rf"(?=[\d\\$]|\b[a-z])(?:{DATE}|{TIME}|{REMAINDER}|{RATIO}|{RANGE})",
    re.IGNORECASE,
)
# "3 pm, or at 4 pm"
_JOINT = re.compile(r"\s*(?:,|,?\s*\b(?:and|or(?:\s+(?:at|on))?)\b)\s*")
# "Of the $50, $13 is left": the whole stands before its part.
OF_WHOLE = re.compile(
    r"\W*(?:so,?\s+)?(?:out\s+)?of\s+(?:(?:all|the|his|her|their|its|these|those)\s+){0,3}",
    re.IGNORECASE,
)
_OPERAND = re.compile(r"\s?[-−+×*/÷]\s?\$?\d[^,;=]{0,40}=")
_IS_DATE = re.compile(DATE, re.IGNORECASE)
_VERB = re.compile(r"\s+(?:are|were|was|has|have|had)\b")
_THINGS = re.compile(r"\s+(?!and\b|or\b)[a-z]{3,}")
# Without "in", which is usually a word.
_SHORT_UNITS = (
    "h|hr|hrs|day|min|sec|s|kg|mg|g|km|m|cm|mm|ft|yd|mi|lb|lbs|oz|L|mL|ml|cup|mph|kmh|kph"
    "|kW|W|hp|V|kJ|J|N|kPa|Pa|Hz|mol"
)
_NAMED_UNIT = re.compile(
    rf"[\s*]*°\s?[CF]\b|[\s*]+degrees?\s+[CF][a-z]*\b"
    rf"|[\s*]+(?:(?:square|cubic|sq|cu)\.?\s+)?([A-Za-z]{{4,20}}|{_SHORT_UNITS})"
    r"(?:\^?[23]\b|[²³])?(?:/[A-Za-z]{1,8})?(?![\w/^²³])"
)
_PER_UNIT = re.compile(r"[\s*]+[A-Za-z]+\s+per\s+[a-z]+")
_UNIT_BETWEEN = re.compile(rf"\s*(?:[A-Za-z]{{3,12}}|{_SHORT_UNITS})(?:,|,?\s+and)?\s+")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
# Words before a rank: "came in 3rd", "is the 10th term", "takes over 5th place".
_PLACED = re.compile(
    r"\b(?:is|was|are|were|be|been|comes?|came|finish(?:es|ed)?|rank(?:s|ed)?|placed?|end(?:s|ed)|becomes?|became|takes?"
    r"|took)\s+(?:(?:up|only|over|now|currently|then|therefore|thus)\s+)?(?:in\s+|at\s+)?(?:the\s+)?$",
    re.IGNORECASE,
)


def concluded(line: str, sentences: Sequence[str], prompt: str = "") -> tuple[str, str]:
    """Return a line's concluding value, and a reason code if no value concludes.

    The value is the line's last formula; without a formula, it is the conclusion of the last sentence with a value.
    """
    last = ""
    values: list[list[re.Match[str]]] = []
    for sentence in reversed(sentences):
        values = _values(sentence)
        if values:
            last = sentence
            break
    if not last or has_formula(last):
        value = last_value(line)
        return value, "" if value else "no_answer"
    if len(values) > MAX_VALUES:
        return "", "no_answer"
    values = _without_names(last, values)
    place, problem = asked_conclusion(last, list(map(_span, values)), prompt)
    if problem:
        return "", problem
    return _text_of(last, values[place]), ""


def _span(joined: Sequence[re.Match[str]]) -> Span:
    return Span(joined[0].start(), joined[-1].end())


def _without_names(
    sentence: str, values: list[list[re.Match[str]]]
) -> list[list[re.Match[str]]]:
    """Drop ordinals that only name a thing: "the 2nd train"; keep ranks such as "came in 2nd".

    If a sentence has no other values, keep an ordinal at its end, unless the sentence also begins with it.
    """
    kept = []
    for value in values:
        start = value[0].start()
        is_ordinal = _ORDINAL.fullmatch(value[0][0])
        if not is_ordinal or _PLACED.search(sentence[max(start - REACH, 0) : start]):
            kept.append(value)
    return kept or [value for value in values if ends(sentence, _span(value))]


def has_formula(sentence: str) -> bool:
    """Check whether a sentence contains a formula; dollars before amounts are money."""
    if "\\" in sentence.replace(r"\$", ""):
        return True
    return not is_in_money(sentence) and (
        sentence.count("$") > 1 or FORMULA.search(sentence) is not None
    )


def last_value(line: str) -> str:
    """Return a line's last formula or number, with values joined to it; empty if the line has no value."""
    values = _values(line)
    if not values:
        return ""
    return _text_of(line, values[-1])


def said_values(line: str) -> list[str]:
    """Return a line's values as written, in order; none if `and`, `or` or a comma joins two of them: `5 or 6`."""
    values = _values(line)
    if any(len(joined) > 1 for joined in values):
        return []
    return [_written(value).strip() for (value,) in values]


def listed_values(line: str) -> list[list[str]]:
    """Return each run of values that `and` or commas join, as the values' texts: `2, 3 and 5`."""
    return [
        [_written(one).strip() for one in joined]
        for joined in _values(line)
        if len(joined) > 1
    ]


def _written(found: re.Match[str]) -> str:
    """Return the first group of a match that has text, else the whole match."""
    return next(filter(None, found.groups()), found[0])


def _values(line: str) -> list[list[re.Match[str]]]:
    """Find a line's formulas and numbers, in order; joined values form a single entry: "between $12$ and $13$"."""
    numbers = list(_NUMBER.finditer(line))
    # A number inside a LaTeX group is no value of its own.
    if "{" in line:
        numbers = _outside_groups(numbers, line)
    formulas = [] if "$" in line and is_in_money(line) else FORMULA.finditer(line)
    found = sorted([*formulas, *numbers], key=lambda match: match.end())
    values: list[list[re.Match[str]]] = []
    for one in found:
        # A formula replaces the numbers inside it.
        while values and one.start() <= values[-1][-1].start():
            values[-1].pop()
            if not values[-1]:
                values.pop()
        if values and one.start() < values[-1][-1].end():
            continue
        if values and _is_joined(line, values[-1], one):
            values[-1].append(one)
        else:
            values.append([one])
    return values


def _outside_groups(matches: Sequence[re.Match[str]], line: str) -> list[re.Match[str]]:
    """Return the matches of a line that begin outside its LaTeX groups."""
    opened = [group.start() for group in _GROUP.finditer(line)]
    closed = [place for place, char in enumerate(line) if char == "}"]
    outside = []
    for match in matches:
        depth = bisect_left(opened, match.start()) - bisect_left(closed, match.start())
        if depth <= 0:
            outside.append(match)
    return outside


def _is_joined(line: str, value: Sequence[re.Match[str]], other: re.Match[str]) -> bool:
    """Check whether a number or formula continues the preceding value."""
    joint = _JOINT.fullmatch(line, value[-1].end(), other.start())
    # in 1977, 35 years before
    is_apart = (
        joint is not None
        and joint[0].strip() == ","
        and _THINGS.match(line, other.end()) is not None
    )
    # the squares among 4, 9, 15, 25 are
    is_apart = is_apart and not (len(value) > 1 and _VERB.match(line, other.end()))
    # "One costs $18, and 7 * 18 = 126"
    is_apart = is_apart or _OPERAND.match(line, other.end()) is not None
    dates = [_IS_DATE.fullmatch(one[0]) is not None for one in (value[-1], other)]
    is_apart = is_apart or dates[0] != dates[1]
    is_apart = is_apart or OF_WHOLE.fullmatch(line, 0, value[0].start()) is not None
    return (joint is not None and not is_apart) or _is_part(line, value[0], other)


def _is_part(line: str, whole: re.Match[str], part: re.Match[str]) -> bool:
    """Check whether a number counts a smaller unit of the amount before it: `12 dollars and 50 cents`."""
    unit_behind = _NAMED_UNIT.match(line, part.end())
    if unit_behind is None or not _UNIT_BETWEEN.fullmatch(line[whole.end() : part.start()]):
        return False
    return _has_unit(line[whole.start() : unit_behind.end()])


def _text_of(line: str, kept: Sequence[re.Match[str]]) -> str:
    """Return a value's text with its unit."""
    start = kept[0].start()
    end = kept[-1].end()
    unit = _NAMED_UNIT.match(line, end)
    if len(kept) > 1:
        whole = line[start : unit.end()] if unit else line[start:end]
        return whole if _has_unit(whole) else line[start:end]
    value = _written(kept[0]).strip().rstrip(",")
    # The rest of the line, then the next word alone.
    per = _PER_UNIT.match(line, end)
    lasts = [len(line), *(found.end() for found in (per, unit) if found)]
    for last in lasts:
        text = line[start:last].strip(" .!*")
        if text != value and _has_unit(text):
            return text
    return value


def _has_unit(text: str) -> bool:
    """Check whether a text is a number with a known unit: `1500 meters`."""
    if len(text) > MAX_QUANTITY:
        return False
    answer = read(text)
    node = answer.node
    if isinstance(node, Range):
        return not isinstance(node.low, Number)
    if isinstance(node, Apply) and node.name == "%":
        return True
    if not isinstance(node, Quantity) or answer.stray or answer.counted:
        return False
    return isinstance(node.amount, Number)
