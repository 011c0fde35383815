"""Trusted Python source, read without running it: parsed, and cut into its top-level statements.

Never used on a completion. Python's parser has met hostile text that it takes exponential time or all of its stack for.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from trl_grpo_ext.rewards.unit_test_suites.bad_tests import BadTests
from trl_grpo_ext.rewards.unit_test_suites.usage import Usage, usage
from trl_grpo_ext.sandbox.inside.compiled import BadTestsError, compile_tests, pack

_NEWLINE = re.compile(r"\r\n?")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Statement:
    """A top-level statement: its text with comments and decorators, and its tree."""

    text: str
    node: ast.stmt

    @cached_property
    def usage(self) -> Usage:
        """The names that it reads and binds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return usage(self.text)

    @property
    def is_definition(self) -> bool:
        """Whether it only gives names their meaning: an import, a function, a class, an assignment, a docstring."""
        if isinstance(self.node, ast.Expr):
            return isinstance(self.node.value, ast.Constant)
        return isinstance(self.node, (*_DEFINITIONS, *_CODE))

    @property
    def is_code(self) -> bool:
        """Whether it is a function or a class, whose body does not run at once."""
        return isinstance(self.node, _CODE)

    @property
    def is_assert(self) -> bool:
        return isinstance(self.node, ast.Assert)

    @property
    def is_star_import(self) -> bool:
        """Whether it imports every name of a module."""
        return isinstance(self.node, ast.ImportFrom) and any(alias.name == "*" for alias in self.node.names)

    @property
    def is_future(self) -> bool:
        """Whether it must come first in its file."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"


_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Pass)


def parse(source: str) -> ast.Module | None:
    """The tree of a source; None if it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as for "\d", which is none of the user's doing
            return ast.parse(source)
    except _UNREADABLE:
        return None


def _compiles(tree: ast.Module) -> bool:
    """Whether the compiler takes it too, which refuses `return` at the top and the like."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "<tests>", "exec", dont_inherit=True)
    except _UNREADABLE:
        return False
    return True


def packed(setup: str, tests: Sequence[str]) -> str:
    """Tests as code for judges, who would each take longer to compile them than to run them; "" if they do not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pack(compile_tests(setup, tests))
    except BadTestsError:  # to be said by a judge
        return ""


def statements(source: str) -> list[Statement]:
    """The top-level statements of a source.

    Raises:
        BadTests: if it is no Python.
    """
    source = _NEWLINE.sub("\n", source)
    tree = parse(source)
    if tree is None or not _compiles(tree):
        raise BadTests("tests_do_not_parse", source)
    lines = source.split("\n")
    spans = [_span(node) for node in tree.body]
    return [
        Statement("\n".join(lines[start - 1 : end]) if _is_alone(index, spans, node) else ast.unparse(node), node)
        for index, (node, (start, end)) in enumerate(zip(tree.body, spans, strict=True))
    ]


def unparsed(node: ast.stmt) -> Statement:
    """A statement made of a tree."""
    return Statement(ast.unparse(node), node)


def joined(parts: list[Statement]) -> str:
    """The statements as one source, those that must come first in front."""
    return "\n".join(part.text for part in sorted(parts, key=lambda part: not part.is_future))


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]), node.end_lineno or node.lineno


def _is_alone(index: int, spans: list[tuple[int, int]], node: ast.stmt) -> bool:
    """Whether no other statement shares a line with this one."""
    start, end = spans[index]
    before = index == 0 or spans[index - 1][1] < start
    after = index + 1 == len(spans) or spans[index + 1][0] > end
    return before and after and node.col_offset == 0
