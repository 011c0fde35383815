"""Losses or gradients that are no numbers."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.window import NO_LOGS, CheckResult, Window
from trl_grpo_ext.support.estimate import is_finite

LATEST = 8  # logs; ours
LEAST = 2  # of them: mixed precision skips a step now and then; ours. More is proof, and needs no second signal
FIGURES = ("loss", "grad_norm", "entropy", "kl")


def check(window: Window) -> CheckResult:
    """Figures of recent updates that were logged and are not finite."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    latest = window.logs[-LATEST:]
    counts = {name: sum(name in entry and not is_finite(entry[name]) for entry in latest) for name in FIGURES}
    worst = max(FIGURES, key=lambda name: counts[name])
    if counts[worst] < LEAST:
        return None
    return Finding(
        code="nonfinite_updates",
        step=window.step,
        severity=Severity.CRITICAL,
        sentence=f"{counts[worst]} of the last {len(latest)} logged updates had a {worst} that is no number.",
        numbers={"nonfinite": counts[worst], "logs": len(latest)},
        action="Go back to the last good checkpoint, with a lower learning rate, bf16 in place of fp16, and "
        "max_grad_norm set.",
    )
