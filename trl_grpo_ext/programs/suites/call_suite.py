"""Build a suite of calls: split test code into a setup and tests, and find the names that the solution must supply.

The setup must not call the solution: an error in the setup is the data's fault, so a policy could void its rows by
failing there. Statements that need the solution go in front of each test instead.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from trl_grpo_ext.programs.sandbox.job import CallSuite
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.namesakes import HOME_OF, Namesakes, called, handed_on
from trl_grpo_ext.programs.suites.program import PromptCode
from trl_grpo_ext.programs.suites.solution_imports import (
    imports_solution,
    is_solution_import,
    solution_modules,
    with_solution_for_unknown,
    without_solution_imports,
)
from trl_grpo_ext.programs.suites.source import Statement, joined, nodes_of, packed, required_packages, statements
from trl_grpo_ext.programs.suites.test_module import Module, check_pytest_names, mentions_pytest, shim_setup

_MODULE_NAMES = frozenset(
    {"__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__package__", "__loader__", "__annotations__"}
)
_BUILTINS = frozenset(dir(builtins)) | _MODULE_NAMES
_ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sp": "scipy", "tf": "tensorflow"}
_THIRD_PARTY = frozenset({"numpy", "pandas", "scipy", "sympy", "torch", "pytest"})
_FILES = frozenset(
    {"open", "tempfile", "mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"}
    | {"tmp_path", "tmp_path_factory", "write_text", "write_bytes", "makedirs"}
)
"""Names by which tests are known to use files; `open` as an attribute is something else's."""
FORGOTTEN = "  # the tests forgot to import it"
# Packages of the standard library with modules that print, open windows or change the terminal when they are imported.
_WITH_EFFECTS = frozenset({"__main__", "antigravity", "idlelib", "readline", "test", "this", "tkinter", "turtledemo"})


class Taken(NamedTuple):
    """The names that test code takes from the solution, and its missing imports.

    Attributes:
        names: Names from the solution, the entry point first.
        imports: Import statements missing in the code, to prepend to it.
        imports_solution: True if the code imports the solution as a module.
    """

    names: tuple[str, ...]
    imports: tuple[str, ...]
    imports_solution: bool


def solution_names(code: Sequence[Statement], entry_point: str | None = None, imported: Collection[str] = ()) -> Taken:
    """Find the names that setup and tests together need from the solution.

    A global name that is read but never bound belongs to the solution, with three exceptions: builtins, modules of
    which only attributes are used, and commonly imported names such as `Counter`. If nothing is left, a commonly
    imported name that the code calls belongs to the solution after all; failing that, so does the only builtin function
    whose result goes to a helper of the tests. The entry point, and names imported from the solution, always belong to
    the solution, even under the name of a builtin.

    Examples:
        >>> from trl_grpo_ext.programs.suites.source import statements
        >>> solution_names(statements("assert math.isclose(mean([1, 2]), 1.5)"))
        Taken(names=('mean',), imports=('import math',), imports_solution=False)
    """
    reads = {name for part in code for name in part.usage.reads}
    free = reads - {name for part in code for name in part.usage.binds} - _BUILTINS
    free -= {name for part in code for name in _starred_names(part.node)}
    nodes = nodes_of(code)
    modules = _modules(free, nodes)
    common = {name: f"from {HOME_OF[name]} import {name}" for name in free - set(modules) if name in HOME_OF}
    remote = free - set(modules) - set(common)
    by_import = any(imports_solution(node) for node in nodes)
    certain = {*imported, *([entry_point] if entry_point else [])}
    remote |= certain
    all_of_it = any(part.is_star_import and is_solution_import(part.node) for part in code)
    if not remote and (all_of_it or not by_import):
        remote = called(nodes) & set(common) or handed_on(nodes)
    local = {name: line for name, line in (modules | common).items() if name not in remote}
    names = sorted(remote, key=lambda name: (name != entry_point, name))
    return Taken(tuple(names), tuple(sorted(local.values())), by_import)


def _modules(free: Collection[str], nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Write imports for free names that are modules: known module names of which only attributes are used."""
    attributes, bare = _uses(nodes)
    modules = {name: _ALIASES.get(name, name) for name in free if name in attributes and name not in bare}
    return {
        name: f"import {module}" if name == module else f"import {module} as {name}"
        for name, module in modules.items()
        if name in _ALIASES or name in _THIRD_PARTY or name in sys.stdlib_module_names
    }


def _uses(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names used as `name.attribute`, and the names used in any other way."""
    nodes = list(nodes)
    owners = [node.value for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    seen = {id(owner) for owner in owners}
    bare = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in seen}
    return {owner.id for owner in owners}, bare


def _starred_names(node: ast.stmt) -> frozenset[str]:
    is_star = isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    return _public_names(node.module) if is_star and isinstance(node, ast.ImportFrom) and node.module else frozenset()


@cache
def _public_names(module: str) -> frozenset[str]:
    """Return the names that `from module import *` binds, for a module whose import has no side effects."""
    package = module.partition(".")[0]
    is_known = package in sys.stdlib_module_names or package in {"numpy", "pytest"}
    if not is_known or package in _WITH_EFFECTS:
        return frozenset()
    try:
        home = importlib.import_module(module)
    except ImportError:
        # The same import in the tests will report the error.
        return frozenset()
    public: Iterable[str] | None = getattr(home, "__all__", None)
    if public is None:
        public = [name for name in dir(home) if not name.startswith("_")]
    return frozenset(public)


def call_suite(module: Module, code: PromptCode) -> CallSuite:
    """Build the suite of a test module, with the prompt's helpers that the tests need.

    Raises:
        BadTests: if the tests take nothing from the solution, or are not Python.
    """
    entry_point = code.entry_point
    module = _importing_the_solution(module, entry_point)
    imported, setup = without_solution_imports([part for part in module.setup if not _defines(part, entry_point)])
    bound = {name for part in setup for name in part.usage.binds}
    # A definition in the tests overrides an import from the solution.
    imported = [name for name in imported if name not in bound]
    tests = [part for test in module.tests for part in statements(test)]
    rest = [*module.preamble, *tests]
    shared = _namesakes(module, setup, tests, imported, code)
    if entry_point:
        wanted = solution_names([*setup, *rest], entry_point, [*imported, *shared]).names
        helpers = code.definitions(set(wanted) - {entry_point})
        setup = [*helpers, *setup]
        # What the prompt defines is the tests' own.
        shared -= {name for part in helpers for name in part.usage.binds}
    imported += sorted(shared)
    taken = solution_names([*setup, *rest], entry_point, imported)
    reads = {name for part in [*setup, *tests] for name in part.usage.reads}
    if not taken.imports_solution and not reads & set(taken.names):
        raise BadTests("tests_call_nothing", "\n".join(module.tests))
    uses_pytest = mentions_pytest([*setup, *tests]) or "pytest" in str(taken.imports)
    if uses_pytest:
        check_pytest_names([*setup, *tests])
    preamble = module.preamble or (shim_setup(False) if uses_pytest else ())
    once, each = _by_need(setup, set(taken.names) | solution_modules(setup))
    marked = [line if not line.startswith("from") or " typing " in line else line + FORGOTTEN for line in taken.imports]
    imports = [part for line in marked for part in statements(line)]
    setup_text, snippets = joined([*preamble, *imports, *once]), _snippets(module, joined(each))
    return CallSuite(
        setup=setup_text,
        tests=snippets,
        names=taken.names,
        imports=required_packages([setup_text, *snippets]),
        shares_files=_uses_files([*setup, *tests]),
        code=packed(setup_text, snippets),
    )


def _namesakes(
    module: Module, setup: list[Statement], tests: list[Statement], imported: list[str], code: PromptCode
) -> set[str]:
    """Find the names that are the program's although Python has them too; see `namesakes`."""
    parts = [*module.preamble, *setup, *tests]
    bound = {name for part in parts for name in part.usage.binds}
    elsewhere = bound.union(*(_starred_names(part.node) for part in parts))
    nodes = nodes_of([*module.setup, *tests])
    imports = [node for node in nodes if imports_solution(node)]
    starred = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in imports)
    names_all = code.entry_point is not None or (bool(imports) and not starred)
    namesakes = Namesakes(setup, module.tests, elsewhere, code.reference, names_all)
    known = {*solution_names(parts, code.entry_point, imported).names, *solution_modules(setup)}
    return namesakes.of_program(known) - set(imported)


def _uses_files(parts: Sequence[Statement]) -> bool:
    nodes = nodes_of(parts)
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)} - {"open"}
    names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {node.name for node in nodes if isinstance(node, ast.alias)}
    return not names.isdisjoint(_FILES)


def _importing_the_solution(module: Module, entry_point: str | None) -> Module:
    """Rename an unknown module, such as `main`, to `solution`, unless the tests take other names from the program.

    If the tests take other names, the unknown module is a missing package.
    """
    renamed = with_solution_for_unknown(module)
    if renamed is None:
        return module
    parts = [*renamed.preamble, *renamed.setup, *(part for test in renamed.tests for part in statements(test))]
    reads = {name for part in parts for name in part.usage.reads}
    bound = {name for part in parts for name in part.usage.binds}
    return module if reads & set(solution_names(parts, entry_point).names) - bound else renamed


def _snippets(module: Module, before: str) -> tuple[str, ...]:
    if not before:
        return module.tests
    if module.in_one_state:
        return ("\n".join([before, *module.tests]),)
    return tuple(f"{before}\n{test}" for test in module.tests)


def _defines(part: Statement, entry_point: str | None) -> bool:
    """Test if a statement defines the entry point (a stub or reference), which would hide the solution's definition."""
    return entry_point is not None and part.is_code and entry_point in part.usage.binds


def _by_need(parts: Sequence[Statement], remote: set[str]) -> tuple[list[Statement], list[Statement]]:
    """Split statements into (independent, dependent): dependent statements need the solution, even indirectly."""
    moved: list[Statement] = []
    while True:
        bound = {name for part in moved for name in part.usage.binds}
        reaching = _reaching(parts, remote | bound)
        more = [part for part in parts if part not in moved and _needs(part, remote, bound, reaching)]
        more = more or _changing(parts, moved)
        if not more:
            return [part for part in parts if part not in moved], [part for part in parts if part in moved]
        moved += more


def _changing(parts: Sequence[Statement], moved: Sequence[Statement]) -> list[Statement]:
    """Find statements that may change a value read by a moved statement, and so must keep their order.

    These are later statements that read the same names, such as `given.append(1)`, and all statements that bind a
    name with several bindings.
    """
    if not moved:
        return []
    later = parts[parts.index(moved[0]) :]
    read = {name for part in moved for name in part.usage.reads}
    times = Counter(name for part in parts for name in part.usage.binds)
    rebound = {name for name in read if times[name] > 1}
    changing = [part for part in later if not part.is_definition and part.usage.reads & read]
    return [part for part in parts if part not in moved and (part in changing or part.usage.binds & rebound)]


def _needs(part: Statement, remote: set[str], bound: set[str], reaching: set[str]) -> bool:
    """Test if running a statement needs the solution; defining a function that calls the solution does not."""
    if is_solution_import(part.node):
        return True
    at_once = part.usage.reads_at_once
    return bool(at_once & (remote if part.is_code else reaching)) or bool(part.usage.reads & bound)


def _reaching(parts: Sequence[Statement], names: set[str]) -> set[str]:
    """Add to `names` all names bound by statements that use them, transitively."""
    found = set(names)
    while True:
        more = {name for part in parts if part.usage.reads & found for name in part.usage.binds} - found
        if not more:
            return found
        found |= more
