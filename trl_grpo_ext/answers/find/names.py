"""Check whether a sentence concludes with a gold in words, such as a name, or makes statements about it."""

from __future__ import annotations

import re
from itertools import permutations

from trl_grpo_ext.answers.find.hedges import is_hedged

# Names in a gold that lists several.
MAX_LISTED = 4
_BOLD = re.compile(r"\*\*|__|`")
_SENTENCE = re.compile(r"\n|(?<=[.!?])\s")
_DENIED = re.compile(
    r"\b(?:or|not|never|neither|nor|cannot|no longer|nobody|except|than|might|may|could|would|if|perhaps|maybe)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)
_AND = re.compile(r",\s*(?:and\s+)?|\s+and\s+")
# Boundaries of clauses: the last clause with the name concludes. "And" is no boundary: "Tom has 3 and Ann has 5".
_CLAUSE = re.compile(r"[,;:]\s+|\s(?=(?:so|because|since|as|while|if|but|which)\s)")
_LEAD = re.compile(
    r"\W*(?:(?:so|but|thus|therefore|hence|finally|then|clearly|this|that|which|it|means?|meaning|shows?|follows|we|can"
    r"|see|know|find|conclude|in the end|only)\b,?\s+)*$",
    re.IGNORECASE,
)
# Words before and after a name that a clause concludes with.
_TOLD_BY = (
    r"(?:\b(?:is|are|was|were|be|been|becomes?|became|remains?|on|to|called|named|choose|chose|chooses|picks?|buy|take|answer"
    r"|(?:leaves?|leaving|left)(?:\s+(?:us|me|only))?(?:\s+with)?|won by)|['’]s)\s+(?:only\s+|therefore\s+|indeed\s+)?$"
)
_TELLS = re.compile(_TOLD_BY, re.IGNORECASE)
_HOLDS = re.compile(
    rf"{_TOLD_BY}|\b(?:has|have|had|holds?|gets?|got|uses?|wears?|ends up with|found|saw)\s+$", re.IGNORECASE
)
_END = r"(?:\W*$|,\s|\s+(?:who|that|which|with|because|since|by|at|for|of|in)\b)"
_ENDS = re.compile(_END)
_ENDS_WITH_NOUN = re.compile(rf"(?:\s+\w+)?{_END}")
_VERB = re.compile(
    r"\s+(?!(?:and|or|nor|than|to|of|from|for|with|by|in|on|at|as|but|not|alone)\b)[a-z]+\b(?!\s+(?:not|never|no)\b)"
)
_IS = re.compile(r"\s+(?:is|are|was|were|has|have|had|will|wins?|won)\b(?!\s+(?:not|never|no)\b)")
# A position beside another name tells neither the first nor the last.
_BESIDE = re.compile(r"\b(?:before|after|behind|in front of|next to|left of|right of|above|below)\s+(?:the\s+)?[A-Z]")
_REASON = re.compile(
    r"\W*(?:and\s+)?(?:since|because|as|if|when|given|while|although|though|after|before|unlike|whereas)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(r"\b(?:if|would|could|might|may)\b", re.IGNORECASE)
_FRAGMENT = re.compile(r",?\s+(?:since|because|as|by|with)\b")
_GOES_ON = re.compile(r"\b(?:so|thus|therefore|hence|but|then)\b", re.IGNORECASE)
# Another subject beside the name: "Tom has 3 and Ann has 5".
_ANOTHER = re.compile(
    r"\b(?:and|but|while|whereas)\s+(?:the\s+)?(?:[A-Z]\w+|the other|he|she|they)\s+"
    r"(?:is|was|has|had|[a-z]+s|[a-z]+ed)\b"
)


def last_sentence(text: str, name: str = "") -> str:
    """Return a text's last sentence without bold marks; a full stop inside `name` ends no sentence: `Dr. Lee`."""
    plain = _BOLD.sub("", text).replace(name, name.replace(".", "")) if "." in name else _BOLD.sub("", text)
    sentences = [part for part in _SENTENCE.split(plain) if part.strip()]
    return sentences[-1].strip() if sentences else ""


def names(sentence: str, name: str) -> bool:
    """Check whether a sentence concludes with a name, or makes a statement about that name alone.

    Examples:
        >>> [names(said, "red") for said in ("The likeliest is red.", "It is red or blue.", "It is not red.")]
        [True, False, False]
        >>> [names(said, "Ann") for said in ("Ann read more than Tom.", "Tom read more than Ann.", "That leaves Ann.")]
        [True, False, True]
        >>> names("Those were Sam and Ann.", "Ann and Sam"), names("The last car is the red one.", "the red car")
        (True, True)
    """
    written = re.compile(_written(name.replace(".", "")))
    found = list(written.finditer(sentence))
    if not found or is_hedged(written.sub("it", sentence)):
        return False
    start = max((joint.end() for joint in _CLAUSE.finditer(sentence, 0, found[-1].start())), default=0)
    first = written.search(sentence, start) or found[-1]
    before, behind, after = sentence[start : found[-1].start()], sentence[found[-1].end() :], sentence[first.end() :]
    if _DENIED.search(before) or _REASON.match(before) or _GOES_ON.search(behind):
        return False
    is_name = name[:1].isupper()
    if (_TELLS if is_name else _HOLDS).search(before) and (_ENDS if is_name else _ENDS_WITH_NOUN).match(behind):
        return True
    if _FRAGMENT.match(after) and not sentence[: first.start()].strip():
        return True
    is_subject = _LEAD.match(sentence[start : first.start()]) and (_VERB if is_name else _IS).match(after)
    return bool(is_subject) and not any(one.search(after) for one in (_ANOTHER, _BESIDE, _OPEN))


def _written(name: str) -> str:
    """Build a regular expression for a name's spellings: with or without article, `the red one` for `the red car`."""
    items = _AND.split(name)
    if 1 < len(items) <= MAX_LISTED and all(items):
        orders = permutations(items) if len(items) == 2 else [tuple(items)]
        return "|".join(r"(?:,\s*(?:and\s+)?|\s+and\s+)".join(map(_one, order)) for order in orders)
    return _one(name)


def _one(name: str) -> str:
    core = _ARTICLE.sub("", name)
    first, _, noun = core.rpartition(" ")
    words = rf"{re.escape(first)}\s+(?:{re.escape(noun)}|one)" if first and not noun[:1].isupper() else re.escape(core)
    case = "" if core[:1].isupper() else "i"
    family = r"(?:an?\s+|[Tt]he\s+(?:[A-Z][a-z]+\s+)?)?" if core[:1].isupper() else r"(?:an?\s+|the\s+)?"
    return (
        rf"(?<![\w-])(?{case}:{family}{words})(?![\w-]|['’]s)" if case else rf"(?<![\w-]){family}{words}(?![\w-]|['’]s)"
    )
