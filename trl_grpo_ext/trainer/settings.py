"""Check TRL's settings without importing TRL, so that errors in a recipe are known at once."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from trl_grpo_ext.support.text import did_you_mean

# Ranges of numeric settings: the range in words, its test, and the settings.
_RANGES: tuple[tuple[str, Callable[[float], bool], tuple[str, ...]], ...] = (
    (
        "1 or more",
        lambda value: value >= 1,
        (
            *("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"),
            *("steps_per_generation", "num_iterations", "max_completion_length"),
        ),
    ),
    ("0 or more", lambda value: value >= 0, ("learning_rate", "weight_decay", "max_grad_norm", "adam_epsilon")),
    ("above 0", lambda value: value > 0, ("temperature", "repetition_penalty")),
    ("0 or more, and 1 at most", lambda value: 0 <= value <= 1, ("adam_beta1", "adam_beta2", "min_p")),
    ("above 0, and 1 at most", lambda value: 0 < value <= 1, ("top_p",)),
)
# Ranges for generation by transformers; vLLM accepts -1.
_OF_TRANSFORMERS = (("0 or more", lambda value: value >= 0, ("top_k",)),)
_CHOICES = ("loss_type", "scale_rewards", "importance_sampling_level", "multi_objective_aggregation")
_QUOTED = re.compile(r"\b(\w+)'(?!\w)")


def check_settings(settings: Any) -> None:
    """Raise a ValueError for a setting outside of its range or choices.

    Settings that are None, or unknown to this version of TRL, are skipped.

    Examples:
        >>> from types import SimpleNamespace
        >>> check_settings(SimpleNamespace(temperature=0.0))
        Traceback (most recent call last):
            ...
        ValueError: `temperature` must be above 0, got 0.0.
    """
    for wanted, test, names in _RANGES if getattr(settings, "use_vllm", False) else (*_RANGES, *_OF_TRANSFORMERS):
        for name in names:
            value = getattr(settings, name, None)
            if value is not None and not (isinstance(value, int | float) and test(value)):
                raise ValueError(f"`{name}` must be {wanted}, got {value!r}.")
    if getattr(settings, "max_steps", None) == 0:
        raise ValueError(
            "`max_steps` must be 1 or more, or -1 to train for num_train_epochs: with 0, TRL trains one step. To train "
            "none, set max_steps: -1 and num_train_epochs: 0."
        )
    # TRL lists these choices only in the help of its flags, in quotes.
    fields = dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ()
    for each in fields:
        if each.name in _CHOICES:
            known, value = _QUOTED.findall(each.metadata.get("help", "")), getattr(settings, each.name)
            if known and isinstance(value, str) and value not in known:
                raise ValueError(f"`{each.name}` cannot be {value!r}. {did_you_mean(value, known)}")


# The defaults of TRL and transformers.
BATCH_DEFAULTS = {
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "num_generations": 8,
}
# The variables in which launchers pass the number of training processes, in accelerate's order.
_WORLD_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")


def check_batches(written: Mapping[str, Any], processes: int | None = None) -> None:
    """Raise a ValueError if a batch does not hold whole groups; suggest valid settings, seconds before TRL would.

    Missing settings and None have TRL's default. `processes` defaults to the launcher's number of processes.

    Examples:
        >>> check_batches({"per_device_train_batch_size": 12})
        Traceback (most recent call last):
            ...
        ValueError: A batch of 12 completions does not hold whole groups of num_generations: 8. It is 12 ...
    """
    settings = BATCH_DEFAULTS | {name: value for name, value in written.items() if value is not None}
    processes = processes or next((int(os.environ[name]) for name in _WORLD_SIZES if name in os.environ), 1)
    steps = "steps_per_generation" if "steps_per_generation" in settings else "gradient_accumulation_steps"
    generations = "num_generations"
    if settings[generations] == 1:
        raise ValueError("GRPO compares the completions of a prompt: `num_generations` must be 2 or more, got 1.")
    if "generation_batch_size" not in settings:
        _check_batch(settings, "per_device_train_batch_size", {steps: settings[steps]}, processes, generations)
    if settings.get("eval_strategy", "no") not in ("no", False):
        generations = "num_generations_eval" if "num_generations_eval" in settings else generations
        _check_batch(settings, "per_device_eval_batch_size", {}, processes, generations)


def _check_batch(
    settings: Mapping[str, Any], each: str, times: Mapping[str, Any], processes: int, generations: str
) -> None:
    factors = {each: settings[each], **times, "process" if processes == 1 else "processes": processes}
    group = settings[generations]
    if not all(isinstance(number, int) and number > 0 for number in (*factors.values(), group)):
        # TRL refuses the setting for its type.
        return
    size = math.prod(factors.values())
    if size % group:
        made = " x ".join(f"{number} ({name})" for name, number in factors.items())
        smaller = next((number for number in range(min(group, size), 1, -1) if size % number == 0), None)
        step = group // math.gcd(group, size // settings[each])
        fits = f"{each}: {-(-settings[each] // step) * step}"
        raise ValueError(
            f"A batch of {size} completions does not hold whole groups of {generations}: {group}. It is {made}. "
            + (f"Set {generations}: {smaller}, or {fits}." if smaller else f"Set {fits}.")
        )
