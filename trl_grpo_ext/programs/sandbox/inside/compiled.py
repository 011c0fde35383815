"""Compile tests where the dataset is read, and pack their code for a judge."""

from __future__ import annotations

import ast
import marshal
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

TestCode = tuple[CodeType, list[CodeType]]
"""Code of the setup, and code of each test."""

SETUP_FILE = "<tests setup>"
_RUNNER = "exec(compile("
"""Start of the setup line that embeds the replacement for pytest; the line belongs to no test."""


class BadTestsError(Exception):
    """The tests fail to run, whatever program they test."""


def file_of(number: int) -> str:
    """Return the file name under which a test is compiled."""
    return f"<tests {number}>"


def text_of(sources: Mapping[str, str]) -> str:
    """Join the tests' source code, without the replacement for pytest."""
    return "".join(map(own_lines, sources.values()))


def own_lines(source: str) -> str:
    """Return a source of the tests without the replacement for pytest."""
    # Most tests need no replacement.
    if _RUNNER not in source:
        return source
    return "".join(
        line for line in source.splitlines(keepends=True) if not line.startswith(_RUNNER)
    )


def compile_tests(setup: str, tests: Sequence[str]) -> TestCode:
    """Compile setup and tests.

    Raises:
        BadTestsError: if they are not valid Python.
    """
    return _compile(setup, SETUP_FILE), [
        _compile(test, file_of(number)) for number, test in enumerate(tests)
    ]


FORMATTED = "__trl_grpo_ext_formatted__"
"""Name under which a judge offers tests its check of format texts; see `guard.formats`."""


class _AskingFormats(ast.NodeTransformer):
    """A rewrite of tests that turns `text.format` into `FORMATTED(text).format`, unless `text` is a constant."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in ("format", "format_map") and not isinstance(
            node.value, ast.Constant
        ):
            asked = ast.Call(ast.Name(FORMATTED, ast.Load()), [node.value], [])
            # `compile` refuses nodes without a line number.
            node.value = ast.fix_missing_locations(ast.copy_location(asked, node.value))
        return node


def _compile(source: str, filename: str) -> CodeType:
    try:
        # A detour over a syntax tree is slow, so only tests that need the rewrite take it.
        read: Any = (
            _AskingFormats().visit(ast.parse(source, filename))
            if ".format" in source
            else source
        )
        # optimize=0 keeps assertions even if Python runs with -O.
        return compile(read, filename, "exec", dont_inherit=True, optimize=0)
    # Python raises MemoryError for source that nests too deeply, and ValueError for lone surrogates.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTestsError(
            f"{type(error).__name__}: {error} in {filename}"[:500]
        ) from None


def innermost(source: str, line: int, *kinds: type[ast.stmt]) -> ast.stmt | None:
    """Return the smallest statement of given kinds that contains a line; None if no such statement exists."""
    around = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and node.lineno <= line <= (node.end_lineno or line):
            around.append(node)
    return min(around, key=_extent, default=None)


def _extent(node: ast.stmt) -> tuple[int, int]:
    """Sort key of statements: fewer lines first, then further right."""
    return (node.end_lineno or 0) - node.lineno, -node.col_offset


def pack(code: TestCode) -> str:
    """Pack code as text; only a judge that runs the same Python version can unpack it."""
    return marshal.dumps(code).hex()


def unpack(packed: str) -> TestCode:
    """Unpack code that `pack` has made.

    marshal trusts every byte, so call this only on texts from the trainer, and only in a judge.
    """
    code: TestCode = marshal.loads(bytes.fromhex(packed))
    return code


class Tests:
    """An order to a judge: tests, setup, their sources by file name, settings.

    Attributes:
        finds_skips: Whether the judge is only to find the tests that skip themselves; see `call_run`.
        skips: What it has found, as an (ending, detail) of each test.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self.tests: list[str] = order["tests"]
        self.sources = {file_of(number): test for number, test in enumerate(self.tests)}
        self.sources[SETUP_FILE] = order["setup"]
        self.names: list[str] = order["names"]
        self.imports: list[str] = order.get("imports", [])
        self.stop_at_first: bool = order["stop_at_first"]
        self.message_bytes: int = order["message_bytes"]
        self.finds_skips: bool = order.get("finds_skips", False)
        none = [("passed", "")] * len(self.tests)
        self.skips: list[tuple[str, str]] = order.get("skips") or none

    def compiled(self) -> TestCode:
        """Return the packed code of the order, or compile its sources.

        Raises:
            BadTestsError: if the sources are not valid Python.
        """
        packed = self._order.get("code")
        return (
            unpack(packed)
            if packed
            else compile_tests(self._order["setup"], self._order["tests"])
        )
