"""The child that runs the tests. What they take from the program are stand-ins that call it by messages.

Tests and expected values are read here and stay here; every comparison is made here, between values that were
rebuilt from plain data.
"""

from __future__ import annotations

import ast
import builtins
import os
import reprlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any, NoReturn

from trl_grpo_ext.sandbox.inside.compiled import SETUP_FILE, BadTestsError, Tests, innermost
from trl_grpo_ext.sandbox.inside.guard.code_guard import CodeGuard
from trl_grpo_ext.sandbox.inside.guard.empty_arrays import guard_empty_arrays
from trl_grpo_ext.sandbox.inside.handle import name_of
from trl_grpo_ext.sandbox.inside.patching import share_changes, text_of
from trl_grpo_ext.sandbox.inside.program import Capture
from trl_grpo_ext.sandbox.inside.proxy import Fault, ProgramProxy
from trl_grpo_ext.sandbox.inside.setup_check import check_setup
from trl_grpo_ext.workers.frames import Channel

MESSAGES_IN_ALL = 16
"""The most that the program may send in all, in messages of the longest kind."""

_RECURSION_LIMIT = 4000

_nowhere = Capture(0)  # made before the fork, which costs each child less


def judge(control: int, rpc: int) -> None:
    """Judge the program at the other end of `rpc`, which may send anything, as the trainer orders by `control`.

    This process runs nothing but the tests from then on, and judges no other program.
    """
    run_tests(control, rpc, guarded=True)


def run_tests(control: int, rpc: int, *, guarded: bool) -> None:
    """Run the tests that the trainer orders, and report on each.

    Args:
        control: The channel to the trainer.
        rpc: The channel to the program.
        guarded: Whether to end this process if they would run code of the program; see `code_guard`.
    """
    sys.setrecursionlimit(_RECURSION_LIMIT)
    sys.stdout = sys.stderr = _nowhere
    trainer = Channel(control)
    tests = Tests(trainer.receive())
    try:
        setup, snippets = tests.compiled()
    except BadTestsError as error:
        trainer.send({"ready": True})
        trainer.send({"bad_tests": str(error)})
        return
    trainer.send({"ready": True})
    most = tests.message_bytes
    program = ProgramProxy(Channel(rpc, frame_bytes=most, total_bytes=MESSAGES_IN_ALL * most), tests.sources)
    judgement = _Judgement(trainer, program, tests)
    if guarded:
        CodeGuard([setup, *snippets], judgement.refuse).install()
    try:
        judgement.run(setup, snippets)
    except BadTestsError as error:
        trainer.send({"bad_tests": str(error)})


class _Judgement:
    """The run of some tests against a program."""

    def __init__(self, trainer: Channel, program: ProgramProxy, tests: Tests) -> None:
        self._trainer = trainer
        self._program = program
        self._tests = tests
        self._number = 0

    def run(self, setup: CodeType, snippets: list[CodeType]) -> None:
        """Run the tests one by one, each in the namespace that the setup leaves; BadTestsError if they do not run."""
        namespace, early = _prepare(self._program, setup, self._tests)
        for self._number, test in enumerate(snippets):
            ending, detail = early or _run(self._program, test, dict(namespace))
            if ending == "passed" and self._number + 1 == len(snippets):
                ending, detail = self._program.end() or (ending, detail)
            self._trainer.send({"test": self._number, "ending": ending, "detail": detail})
            if self._tests.stop_at_first and ending != "passed":
                return

    def refuse(self, what: str) -> NoReturn:
        """End this process, since a test would have run code that is neither its own nor the library's.

        It counts as the program's doing, also where tests run a text that they have put together themselves: a row
        without a verdict would be a way out for programs.
        """
        detail = f"the tests would run text of the program: {what}"
        self._trainer.send({"test": self._number, "ending": "refused", "detail": detail})
        os._exit(0)


def _prepare(program: ProgramProxy, setup: CodeType, tests: Tests) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """The namespace that the setup leaves, and how every test ends if they cannot begin.

    Raises:
        BadTestsError: if the tests need a package that is not there, or the setup fails whatever the program is.
    """
    namespace = _new_namespace(program)
    missing = next((name for name in tests.imports if find_spec(name) is None), None)
    if missing is not None:  # before any program is asked, or it could choose whether the row counts
        raise BadTestsError(f"ModuleNotFoundError: No module named {missing!r}")
    try:
        failed = program.loaded()
        if failed is not None:
            check_setup(program, setup, tests.names, lambda: _new_namespace(program))
            return namespace, (failed["ending"], failed["detail"])
        stand_ins = program.look_up(tests.names) if tests.names else {}
    except BadTestsError:
        raise
    except BaseException as error:
        return namespace, detail_of(program, error)
    _bind(namespace, stand_ins)
    share_changes(program)
    guard_empty_arrays(text_of(tests.sources))
    if tests.sources[SETUP_FILE]:
        early = _run(program, setup, namespace)
        if early[0] != "passed":
            if program.fault is None:
                check_setup(program, setup, tests.names, lambda: _new_namespace(program))
            return namespace, early
        _bind(namespace, stand_ins)
    return namespace, None


def _new_namespace(program: ProgramProxy) -> dict[str, Any]:
    module = ModuleType("tests")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["tests"] = module
    sys.modules["solution"] = SolutionModule(program)
    return module.__dict__


class SolutionModule(ModuleType):
    """What `import solution` gives the tests."""

    def __init__(self, program: ProgramProxy) -> None:
        super().__init__("solution")
        self.__dict__["_remote"] = program

    def __getattr__(self, name: str) -> Any:
        program: ProgramProxy = self.__dict__["_remote"]
        if name == "__all__":
            return _unbound(program.request("public"))
        found = [] if name.startswith("__") else program.look_up([name])[name]
        if not found:
            raise AttributeError(f"module 'solution' has no attribute {name!r}", name=name, obj=self)
        return found[0]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self.__dict__["_remote"].request("set_name", name, value)

    def __delattr__(self, name: str) -> None:
        self.__dict__["_remote"].request("delete_name", name)


def _unbound(public: list[str]) -> list[str]:
    """The names that `from solution import *` brings: none that stands for something where it is written.

    Otherwise a program could replace `print`, `math` or a helper of the tests.
    """
    frame = sys._getframe(2)
    taken = {*dir(builtins), *frame.f_globals, *frame.f_locals}
    return [name for name in public if type(name) is str and name not in taken]


def _bind(namespace: dict[str, Any], stand_ins: dict[str, list[Any]]) -> None:
    """Put what the program has in the place of anything that the tests have by the same name, also of a builtin."""
    for name, found in stand_ins.items():
        namespace.pop(name, None)
        if found:
            namespace[name] = found[0]
        elif hasattr(builtins, name):
            namespace[name] = _undefined(name)


def _undefined(name: str) -> Callable[..., NoReturn]:
    """Make what stands for a builtin's name that is the program's, and that the program does not define."""

    def undefined(*_: Any, **__: Any) -> NoReturn:
        raise NameError(f"name {name!r} is not defined", name=name)

    return undefined


def _run(program: ProgramProxy, code: CodeType, namespace: dict[str, Any]) -> tuple[str, str]:
    """How one test ends, and why."""
    program.last_call = program.last_error = None
    error: BaseException | None = None
    try:
        exec(code, namespace)
        program.check_silence()
    except BaseException as raised:
        error = raised
    if program.fault is not None:
        return program.fault.ending, program.fault.detail
    return ("passed", "") if error is None else detail_of(program, error)


_MAX_DETAIL = 500
_MAX_SOURCE = 200
_MAX_BITS = 10_000


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """Of a large integer only what it is: to write it takes time that grows with the square of its digits."""
        return super().repr_int(x, level) if x.bit_length() < _MAX_BITS else f"<{type(x).__name__}>"


_short = _Short()
_short.maxstring = _short.maxother = 60
_short.maxlong = 40


def detail_of(program: ProgramProxy, error: BaseException) -> tuple[str, str]:
    """How a test that raised `error` ended, and why."""
    if isinstance(error, Fault):
        return error.ending, error.detail
    program.quiet = True
    try:
        return _detail(program, error)
    except BaseException as second:  # such as an error in a message's own text
        return "error", f"{type(error).__name__}, then {type(second).__name__}"
    finally:
        program.quiet = False


def _detail(program: ProgramProxy, error: BaseException) -> tuple[str, str]:
    of_program = error is program.last_error
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        return ("memory", message[:_MAX_DETAIL]) if of_program else ("protocol", "too much data")
    if isinstance(error, AssertionError) and not of_program:
        return "failed", _failed(program, error)
    return "error", message.split("\n")[0][:_MAX_DETAIL]


def _failed(program: ProgramProxy, error: BaseException) -> str:
    """The assertion's source, its message unless that is part of the source, and the last call."""
    source = _source(error, program.sources)
    message = str(error).strip().split("\n")[0][:_MAX_SOURCE]
    parts = [source or "AssertionError", message if message not in source else "", _last_call(program)]
    return "; ".join(part for part in parts if part)[:_MAX_DETAIL]


def _source(error: BaseException, sources: dict[str, str]) -> str:
    """The source of the innermost statement of the tests that was running."""
    filename, line = "", 0
    for frame, number in walk_tb(error.__traceback__):
        if frame.f_code.co_filename in sources:
            filename, line = frame.f_code.co_filename, number
    source = sources.get(filename, "")
    smallest = innermost(source, line, ast.stmt)
    return "" if smallest is None else " ".join((ast.get_source_segment(source, smallest) or "").split())[:_MAX_SOURCE]


def _last_call(program: ProgramProxy) -> str:
    if program.last_call is None:
        return ""
    target, args, kwargs, result = program.last_call
    shown = [_short.repr(value) for value in args]
    shown += [f"{name}={_short.repr(value)}" for name, value in kwargs.items()]
    return f"{name_of(target)}({', '.join(shown)}) returned {_short.repr(result)}"
