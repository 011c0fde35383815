"""The child that runs the model's program: as a module whose functions are called, or as a whole program.

It holds no test and no expected value, so there is nothing here to find.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

from trl_grpo_ext.sandbox.inside.answers import PRINTED, Answers
from trl_grpo_ext.sandbox.inside.frames import Channel
from trl_grpo_ext.sandbox.inside.program import Capture, CompileError, compile_program, describe, new_module

EXIT_ERROR = 1
"""An exception ended the program."""
EXIT_COMPILE_ERROR = 101
"""It is not Python."""
EXIT_MEMORY = 102
"""It ran out of memory."""

_exit = os._exit
_printed = Capture(PRINTED)  # made before the fork, which costs each child less


def serve(control: int, rpc: int) -> None:
    """Load the program that comes by `control`, then answer the judge's calls until it closes `rpc`.

    Args:
        control: To the trainer, which is told that the program is about to run.
        rpc: To the judge, which is told first whether the program was loaded.
    """
    trainer, judge = Channel(control), Channel(rpc)
    trainer.send({"ready": True})
    source = trainer.receive()["program"]
    sys.stdout = _printed
    module = new_module("solution")
    failed = load(source, module.__dict__)
    if failed is not None:
        judge.send({"failed": failed})
        return
    answers = Answers(judge, module, _printed)
    with suppress(ValueError):  # the program has closed it
        _printed.take()
    judge.send({"loaded": True})
    answers.serve()


def load(source: str, namespace: dict[str, Any]) -> dict[str, str] | None:
    """Run the program in `namespace`; how it ended if it did not reach its last line."""
    try:
        exec(compile_program(source), namespace)
    except CompileError as error:
        return {"ending": "compile_error", "detail": str(error)}
    except MemoryError as error:
        return {"ending": "memory", "detail": describe(error)}
    except BaseException as error:
        return {"ending": "error", "detail": describe(error)}
    return None


def run_program(control: int) -> NoReturn:
    """Run the program that comes by `control` as `__main__`, on the standard streams; ends the process as it ends.

    The status that it ends with only hints at why: what was printed is compared elsewhere.
    """
    trainer = Channel(control)
    trainer.send({"ready": True})
    source = trainer.receive()["program"]
    os.close(control)
    _open_streams()
    status = _run_main(source)
    status = max(status, _finish())
    _exit(status & 0xFF)


def _open_streams() -> None:
    """New standard streams on descriptors 0, 1 and 2, as Python opens them for a UTF-8 locale."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = open(  # noqa: SIM115 - for as long as the process lives
            number,
            "w" if number else "r",
            buffering=1 if name == "stderr" else -1,
            encoding="utf-8",
            errors="backslashreplace" if name == "stderr" else "surrogateescape",
            closefd=False,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run_main(source: str) -> int:
    module = new_module("__main__")
    try:
        exec(compile_program(source), module.__dict__)
    except CompileError as error:
        print(error, file=sys.stderr)
        return EXIT_COMPILE_ERROR
    except SystemExit as error:
        return _exit_status(error.code)
    except BaseException as error:
        trace = error.__traceback__
        sys.excepthook(type(error), error, trace.tb_next if trace is not None else None)
        return EXIT_MEMORY if isinstance(error, MemoryError) else EXIT_ERROR
    return 0


def _exit_status(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return EXIT_ERROR


def _finish() -> int:
    """What Python does at the end of a program: wait for its threads, run what is registered, flush."""
    status = 0
    # Imported only if the program has: its work after a fork would cost every child.
    threads = getattr(sys.modules.get("threading"), "_shutdown", None)
    steps = (atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush)
    for step in (threads, *steps) if threads else steps:
        try:
            step()
        except BaseException:
            status = EXIT_ERROR
    return status
