"""Tests as code: compiled, packed to be sent to a judge, and checked for what they leave behind.

Tests are trusted, but they may patch the clock, seed a generator or replace `input`, and the next tests in the same
judge must not meet that. `Baseline` puts back what is cheap to put back, and notices other changes; then the judge is
not used again. It does not look at what modules hold, which took a twentieth of a sample's time. Instead no judge is
used again after tests that might change a module (`may_change_python`).
"""

from __future__ import annotations

import decimal
import marshal
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from opcode import opmap
from types import CodeType
from typing import Any

TestCode = tuple[CodeType, list[CodeType]]
"""The setup, and the tests."""

SETUP_FILE = "<tests setup>"


class BadTestsError(Exception):
    """The tests do not run, whatever the program is."""


def file_of(number: int) -> str:
    """The file name that a test is compiled with."""
    return f"<tests {number}>"


def compile_tests(setup: str, tests: Sequence[str]) -> TestCode:
    """Compile them.

    Raises:
        BadTestsError: if they are not Python.
    """
    return _compile(setup, SETUP_FILE), [_compile(test, file_of(number)) for number, test in enumerate(tests)]


def _compile(source: str, filename: str) -> CodeType:
    try:
        return compile(source, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTestsError(f"{type(error).__name__}: {error} in {filename}"[:500]) from None


def pack(code: TestCode) -> str:
    """Code as text, for a judge that is run by the same Python."""
    return marshal.dumps(code).hex()


def unpack(packed: str) -> TestCode:
    """What was packed. Only ever of what the trainer packed, and only in a judge: reading it trusts every byte."""
    code: TestCode = marshal.loads(bytes.fromhex(packed))
    return code


# With these, or by setting an attribute, tests can change Python for the next that run in the same process. `Baseline`
# notices only the changes that need none of these.
_REACHING = frozenset(
    {
        "modules",
        "setattr",
        "delattr",
        "patch",
        "vars",
        "globals",
        "__dict__",
        "exec",
        "eval",
        "compile",
        "__import__",
        "import_module",
        "reload",
        "__setattr__",
        "__delattr__",
        "__builtins__",
        "gc",
        "signal",
        "alarm",
        "setitimer",
        "locale",
        "seed",
        "setlocale",
        "ctypes",
        "atexit",
        "tzset",
        "setswitchinterval",
        "set_int_max_str_digits",
        "setdefaulttimeout",
        "getLogger",
        "basicConfig",
        "register",
        "install",
        "seterr",
        "set_printoptions",
    }
)
_SETS = frozenset({opmap["STORE_ATTR"], opmap["DELETE_ATTR"]})


def may_change_python(code: CodeType) -> bool:
    """Whether it might leave something in Python that the next tests could meet."""
    return not _REACHING.isdisjoint(code.co_names) or not _SETS.isdisjoint(code.co_code[::2])


def with_inner(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of the functions and classes in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from with_inner(each)


# What a judge has ever taken counts against the memory of the programs after; Python does not always give it back.
_GROWTH_KB = 48 << 10


class Baseline:
    """Python as it is before the first tests."""

    def __init__(self) -> None:
        self._loaded = dict(sys.modules)
        self._environment = dict(os.environ)
        self._folder = os.getcwd()
        self._sys = self._of_sys()
        self._peak_kb = _peak_kb()

    def restore(self) -> bool:
        """Put back what can be; False if something else is not as it was."""
        generator = sys.modules.get("random")
        if generator is not None:
            generator.seed()
        decimal.setcontext(decimal.Context())
        for name in ("tests", "solution"):
            sys.modules.pop(name, None)
        threads = sys.modules.get("threading")
        return (
            (threads is None or threads.active_count() == 1)
            and _peak_kb() - self._peak_kb < _GROWTH_KB
            and os.getcwd() == self._folder
            and dict(os.environ) == self._environment
            and self._of_sys() == self._sys
            and all(sys.modules.get(name) is module for name, module in self._loaded.items())
        )

    def _of_sys(self) -> list[object]:
        return [list(sys.path), list(sys.argv), sys.stdin, sys.getrecursionlimit(), sys.getprofile(), sys.gettrace()]


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


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
