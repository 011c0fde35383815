"""Check `mixed_groups`: groups whose members answer different rows, so that advantages compare nothing."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import CheckResult, Window


def mixed(window: Window) -> CheckResult:
    """Find groups whose members answer different rows; a single such group is proof."""
    count = sum(batch.mixed_groups for batch in window.batches)
    if not count:
        return None
    groups = sum(sum(batch.outcomes.values()) for batch in window.batches)
    return Finding(
        severity=Severity.CRITICAL,
        sentence=(
            f"In {count} of {groups} groups the completions answer different rows of the data, so each is compared "
            f"with answers to other questions, and its advantage says nothing."
        ),
        numbers={"mixed": count, "groups": groups},
        action=(
            "Take your own sampler out of the trainer: GRPO needs each row num_generations times in a row, as TRL's "
            "RepeatSampler gives it. For rows that are drawn more often than others, set learnable_rows: true."
        ),
    )
