"""Check TRL's settings without importing TRL, so that errors in a recipe are known at once.

Settings of this package are checked in `config`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class _Range(NamedTuple):
    """A range for numeric settings, in words and as a test function."""

    words: str
    holds: Callable[[float], bool]
    settings: tuple[str, ...]


_RANGES = (
    _Range(
        "1 or more",
        lambda value: value >= 1,
        (
            "per_device_train_batch_size",
            "per_device_eval_batch_size",
            "gradient_accumulation_steps",
            "steps_per_generation",
            "num_iterations",
            "max_completion_length",
        ),
    ),
    _Range(
        "0 or more",
        lambda value: value >= 0,
        ("learning_rate", "weight_decay", "max_grad_norm", "adam_epsilon"),
    ),
    _Range(
        "above 0",
        lambda value: value > 0,
        ("temperature", "repetition_penalty"),
    ),
    _Range(
        "0 or more, and 1 at most",
        lambda value: 0 <= value <= 1,
        ("adam_beta1", "adam_beta2", "min_p"),
    ),
    _Range(
        "above 0, and 1 at most",
        lambda value: 0 < value <= 1,
        ("top_p",),
    ),
)
# Generation by transformers only: vLLM accepts -1.
_OF_TRANSFORMERS = _Range("0 or more", lambda value: value >= 0, ("top_k",))


def check_settings(settings: Any) -> None:
    """Raise a ValueError for a setting outside of its range.

    Settings that are None, or unknown to this version of TRL, are skipped.

    Examples:
        >>> from types import SimpleNamespace
        >>> check_settings(SimpleNamespace(temperature=0.0))
        Traceback (most recent call last):
            ...
        ValueError: `temperature` must be above 0, got 0.0.
    """
    for each in _RANGES:
        _check_range(settings, each)
    if not getattr(settings, "use_vllm", False):
        _check_range(settings, _OF_TRANSFORMERS)
    if getattr(settings, "max_steps", None) == 0:
        raise ValueError(
            "`max_steps` must be 1 or more, or -1 to train for num_train_epochs: with 0, TRL trains one step. To train "
            "none, set max_steps: -1 and num_train_epochs: 0."
        )


def _check_range(settings: Any, wanted: _Range) -> None:
    for name in wanted.settings:
        value = getattr(settings, name, None)
        if value is None:
            continue
        is_number = isinstance(value, int | float)
        if not is_number or not wanted.holds(value):
            raise ValueError(f"`{name}` must be {wanted.words}, got {value!r}.")


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
    known = {name: value for name, value in written.items() if value is not None}
    settings = {**BATCH_DEFAULTS, **known}
    generations = "num_generations"
    if settings[generations] == 1:
        raise ValueError(
            "GRPO compares the completions of a prompt: `num_generations` must be 2 or more, got 1."
        )
    processes = processes or _launched_processes()
    if "generation_batch_size" not in settings:
        steps = "gradient_accumulation_steps"
        if "steps_per_generation" in settings:
            steps = "steps_per_generation"
        _check_batch(
            settings,
            ("per_device_train_batch_size", steps),
            processes,
            generations,
        )
    if settings.get("eval_strategy", "no") not in ("no", False):
        if "num_generations_eval" in settings:
            generations = "num_generations_eval"
        _check_batch(settings, ("per_device_eval_batch_size",), processes, generations)


def _launched_processes() -> int:
    for name in _WORLD_SIZES:
        if name in os.environ:
            return int(os.environ[name])
    return 1


def _check_batch(
    settings: Mapping[str, Any],
    names: Sequence[str],
    processes: int,
    generations: str,
) -> None:
    """Check a batch for whole groups; its size is the product of the named settings and the processes.

    The first setting is per device, and the one to change.
    """
    factors = {name: settings[name] for name in names}
    factors["process" if processes == 1 else "processes"] = processes
    group = settings[generations]
    if not all(
        isinstance(number, int) and number > 0 for number in (*factors.values(), group)
    ):
        # TRL refuses the setting for its type.
        return
    size = math.prod(factors.values())
    if size % group == 0:
        return
    made = " x ".join(f"{number} ({name})" for name, number in factors.items())
    advice = _fitting_batch(names[0], settings[names[0]], size, group)
    smaller_groups = [
        number for number in range(2, min(group, size) + 1) if size % number == 0
    ]
    if smaller_groups:
        advice = f"{generations}: {smaller_groups[-1]}, or {advice}"
    raise ValueError(
        f"A batch of {size} completions does not hold whole groups of {generations}: {group}. It is {made}. "
        f"Set {advice}."
    )


def _fitting_batch(name: str, each: int, size: int, group: int) -> str:
    """Return the smallest larger setting per device with which the batch holds whole groups."""
    devices_and_steps = size // each
    step = group // math.gcd(group, devices_and_steps)
    return f"{name}: {math.ceil(each / step) * step}"
