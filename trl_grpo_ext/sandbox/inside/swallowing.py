"""How the tests leave a context manager of the program, and which exceptions it, or the test, may swallow."""

from __future__ import annotations

import ast
import builtins
import os
import sys
from types import FrameType
from typing import Any

from trl_grpo_ext.sandbox.inside.compiled import innermost

_FOLDER = f"{os.path.dirname(__file__)}{os.sep}"
_BUILTINS = frozenset(dir(builtins))


def leave(self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
    """`__exit__` of a stand-in."""
    remote = self._remote_state.remote
    swallow = remote.request("special", self, "__exit__", *_told(error))
    return bool(swallow) and error is not None and _may_be_swallowed(error, remote)


async def leave_async(self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
    """`__aexit__` of a stand-in."""
    remote = self._remote_state.remote
    swallow = await remote.request("special", self, "__aexit__", *_told(error))
    return bool(swallow) and error is not None and _may_be_swallowed(error, remote)


def _told(error: BaseException | None) -> tuple[type[BaseException] | None, BaseException | None, None]:
    """What the program gets to see: what a failed assertion says may be what the tests expect."""
    told = AssertionError() if isinstance(error, AssertionError) else error
    return None if told is None else type(told), told, None


def _may_be_swallowed(error: BaseException, remote: Any) -> bool:
    """Whether an error compares nothing.

    The test has raised it on purpose, by a `raise` in the body, or in a body that reads no names. Or the program has
    raised it in a call that is the end of the body, of which no result is used: it could as well have returned. Were it
    any error, a program could swallow the failing assertion, or the TypeError of comparing its answer.
    """
    trace = error.__traceback__
    if isinstance(error, AssertionError) or trace is None:
        return False
    around = innermost(
        remote.sources.get(trace.tb_frame.f_code.co_filename, ""), trace.tb_lineno, ast.With, ast.AsyncWith
    )
    body = around.body if isinstance(around, ast.With | ast.AsyncWith) else []
    if body and _are_independent(body):
        return True
    if trace.tb_next is not None:
        asked = trace.tb_next.tb_frame.f_code.co_filename.startswith(_FOLDER)
        return asked and error is remote.last_error and bool(body) and _is_call_at(body[-1], trace.tb_lineno)
    # Not in a helper, nor under a condition: these may compare.
    return any(isinstance(node, ast.Raise) and _is_at(node, trace.tb_lineno) for node in body)


def expects_end(sources: dict[str, str]) -> bool:
    """Whether the test that runs now asks in a `try` or a `with` that names StopIteration.

    Anywhere else, `all(map(check, cases))` would take a StopIteration of the program for the end of the cases.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in sources:
        frame = frame.f_back
    if frame is None:
        return False
    around = innermost(sources[frame.f_code.co_filename], frame.f_lineno, ast.With, ast.Try)
    heads: list[ast.AST] = []
    if isinstance(around, ast.With):
        heads = [item.context_expr for item in around.items]
    elif isinstance(around, ast.Try):
        heads = [handler.type for handler in around.handlers if handler.type is not None]
    names = (node for head in heads for node in ast.walk(head) if isinstance(node, ast.Name))
    return any(name.id in ("StopIteration", "StopAsyncIteration") for name in names)


def _is_call_at(node: ast.stmt, line: int) -> bool:
    """Whether a statement is one call, and nothing is done with its result."""
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return isinstance(node, ast.Expr) and calls == [node.value] and _is_at(node, line)


def _is_at(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or line)


def _are_independent(body: list[ast.stmt]) -> bool:
    """Whether statements read nothing but constants, builtins and names that those before have set; none asserts."""
    known = set(_BUILTINS)
    for statement in body:
        nodes = list(ast.walk(statement))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        read = {name.id for name in names if not isinstance(name.ctx, ast.Store)}
        if not read <= known or any(isinstance(node, ast.Assert | ast.AugAssign) for node in nodes):
            return False
        known |= {name.id for name in names}
    return True
