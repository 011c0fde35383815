"""Choose among the values of an unmarked sentence its answer.

A sentence's only value is its answer, unless a neighbouring word changes, denies or supposes it. Of several values, a
clause may conclude with one: after "is" or "makes", at the clause's end, or as the count of its subject.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from trl_grpo_ext.answers.read.moments import DATE, TIME
from trl_grpo_ext.answers.read.signal_words import AS_REASON, DENIAL, THEREFORE

# Words between a verb and its value: `is about $5`, `makes a total of 12`.
_FILLER = (
    r"(?:\s*(?:about|approximately|roughly|around|exactly|only|just|simply|still|now|then|thus|therefore|also|an?|the"
    r"|(?:total|sum|average|mean|remainder|increase|decrease|rise|drop|fall|growth|loss|profit|gain|change|ratio|length"
    r"|width|height|distance|speed|rate|area|volume|weight|price|cost|balance|difference|saving|value|age|score) of"
    r"|equal to|estimated at|back to|down to|up to|[$€£(*:~≈`\\])(?![a-z]))*\s*"
)
_HIM = r"(?:\s+(?:him|her|them|us|it|you|me|(?-i:[A-Z][a-z]+)))?"
_CONCLUDES = re.compile(
    r"(?:\b(?:ist|sind|beträgt|ergibt|est|sont|es|son|hay|é|são|è|sono"
    r"|is|are|was|were|be|been|equals?|totals?|becomes?|yields?|remains?|has left|weighs?|measures?|lasts?|means?"
    rf"|(?:gives?|makes?|takes?|costs?|saves?|earns?|hands?|returns?){_HIM}|(?:leaves?|leaving){_HIM}(?:\s+with)?"
    r"|corresponds? to|(?:written|expressed|represented) as|i\.e\.,?|that is,|namely"
    rf"|(?<!away )(?:needs?|gets?|pays?|turns?|owes?|receives?|uses?|buy|sell|have|had){_HIM}"
    r"|(?:lands?|brings?|gets?|takes?)(?:\s+(?:us|you|it|him|her|them))?\s+(?:at|to|on)"
    r"|(?:comes?|works?|turns?)\s+out\s+(?:to|at|as)(?:\s+be)?"
    r"|(?:left|ends?|ended)(?:\s+up)?\s+with|for a (?:grand )?total of"
    r"|(?:comes?|amounts?|rounds?|sums?|adds?|simplifies|evaluates|increases|decreases|rises|falls|drops|reduces)"
    rf"(?:\s+up)?\s+to)\b|['’]s\b|[=≈:]|等于|[是为]){_FILLER}$",
    re.IGNORECASE,
)
# A value after a preposition at the end is not the answer: "13 litres over 30 days".
_BESIDES = re.compile(
    rf"\b(?:over|in|for|per|of|with|from|at|on|after|before|by|than|until|during|within|every|each|among|between|into"
    rf"|under|above|below|through|if|when|out of|(?:in|by|since) the year)"
    rf"\s+(?:[a-z]+ing\s+)?(?:the\s+|those\s+|these\s+|all\s+)?{_FILLER}$",
    re.IGNORECASE,
)
# Text between a value and the end of its clause: the counted things, and "in total".
_TO_END = re.compile(
    r"\s*(?:[^\W\d_]*[*$)\]}°%.²³])*(?:[\s-]+(?!(?:without|who|whom|that|which|whose|when|where|while|if|because|than|as"
    r"|for|from|by|with|(?<!left )over|at|on|and|but|or|in|after|before|is|are|was|were|has|have|had|not|to)\b)"
    r"[^\W\d_'’]+){0,4}"
    r"(?:\s+(?:in|for)\s+(?:total|all|words?|the end|him|her|them|it|us|me))?(?:\s+each)?"
    r"(?:,\s+(?:then|too|overall|though|altogether|in total|as (?:required|expected|asked)))?\s*[\W_]*$",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"^\W*(?:(?:so|and|but|just|thus|hence|therefore|then|in total|altogether|finally|only|exactly"
    r"|(?:(?:which|that|this) )?means|meaning"
    r"|that)\b\W*)*$",
    re.IGNORECASE,
)
_SUBJECT_COUNT = re.compile(
    r"\s+(?!(?:of|out|in|per|for|by|times)\b)(?:[^\W_]+\s+){0,4}?(?:are|were|is|was|remain|can|will)\b"
    r"|(?<=/\d|\d%)\s+of\s+(?:the|all|his|her|their|its)\s+[^\W\d_]"
)
_CHANGED_BEFORE = re.compile(
    r"\b(?:minus|negative|twice|half|double|triple|except|(?:root|power|square|cube|multiple|factor|reciprocal|inverse|opposite)s?\s+of"
    r"|(?:more|less|fewer|greater|larger|smaller|higher|lower|longer|shorter|other|rather)\s+than|at (?:least|most)"
    r"|almost|nearly|under|(?<!take )(?<!takes )(?<!took )over|power|times|root)\s+[$(\\]*$"
    r"|(?:≠|!=|\\neq?(?![a-z]))\s*[$(\\]*$",
    re.IGNORECASE,
)
# "$735 last week", not "3 last"
_TIME_UNIT = (
    "night|weekend|week|month|quarter|term|semester|season|year|decade|century|spring|summer|autumn|fall|winter"
    "|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october"
    "|november|december|time|christmas|easter"
)
_CHANGED_BEHIND = re.compile(
    r"[^\w.]*\s(?:squared|cubed|factorial|hundreds|thousands|millions|billions|halves|thirds|fourths|quarters"
    r"|fifths|tenths|hundredths|from (?:the )?(?:back|end|last|bottom|top|front|left|right)|to last"
    rf"|last(?!\s(?:{_TIME_UNIT})\b)"
    r"|(?:is|are|was|were|does|do)\s?(?:not|n['’]t))\b"
    r"|\s*(?:is|are|was|were)n['’]t\b|[^.;,]*\swithout\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    rf"\b(?:{DENIAL})\s+(?!only\b)(?:(?!(?:is|are|was|but|so|thus)\b)[^\W\d_]+\s+){{0,2}}[$(\\]*$",
    re.IGNORECASE,
)
# A calculation right before its result: "5 apples + 7 apples = ".
_WORKING = re.compile(r"(?:[$(]*\d[\d.,%)]*(?:\s[^\W\d_]+){0,3}\s*[-−+*/×÷=]\s*)+$")
_SUPPOSED = re.compile(
    r"\b(?:would|could|might|may|should)\s+(?:\w+\s+){0,2}(?:be|been)\b(?!.*\b(?:so|thus|therefore|hence)\b)"
    r"|\b(?-i:might|may)\s|\b(?:if|suppose|assume|assuming|unless|had it been)\b(?!.*\bthen\b)",
    re.IGNORECASE | re.DOTALL,
)
_MOMENT = re.compile(rf"(?:{TIME}|{DATE})", re.IGNORECASE)
FINITE = r"(?:is|are|was|were|has|have|had|will|gets?|got|costs?|takes?|needs?|makes?|earns?|pays?)"
_OWN_SUBJECT = (
    rf"and\s(?!{FINITE}\b|(?:so|thus|therefore|hence|then|now|we|this|that)\b)"
    rf"(?:[^\W\d_]+\s){{1,4}}?{FINITE}\s"
)
# Before a comma that does not separate day and year: "June 2, 2020 is a Tuesday".
_NO_DATE = r"(?:(?<![a-z]\s\d)(?<![a-z]\s\d\d)(?<!\d(?:st|nd|rd|th))|(?!,\s+\d{4}\b))"
# No clause begins within a list: "The average of 4, 8, and 12 is 8".
_CLAUSE = re.compile(
    rf"[;:](?=\s)|{_NO_DATE}(?!(?<=day),\s+(?:{DATE})),\s+(?!(?<=\d,\s)and\s\$?\d\S*\s(?:is|was)\b)"
    r"(?=[^\W\d_]|\$?\d\S*\s+(?:[a-z]+\s+)?(?:is|are|was|were|did|do|does|remains?)\b)"
    rf"|\s(?=(?:but|so|because|since|{AS_REASON}|while|if|when|means that|shows that)\s"
    rf"|we (?:must |have to |need to )?round\b|{_OWN_SUBJECT})",
    re.IGNORECASE,
)
# "with 57 of them empty, 375 seats are taken": a number after an introduction begins a clause.
_AFTER_INTRODUCTION = re.compile(
    r"\W*(?:and\s+)?(?:at|with|after|since|because|for|by|given|out of|from|using|[a-z]+ing)\b[^,:=]*?,\s+(?=\$?\d)",
    re.IGNORECASE,
)
# A clause with a subject of its own: "Tom is 9 and his sister is 12".
_BESIDE_ANOTHER = re.compile(rf"\W*{_OWN_SUBJECT}", re.IGNORECASE)
# Words before a value that the sentence takes for known: "all 3 cakes", "the original 20", "for working 5 hours".
_GIVEN = re.compile(
    r"\b(?:number|no\.|room|page|gate|chapter|line|bus|car|question)\s+$|(?:\b(?:all|the|these|those|his|her|their|its|our|my)(?:\s+(?:original|initial|other|same|given|first|of|the))*"
    r"|\bfor\s+[a-z]+ing)\s+[$*(\\]*$",
    re.IGNORECASE,
)
# Text after the conclusion: "by which time they have covered 80 miles", "finishing on June 12".
_AFTERWARDS = re.compile(
    r",\s+(?:(?:[a-z]+ )?(?:by|at|during|after|before|in|of) (?:which|whom)\b"
    r"|(?!(?:leaving|giving|making|yielding|resulting|totall?ing|bringing|coming|ending|amounting|adding)\b)"
    r"[a-z]+ing\s+(?:on|at|in|from|by|before|after)\b"
    r"|\$?\d[\d.,]*%?\s+(?:[a-z]+\s+)?(?:more|less|fewer|of (?:which|whom|them))\b).*$",
    re.DOTALL,
)
# A relative clause after a value that a verb introduced: "The discount is 25%, which saves $15".
_WHICH_DOES = re.compile(
    r",\s+which\s+(?!(?:is|are|was|were|means?|gives?|makes?|leaves?|equals?|rounds?|comes?|simplifies|reduces|totals?"
    r"|brings?|yields?|works|amounts?|adds?|results?|leads?|turns?)\b)[a-z]+\b"
)
# An explanation behind the main clause: "She has 12 left after giving away 8", "36 remain once 24 were sold".
_SUBORDINATE = re.compile(
    r"(?<!\sand)(?<!\sbut)(?<!\sso)(?<!\sthen)"
    r"\s(?:after|before|once|following|despite|(?:by|without|from)(?=\s[a-z]+ing\b))\s[^=]*?(?=[,;]\s|\sand\s|$)"
)
_VERB = re.compile(
    rf"\b(?:{FINITE}|can|must|remains?|keeps?|leaves?|uses?|spends?|buys?|bought|sells?|sold|weighs?|reads?|ran|runs?)\b",
    re.IGNORECASE,
)
_RESULTS = re.compile(
    rf"\W\s*(?:{THEREFORE}|leaving|making|giving|for a total|which leaves)\b", re.IGNORECASE
)
# An unreal condition: "if she had bought 3 more, she would have 9".
_COUNTERFACTUAL = re.compile(
    r"\bif\b[^,.;]*\b(?:had|were|weren['’]t|hadn['’]t)\b(?=.*\bwould\b)|\bwould\b.*\bif\b[^,.;]*\b(?:had|were)\b",
    re.IGNORECASE | re.DOTALL,
)
# A sentence that announces a step: "To find the total, we start from 16 and add 8".
_PLAN = re.compile(
    r"^\W*(?:first,?\s+)?(?:in order )?to (?:find|calculate|determine|compute|get|work out|figure out|see|know)\b"
    r"(?!.*(?:[=≈]|\b(?:gives?|makes?|gets?|got|equals?|is|obtain|which (?:is|gives))\b)[^,;]*$)",
    re.IGNORECASE | re.DOTALL,
)


# Characters before a value that are examined.
REACH = 80


class Span(NamedTuple):
    """A value's start and end in a sentence."""

    start: int
    end: int


class Conclusion(NamedTuple):
    """A sentence's concluding value.

    Attributes:
        place: Index of the value in the list of values; -1 without a conclusion.
        problem: Reason code if there is no conclusion; else empty.
    """

    place: int
    problem: str = ""


_REASON = re.compile(
    r"^\W*(?:since|because|as|where|when|if|given|with|assuming|suppose|for(?! a (?:grand )?total))\b",
    re.IGNORECASE,
)
# 15 and 30
_JOINED = re.compile(r"\d\s+(?:and|&)\s+\S*\d")
# 3 dogs and 4 cats
_AND_ANOTHER = re.compile(r"\d.*\band\s+[$*(]*$", re.DOTALL)
_NOUN = re.compile(
    r"\s+(?!(?:for|of|in|at|per|and|or|to|from|with|by|over|on|than|is|are|plus|minus)\b)[^\W\d_]+\s+"
)
THEREFORE_CLAUSE = re.compile(
    rf"\W*(?:and\s+)?(?:(?!so that){THEREFORE}|that|this|leaving|giving|making|resulting in|yielding|totall?ing"
    r"|for a total"
    r"|which\s+(?:is|are|means|makes|gives|leaves|equals|comes|brings|results|simplifies|reduces|rounds))\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"(?<!,)\s(?:that|which|who|whose|where|when)\s", re.IGNORECASE)


def conclusion(sentence: str, values: Sequence[Span]) -> Conclusion:
    """Find the value that a sentence concludes with.

    Examples:
        >>> def of(text):
        ...     values = [Span(*number.span()) for number in re.finditer(r"[0-9]+", text)]
        ...     place, problem = conclusion(text, values)
        ...     return problem or text[values[place].start : values[place].end]
        >>> of("It takes 3 hours."), of("There are 12 eggs in 3 boxes."), of("The pool loses 13 litres over 30 days.")
        ('3', '12', 'no_answer')
        >>> of("It would be 36."), of("He does not have 5."), of("It is less than 10.")
        ('hedged', 'hedged', 'no_answer')
    """
    if not values or _PLAN.match(sentence):
        return Conclusion(-1, "no_answer")
    supposed = _COUNTERFACTUAL.search(sentence)
    if supposed and values[0].start >= supposed.start():
        return Conclusion(-1, "hedged")
    telling = _telling(sentence, values)
    if len(telling) == 1 or _is_foreign(sentence):
        problem = _problem(sentence, values[telling[-1]])
        return Conclusion(-1 if problem else telling[-1], problem)
    clauses = clauses_of(sentence)
    clause = _last_clause(sentence, clauses, [values[place] for place in telling])
    place = _concluding(sentence, clause, values, telling)
    if place < 0:
        return Conclusion(-1, "no_answer")
    earlier = [other for other in clauses if other.end <= clause.start]
    is_beside = bool(earlier) and _BESIDE_ANOTHER.match(sentence, clause.start)
    # Two clauses side by side with a conclusion each leave the answer open.
    if is_beside and _concluding(sentence, earlier[-1], values, telling) >= 0:
        return Conclusion(-1, "no_answer")
    problem = _problem(sentence[: clause.end], values[place])
    return Conclusion(-1 if problem else place, problem)


def _telling(sentence: str, values: Sequence[Span]) -> list[int]:
    """Return indices of possible answers: all values except values that the sentence takes for known.

    Values in a reason are known too, if a single value is left: "Since a week has 7 days, it takes 3 weeks."
    """
    concluding = []
    possible = []
    for place, value in enumerate(values):
        before = sentence[max(0, value.start - REACH) : value.start]
        if _CONCLUDES.search(before):
            concluding.append(place)
            possible.append(place)
        elif not _GIVEN.search(before):
            possible.append(place)
    endings = [_AFTERWARDS.search(sentence), _COUNTERFACTUAL.search(sentence)]
    if concluding:
        endings.append(_WHICH_DOES.search(sentence, values[concluding[0]].end))
    end = len(sentence)
    for ending in endings:
        if ending and not _RESULTS.search(ending[0]):
            end = min(end, ending.start())
    telling = [place for place in possible if values[place].start < end]
    if len(telling) > 1:
        explained = _subordinate(sentence, values[telling[0]])
        telling = [
            place
            for place in telling
            if not explained.start <= values[place].start < explained.end
        ]
    if len(telling) < 2:
        return telling or list(range(len(values)))
    reasons = _reasons(sentence, clauses_of(sentence))
    firm = [
        place
        for place in telling
        if not any(one.start <= values[place].start < one.end for one in reasons)
    ]
    return firm if len(firm) == 1 else telling


def _subordinate(sentence: str, first: Span) -> Span:
    """Return the clause of time or manner behind a main clause that has a verb and the first value; else empty."""
    found = _SUBORDINATE.search(sentence, first.end)
    if found is None or not _VERB.search(sentence, 0, found.start()):
        return Span(0, 0)
    return Span(*found.span())


def _concluding(
    sentence: str, clause: Span, values: Sequence[Span], telling: Sequence[int]
) -> int:
    """Return the index of a clause's concluding value; -1 without conclusion."""
    held = [place for place in telling if clause.start <= values[place].start < clause.end]
    if len(held) == 1 and THEREFORE_CLAUSE.match(sentence[clause.start : clause.end]):
        return held[0]
    said = sentence[: clause.end]
    for rule in (_stands_behind_verb, _ends_clause, _counts_subject):
        found = [place for place in held if rule(said, clause, values[place])]
        if not found:
            continue
        place = found[-1]
        # it takes 6 workers 4 days
        has_another = place + 1 in held and _NOUN.fullmatch(
            said, values[place].end, values[place + 1].start
        )
        return -1 if has_another else place
    return -1


def _is_foreign(sentence: str) -> bool:
    """Check whether most letters of a sentence are outside ASCII; this module knows no words of such alphabets."""
    letters = [char for char in sentence if char.isalpha()]
    return sum(map(str.isascii, letters)) * 2 < len(letters)


def clauses_of(sentence: str) -> list[Span]:
    """Split a sentence into clauses."""
    bounds = [0]
    for joint in _CLAUSE.finditer(sentence):
        comma = _AFTER_INTRODUCTION.match(sentence, bounds[-1], joint.end())
        if comma:
            bounds.append(comma.end())
        bounds.append(joint.end())
    comma = _AFTER_INTRODUCTION.match(sentence, bounds[-1])
    if comma:
        bounds.append(comma.end())
    return [Span(start, end) for start, end in itertools.pairwise([*bounds, len(sentence)])]


def _reasons(sentence: str, clauses: Sequence[Span]) -> list[Span]:
    """Return clauses stating a reason, plus their "and" clauses: "as her brother is 16 and she is older"."""
    found: list[Span] = []
    for one in clauses:
        goes_on = (
            found
            and found[-1].end == one.start
            and _BESIDE_ANOTHER.match(sentence, one.start)
        )
        if goes_on or _REASON.match(sentence[one.start : one.end]):
            found.append(one)
    return found


def _last_clause(sentence: str, clauses: Sequence[Span], values: Sequence[Span]) -> Span:
    """Return the last clause with a value that gives no reason and makes no supposition."""
    holding = [
        one
        for one in clauses
        if any(one.start <= value.start < one.end for value in values)
    ]
    concluding = [one for one in holding if one not in _reasons(sentence, clauses)]
    return (concluding or holding)[-1]


def _stands_behind_verb(sentence: str, clause: Span, value: Span) -> bool:
    """Check whether a value follows the verb of its clause: `There are 12 eggs`."""
    return (
        _CONCLUDES.search(sentence[max(clause.start, value.start - REACH) : value.start])
        is not None
    )


def _ends_clause(sentence: str, clause: Span, value: Span) -> bool:
    """Check whether a clause ends with a value and the counted things."""
    before = sentence[clause.start : value.start]
    if _AND_ANOTHER.search(before):
        return False
    # it ends at 5 pm, on May 3
    is_moment = _MOMENT.fullmatch(sentence, value.start, value.end) is not None
    if (_BESIDES.search(before[-REACH:]) and not is_moment) or _RELATIVE.search(before):
        return False
    return _TO_END.match(sentence[value.end :]) is not None


def ends(sentence: str, value: Span) -> bool:
    """Check that a value ends a sentence, and that other words begin the sentence."""
    return bool(
        _TO_END.match(sentence[value.end :]) and not _SUBJECT.match(sentence[: value.start])
    )


def _counts_subject(sentence: str, clause: Span, value: Span) -> bool:
    """Check whether a value counts the subject of a clause: `So 12 pupils are in 3 teams`."""
    before = sentence[clause.start : value.start]
    if not _SUBJECT.match(before):
        return False
    is_list = _JOINED.search(sentence, value.start, value.end)
    return bool(is_list or _SUBJECT_COUNT.match(sentence, value.end))


def _problem(sentence: str, value: Span) -> str:
    """Return the reason code for a value that a neighbouring word changes, denies or supposes; else empty."""
    before = sentence[: value.start]
    behind = sentence[value.end :]
    clause = _CLAUSE.split(before)[-1]
    if _CHANGED_BEFORE.search(before[-40:]) or _CHANGED_BEHIND.match(behind):
        return "no_answer"
    denied = _WORKING.sub("", clause[-REACH:])
    if _DENIED.search(denied[-60:]) or _SUPPOSED.search(clause):
        return "hedged"
    return ""
