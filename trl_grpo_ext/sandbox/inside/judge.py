"""The child that runs the tests. What they take from the program are stand-ins that call it by messages.

Tests and expected values are read here and stay here; every comparison is made here, between values that were
rebuilt from plain data.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import socket
import sys
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

from trl_grpo_ext.sandbox.inside.compiled import (
    SETUP_FILE,
    BadTestsError,
    TestCode,
    compile_tests,
    file_of,
    may_change_python,
    unpack,
    with_inner,
)
from trl_grpo_ext.sandbox.inside.failure import detail_of
from trl_grpo_ext.sandbox.inside.frames import Channel
from trl_grpo_ext.sandbox.inside.remote import Remote
from trl_grpo_ext.sandbox.inside.unchanged import Baseline

TOTAL_BYTES = 64 << 20
"""The most that the program may send in all."""

_RECURSION_LIMIT = 4000


class _Nowhere(io.StringIO):
    """A standard output that keeps nothing."""

    def write(self, text: str, /) -> int:
        return len(text)


class SolutionModule(ModuleType):
    """What `import solution` gives the tests."""

    def __init__(self, remote: Remote) -> None:
        super().__init__("solution")
        self.__dict__["_remote"] = remote

    def __getattr__(self, name: str) -> Any:
        remote: Remote = self.__dict__["_remote"]
        if name == "__all__":
            return remote.request("public")
        if name.startswith("__"):
            raise AttributeError(f"module 'solution' has no attribute {name!r}", name=name, obj=self)
        found = remote.look_up([name])[name]
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


SAME_TESTS, OTHER_TESTS = b"=", b"+"
"""What comes with the channel of a judge's next program."""


def judge(control: int, rpc: int) -> None:
    """Run the tests that come by `control` against the program at the other end of `rpc`; report one by one.

    Then wait for the next program: a message of one byte with its channel, and after OTHER_TESTS its tests. So the
    completions of a group meet tests that were compiled once. Each report ends with whether the tests have left this
    process as it was; if not, the next program should have another judge.

    Args:
        control: From and to the trainer.
        rpc: To the program, which may send anything.
    """
    trainer = Channel(control)
    tests = Tests(trainer.receive())
    sys.setrecursionlimit(_RECURSION_LIMIT)
    baseline = Baseline()
    with contextlib.suppress(BadTestsError):  # said when they are to be run
        tests.compiled()
    trainer.send({"ready": True})
    with socket.socket(fileno=control) as channels:
        while rpc >= 0:
            channel = Channel(rpc, frame_bytes=tests.message_bytes, total_bytes=TOTAL_BYTES)
            trainer.send(_judge_one(tests, trainer, channel) | {"clean": baseline.restore() and tests.confined})
            kind, descriptors, _, _ = socket.recv_fds(channels, 1, 1)
            os.close(rpc)  # not before: the program would wake up to end itself, when it is about to be killed
            rpc = descriptors[0] if descriptors else -1
            if kind == OTHER_TESTS:
                tests = Tests(trainer.receive())


def _judge_one(tests: Tests, trainer: Channel, rpc: Channel) -> dict[str, Any]:
    """Report on each test of a program; the last of the report."""
    sys.stdout = sys.stderr = _Nowhere()
    try:
        for number, (ending, detail) in enumerate(_results(tests, Remote(rpc))):
            trainer.send({"test": number, "ending": ending, "detail": detail})
            if ending != "passed" and tests.stop_at_first:
                break
    except BadTestsError as error:
        return {"bad_tests": str(error)}
    return {"done": True}


class Tests:
    """What is run against each program."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._compiled: TestCode | None = None
        self.confined = False
        self.words: frozenset[str] = frozenset()
        self.sources = {file_of(number): test for number, test in enumerate(order["tests"])}
        self.sources[SETUP_FILE] = order["setup"]
        self.names: list[str] = order["names"]
        self.stop_at_first: bool = order["stop_at_first"]
        self.message_bytes: int = order["message_bytes"]

    def compiled(self) -> TestCode:
        """The setup and the tests as code, made at the first call unless it came with them.

        Raises:
            BadTestsError: if they are not Python.
        """
        if self._compiled is None:
            packed = self._order.get("code")
            made = unpack(packed) if packed else compile_tests(self._order["setup"], self._order["tests"])
            self._compiled = made
            codes = [code for each in (made[0], *made[1]) for code in with_inner(each)]
            self.confined = not any(map(may_change_python, codes))
            self.words = frozenset(name.partition(".")[0] for code in codes for name in code.co_names)
        return self._compiled


def _results(tests: Tests, remote: Remote) -> Iterator[tuple[str, str]]:
    """How each test ends, and why."""
    setup, snippets = tests.compiled()
    namespace, early = _prepare(remote, setup, tests)
    for test in snippets:
        yield early or _run(remote, test, dict(namespace), tests)


def _prepare(remote: Remote, setup: CodeType, tests: Tests) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """The namespace that the setup leaves, and how every test ends if they cannot begin."""
    namespace = _new_namespace(remote)
    try:
        failed = remote.loaded()
        if failed is not None:
            _check_setup(remote, setup, tests.names)
            return namespace, (failed["ending"], failed["detail"])
        stand_ins = remote.look_up(tests.names) if tests.names else {}
    except BadTestsError:
        raise
    except BaseException as error:
        return namespace, detail_of(remote, error, tests.sources)
    _bind(namespace, stand_ins)
    if "seed" in tests.words:
        _share_seeds(remote)
    if tests.sources[SETUP_FILE]:
        early = _run(remote, setup, namespace, tests)
        if early[0] != "passed":
            _check_setup(remote, setup, tests.names)
            return namespace, early
        _bind(namespace, stand_ins)
    return namespace, None


def _share_seeds(remote: Remote) -> None:
    """Have the program's generator seeded with the tests', as in one process; never the other way round."""
    import random

    seed = random.seed

    def seed_both(a: Any = None, *rest: Any, **options: Any) -> None:
        seed(a, *rest, **options)
        remote.request("seed", a)

    random.seed = seed_both


def _new_namespace(remote: Remote) -> dict[str, Any]:
    module = ModuleType("tests")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["tests"] = module
    sys.modules["solution"] = SolutionModule(remote)
    return module.__dict__


def _bind(namespace: dict[str, Any], stand_ins: dict[str, list[Any]]) -> None:
    """Put what the program has in the place of anything that the tests have by the same name."""
    for name, found in stand_ins.items():
        namespace.pop(name, None)
        if found:
            namespace[name] = found[0]


def _check_setup(remote: Remote, setup: CodeType, names: list[str]) -> None:
    """Run the setup with nothing of the program in reach.

    Raises:
        BadTestsError: if it fails even so. What fails because of the program is no fault of the tests, or a program
            could have its verdict thrown out.
    """
    remote.untouchable, remote.missed = True, False
    try:
        exec(setup, _new_namespace(remote))
    except BaseException as error:
        if not remote.missed and not (isinstance(error, NameError) and error.name in names):
            raise BadTestsError(f"{type(error).__name__}: {error}"[:500]) from None
    finally:
        remote.untouchable = False


def _run(remote: Remote, code: CodeType, namespace: dict[str, Any], tests: Tests) -> tuple[str, str]:
    """How one test ends, and why."""
    remote.last_call = remote.last_error = None
    error: BaseException | None = None
    try:
        exec(code, namespace)
        remote.check_silence()
    except BaseException as raised:
        error = raised
    if remote.fault is not None:
        return remote.fault.ending, remote.fault.detail
    if isinstance(error, ModuleNotFoundError) and _lacks_module(error, tests):
        raise BadTestsError(f"{type(error).__name__}: {error}"[:500])
    return ("passed", "") if error is None else detail_of(remote, error, tests.sources)


def _lacks_module(error: ModuleNotFoundError, tests: Tests) -> bool:
    """Whether the tests import a module that is not there. A program may raise, or return, such an error as well."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_here = trace is not None and trace.tb_frame.f_code.co_filename in tests.sources
    top = (error.name or "").partition(".")[0]
    return raised_here and top in tests.words - {"solution"} and importlib.util.find_spec(top) is None
