"""Leave the program's context managers, and decide which exceptions they may swallow.

It also tells where a test expects StopIteration.
"""

from __future__ import annotations

import ast
import builtins
import os
import sys
from types import FrameType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.compiled import innermost

_FOLDER = f"{os.path.dirname(__file__)}{os.sep}"
_BUILTINS = frozenset(dir(builtins))


def leave(
    self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: Any
) -> bool:
    """Run a stand-in's `__exit__`: ask the program, then decide whether an exception may be swallowed."""
    remote = self._remote_state.remote
    swallow = remote.request("special", self, "__exit__", *_told(error))
    return bool(swallow) and error is not None and _may_be_swallowed(error, remote)


async def leave_async(
    self: Any, kind: type[BaseException] | None, error: BaseException | None, trace: Any
) -> bool:
    """Run a stand-in's `__aexit__`: ask the program, then decide whether an exception may be swallowed."""
    remote = self._remote_state.remote
    swallow = await remote.request("special", self, "__aexit__", *_told(error))
    return bool(swallow) and error is not None and _may_be_swallowed(error, remote)


def _told(
    error: BaseException | None,
) -> tuple[type[BaseException] | None, BaseException | None, None]:
    """Return `__exit__` arguments that the program may see, without a traceback.

    A failed assertion crosses as an empty AssertionError, since its message may show expected values.
    """
    if error is None:
        return None, None, None
    told = AssertionError() if isinstance(error, AssertionError) else error
    return type(told), told, None


def _may_be_swallowed(error: BaseException, remote: Any) -> bool:
    """Return whether the program's context manager may swallow an error.

    Allowed are errors that no comparison raised: errors that the test raised on purpose, by a `raise` in the body or in
    a body that reads no outside names, and errors that the program raised in a call that ends the body and whose result
    is unused: it could as well have returned. Otherwise a program could swallow a failed assertion, or a TypeError from
    a comparison with its answer.
    """
    trace = error.__traceback__
    if isinstance(error, AssertionError) or trace is None:
        return False
    source = remote.sources.get(trace.tb_frame.f_code.co_filename, "")
    around = innermost(source, trace.tb_lineno, ast.With, ast.AsyncWith)
    if not isinstance(around, ast.With | ast.AsyncWith):
        return False
    body = around.body
    if _are_independent(body):
        return True
    if trace.tb_next is not None:
        # The frame below the test's is of this package if the test used a stand-in.
        is_asked = trace.tb_next.tb_frame.f_code.co_filename.startswith(_FOLDER)
        return (
            is_asked
            and error is remote.last_error
            and _is_call_at(body[-1], trace.tb_lineno)
        )
    # A `raise` in a helper or under a condition may depend on a comparison, so it does not count.
    return any(
        isinstance(node, ast.Raise) and _is_at(node, trace.tb_lineno) for node in body
    )


def expects_end(sources: dict[str, str]) -> bool:
    """Return whether the running test makes a request inside a `try` or `with` that names StopIteration.

    Anywhere else, `all(map(check, cases))` would mistake a StopIteration of the program for the end of the cases.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in sources:
        frame = frame.f_back
    if frame is None:
        return False
    around = innermost(sources[frame.f_code.co_filename], frame.f_lineno, ast.With, ast.Try)
    heads: list[ast.AST | None] = []
    if isinstance(around, ast.With):
        heads = [item.context_expr for item in around.items]
    elif isinstance(around, ast.Try):
        heads = [handler.type for handler in around.handlers]
    for head in heads:
        for node in ast.walk(head) if head is not None else ():
            if isinstance(node, ast.Name) and node.id in (
                "StopIteration",
                "StopAsyncIteration",
            ):
                return True
    return False


def _is_call_at(node: ast.stmt, line: int) -> bool:
    """Return whether a statement is a single call with an unused result, at a given line."""
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return isinstance(node, ast.Expr) and calls == [node.value] and _is_at(node, line)


def _is_at(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or line)


def _are_independent(body: list[ast.stmt]) -> bool:
    """Return whether statements read only constants, builtins and names set before, and contain no assertion."""
    known = set(_BUILTINS)
    for statement in body:
        named = set()
        for node in ast.walk(statement):
            # `n += 1` reads a name that its node only marks as stored.
            if isinstance(node, ast.Assert | ast.AugAssign):
                return False
            if isinstance(node, ast.Name):
                named.add(node.id)
                if not isinstance(node.ctx, ast.Store) and node.id not in known:
                    return False
        # Known from the next statement on: a statement may read a name before it binds it.
        known |= named
    return True
