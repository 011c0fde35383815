"""The tools of a rollout, each with a time limit: TRL tells the model the error of a tool that raises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from trl_grpo_ext.support.lane import HangsError, Lane
from trl_grpo_ext.trainer.environments import guard_of
from trl_grpo_ext.trainer.ranks import on_this_gpu


class ToolWatch:
    """Puts watched tools in the place of those that TRL calls. Tools of no environment have a thread together.

    Args:
        seconds: The time limit of a call. None is no limit, and calls are made on TRL's own thread.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._lane = Lane()

    def watch(self, trainer: Any) -> None:
        """Watch the tools of the batch that TRL is about to generate, which it keeps in a dict a rollout."""
        for tools in trainer._sync_tool_dicts:
            for name, tool in tools.items():
                tools[name] = partial(self._call, name, _original(tool))
        for tools in trainer._async_tool_dicts:
            for name, tool in tools.items():
                tools[name] = partial(self._await, name, _original(tool))

    def _call(self, name: str, tool: Callable[..., Any], /, **arguments: Any) -> Any:
        call = partial(tool, **arguments)
        guard = guard_of(getattr(tool, "__self__", None))
        try:
            if guard is not None:
                return guard.use_tool(name, call)
            return call() if self._seconds is None else self._lane.call(on_this_gpu(call), self._seconds)
        except HangsError as error:
            raise RuntimeError(f"{name} {error}.") from None
        except (SystemExit, asyncio.CancelledError) as error:  # which TRL does not catch
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    async def _await(self, name: str, tool: Callable[..., Awaitable[Any]], /, **arguments: Any) -> Any:
        guard = guard_of(getattr(tool, "__self__", None))
        if guard is not None:
            guard.check_tools()
        try:
            return await asyncio.wait_for(tool(**arguments), self._seconds)
        except TimeoutError as error:
            raise RuntimeError(str(error) or f"{name} took more than {self._seconds:g} s.") from None
        except SystemExit as error:
            raise RuntimeError(f"SystemExit: {error}") from error


def _original(tool: Any) -> Any:
    """The user's tool: TRL 1.6 keeps the dicts from batch to batch."""
    return (
        tool.args[1]
        if isinstance(tool, partial) and isinstance(getattr(tool.func, "__self__", None), ToolWatch)
        else tool
    )
