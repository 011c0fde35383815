"""A suite of tests in the form that a sandbox takes, whatever form the dataset had it in."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSuite:
    """Tests that call the solution: Python code that a judge runs outside the solution's process.

    Attributes:
        setup: Code to run first, once, such as imports, helpers and the functions that `tests` call. Trusted.
        tests: One snippet of code a test, run in the namespace that `setup` leaves. A test that raises has failed.
        names: What `setup` and `tests` take from the solution. They are bound to stand-ins that call it.
        code: The setup and the tests compiled by this Python, by `inside.compiled.pack`; nothing to have each judge
            compile them. It never leaves this machine, and none is taken from another.

    Example:
        >>> CallSuite(tests=("assert add(1, 2) == 3",), names=("add",)).setup
        ''
    """

    tests: tuple[str, ...]
    names: tuple[str, ...]
    setup: str = ""
    code: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCase:
    """What a whole program reads from standard input, and what it must print."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioSuite:
    """Tests that run the solution as a program, once a case, and compare what it prints."""

    tests: tuple[StdioCase, ...]


Suite = CallSuite | StdioSuite
