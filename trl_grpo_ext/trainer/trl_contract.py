"""The TRL that this package knows: what it touches of TRL's trainer, checked before anything is trained."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

SUPPORTED = "trl>=1.6,<2,!=1.15.0"

# TRL split `_calculate_rewards` out for subclasses (trl#3620); its signature is the same from 0.19 to 1.16.
EXPECTED_PARAMETERS = {
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_generate_and_score_completions": ("self", "inputs"),
    "_log_metric": ("self", "name", "value"),
    "log": ("self", "logs", "start_time"),
}


def check_trl(trainer_class: type, trl_version: str) -> None:
    """Raise an ImportError of one sentence if TRL's trainer is not the one this package subclasses."""
    for method, expected in EXPECTED_PARAMETERS.items():
        found = _parameters(getattr(trainer_class, method, None))
        if found != expected:
            has = f"takes ({', '.join(found)})" if found is not None else "is missing"
            raise ImportError(
                f"trl_grpo_ext supports {SUPPORTED}, and in the installed TRL {trl_version} the method "
                f"GRPOTrainer.{method} {has}, not ({', '.join(expected)}): install a supported TRL, or use the "
                f"verifiers of trl_grpo_ext.rewards with TRL's own GRPOTrainer."
            )


def _parameters(method: Callable[..., Any] | None) -> tuple[str, ...] | None:
    # TRL wraps these in a profiling decorator; the signature is that of the function inside.
    return None if method is None else tuple(inspect.signature(inspect.unwrap(method)).parameters)
