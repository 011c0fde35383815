"""What TRL logged of the policy and its updates, as charts take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trl_grpo_ext.figures.batch_figures import Mean
from trl_grpo_ext.figures.moments import is_finite
from trl_grpo_ext.report.timeline import Timeline

SHOWN = (
    "entropy",
    "kl",
    "grad_norm",
    "learning_rate",
    "clip_ratio/region_mean",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
)


def log_columns(logs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """`steps`, and in `figures` for each name of `SHOWN` that was logged in training a list as long.

    Null stands where it is missing. The logs are read once, in bounded memory.

    Example:
        >>> log_columns([{"step": 5, "entropy": 0.5, "loss": 0.1}, {"step": 5, "eval_entropy": 0.4}])
        {'steps': [5], 'figures': {'entropy': [0.5]}}
    """
    timeline = Timeline()
    for entry in logs:
        found = {name: entry[name] for name in SHOWN if name in entry}
        if found and isinstance(entry.get("step"), int):
            known = {name: value for name, value in found.items() if is_finite(value)}
            timeline.add(entry["step"], {(name,): Mean(float(value), 1) for name, value in known.items()})
    return timeline.columns()
