"""Read sentences that state an outcome instead of a value: the limit does not exist, the series diverges."""

from __future__ import annotations

import re

from trl_grpo_ext.answers.read.signal_words import THEREFORE, contains_any

# Each outcome, by the words in which a comparison of words knows it.
_OUTCOMES = {
    "does not exist": r"do(?:es)?(?:\s+not|n['’]t)\s+exist|DNE|(?:(?:is|are)\s+)?(?:undefined|not\s+defined)",
    "diverges": r"diverges?|(?:is\s+)?(?:divergent|not\s+convergent)|do(?:es)?(?:\s+not|n['’]t)\s+converge",
    "converges": r"converges?(?:\s+to\s+\S+)?|(?:is\s+)?convergent",
    "no solution": r"(?:(?:has|have|there\s+(?:is|are))\s+)?no\s+(?:real\s+)?(?:solutions?|roots?|zeros?)",
}
# Words in front of a subject, and reasons behind an outcome.
_LEAD = (
    r"[\s*$_]*(?:(?:so|thus|therefore|hence|no|finally|we (?:see|conclude) that|the\s+(?:final\s+)?answer(?:\s+is)?)"
    r"\b[,:]?\s+)*"
)
_SUBJECT = r"(?:(?!.*\b(?:although|though|but|while|whereas|unless|if)\b)(?P<subject>[^.;]{1,120}?)\s+)?"
_REASON = (
    r"(?:,?\s+(?:at|as|by|for|here|in|on|since|because|when|over)\b.*)?[\s.!*$_)\\\]]*"
)
_STATED = {
    outcome: re.compile(rf"{_LEAD}{_SUBJECT}(?:{words}){_REASON}", re.IGNORECASE)
    for outcome, words in _OUTCOMES.items()
}
# A subject that has a value already, "The limit is 2, and f(0) is undefined", or is a formula: "f(0) is undefined".
_IS_OTHER = re.compile(
    r".*(?:\b(?:is|are|equals)\b|[=≈]\s*[-−\d])|(?!.*[a-z]{3}|(?:it|this|that)\b)",
    re.IGNORECASE,
)
_THEREFORE = re.compile(rf",?\s(?:{THEREFORE})\s")
_CLUES = ("exist", "defined", "dne", "verge", " no ")


def outcome_of(sentence: str) -> str:
    """Return the outcome that a sentence states, and no value beside it; empty without an outcome.

    Examples:
        >>> outcome_of("So the limit does not exist, since the sides differ."), outcome_of("DNE")
        ('does not exist', 'does not exist')
        >>> outcome_of("The limit is 2, and f(0) is undefined.")
        ''
    """
    if not contains_any(f" {sentence}", _CLUES):
        return ""
    conclusion = _THEREFORE.split(sentence)[-1]
    for outcome, stated in _STATED.items():
        found = stated.fullmatch(conclusion)
        if found and not _IS_OTHER.match(found["subject"] or "it"):
            return outcome
    return ""
