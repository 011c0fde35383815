"""Settings of the training that cannot be, and that TRL would only meet once the model is loaded."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

from trl_grpo_ext.support.names import did_you_mean


class _Range(NamedTuple):
    least: float
    most: float = float("inf")
    open_below: bool = False
    """Whether the least value itself is out."""

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float):
            return False
        return (self.least < value if self.open_below else self.least <= value) and value <= self.most

    def __str__(self) -> str:
        lower = f"above {self.least:g}" if self.open_below else f"{self.least:g} or more"
        return lower if self.most == float("inf") else f"{lower}, and {self.most:g} at most"


_COUNT, _NOT_NEGATIVE, _POSITIVE = _Range(1), _Range(0), _Range(0, open_below=True)
_RANGES = {
    "per_device_train_batch_size": _COUNT,
    "per_device_eval_batch_size": _COUNT,
    "gradient_accumulation_steps": _COUNT,
    "steps_per_generation": _COUNT,
    "num_iterations": _COUNT,
    "max_completion_length": _COUNT,
    "learning_rate": _NOT_NEGATIVE,
    "weight_decay": _NOT_NEGATIVE,
    "max_grad_norm": _NOT_NEGATIVE,
    "adam_epsilon": _NOT_NEGATIVE,
    "adam_beta1": _Range(0, 1),
    "adam_beta2": _Range(0, 1),
    "temperature": _POSITIVE,
    "repetition_penalty": _POSITIVE,
    "top_p": _Range(0, 1, open_below=True),
    "min_p": _Range(0, 1),
}
_OF_TRANSFORMERS = {"top_k": _NOT_NEGATIVE}  # vLLM takes -1
_CHOICES = ("loss_type", "scale_rewards", "importance_sampling_level", "multi_objective_aggregation")
_QUOTED = re.compile(r"\b(\w+)'(?!\w)")


def check_settings(settings: Any) -> None:
    """Raise a ValueError for a setting that is out of its range or none of its choices.

    Args:
        settings: A `GRPOConfig`; what this version of TRL does not have, and what is None, is passed over.

    Example:
        >>> from types import SimpleNamespace
        >>> check_settings(SimpleNamespace(temperature=0.0))
        Traceback (most recent call last):
            ...
        ValueError: `temperature` must be above 0, got 0.0.
    """
    ranges = _RANGES if getattr(settings, "use_vllm", False) else _RANGES | _OF_TRANSFORMERS
    for name, wanted in ranges.items():
        value = getattr(settings, name, None)
        if value is not None and value not in wanted:
            raise ValueError(f"`{name}` must be {wanted}, got {value!r}.")
    # TRL has no other list of these than the help of its flags, which quotes them.
    fields = dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ()
    for field in fields:
        if field.name in _CHOICES:
            known, value = _QUOTED.findall(field.metadata.get("help", "")), getattr(settings, field.name)
            if known and isinstance(value, str) and value not in known:
                raise ValueError(f"`{field.name}` cannot be {value!r}. {did_you_mean(value, known)}")
