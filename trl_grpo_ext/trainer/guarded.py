"""Factories of guarded environments, and the class of one.

A guarded environment is an instance of a subclass that has the name of the user's class: TRL finds tools and rewards by
the class.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from typing import Any

from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.support.lane import Lane
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.environments import GUARD, TRL_ASKS_ENVIRONMENTS, Asked, EnvironmentGuard, guard_of
from trl_grpo_ext.trainer.ranks import on_this_gpu

CHOICE = "environment"  # the column by which rows choose one of several environments


class GuardedFactory:
    """Makes guarded environments. It pickles if the user's factory does, as AsyncGRPO needs it.

    Args:
        factory: The user's, a class or a function.
        seconds: The time limit of a call. None is no limit, and calls are made on the thread of the caller.
        gives_outcomes: Whether every environment has a `get_reward`, which gives what was asked of it: that is all that
            a rollout loop of AsyncGRPO hands on of an environment.

    Attributes:
        loop: The loop on which a rollout loop of AsyncGRPO runs what is async, once there is one.
    """

    def __init__(self, factory: Callable[[], Any], seconds: float | None, *, gives_outcomes: bool = False) -> None:
        self.factory = factory
        self.seconds = seconds
        self.gives_outcomes = gives_outcomes
        self.loop: asyncio.AbstractEventLoop | None = None

    def __call__(self) -> Any:
        """A new environment, made on the thread of its later calls.

        Raises:
            TypeError: for a class with `__slots__`, which has no place for the guard.
        """
        lane = None if self.seconds is None else Lane()
        # It may load a model here, which takes as long as it takes.
        environment = self.factory() if lane is None else lane.call(on_this_gpu(self.factory))
        kind = type(environment)
        try:
            guard = EnvironmentGuard(environment, kind, lane, self.seconds)
            guard.loop = self.loop
            object.__setattr__(environment, GUARD, guard)
            object.__setattr__(environment, "__class__", guarded_class(kind, self.gives_outcomes))  # type: ignore[arg-type]  # a class is hashable
        except (AttributeError, TypeError) as error:
            raise TypeError(
                f"The environment {kind.__name__} cannot be guarded against failures of its calls ({error}). Its class "
                f"has __slots__: take them out."
            ) from None
        return environment


def call_seconds(args: Any) -> float | None:
    """The time limit of a call; the default where TRL's own configuration has none."""
    return getattr(args, "environment_timeout", VerifiedGRPOConfig.environment_timeout)


def guarded(factory: Any, args: Any, rows: Any) -> Any:
    """TRL's `environment_factory`, a callable or a mapping of names to callables, with guarded environments.

    Raises:
        ValueError: for rows that choose none of several environments, which TRL would find in the batch that has them.
    """
    seconds = call_seconds(args)
    if isinstance(factory, Mapping):
        names = rows.unique(CHOICE) if CHOICE in (getattr(rows, "column_names", None) or ()) else [None]
        unknown = [name for name in names if name not in factory] if hasattr(rows, "unique") else []
        if unknown:
            raise ValueError(
                f"Rows of train_dataset choose the environment {unknown[0]!r} by their column `{CHOICE}`, and "
                f"environment_factory has: {', '.join(map(repr, factory))}."
            )
        return {name: GuardedFactory(each, seconds) for name, each in factory.items()}
    return GuardedFactory(factory, seconds)


def untouched_outcome(factory: Any, row: Mapping[str, Any], seconds: float | None = None) -> Outcome | None:
    """The outcome of an environment that a row has reset, and in which nothing was done; None without environments.

    Of several, the row names one in its column `environment`.
    """
    if isinstance(factory, Mapping):
        factory = factory.get(row.get(CHOICE))
        row = {name: value for name, value in row.items() if name != CHOICE}
    if factory is None:
        return None
    environment = GuardedFactory(factory, seconds)()
    environment.reset(**row)
    guard = guard_of(environment)
    return None if guard is None else guard.outcome()


@cache
def guarded_class(kind: type, gives_outcomes: bool) -> type:
    """The subclass of an environment's class whose `reset` and `get_reward` ask the guard."""
    members: dict[str, Any] = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    if hasattr(kind, "reset"):

        @wraps(kind.reset)
        def reset(self: Any, **row: Any) -> Any:
            guard = guard_of(self)
            call = partial(kind.reset, self, **row)
            return call() if guard is None or guard.is_inside() else guard.reset(call)

        members["reset"] = reset
    if gives_outcomes:
        members["get_reward"] = _asked
    elif TRL_ASKS_ENVIRONMENTS and hasattr(kind, "get_reward"):
        members["get_reward"] = _guarded_reward(kind.get_reward)
    return type(kind)(kind.__name__, (kind,), members)


def _asked(environment: Any) -> Asked | None:
    guard = guard_of(environment)
    return None if guard is None else guard.asked(guard.loop)


def _guarded_reward(get_reward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A `get_reward` that gives the number of the outcome, for TRL; it is async if the user's is."""
    if inspect.iscoroutinefunction(get_reward):

        @wraps(get_reward)
        async def asked_async(self: Any) -> Any:
            guard = guard_of(self)
            known = None if guard is None else guard.known
            return await get_reward(self) if known is None else known.reward

        return asked_async

    @wraps(get_reward)
    def asked(self: Any) -> Any:
        guard = guard_of(self)
        return get_reward(self) if guard is None or guard.is_inside() else guard.outcome().reward

    return asked
