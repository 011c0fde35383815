"""Decide whose a name is that tests call and Python has too, such as `gcd` or `max`: the program's, or Python's.

The row decides, and never the program, which could else replace a helper of the tests, such as `isclose`. The name is
the program's

* if the tests import it from `solution`, or the row's entry point is so called;
* if the row has a reference solution, and that defines the name;
* if the row has none, and one of the tests, or of its assertions on literals, calls the name and takes nothing else
  from the program: it would test Python.

Any other such name is Python's. Without a reference, a builtin is the program's only if the tests call it with nothing
but literals and take other names from the program, and if neither an entry point nor an import names these: a builtin
that the tests call on results does their own work.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from trl_grpo_ext.rewards.unit_tests.solution_imports import SOLUTION
from trl_grpo_ext.rewards.unit_tests.source import Statement, parse, statements, usage

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
"""By name that tests often forget to import: the module that has it."""
_OF_TESTS = frozenset({"typing", "dataclasses", "pytest", "unittest"})
_SHARED = frozenset(name for name, module in HOME_OF.items() if module not in _OF_TESTS)
# Builtin functions that exercises have a program write.
_REWRITTEN = frozenset(
    {"abs", "all", "any", "bin", "chr", "divmod", "filter", "hex", "len", "map", "max", "min", "oct", "ord", "pow"}
    | {"reversed", "round", "sorted", "sum", "zip"}
)
_BUILTINS = frozenset(dir(builtins))
_HOOKS = frozenset({"setup_function", "setup_module", "setUpModule"})
_Code = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def defined_names(reference: str | None) -> frozenset[str] | None:
    """Find the functions and classes that a reference solution defines; None if there is none, or it is not Python.

    A name that it imports is Python's there too.

    Examples:
        >>> sorted(defined_names("from math import sqrt\\ndef gcd(a, b): pass\\ndouble = lambda x: 2 * x"))
        ['double', 'gcd']
    """
    tree = parse(reference) if reference is not None else None
    found: set[str] = set()
    for node in tree.body if tree is not None else ():
        if isinstance(node, _Code):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(found) or None


class Namesakes(NamedTuple):
    """What decides whose a name is that Python has too.

    Attributes:
        setup: The statements in front of the tests.
        tests: One code snippet per test.
        elsewhere: Names that the tests bind or import themselves.
        reference: The names that the row's reference solution defines; None without a reference.
        names_all: True if an entry point, or imports that are not `*`, name all builtins that are the program's.
    """

    setup: Sequence[Statement]
    tests: Sequence[str]
    elsewhere: Collection[str]
    reference: frozenset[str] | None
    names_all: bool

    def of_program(self, known: Collection[str]) -> set[str]:
        """Find the namesakes that are the program's; `known` are the names that are the program's in any case."""
        parts = [*self.setup, *(part for test in self.tests for part in statements(test))]
        nodes = [node for part in parts for node in ast.walk(part.node)]
        if self.reference is not None:
            used = called(nodes) | _passed(nodes)
            return set(self.reference & (_SHARED | _BUILTINS) & used).difference(self.elsewhere)
        shared = (_SHARED & called(nodes)).difference(self.elsewhere)
        rewritten = _on_literals(nodes).difference(self.elsewhere) if known and not self.names_all else set()
        if not shared and not rewritten:
            return set()
        asserting = list(_asserting(part.node for part in parts))
        found = {name for name in shared | rewritten if any(_calls_only(node, {name}) for node in asserting)}
        for test in self.tests if shared else ():
            unit = _unit(test, self.setup)
            candidates = unit.called & shared
            if len(candidates) == 1 and unit.reads.isdisjoint({*known, SOLUTION}):
                found |= candidates
        return found


class _Unit(NamedTuple):
    """The names that one test calls itself, and all that it reads, helpers and setup included."""

    called: set[str]
    reads: set[str]


def _unit(test: str, setup: Sequence[Statement]) -> _Unit:
    bodies = _bodies(test, setup)
    reads = {name for body in bodies for name in usage(ast.unparse(body)).reads | _taken(body)}
    return _Unit(called(node for body in bodies for node in ast.walk(body)), _with_needs(reads, setup))


def _bodies(test: str, setup: Sequence[Statement]) -> list[ast.stmt]:
    """Return the statements of a snippet, and of the test function or method that it names."""
    bodies = [part.node for part in statements(test)]
    nodes = [node for body in bodies for node in ast.walk(body)]
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    named |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for part in setup:
        node = part.node
        if isinstance(node, _Function) and node.name.startswith("test") and node.name in named:
            bodies.append(node)
        elif isinstance(node, ast.ClassDef) and node.name in named:
            bodies += [inner for inner in node.body if not _is_other_test(inner, named)]
    return bodies


def _is_other_test(node: ast.stmt, named: set[str]) -> bool:
    return isinstance(node, _Function) and node.name.startswith("test") and node.name not in named


def _taken(body: ast.stmt) -> set[str]:
    """Return what a statement takes but by a global name: fixtures, as arguments, and modules that it imports."""
    nodes = list(ast.walk(body))
    found = {node.arg for node in nodes if isinstance(node, ast.arg)}
    found |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return found | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def _with_needs(names: set[str], setup: Sequence[Statement]) -> set[str]:
    """Add, transitively, what the setup reads to bind the names, and in statements that may change their values."""
    parts = [part for part in setup if not isinstance(part.node, ast.Import | ast.ImportFrom)]
    values = {name for part in parts for name in part.usage.binds}
    found = names | _HOOKS
    while True:
        linked = found & values
        needed = [part for part in parts if part.usage.binds & linked]
        needed += [part for part in parts if not part.is_code and part.usage.reads & linked]
        more = {name for part in needed for name in part.usage.reads | part.usage.binds | _taken(part.node)}
        if more <= found:
            return found
        found |= more


def called(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that are called: `f` in `f(1)`."""
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _passed(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that are passed to a call: `f` in `check(f)`."""
    given = [value for node in nodes if isinstance(node, ast.Call) for value in node.args]
    return {value.id for value in given if isinstance(value, ast.Name)}


def handed_on(nodes: Iterable[ast.AST]) -> set[str]:
    """Find the builtin function whose result goes to a helper of the tests: `sum` in `check(sum(1, 2), 3)`.

    Return an empty set if there are several. A builtin class does not count: `set` only converts a result.
    """
    nodes = list(nodes)
    helpers = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    handed = called(part for call in calls if called([call]) & helpers for part in call.args)
    found = {name for name in handed & _BUILTINS - helpers if not isinstance(getattr(builtins, name, None), type)}
    return found if len(found) == 1 else set()


def _on_literals(nodes: Sequence[ast.AST]) -> set[str]:
    """Find the builtins of `_REWRITTEN` that are only called, and with nothing but literals: `max` in `max(1, 2)`."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    literal = Counter(call.func.id for call in calls if isinstance(call.func, ast.Name) and _has_literals_only(call))
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    return {name for name, count in literal.items() if name in _REWRITTEN and uses[name] == count}


def _has_literals_only(call: ast.Call) -> bool:
    inner = [node for value in [*call.args, *call.keywords] for node in ast.walk(value)]
    own = {node.arg for node in inner if isinstance(node, ast.arg)}
    return all(node.id in own for node in inner if isinstance(node, ast.Name))


def tests_of_python(source: str, taken: Collection[str], names: Collection[str]) -> list[str]:
    """Return the statements of tests that call a namesake of Python's and nothing of the program.

    Args:
        source: The tests, setup included.
        taken: Names that were taken from Python's library since the tests do not import them.
        names: Names that were taken from the program.

    Examples:
        >>> tests_of_python("assert gcd(12, 8) == 4\\nassert lcm(4, 6) == 12", ["gcd"], ["lcm"])
        ['assert gcd(12, 8) == 4']
    """
    tree = parse(source) or ast.Module([], [])
    suspects = _SHARED.intersection(taken) | _on_literals(list(ast.walk(tree))).difference(names)
    return [ast.unparse(node) for node in _asserting(tree.body) if _calls_only(node, suspects)]


def _asserting(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the innermost statements that assert something; a loop, or a block that must raise, is one statement."""
    for node in body:
        if isinstance(node, _Code | ast.If | ast.Try):
            yield from _asserting(inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt))
        elif isinstance(node, ast.With) and not any(_asserts(item) for item in node.items):
            yield from _asserting(node.body)
        elif any(_asserts(inner) for inner in ast.walk(node)):
            yield node


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.withitem):
        node = node.context_expr
    name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return isinstance(node, ast.Assert) or name == "raises" or name.startswith("assert")


def _calls_only(node: ast.stmt, suspects: Collection[str]) -> bool:
    nodes = list(ast.walk(node))
    own = {inner.id for inner in nodes if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}
    own |= {inner.arg for inner in nodes if isinstance(inner, ast.arg)}
    read = {inner.id for inner in nodes if isinstance(inner, ast.Name)} - own
    rest = read - _BUILTINS - {"self", "pytest", "raises"}
    return bool(called(nodes) & {*suspects}) and rest <= {*suspects}
