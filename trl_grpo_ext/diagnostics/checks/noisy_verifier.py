"""A verifier that turns down right answers, or accepts wrong ones, as the noise meter has measured it."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.groups import percent
from trl_grpo_ext.diagnostics.terms import names, primary_terms
from trl_grpo_ext.diagnostics.window import CheckResult, Window
from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS

# Of the answers, the least that the 95 % interval allows. Ours, tried in tests/test_noise_meter.py.
WARN, CRITICAL = 0.02, 0.10

SAYS = {
    FALSE_ACCEPTS: "accepts {rate} of the answers that are right for another prompt only",
    FALSE_REJECTS: "turns down {rate} of right answers that are written in another form",
}


def check(window: Window) -> CheckResult:
    """The latest rates of false accepts and of false rejects in the logs: of those too high, the higher."""
    bounds = {name: [window.logged(f"{name}{bound}")[-1:] for bound in ("_low", "", "_high")] for name in SAYS}
    rates = {name: [value for (value,) in found] for name, found in bounds.items() if all(found)}
    if not rates:
        needs = "a right answer whose verifier compares it with a gold (measure_noise), and a log after it"
        return NotChecked(needs) if window.batches else None
    worst = max(rates, key=lambda name: rates[name][0])
    low, rate, high = rates[worst]
    if low < WARN:
        return None
    said = f"{percent(rate)} ({percent(low)} to {percent(high)})"
    return Finding(
        code="noisy_verifier",
        step=window.step,
        severity=Severity.CRITICAL if low >= CRITICAL else Severity.WARNING,
        sentence=f"The verifier, not the model: {names(primary_terms(window))} {SAYS[worst].format(rate=said)}.",
        numbers={name.rpartition("/")[2]: rates[name][1] for name in rates} | {"low": low, "high": high},
        action="Read in noise.jsonl what the verifier got wrong; then mend it, or take another.",
    )
