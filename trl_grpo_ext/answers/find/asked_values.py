"""Choose among a sentence's values by the question: its asked kind, counted things and clause words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from trl_grpo_ext.answers.find.asked import (
    OF_REST,
    is_opposed,
    known_numbers,
    numbers,
    question_of,
)
from trl_grpo_ext.answers.find.conclusions import (
    REACH,
    THEREFORE_CLAUSE,
    Conclusion,
    Span,
    clauses_of,
    conclusion,
)
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.moments import DATE, TIME, on_any_day
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import DENIAL, any_of, has_words
from trl_grpo_ext.answers.read.tree import Node
from trl_grpo_ext.answers.read.units import LENGTHS, currency_names, currency_signs

# The question helps to choose among at most this many values.
MAX_VALUES = 20
# Characters at the end of a prompt in which known numbers are looked up.
MAX_PROMPT = 4_000
_MONEY = "|".join(f"{name}s?" for name in currency_names())
# Kinds of values by the words that ask for them. A kind is matched with the value and the words behind it.
_KINDS = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(told, re.IGNORECASE))
    for asked, told in (
        (r"\b(?:what|which) date\b", DATE),
        (
            r"\bwhat time\b|\bat what hour\b|\bwhen\s(?:is|was|does|do|did|will|should|must)\b",
            f"{TIME}|{DATE}",
        ),
        (r"\b(?:what|which) year\b", r"[12]\d{3}\b"),
        (
            r"\b(?:what|which) percent(?:age)?\b|\bhow many percent\b",
            r"\S*%|\S*\s+per\s?cent",
        ),
        (r"\bratio\b", r"\d+\s?:\s?\d+|\d+ to \d+|\d+/\d+|.*every"),
        (r"\bwhat fraction\b", r"\d+/\d+"),
        (
            r"\bhow much\b",
            rf"\\?[{currency_signs()}]\s?\d|\S+\s+(?:{_MONEY})\b",
        ),
        (
            rf"\bhow far\b|\bwhat distance\b|\bhow many (?:{LENGTHS})\b",
            rf"\S+?(?:\s\d/\d)?\s*(?:{LENGTHS})\b",
        ),
        (
            r"\bhow long\b|\bhow many (?:hours|minutes|seconds)\b",
            rf"(?!{TIME})[\d.,/\s]+[\s-]*(?:hour|minute|second|day|week|h\b|min)",
        ),
        # A count is no amount of money: "It takes 10 weeks to save $150".
        (
            rf"\bhow many (?!(?:{_MONEY}|pounds?|do|does|did|is|are|was|will|can|has|have)\b)",
            rf"(?!\\?[{currency_signs()}])",
        ),
    )
)
# The result of a calculation needs no sign of its kind: "$400 - $20 = 380", "with 14 days, that makes 98".
_RESULT = re.compile(
    r"(?:=|\b(?:gives?|leav(?:es?|ing)|mak(?:es?|ing)|yields?|comes? to|totals?)\s)\s?[$€£*\\(]{0,4}\Z",
    re.IGNORECASE,
)
_MAX_BEFORE_RESULT = 20
# Singular nouns that a number behind them puts in order: "on day 4", "after round 3", "Level 4 gives 800".
_IN_ORDER = re.compile(
    r"(?:^\W*(?:so|thus|then)?\W*|[,;:(]\s|\b(?:on|in|at|after|by|of|until|before|from|during|for|to|and|or|the)\s)"
    r"(second|minute|hour|day|night|week|month|year|round|step|stage|level|lap|game|match|turn|trial|chapter|page|row"
    r"|figure|term|lesson|stop|throw|jump|shift|trip|visit)\s\Z",
    re.IGNORECASE,
)
# "So 12 is 15% of 80", "42 is 7 times as big as 6": the question may ask for any of the three.
_SHARE_OF = re.compile(
    r"(?:[A-Za-z]+,?\s+)?\S*\d\S*\s(?:[a-z]+\s){0,2}?is\s\S*\d\S*\s?(?:%|percent|times)?"
    r"(?:\s(?:as|more|less)\s[a-z]+)?\s(?:of|as|than)\s\S*\d\S*",
    re.IGNORECASE,
)
# A rate behind a value: "7 per hen"
_RATE_OF = re.compile(r"\S+\s(?:[a-z]+\s)?(?:per|each|every|for each|an?)\s([a-z]{2,15})\b")
_COUNT_OF = re.compile(
    r"\bhow many\s+(?:more |fewer |other |full |whole )?([a-z]{3,})", re.IGNORECASE
)
_NOUN = re.compile(
    r"\S*[\s*]+(?:of\s+(?:the|his|her|their|its|them)\s+)?"
    r"(?:more\s+|other\s+)?([a-z]{2,}s|people|children|men|women|feet)\b(?<!\bis)(?<!\bas)(?<!\bwas)(?<!\bhas)(?<!less)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]{3,}", re.IGNORECASE)
_SILENT = frozenset(
    """what which how many much the and are was were did does has have had will would can for from with that this
    there his her she they its their each all long old who when where than them him two you""".split()  # noqa: SIM905
)
_IRREGULAR = {
    "sold": "sell", "lost": "lose", "bought": "buy", "paid": "pay", "spent": "spend", "made": "make", "got": "get",
    "ate": "eat", "eaten": "eat", "took": "take", "gave": "giv", "given": "giv", "left": "leav", "drove": "driv",
    "ran": "run", "won": "win", "kept": "keep", "read": "read", "grew": "grow", "held": "hold", "sent": "send",
    "wrote": "write", "written": "write", "spoke": "speak", "spoken": "speak", "fell": "fall", "fallen": "fall",
    "drew": "draw", "drawn": "draw", "sang": "sing", "sung": "sing", "built": "build", "found": "find",
    "knew": "know", "known": "know", "began": "begin", "begun": "begin", "flew": "fly", "flown": "fly",
}  # fmt: skip
_REASON = re.compile(
    r"\W*(?:since|because|as|if|when|given|although|while|after|before|with|for|at|in|from|of|[a-z]+ing)\b",
    re.IGNORECASE,
)
_AND = re.compile(
    r"\sand\s(?=(?:is|are|was|were|has|have|had|gets?|got|costs?|takes?|keeps?|pays?)\s"
    # "The sum of 10 and 15 is 25" joins two numbers.
    r"|(?<!\d\sand\s)(?<!\d,\sand\s)\S*\d\S*\s+(?:[a-z]+\s+)?"
    r"(?:is|are|was|were|remains?|stay|do|have)\b)",
    re.IGNORECASE,
)
# A subject that goes on behind "and": "The difference between -3°C and 8°C is".
_OF_BOTH = re.compile(
    r"\bthe\s(?:[a-z()]+\s){1,4}(?:of|between)\s(?:the\s)?[^\s\d]*\d\S*(?:\s[a-z]+)?$",
    re.IGNORECASE,
)
_COMPARES = re.compile(
    r"\b(?:more|less|fewer|differ\w*|change\w*|compar\w*|than|[a-z]{3,}er)\b",
    re.IGNORECASE,
)
_ONLY_COMPARED = re.compile(
    r"\d\S*\s+(?:[a-z/]+\s+){0,2}(?:slower|faster|too (?:much|many|little|few|long|short|late|early))\W*$",
    re.IGNORECASE,
)
_NEGATIVE = any_of(DENIAL)
_CHOOSES = re.compile(r"\W*(?:which|who|is)\b", re.IGNORECASE)
_THAN = re.compile(
    r"\S*\s+(?:[a-z]+\s+){0,2}(?:more|less|fewer|[a-z]{3,}er)\s+than\b", re.IGNORECASE
)
# "8 years younger than Lisa" tells no age, "12 fewer pens than Ava" no count.
_IS_MORE_THAN = re.compile(
    r"\S*\s+(?:[a-z]+\s+){0,2}(?:(?:more|less|fewer)(?:\s[a-z]+){0,2}|(?!rath|oth|numb|lat)[a-z]{3,20}er)\s+than"
    r"\s+(?:his\s|her\s|the\s)?[A-Za-z]"
)
# An amount that explains the amount before it: "$9, which is $0.75 each", "$18 (that is $6 off the price)".
_EXPLAINS = re.compile(
    r"(?:,\s+|\s\()(?:which|that|this)(?:['’]s|\s(?:is|was|means|makes))\s+(?:about\s|only\s|just\s|exactly\s)?"
    r"(?=\S*\d)\S+\s(?:[a-z]+\s)?(?:(each|apiece|per|every)|more|less|fewer|off|short|cheaper|under|over|below|above)\b",
    re.IGNORECASE,
)
# A question for such an amount: "How much does he save?"
_ASKS_DIFFERENCE = re.compile(
    r"\b(?:sav|discount|off\b|reduc|increas|decreas|short|extra|over\b|under\b|below|above|beyond|ris|rose|drop|gain"
    r"|los[est]|profit|cheap|miss|lack|need)",
    re.IGNORECASE,
)
# half of 360
_PART_OF = re.compile(r"\b1/2 of \S*\d|\b\d+ times (?:as [a-z]+ as )?\S*\d")
_COUNTED_FROM = re.compile(
    r"\b(?:(?:after|before|from|since|past|following|to|than)|[a-z]+ing\s+(?:at|from|on))\s+$",
    re.IGNORECASE,
)
# "2 hours after 3:30 PM" counts from any moment.
_SPAN_FROM = re.compile(
    r"\d\S*\s(?:second|minute|hour|day|week|month|year)s?\s(?:after|before|from|past)\s+$",
    re.IGNORECASE,
)
# "At 3 PM they are still 60 miles apart" tells of another moment than the asked.
_ASKS_WHEN = any_of("when|what time")
_NOT_THEN = any_of("still|half|1/2|halfway|almost|nearly|yet")
_MOMENT = re.compile(f"{DATE}|{TIME}", re.IGNORECASE)
# 3, 5, 9 and 12
_LIST = re.compile(
    r"[-−]?\d[\d./]{0,20}(?:(?:,\s?(?:and\s)?|\sand\s)[-−]?\d[\d./]{0,20}){2,40}"
)
_OF_DATA = re.compile(
    r"\b(?:of|for|from|in|among|between)\s(?:the\s)?(?:[a-z]+\s)?[(:\s]*\Z", re.IGNORECASE
)
_LISTED = re.compile(r"[-−]?\d+(?:[./]\d+)?")
_OPTIONS = re.compile(r"(?:^|\s)\(?A[).:]\s.*(?:^|\s)\(?B[).:]\s", re.DOTALL)
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ing|es|ed|s|e)$")

# Characters at a text's end that are searched.
_MAX_END = 200
# The start of such an end: "to reach 100 miles", "to make it a 2% solution", "from $40 to $52".
_PURPOSE = re.compile(
    r"(?<=[\w%°²³)*]),?\s(?:(?:in order )?to\s(?!the\b|an?\b|be\b)[a-z]{2,15}\b|from\s(?=[^\n]{1,40}\sto\s\S*\d))"
)
# Behind such words, an infinitive is no purpose: "She has to pay $40".
_NO_PURPOSE = re.compile(
    r"\b(?:ha(?:s|ve|d|ving)|needs?|needed|going|able|wants?|wanted|ought|got|used|plans?|likely|supposed|required|how"
    r"|comes?|came|decides?|decided|tries|starts?|started|begins?|began|continues?|fails?|failed|manages?)\W*$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s|\n")


def without_purpose(text: str, prompt: str) -> str:
    """Remove the end of a last sentence that tells a purpose or a change in the question's numbers alone.

    Another number stands before it in the sentence.

    Examples:
        >>> asked = "He wants to run 100 miles and has run 64. How many miles a day must he run in 9 days?"
        >>> without_purpose("He must run 4 miles a day to reach 100 miles.", asked)
        'He must run 4 miles a day'
        >>> without_purpose("He must run 4 miles to reach 68 miles.", asked)
        'He must run 4 miles to reach 68 miles.'
        >>> without_purpose("It rose 30% from $40 to $52.", "It rose from $40 to $52. By what percent?")
        'It rose 30%'
    """
    end = text[-_MAX_END:] if prompt else ""
    if " to " not in end:
        return text
    *_, sentence = _SENTENCE_END.split(end.rstrip(" .!*\n"))
    for begin in _PURPOSE.finditer(sentence):
        before = sentence[: begin.start()]
        told = numbers(in_digits(sentence[begin.start() :]))
        is_known = bool(told) and known_numbers(prompt).issuperset(told)
        if is_known and numbers(in_digits(before)) and not _NO_PURPOSE.search(before):
            return text[: text.rindex(sentence) + begin.start()]
    return text


def asked_conclusion(sentence: str, values: Sequence[Span], prompt: str) -> Conclusion:
    """Find the value that a sentence concludes with, helped by the question.

    Values of the asked kind come first: times for "What time". Then the words around the values decide. If they leave
    it open, or point to a number of the question, the sentence's only new value is the answer, provided that its clause
    is about the question.

    Examples:
        >>> def of(text, prompt):
        ...     values = [Span(*number.span()) for number in re.finditer(r"[0-9]+", text)]
        ...     place, problem = asked_conclusion(text, values, prompt)
        ...     return problem or text[values[place].start : values[place].end]
        >>> of("They pay 54 together, or 18 for each of the 3.", "One pays 18. What do 3 pay together?")
        '54'
        >>> of("We fill 8 cartons, and 4 eggs find no place.", "How many eggs are left over?")
        '4'
    """
    if not prompt or len(values) > MAX_VALUES:
        return conclusion(sentence, values)
    question = question_of(prompt)
    if _tells_other_moment(sentence, question):
        return Conclusion(-1, "no_answer")
    if _SHARE_OF.fullmatch(sentence.strip(" .!")):
        new = _not_known(sentence, _of_kind(sentence, values, question), prompt)
        if len(new) == 1:
            return Conclusion(values.index(new[0]))
    return _chosen(sentence, values, question, prompt)


def _chosen(
    sentence: str, values: Sequence[Span], question: str, prompt: str
) -> Conclusion:
    """Find the value that a sentence concludes with among the values that the question may ask for."""
    ordered = _not_in_order(sentence, values, question)
    given = _not_given(sentence, ordered, prompt)
    told = _not_explaining(sentence, given, question, prompt)
    asked = _not_compared(sentence, _of_kind(sentence, told, question), question)
    unlisted = _not_listed(sentence, asked, prompt)
    asked, found = _concluded(sentence, asked, unlisted)
    if found.problem == "hedged":
        return found
    is_compared = _ONLY_COMPARED.search(sentence) or all(
        _IS_MORE_THAN.match(sentence, value.start) for value in asked
    )
    if is_compared and not _COMPARES.search(question):
        return found if found.problem else Conclusion(-1, "no_answer")
    chosen = None
    clause = ""
    if not found.problem:
        chosen = asked[found.place]
        clause = _clause_at(sentence, clauses_of(sentence), chosen)
    choices = unlisted if chosen is None or chosen in unlisted else asked
    is_rest = OF_REST.search(clause) is not None and not OF_REST.search(question)
    of_things = _of_things(sentence, choices, chosen, question)
    new = _not_known(sentence, choices, prompt)
    if is_rest or new == [of_things] or not THEREFORE_CLAUSE.match(clause):
        candidates = (
            of_things,
            _new(sentence, choices, new, chosen, prompt),
            _of_clause(sentence, choices, question),
        )
        for better in candidates:
            if better and _may_replace(sentence, better, chosen, question, prompt):
                return Conclusion(values.index(better))
    if chosen is None:
        return found
    # "0.8 is smaller than 3/4" names 3/4 as the larger.
    if _CHOOSES.match(question) and is_opposed(question, clause):
        return Conclusion(-1, "no_answer")
    return Conclusion(values.index(chosen))


def _may_replace(
    sentence: str, value: Span, chosen: Span | None, question: str, prompt: str
) -> bool:
    """Check whether a value that the question points to may replace the chosen value."""
    if _is_fact(sentence, value, chosen, question, prompt):
        return False
    return not conclusion(sentence, [value]).problem


def _is_result(sentence: str, value: Span) -> bool:
    """Check whether a value is a calculation's result: 72 of "54 + 18 = 72" or "adding 18 gives 72"."""
    before = sentence[max(0, value.start - _MAX_BEFORE_RESULT) : value.start]
    return _RESULT.search(before) is not None


def _is_fact(
    sentence: str, value: Span, chosen: Span | None, question: str, prompt: str
) -> bool:
    """Check whether a value is a prompt's number, told before a new result: 54 of "She has 54, and 54 + 18 = 72"."""
    known = known_numbers(prompt)
    if chosen is None or chosen.start < value.end:
        return False
    told = [numbers(sentence[one.start : one.end]) for one in (value, chosen)]
    if not known.issuperset(told[0]) or known.issuperset(told[1]):
        return False
    rate = _RATE_OF.match(sentence, chosen.start)
    is_asked_rate = rate is not None and has_words(question, rate[1])
    return is_asked_rate or _is_result(sentence, chosen)


def _not_in_order(sentence: str, values: Sequence[Span], question: str) -> Sequence[Span]:
    """Drop numbers of order, "after day 4", or keep them alone if the question asks for one: "On which day?"."""
    ordered = {}
    for value in values:
        before = sentence[max(0, value.start - REACH) : value.start]
        noun = _IN_ORDER.search(before)
        if noun:
            ordered[value] = noun[1]
    if not ordered:
        return values
    asked = []
    for value, noun_of in ordered.items():
        if _asks_which(question, noun_of.casefold()):
            asked.append(value)
    return asked or [value for value in values if value not in ordered] or values


@lru_cache(maxsize=256)
def _asks_which(question: str, noun: str) -> bool:
    """Check whether a question asks for the number of a day, a week or another noun: "On which day"."""
    asks = rf"\b(?:which|what)\s(?:[a-z]+\s){{0,4}}?{noun}\b(?!\s\d)"
    return re.search(asks, question, re.IGNORECASE) is not None


def _tells_other_moment(sentence: str, question: str) -> bool:
    """Check whether a when-question gets a moment before the event: "At 3 PM they are still 60 miles apart"."""
    if not _NOT_THEN.search(sentence) or not _ASKS_WHEN.search(question):
        return False
    told = [
        sentence[one.start : one.end]
        for one in clauses_of(sentence)
        if _MOMENT.search(sentence, one.start, one.end)
    ]
    is_open = bool(told) and _NOT_THEN.search(told[-1]) is not None
    return is_open and not _NOT_THEN.search(question)


def _not_compared(sentence: str, values: Sequence[Span], question: str) -> Sequence[Span]:
    """Drop compared amounts, such as 9 in "9 more than 34"; comparing questions keep all values."""
    if _COMPARES.search(question):
        return values
    halves = [Span(*found.span()) for found in _PART_OF.finditer(sentence)]
    kept = []
    for value in values:
        is_in_half = any(half.start <= value.start < half.end for half in halves)
        if not is_in_half and not _THAN.match(sentence, value.start):
            kept.append(value)
    return kept or values


def _not_explaining(
    sentence: str, values: Sequence[Span], question: str, prompt: str
) -> Sequence[Span]:
    """Drop a rate of the prompt, or a difference that the question does not ask for, behind the amount it explains."""
    explains = (
        _EXPLAINS.search(sentence) if ("which" in sentence or "that" in sentence) else None
    )
    if explains is None:
        return values
    is_known = known_numbers(prompt).issuperset(numbers(explains[0]))
    asks = _COMPARES.search(question) or _ASKS_DIFFERENCE.search(question)
    if not is_known and (explains[1] or asks):
        return values
    return [value for value in values if value.start < explains.start()] or values


def _not_given(sentence: str, values: Sequence[Span], prompt: str) -> Sequence[Span]:
    """Drop moments from which a span counts, "3 weeks after June 2, 2020"; without a span, only the prompt's."""
    kept = []
    for value in values:
        before = sentence[max(0, value.start - REACH) : value.start]
        told = sentence[value.start : value.end]
        if not _COUNTED_FROM.search(before):
            kept.append(value)
            continue
        is_moment = _MOMENT.fullmatch(told) is not None
        is_known = on_any_day(read(told).node) in _moments(prompt)
        if not is_known and not (is_moment and _SPAN_FROM.search(before)):
            kept.append(value)
    return kept or values


def _not_listed(sentence: str, values: Sequence[Span], prompt: str) -> Sequence[Span]:
    """Drop lists of the prompt, in any order, that the sentence repeats: "The median of 3, 5, 9 is 5"."""
    kept = []
    for value in values:
        text = sentence[value.start : value.end]
        if not _LIST.match(text) or _listed(text) not in _lists(prompt):
            kept.append(value)
    return kept


def _concluded(
    sentence: str, values: Sequence[Span], unlisted: Sequence[Span]
) -> tuple[Sequence[Span], Conclusion]:
    """Find a sentence's conclusion beside a list of the prompt: 14 in "14 is the mean of 10, 12 and 20"."""
    found = conclusion(sentence, values)
    if found.problem or not unlisted or values[found.place] in unlisted:
        return values, found
    is_data = _OF_DATA.search(sentence, 0, values[found.place].start)
    return (unlisted, conclusion(sentence, unlisted)) if is_data else (values, found)


@lru_cache(maxsize=256)
def _lists(prompt: str) -> frozenset[tuple[str, ...]]:
    """Return the sorted numbers of each list in a prompt, cached: each completion of the prompt looks them up."""
    return frozenset(_listed(found[0]) for found in _LIST.finditer(prompt[-MAX_PROMPT:]))


def _listed(text: str) -> tuple[str, ...]:
    """Return a list's numbers as texts, sorted."""
    return tuple(sorted(_LISTED.findall(text)))


@lru_cache(maxsize=256)
def _moments(prompt: str) -> frozenset[Node]:
    """Return a prompt's dates and times, cached: each completion of the prompt looks them up."""
    return frozenset(
        on_any_day(read(found[0]).node) for found in _MOMENT.finditer(prompt[-MAX_PROMPT:])
    )


def _of_kind(sentence: str, values: Sequence[Span], question: str) -> Sequence[Span]:
    """Keep values of the asked kind, such as times for "What time"; all values if none remain."""
    for asked, told in _KINDS:
        if asked.search(question):
            kept = []
            for value in values:
                if _is_result(sentence, value) or told.match(sentence, value.start):
                    kept.append(value)
            return kept or values
    if not _NEGATIVE.search(question):
        return values
    parts = _parts(sentence)
    denied = []
    for value in values:
        clause = _clause_at(sentence, parts, value)
        if _NEGATIVE.search(clause):
            denied.append(value)
    return denied or values


def _of_things(
    sentence: str, values: Sequence[Span], chosen: Span | None, question: str
) -> Span | None:
    """Return the only value that counts the asked things, unless the chosen value counts them or nothing else."""
    asked = _COUNT_OF.search(question)
    if asked is None:
        return None
    counted = {value: _NOUN.match(sentence, value.start) for value in values}
    if chosen is not None and not counted[chosen]:
        return None
    thing = _stem(asked[1])
    held = []
    for value, noun in counted.items():
        if noun and _stem(noun[1]) == thing:
            held.append(value)
    if chosen in held or len(_texts(sentence, held)) != 1:
        return None
    return held[-1]


def _texts(sentence: str, values: Sequence[Span]) -> set[str]:
    """Return the distinct texts of a sentence's values."""
    return {sentence[value.start : value.end] for value in values}


def _of_clause(sentence: str, values: Sequence[Span], question: str) -> Span | None:
    """Return the single value of the clause sharing most words with the question; None for a tie."""
    asked = stems(question)
    clauses = _parts(sentence)
    said = {}
    for one in clauses:
        held = [value for value in values if one.start <= value.start < one.end]
        text = sentence[one.start : one.end]
        if held and not _REASON.match(text):
            said[one] = (len(asked & stems(text)), held)
    scores = sorted((score for score, _ in said.values()), reverse=True)
    if not scores or scores[0] == 0 or scores[1:2] == scores[:1]:
        return None
    held = next(held for score, held in said.values() if score == scores[0])
    if len(held) != 1:
        return None
    return held[0]


def _new(
    sentence: str,
    values: Sequence[Span],
    new: Sequence[Span],
    chosen: Span | None,
    prompt: str,
) -> Span | None:
    """Return the single one of the new values, absent from the prompt, if its clause fits the question best."""
    if len(_texts(sentence, new)) != 1:
        return None
    if chosen in new or _OPTIONS.search(prompt[-MAX_PROMPT:]):
        return None
    asked = stems(question_of(prompt))
    clauses = _parts(sentence)
    # The count of the question's words in each value's clause.
    said = {}
    for value in values:
        clause = _clause_at(sentence, clauses, value)
        said[value] = len(asked & stems(clause))
    last = new[-1]
    if chosen is not None:
        is_better = said[last] > said[chosen]
    else:
        is_better = last == values[-1] or said[last] == max(said.values())
    return last if is_better else None


def _not_known(sentence: str, values: Sequence[Span], prompt: str) -> list[Span]:
    """List a sentence's values with a number that the prompt has not."""
    known = known_numbers(prompt)
    return [
        value
        for value in values
        if not known.issuperset(numbers(sentence[value.start : value.end]))
    ]


def _parts(sentence: str) -> list[Span]:
    """Split a sentence into clauses. Verb phrases such as "and has 40% left" form clauses too."""
    parts = []
    for one in clauses_of(sentence):
        joints = [joint.start() for joint in _AND.finditer(sentence, one.start, one.end)]
        cuts = [cut for cut in joints if not _OF_BOTH.search(sentence, one.start, cut)]
        bounds = [one.start, *cuts, one.end]
        parts += [Span(start, end) for start, end in pairwise(bounds)]
    return parts


def _clause_at(sentence: str, clauses: Sequence[Span], value: Span) -> str:
    holding = next(clause for clause in reversed(clauses) if clause.start <= value.start)
    return sentence[holding.start : holding.end]


def stems(text: str) -> set[str]:
    """Return the stems of a text's content words: "How many did she sell?" gives `sell`."""
    found = set()
    for word in _WORD.findall(text):
        if word.casefold() not in _SILENT:
            found.add(_stem(word))
    return found


def _stem(word: str) -> str:
    plain = word.casefold()
    return _ENDING.sub("", _IRREGULAR.get(plain, plain))
