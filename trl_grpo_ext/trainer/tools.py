"""Give each tool call of a rollout a time limit, and time it; TRL shows exceptions of tools to the model."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

from trl_grpo_ext.sample import Completion
from trl_grpo_ext.support.lane import HangsError, Lane
from trl_grpo_ext.trainer.environments import guard_of
from trl_grpo_ext.trainer.ranks import on_this_gpu

NO_CALLS: Iterator[float] = iter(())


class ToolWatch:
    """A watch that replaces the tools that TRL calls by timed versions with a time limit.

    Sync tools that belong to no environment share a thread.

    Args:
        seconds: The time limit of a call; None is no limit, and calls run on TRL's own thread.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._lane = Lane()
        # By rollout and tool, the seconds of each call, in the order in which the calls ended.
        self._took: list[dict[str, list[float]]] = []

    def watch(self, trainer: Any) -> None:
        """Watch the tools of the batch that TRL generates next; TRL keeps a dict of tools per rollout."""
        self._took = [defaultdict(list) for _ in trainer._sync_tool_dicts]
        for call, dicts in ((self._call, trainer._sync_tool_dicts), (self._await, trainer._async_tool_dicts)):
            for took, tools in zip(self._took, dicts, strict=True):
                for name, tool in tools.items():
                    tools[name] = partial(call, took[name], name, _original(tool))

    def watched(self, tools: Mapping[str, Any]) -> dict[str, Any]:
        """Return watched versions of a single rollout's tools."""
        took: dict[str, list[float]] = defaultdict(list)
        self._took = [took]
        calls = {name: self._await if inspect.iscoroutinefunction(tool) else self._call for name, tool in tools.items()}
        return {name: partial(calls[name], took[name], name, tool) for name, tool in tools.items()}

    def with_seconds(self, place: int, completion: Completion) -> Completion:
        """Return the messages of rollout number `place`, with seconds on each tool result.

        Per tool, the n-th result gets the seconds of the n-th call to end.
        """
        if isinstance(completion, str) or place >= len(self._took):
            return completion
        left = {name: iter(seconds) for name, seconds in self._took[place].items()}
        messages = []
        for message in completion:
            seconds = next(left.get(message.get("name", ""), NO_CALLS), None) if message["role"] == "tool" else None
            messages.append(message if seconds is None else {**message, "seconds": round(seconds, 6)})
        return messages

    def _call(self, took: list[float], name: str, tool: Callable[..., Any], /, **arguments: Any) -> Any:
        call = partial(tool, **arguments)
        guard = guard_of(getattr(tool, "__self__", None))
        began = time.perf_counter()
        try:
            if guard is not None:
                return guard.use_tool(name, call)
            return call() if self._seconds is None else self._lane.call(on_this_gpu(call), self._seconds)
        except HangsError as error:
            raise RuntimeError(f"{name} {error}.") from None
        except (SystemExit, asyncio.CancelledError) as error:
            # TRL does not catch these.
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        finally:
            took.append(time.perf_counter() - began)

    async def _await(self, took: list[float], name: str, tool: Callable[..., Awaitable[Any]], /, **given: Any) -> Any:
        guard = guard_of(getattr(tool, "__self__", None))
        began = time.perf_counter()
        try:
            if guard is not None:
                guard.check_tools()
            return await asyncio.wait_for(tool(**given), self._seconds)
        except TimeoutError as error:
            raise RuntimeError(str(error) or f"{name} took more than {self._seconds:g} s.") from None
        except SystemExit as error:
            raise RuntimeError(f"SystemExit: {error}") from error
        finally:
            took.append(time.perf_counter() - began)


def _original(tool: Any) -> Any:
    """Return the user's tool behind a watched tool: TRL 1.6 reuses the tool dicts of earlier batches."""
    is_watched = isinstance(tool, partial) and isinstance(getattr(tool.func, "__self__", None), ToolWatch)
    return tool.args[2] if is_watched else tool
