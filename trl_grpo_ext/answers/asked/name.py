"""Take the asked name's value from a list: 41 from "a_2 = 5, a_3 = 14, a_4 = 41" for the question "Find a_4"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trl_grpo_ext.answers.asked.expression import asked_expressions, text_before
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import CONDITION, DENIAL, DOUBT, WRONG, any_of
from trl_grpo_ext.answers.read.spelling import strip_delimiters
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Logic,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
)

# Longer answers list no values.
_MAX_CHARS = 500
_MAX_PROMPT = 1_000
_INDEX = (
    r"(?:_\{?(?P<index>\d{1,4})\}?|(?P<small>[₀-₉]{1,4})|\((?P<argument>[^()\s=]{1,9})\))"
)
# "a_4", "f(3)", "mean", "common ratio"
_NAME = rf"(?P<name>[A-Za-z]{_INDEX}|[A-Za-z]{{3,20}}(?: [a-z]{{3,20}})?|[A-Za-z])"
_PART = re.compile(rf"{_NAME}\s?[=:]\s?(?P<value>\S.{{0,100}})")
_BARE_NAME = re.sub(r"\?P<\w+>", "?:", _NAME)
_JOINT = re.compile(
    rf"\s*[,;]\s*(?:and\s+)?(?={_BARE_NAME}\s?[=:])|\s+and\s+(?={_BARE_NAME}\s?[=:])"
)
_MARKUP = re.compile(r"\*\*|\$|\\[()\[\]]|\\q?quad(?![A-Za-z])|\\[,; ]")
_SO = re.compile(r"\A(?:so|then|thus|therefore|hence),?\s+", re.IGNORECASE)
_ASKS = r"\b(?:find|what(?:\s+is|['’]s)|calculate|compute|determine|give)\s+(?:the\s+)?"
_TERM = re.compile(r"\b(\d{1,4})(?:st|nd|rd|th)\s+term\b")
_ALSO = re.compile(r"\b(?:and|or)\b|,\s")
_MEMBER = re.compile(r"[A-Za-z]_\d{1,4}")
_OPEN = any_of(
    DENIAL, DOUBT, CONDITION, WRONG, r"suppose|assum\w+|imagine|let|doubt\w*|guess\w*"
)
_DIGITS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def value_of_asked_name(
    answer: str, golds: Sequence[str], completion: str, prompt: str
) -> str:
    """Return the value that a list of named values gives to the only name that the question asks for.

    An answer that tells another member of the asked sequence or function is no value: its name alone is returned. Any
    other answer stays unchanged, and each answer if a gold has several values or a name.

    Examples:
        >>> of = lambda answer, prompt: value_of_asked_name(answer, ["41"], answer, prompt)
        >>> of("a_2 = 5, a_3 = 14, a_4 = 41", "Find a_4."), of("Sum = 82, count = 2, mean = 41", "Find the mean.")
        ('41', '41')
        >>> of("a_4 = 41, a_5 = 122", "Find the sixth term."), of("a_1 = 41", "Find a_4.")
        ('a_4 = 41, a_5 = 122', 'a_1')
    """
    if not prompt or len(answer) > _MAX_CHARS or any(map(_has_several, golds)):
        return answer
    plain = " ".join(_MARKUP.sub(" ", strip_delimiters(answer)).split())
    texts = _JOINT.split(_SO.sub("", plain).rstrip(" ."))
    parts = [_PART.fullmatch(text) for text in texts]
    told = {part["name"]: part for part in parts if part and _tells_amount(part["value"])}
    if len(told) < len(texts) or _OPEN.search(
        text_before(answer, completion[-_MAX_PROMPT:])
    ):
        return answer
    if len(texts) == 1:
        (name,) = told
        return name if _is_other_member(told[name], prompt[-_MAX_PROMPT:]) else answer
    asked = [part for part in told.values() if _is_asked(part, prompt[-_MAX_PROMPT:])]
    return asked[0]["value"] if len(asked) == 1 else answer


def _has_several(gold: str) -> bool:
    return isinstance(read(gold).node, Collection | Logic | Relation)


def _tells_amount(text: str) -> bool:
    """Check whether a text states one amount: `41`, `3 * 4 = 12 cm`."""
    if _ALSO.search(text):
        return False
    value = read(text.rpartition("=")[2])
    amount = value.node.amount if isinstance(value.node, Quantity) else value.node
    return isinstance(amount, Number) and not value.stray


def _is_other_member(part: re.Match[str], prompt: str) -> bool:
    """Check whether a prompt asks for one member of a sequence or function, `a_4`, and a text names another, `a_1`."""
    letter, number = _member(read(_name_of(part)).node)
    members = map(_member, asked_expressions(prompt))
    asked = [index for base, index in members if letter and base == letter]
    return bool(asked) and number not in asked


def _member(node: Node) -> tuple[str, str]:
    """Return the letter and the number of `a_4` or `f(3)`; empty texts for other expressions."""
    match node:
        case Symbol(name) if _MEMBER.fullmatch(name):
            letter, _, number = name.partition("_")
            return letter, number
        case Apply(name, (Number(value),)) if len(name) == 1:
            return f"{name}()", str(value)
    return "", ""


def _name_of(part: re.Match[str]) -> str:
    """Return a part's name with its index in digits: `a_4` for `a₄`."""
    name = part["name"]
    return f"{name[0]}_{name[1:].translate(_DIGITS)}" if part["small"] else name


def _is_asked(part: re.Match[str], prompt: str) -> bool:
    """Check whether a prompt asks for a name: for "a_4", "the fourth term" or "the mean"."""
    index = part["index"] or (part["small"] or "").translate(_DIGITS)
    if len(part["name"]) > 1 and not index and not part["argument"]:
        asks = rf"{_ASKS}{re.escape(part['name'])}\b(?!['’])"
        return re.search(asks, prompt, re.IGNORECASE) is not None
    terms = _TERM.findall(in_digits(prompt))
    return read(_name_of(part)).node in asked_expressions(prompt) or (
        bool(index) and terms == [index]
    )
