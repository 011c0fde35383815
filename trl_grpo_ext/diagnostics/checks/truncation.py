"""Completions are cut at the length limit before they come to their answer."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.groups import percent
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window

WARN, CRITICAL = 0.15, 0.5  # of the completions: rl-doctor's upper level, rlprobe's level
# Cut completions are right less than this share as often as the others. Ours, tried in tests/test_fault_injection.py.
COSTLY = 0.5


def check(window: Window) -> CheckResult:
    """Many cut completions, and being cut costs them the answer."""
    limit = window.settings.get("max_completion_length")
    if limit == 1:
        return NotChecked("completions of more than one token")
    facts = [batch.primary for batch in window.batches]
    cut, ended = sum(one.cut for one in facts), sum(one.ended for one in facts)
    if cut + ended < LEAST_SAMPLES:
        return None if cut + ended or not window.batches else NotChecked("to know which completions were cut")
    share = cut / (cut + ended)
    cut_rate = sum(one.cut_right for one in facts) / cut if cut else 0.0
    ended_rate = sum(one.ended_right for one in facts) / ended if ended else 0.0
    costs = cut_rate < COSTLY * ended_rate or (cut_rate == 0 and share >= CRITICAL)
    if share < WARN or not costs:
        return None
    where = f" at {limit} tokens" if limit else ""
    rest = f"; those that come to an end are right {percent(ended_rate)} of the time" if ended else ""
    return Finding(
        code="truncation",
        step=window.step,
        severity=Severity.CRITICAL if share >= CRITICAL else Severity.WARNING,
        sentence=(
            f"{percent(share)} of the completions are cut{where}, and {percent(cut_rate)} of those are right{rest}."
        ),
        numbers={"share": share, "right_of_cut": cut_rate} | ({"right_of_ended": ended_rate} if ended else {}),
        action=_action(window),
    )


def _action(window: Window) -> str:
    if window.settings.get("mask_truncated_completions"):
        return "Raise max_completion_length: cut ones are masked already, so they are not punished and teach nothing."
    return "Raise max_completion_length, or set mask_truncated_completions so that cut ones are not punished."
