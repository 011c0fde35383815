"""Compile and run a model's program in a child process, as a module or as a whole program.

The child holds no tests and no expected values, so the program finds none.
"""

from __future__ import annotations

import _thread
import atexit
import builtins
import io
import os
import resource
import sys
from collections.abc import Collection
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any, NoReturn

from trl_grpo_ext.programs.sandbox.cut_end import without_cut_end
from trl_grpo_ext.workers.frames import Channel

FILENAME = "solution.py"
EXIT_ERROR, EXIT_COMPILE_ERROR, EXIT_MEMORY = 1, 101, 102
"""Exit statuses for an uncaught exception, for source that is not Python, and for exhausted memory."""

_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_MAX_DETAIL = 300
# The largest stack of a thread is the memory limit divided by this number.
_PARTS_OF_MEMORY = 4
# The program may replace `os._exit`.
_exit = os._exit


class CompileError(Exception):
    """The program is not valid Python."""


def compile_program(source: str) -> CodeType:
    """Compile a program.

    Raises:
        CompileError: for every error of the compiler, such as a syntax error.
    """
    try:
        # Without `dont_inherit`, the program would be under this file's `from __future__` import.
        return compile(source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CompileError(
            f"{type(error).__name__}: {error.msg} (line {error.lineno})"
        ) from None
    except Exception as error:
        # Null bytes, surrogates, or nesting too deep for the compiler.
        raise CompileError(describe(error)) from None


def _leave(code: object = None) -> None:
    """Exit like the functions `exit` and `quit`, which Python's module `site` defines."""
    raise SystemExit(code)


def new_module(name: str) -> ModuleType:
    """Create an empty module in `sys.modules`, where dataclasses and pickle look for it."""
    module = ModuleType(name)
    # The module `site`, which usually defines these functions, is not loaded.
    builtins.exit = builtins.quit = _leave  # type: ignore[assignment]
    module.__dict__["__builtins__"] = builtins
    # Conversions of long integers need no limit of their own, since CPU time is limited.
    sys.set_int_max_str_digits(0)
    module.__file__ = FILENAME
    sys.modules[name] = module
    sys.argv = [FILENAME]
    return module


def cap_thread_stacks() -> None:
    """Let threads start although they ask for larger stacks than the memory limit allows.

    Programs ask for half a gigabyte to recurse deeply; since Python 3.11, recursion does not use that stack.
    """
    set_size = _thread.stack_size

    def capped(size: int = 0) -> int:
        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        return set_size(
            size if most == resource.RLIM_INFINITY else min(size, most // _PARTS_OF_MEMORY)
        )

    # Python 3.13 imports threading before a program does.
    for name in ("_thread", "threading"):
        if name in sys.modules:
            sys.modules[name].stack_size = capped  # type: ignore[attr-defined]


def describe(error: BaseException) -> str:
    """Describe an exception: type, message, line of the program that raised it."""
    try:
        message = str(error)[:_MAX_DETAIL]
    except Exception:
        # The exception may be of the program's own class, with a `__str__` that raises.
        message = ""
    lines = [
        number
        for frame, number in walk_tb(error.__traceback__)
        if frame.f_code.co_filename == FILENAME
    ]
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{text} (line {lines[-1]})" if lines else text


def load(
    source: str, namespace: dict[str, Any], needed: Collection[str] | None = None
) -> dict[str, str] | None:
    """Run a program's source in `namespace`.

    Args:
        source: The program.
        namespace: The module's names.
        needed: Names of which a program is to bind one whose last statement may be cut; None for any other program.

    Returns:
        None if the program reached its last line, otherwise a dict with keys `ending` and `detail`.
    """
    try:
        exec(_compile(source, needed), namespace)
    except CompileError as error:
        return {"ending": "compile_error", "detail": str(error)}
    except MemoryError as error:
        return {"ending": "memory", "detail": describe(error)}
    except BaseException as error:
        return {"ending": "error", "detail": describe(error)}
    return None


def _compile(source: str, needed: Collection[str] | None) -> CodeType:
    try:
        return compile_program(source)
    except CompileError as refused:
        kept = "" if needed is None else without_cut_end(source)
        if not kept:
            raise
        try:
            code = compile_program(kept)
        except CompileError:
            # The error of the whole program tells more.
            raise refused from None
        # The statement that is cut may be the program itself.
        if needed and not set(needed).intersection(code.co_names):
            raise
        return code


def run_program(control: int) -> NoReturn:
    """Run a program as `__main__` on the standard streams, then end this process.

    The exit status only hints at the cause of a failure; output is compared outside the sandbox.

    Args:
        control: Channel to the trainer, which sends the program.
    """
    trainer = Channel(control)
    trainer.send({"ready": True})
    source = trainer.receive()["program"]
    # The program gets no channel to the trainer: only its output and its exit count.
    os.close(control)
    open_streams()
    status = _run_main(source)
    status = max(status, _finish())
    _exit(status & 0xFF)


def _open(file: Any, *arguments: Any, **options: Any) -> Any:
    """Open a file like Python's `open`; names such as /dev/stdin give standard streams even without /proc."""
    number = _STREAMS.get(file) if isinstance(file, str) else None
    return io.open(file if number is None else os.dup(number), *arguments, **options)  # noqa: UP020


def open_streams() -> None:
    """Open standard streams on descriptors 0, 1 and 2, as Python would for a UTF-8 locale."""
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
        # The first entry is this function; a program that runs alone would not see it.
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
    """Finish like Python at exit: wait for threads, run exit functions, flush output; return a status."""
    status = 0
    # threading is used only if the program has imported it: an import before the fork would slow every child.
    threads = getattr(sys.modules.get("threading"), "_shutdown", None)
    steps = (atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush)
    for step in (threads, *steps) if threads else steps:
        try:
            step()
        except BaseException:
            # One failed step must not keep the next step from flushing output.
            status = EXIT_ERROR
    return status
