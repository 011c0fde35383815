"""Create guarded environments, as instances of a subclass with the name of the user's class.

TRL finds tools and rewards by the class.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from typing import Any

from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.protocol import DataProblem
from trl_grpo_ext.support.lane import Lane
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.environments import (
    CHECK_ROWS,
    GUARD,
    TRL_ASKS_ENVIRONMENTS,
    Asked,
    EnvironmentGuard,
    guard_of,
)
from trl_grpo_ext.trainer.ranks import on_this_gpu

# The column in which a row names one of several environments.
CHOICE = "environment"

# Attempts of a first outcome: a service that fails for a moment shall not refuse a run.
FIRST_OUTCOME_TRIES = 3
# Rows that are tried for an outcome.
FIRST_OUTCOME_ROWS = 3


class GuardedFactory:
    """A factory of guarded environments.

    It can be pickled if the user's factory can, as AsyncGRPO requires.

    Args:
        factory: The user's factory, a class or a function.
        seconds: The time limit of a call; None is no limit, and calls run on the caller's thread.
        gives_outcomes: Whether every environment gets a `get_reward` that returns an `Asked`, the only value that
            AsyncGRPO's rollout loop passes on from an environment.

    Attributes:
        loop: The event loop of AsyncGRPO's rollout loop, for async methods; None until it exists.
    """

    def __init__(
        self,
        factory: Callable[[], Any],
        seconds: float | None,
        *,
        gives_outcomes: bool = False,
    ) -> None:
        self.factory = factory
        self.seconds = seconds
        self.gives_outcomes = gives_outcomes
        self.loop: asyncio.AbstractEventLoop | None = None

    def __call__(self) -> Any:
        """Create an environment, on the thread reserved for its calls.

        Raises:
            TypeError: for a class with `__slots__`, whose instances cannot hold the guard.
        """
        lane = None
        if self.seconds is None:
            environment = self.factory()
        else:
            lane = Lane()
            # No time limit, since the environment may load a model here.
            environment = lane.call(on_this_gpu(self.factory))
        kind: Any = type(environment)
        guard = EnvironmentGuard(environment, kind, lane, self.seconds)
        guard.loop = self.loop
        try:
            object.__setattr__(environment, GUARD, guard)
            object.__setattr__(
                environment, "__class__", guarded_class(kind, self.gives_outcomes)
            )
        except (AttributeError, TypeError) as error:
            raise TypeError(
                f"The environment {kind.__name__} cannot be guarded against failures of its calls ({error}). Its class "
                f"has __slots__: take them out."
            ) from None
        return environment


def call_seconds(args: Any) -> float | None:
    """Return the time limit of an environment's call, in seconds; the default for TRL's own configuration."""
    return getattr(args, "environment_timeout", VerifiedGRPOConfig.environment_timeout)


def guarded(factory: Any, args: Any, rows: Any) -> Any:
    """Wrap TRL's `environment_factory`, a callable or a mapping from names to callables, in guarded factories.

    Raises:
        ValueError: for rows that name an unknown environment, which TRL would notice only in their batch.
    """
    seconds = call_seconds(args)
    if not isinstance(factory, Mapping):
        return GuardedFactory(factory, seconds)
    # The values of a stream are unknown.
    if hasattr(rows, "unique"):
        _check_choices(factory, rows)
    return {name: GuardedFactory(each, seconds) for name, each in factory.items()}


def _check_choices(factory: Mapping[str, Any], rows: Any) -> None:
    # Rows without the column name no environment.
    names = [None]
    if CHOICE in (getattr(rows, "column_names", None) or ()):
        names = rows.unique(CHOICE)
    unknown = [name for name in names if name not in factory]
    if unknown == [None]:
        raise ValueError(
            f"environment_factory has several environments, and train_dataset no column `{CHOICE}` that "
            f"chooses one for each row: {', '.join(map(repr, factory))}."
        )
    if unknown:
        raise ValueError(
            f"Rows of train_dataset choose the environment {unknown[0]!r} by their column `{CHOICE}`, and "
            f"environment_factory has: {', '.join(map(repr, factory))}."
        )


def untouched_outcome(
    factory: Any,
    row: Mapping[str, Any],
    seconds: float | None = None,
) -> Outcome | None:
    """Return an environment's outcome after `reset` on a row, without any action; None without environments.

    With several environments, the row names one in its column `environment`. A new environment is tried after a call
    that failed, at most `FIRST_OUTCOME_TRIES` in all.
    """
    if isinstance(factory, Mapping):
        factory = factory.get(row.get(CHOICE))
        row = {name: value for name, value in row.items() if name != CHOICE}
    if factory is None:
        return None
    outcome = None
    for _ in range(FIRST_OUTCOME_TRIES):
        environment = GuardedFactory(factory, seconds)()
        environment.reset(**row)
        guard = guard_of(environment)
        if guard is None:
            return None
        outcome = guard.outcome()
        if not outcome.error:
            break
    return outcome


def untouched_outcomes(
    factory: Any, rows: Sequence[Mapping[str, Any]]
) -> list[Outcome | None]:
    """Return the environments' outcomes on the first rows, until a row on which the environment does not fail.

    One row may be at fault, and then says nothing of the others.
    """
    outcomes = []
    for number in range(min(FIRST_OUTCOME_ROWS, len(rows))):
        outcome = untouched_outcome(factory, rows[number])
        outcomes.append(outcome)
        if outcome is None or not outcome.error:
            break
    return outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRows:
    """The checks of dataset rows by the environments that reward rollouts.

    Attributes:
        checks: The `_check_rows` of each environment that has one, by its name in the rows' column `environment`; a
            single environment has the name None.
        unchecked: The classes of environments that reward rollouts, and cannot tell before one whether they will.
    """

    checks: Mapping[str | None, Callable[..., Sequence[DataProblem]]]
    unchecked: tuple[str, ...]

    def check(self, rows: Sequence[Mapping[str, Any]], thorough: bool) -> list[DataProblem]:
        """List the problems of rows, each found by the row's own environment."""
        problems = []
        for name, check in self.checks.items():
            numbers = [
                number for number, row in enumerate(rows) if name in (None, row.get(CHOICE))
            ]
            for problem in check([rows[number] for number in numbers], thorough=thorough):
                problems.append(replace(problem, row=numbers[problem.row]))
        return problems


def environment_rows(factory: Any) -> EnvironmentRows:
    """Return the checks of rows by TRL's `environment_factory`: a callable, a mapping of callables, or None."""
    factories = factory
    if not isinstance(factory, Mapping):
        factories = {} if factory is None else {None: factory}
    checks = {}
    unchecked = []
    for name, make in factories.items():
        kind = make
        # What a function makes is known once it has made one. A class without the check need not be made.
        if not isinstance(make, type) or hasattr(make, CHECK_ROWS):
            environment = make()
            kind = type(environment)
        if hasattr(kind, CHECK_ROWS):
            checks[name] = getattr(environment, CHECK_ROWS)
        elif hasattr(kind, "get_reward"):
            unchecked.append(kind.__name__)
    return EnvironmentRows(checks=checks, unchecked=tuple(unchecked))


@cache
def guarded_class(kind: type, gives_outcomes: bool) -> type:
    """Make a subclass of an environment's class whose `reset` and `get_reward` go through the guard."""
    members: dict[str, Any] = {
        name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")
    }
    if hasattr(kind, "reset"):

        @wraps(kind.reset)
        def reset(self: Any, **row: Any) -> Any:
            guard = guard_of(self)
            call = partial(kind.reset, self, **row)
            if guard is None or guard.is_inside():
                return call()
            return guard.reset(call)

        members["reset"] = reset
    if gives_outcomes:
        members["get_reward"] = _asked
    elif TRL_ASKS_ENVIRONMENTS and hasattr(kind, "get_reward"):
        members["get_reward"] = _guarded_reward(kind.get_reward)
    return type(kind)(kind.__name__, (kind,), members)


def _asked(environment: Any) -> Asked | None:
    guard = guard_of(environment)
    if guard is None:
        return None
    return guard.asked(guard.loop)


def _guarded_reward(get_reward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a `get_reward` that returns the outcome's number to TRL; async if the user's method is async."""
    if inspect.iscoroutinefunction(get_reward):

        @wraps(get_reward)
        async def asked_async(self: Any) -> Any:
            guard = guard_of(self)
            if guard is None or guard.known is None:
                return await get_reward(self)
            return guard.known.reward

        return asked_async

    @wraps(get_reward)
    def asked(self: Any) -> Any:
        guard = guard_of(self)
        if guard is None or guard.is_inside():
            return get_reward(self)
        return guard.outcome().reward

    return asked
