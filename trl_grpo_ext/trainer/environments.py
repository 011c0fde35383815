"""Guard environments: if `reset` or `get_reward` raises or hangs, only that rollout is lost, not the run.

TRL calls both on the main thread, and their exceptions would end the run. The guard of an environment records them as
verdicts instead.
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
from trl_grpo_ext.support.lane import HangsError, Lane, WaitsError
from trl_grpo_ext.support.text import Once, error_text
from trl_grpo_ext.trainer.loop_turn import REMEDY, LoopTurn
from trl_grpo_ext.trainer.ranks import on_this_gpu
from trl_grpo_ext.verdict import Blame, Verdict, as_verdict, grader_error

logger = logging.getLogger(__name__)

# The maximum length of a state as JSON, in characters, so that a batch of states fits in memory; our choice.
MOST_STATE = 65_536
# The exceptions of user code that void a rollout. A KeyboardInterrupt ends the run.
FAILURES = (Exception, SystemExit, asyncio.CancelledError)
# False for TRL 1.6, which offers `get_reward` to the model as a tool.
TRL_ASKS_ENVIRONMENTS = "get_reward" in inspect.getsource(GRPOTrainer.__init__)
GUARD = "_trl_grpo_ext_guard"
# A method of an environment that ends what a rollout has started. TRL would offer a public method to the model.
END = "_end_rollout"
# A method of an environment that finds dataset rows that it could not judge, like a verifier's `check_rows`.
CHECK_ROWS = "_check_rows"
# The end of the reason of a call that waited too long for others: its own row is not to blame.
WAITS = "_waits"
_once = Once()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A rollout's outcome, with facts that decide whether its row is void."""

    outcome: Outcome
    # True if `reset` has failed, so that there was no rollout.
    is_lost: bool
    # True if the environment has a `get_reward`.
    has_reward: bool

    def failure(self, *, has_term: bool) -> str:
        """Return the reason why the rollout has failed; empty if it succeeded.

        A reward of None is a failure unless a term judges outcomes (`has_term`): such a term decides itself. A row
        that cannot be judged is the data's fault, not a failure of the environment.
        """
        method = f"{self.outcome.environment}.get_reward"
        verdict = self.outcome.verdict
        if verdict is None:
            needs_reward = self.has_reward and not has_term
            return f"{method} gave None" if needs_reward else ""
        if verdict.score is None and not self.blames_data:
            return self.outcome.error or f"{method}: {verdict.reason}"
        return ""

    @property
    def blames_data(self) -> bool:
        """Whether the environment's verdict blames the data: the row cannot be judged."""
        verdict = self.outcome.verdict
        return verdict is not None and verdict.blame is Blame.DATA

    @property
    def waited(self) -> bool:
        """Whether the environment's call waited too long for another rollout's."""
        verdict = self.outcome.verdict
        return verdict is not None and verdict.reason.endswith(WAITS)

    def is_void(self, *, has_term: bool) -> bool:
        """Return whether the row is void, regardless of the mix's verdicts.

        With `has_term`, a term judges outcomes, and only a failed `reset` voids the row.
        """
        if self.is_lost:
            return True
        if has_term:
            return False
        return self.blames_data or bool(self.failure(has_term=False))


class EnvironmentGuard:
    """A guard of one environment: it runs user methods under a time limit and records failures.

    Attributes:
        environment: The environment.
        kind: The user's class.
        has_reward: Whether the class has a `get_reward` that TRL uses as a reward.
        lost: The verdict of a failed `reset`, which leaves no rollout; None otherwise.
        known: The outcome, after it was read once.
        loop: The event loop of the factory (see `GuardedFactory`).
        hangs_in: The method that hangs, else empty. A hanging environment is not used again, since its thread cannot
            be killed.
    """

    def __init__(
        self,
        environment: Any,
        kind: type,
        lane: Lane | None,
        seconds: float | None,
    ) -> None:
        self.environment = environment
        self.kind = kind
        self.has_reward = TRL_ASKS_ENVIRONMENTS and hasattr(kind, "get_reward")
        self.lost: Verdict | None = None
        self.hangs_in = ""
        self.loop: asyncio.AbstractEventLoop | None = None
        self._lane = lane
        self._seconds = seconds
        self._is_inside = False
        self._turn: LoopTurn | None = None
        self.known: Outcome | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the environment has no guard.
        return type(None), ()

    def reset(self, call: Callable[[], Any]) -> Any:
        """Run the user's `reset`; return its observation, or None if it fails."""
        self.known = None
        self.lost = None
        if self.hangs_in:
            self.lost = grader_error(
                "reset_hangs", error=f"{self.kind.__name__} hangs in {self.hangs_in}"
            )
            return None
        observation = self._called("reset", call)
        if isinstance(observation, Verdict):
            self.lost = observation
            return None
        if observation is not None and not isinstance(observation, str | list):
            said = f"{self.kind.__name__}.reset returned {observation!r:.100}; TRL takes a text, a list or None"
            self.lost = grader_error(
                f"reset_returned_{type(observation).__name__}", error=said
            )
            return None
        return observation

    def asked(self, loop: asyncio.AbstractEventLoop | None = None) -> Asked:
        """Return the rollout's outcome, and facts about its failures."""
        return Asked(
            outcome=self.outcome(loop),
            is_lost=self.lost is not None,
            has_reward=self.has_reward,
        )

    def outcome(self, loop: asyncio.AbstractEventLoop | None = None) -> Outcome:
        """Return the rollout's outcome, read from the environment once. TRL's own loop runs async methods."""
        if self.known is None:
            self.known = self._read(loop)
        return self.known

    def _read(self, loop: asyncio.AbstractEventLoop | None) -> Outcome:
        """Ask the environment for reward and state, and end its rollout."""
        started = time.perf_counter()
        verdict = self.lost
        state = None
        if self.lost is None:
            if self.has_reward:
                verdict = self._called("get_reward", partial(self._reward, loop))
            state = self._state()
        self._end()
        if verdict is not None and not verdict.seconds:
            verdict = replace(verdict, seconds=time.perf_counter() - started)
        return Outcome(environment=self.kind.__name__, verdict=verdict, state=state)

    def use_tool(self, name: str, call: Callable[[], Any]) -> Any:
        """Run an environment's method as a tool; TRL shows exceptions to the model."""
        self.check_tools()
        try:
            return self._on_its_thread(call)
        except HangsError:
            self.hangs_in = name
            raise

    def check_tools(self) -> None:
        """Raise a RuntimeError if the environment is lost or hangs; TRL shows it to the model."""
        if self.lost is not None:
            raise RuntimeError("The environment could not be reset.")
        if self.hangs_in:
            raise RuntimeError(f"The environment hangs in {self.hangs_in}.")

    def is_inside(self) -> bool:
        """Return whether the caller already runs inside this environment, as a method calling another method does."""
        if self._lane is not None:
            return self._lane.is_inside()
        return self._is_inside

    def _on_its_thread(self, call: Callable[[], Any]) -> Any:
        if self._lane is not None:
            return self._lane.call(on_this_gpu(call), self._seconds, self._waits_for)
        self._is_inside = True
        try:
            return call()
        finally:
            self._is_inside = False

    def _called(self, method: str, call: Callable[[], Any]) -> Any:
        """Run a method of the user's; return its result, or a grader error if it fails."""
        where = f"{self.kind.__name__}.{method}"
        try:
            return self._on_its_thread(call)
        except WaitsError as error:
            self.hangs_in = method
            told = f"{where} {error} while another async call held the event loop: {REMEDY}"
            return grader_error(f"{method}{WAITS}", error=told)
        except HangsError as error:
            self.hangs_in = method
            told = f"{where} {error} (environment_timeout)"
            if self._turn is not None and self._turn.is_its_own():
                told += f" and holds the event loop: {REMEDY}"
            return grader_error(f"{method}_hangs", error=told)
        except FAILURES as error:
            _once.warn(
                logger,
                (where, type(error)),
                "%s failed; such rollouts are void.",
                where,
                error=error,
            )
            return grader_error(
                f"{method}_{type(error).__name__}",
                error=f"{where} raised {error_text(error)}",
            )

    def _reward(self, loop: asyncio.AbstractEventLoop | None) -> Verdict | None:
        given = self.kind.get_reward(self.environment)  # type: ignore[attr-defined]  # `has_reward` says so
        if inspect.isawaitable(given):
            # The environment's connections belong to the loop that has run its tools.
            given = self._awaited(given, loop)
        if given is None:
            return None
        verdict = as_verdict(given)
        is_explained = isinstance(given, Verdict) and bool(given.details)
        if verdict.blame is Blame.GRADER and not is_explained:
            takes = "it may return a bool, a finite number, a Verdict, or None"
            where = f"{self.kind.__name__}.get_reward"
            return grader_error(
                verdict.reason, error=f"{where} returned {given!r:.100}; {takes}"
            )
        return verdict

    def _awaited(self, given: Any, loop: asyncio.AbstractEventLoop | None) -> Any:
        async def awaited() -> Any:
            return await given

        if loop is None:
            return asyncio.run(awaited())
        self._turn = LoopTurn(loop)
        try:
            return self._turn.result(given)
        finally:
            self._turn = None

    def _waits_for(self) -> object:
        """Return the call of another environment that this environment's call waits for; None if there is none."""
        turn = self._turn
        return None if turn is None else turn.other()

    def _state(self) -> Any:
        """Return the property `state` as plain JSON values; None if it does not exist, fails or is too long."""
        # A method `state` is a tool, not the state.
        if self.hangs_in or callable(getattr(self.kind, "state", None)):
            return None
        where = f"{self.kind.__name__}.state"

        def encoded() -> str:
            return json.dumps(plain(getattr(self.environment, "state", None)))

        try:
            text = self._on_its_thread(encoded)
        except FAILURES as error:
            if isinstance(error, HangsError):
                self.hangs_in = "state"
            _once.warn(
                logger, where, "%s failed; such outcomes have no state.", where, error=error
            )
            return None
        if len(text) > MOST_STATE:
            message = "%s has %d characters as JSON, and at most %d are kept; such outcomes have no state."
            _once.warn(logger, (where, "size"), message, where, len(text), MOST_STATE)
            return None
        return json.loads(text)

    def _end(self) -> None:
        """Call the environment's method for the end of a rollout, to close processes or browsers of the rollout."""
        end = getattr(self.environment, END, None)
        if end is None or self.hangs_in:
            return
        where = f"{self.kind.__name__}.{END}"
        try:
            self._on_its_thread(end)
        except FAILURES as error:
            if isinstance(error, HangsError):
                self.hangs_in = END
            _once.warn(logger, where, "%s failed.", where, error=error)


def guard_of(environment: Any) -> EnvironmentGuard | None:
    """Return an environment's guard; None for a copy of an environment, or an unguarded object."""
    guard = getattr(environment, GUARD, None)
    if not isinstance(guard, EnvironmentGuard):
        return None
    # A copy has the guard of its original.
    if guard.environment is not environment:
        return None
    return guard
