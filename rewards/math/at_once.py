"""Judging what needs no mathematics: the same text, numbers, words, choices, and kinds that are never equal."""

from __future__ import annotations

import re
from collections.abc import Collection

from trl_grpo_ext.rewards.answers.choices import Options, letter, read_choice
from trl_grpo_ext.rewards.answers.golds import is_sentence
from trl_grpo_ext.rewards.answers.latex import standard, without_text_commands
from trl_grpo_ext.rewards.answers.numbers import base_number, has_decimal_comma, is_date, number
from trl_grpo_ext.rewards.math.policy import UNLIKE, bare_value, kind, violation
from trl_grpo_ext.verdict import Status, Verdict

_WORDS = re.compile(r"[A-Za-z][A-Za-z .,'&-]*")
_MATH_NAMES = frozenset({"e", "i", "pi", "inf", "infty", "infinity", "dne", "x", "y", "z"})


def is_fine_at_once(gold: str) -> bool:
    """Whether a gold can be judged by without mathematics, so that it need not be compared with itself."""
    return not is_sentence(gold) and (_choice(gold) or words(gold) or number(gold)) is not None


def judge_at_once(gold: str, answer: str, rule: str, accepted: Collection[str]) -> Verdict | None:
    """The verdict where string work suffices, and the worker would say the same; else None.

    Args:
        gold: One accepted gold, as text.
        answer: What the rule found.
        rule: The name of the rule; `last_expression` found a text in which the answer still has to be found.
        accepted: The switches of the policies that are off.
    """
    as_written = _as_written(gold, answer)
    if as_written is not None:
        return as_written
    if is_sentence(gold):
        return None
    label, said = _choice(gold), words(gold)
    if rule == "last_expression":
        unmarked = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_marked_answer")
        return unmarked if label or said else None
    if label:
        return _verdict(_chooses(answer, label), answer, "choice")
    if said:
        return _verdict(words(answer) == said, answer, "words")
    expected, given = number(gold), number(answer)
    if expected and given and (expected.value == given.value or (expected.exact and given.exact)):
        return _verdict(expected.value == given.value, answer, "number")
    if not is_sentence(answer) and {kind(gold), kind(answer)} in UNLIKE:
        return _verdict(False, answer, "kind")
    return _measured_alike(gold, answer, frozenset(accepted))


def _as_written(gold: str, answer: str) -> Verdict | None:
    """The verdict of answers that count as they are written: the same text, base-n numbers, dates."""
    if standard(gold) == standard(answer):
        return _verdict(True, answer, "text")
    if has_decimal_comma(gold, answer):
        return _verdict(True, answer, "number")
    bases = base_number(gold), base_number(answer)
    if bases[0] and bases[1]:
        return _verdict(bases[0] == bases[1], answer, "number")
    return _verdict(False, answer, "text") if is_date(gold) else None


def words(text: str) -> str | None:
    r"""The words that an answer is, in one form; None if it is mathematics.

    Example:
        >>> [words(text) for text in ("Yes", r"\text{Tuesday}", "pi", "x+1", "forty  two.")]
        ['yes', 'tuesday', None, None, 'forty two']
    """
    plain = " ".join(without_text_commands(standard(text)).split()).rstrip(".")
    if not _WORDS.fullmatch(plain) or plain.casefold() in _MATH_NAMES or (len(plain) == 1 and plain.islower()):
        return None
    return plain.casefold()


def _choice(text: str) -> str | None:
    """The capital letter, A to J, that a multiple choice gold is; None if it is none."""
    return label if (label := letter(text)) and "A" <= label <= "J" else None


def _chooses(answer: str, label: str) -> bool:
    """Whether an answer chooses this letter, as it is written, and no other."""
    return label in answer and read_choice(answer, Options()).labels == {label}


def _measured_alike(gold: str, answer: str, accepted: frozenset[str]) -> Verdict | None:
    """CORRECT for the same number with a unit, a sign or a variable's name around it; None where that is not sure."""
    expected, given = number(bare_value(gold)), number(bare_value(answer))
    if "=" in answer or not (expected and given) or expected.value != given.value:
        return None
    reason = violation(gold, answer, accepted)
    return _verdict(not reason, answer, "number", reason)


def _verdict(right: bool, answer: str, compared: str, reason: str = "not_equal") -> Verdict:
    details = {"compared": f"as {compared}", "read_as": standard(answer)}
    if right:
        return Verdict(status=Status.CORRECT, score=1.0, answer=answer, details=details)
    return Verdict(status=Status.INCORRECT, score=0.0, answer=answer, reason=reason, details=details)
