"""Environments whose failures are data: `reset` and `get_reward` may raise or hang, and only that rollout is lost.

TRL calls both on the main thread, and their exceptions end the run. The guard of an environment notes them instead.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from trl import GRPOTrainer

from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.support.lane import HangsError, Lane
from trl_grpo_ext.support.text import Once, error_text
from trl_grpo_ext.trainer.ranks import on_this_gpu
from trl_grpo_ext.verdict import Verdict, as_verdict, grader_error

logger = logging.getLogger(__name__)

MOST_STATE = 65_536  # characters of a state as JSON, so that a batch of them fits in memory and in the record; ours
# What a call of the user's may raise. A KeyboardInterrupt ends the run.
FAILURES = (Exception, SystemExit, asyncio.CancelledError)
# TRL 1.6 takes `get_reward` for one more tool of the model.
TRL_ASKS_ENVIRONMENTS = "get_reward" in inspect.getsource(GRPOTrainer.__init__)
GUARD = "_trl_grpo_ext_guard"
_once = Once()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The outcome of a rollout, and how it was asked."""

    outcome: Outcome
    is_lost: bool  # whether `reset` has failed: there was no rollout
    has_reward: bool  # whether the environment has a `get_reward`

    def failure(self, *, has_term: bool) -> str:
        """Why the rollout has failed; empty if it has not. A term says itself what a reward of None is worth."""
        name, verdict = self.outcome.environment, self.outcome.verdict
        if verdict is not None and verdict.score is None:
            return self.outcome.error or f"{name}.get_reward: {verdict.reason}"
        return f"{name}.get_reward gave None" if verdict is None and self.has_reward and not has_term else ""

    def is_void(self, *, has_term: bool) -> bool:
        """Whether its row is void, whatever the mix says of it; a term says itself that its reward is missing."""
        return self.is_lost or (not has_term and bool(self.failure(has_term=False)))


class EnvironmentGuard:
    """What has become of the rollout that one environment is in.

    Attributes:
        environment: The environment.
        kind: The user's class.
        has_reward: Whether it has a `get_reward`.
        lost: The verdict on a `reset` that failed: there is no rollout then.
        known: The outcome, once it was asked.
        loop: As of the factory.
        hangs_in: The method that hangs. Such an environment is not used again, since its thread cannot be ended.
    """

    def __init__(self, environment: Any, kind: type, lane: Lane | None, seconds: float | None) -> None:
        self.environment = environment
        self.kind = kind
        self.has_reward = TRL_ASKS_ENVIRONMENTS and hasattr(kind, "get_reward")
        self.lost: Verdict | None = None
        self.hangs_in = ""
        self.loop: asyncio.AbstractEventLoop | None = None
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

    def asked(self, loop: asyncio.AbstractEventLoop | None = None) -> Asked:
        """The outcome of the rollout, asked once, and how it was asked."""
        return Asked(outcome=self.outcome(loop), is_lost=self.lost is not None, has_reward=self.has_reward)

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


def guard_of(environment: Any) -> EnvironmentGuard | None:
    """The guard of an environment; None for a copy of one, and for what is none."""
    guard = getattr(environment, GUARD, None)
    return guard if isinstance(guard, EnvironmentGuard) and guard.environment is environment else None
