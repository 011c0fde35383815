"""Detect candidates that a text rejects: the -2 of "So x = 5. x = -2 is not a solution."."""

from __future__ import annotations

import re

from trl_grpo_ext.answers.read.signal_words import THEREFORE, TURN, contains_any

# Characters at the end of a text that are searched, and rejections that are removed there.
_REACH = 400
_MOST = 3

_NOT = r"(?:n['’]t|\s+not)"
_FIT = r"(?:valid|possible|allowed|admissible|acceptable|feasible|meaningful)"
_KIND = r"(?:roots?|solutions?|values?|candidates?|possibilit(?:y|ies)|cases?)"
_REFUSED = r"(?:reject|discard|exclud|eliminat|ruled\s+out|ignor|disregard)(?:ed)?"
# "is not a solution", "are extraneous", "does not satisfy the equation", "must be rejected"
_FAILS = (
    rf"(?:(?:is|are){_NOT}\s+(?:(?:an?\s+|the\s+)?(?:{_FIT}\s+)?{_KIND}|{_FIT}|in\s+the\s+(?:domain|range|interval))"
    rf"|(?:is|are|(?:must|can|should|has\s+to|have\s+to)\s+be)\s+(?:an?\s+)?"
    rf"(?:extraneous(?:\s+{_KIND})?|impossible|invalid|{_REFUSED})"
    rf"|do(?:es)?{_NOT}\s+(?:work|hold|fit|apply|make\s+sense|(?:satisfy|solve|check|meet)\b[^;\n]{{0,60}})"
    r"|makes?\s+no\s+sense)"
)
_REASON = r"(?:[\s,]+(?:in|of|to|for|from|because|since|as|here|when|where|by|so)\b[^;\n]{0,120})?"
_LEAD = r"\W*(?:(?:note\s+that|but|and|while|however|also|here),?\s+)?"
_END = r"[\s.)!$*\\]*"
_FAILING = re.compile(
    rf"{_LEAD}(?P<named>[^;\n]{{1,80}}?)[\s,$*)\\]{{1,4}}{_FAILS}{_REASON}{_END}",
    re.IGNORECASE,
)
_REFUSING = re.compile(
    rf"{_LEAD}(?:(?:so\s+)?(?:we|I)\s+(?:(?:can|must|may|should|will)\s+)?)?"
    rf"(?:reject|discard|exclude?|eliminate?|rul(?:e|ing)\s+out|ignore?|disregard)(?:ing)?\s+"
    rf"(?P<named>[^;\n]{{1,60}}?){_REASON}{_END}",
    re.IGNORECASE,
)
_DENYING = re.compile(
    r"\W*it(?:['’]s|\s+is)?(?:n['’]t|\s+not)\s+(?:true|correct|right|the\s+case)\s+that\b[^;\n,]*",
    re.IGNORECASE,
)
# Every rejection contains one of these; this cheap test avoids the slow expressions.
_CLUES = (
    "not",
    "n't",
    "n’t",
    "extraneous",
    "impossible",
    "invalid",
    "no sense",
    "reject",
    "discard",
    "exclud",
    "eliminat",
    "ruled out",
    "ruling out",
    "ignor",
    "disregard",
)
_GIVES_ANSWER = re.compile(
    rf"\b(?:{THEREFORE})\b[^;\n]*\d|\b(?:{TURN}|leav\w+|only|answer|boxed)\b", re.IGNORECASE
)
_BECAUSE = re.compile(r"\b(?:because|since|as)\b", re.IGNORECASE)
# A clause begins behind each of these.
_BEGIN = re.compile(r"[.!;]\s+|\n\s*|\s+(?=\()|,?\s+(?=(?:and|but|while)\s)")
_VALUE = r"(?P<value>[-−]?[\\\w./{}^]*\d[\\\w./{}^]*(?<![.]))"
_VALUES = re.compile(_VALUE)
# "x = -2", "the root -2", "$-2$" and a lone "-2" are candidates; "12 bulbs" in "12 bulbs do not work" is an amount.
_CANDIDATE = re.compile(
    rf"(?:[^=]*\b[a-z]\s*=|(?:[^=]*\b{_KIND},?\s|\W*(?=[-−$\\])))\s*[$*\\(]*{_VALUE}[$*\\),\s]*",
    re.IGNORECASE,
)
_OTHER = re.compile(
    rf"[^\d]*\b(?:other|negative|second|remaining|smaller|larger|complex|extraneous)\s+{_KIND}\W*",
    re.IGNORECASE,
)


def without_rejections(text: str) -> str:
    """Remove clauses at a text's end that reject other candidates than the value before them.

    Examples:
        >>> without_rejections("So x = 5. x = -2 is not a solution."), without_rejections("x = 5 (rejecting x = -2).")
        ('So x = 5', 'x = 5')
        >>> without_rejections("So x = 5. But x = 5 does not satisfy the equation.")
        'So x = 5. But x = 5 does not satisfy the equation.'
    """
    for _ in range(_MOST):
        shorter = _without_last(text)
        if shorter == text:
            break
        text = shorter
    return text


def only_rejects(sentence: str, question: str) -> bool:
    """Check whether a sentence only rejects or denies a value, and the question asks for no such value.

    Examples:
        >>> [only_rejects(said, "Solve x + 2 = 7.") for said in ("x = 5 is impossible.", "It is not true that x = 5.")]
        [True, True]
        >>> only_rejects("5 is not a solution.", "Which number is not a solution?")
        False
    """
    if not contains_any(sentence, _CLUES) or contains_any(question, _CLUES):
        return False
    return _rejected(sentence) is not None or _DENYING.fullmatch(sentence) is not None


def _without_last(text: str) -> str:
    """Remove a text's last rejection; return a text without a rejection unchanged."""
    begin = max(len(text) - _REACH, 0)
    if not contains_any(text[begin:], _CLUES):
        return text
    for stop in reversed(list(_BEGIN.finditer(text, begin))):
        before = text[: stop.start()]
        candidate = _rejected(text[stop.end() :])
        if candidate is not None and _is_another(candidate, before):
            return before
    return text


def _rejected(clause: str) -> str | None:
    """Return the candidate that a clause rejects, empty without a value; None if it rejects none or gives an answer."""
    if not contains_any(clause, _CLUES):
        return None
    found = _FAILING.fullmatch(clause) or _REFUSING.fullmatch(clause)
    if found is None or _GIVES_ANSWER.search(clause) or _BECAUSE.search(found["named"]):
        return None
    candidate = _CANDIDATE.fullmatch(found["named"])
    if candidate is not None:
        return candidate["value"]
    return "" if _OTHER.fullmatch(found["named"]) else None


def _is_another(candidate: str, before: str) -> bool:
    """Check that the sentence before a rejection states a value other than the rejected candidate."""
    stated = _VALUES.findall(_BEGIN.split(before)[-1])
    return bool(stated) and candidate not in stated
