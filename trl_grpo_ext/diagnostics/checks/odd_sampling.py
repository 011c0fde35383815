"""Check `odd_sampling`: sampling settings that distort what the policy writes."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.protocol import is_number

# Ours, tried with the bundled model: at 1.5 it learns, at 3 it writes nonsense.
HOT = 1.5
# A penalty of less hardly changes what is written.
LEAST_PENALTY = 1.05


def distorted(window: Window) -> CheckResult:
    """Find a temperature or repetition penalty that samples other text than the policy's, below the ceiling."""
    told = _told(window)
    if not told or window.is_solved or window.score.count < LEAST_SAMPLES:
        return None
    name, value = told
    return Finding(
        severity=Severity.INFO if has_risen(window) else Severity.CRITICAL,
        sentence=(
            f"The sampling, not the model: a {name} of {value:g} samples texts that the policy would not write, and "
            f"the score is {window.score.mean:.{window.scale.digits}f}."
        ),
        numbers={name: value},
        action=f"Set {name} to 1, TRL's default.",
    )


def _told(window: Window) -> tuple[str, float] | None:
    """Return the name and the value of a setting that distorts; None if none does."""
    for name, most in (("temperature", HOT), ("repetition_penalty", LEAST_PENALTY)):
        value = window.settings.get(name)
        if is_number(value) and value > most:
            return name, value
    return None
