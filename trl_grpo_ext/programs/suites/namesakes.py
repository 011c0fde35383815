"""Decide whether a called name such as `gcd` or `max`, defined by Python too, means the program's function or Python's.

The dataset row decides, never the program: otherwise a program could replace a helper of the tests, such as `isclose`.
The name belongs to the program in three cases:

* The tests import it from `solution`, or the row's entry point has this name.
* The row has a reference solution that defines the name.
* The row has no reference solution, and a test, or an assertion on literals, calls the name and uses nothing else from
  the program: otherwise the test would test Python.

In all other cases, the name is Python's. Without a reference solution, a builtin belongs to the program only if the
tests call it with literals alone and use other names from the program, and neither an entry point nor an import names
the program's builtins: a builtin called on results does work for the tests.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from trl_grpo_ext.programs.suites.solution_imports import SOLUTION
from trl_grpo_ext.programs.suites.source import (
    Statement,
    arguments_in,
    binds_of,
    names_in,
    nodes_of,
    parse,
    statements,
    usage,
)

_HOMES = {
    "typing": (
        "Any Callable DefaultDict Deque Dict FrozenSet Generator Generic Iterable Iterator List Literal Mapping "
        "NamedTuple Optional Sequence Set Tuple Type TypeVar Union"
    ),
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "dataclasses": "dataclass field",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "functools": "lru_cache partial reduce",
    "itertools": "chain combinations permutations product",
    "math": "ceil floor gcd inf isclose isnan nan pi sqrt tau",
    "pytest": "approx raises",
    "random": "randint",
    "copy": "deepcopy",
    "unittest": "TestCase",
}
HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
"""Modules of names that tests often forget to import."""
_OF_TESTS = frozenset({"typing", "dataclasses", "pytest", "unittest"})
_SHARED = frozenset(name for name, module in HOME_OF.items() if module not in _OF_TESTS)
# Builtin functions that exercises ask programs to implement.
_REWRITTEN = frozenset(
    {
        "abs",
        "all",
        "any",
        "bin",
        "chr",
        "divmod",
        "filter",
        "hex",
        "len",
        "map",
        "max",
        "min",
        "oct",
        "ord",
        "pow",
    }
    | {"reversed", "round", "sorted", "sum", "zip"}
)
_BUILTINS = frozenset(dir(builtins))
_HOOKS = frozenset({"setup_function", "setup_module", "setUpModule"})
_Code = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def defined_names(reference: str | None) -> frozenset[str] | None:
    """Find functions and classes defined by a reference solution.

    Imported names do not count: the reference solution uses Python's.

    Returns:
        The names; None without a reference solution, without definitions, or for invalid Python.

    Examples:
        >>> sorted(defined_names("from math import sqrt\\ndef gcd(a, b): pass\\ndouble = lambda x: 2 * x"))
        ['double', 'gcd']
    """
    if reference is None:
        return None
    tree = parse(reference) or ast.Module([], [])
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, _Code):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found |= names_in(node.targets)
    return frozenset(found) or None


class Namesakes(NamedTuple):
    """A row's tests and reference solution, which decide the owner of each namesake.

    A namesake is a name that both the program and Python may define.

    Attributes:
        setup: The statements before the tests.
        tests: A code snippet per test.
        parts: The statements of setup and tests.
        elsewhere: Names that the tests bind or import themselves.
        reference: Names that the row's reference solution defines; None without a reference.
        names_all: True if an entry point, or imports other than `*`, name all builtins that the program defines.
    """

    setup: Sequence[Statement]
    tests: Sequence[str]
    parts: Sequence[Statement]
    elsewhere: Collection[str]
    reference: frozenset[str] | None
    names_all: bool

    def of_program(self, known: Collection[str]) -> set[str]:
        """Find namesakes that belong to the program.

        Args:
            known: Names that belong to the program in any case.
        """
        nodes = nodes_of(self.parts)
        if self.reference is not None:
            used = called(nodes) | _passed(nodes)
            defined = self.reference & (_SHARED | _BUILTINS)
            return set(defined & used).difference(self.elsewhere)
        shared = (_SHARED & called(nodes)).difference(self.elsewhere)
        rewritten: set[str] = set()
        if known and not self.names_all:
            rewritten = _on_literals(nodes).difference(self.elsewhere)
        found = _asserted_alone(self.parts, shared | rewritten)
        if shared:
            found |= self._tested_alone(shared, known)
        return found

    def _tested_alone(self, shared: Set[str], known: Collection[str]) -> set[str]:
        """Find shared names called by a test that uses no other program name."""
        found: set[str] = set()
        for test in self.tests:
            unit = _unit(test, self.setup)
            candidates = unit.called & shared
            if len(candidates) == 1 and unit.reads.isdisjoint({*known, SOLUTION}):
                found |= candidates
        return found


def _asserted_alone(parts: Sequence[Statement], suspects: Set[str]) -> set[str]:
    """Find suspects called by an assertion that uses no other program name."""
    found: set[str] = set()
    if suspects:
        for node in _asserting(part.node for part in parts):
            for name in suspects - found:
                if _calls_only(node, {name}):
                    found.add(name)
    return found


class _Unit(NamedTuple):
    """Names called by a test, and names read by the test with its helpers and setup."""

    called: set[str]
    reads: set[str]


def _unit(test: str, setup: Sequence[Statement]) -> _Unit:
    reads: set[str] = set()
    nodes: list[ast.AST] = []
    for body in _bodies(test, setup):
        # `symtable`, which `usage` asks, reads texts and no trees.
        reads |= usage(ast.unparse(body)).reads | _taken(body)
        nodes += ast.walk(body)
    return _Unit(called(nodes), _with_needs(reads, setup))


def _bodies(test: str, setup: Sequence[Statement]) -> list[ast.stmt]:
    """Return a snippet's statements, with the body of each test function or class that the snippet names."""
    parts = statements(test)
    bodies = [part.node for part in parts]
    nodes = nodes_of(parts)
    named = names_in(nodes)
    for node in nodes:
        # A test's runner gets the name of the test as text.
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named.add(node.value)
    for part in setup:
        body = part.node
        if (
            isinstance(body, _Function)
            and body.name.startswith("test")
            and body.name in named
        ):
            bodies.append(body)
        elif isinstance(body, ast.ClassDef) and body.name in named:
            bodies += [inner for inner in body.body if not _is_other_test(inner, named)]
    return bodies


def _is_other_test(node: ast.stmt, named: set[str]) -> bool:
    return (
        isinstance(node, _Function)
        and node.name.startswith("test")
        and node.name not in named
    )


def _taken(body: ast.stmt) -> set[str]:
    """Return names that a statement uses other than as global names: fixtures (as arguments) and imported modules."""
    nodes = list(ast.walk(body))
    found = arguments_in(nodes)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


def _with_needs(names: set[str], setup: Sequence[Statement]) -> set[str]:
    """Add names that the setup reads to bind these names, or to change their values, transitively."""
    parts = [
        part for part in setup if not isinstance(part.node, ast.Import | ast.ImportFrom)
    ]
    values = binds_of(parts)
    # The runner calls the hooks before each test, so each test needs what they read.
    found = names | _HOOKS
    while True:
        linked = found & values
        more: set[str] = set()
        for part in parts:
            changes = not part.is_code and not linked.isdisjoint(part.usage.reads)
            if changes or not linked.isdisjoint(part.usage.binds):
                more |= part.usage.reads | part.usage.binds | _taken(part.node)
        if more <= found:
            return found
        found |= more


def called(nodes: Iterable[ast.AST]) -> set[str]:
    """Return called names: `f` in `f(1)`."""
    return names_in(node.func for node in nodes if isinstance(node, ast.Call))


def _passed(nodes: Iterable[ast.AST]) -> set[str]:
    """Return names passed to calls: `f` in `check(f)`."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call):
            found |= names_in(node.args)
    return found


def handed_on(nodes: Iterable[ast.AST]) -> set[str]:
    """Find a builtin function whose result goes to a helper of the tests: `sum` in `check(sum(1, 2), 3)`.

    Return an empty set for several builtins. A builtin class does not count: `set` only converts a result.
    """
    nodes = list(nodes)
    helpers = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    handed: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call) and not called([node]).isdisjoint(helpers):
            handed |= called(node.args)
    found = set()
    for name in handed & _BUILTINS - helpers:
        if not isinstance(getattr(builtins, name, None), type):
            found.add(name)
    if len(found) != 1:
        return set()
    return found


def _on_literals(nodes: Sequence[ast.AST]) -> set[str]:
    """Find builtins of `_REWRITTEN` used only in calls with literal arguments: `max` in `max(1, 2)`."""
    uses: Counter[str] = Counter()
    on_literals: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Call) and _has_literals_only(node):
            on_literals.update(called([node]))
    return {name for name in _REWRITTEN if uses[name] and uses[name] == on_literals[name]}


def _has_literals_only(call: ast.Call) -> bool:
    inner: list[ast.AST] = []
    for value in [*call.args, *call.keywords]:
        inner += ast.walk(value)
    # The parameters of a lambda are its own.
    return names_in(inner) <= arguments_in(inner)


def tests_of_python(
    source: str, taken: Collection[str], names: Collection[str]
) -> list[str]:
    """Return test statements that call Python's namesakes and nothing from the program.

    Args:
        source: The tests, setup included.
        taken: Names taken from Python's library because the tests do not import them.
        names: Names taken from the program.

    Examples:
        >>> tests_of_python("assert gcd(12, 8) == 4\\nassert lcm(4, 6) == 12", ["gcd"], ["lcm"])
        ['assert gcd(12, 8) == 4']
    """
    tree = parse(source) or ast.Module([], [])
    rewritten = _on_literals(list(ast.walk(tree))).difference(names)
    suspects = _SHARED.intersection(taken) | rewritten
    return [
        ast.unparse(node) for node in _asserting(tree.body) if _calls_only(node, suspects)
    ]


def _asserting(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the innermost asserting statements; a loop, or a block that must raise, counts as a single statement."""
    for node in body:
        if isinstance(node, _Code | ast.If | ast.Try):
            yield from _asserting(
                inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)
            )
        elif isinstance(node, ast.With) and not any(_asserts(item) for item in node.items):
            yield from _asserting(node.body)
        elif any(_asserts(inner) for inner in ast.walk(node)):
            yield node


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.withitem):
        node = node.context_expr
    if isinstance(node, ast.Call):
        _, _, function = ast.unparse(node.func).rpartition(".")
        return function == "raises" or function.startswith("assert")
    return isinstance(node, ast.Assert)


def _calls_only(node: ast.stmt, suspects: Collection[str]) -> bool:
    nodes = list(ast.walk(node))
    own = arguments_in(nodes)
    for inner in nodes:
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            own.add(inner.id)
    # Words of test classes and of pytest are nobody's functions.
    rest = names_in(nodes) - own - _BUILTINS - {"self", "pytest", "raises"}
    return not called(nodes).isdisjoint(suspects) and rest.issubset(suspects)
