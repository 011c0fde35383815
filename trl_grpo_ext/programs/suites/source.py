"""Analyze trusted Python source without running it: split it into top-level statements, and find the names used.

Never use these functions on a completion: hostile text can cost Python's parser exponential time or the whole stack.
"""

from __future__ import annotations

import ast
import re
import symtable
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from trl_grpo_ext.programs.sandbox.inside.compiled import BadTestsError, compile_tests, pack
from trl_grpo_ext.programs.sandbox.packages import ALWAYS
from trl_grpo_ext.programs.suites.bad_tests import BadTests

_IMPORTERS = ("import_module", "importorskip", "__import__")
_IMPORTING = re.compile(rf"\b(?:import|from|{'|'.join(_IMPORTERS)})[\s(]+['\"]?(\w+(?:[\w. \t]*,)?)")
# Modules that the judge always has: the standard library, and its own stand-ins for three names.
_OF_JUDGE = sys.stdlib_module_names | {"pytest", "solution", "tests"}
_THERE = _OF_JUDGE | {ALWAYS}
_NEWLINE = re.compile(r"\r\n?")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Pass)
_COMPREHENSIONS = frozenset({"listcomp", "setcomp", "dictcomp", "genexpr"})
_COMPREHENSION_NODES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Statement:
    """A top-level statement: its source text, with comments and decorators, and its syntax tree."""

    text: str
    node: ast.stmt

    @cached_property
    def usage(self) -> Usage:
        """The global names that the statement reads and binds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return usage(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the statement's syntax tree, the statement's own first."""
        return tuple(ast.walk(self.node))

    @property
    def is_definition(self) -> bool:
        """True for statements that only define: imports, functions, classes, assignments, `pass` and docstrings."""
        if isinstance(self.node, ast.Expr):
            return isinstance(self.node.value, ast.Constant)
        return isinstance(self.node, (*_DEFINITIONS, *_CODE))

    @property
    def is_code(self) -> bool:
        """True for a function or class definition."""
        return isinstance(self.node, _CODE)

    @property
    def is_assert(self) -> bool:
        return isinstance(self.node, ast.Assert)

    @property
    def is_star_import(self) -> bool:
        """True for `from module import *`."""
        return isinstance(self.node, ast.ImportFrom) and any(alias.name == "*" for alias in self.node.names)

    @property
    def is_future(self) -> bool:
        """True for a `__future__` import, which must come first in its file."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"


def nodes_of(parts: Iterable[Statement]) -> list[ast.AST]:
    """List all syntax nodes of several statements, in order."""
    return [node for part in parts for node in part.nodes]


def parse(source: str) -> ast.Module | None:
    """Parse a source text; None for invalid Python."""
    try:
        with warnings.catch_warnings():
            # The user cannot help warnings such as that of "\d" in a dataset's tests.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except _UNREADABLE:
        return None


def _compiles(tree: ast.Module) -> bool:
    """Test that the compiler accepts the tree: it also refuses, for example, `return` at the top level."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "<tests>", "exec", dont_inherit=True)
    except _UNREADABLE:
        return False
    return True


def packed(setup: str, tests: Sequence[str]) -> str:
    """Compile tests once for all judges, since compiling takes longer than running; "" if they do not compile."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pack(compile_tests(setup, tests))
    except BadTestsError:
        # A judge will report the error.
        return ""


def statements(source: str) -> list[Statement]:
    """Split a source text into its top-level statements.

    Raises:
        BadTests: if the text is not Python.
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
    """Make a statement from a syntax tree."""
    return Statement(ast.unparse(node), node)


def joined(parts: list[Statement]) -> str:
    """Join statements to one source text, `__future__` imports first."""
    return "\n".join(part.text for part in sorted(parts, key=lambda part: not part.is_future))


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]), node.end_lineno or node.lineno


def _is_alone(index: int, spans: list[tuple[int, int]], node: ast.stmt) -> bool:
    """Test that the statement shares no line with another statement."""
    start, end = spans[index]
    before = index == 0 or spans[index - 1][1] < start
    after = index + 1 == len(spans) or spans[index + 1][0] > end
    return before and after and node.col_offset == 0


@dataclass(frozen=True, slots=True)
class Usage:
    """The global names that code reads and binds.

    Attributes:
        reads: Global names read anywhere in the code.
        reads_at_once: Global names read when the code itself runs, not only when a function defined in it is called.
        binds: Global names bound by assignment, import, definition, or `global` in a function.
    """

    reads: frozenset[str]
    reads_at_once: frozenset[str]
    binds: frozenset[str]


def usage(source: str) -> Usage:
    """Find the global names that a source text reads and binds.

    Examples:
        >>> found = usage("import math\\ndef f(x):\\n    return math.sqrt(g(x))")
        >>> sorted(found.reads), sorted(found.reads_at_once), sorted(found.binds)
        (['g', 'math'], [], ['f', 'math'])
    """
    reads: set[str] = set()
    at_once: set[str] = set()
    binds: set[str] = set()
    tree = ast.parse(source)
    hidden, loaded = _comprehension_names(tree)
    tables = [(symtable.symtable(source, "<tests>", "exec"), True)]
    while tables:
        table, runs = tables.pop()
        symbols = [each for each in table.get_symbols() if each.get_name() not in (hidden if _is_module(table) else ())]
        read = {symbol.get_name() for symbol in symbols if _is_global_read(symbol, table)}
        reads |= read
        at_once |= read if runs else set()
        binds |= {symbol.get_name() for symbol in symbols if _binds_global(symbol, table)}
        tables += [(child, runs and _runs_at_once(child)) for child in table.get_children()]
    # `n += 1` also reads n.
    augmented = [node.target for node in tree.body if isinstance(node, ast.AugAssign)]
    # `del n` uses n, and symbol tables have it as a binding only.
    deleted = [target for node in tree.body if isinstance(node, ast.Delete) for target in node.targets]
    free = (hidden & loaded) | {target.id for target in [*augmented, *deleted] if isinstance(target, ast.Name)}
    return Usage(frozenset(reads | free), frozenset(at_once | free), frozenset(binds))


def imported_packages(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the import names of packages in source texts, without modules that are always available.

    Examples:
        >>> imported_packages(["import os, pandas.testing", "def f(): from yaml import load", "import numpy as np"])
        ('pandas', 'yaml')
    """
    found = {name for source in sources if _may_import(source) for name in _imported(source)}
    return tuple(sorted(found - _THERE - {""}))


def required_packages(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that source texts import unconditionally: not in a branch, a loop or a `try`.

    Examples:
        >>> required_packages(["import os, pandas", "if f(): import yaml", "def test(): import scipy.stats"])
        ('pandas', 'scipy')
    """
    found: set[str] = set()
    for source in sources:
        if not {*_IMPORTING.findall(source)} - _OF_JUDGE:
            continue
        waiting: list[ast.stmt] = [*(parse(source) or ast.Module([], [])).body]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= {*_imported(ast.unparse(node))}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.With):
                waiting += node.body
    return tuple(sorted(found - _OF_JUDGE - {""}))


def _may_import(source: str) -> bool:
    """Prefilter by regex: test if a source may import a package; parsing megabytes of tests would take long."""
    return bool({*_IMPORTING.findall(source)} - _THERE)


def _imported(source: str) -> Iterator[str]:
    """Yield the top-level names of all imported modules; nothing for invalid Python."""
    for node in ast.walk(parse(source) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in _IMPORTERS:
            name = node.args[0]
            yield name.value.partition(".")[0] if isinstance(name, ast.Constant) and type(name.value) is str else ""


def _comprehension_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the names used only as comprehension variables, and the names used outside comprehensions.

    From Python 3.12 on, symbol tables list comprehension variables as globals.
    """
    nodes = list(ast.walk(tree))
    comprehensions = [node for node in nodes if isinstance(node, _COMPREHENSION_NODES)]
    inner = {id(node) for each in comprehensions for node in ast.walk(each)}
    targets = [node for each in comprehensions for loop in each.generators for node in ast.walk(loop.target)]
    outside = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in inner]
    bound = {node.id for node in outside if not isinstance(node.ctx, ast.Load)} | _declared(nodes)
    hidden = {node.id for node in targets if isinstance(node, ast.Name)} - bound
    return hidden, {node.id for node in outside}


def _declared(nodes: list[ast.AST]) -> set[str]:
    """Collect names bound without a `Name` node, such as by `def`, `import`, `except` and `case`."""
    fields = ("name", "asname", "arg", "rest")
    values = (getattr(node, key, None) for node in nodes for key in fields)
    return {value.partition(".")[0] for value in values if isinstance(value, str)}


def _is_global_read(symbol: symtable.Symbol, table: symtable.SymbolTable) -> bool:
    return symbol.is_referenced() and (symbol.is_global() or _is_module(table))


def _binds_global(symbol: symtable.Symbol, table: symtable.SymbolTable) -> bool:
    bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    if _is_module(table):
        # A walrus in a comprehension makes a declared global that no function declares.
        return bound or (symbol.is_declared_global() and not _is_declared_within(symbol.get_name(), table))
    return bound and symbol.is_declared_global()


def _is_declared_within(name: str, table: symtable.SymbolTable) -> bool:
    within = list(table.get_children())
    while within:
        child = within.pop()
        if name in child.get_identifiers() and child.lookup(name).is_declared_global():
            return True
        within += child.get_children()
    return False


def _is_module(table: symtable.SymbolTable) -> bool:
    return table.get_type() == "module"


def _runs_at_once(table: symtable.SymbolTable) -> bool:
    return table.get_type() != "function" or table.get_name() in _COMPREHENSIONS
