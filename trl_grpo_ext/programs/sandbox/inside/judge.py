"""Run tests in the judge's process, where names of the program are stand-ins that call it by messages.

The tests are trusted; messages of the program are not. Sources of tests and expected values stay here, except values
that a test passes to the program. Comparisons with expected values are made here, on values rebuilt from plain data.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import os
import re
import reprlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any, NoReturn

from trl_grpo_ext.programs.sandbox.inside.compiled import (
    SETUP_FILE,
    BadTestsError,
    Tests,
    innermost,
    text_of,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.printing import Capture
from trl_grpo_ext.programs.sandbox.inside.guard.code_guard import CodeGuard
from trl_grpo_ext.programs.sandbox.inside.guard.empty_arrays import guard_empty_arrays
from trl_grpo_ext.programs.sandbox.inside.guard.empty_frames import guard_empty_frames
from trl_grpo_ext.programs.sandbox.inside.handle import Handle, name_of
from trl_grpo_ext.programs.sandbox.inside.patches.patching import share_changes
from trl_grpo_ext.programs.sandbox.inside.proxy import Fault, ProgramProxy
from trl_grpo_ext.programs.sandbox.inside.setup_check import (
    RUN_ROW,
    check_setup,
    find_skips,
    is_skip,
)
from trl_grpo_ext.workers.frames import Channel

MESSAGES_IN_ALL = 16
"""Limit of data that the program may send in a run, counted in messages of maximal length."""

_RECURSION_LIMIT = 4000

# Created before the fork, to save time in every child.
_nowhere = Capture(0)


def judge(control: int, rpc: int) -> None:
    """Judge a program, then end.

    From here on this process runs nothing but tests and judges no other program.

    Args:
        control: Channel to the trainer, whose order is trusted.
        rpc: Channel to the program, which may send anything.
    """
    run_tests(control, rpc, guarded=True)


def run_tests(control: int, rpc: int, *, guarded: bool) -> None:
    """Run the tests of the trainer's order and report each result.

    Args:
        control: Channel to the trainer.
        rpc: Channel to the program.
        guarded: Whether to end this process as soon as tests would run code of the program; see `code_guard`.
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
    # After the compilation, whose time does not count as time of the program.
    trainer.send({"ready": True})
    most = tests.message_bytes
    program = ProgramProxy(
        Channel(rpc, frame_bytes=most, total_bytes=MESSAGES_IN_ALL * most), tests.sources
    )
    judgement = _Judgement(trainer, program, tests)
    if guarded:
        CodeGuard([setup, *snippets], judgement.refuse).install(text_of(tests.sources))
    try:
        if tests.finds_skips:
            judgement.find_skips(setup, snippets)
        else:
            judgement.run(setup, snippets)
    except BadTestsError as error:
        trainer.send({"bad_tests": str(error)})


class _Judgement:
    """The judgement of one program by all tests."""

    def __init__(self, trainer: Channel, program: ProgramProxy, tests: Tests) -> None:
        self._trainer = trainer
        self._program = program
        self._tests = tests
        self._number = 0

    def run(self, setup: CodeType, snippets: list[CodeType]) -> None:
        """Run tests in order, each in its own copy of the setup's namespace, and report results.

        Raises:
            BadTestsError: if the tests do not run, whatever the program is.
        """
        namespace, early = _prepare(self._program, setup, self._tests)
        for self._number, test in enumerate(snippets):
            ending, detail = early or self._run(test, namespace)
            is_last = self._number + 1 == len(snippets)
            if is_last and ending in _NOT_FAILED:
                # Only a run that would pass needs the check: a message that nobody asked for voids it.
                ending, detail = self._program.end() or (ending, detail)
            self._report(ending, detail)
            if self._tests.stop_at_first and ending not in _NOT_FAILED:
                return

    def find_skips(self, setup: CodeType, snippets: list[CodeType]) -> None:
        """Run each test without the program, and report skipped tests and skipped rows of `parametrize`."""
        names = self._tests.names
        found = find_skips(
            self._program, (setup, snippets), names, lambda: _new_namespace(self._program)
        )
        for self._number, (ending, detail) in enumerate(found):
            self._report(ending, detail)

    def _run(self, test: CodeType, namespace: dict[str, Any]) -> tuple[str, str]:
        """Run a test, unless it has skipped itself without the program."""
        ending, detail = self._tests.skips[self._number]
        if ending == "skipped":
            return ending, detail
        # Any other ending, such as a timeout, tells nothing of rows.
        skipped = detail if ending == "passed" else ""
        own = {**namespace, RUN_ROW: _runner_of_rows(skipped)}
        return _run(self._program, test, own)

    def _report(self, ending: str, detail: str) -> None:
        self._trainer.send({"test": self._number, "ending": ending, "detail": detail})

    def refuse(self, what: str) -> NoReturn:
        """End this process before a test runs code foreign to tests and library.

        The program gets the blame, even if a test runs text that it has built itself: otherwise a program could escape
        judgement by making a row unusable.
        """
        self._report("refused", f"the tests would run text of the program: {what}")
        # An exception would not do: the test could catch it and go on to run the code.
        os._exit(0)


def _prepare(
    program: ProgramProxy, setup: CodeType, tests: Tests
) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """Build the tests' namespace by running their setup.

    Returns:
        The namespace, and a pair (ending, detail) for all tests if they cannot begin, otherwise None.

    Raises:
        BadTestsError: if a package of the tests is missing, or the setup fails whatever the program is.
    """
    namespace = _new_namespace(program)
    missing = next((name for name in tests.imports if find_spec(name) is None), None)
    if missing is not None:
        # Checked before the program is asked anything, so that it cannot decide whether the row counts.
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
    # Before modules are watched: a guard in numpy is no change of the tests, and the program must not get it.
    text = text_of(tests.sources)
    guard_empty_arrays(text)
    guard_empty_frames(text)
    share_changes(program)
    if tests.sources[SETUP_FILE]:
        early = _run(program, setup, namespace)
        if early[0] != "passed":
            if program.fault is None:
                check_setup(program, setup, tests.names, lambda: _new_namespace(program))
            return namespace, early
        # The setup may import or define names of the program, such as a stub to complete; the program's count.
        _bind(namespace, stand_ins)
    return namespace, None


def _new_namespace(program: ProgramProxy) -> dict[str, Any]:
    module = ModuleType("tests")
    module.__dict__["__builtins__"] = __builtins__
    # Files of tests often begin with `sys.path.append(os.path.dirname(__file__))`; no such folder exists.
    module.__file__ = "/tests/test_solution.py"
    sys.modules["tests"] = module
    sys.modules["solution"] = SolutionModule(program)
    return module.__dict__


class SolutionModule(ModuleType):
    """The module that tests get from `import solution`; its attributes are the program's global names."""

    def __init__(self, program: ProgramProxy) -> None:
        super().__init__("solution")
        self.__dict__["_remote"] = program

    def __getattr__(self, name: str) -> Any:
        program: ProgramProxy = self.__dict__["_remote"]
        if name == "__all__":
            return _unbound(program.request("public"))
        found = [] if name.startswith("__") else program.look_up([name])[name]
        if not found:
            raise AttributeError(
                f"module 'solution' has no attribute {name!r}", name=name, obj=self
            )
        return found[0]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self.__dict__["_remote"].request("set_name", name, value)

    def __delattr__(self, name: str) -> None:
        self.__dict__["_remote"].request("delete_name", name)


def _unbound(public: list[str]) -> list[str]:
    """Return public names for `from solution import *`, without names that already have a meaning there.

    Otherwise a program could replace `print`, `math` or a helper of the tests.
    """
    # Frame 0 is this function, frame 1 `SolutionModule.__getattr__`, frame 2 the import in the tests.
    frame = sys._getframe(2)
    taken = {*dir(builtins), *frame.f_globals, *frame.f_locals}
    return [name for name in public if type(name) is str and name not in taken]


def _bind(namespace: dict[str, Any], stand_ins: dict[str, list[Any]]) -> None:
    """Bind names to stand-ins in a test namespace, builtins included; a name that the program lacks is removed."""
    for name, found in stand_ins.items():
        namespace.pop(name, None)
        if found:
            namespace[name] = found[0]
        elif hasattr(builtins, name):
            namespace[name] = _undefined(name)


def _undefined(name: str) -> Callable[..., NoReturn]:
    """Make a function that raises NameError, for a builtin's name that the program should define but does not."""

    def undefined(*_: Any, **__: Any) -> NoReturn:
        raise NameError(f"name {name!r} is not defined", name=name)

    return undefined


def _runner_of_rows(skipped: str) -> Callable[[int, Callable[[], None]], None]:
    """Make the function by which a test runs its rows of `parametrize`, all but the places that a text lists."""
    places = {int(place) for place in skipped.split()}

    def run_row(place: int, run: Callable[[], None]) -> None:
        if place not in places:
            run()

    return run_row


def _run(
    program: ProgramProxy, code: CodeType, namespace: dict[str, Any]
) -> tuple[str, str]:
    """Run a test and return its ending and detail."""
    program.begin_test()
    error: BaseException | None = None
    try:
        exec(code, namespace)
        program.check_silence()
    except BaseException as raised:
        error = raised
    # A fault counts even if the test has caught it, since the program is not asked any more.
    if program.fault is not None:
        return program.fault.ending, program.fault.detail
    if program.refused is not None:
        return "error", program.refused
    if error is None:
        return "passed", ""
    if not is_skip(error):
        return detail_of(program, error)
    reason = str(error)[:_MAX_DETAIL]
    return "failed", f"skipped by the program's doing, which counts as failed: {reason}"


_NOT_FAILED = ("passed", "skipped")
_MAX_DETAIL = 500
_MAX_SOURCE = 200
# A string of a test or a comment, or white space
_STRING_OR_SPACE = re.compile(
    r"(\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|#[^\n]*)|\s+"
)
_MAX_BITS = 10_000


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """Describe a large integer by its type only: printing takes time quadratic in the number of digits."""
        return (
            super().repr_int(x, level)
            if x.bit_length() < _MAX_BITS
            else f"<{type(x).__name__}>"
        )

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """Describe a dict in its own order; the library sorts its keys."""
        if not x:
            return "{}"
        if level <= 0:
            return "{...}"
        pieces = []
        for key in itertools.islice(x, self.maxdict):
            pieces.append(f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}")
        if len(x) > self.maxdict:
            pieces.append("...")
        return f"{{{', '.join(pieces)}}}"


_short = _Short()
_short.maxstring = _short.maxother = 60
_short.maxlong = 40


def detail_of(program: ProgramProxy, error: BaseException) -> tuple[str, str]:
    """Return ending and detail for an exception that a test raised."""
    if isinstance(error, Fault):
        return error.ending, error.detail
    program.quiet = True
    try:
        return _detail(program, error)
    except BaseException as second:
        # A message's text may itself raise an error.
        return "error", f"{type(error).__name__}, then {type(second).__name__}"
    finally:
        program.quiet = False


def _detail(program: ProgramProxy, error: BaseException) -> tuple[str, str]:
    of_program = error is program.last_error
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    # An exception that the program did not raise shows that its data has filled the judge's memory.
    if isinstance(error, MemoryError):
        return (
            ("memory", message[:_MAX_DETAIL])
            if of_program
            else ("protocol", "too much data")
        )
    if isinstance(error, AssertionError) and not of_program:
        return "failed", _failed(program, error)
    return "error", message.split("\n")[0][:_MAX_DETAIL]


def _failed(program: ProgramProxy, error: BaseException) -> str:
    """Describe a failed assertion: source, message unless it is part of the source, last call of the program."""
    source = _source(error, program.sources)
    message = str(error).strip().split("\n")[0][:_MAX_SOURCE]
    parts = [source or "AssertionError"]
    if message not in source:
        parts.append(message)
    parts.append(_last_call(program))
    return "; ".join(filter(None, parts))[:_MAX_DETAIL]


def _source(error: BaseException, sources: dict[str, str]) -> str:
    """Return the source of the innermost test statement in an exception's traceback."""
    filename, line = "", 0
    for frame, number in walk_tb(error.__traceback__):
        if frame.f_code.co_filename in sources:
            filename, line = frame.f_code.co_filename, number
    source = sources.get(filename, "")
    smallest = innermost(source, line, ast.stmt)
    if smallest is None:
        return ""
    return _in_one_line(_text_of(source, smallest))[:_MAX_SOURCE]


def _text_of(source: str, statement: ast.stmt) -> str:
    """Return a statement's text, as `ast.get_source_segment` does, which takes seconds on a line of a megabyte."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    own = [line.encode() for line in lines[statement.lineno - 1 : statement.end_lineno]]
    # The end first: both offsets count from the begin of their lines.
    own[-1] = own[-1][: statement.end_col_offset]
    own[0] = own[0][statement.col_offset :]
    return b"\n".join(own).decode()


def _in_one_line(source: str) -> str:
    """Collapse the white space of a statement outside of its strings and comments."""
    if "\n" not in source and "  " not in source:
        return source
    return _STRING_OR_SPACE.sub(
        lambda found: found[1].replace("\n", "\\n") if found[1] else " ", source
    )


def _last_call(program: ProgramProxy) -> str:
    if program.last_call is None:
        return ""
    target, args, kwargs, result = program.last_call
    shown = [_short.repr(value) for value in args]
    shown += [f"{name}={_short.repr(value)}" for name, value in kwargs.items()]
    return f"{name_of(target)}({', '.join(shown)}) returned {_short.repr(result)}{_limit(result)}"


def _limit(result: Any) -> str:
    """Name the limit that a right program meets whose result is an object of a library, such as sympy's."""
    is_asked_of_none = (
        isinstance(result, Handle)
        and getattr(type(result), "_remote_ahead", False)
        and result._remote_equates
    )
    return (
        ", an object of a library, which equals nothing of the tests"
        if is_asked_of_none
        else ""
    )
