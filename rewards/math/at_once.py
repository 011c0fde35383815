"""Judging what needs no mathematics: the same text, numbers, words, choices, and kinds that are never equal."""

from __future__ import annotations

from collections.abc import Collection

from trl_grpo_ext.rewards.answers.golds import is_sentence
from trl_grpo_ext.rewards.answers.latex import standard
from trl_grpo_ext.rewards.answers.numbers import (
    base_number,
    choice,
    chosen,
    has_decimal_comma,
    is_date,
    number,
    words,
)
from trl_grpo_ext.rewards.math.policy import UNLIKE, bare_value, kind, violation
from trl_grpo_ext.verdict import Status, Verdict


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
    letter, said = choice(gold), words(gold)
    if rule == "last_expression":
        unmarked = Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_marked_answer")
        return unmarked if letter or said else None
    if letter:
        return _verdict(chosen(answer) == letter, answer, "choice")
    if said:
        return _verdict(words(answer) == said, answer, "words")
    expected, given = number(gold), number(answer)
    if expected and given and (expected[0] == given[0] or (expected[1] and given[1])):
        return _verdict(expected[0] == given[0], answer, "number")
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


def _measured_alike(gold: str, answer: str, accepted: frozenset[str]) -> Verdict | None:
    """CORRECT for the same number with a unit, a sign or a variable's name around it; None where that is not sure."""
    expected, given = number(bare_value(gold)), number(bare_value(answer))
    if "=" in answer or not (expected and given) or expected[0] != given[0]:
        return None
    reason = violation(gold, answer, accepted)
    return _verdict(not reason, answer, "number", reason)


def _verdict(right: bool, answer: str, compared: str, reason: str = "not_equal") -> Verdict:
    details = {"compared": f"as {compared}", "read_as": standard(answer)}
    if right:
        return Verdict(status=Status.CORRECT, score=1.0, answer=answer, details=details)
    return Verdict(status=Status.INCORRECT, score=0.0, answer=answer, reason=reason, details=details)
