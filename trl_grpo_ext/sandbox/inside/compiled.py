"""Tests as code: compiled, packed to be sent to a judge, and looked at for what they might leave behind."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Sequence
from opcode import opmap
from types import CodeType

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
