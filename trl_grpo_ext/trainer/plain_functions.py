"""Plain reward functions for TRL, wrapped so that their time is known, and their NaN stays distinct from their None.

None means "does not apply", and TRL converts it to NaN. A NaN computed by the function is a failure, which TRL would
train on as on a wrong answer. So NaN travels as infinity, also a failure, until `Judge.settle` voids the row.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any

from torch import nn

from trl_grpo_ext.mix.reward_function import TermReward


def wrapped_functions(functions: Iterable[Any], seconds: dict[str, float]) -> list[Any]:
    """Wrap the plain functions in TRL's list of reward functions, so that they return infinity in place of NaN.

    Each call writes its time in seconds to `seconds`, under the function's name. Terms of a mix, reward models and
    names of reward models stay unchanged.
    """
    wrapped = []
    for function in functions:
        is_plain = not isinstance(function, TermReward | nn.Module | str)
        wrapped.append(_wrapped(function, seconds) if is_plain else function)
    return wrapped


def _wrapped(function: Callable[..., Any], seconds: dict[str, float]) -> Callable[..., Any]:
    name = _name(function)
    # An object may have an async `__call__`.
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )
    if is_async:

        @wraps(function)
        async def wrapped(*args: Any, **columns: Any) -> list[Any]:
            started = time.perf_counter()
            rewards = _without_nan(await function(*args, **columns), name)
            seconds[name] = time.perf_counter() - started
            return rewards

    else:

        @wraps(function)
        def wrapped(*args: Any, **columns: Any) -> list[Any]:
            started = time.perf_counter()
            rewards = _without_nan(function(*args, **columns), name)
            seconds[name] = time.perf_counter() - started
            return rewards

    wrapped.__name__ = name
    return wrapped


def _without_nan(rewards: Iterable[Any], name: str) -> list[Any]:
    """Replace NaN by infinity; raise a ValueError for a text, which TRL's tensors would refuse without a name."""
    found = []
    for number, reward in enumerate(rewards):
        if isinstance(reward, str):
            raise ValueError(
                f"The reward function {name!r} returned {reward!r:.40}, a str, for completion {number} of its batch: "
                f"return a list of numbers, or None for a completion that it does not judge."
            )
        # NaN is the only number that differs from itself, in every library.
        is_nan = reward is not None and reward != reward
        found.append(math.inf if is_nan else reward)
    return found


def _name(function: Any) -> str:
    """Return TRL's name of a function: a partial has its function's name, an object has its class's name."""
    while isinstance(function, partial):
        function = function.func
    class_name = type(function).__name__
    return str(getattr(function, "__name__", class_name))
