"""The model's program in the child that runs it: compiled, and run as a module or as a whole program.

The child holds no test and no expected value, so there is nothing here to find.
"""

from __future__ import annotations

import _thread
import atexit
import builtins
import io
import os
import resource
import sys
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any, NoReturn

from trl_grpo_ext.workers.frames import Channel

FILENAME = "solution.py"
EXIT_ERROR, EXIT_COMPILE_ERROR, EXIT_MEMORY = 1, 101, 102
"""The statuses of a program that an exception ended, that is not Python, and that ran out of memory."""

_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_MAX_DETAIL = 300
_PARTS_OF_MEMORY = 4  # that a thread's stack may be one of
_exit = os._exit  # the program may replace it


class CompileError(Exception):
    """The program is not Python."""


def compile_program(source: str) -> CodeType:
    """The code of a program; raises CompileError if it is not Python, whatever the compiler makes of it."""
    try:
        return compile(source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CompileError(f"{type(error).__name__}: {error.msg} (line {error.lineno})") from None
    except Exception as error:  # null bytes, surrogates, nesting too deep for the compiler
        raise CompileError(describe(error)) from None


def _leave(code: object = None) -> None:
    """What `exit` and `quit` do in a plain Python."""
    raise SystemExit(code)


def new_module(name: str) -> ModuleType:
    """An empty module in `sys.modules`, where dataclasses and pickle look for it."""
    module = ModuleType(name)
    builtins.exit = builtins.quit = _leave  # type: ignore[assignment]  # those of `site`, which is not loaded
    module.__dict__["__builtins__"] = builtins
    sys.set_int_max_str_digits(0)  # the time that it takes is limited anyway
    module.__file__ = FILENAME
    sys.modules[name] = module
    sys.argv = [FILENAME]
    return module


def cap_thread_stacks() -> None:
    """Have threads with larger stacks than there is memory start all the same.

    Programs ask for half a gigabyte to recurse deeply, which has not used the stack since Python 3.11.
    """
    set_size = _thread.stack_size

    def capped(size: int = 0) -> int:
        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        return set_size(size if most == resource.RLIM_INFINITY else min(size, most // _PARTS_OF_MEMORY))

    for name in ("_thread", "threading"):  # Python 3.13 has imported the second before a program does
        if name in sys.modules:
            sys.modules[name].stack_size = capped  # type: ignore[attr-defined]


def describe(error: BaseException) -> str:
    """The type of an exception, its message, and the line of the program that raised it."""
    try:
        message = str(error)[:_MAX_DETAIL]
    except Exception:
        message = ""
    lines = [number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == FILENAME]
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{text} (line {lines[-1]})" if lines else text


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


def _open(file: Any, *arguments: Any, **options: Any) -> Any:
    """Python's own `open`; the standard streams also by the names that they have in a file system with /proc."""
    number = _STREAMS.get(file) if isinstance(file, str) else None
    return io.open(file if number is None else os.dup(number), *arguments, **options)  # noqa: UP020


def _open_streams() -> None:
    """New standard streams on descriptors 0, 1 and 2, as Python opens them for a UTF-8 locale."""
    builtins.open = _open
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
