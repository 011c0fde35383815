"""What TRL logged of the policy and its updates, as charts take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.report.plain_values import rounded
from trl_grpo_ext.report.prompts import evenly

SHOWN = (
    "entropy",
    "kl",
    "grad_norm",
    "learning_rate",
    "clip_ratio/region_mean",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    "completions/clipped_ratio",
    "step_time",
)
DRIVERS = "verified/drivers/"
MOST_POINTS = 1000


def log_columns(logs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`steps`, and for each name of `SHOWN` that was logged in training a list as long, null where it is missing.

    `drivers` holds by term what stands under `verified/drivers/`: its share of the within-group variance of the total.

    Example:
        >>> log_columns([{"step": 5, "entropy": 0.5, "loss": 0.1}, {"step": 5, "eval_entropy": 0.4}])
        {'steps': [5], 'figures': {'entropy': [0.5]}, 'drivers': {}}
    """
    training = [entry for entry in logs if any(name in entry for name in SHOWN) and isinstance(entry.get("step"), int)]
    training = list(evenly(training, MOST_POINTS))
    terms = dict.fromkeys(key.removeprefix(DRIVERS) for entry in training for key in entry if key.startswith(DRIVERS))
    return {
        "steps": [entry["step"] for entry in training],
        "figures": {name: _column(training, name) for name in SHOWN if any(name in entry for entry in training)},
        "drivers": {term: _column(training, DRIVERS + term) for term in terms},
    }


def _column(entries: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    values = (entry.get(name) for entry in entries)
    return [rounded(float(value)) if isinstance(value, int | float) else None for value in values]
