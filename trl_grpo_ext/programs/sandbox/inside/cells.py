"""Run the cells of a session: code in pieces, in one process whose names stay from cell to cell.

No verdict is made of a cell. So nothing here is guarded against the cells themselves: code that writes to the trainer's
channel, or replaces a function, forges its own output and no other.
"""

from __future__ import annotations

import os
import sys
from _ast import Expr, Expression, Module, PyCF_ONLY_AST
from contextlib import suppress
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.program import (
    FILENAME,
    describe,
    new_module,
    open_streams,
)
from trl_grpo_ext.workers.frames import Channel


def serve(control: int, output: int) -> None:
    """Run cells until the trainer is gone.

    Args:
        control: Channel to the trainer, which sends the cells and is told the end of each.
        output: Pipe to the trainer, for everything printed.
    """
    trainer = Channel(control)
    trainer.send({"ready": True})
    names = new_module("__main__").__dict__
    own = os.getpid()
    with suppress(EOFError):
        while os.getpid() == own:
            cell = trainer.receive()
            _run(cell["code"], names, output)
            # A process that the cell has forked comes here too, and ends.
            if os.getpid() == own:
                trainer.send({"done": cell["number"]})


def _run(code: str, names: dict[str, Any], output: int) -> None:
    """Run a cell, then print its error or the value of its last expression."""
    # Again for each cell, since the last may have closed or replaced a stream.
    for number in (1, 2):
        os.dup2(output, number)
    open_streams()
    # What is printed before a limit ends the process is shown, in order.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    told = ""
    try:
        value = _value(code, names)
        told = "" if value is None else repr(value)
    except BaseException as error:
        told = describe(error)
    # The cell may have closed the stream, or replaced it by any object.
    with suppress(BaseException):
        sys.stdout.flush()
    if told:
        # Written past `sys.stdout`, which the cell may have redirected.
        with open(output, "wb", closefd=False) as pipe:
            pipe.write(f"{told}\n".encode("utf-8", "backslashreplace"))


def _value(code: str, names: dict[str, Any]) -> Any:
    """Run a cell; return its last expression's value, None without a last expression."""
    tree = compile(code, FILENAME, "exec", PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, Module)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, Expr):
        exec(compile(tree, FILENAME, "exec", dont_inherit=True), names)
        return None
    del tree.body[-1]
    exec(compile(tree, FILENAME, "exec", dont_inherit=True), names)
    return eval(compile(Expression(last.value), FILENAME, "eval", dont_inherit=True), names)  # noqa: S307 - in a jail
