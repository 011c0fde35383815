"""Check `odd_sampling`: sampling settings that distort what the policy writes."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window

# The highest value of each setting that leaves texts as they are. Ours, tried with the bundled model: at a temperature
# of 1.5 it learns, at 3 it writes nonsense. A lower penalty hardly changes what is written.
HIGHEST = {"temperature": 1.5, "repetition_penalty": 1.05}


def distorted(window: Window) -> CheckResult:
    """Find a temperature or repetition penalty that samples other text than the policy's, below the ceiling."""
    if window.is_solved or window.score.count < LEAST_SAMPLES:
        return None
    for name, highest in HIGHEST.items():
        value = window.number(name)
        if value is not None and value > highest:
            return _finding(window, name, value)
    return None


def _finding(window: Window, name: str, value: float) -> Finding:
    severity = Severity.CRITICAL
    if has_risen(window):
        severity = Severity.INFO
    return Finding(
        severity=severity,
        sentence=(
            f"The sampling, not the model: a {name} of {value:g} samples texts that the policy would not write, and "
            f"the score is {window.score.mean:.{window.scale.digits}f}."
        ),
        numbers={name: value},
        action=f"Set {name} to 1, TRL's default.",
    )
