"""Check `nonfinite_updates`: losses, gradients, entropies or KL divergences that are NaN or infinite."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import NO_LOGS, CheckResult, Window
from trl_grpo_ext.support.setting_checks import is_number

# Ours: a loss scaler for fp16 skips a step now and then, so one such log is no fault. Two of eight logs are one.
LATEST_LOGS = 8
# Of the latest logs.
LEAST_NONFINITE = 2
FIGURES = ("loss", "grad_norm", "entropy", "kl")


def nonfinite(window: Window) -> CheckResult:
    """Find NaN or infinite figures in recent logs."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    latest = window.logs[-LATEST_LOGS:]
    counts = dict.fromkeys(FIGURES, 0)
    for entry in latest:
        for name in FIGURES:
            if name in entry and not is_number(entry[name]):
                counts[name] += 1
    worst = max(FIGURES, key=lambda name: counts[name])
    if counts[worst] < LEAST_NONFINITE:
        return None
    return Finding(
        severity=Severity.CRITICAL,
        sentence=f"The {worst} was NaN or infinite in {counts[worst]} of the last {len(latest)} logged updates.",
        numbers={"nonfinite": counts[worst], "logs": len(latest)},
        action=(
            "Go back to the last good checkpoint, with a lower learning rate, bf16 in place of fp16, and "
            "max_grad_norm set."
        ),
    )
