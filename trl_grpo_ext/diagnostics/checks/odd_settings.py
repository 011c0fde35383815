"""Check `odd_settings`: settings of the optimizer and the loss far outside what trains, in a run that does not rise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.progress import FLAT_BATCHES, has_risen, steps_so_far
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window

# Optimizer steps: a score may start to rise late. Ours, as in `odd_sampling`.
LEAST_STEPS = 16


class Usual(NamedTuple):
    """Usual range of a setting, the harm of a value outside, and a value to take instead."""

    low: float
    high: float
    does: str
    instead: str


# Ours, each far beyond TRL's default and the papers' values, and tried with the bundled model, which learns by the
# defaults. GSPO has an epsilon of 3e-4, and CISPO an epsilon_high of 5.
USUAL = {
    "weight_decay": Usual(
        0.0, 1.0, "each step shrinks all weights", "0, TRL's default, to 0.1"
    ),
    "adam_beta1": Usual(
        0.0, 0.995, "an update is the mean of hundreds of gradients", "0.9, the default"
    ),
    "adam_beta2": Usual(
        0.5, 0.99999, "Adam's scale of the gradients is lost", "0.999, the default"
    ),
    "adam_epsilon": Usual(
        0.0,
        1e-4,
        "it is larger than the gradients, and shrinks the updates",
        "1e-8, the default",
    ),
    "max_grad_norm": Usual(
        1e-6, math.inf, "the gradient is cut to next to nothing", "1, the default"
    ),
    "epsilon": Usual(
        1e-4, 1.0, "it clips nearly all tokens, or none", "0.2, TRL's default"
    ),
    "num_iterations": Usual(
        1,
        8,
        "most updates are made with completions of an older policy",
        "1, TRL's default",
    ),
    "top_entropy_quantile": Usual(
        0.05, 1.0, "hardly a token is trained on", "1, TRL's default, or 0.2"
    ),
    "entropy_coef": Usual(
        -0.1, 0.1, "the entropy outweighs the reward", "0, TRL's default, to 0.01"
    ),
}
# Any dropout of the model's config.
DROPOUT = Usual(0.0, 0.2, "the policy is trained with many of its values missing", "0")


def unusual(window: Window) -> CheckResult:
    """Find settings outside of their usual range where the score does not rise."""
    is_long = len(window.batches) >= FLAT_BATCHES and steps_so_far(window) >= LEAST_STEPS
    if (
        window.is_solved
        or window.score.count < LEAST_SAMPLES
        or not is_long
        or has_risen(window)
    ):
        return None
    odd = _odd(window)
    if not odd:
        return None
    told = [
        f"{name} is {value:g}, so {USUAL.get(name, DROPOUT).does}"
        for name, value in odd.items()
    ]
    instead = [f"{name} to {USUAL.get(name, DROPOUT).instead}" for name in odd]
    return Finding(
        severity=Severity.CRITICAL,
        sentence=(
            f"A setting is far from what trains: {'; '.join(told)}. The score does not rise, and is "
            f"{window.score.mean:.{window.scale.digits}f}."
        ),
        numbers=odd,
        action=f"Set {', and '.join(instead)}.",
    )


def _odd(window: Window) -> dict[str, float]:
    """Collect the settings outside of their usual range."""
    values = {name: window.number(name) for name in USUAL}
    dropouts: Mapping[str, float] = window.settings.get("dropout") or {}
    odd = {}
    for name, value in (values | dict(dropouts)).items():
        usual = USUAL.get(name, DROPOUT)
        # A max_grad_norm of 0 cuts nothing.
        if value and not usual.low <= value <= usual.high:
            odd[name] = value
    return odd
