"""Adapt answers to the question: the asked unit, direction, part, order or person."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from trl_grpo_ext.answers.asked_rounding import as_rounded
from trl_grpo_ext.answers.compare.directions import with_asked_direction
from trl_grpo_ext.answers.find.final_answer import FinalAnswer, after_thinking
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.number_words import SCALES, in_digits
from trl_grpo_ext.answers.read.signal_words import OPPOSITES, has_words
from trl_grpo_ext.answers.read.spelling import is_in_money, without_text_commands
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Date,
    Node,
    Number,
    Quantity,
    Range,
    Relation,
    Remainder,
)
from trl_grpo_ext.answers.read.units import Unit, is_currency, is_money, is_unit, unit

# Characters at the end of a prompt that are searched for the question.
MAX_PROMPT = 1_000
# Characters at the end of a prompt whose numbers are known.
MAX_KNOWN = 4_000
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_QUESTION = re.compile(r"(?:[^.?!\n]|\.(?=\d))*\?[^?]*\Z")
_QUESTION_LABEL = re.compile(
    r"\A[*#>\s]*(?:question|q|problem|exercise|task|solve|user|human)(?:\s*\d+)?[*\s]*:[*\s]*",
    re.IGNORECASE,
)
# A task without a question mark: "Find the area in square metres."
_TASK = re.compile(
    r"(?:\A|[.!\n])\s*(?:find|calculate|compute|convert|change|determine|work out|express|write|state|give)\b[^?]*\Z",
    re.IGNORECASE,
)
# km/h, square metres, degrees Celsius, cm^2; a capital letter alone is rather a name: "in A"
_UNIT_NAME = (
    r"(°[CF]|(?:(?:square|cubic|sq\.?|cu\.?)\s+|degrees?\s+(?=[cf]))?(?:[a-z]{2,20}|(?-i:[a-z]))"
    r"(?:(?:\s?/\s?|\s+per\s+)[a-z]{1,20})?(?:\^?[23]|[²³])?)(?![\w/^])"
)
# Words that may follow the unit in mid-question: "What distance in km does she cover?"
_AFTER_UNIT = (
    r"does|do|did|is|are|was|were|will|would|can|could|should|must|has|have|had|that|which|and|of|the|for|to|if|from|between"
    r"|at|on|by|after|he|she|it|they|we|you|each|[a-z]+ing"
)
_UNIT = re.compile(
    r"(?:\b(?:how many(?:\s+(?:total|more|fewer|additional|extra))?"
    r"|(?:what(?:['’]s|\s\w+)|find|calculate|compute|determine|give)\s+the\s+(?:total\s+)?number of"
    r"|(?:answer|give|express\w*|measured)\b[^.?]{0,30}\bin|(?:convert|change)\b[^?\n]{1,60}\s(?:in)?to)|,\s+in)"
    # Not "How many in all?", "How many in a week?"
    r"\s+(?!in\s(?!are\b|is\b|do\b|does\b|did\b|was\b|were\b|of\b))"
    rf"{_UNIT_NAME}|\bin\s+(?!second\b){_UNIT_NAME}\s*(?:[?.),]|\Z|\s(?:{_AFTER_UNIT})\b)"
    rf"|\bnearest\s+{_UNIT_NAME}",
    re.IGNORECASE,
)
# A letter alone, such as L, is a unit behind a number.
_UNIT_BEHIND = _UNIT_NAME.replace("(?-i:[a-z])", "[a-z]")
# An amount in a prompt: "3 feet", "a 5-foot plank", "$3.50", "90°".
_GIVEN_AMOUNT = re.compile(
    rf"([$€£]\s?)?(?<![\d.,])({_NUMBER.pattern})(\^\{{?\\circ|°(?![CF])|[\s-]{{0,2}}{_UNIT_BEHIND})?",
    re.IGNORECASE,
)
# "2 3/4 hours", "1 hour and 45 minutes"
_GIVEN_PARTS = re.compile(
    rf"(?<![\d.,/])\d+(?:\s\d+/\d+)?\s{_UNIT_BEHIND}(?:,?\s(?:and\s)?\d+\s{_UNIT_BEHIND})?",
    re.IGNORECASE,
)
# Names with another meaning: degrees of an angle or of a temperature, pounds of weight or of money.
_NAMESAKES = (
    {unit("deg"), unit("celsius")},
    {unit("deg"), unit("fahrenheit")},
    {unit("pound"), unit("£")},
)
OF_REST = re.compile(
    r"\b(?:remainder|remain\w*|left\s?over|left|leav\w+|extra)\b", re.IGNORECASE
)
_EACH = re.compile(r"(?<=\d)\s(?:each|apiece|per (?:person|child|head))\Z", re.IGNORECASE)
# A name inside a sentence, but no owner: "Ann" of "How old is Ann?", nothing of "How old is Ann's brother?".
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+\b(?!['’]s| [A-Z])")
_CAPITAL = re.compile(r"[A-Z][a-z]+\b")
NO_NAMES = frozenset(
    "The So In He She It They This That There Thus Hence But And You We I A After Since How".split()  # noqa: SIM905
)
# "How old is Ada?" is about Ada alone; "How much did Tom give Ann?" about two.
_ABOUT_ONE = re.compile(
    r"\b(?:is|was|will|did|does|has)\s+[A-Z][a-z]+\b(?!.*\b(?:give|gave|owe|lend|pay|sell|send)\b)(?!['’])"
)
# "So her brother is 22", "Maya's brother's age is 22", without a further clause
_OF_RELATIVE = re.compile(
    r"\W*(?:(?:so|thus|therefore|hence|then),?\s+)?(?:(?-i:[A-Z][a-z]+)['’]s|his|her|their|the)\s(?:[a-z]+er\s)?"
    r"(brother|sister|mother|father|mom|mum|dad|son|daughter|cousin|friend|uncle|aunt|niece|nephew|husband|wife|twin"
    r"|grand[a-z]{2,6})(?:['’]s\s[a-z]+)?\s(?:is|was|has|had|gets?|got|pays?|earns?|weighs?)\s(?-i:[^,;A-Z]{1,60})",
    re.IGNORECASE,
)
_SIDES = re.compile(r",?\s+(?:and|but|while|whereas)\s+(?=[A-Z])|[;,]\s+(?=[A-Z])")
_SUBJECT = re.compile(
    r"\W*(?:(?:so|thus|therefore|hence|then|this means|which means|that)\b,?\s+)*([A-Z][a-z]+)\s+[a-z]",
    re.IGNORECASE,
)
_PER = re.compile(r"\b(?:per|every|each|an?|one|in 1)\s+(?:\d+\s+)?([a-z]+)\b")
_TOLD_SPAN = r"\s+(?:in\s+(?:an?|one|1|each|every)|every|each|an?)\s+([a-z]+)\b"
_COUNTS = re.compile(r"\bhow many\s+[a-z]+s\b", re.IGNORECASE)
_TEMPERATURE = re.compile(
    r"\s*(?:°\s?[CF]|\bdegrees? (?:celsius|fahrenheit))$", re.IGNORECASE
)
# A percentage that the question asks for, not "after a 20 percent increase".
_PERCENT = re.compile(r"(?<!\d[ -])\bpercent(?:age)?\b", re.IGNORECASE)
_ASKS_PERCENTAGE = re.compile(
    r"\b(?:what|which|how (?:many|much)|find|calculate|compute|determine|give|estimate)"
    r"(?:\s+(?:is|was|are|were|the|an?|approximate|total|overall))*\s+percent(?:age)?\b"
    r"|\b(?:as|in|to)\s+(?:an?\s+)?percent(?:age)?\b(?!\s+of)",
    re.IGNORECASE,
)
_POUNDS = re.compile(r"(?<!\\)\bpounds?\b(?:\s+sterling\b)?", re.IGNORECASE)
# "4 pounds and 35 pence", also in LaTeX
_POUNDS_AND_PENCE = re.compile(
    r"\bpounds?\b[^\d.]{1,30}\d{1,2}\D{1,15}\bpence\b", re.IGNORECASE
)
# Coins, their currency's name, and the sign and the word that tell amounts in the currency.
_COINS = (
    ("cent", "dollars", "$", "dollar"),
    ("cent", "euros", "€", "euro"),
    ("pence", "gbp", "£", "pound"),
    ("paise", "rupees", "₹", "rupee"),
)
# How many dozen, how many quarters, in millions
_SCALE = "|".join(SCALES)
_PARTS = "halves|(?:third|quarter|fourth|fifth|sixth|eighth|tenth|twelfth|hundredth)(?=s)"
_ASKED_SCALE = re.compile(
    rf"\bhow many ({_SCALE}|{_PARTS})s?\b|\bin ({_SCALE})s\b", re.IGNORECASE
)
_AGE = re.compile(
    r"\bhow old\b|\bwhat\s+(?:is|was|will be)\s+(?:\w+['’]s|his|her|their|the)\s+(?:\w+\s+)?age\b",
    re.IGNORECASE,
)
_VERB_OF_ASKED = "(?:is|are|was|were|will)"
# "So Priya is 14.", "Tom will be 20"
_OF_SUBJECT = re.compile(
    r"\W*(?:(?:so|thus|hence|therefore),?\s+)?([^\W\d_]+(?:\s[^\W\d_]+){0,3})\s+(?:is|are|was|were|will\s+be)\s+"
    r"\$?(\d[\d,]*(?:\.\d+)?)[\s.]*",
    re.IGNORECASE,
)
# Units of ages below a year.
_SHORT_AGES = re.compile(r"\b(?:month|week|day|hour)s?\b", re.IGNORECASE)
_PERCENTAGES = re.compile(
    r"%|per\s?cent|pro[zc]ent|porcent|pourcent|процент|百分", re.IGNORECASE
)
# Questions for a share as a plain number.
_PLAIN_SHARES = re.compile(
    r"\b(?:as an? (?:decimal|fraction)|what fraction|probability)\b", re.IGNORECASE
)
# Words of questions that percentages may answer.
_SHARES = re.compile(
    rf"{_PERCENTAGES.pattern}"
    r"|\b(?:rate|interest|chance|probability|likel\w*|discount|tax|proportion|fraction|share|part|margin"
    r"|concentration|humidity|efficiency|yield|grade|confiden\w+|0\s?(?:-|–|to)\s?100|out of (?:a )?100)\b",
    re.IGNORECASE,
)
# A rank or a percentage counts no things.
_NO_COUNT = re.compile(r"\d+(?:st|nd|rd|th)|.*%")
_MEASURES = {"length", "time", "mass"}
_SPANS = ("second", "minute", "hour", "day", "week", "month", "year")
# Prices in coins, not "to the nearest cent".
_PRICES_IN = {
    "cent": re.compile(r"(?<!nearest )\bcents?\b|¢", re.IGNORECASE),
    "pence": re.compile(r"\b(?:pence|penny)\b|\d\s?p\b", re.IGNORECASE),
    "paise": re.compile(r"\bpais[ae]\b", re.IGNORECASE),
}
# Words for a power of a length, by the further powers.
_POWERS = {"area|surface": 1, "volume|capacity": 2}
_WORD = re.compile(r"[A-Za-z]+")
# A span in hours and minutes, and as a clock shows it.
_SPAN = re.compile(
    r"(\d{1,3})\s?h(?:ou)?r?s?,?\s(?:and\s)?(\d{1,2})\s?m(?:in(?:ute)?s?)?\.?",
    re.IGNORECASE,
)
# The share of each and the rest: "6 each, 2 left", "6 with 2 left over".
_SHARED = re.compile(
    r"(\d{1,9})(?:\s[a-z]{3,})?(?:\seach(?:,|\sand|,?\swith)|,?\swith)\s(\d{1,9})(?:\s[a-z]{3,})?"
    r"\s(?:left(?:\s?over)?|over|remain(?:s|ing)?)\.?",
    re.IGNORECASE,
)
# A longer text holds more than two numbers.
MAX_PAIR = 60
_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)")
_RATIO_OF = re.compile(
    r"\bratio of (?:the )?(?:number of )?(\w+) to (?:the )?(?:number of )?(\w+)",
    re.IGNORECASE,
)
_FOR_EVERY = re.compile(r"^(\d+(?:\s[a-z]+){1,2})\sfor every\s.*$")
# "In what year", "Give the year"
_PART_OF_DATE = re.compile(r"\b(?:what|which|the)\s+(year|month)\b", re.IGNORECASE)
_YEAR = re.compile(r"[12]\d{3}")
_MONTH = re.compile("|".join(month_name[1:]), re.IGNORECASE)
_RATE = re.compile(r"(.{1,40}?)\s+per\s+([a-z]{2,20})")
_RANK = re.compile(r"\b(?:first|second|third|fourth|fifth|last)\b", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:sort|arrange|rank|order(?! (?:an?|to)\b)|ascending|descending"
    # from the fastest to the slowest
    r"|(?:(?!closest|nearest)[a-z]+st|most [a-z]+) to (?:the )?(?:[a-z]+st|most|least|last)\b"
    r"|(?:least|smallest|lowest|shortest|greatest|largest|highest|longest) to"
    r"|(?:first|1st)(?:,| and) (?:second|2nd)(?! place)"
    r"|(?:first|next) (?:two|three|four|five|six|[2-9]|10) (?:terms|numbers|elements|multiples))\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def question_of(prompt: str) -> str:
    """Return a prompt's last question, as a sentence; empty if no question mark is found."""
    found = _QUESTION.search(prompt[-MAX_PROMPT:])
    if found is None:
        return ""
    return _QUESTION_LABEL.sub("", found[0].strip())


@lru_cache(maxsize=256)
def task_of(prompt: str) -> str:
    """Return a prompt's task without a question mark; empty if none is found."""
    found = _TASK.search(prompt[-MAX_PROMPT:])
    return found[0] if found else ""


def is_opposed(question: str, clause: str) -> bool:
    """Check whether a clause replaces a question's word by its opposite: `taller` by `shorter`."""
    for pair in OPPOSITES:
        for one, other in (pair, pair[::-1]):
            # Most questions lack the word, so the clause is searched last.
            is_asked = has_words(question, one) and not has_words(question, other)
            if is_asked and has_words(clause, other) and not has_words(clause, one):
                return True
    ranks = {rank.casefold() for rank in _RANK.findall(question)}
    told = {rank.casefold() for rank in _RANK.findall(clause)}
    return bool(ranks and told) and not ranks & told


def is_agreed(question: str, clause: str) -> bool:
    """Check whether a clause has a question's comparison, in whatever words: `costs less` for `cheaper`."""
    for pair in OPPOSITES:
        for one, other in (pair, pair[::-1]):
            if (
                has_words(question, one)
                and has_words(clause, one)
                and not has_words(clause, other)
            ):
                return True
    return False


# Tara > Sven > Uli, 3/5 → 0.65 → 2/3
_BY_SIGN = re.compile(r"\s([<>→]|->)\s(?=[A-Z\d$\\(])")


def asks_for_order(prompt: str) -> bool:
    """Check whether a question asks to put things in order."""
    return _ORDER.search(prompt[-MAX_PROMPT:]) is not None


def with_order_listed(text: str, prompt: str) -> str:
    """Write each line that orders things by equal signs as a list, if the question asks for an order.

    Examples:
        >>> asked = "List them from lightest to heaviest."
        >>> with_order_listed("1.05 kg < 1250 g < 1.5 kg", asked), with_order_listed("Tara → Sven → Uli", asked)
        ('1.05 kg, 1250 g, 1.5 kg', 'Tara, Sven, Uli')
    """
    if not asks_for_order(prompt):
        return text
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if len(set(_BY_SIGN.findall(line))) == 1:
            lines[place] = _BY_SIGN.sub(", ", line)
    return "\n".join(lines)


def about_asked(sentence: str, prompt: str) -> str:
    """Return the part of a sentence about the question's named person.

    The part is empty if the sentence is about another name alone.

    Examples:
        >>> asked = "Anna and Ben share $56. How much does Anna get?"
        >>> about_asked("So Anna gets $16 while Ben gets $40", asked), about_asked("So Ben gets $40", asked)
        ('So Anna gets $16', '')
        >>> about_asked("So she gets $16", asked)
        'So she gets $16'
    """
    prompt = prompt[-MAX_PROMPT:]
    asked = _NAME.search(question_of(prompt))
    if asked is None:
        return sentence
    if _is_of_relative(sentence, prompt):
        return ""
    others = set(_CAPITAL.findall(prompt)) - {asked[0]} - NO_NAMES
    about, beside = [], []
    for part in _SIDES.split(sentence):
        capitals = set(_CAPITAL.findall(part))
        if asked[0] in capitals:
            about.append(part)
        if others & capitals:
            beside.append(part)
    if len(about) == 1 and beside and about[0] not in beside:
        return about[0]
    if about or not _ABOUT_ONE.search(question_of(prompt)):
        return sentence
    subject = _SUBJECT.match(sentence)
    is_of_other = subject and subject[1] in others and not subject[1].endswith("s")
    return "" if is_of_other else sentence


def _is_of_relative(sentence: str, prompt: str) -> bool:
    """Check whether a sentence is about a relative of the prompt alone, while the question asks about the person."""
    told = _OF_RELATIVE.fullmatch(sentence)
    question = question_of(prompt)
    if told is None or not _ABOUT_ONE.search(question):
        return False
    return has_words(prompt, told[1]) and not has_words(question, told[1])


def as_asked(gold: str, answer: str, prompt: str) -> str:
    """Adapt a gold to the question's unit, rounding, list order and bounds.

    Examples:
        >>> [as_asked("12", said, "How many dollars is that?") for said in ("12 cents", "12", "12 pens")]
        ['12 dollars', '12', '12 dollars']
        >>> [as_asked("37", said, "Convert 98.6°F to degrees Celsius.") for said in ("37 °F", "37 °C")]
        ['37 degrees Celsius', '37']
        >>> [as_asked("84", "84%", asked) for asked in ("What is the score?", "What percentage is it?")]
        ['84 things', '84']
        >>> as_asked("1, 2", "2, 1", "Sort 2 and 1 from smallest to largest.")
        '(1, 2)'
        >>> as_asked("5 and 6", "between 5 and 6", "Between which two numbers is it?")
        'between 5 and 6'
    """
    gold = as_rounded(gold, prompt)
    asked, given = read(gold).node, read(answer).node
    if isinstance(given, Relation):
        given = given.sides[-1]
    if _is_count_in_percent(asked, given, prompt):
        # No percentage equals an amount with a unit.
        return f"{gold} things"
    if isinstance(asked, Collection) and asked.kind == "list":
        if (
            isinstance(given, Range)
            and len(asked.items) == 2
            and "between" in prompt.casefold()
        ):
            return f"between {gold}"
        return f"({gold})" if asks_for_order(prompt) else gold
    if (
        isinstance(given, Quantity)
        and given.unit == unit("deg")
        and _TEMPERATURE.search(gold)
    ):
        # the question tells of which scale: 5 degrees for 5 °C
        return _TEMPERATURE.sub(" degrees", gold)
    if isinstance(given, Quantity) and isinstance(asked, Number):
        name = asked_unit(given.unit, prompt, is_whole=gold.isdigit())
        return f"{gold} {name}".strip()
    return gold


def is_same_pair(gold: str, answer: str) -> bool:
    """Check for a gold's span as a clock shows it, or for its share and rest in other words.

    Examples:
        >>> is_same_pair("2 hours 5 minutes", "2:05"), is_same_pair("6 each, 2 left", "6 with 2 left over")
        (True, True)
        >>> is_same_pair("6 each, 2 left", "6 R 2"), is_same_pair("6 each, 2 left", "2 R 6")
        (True, False)
    """
    if len(gold) > MAX_PAIR or len(answer) > MAX_PAIR:
        return False
    shared = _SHARED.fullmatch(gold)
    given = read(answer).node if shared else None
    if shared and isinstance(given, Remainder):
        rest = [str(given.quotient.value), str(given.rest.value)]
        return rest == [shared[1], shared[2]]
    span = None if shared else _SPAN.fullmatch(gold)
    told = _SHARED.fullmatch(answer) if shared else _CLOCK.fullmatch(answer)
    pair = shared or span
    if not pair or not told:
        return False
    return list(map(int, pair.groups())) == list(map(int, told.groups()))


def _is_count_in_percent(asked: Node, given: Node, prompt: str) -> bool:
    """Check for a gold's number as a percentage, `84%` for 84 or `0.5%` for 0.5, where the question asks for none."""
    if isinstance(given, Quantity):
        given = given.amount
    match asked, given:
        case Number(count), Apply("%", (Number(percentage),)):
            # For a gold of 0.84, 84% is the same share.
            if not prompt or abs(percentage) > 10 * abs(count):
                return False
            question = question_of(prompt)
            is_plain = _PLAIN_SHARES.search(
                question
            ) is not None and not _PERCENTAGES.search(question)
            if is_plain and abs(count) <= 1:
                return True
            # A gold below 1 is itself a share, unless the prompt speaks of percentages.
            allowed = _PERCENTAGES if abs(count) < 1 else _SHARES
            return allowed.search(prompt) is None
    return False


def in_sterling(text: str, prompt: str, told: str = "") -> str:
    """Write pounds as money if the prompt has an amount in pounds sterling, and no other pounds.

    Pounds and pence of an answer, which is `told`, are money too, if the prompt has no such amount.

    Examples:
        >>> in_sterling("30 pounds", "What do 4 tickets at £7.50 cost?"), in_sterling("30 pounds", "At £2 per pound?")
        ('30 gbp', '30 pounds')
    """
    return _POUNDS.sub("gbp", text) if _is_sterling(prompt, told) else text


def _is_sterling(prompt: str, told: str) -> bool:
    """Check whether pounds are money: the prompt has a pound sign alone, or the told text has pounds and pence."""
    if "£" in prompt:
        return _POUNDS.search(prompt) is None
    return _POUNDS_AND_PENCE.search(told) is not None


def in_asked_scale(text: str, golds: Iterable[str], prompt: str) -> str:
    """Drop the scale that a question asks for behind a gold's number: `25` for `25 dozen` of "How many dozen?".

    Any other number keeps its scale, and so its size.

    Examples:
        >>> [in_asked_scale(said, ["25"], "How many dozen eggs?") for said in ("25 dozen", "24 dozen", "25 hundred")]
        ['25', '24 dozen', '25 hundred']
        >>> in_asked_scale("$2.5 million", ["2.5"], "What is the profit, in millions of dollars?")
        '$2.5'
        >>> in_asked_scale("She needs 19 quarters.", ["19"], "How many quarters make $4.75?")
        'She needs 19.'
    """
    scale = _asked_scale(prompt)
    if not scale:
        return text
    for gold in filter(_NUMBER.fullmatch, golds):
        # "8 quarters and 9 nickels" and "9 nickels and 8 quarters" count coins.
        scaled = (
            rf"(?<![\w.,])(?<!s and )({re.escape(gold)}\*{{0,2}})[\s~]{{0,3}}((?:\\text\{{\s*)?){scale}s?\b"
            r"(?!,? and \d)"
        )
        text = re.sub(scaled, r"\1\2", text)
    return text


@lru_cache(maxsize=256)
def _asked_scale(prompt: str) -> str:
    """Return the scale that a question asks for, such as `dozen`; empty without one, or with several."""
    question = question_of(prompt) or task_of(prompt)
    scales = {(found[1] or found[2]).lower() for found in _ASKED_SCALE.finditer(question)}
    return scales.pop() if len(scales) == 1 else ""


@lru_cache(maxsize=256)
def asks_percentage(prompt: str) -> bool:
    """Check whether a prompt's question asks for a number in percent.

    Examples:
        >>> asks_percentage("What percentage passed?"), asks_percentage("How many are left, if the percentage is 5?")
        (True, False)
    """
    return _ASKS_PERCENTAGE.search(question_of(prompt) or prompt[-MAX_PROMPT:]) is not None


@lru_cache(maxsize=256)
def known_numbers(prompt: str) -> frozenset[str]:
    """Return a prompt's numbers, cached: each completion of the prompt looks them up."""
    return frozenset(numbers(in_digits(prompt[-MAX_KNOWN:])))


@lru_cache(maxsize=256)
def _known_amounts(prompt: str) -> frozenset[object]:
    """Return a prompt's amounts with a unit, cached: each completion of the prompt looks them up."""
    known = set()
    text = without_text_commands(in_digits(prompt[-MAX_KNOWN:]))
    for sign, number, behind in (
        found.groups()[:3] for found in _GIVEN_AMOUNT.finditer(text)
    ):
        if sign:
            known.add(_size_in_unit(read(sign + number).node))
        if behind:
            known.add(_size_in_unit(read(number + behind.replace("-", " ")).node))
    for found in _GIVEN_PARTS.finditer(text):
        known.add(_size_in_unit(read(found[0]).node))
    return frozenset(known)


def with_asked_amount(found: FinalAnswer, sentence: str, prompt: str) -> FinalAnswer:
    """Replace an amount copied from the prompt by the sentence's equal amount in the asked unit.

    Dozens copied from the question are no answer.

    Examples:
        >>> for asked, text, answer in (
        ...     ("How many inches are in 3 feet?", "3 feet (36 inches)", "3 feet"),
        ...     ("How many eggs are in 3 dozen?", "There are 3 dozen eggs.", "36"),
        ... ):
        ...     found = with_asked_amount(FinalAnswer((answer,), ("text",)), text, asked)
        ...     found.problem or found.answers[0]
        '36 inches'
        'no_answer'
    """
    if found.problem or len(found.answers) != 1:
        return found
    answer = found.answers[0]
    sentence = after_thinking(sentence) or sentence
    if "dozen" in sentence and _is_given_dozens(answer, sentence, question_of(prompt)):
        return FinalAnswer(problem="no_answer")
    if not is_given_amount(answer, "", prompt):
        return found
    given = read(answer).node
    for told in _GIVEN_AMOUNT.finditer(in_digits(sentence)):
        node = read(told[0]).node
        is_asked = isinstance(node, Quantity) and not asked_unit(
            node.unit, prompt, is_whole=False
        )
        if is_asked and _size(node) == _size(given):
            return replace(found, answers=(told[0],))
    return found


def _is_given_dozens(answer: str, sentence: str, question: str) -> bool:
    """Check for dozens of the question, "3 dozen" for "How many eggs are in 3 dozen?", without another number."""
    told, given = set(numbers(sentence)), set(numbers(in_digits(question)))
    is_new = "dozen" not in question or not told <= set(numbers(question))
    return not is_new and given.issuperset(numbers(in_digits(answer)))


def _size(node: Node) -> object:
    """Return a quantity in its measures' first units: 3 feet and 36 inches have one size."""
    match node:
        case Quantity(Number(value), of):
            return of.measures, value * of.factor
    return None


def _sizes(written: Iterable[str]) -> set[str]:
    """Return numbers without the last zeros of decimals: 3.5 for 3.50."""
    return {
        number.rstrip("0").rstrip(".") if "." in number else number for number in written
    }


def _size_in_unit(node: Node) -> object:
    """Return a quantity's value and unit, the same for 3 feet, 3 ft and 3.0 ft; None for other values."""
    match node:
        case Quantity(Number(value), of):
            return value, of
    return None


def is_given_amount(answer: str, gold: str, prompt: str) -> bool:
    """Check for an amount of the prompt in another unit than asked: `3 feet` for "How many inches are 3 feet?".

    An answer that adds a number to the amount, or repeats the gold's number, is no copy.

    Examples:
        >>> asked = "Convert 2.75 kg to grams."
        >>> [is_given_amount(said, "2750", asked) for said in ("2.75 kg", "2750 g", "2.75 kg = 2750 g", "0.00275 t")]
        [True, False, False, False]
        >>> is_given_amount("5 feet 8 inches", "68 inches", "Convert 5 feet 8 inches to inches.")
        True
    """
    given = read(answer).node
    is_alone = not isinstance(given, Relation)
    if isinstance(given, Relation):
        given = given.sides[-1]
    told = numbers(in_digits(answer))
    if not isinstance(given, Quantity) or not told or told == numbers(gold):
        return False
    if not asked_unit(given.unit, prompt, is_whole=gold.isdigit()):
        return False
    has_known_numbers = _sizes(known_numbers(prompt)).issuperset(_sizes(told))
    is_known = _size_in_unit(given) in _known_amounts(prompt) - {None}
    # "5 feet 8 inches" has two numbers of the prompt; 2.75 hours are its 2 3/4 hours.
    return (has_known_numbers and len(told) > 1) or (
        is_known and (is_alone or has_known_numbers)
    )


def numbers(text: str) -> list[str]:
    """List a text's numbers in digits, without thousands separators."""
    return [number.replace(",", "") for number in _NUMBER.findall(text)]


def asked_unit(given: Unit, prompt: str, *, is_whole: bool) -> str:
    """Return the question's unit if the answer's unit differs; else an empty text."""
    question = question_of(prompt)
    if _PERCENT.search(question):
        return "percent"
    asked = _units_asked(question or task_of(prompt), is_whole=is_whole)
    if _AGE.search(question) and not _SHORT_AGES.search(prompt):
        asked = {**asked, "years": unit("years")}
    if given not in asked.values():
        for name, of in asked.items():
            if _differs(of, given, question):
                return name
    return _currency_of(given, prompt, is_whole=is_whole)


def _currency_of(coin: Unit, prompt: str, *, is_whole: bool) -> str:
    """Return the currency of a prompt that has no amounts in its coin; else an empty text."""
    for name, currency, sign, word in _COINS:
        # No whole number of coins is a part of the currency's unit.
        is_told = sign in prompt or (not is_whole and has_words(prompt, rf"{word}s?"))
        if coin == unit(name) and is_told and not _PRICES_IN[name].search(prompt):
            return currency
    return ""


@lru_cache(maxsize=256)
def _units_asked(question: str, *, is_whole: bool) -> Mapping[str, Unit]:
    """Return the units that a question asks for, by their names; cached, as each completion looks them up.

    "To the nearest cm" asks for centimetres only if the gold is a whole number, and never for a currency.
    """
    asked = {}
    for groups in _UNIT.findall(question):
        whole_name = "".join(groups)
        if groups[-1] and (is_currency(whole_name) or not is_whole):
            continue
        # Of "hours per day" and "miles per trip", the first word alone is a unit with a measure.
        for name in (whole_name, whole_name.partition(" per ")[0]):
            said = read(f"1 {name}")
            if (
                isinstance(said.node, Quantity)
                and said.node.unit.measures
                and not said.counted
            ):
                asked[name] = said.node.unit
                break
    return asked


def _differs(asked: Unit, given: Unit, question: str) -> bool:
    """Check whether a given unit conflicts with an asked unit: by its size or by its measures.

    A price may leave its span out. An area may answer a question about metres, and a rate a question about a distance,
    if the question names the area, the rate's span or a mean.
    """
    if {asked, given} in _NAMESAKES:
        return False
    if asked.measures == given.measures:
        return True
    common = dict(asked.measures).keys() & dict(given.measures)
    if any(map(is_money, common)):
        return False
    spans = _units_after_per(question)
    if has_words(question, "mean|average"):
        spans.update(map(unit, _SPANS))
    rates = [asked.times(span, -1) for span in spans]
    powers = [
        asked.times(asked, power)
        for word, power in _POWERS.items()
        if has_words(question, word)
    ]
    return given not in (*rates, *powers)


def with_question(
    found: FinalAnswer, golds: Sequence[str], sentence: str, prompt: str
) -> FinalAnswer:
    """Adapt an answer to the question: the asked direction, part of a division, or ratio order.

    An answer in another unit than the question's is no answer.

    Args:
        found: The answer found in the sentence.
        golds: Golds. A direction in a gold counts before the question.
        sentence: The completion's last sentence.
        prompt: The question. Without a question, the words "not a profit" in the sentence tell the asked direction.

    Examples:
        >>> def of(answer, sentence, asked):
        ...     found = with_question(FinalAnswer((answer,), ("text",)), ["20"], sentence, asked)
        ...     return found.problem or found.answers[0]
        >>> said = "That is a loss of $20."
        >>> of("$20", said, "How much profit did he make?"), of("$20", said, "How much did he lose?")
        ('-$20', '$20')
        >>> [of("7, with a remainder of 2", "", asked) for asked in ("How many are left over?", "How many bags?")]
        ['2', '7']
        >>> of("8 m", "Each is 8 m.", "How many pieces?"), of("$4", "It is $4 per minute.", "What is it per hour?")
        ('no_answer', 'no_answer')
        >>> of("2:3", "The ratio of dogs to cats is 2:3.", "What is the ratio of cats to dogs?")
        '3:2'
    """
    if found.problem or len(found.answers) != 1:
        return found
    found = with_asked_amount(found, sentence, prompt)
    if found.problem:
        return found
    question = question_of(prompt)
    asked = question or task_of(prompt)
    answer = with_asked_direction(found.answers[0], golds, sentence, asked)
    if _PER.search(question):
        answer = _FOR_EVERY.sub(r"\1", answer)
    if not any(map(_is_rate, golds)):
        answer = _with_told_span(_without_asked_span(answer, question), sentence, question)
    if _is_in_other_unit(answer, sentence, question) and answer not in golds:
        return FinalAnswer(problem="no_answer")
    answer = _part_of_date(_without_subject(answer, question), golds, asked)
    return replace(found, answers=(_asked_part(answer, golds, sentence, question),))


def _without_subject(answer: str, question: str) -> str:
    """Remove the question's subject before a number: `14` of "Priya is 14" for "How old is Priya?"."""
    told = _OF_SUBJECT.fullmatch(without_text_commands(answer))
    if told is None or len(answer) > MAX_PAIR:
        return answer
    asked = rf"\b{_VERB_OF_ASKED}\s+{re.escape(told[1])}(?!\w|['’]|\s+and\b)"
    return told[2] if re.search(asked, question, re.IGNORECASE) else answer


def _is_rate(gold: str) -> bool:
    node = read(gold).node
    return isinstance(node, Quantity) and _is_per_another(node.unit)


def _is_per_another(of: Unit) -> bool:
    """Check whether a unit is a unit per another, such as km/h."""
    return any(power < 0 for _, power in of.measures)


def _with_told_span(answer: str, sentence: str, question: str) -> str:
    """Add the sentence's span to an amount if a rate is asked: `75 km per hour` for `75 km` of "75 km in an hour"."""
    if not any(map(_is_per_another, _units_asked(question, is_whole=False).values())):
        return answer
    told = re.search(re.escape(answer) + _TOLD_SPAN, sentence)
    return f"{answer} per {told[1]}" if told and is_unit(told[1]) else answer


def _without_asked_span(answer: str, question: str) -> str:
    """Remove a rate's span if the question names the span: `28 km per week` answers "How far in a week?" by `28 km`.

    A rate in the asked unit keeps its span: `28 km per week` for "How many km per week?".
    """
    rate = _RATE.fullmatch(answer)
    if rate is None:
        return answer
    given = read(answer).node
    if isinstance(given, Relation):
        given = given.sides[-1]
    asked = _units_asked(question, is_whole=False).values()
    if isinstance(given, Quantity) and any(
        given.unit.measures == of.measures for of in asked
    ):
        return answer
    span = rf"\b(?:(?:(?:in|over|during)\s+)?(?:the|an?|one|each|every)|per)\s+{rate[2]}\b|\b{rate[2]}ly\b"
    is_asked = re.search(span, question, re.IGNORECASE)
    return rate[1] if is_asked else answer


def _is_in_other_unit(answer: str, sentence: str, question: str) -> bool:
    """Check for an answer per wrong unit, such as per minute, or a measure where the question counts things."""
    asked = _units_after_per(question)
    told = _units_after_per(sentence) if asked else set()
    if told and not asked & told:
        return True
    if not _COUNTS.search(question):
        return False
    if _NO_COUNT.fullmatch(answer):
        return True
    given = read(answer).node
    if not isinstance(given, Quantity):
        return False
    measures = {measure for measure, _ in given.unit.measures}
    named: set[str] = set()
    for word in filter(is_unit, _WORD.findall(question)):
        named.update(measure for measure, _ in unit(word).measures)
    return measures <= _MEASURES and not measures <= named


def _units_after_per(text: str) -> set[Unit]:
    return {unit(word) for word in _PER.findall(text) if is_unit(word)}


def _asked_part(answer: str, golds: Sequence[str], sentence: str, question: str) -> str:
    """Return the asked part of a quotient with remainder, or a ratio in the asked order; other answers unchanged."""
    pair = _RATIO_OF.search(question)
    match read(answer).node:
        case Remainder(quotient, rest) if question and all(
            isinstance(read(gold).node, Number | Quantity) for gold in golds
        ):
            return str(rest.value if OF_REST.search(question) else quotient.value)
        case Apply("ratio", (Number(one), Number(other))) if pair:
            clause = sentence.casefold().rpartition(", ")[2]
            first, second = (clause.find(thing.casefold()) for thing in pair.groups())
            is_turned = 0 <= second < first
            return f"{other}:{one}" if is_turned else answer
    return answer


def _part_of_date(answer: str, golds: Sequence[str], question: str) -> str:
    """Return a date's year or month if the question asks for it and each gold is one; other answers unchanged."""
    asked = _PART_OF_DATE.search(question)
    told = read(answer).node if asked else None
    if asked is None or not isinstance(told, Date) or told.is_open:
        return answer
    if asked[1].casefold() == "month":
        return month_name[told.month] if all(map(_MONTH.fullmatch, golds)) else answer
    return str(told.year) if told.year and all(map(_YEAR.fullmatch, golds)) else answer


# Characters of an answer's end that may hold a rate.
MAX_RATE = 80
# "$18.50 per hour", "$18.50/hour", "\$18.50 \text{ per hour}", "$18.50 a night".
_RATE_END = re.compile(
    r"(?P<text>\\(?:text|mathrm|mbox)\{\s*[^{}]*?)?"
    r"(?:\s*/\s*|(?<![A-Za-z])(?:per|for\s+(?:each|every|one)|each|every|an?)\s+)"
    r"(?:\\(?:text|mathrm|mbox)\{\s*)?(?P<unit>[A-Za-z]{2,})\s*\}?(?P<end>[\s.!*$]*)\Z"
)
# Of "At $15 per hour, how much is it per day?", the day.
_ASKED_RATE = re.compile(
    r"\b(?:how|what|which|find|calculate|compute|determine|give)\b(?!.*\b(?:how|what)\b)"
    r".*?\b(?:per|each|every|one|an?|1)\s+([A-Za-z]{2,})",
    re.IGNORECASE,
)
_NAMES_RATE = re.compile(r"/\s*\\?[A-Za-z]|\b(?:per|each|every)\b")


def without_asked_rate(answer: str, golds: tuple[str, ...], prompt: str) -> str:
    """Remove the rate behind an amount of money, if the question names this rate and no gold has a rate.

    Examples:
        >>> asked = "She earned $148 in 8 hours. How much does she earn per hour?"
        >>> without_asked_rate("$18.50/hour", ("$18.50",), asked), without_asked_rate("$18.50/day", ("$18.50",), asked)
        ('$18.50', '$18.50/day')
    """
    # The reader takes "each" behind an equation for a unit: "87 / 6 = $14.50 each".
    if "=" in answer and "$" in answer:
        answer = _EACH.sub("", answer)
    # Only the end is searched: a run of white space would take quadratic time.
    found = _RATE_END.search(answer, max(0, len(answer) - MAX_RATE))
    if found is None or any(map(_NAMES_RATE.search, golds)):
        return answer
    # The dollars of `$60$ miles per hour` enclose a formula; a single dollar is money.
    has_dollars = answer.count("$") % 2 == 1 or ("$" in answer and is_in_money(answer))
    words = (*_WORD.findall(answer), *answer.replace("$", ""))
    is_money = has_dollars or any(map(is_currency, words))
    if not is_money or len(_NUMBER.findall(answer)) != 1:
        return answer
    asked = _ASKED_RATE.search(question_of(prompt) or task_of(prompt))
    if asked is None or _unit_of(asked[1]) != _unit_of(found["unit"]):
        return answer
    # `\text{ dollars per hour}` keeps its dollars.
    closed = f"{found['text']}}}" if found["text"] else ""
    return f"{answer[: found.start()]}{closed}{found['end']}".strip()


def _unit_of(word: str) -> Unit | str:
    """Return a word's unit, equal for `kg` and `kilogram`; the word itself if it names none."""
    return unit(word) if is_unit(word) else word.casefold()
