"""Analyze trusted Python source without running it: split it into top-level statements, and find the names used.

Never use these functions on a completion: hostile text can cost Python's parser exponential time or the whole stack.
"""

from __future__ import annotations

import ast
import re
import symtable
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from trl_grpo_ext.programs.sandbox.inside.compiled import BadTestsError, compile_tests, pack
from trl_grpo_ext.programs.sandbox.packages import ALWAYS
from trl_grpo_ext.programs.suites.bad_tests import BadTests

_IMPORTERS = ("import_module", "importorskip", "__import__")
_IMPORTING = re.compile(
    rf"\b(?:import|from|{'|'.join(_IMPORTERS)})[\s(]+['\"]?(\w+(?:[\w. \t]*,)?)"
)
# Modules that the judge always has: the standard library, and its own stand-ins for three names.
_OF_JUDGE = sys.stdlib_module_names | {"pytest", "solution", "tests"}
_THERE = _OF_JUDGE | {ALWAYS}
_NEWLINE = re.compile(r"\r\n?")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_CODE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_DEFINITIONS = (ast.Import, ast.ImportFrom, *_ASSIGNMENTS, ast.Pass)
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
            return _usage(self.text, ast.Module([self.node], []))

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
    def is_assignment(self) -> bool:
        return isinstance(self.node, _ASSIGNMENTS)

    @property
    def is_assert(self) -> bool:
        return isinstance(self.node, ast.Assert)

    @property
    def is_star_import(self) -> bool:
        """True for `from module import *`."""
        return isinstance(self.node, ast.ImportFrom) and any(
            alias.name == "*" for alias in self.node.names
        )

    @property
    def is_future(self) -> bool:
        """True for a `__future__` import, which must come first in its file."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"


def nodes_of(parts: Iterable[Statement]) -> list[ast.AST]:
    """List all syntax nodes of several statements, in order."""
    nodes: list[ast.AST] = []
    for part in parts:
        nodes += part.nodes
    return nodes


def reads_of(parts: Iterable[Statement]) -> set[str]:
    """Collect the global names that statements read."""
    return set().union(*(part.usage.reads for part in parts))


def is_empty(node: ast.stmt) -> bool:
    r"""Test for a stub: a function or class with docstrings, `pass`, `...` and `raise` only.

    Examples:
        >>> written = ("def f(): ...", "class A:\n def f(self): pass", "def f(): return 1")
        >>> [is_empty(ast.parse(code).body[0]) for code in written]
        [True, True, False]
    """
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return all(map(is_empty, node.body))
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Pass | ast.Raise)


def binds_of(parts: Iterable[Statement]) -> set[str]:
    """Collect the global names that statements bind."""
    return set().union(*(part.usage.binds for part in parts))


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Collect the names of the `Name` nodes among syntax nodes; inner nodes are not looked at."""
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def arguments_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Collect the names of the parameters among syntax nodes."""
    return {node.arg for node in nodes if isinstance(node, ast.arg)}


def imported_modules(node: ast.AST) -> list[str]:
    """List the top-level names of modules that a statement imports: `a` for `import a.b` and `from .a import b`."""
    if isinstance(node, ast.Import):
        return [top_level(alias.name) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [top_level(node.module)]
    return []


def top_level(module: str) -> str:
    """Return the first part of a module's dotted name."""
    name, _, _ = module.partition(".")
    return name


def used_bare(nodes: Iterable[ast.AST]) -> set[str]:
    """Collect names used bare, not only in front of an attribute."""
    uses: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            # This use will be counted, or has been, as that of a name.
            uses[node.value.id] -= 1
    return {name for name, count in uses.items() if count > 0}


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
    found = []
    for place, node in enumerate(tree.body):
        if _is_alone(place, spans, node):
            start, end = spans[place]
            text = "\n".join(lines[start - 1 : end])
        else:
            # Statements that share a line cannot be told apart by line numbers.
            text = ast.unparse(node)
        found.append(Statement(text, node))
    return found


def all_statements(sources: Iterable[str]) -> list[Statement]:
    """Split several source texts into their top-level statements, in order.

    Raises:
        BadTests: if a text is not Python.
    """
    found = []
    for source in sources:
        found += statements(source)
    return found


def unparsed(node: ast.stmt) -> Statement:
    """Make a statement from a syntax tree."""
    return Statement(ast.unparse(node), node)


def joined(parts: list[Statement]) -> str:
    """Join statements to one source text, `__future__` imports first."""
    # `sorted` is stable, so all other statements keep their order.
    ordered = sorted(parts, key=lambda part: not part.is_future)
    return "\n".join(part.text for part in ordered)


def _span(node: ast.stmt) -> tuple[int, int]:
    """Return a statement's first and last line numbers, decorators included."""
    start = node.lineno
    # The line of a function is that of its `def`, below the decorators.
    for decorator in getattr(node, "decorator_list", []):
        start = min(start, decorator.lineno)
    return start, node.end_lineno or node.lineno


def _is_alone(place: int, spans: list[tuple[int, int]], node: ast.stmt) -> bool:
    """Test that a statement shares no line with another statement."""
    start, end = spans[place]
    is_first = place == 0 or spans[place - 1][1] < start
    is_last = place + 1 == len(spans) or spans[place + 1][0] > end
    return is_first and is_last and node.col_offset == 0


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
    return _usage(source, ast.parse(source))


def _usage(source: str, tree: ast.Module) -> Usage:
    """Find the global names that a source text reads and binds, given its syntax tree."""
    reads: set[str] = set()
    reads_at_once: set[str] = set()
    binds: set[str] = set()
    comprehended = _only_comprehended(tree)
    waiting = [(symtable.symtable(source, "<tests>", "exec"), True)]
    while waiting:
        table, runs_at_once = waiting.pop()
        for symbol in table.get_symbols():
            name = symbol.get_name()
            if _is_module(table) and name in comprehended:
                continue
            if _is_global_read(symbol, table):
                reads.add(name)
                if runs_at_once:
                    reads_at_once.add(name)
            if _binds_global(symbol, table):
                binds.add(name)
        for child in table.get_children():
            waiting.append((child, runs_at_once and _runs_at_once(child)))
    free = _names_changed(tree)
    if comprehended:
        free |= comprehended & names_in(_outside_comprehensions(tree))
    return Usage(frozenset(reads | free), frozenset(reads_at_once | free), frozenset(binds))


def _names_changed(tree: ast.Module) -> set[str]:
    """Collect names read by `n += 1` and `del n`, which symbol tables list as bindings only."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.AugAssign):
            found |= names_in([node.target])
        elif isinstance(node, ast.Delete):
            found |= names_in(node.targets)
    return found


def imported_packages(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the import names of packages in source texts, without modules that are always available.

    Examples:
        >>> imported_packages(["import os, pandas.testing", "def f(): from yaml import load", "import numpy as np"])
        ('pandas', 'yaml')
    """
    found: set[str] = set()
    for source in sources:
        if _may_import(source, _THERE):
            tree = parse(source) or ast.Module([], [])
            for node in ast.walk(tree):
                found.update(_modules(node))
    # A relative name, as in `import_module(".a")`, has no top level.
    return tuple(sorted(found - _THERE - {""}))


def required_packages(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that source texts import unconditionally: not in a branch, a loop or a `try`.

    Examples:
        >>> required_packages(["import os, pandas", "if f(): import yaml", "def test(): import scipy.stats"])
        ('pandas', 'scipy')
    """
    found: set[str] = set()
    for source in sources:
        if not _may_import(source, _OF_JUDGE):
            continue
        tree = parse(source) or ast.Module([], [])
        waiting = list(tree.body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update(_modules(node))
            elif isinstance(node, (*_CODE, ast.With)):
                waiting += node.body
    return tuple(sorted(found - _OF_JUDGE))


def _may_import(source: str, known: frozenset[str]) -> bool:
    """Prefilter by regex: test if a source may import a package; parsing megabytes of tests would take long."""
    return not known.issuperset(_IMPORTING.findall(source))


def _modules(node: ast.AST) -> list[str]:
    """List the top-level names of modules that a node imports, by a statement or by a call such as `import_module`."""
    if isinstance(node, ast.ImportFrom) and node.level:
        return []
    if isinstance(node, ast.Call) and node.args:
        _, _, function = ast.unparse(node.func).rpartition(".")
        name = node.args[0]
        if (
            function in _IMPORTERS
            and isinstance(name, ast.Constant)
            and isinstance(name.value, str)
        ):
            return [top_level(name.value)]
    return imported_modules(node)


def _only_comprehended(tree: ast.Module) -> set[str]:
    """Collect the names bound only as variables of comprehensions.

    From Python 3.12 on, symbol tables list such variables as globals.
    """
    variables: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension):
            variables |= names_in(ast.walk(node.target))
    # Most code has no comprehension, and each further walk takes as long as parsing.
    if not variables:
        return variables
    bound = _declared(ast.walk(tree))
    for node in _outside_comprehensions(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
    return variables - bound


def _outside_comprehensions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield syntax nodes outside comprehensions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _COMPREHENSION_NODES):
            yield node
            waiting += ast.iter_child_nodes(node)


def _declared(nodes: Iterable[ast.AST]) -> set[str]:
    """Collect names bound without a `Name` node, such as by `def`, `import`, `except` and `case`."""
    found = set()
    for node in nodes:
        for field in ("name", "asname", "arg", "rest"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                # `import a.b` binds `a`.
                found.add(top_level(value))
    return found


def _is_global_read(symbol: symtable.Symbol, table: symtable.SymbolTable) -> bool:
    return symbol.is_referenced() and (symbol.is_global() or _is_module(table))


def _binds_global(symbol: symtable.Symbol, table: symtable.SymbolTable) -> bool:
    bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    if _is_module(table):
        # A walrus in a comprehension makes a declared global that no function declares.
        return bound or (
            symbol.is_declared_global()
            and not _is_declared_within(symbol.get_name(), table)
        )
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
