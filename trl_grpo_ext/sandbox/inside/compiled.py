"""Tests as code: compiled where the dataset is read, and packed to be sent to a judge."""

from __future__ import annotations

import ast
import marshal
from collections.abc import Sequence
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
    """Compile them; raises BadTestsError if they are not Python."""
    return _compile(setup, SETUP_FILE), [_compile(test, file_of(number)) for number, test in enumerate(tests)]


FORMATTED = "__trl_grpo_ext_formatted__"
"""The name by which tests ask a judge whether a text may be a format; see `formats`."""


class _AskingFormats(ast.NodeTransformer):
    """Makes `text.format` of tests `FORMATTED(text).format`, if the text is no constant."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in ("format", "format_map") and not isinstance(node.value, ast.Constant):
            asked = ast.Call(ast.Name(FORMATTED, ast.Load()), [node.value], [])
            node.value = ast.fix_missing_locations(ast.copy_location(asked, node.value))
        return node


def _compile(source: str, filename: str) -> CodeType:
    try:
        read: Any = _AskingFormats().visit(ast.parse(source, filename)) if ".format" in source else source
        return compile(read, filename, "exec", dont_inherit=True, optimize=0)  # -O would leave assertions out
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTestsError(f"{type(error).__name__}: {error} in {filename}"[:500]) from None


def innermost(source: str, line: int, *kinds: type[ast.stmt]) -> ast.stmt | None:
    """The smallest statement of these kinds around a line."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds) and node.lineno <= line <= (node.end_lineno or line)
    ]
    return min(around, key=lambda node: ((node.end_lineno or 0) - node.lineno, -node.col_offset), default=None)


def pack(code: TestCode) -> str:
    """Code as text, for a judge that is run by the same Python."""
    return marshal.dumps(code).hex()


def unpack(packed: str) -> TestCode:
    """What was packed. Only ever of what the trainer packed, and only in a judge: reading it trusts every byte."""
    code: TestCode = marshal.loads(bytes.fromhex(packed))
    return code


class Tests:
    """What is run against a program."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self.tests: list[str] = order["tests"]
        self.sources = {file_of(number): test for number, test in enumerate(self.tests)}
        self.sources[SETUP_FILE] = order["setup"]
        self.names: list[str] = order["names"]
        self.imports: list[str] = order.get("imports", [])
        self.stop_at_first: bool = order["stop_at_first"]
        self.message_bytes: int = order["message_bytes"]

    def compiled(self) -> TestCode:
        """The code that came with them, else made here; raises BadTestsError if they are not Python."""
        packed = self._order.get("code")
        return unpack(packed) if packed else compile_tests(self._order["setup"], self._order["tests"])
