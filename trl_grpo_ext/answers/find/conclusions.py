"""Which of the values in a sentence is its answer, where nothing marks one.

The only value of a sentence is its answer, unless a word beside it changes, denies or supposes it. Of several values
one is the answer if a clause concludes with it: behind "is" or "makes", at its end, or as the subject's count.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from trl_grpo_ext.answers.read.moments import DATE, TIME

# Words between a verb and its value: `is about $5`, `makes a total of 12`.
_FILLER = (
    r"(?:\s*(?:about|approximately|roughly|around|exactly|only|just|simply|still|now|then|thus|therefore|also|an?|the"
    r"|total of|sum of|average of|equal to|estimated at|back to|down to|up to|[$€£(*:~≈`\\])(?![a-z]))*\s*"
)
_CONCLUDES = re.compile(
    r"(?:\b(?:ist|sind|beträgt|ergibt|est|sont|es|son|hay|é|são|è|sono"
    r"|is|are|was|were|be|been|equals?|gives?|makes?|totals?|becomes?|yields?|remains?|has left|costs?|weighs?"
    r"|measures?|takes|lasts?"
    r"|(?:left|ends?|ended)(?:\s+up)?\s+with"
    r"|(?:comes?|amounts?|rounds?|sums?|adds?|simplifies|evaluates|increases|decreases|rises|falls|drops|reduces)"
    rf"(?:\s+up)?\s+to)\b|['’]s\b|[=≈:]|等于|[是为]){_FILLER}$",
    re.IGNORECASE,
)
# A preposition before a value at the end tells of something else: "13 litres over 30 days".
_BESIDES = re.compile(
    rf"\b(?:over|in|for|per|of|with|from|at|on|after|before|by|than|until|during|within|every|each|among|between|into"
    rf"|under|above|below|through|if|when|out of)\s+(?:the\s+|those\s+|these\s+|all\s+)?{_FILLER}$",
    re.IGNORECASE,
)
# What may stand between a value and the end of its clause: what it counts, and "in total".
_TO_END = re.compile(
    r"\s*(?:[^\W\d_]*[*$)\]}°%.²³])*(?:[\s-]+(?!(?:without|who|whom|that|which|whose|when|where|while|if|because|than|as"
    r"|for|from|by|with|over|at|on|and|but|or|in|after|before|is|are|was|were|has|have|had|not|to)\b)[^\W\d_'’]+){0,4}"
    r"(?:\s+(?:in|for)\s+(?:total|all|words?|the end|him|her|them|it|us|me))?(?:\s+each)?\s*[\W_]*$",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"^\W*(?:(?:so|thus|hence|therefore|then|in total|altogether|finally|only|exactly)\b\W*)*$", re.I)
_SUBJECT_COUNT = re.compile(
    r"\s+(?!(?:of|out|in|per|for|by|times)\b)(?:[^\W\d_]+\s+){0,4}?(?:are|were|is|was|remain|can|will)\b"
)
_CHANGED_BEFORE = re.compile(
    r"\b(?:minus|negative|twice|half|double|triple|except|(?:root|power|square|cube|multiple|factor)s?\s+of"
    r"|(?:more|less|fewer|greater|larger|smaller|higher|lower|longer|shorter|other|rather)\s+than|at (?:least|most)"
    r"|almost|nearly|under|over|power|times|root)\s+[$(\\]*$",
    re.IGNORECASE,
)
_CHANGED_BEHIND = re.compile(
    r"[^\w.]*\s(?:squared|cubed|factorial|hundreds|thousands|millions|billions|halves|thirds|fourths|quarters"
    r"|fifths|tenths|hundredths|(?:is|are|was|were|does|do)\s?(?:not|n['’]t))\b"
    r"|\s*(?:is|are|was|were)n['’]t\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|cannot|neither|nor)|n['’]t)\s+(?!only\b)(?:(?!(?:is|are|was|but|so|thus)\b)[^\W\d_]+\s+){0,2}[$(\\]*$",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:would|could|might|may|should)\s+(?:\w+\s+){0,2}(?:be|been)\b(?!.*\b(?:so|thus|therefore|hence)\b)"
    r"|\b(?-i:might|may)\s|\b(?:if|suppose|assume|assuming|unless|had it been)\b(?!.*\bthen\b)",
    re.IGNORECASE | re.DOTALL,
)
_MOMENT = re.compile(rf"(?:{TIME}|{DATE})", re.IGNORECASE)
_CLAUSE = re.compile(r"[;:](?=\s)|,\s+(?=[^\W\d_])|\s(?=(?:but|so|because|since|as|while|if|when)\s)", re.IGNORECASE)


REACH = 80  # characters before a value that are looked at


class Span(NamedTuple):
    """Where a value begins and ends in a sentence."""

    start: int
    end: int


class Conclusion(NamedTuple):
    """The place of the value that a sentence concludes with, or -1, and the reason code why there is none."""

    place: int
    problem: str = ""


_REASON = re.compile(r"^\W*(?:since|because|as|where|when|if|given|with|assuming|suppose|for)\b", re.IGNORECASE)
_RELATIVE = re.compile(r"(?<!,)\s(?:that|which|who|whose|where|when)\s", re.IGNORECASE)


def conclusion(sentence: str, values: Sequence[Span]) -> Conclusion:
    """The value that a sentence concludes with.

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
    if not values:
        return Conclusion(-1, "no_answer")
    if len(values) == 1 or _is_foreign(sentence):
        problem = _problem(sentence, values[-1])
        return Conclusion(-1 if problem else len(values) - 1, problem)
    clause = _last_clause(sentence, values)
    held = [place for place, value in enumerate(values) if clause.start <= value.start < clause.end]
    said = sentence[: clause.end]
    for rule in (_stands_behind_verb, _ends_clause, _counts_subject):
        found = [place for place in held if rule(said, clause, values[place])]
        if found:
            problem = _problem(said, values[found[-1]])
            return Conclusion(-1 if problem else found[-1], problem)
    return Conclusion(-1, "no_answer")


def _is_foreign(sentence: str) -> bool:
    """Whether a sentence is in another alphabet, of which no word is known here."""
    letters = [char for char in sentence if char.isalpha()]
    return sum(map(str.isascii, letters)) * 2 < len(letters)


def _last_clause(sentence: str, values: Sequence[Span]) -> Span:
    """The last clause with a value that gives no reason and makes no supposition."""
    bounds = [0, *(joint.end() for joint in _CLAUSE.finditer(sentence)), len(sentence)]
    clauses = [Span(start, end) for start, end in itertools.pairwise(bounds)]
    holding = [one for one in clauses if any(one.start <= value.start < one.end for value in values)]
    concluding = [one for one in holding if not _REASON.match(sentence[: one.end], one.start)]
    return (concluding or holding)[-1]


def _stands_behind_verb(sentence: str, clause: Span, value: Span) -> bool:
    """Whether a value stands behind the verb of its clause: `There are 12 eggs`."""
    return _CONCLUDES.search(sentence[max(clause.start, value.start - REACH) : value.start]) is not None


def _ends_clause(sentence: str, clause: Span, value: Span) -> bool:
    """Whether a clause ends with a value and what that counts."""
    before = sentence[clause.start : value.start]
    is_moment = _MOMENT.fullmatch(sentence, value.start, value.end) is not None  # it ends at 5 pm, on May 3
    if (_BESIDES.search(before[-REACH:]) and not is_moment) or _RELATIVE.search(before):
        return False
    return _TO_END.match(sentence[value.end :]) is not None


def _counts_subject(sentence: str, clause: Span, value: Span) -> bool:
    """Whether a value counts the subject of a clause: `So 12 pupils are in 3 teams`."""
    before = sentence[clause.start : value.start]
    return _SUBJECT.match(before) is not None and _SUBJECT_COUNT.match(sentence, value.end) is not None


def _problem(sentence: str, value: Span) -> str:
    """The reason code why a value is no answer: a word beside it changes, denies or supposes it."""
    before, behind = sentence[: value.start], sentence[value.end :]
    clause = _CLAUSE.split(before)[-1]
    if _CHANGED_BEFORE.search(before[-40:]) or _CHANGED_BEHIND.match(behind):
        return "no_answer"
    return "hedged" if _DENIED.search(clause[-60:]) or _SUPPOSED.search(clause) else ""
