"""Plain reward functions as TRL gets them: their NaN stays apart from their None.

TRL makes NaN of None, which is "does not apply". A NaN that a function has computed is a failure, and TRL would train
on the row as on a wrong answer. It travels as infinity, a failure too, until `Judge.settle` takes the row out.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any

from torch import nn

from trl_grpo_ext.mix.reward_function import TermReward


def with_nan_apart(functions: Iterable[Any]) -> list[Any]:
    """Return TRL's list of reward functions, in which plain functions give infinity in place of NaN.

    Terms of a mix, reward models and names of reward models stay as they are.
    """
    return [
        function if isinstance(function, TermReward | nn.Module | str) else _nan_apart(function)
        for function in functions
    ]


def _nan_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

        @wraps(function)
        async def wrapped(*args: Any, **columns: Any) -> list[Any]:
            return _without_nan(await function(*args, **columns))

    else:

        @wraps(function)
        def wrapped(*args: Any, **columns: Any) -> list[Any]:
            return _without_nan(function(*args, **columns))

    wrapped.__name__ = _name(function)
    return wrapped


def _without_nan(rewards: Iterable[Any]) -> list[Any]:
    # Only NaN differs from itself, of whichever library the number is.
    return [math.inf if reward is not None and reward != reward else reward for reward in rewards]


def _name(function: Any) -> str:
    """Return the name that TRL gives a function: a partial has that of its function, an object that of its class."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
