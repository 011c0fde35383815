"""Environments whose failures are data: `reset` and `get_reward` may raise or hang, and only that rollout is lost.

TRL calls both on the main thread, and their exceptions end the run. A guarded environment notes them instead. It is an
instance of a subclass that has the name of the user's class, since TRL finds tools and rewards by the class.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial, wraps
from typing import Any

from trl import GRPOTrainer

from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.support.lane import HangsError, Lane
from trl_grpo_ext.support.text import Once, error_text
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.ranks import on_this_gpu
from trl_grpo_ext.verdict import Verdict, as_verdict, grader_error

logger = logging.getLogger(__name__)

MOST_STATE = 65_536  # characters of a state as JSON, so that a batch of them fits in memory and in the record; ours
# What a call of the user's may raise. A KeyboardInterrupt ends the run.
FAILURES = (Exception, SystemExit, asyncio.CancelledError)
# TRL 1.6 takes `get_reward` for one more tool of the model.
TRL_ASKS_ENVIRONMENTS = "get_reward" in inspect.getsource(GRPOTrainer.__init__)
CHOICE = "environment"  # the column by which rows choose one of several environments
_GUARD = "_trl_grpo_ext_guard"
_once = Once()


class GuardedFactory:
    """Makes guarded environments. It pickles if the user's factory does, as AsyncGRPO needs it.

    Args:
        factory: The user's, a class or a function.
        seconds: The time limit of a call. None is no limit, and calls are made on the thread of the caller.
    """

    def __init__(self, factory: Callable[[], Any], seconds: float | None) -> None:
        self.factory = factory
        self.seconds = seconds

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
            object.__setattr__(environment, _GUARD, EnvironmentGuard(environment, kind, lane, self.seconds))
            object.__setattr__(environment, "__class__", guarded_class(kind))  # type: ignore[arg-type]  # a class is hashable
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


class EnvironmentGuard:
    """What has become of the rollout that one environment is in.

    Attributes:
        environment: The environment.
        kind: The user's class.
        has_reward: Whether it has a `get_reward`.
        lost: The verdict on a `reset` that failed: there is no rollout then.
        known: The outcome, once it was asked.
        hangs_in: The method that hangs. Such an environment is not used again, since its thread cannot be ended.
    """

    def __init__(self, environment: Any, kind: type, lane: Lane | None, seconds: float | None) -> None:
        self.environment = environment
        self.kind = kind
        self.has_reward = TRL_ASKS_ENVIRONMENTS and hasattr(kind, "get_reward")
        self.lost: Verdict | None = None
        self.hangs_in = ""
        self._lane = lane
        self._seconds = seconds
        self._is_inside = False
        self.known: Outcome | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a copy of the environment has no guard

    def reset(self, call: Callable[[], Any]) -> Any:
        """The observation of the user's `reset`; None where it fails."""
        self.known = self.lost = None
        if self.hangs_in:
            self.lost = grader_error("reset_hangs", error=f"{self.kind.__name__} hangs in {self.hangs_in}")
            return None
        observation = self._called("reset", call)
        if isinstance(observation, Verdict):
            self.lost = observation
        elif not (observation is None or isinstance(observation, str | list)):
            said = f"{self.kind.__name__}.reset returned {observation!r:.100}; TRL takes a text, a list or None"
            self.lost = grader_error(f"reset_returned_{type(observation).__name__}", error=said)
        return None if self.lost else observation

    def outcome(self, loop: asyncio.AbstractEventLoop | None = None) -> Outcome:
        """The outcome of the rollout, asked once. TRL's own loop runs what is async."""
        if self.known is None:
            started = time.perf_counter()
            verdict = self.lost
            if verdict is None and self.has_reward:
                verdict = self._called("get_reward", partial(self._reward, loop))
            state = None if self.lost else self._state()
            if verdict is not None and not verdict.seconds:
                verdict = replace(verdict, seconds=time.perf_counter() - started)
            self.known = Outcome(environment=self.kind.__name__, verdict=verdict, state=state)
        return self.known

    def use_tool(self, name: str, call: Callable[[], Any]) -> Any:
        """The result of a tool that is a method of the environment, or its exception, which TRL tells the model."""
        self.check_tools()
        try:
            return self._on_its_thread(call)
        except HangsError:
            self.hangs_in = name
            raise

    def check_tools(self) -> None:
        """Raise a RuntimeError, for the model, if the environment cannot be used any more."""
        if self.lost is not None:
            raise RuntimeError("The environment could not be reset.")
        if self.hangs_in:
            raise RuntimeError(f"The environment hangs in {self.hangs_in}.")

    def is_inside(self) -> bool:
        """Whether the caller is itself within a call of the environment, as a method that uses another."""
        return self._is_inside if self._lane is None else self._lane.is_inside()

    def _on_its_thread(self, call: Callable[[], Any]) -> Any:
        if self._lane is not None:
            return self._lane.call(on_this_gpu(call), self._seconds)
        self._is_inside = True
        try:
            return call()
        finally:
            self._is_inside = False

    def _called(self, method: str, call: Callable[[], Any]) -> Any:
        """The result of a call of the user's; the grader's error where it fails."""
        where = f"{self.kind.__name__}.{method}"
        try:
            return self._on_its_thread(call)
        except HangsError as error:
            self.hangs_in = method
            return grader_error(f"{method}_hangs", error=f"{where} {error} (environment_timeout)")
        except FAILURES as error:
            _once.warn(logger, (where, type(error)), "%s failed; such rollouts are void.", where, error=error)
            return grader_error(f"{method}_{type(error).__name__}", error=f"{where} raised {error_text(error)}")

    def _reward(self, loop: asyncio.AbstractEventLoop | None) -> Verdict | None:
        given = self.kind.get_reward(self.environment)  # type: ignore[attr-defined]  # it has one
        if inspect.isawaitable(given):
            # Its connections belong to the loop that has run its tools.
            waiting = _awaited(given)
            given = asyncio.run(waiting) if loop is None else asyncio.run_coroutine_threadsafe(waiting, loop).result()
        return None if given is None else as_verdict(given)

    def _state(self) -> Any:
        """The property `state` as JSON holds it; None if there is none, or none that can be kept."""
        if self.hangs_in or callable(getattr(self.kind, "state", None)):  # a method is a tool
            return None
        where = f"{self.kind.__name__}.state"
        try:
            text = self._on_its_thread(lambda: json.dumps(plain(getattr(self.environment, "state", None))))
        except FAILURES as error:
            if isinstance(error, HangsError):
                self.hangs_in = "state"
            _once.warn(logger, where, "%s failed; such outcomes have no state.", where, error=error)
            return None
        if len(text) > MOST_STATE:
            message = "%s has %d characters as JSON, and at most %d are kept; such outcomes have no state."
            _once.warn(logger, (where, "size"), message, where, len(text), MOST_STATE)
            return None
        return json.loads(text)


async def _awaited(given: Any) -> Any:
    return await given


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


def guard_of(environment: Any) -> EnvironmentGuard | None:
    """The guard of an environment; None for a copy of one, and for what is none."""
    guard = getattr(environment, _GUARD, None)
    return guard if isinstance(guard, EnvironmentGuard) and guard.environment is environment else None


@cache
def guarded_class(kind: type) -> type:
    """The subclass of an environment's class whose `reset` and `get_reward` ask the guard."""
    members: dict[str, Any] = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    if hasattr(kind, "reset"):

        @wraps(kind.reset)
        def reset(self: Any, **row: Any) -> Any:
            guard = guard_of(self)
            call = partial(kind.reset, self, **row)
            return call() if guard is None or guard.is_inside() else guard.reset(call)

        members["reset"] = reset
    if TRL_ASKS_ENVIRONMENTS and hasattr(kind, "get_reward"):
        members["get_reward"] = _guarded_reward(kind.get_reward)
    return type(kind)(kind.__name__, (kind,), members)


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
