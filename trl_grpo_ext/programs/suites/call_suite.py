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
from trl_grpo_ext.programs.suites.program_text import PromptCode
from trl_grpo_ext.programs.suites.solution_imports import (
    imports_solution,
    is_solution_import,
    solution_modules,
    unknown_modules,
    with_absolute_imports,
    with_solution_for_unknown,
    without_solution_imports,
)
from trl_grpo_ext.programs.suites.source import (
    Statement,
    all_statements,
    arguments_in,
    binds_of,
    joined,
    names_in,
    nodes_of,
    packed,
    reads_of,
    required_packages,
    top_level,
    used_bare,
)
from trl_grpo_ext.programs.suites.test_module import (
    Module,
    check_pytest_names,
    mentions_pytest,
    shim_setup,
    told_test,
)

_MODULE_NAMES = frozenset(
    {
        "__name__",
        "__file__",
        "__doc__",
        "__builtins__",
        "__spec__",
        "__package__",
        "__loader__",
        "__annotations__",
    }
)
BUILTINS = frozenset(dir(builtins)) | _MODULE_NAMES
_ALIASES = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib.pyplot",
    "sp": "scipy",
    "tf": "tensorflow",
}
_THIRD_PARTY = frozenset({"numpy", "pandas", "scipy", "sympy", "torch", "pytest"})
_FILES = frozenset(
    {
        "open",
        "tempfile",
        "mkdtemp",
        "mkstemp",
        "NamedTemporaryFile",
        "TemporaryDirectory",
        "TemporaryFile",
    }
    | {"tmp_path", "tmp_path_factory", "write_text", "write_bytes", "makedirs"}
)
"""Names by which tests are known to use files; `open` as an attribute is something else's."""
_PROCESSES = frozenset({"subprocess", "Popen", "popen", "system", "runpy"})
"""Names by which tests are known to start programs."""
FORGOTTEN = "  # the tests forgot to import it"
# Packages of the standard library with modules that print, open windows or change the terminal when they are imported.
_WITH_EFFECTS = frozenset(
    {
        "__main__",
        "antigravity",
        "idlelib",
        "readline",
        "test",
        "this",
        "tkinter",
        "turtledemo",
    }
)


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


def solution_names(
    code: Sequence[Statement],
    entry_point: str | None = None,
    imported: Collection[str] = (),
) -> Taken:
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
    nodes = nodes_of(code)
    free = reads_of(code) - binds_of(code) - BUILTINS
    for part in code:
        free -= _starred_names(part.node)
    # Name -> the line that imports it.
    missing = _modules(free, nodes)
    common = {
        name: f"from {HOME_OF[name]} import {name}"
        for name in free - missing.keys()
        if name in HOME_OF
    }
    missing |= common
    remote = free - missing.keys()
    remote.update(imported)
    if entry_point:
        remote.add(entry_point)
    by_import = any(imports_solution(node) for node in nodes)
    by_star = any(part.is_star_import and is_solution_import(part.node) for part in code)
    # Tests that import the solution as a module take names as its attributes, so none is missing.
    if not remote and (by_star or not by_import):
        remote = called(nodes) & common.keys() or handed_on(nodes)
    # False sorts before True, so the entry point comes first.
    names = sorted(remote, key=lambda name: (name != entry_point, name))
    imports = sorted(line for name, line in missing.items() if name not in remote)
    return Taken(tuple(names), tuple(imports), by_import)


def _modules(free: Collection[str], nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Write imports for free names that are modules: known module names of which only attributes are used."""
    bare = used_bare(nodes)
    imports = {}
    for name in free:
        is_known = (
            name in _ALIASES or name in _THIRD_PARTY or name in sys.stdlib_module_names
        )
        if not is_known or name in bare:
            continue
        module = _ALIASES.get(name, name)
        imports[name] = f"import {module}"
        if name != module:
            imports[name] += f" as {name}"
    return imports


def _starred_names(node: ast.stmt) -> frozenset[str]:
    """Return the names that `from module import *` binds; none for any other statement."""
    if isinstance(node, ast.ImportFrom) and node.module and node.names[0].name == "*":
        return _public_names(node.module)
    return frozenset()


@cache
def _public_names(module: str) -> frozenset[str]:
    """Return the names that `from module import *` binds, for a module whose import has no side effects."""
    package = top_level(module)
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
    module = _importing_the_solution(with_absolute_imports(module), entry_point)
    own = [part for part in module.setup if not _defines(part, entry_point)]
    imported, setup = without_solution_imports(own)
    # A definition in the tests overrides an import from the solution.
    overridden = binds_of(setup)
    imported = [name for name in imported if name not in overridden]
    tests = module.test_parts
    shared = _namesakes(module, setup, tests, imported, code)
    if entry_point:
        wanted = solution_names(
            [*setup, *module.preamble, *tests], entry_point, [*imported, *shared]
        ).names
        helpers = code.definitions(set(wanted) - {entry_point})
        setup = [*helpers, *setup]
        # What the prompt defines is the tests' own.
        shared -= binds_of(helpers)
    imported += sorted(shared)
    taken = solution_names([*setup, *module.preamble, *tests], entry_point, imported)
    if not taken.imports_solution and reads_of([*setup, *tests]).isdisjoint(taken.names):
        raise BadTests(_why_none(module), "\n".join(map(told_test, module.tests)))
    once, each = _by_need(setup, set(taken.names) | solution_modules(setup))
    imports = _added_imports(taken.imports)
    preamble = _preamble(module, [*setup, *tests], taken)
    setup_text = joined([*preamble, *imports, *once])
    snippets = _snippets(module, joined(each))
    return CallSuite(
        setup=setup_text,
        tests=snippets,
        names=taken.names,
        imports=required_packages([setup_text, *snippets]),
        shares_files=_uses_files([*setup, *tests]),
        code=packed(setup_text, snippets),
    )


def _why_none(module: Module) -> str:
    """Return the reason code for tests that take nothing from the solution."""
    words = _words(module.parts)
    if not _PROCESSES.isdisjoint(words):
        return "tests_start_processes"
    if len(unknown_modules(module)) > 1:
        return "tests_import_several"
    return "tests_call_nothing"


def _added_imports(lines: Sequence[str]) -> list[Statement]:
    """Write the imports that the tests lack, and mark those that `check-data` tells of."""
    marked = []
    for line in lines:
        # Everybody forgets names such as `List`, and modules such as `math`; no program is meant by them.
        is_usual = not line.startswith("from") or " typing " in line
        marked.append(line if is_usual else line + FORGOTTEN)
    return all_statements(marked)


def _preamble(
    module: Module, parts: Sequence[Statement], taken: Taken
) -> Sequence[Statement]:
    """Return the trusted code in front of the setup, with the stand-in for pytest if the tests use pytest."""
    uses_pytest = mentions_pytest(parts) or "pytest" in str(taken.imports)
    if uses_pytest:
        check_pytest_names(parts)
    if uses_pytest and not module.preamble:
        return shim_setup(False)
    return module.preamble


def _namesakes(
    module: Module,
    setup: list[Statement],
    tests: list[Statement],
    imported: list[str],
    code: PromptCode,
) -> set[str]:
    """Find the names that are the program's although Python has them too; see `namesakes`."""
    parts = [*module.preamble, *setup, *tests]
    elsewhere = binds_of(parts)
    for part in parts:
        elsewhere |= _starred_names(part.node)
    imports = [node for node in nodes_of(module.parts) if imports_solution(node)]
    by_star = any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in imports
    )
    namesakes = Namesakes(
        setup=setup,
        tests=module.tests,
        parts=[*setup, *tests],
        elsewhere=elsewhere,
        reference=code.reference,
        names_all=code.entry_point is not None or (bool(imports) and not by_star),
    )
    certain = solution_names(parts, code.entry_point, imported).names
    return namesakes.of_program({*certain, *solution_modules(setup)}) - set(imported)


def _uses_files(parts: Sequence[Statement]) -> bool:
    return not _words(parts).isdisjoint(_FILES)


def _words(parts: Sequence[Statement]) -> set[str]:
    """Collect names, parameters, imported names and modules, and attributes, but for `open` of a path or an image."""
    nodes = nodes_of(parts)
    words = names_in(nodes) | arguments_in(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr != "open":
            words.add(node.attr)
        elif isinstance(node, ast.alias):
            words.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            words.add(node.module)
    return words


def _importing_the_solution(module: Module, entry_point: str | None) -> Module:
    """Rename an unknown module, such as `main`, to `solution`, unless the tests take other names from the program.

    If the tests take other names, the unknown module is a missing package.
    """
    renamed = with_solution_for_unknown(module)
    if renamed is None:
        return module
    parts = [*renamed.preamble, *renamed.parts]
    taken = solution_names(parts, entry_point).names
    others = (reads_of(parts) - binds_of(parts)).intersection(taken)
    return module if others else renamed


def _snippets(module: Module, before: str) -> tuple[str, ...]:
    if not before:
        return module.tests
    if module.in_one_state:
        return ("\n".join([before, *module.tests]),)
    return tuple(f"{before}\n{test}" for test in module.tests)


def _defines(part: Statement, entry_point: str | None) -> bool:
    """Test if a statement defines the entry point (a stub or reference), which would hide the solution's definition."""
    return entry_point is not None and part.is_code and entry_point in part.usage.binds


def _by_need(
    parts: Sequence[Statement], remote: set[str]
) -> tuple[list[Statement], list[Statement]]:
    """Split statements into (independent, dependent): dependent statements need the solution, even indirectly."""
    moved: list[Statement] = []
    while True:
        bound = binds_of(moved)
        reaching = _reaching(parts, remote | bound)
        rest = [part for part in parts if part not in moved]
        # A moved statement binds names that further statements need, so this repeats until nothing moves.
        more = [part for part in rest if _needs(part, remote, bound, reaching)]
        if not more:
            more = _changing(parts, moved)
        if not more:
            return rest, [part for part in parts if part in moved]
        moved += more


def _changing(parts: Sequence[Statement], moved: Sequence[Statement]) -> list[Statement]:
    """Find statements that may change a value read by a moved statement, and so must keep their order.

    These are later statements that read the same names, such as `given.append(1)`, and all statements that bind a
    name with several bindings.
    """
    if not moved:
        return []
    later = parts[parts.index(moved[0]) :]
    read = reads_of(moved)
    times: Counter[str] = Counter()
    for part in parts:
        times.update(part.usage.binds)
    rebound = {name for name in read if times[name] > 1}
    changing = []
    for part in parts:
        may_change = (
            part in later
            and not part.is_definition
            and not part.usage.reads.isdisjoint(read)
        )
        rebinds = not part.usage.binds.isdisjoint(rebound)
        if part not in moved and (may_change or rebinds):
            changing.append(part)
    return changing


def _needs(part: Statement, remote: set[str], bound: set[str], reaching: set[str]) -> bool:
    """Test if running a statement needs the solution; defining a function that calls the solution does not."""
    if is_solution_import(part.node):
        return True
    needed = remote if part.is_code else reaching
    return not (
        part.usage.reads_at_once.isdisjoint(needed) and part.usage.reads.isdisjoint(bound)
    )


def _reaching(parts: Sequence[Statement], names: set[str]) -> set[str]:
    """Add to `names` all names bound by statements that use them, transitively."""
    found = set(names)
    while True:
        users = [part for part in parts if not part.usage.reads.isdisjoint(found)]
        more = binds_of(users)
        if more <= found:
            return found
        found |= more
