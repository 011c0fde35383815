"""Give each tool call of a rollout a time limit, and time it; TRL shows exceptions of tools to the model.

TRL makes the calls of one rollout after those of another. If the class of an environment has `parallel_calls = True`,
all calls of a turn start when TRL asks for the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from trl_grpo_ext.rewards.tool_calls import UNKNOWN_TOOL
from trl_grpo_ext.sample import LEFT_OUT, Completion
from trl_grpo_ext.support.lane import HangsError, Lane
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.trainer.environments import guard_of
from trl_grpo_ext.trainer.ranks import on_this_gpu
from trl_grpo_ext.workers.pool import usable_cores

# The attribute of an environment's class that allows calls of several environments at once.
PARALLEL = "parallel_calls"

Tool = Callable[..., Any]
Arguments = Mapping[str, Any]
Message = Mapping[str, Any]
# What a recorded result has beside TRL's keys: `seconds` and, of a failed call, the `error`'s class and text.
Facts = dict[str, Any]
# Characters of an error.
MOST_ERROR = 160
# Recorded in place of a result that TRL has taken out of the conversation.
DOES_NOT_FIT = "[left out: does not fit in max_completion_length]"


@dataclass(frozen=True, slots=True)
class _Done:
    """A finished call: result or exception, and seconds."""

    result: Any
    error: BaseException | None
    seconds: float


@dataclass(frozen=True, slots=True)
class _Started:
    """A call that was started ahead."""

    name: str
    arguments: Arguments
    done: Future[_Done]


class _CallsAhead:
    """Parallel calls: when TRL makes the first call of a turn, the calls of all rollouts start.

    Args:
        tools: The tools of each rollout.
        make: Makes a call.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Tool]],
        make: Callable[[str, Tool, Arguments], _Done],
    ) -> None:
        self._tools = [_parallel(of_rollout) for of_rollout in tools]
        self._make = make
        # The messages of each rollout, to which TRL's loop appends turn by turn.
        self._messages: Sequence[Sequence[Message]] = ()
        self._started: list[list[_Started]] = [[] for _ in tools]
        # By rollout, the last message whose calls were started.
        self._asked: list[Message | None] = [None for _ in tools]
        self._threads: ThreadPoolExecutor | None = None

    @contextlib.contextmanager
    def during(self, messages: Sequence[Sequence[Message]]) -> Iterator[None]:
        """Start calls during the block, in which TRL's loop calls the tools and appends to `messages`."""
        self._messages = messages
        self._threads = ThreadPoolExecutor(usable_cores(), thread_name_prefix="tools")
        try:
            yield
        finally:
            self._messages = ()
            self._threads.shutdown(wait=False, cancel_futures=True)

    def take(self, place: int, name: str, arguments: Arguments) -> _Done | None:
        """Wait for a call of rollout number `place`; return None if it was not started."""
        if name in self._tools[place] and not self._started[place]:
            self._start_turn()
        for started in self._started[place]:
            if (started.name, started.arguments) == (name, arguments):
                self._started[place].remove(started)
                return started.done.result()
        return None

    def _start_turn(self) -> None:
        """Start this turn's calls of all rollouts, with a thread per core of this rank."""
        for place, messages in enumerate(self._messages):
            if not messages:
                continue
            asks = messages[-1]
            # TRL takes back results that are too long: then a message of an earlier turn is the last again.
            if asks is not self._asked[place]:
                self._asked[place] = asks
                self._start(place, asks)

    def _start(self, place: int, asks: Message) -> None:
        tools = self._tools[place]
        calls = [call for call in _calls(asks) if call.name in tools]
        if calls and self._threads is not None:
            self._started[place] = calls
            # A copy, since `take` removes calls from the list.
            self._threads.submit(self._make_in_turn, tools, list(calls))

    def _make_in_turn(self, tools: Mapping[str, Tool], calls: Sequence[_Started]) -> None:
        for call in calls:
            done = self._make(call.name, tools[call.name], call.arguments)
            call.done.set_result(done)


class ToolWatch:
    """A watch that replaces the tools that TRL calls by timed versions with a time limit.

    Sync tools that belong to no environment share a thread.

    Args:
        seconds: The time limit of a call; None is no limit, and calls run on TRL's own thread.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._lane = Lane()
        # By rollout and tool, the facts of each call, in the order in which the calls ended.
        self._facts: list[dict[str, list[Facts]]] = []
        # TRL makes no calls after so many turns.
        self._most_turns = 0
        self._ahead = _CallsAhead((), self._made)

    def watch(self, trainer: Any) -> None:
        """Watch the tools of the batch that TRL generates next; TRL keeps a dict of tools per rollout."""
        sync_tools = trainer._sync_tool_dicts
        self._facts = [defaultdict(list) for _ in sync_tools]
        self._most_turns = trainer.max_tool_calling_iterations
        originals = []
        # Without a time limit, calls are made on TRL's own thread.
        if self._seconds is not None:
            originals = [_originals(of_rollout) for of_rollout in sync_tools]
        self._ahead = _CallsAhead(originals, self._made)
        for place, of_rollout in enumerate(sync_tools):
            facts = self._facts[place]
            for name, tool in _originals(of_rollout).items():
                of_rollout[name] = partial(
                    self._call_of,
                    place,
                    facts[name],
                    name,
                    tool,
                )
        for place, of_rollout in enumerate(trainer._async_tool_dicts):
            facts = self._facts[place]
            for name, tool in _originals(of_rollout).items():
                of_rollout[name] = partial(self._await, facts[name], name, tool)

    def ahead(
        self, messages: Sequence[Sequence[Message]]
    ) -> contextlib.AbstractContextManager[None]:
        """Start calls ahead during the block, in which TRL's loop calls the tools.

        Args:
            messages: The messages of each rollout, to which the loop appends turn by turn.
        """
        if self._seconds is None:
            return contextlib.nullcontext()
        return self._ahead.during(messages)

    def watched(self, tools: Mapping[str, Any]) -> dict[str, Any]:
        """Return watched versions of a single rollout's tools."""
        facts: dict[str, list[Facts]] = defaultdict(list)
        self._facts = [facts]
        watched = {}
        for name, tool in tools.items():
            call = self._await if inspect.iscoroutinefunction(tool) else self._call
            watched[name] = partial(call, facts[name], name, tool)
        return watched

    def with_facts(self, place: int, completion: Completion) -> Completion:
        """Return the messages of rollout number `place`, with seconds on each tool result, and a failed call's error.

        Per tool, the n-th result gets the facts of the n-th call to end. Results that TRL took back, since they are too
        long, are added as `left_out`.
        """
        if isinstance(completion, str) or place >= len(self._facts):
            return completion
        left = {name: deque(facts) for name, facts in self._facts[place].items()}
        messages = []
        for message in completion:
            name = message.get("name", "")
            timed = message
            if message["role"] == "tool" and left.get(name):
                timed = {**message, **left[name].popleft()}
            messages.append(timed)
        turns = sum(bool(message.get("tool_calls")) for message in completion)
        # The calls of a turn that TRL no longer answers are not made.
        if 0 < turns <= self._most_turns:
            messages += [
                _left_out(str(asked.get("name")), left) for asked in _asked(completion[-1])
            ]
        return messages

    def _call_of(
        self,
        place: int,
        facts: list[Facts],
        name: str,
        tool: Tool,
        /,
        **arguments: Any,
    ) -> Any:
        """Return the result of a call of rollout number `place`, started ahead or made now."""
        done = None
        if self._seconds is not None:
            done = self._ahead.take(place, name, arguments)
        if done is None:
            done = self._made(name, tool, arguments)
        return _result(done, facts)

    def _call(self, facts: list[Facts], name: str, tool: Tool, /, **arguments: Any) -> Any:
        return _result(self._made(name, tool, arguments), facts)

    def _made(self, name: str, tool: Tool, arguments: Arguments) -> _Done:
        """Make a call."""
        result: Any = None
        error: BaseException | None = None
        began = time.perf_counter()
        try:
            result = self._within_limit(name, tool, arguments)
        except HangsError as hangs:
            error = RuntimeError(f"{name} {hangs}.")
        except Exception as failed:
            error = failed
        except (SystemExit, asyncio.CancelledError) as ended:
            # TRL does not catch these.
            error = RuntimeError(f"{type(ended).__name__}: {ended}")
        seconds = time.perf_counter() - began
        return _Done(result=result, error=error, seconds=seconds)

    def _within_limit(self, name: str, tool: Tool, arguments: Arguments) -> Any:
        call = partial(tool, **arguments)
        guard = guard_of(getattr(tool, "__self__", None))
        if guard is not None:
            return guard.use_tool(name, call)
        if self._seconds is None:
            return call()
        return self._lane.call(on_this_gpu(call), self._seconds)

    async def _await(
        self,
        facts: list[Facts],
        name: str,
        tool: Callable[..., Awaitable[Any]],
        /,
        **given: Any,
    ) -> Any:
        guard = guard_of(getattr(tool, "__self__", None))
        began = time.perf_counter()
        failed: BaseException | None = None
        try:
            if guard is not None:
                guard.check_tools()
            return await asyncio.wait_for(tool(**given), self._seconds)
        except TimeoutError as error:
            failed = error
            raise RuntimeError(
                str(error) or f"{name} took more than {self._seconds:g} s."
            ) from None
        except SystemExit as error:
            failed = error
            raise RuntimeError(f"SystemExit: {error}") from error
        except Exception as error:
            failed = error
            raise
        finally:
            facts.append(_facts(time.perf_counter() - began, failed))


def _facts(seconds: float, error: BaseException | None) -> Facts:
    facts: Facts = {"seconds": round(seconds, 6)}
    if error is not None:
        facts["error"] = on_one_line(f"{type(error).__name__}: {error}", MOST_ERROR)
    return facts


def _result(done: _Done, facts: list[Facts]) -> Any:
    facts.append(_facts(done.seconds, done.error))
    if done.error is not None:
        raise done.error
    return done.result


def _left_out(name: str, left: Mapping[str, deque[Facts]]) -> dict[str, Any]:
    """Return the message of a result that TRL took back, by the tools' facts that belong to no other message."""
    facts: Facts = {}
    if name not in left:
        facts = {"error": UNKNOWN_TOOL.format(name)}
    elif left[name]:
        facts = left[name].popleft()
    content = DOES_NOT_FIT
    if "error" in facts:
        content = str({"error": facts["error"]})
    return {"role": "tool", "name": name, "content": content, LEFT_OUT: True, **facts}


def _calls(message: Message) -> Iterator[_Started]:
    """Yield the calls that a message asks for; a malformed call is left to TRL."""
    for asked in _asked(message):
        arguments = asked.get("arguments")
        if isinstance(arguments, Mapping):
            yield _Started(name=str(asked.get("name")), arguments=arguments, done=Future())


def _asked(message: Message) -> Iterator[Mapping[str, Any]]:
    """Yield name and arguments of each call that a message asks for."""
    for call in message.get("tool_calls") or ():
        asked = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(asked, Mapping):
            yield asked


def _parallel(tools: Mapping[str, Tool]) -> dict[str, Tool]:
    return {name: tool for name, tool in tools.items() if _is_parallel(tool)}


def _is_parallel(tool: Tool) -> bool:
    environment = getattr(tool, "__self__", None)
    return guard_of(environment) is not None and getattr(environment, PARALLEL, False)


def _originals(tools: Mapping[str, Tool]) -> dict[str, Tool]:
    return {name: _original(tool) for name, tool in tools.items()}


def _original(tool: Any) -> Any:
    """Return the user's tool behind a watched tool: TRL 1.6 reuses the tool dicts of earlier batches."""
    is_watched = isinstance(tool, partial) and isinstance(
        getattr(tool.func, "__self__", None), ToolWatch
    )
    if not is_watched:
        return tool
    return tool.args[-1]
