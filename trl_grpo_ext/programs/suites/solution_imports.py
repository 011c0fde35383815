"""Find and rewrite imports of the program as a module, under the name `solution` or an unknown name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from trl_grpo_ext.programs.sandbox.installed import is_installed
from trl_grpo_ext.programs.suites.source import (
    Statement,
    imported_modules,
    nodes_of,
    statements,
    top_level,
    unparsed,
    used_bare,
)
from trl_grpo_ext.programs.suites.test_module import Module

# The module name under which tests may import the completion's program.
SOLUTION = "solution"

# Packages that tests may import although they are not installed here; no program is ever taken for such a package.
_PACKAGES = (
    {
        "PIL",
        "aiohttp",
        "attr",
        "bs4",
        "cv2",
        "django",
        "fastapi",
        "flask",
        "freezegun",
        "hypothesis",
        "jsonschema",
    }
    | {
        "matplotlib",
        "mock",
        "networkx",
        "nose",
        "numpy",
        "pandas",
        "parameterized",
        "polars",
        "pydantic",
        "pytest",
    }
    | {
        "requests",
        "responses",
        "scipy",
        "sklearn",
        "sortedcontainers",
        "sqlalchemy",
        "sympy",
        "tensorflow",
        "torch",
    }
    | {"yaml"}
)
_NAMING = frozenset(
    {"patch", "dict", "multiple", "setattr", "delattr", "import_module", "__import__"}
)


def is_solution_import(node: ast.AST) -> bool:
    """Recognize `from solution import ...`."""
    return isinstance(node, ast.ImportFrom) and node.module == SOLUTION and node.level == 0


def imports_solution(node: ast.AST) -> bool:
    """Recognize every import of module `solution` or of names from it."""
    if isinstance(node, ast.Import):
        return any(alias.name == SOLUTION for alias in node.names)
    if isinstance(node, ast.Call) and _last_name(node.func) in {
        "import_module",
        "__import__",
    }:
        return any(
            isinstance(value, ast.Constant) and value.value == SOLUTION
            for value in node.args
        )
    return is_solution_import(node)


def _last_name(node: ast.expr) -> str | None:
    """Return `name` of `name` or `x.name`; None for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return None


def without_solution_imports(
    parts: Sequence[Statement],
) -> tuple[list[str], list[Statement]]:
    """Separate names imported from the solution, and all remaining statements.

    A missing name in a solution should fail only the tests that use it, not an import shared by all tests. Imports with
    `as` stay statements.
    """
    names: list[str] = []
    others = []
    for part in parts:
        if not isinstance(part.node, ast.ImportFrom) or not is_solution_import(part.node):
            others.append(part)
            continue
        renamed = []
        for alias in part.node.names:
            if alias.asname:
                renamed.append(alias)
            elif alias.name != "*":
                names.append(alias.name)
        if renamed:
            others.append(unparsed(ast.ImportFrom(SOLUTION, renamed, 0)))
    return names, others


def with_absolute_imports(module: Module) -> Module:
    r"""Write `from .solution import add` as `from solution import add`; tests belong to no package here.

    Examples:
        >>> from trl_grpo_ext.programs.suites.source import statements
        >>> from trl_grpo_ext.programs.suites.test_module import read_test_module
        >>> read = read_test_module(statements("from . import calc\nassert calc.add(1, 2) == 3"))
        >>> with_absolute_imports(read).setup[0].text
        'import calc'
    """
    nodes = nodes_of(module.parts)
    if not any(map(_is_relative, nodes)):
        return module
    absolute = _Absolute(used_bare(nodes))
    setup = []
    for part in module.setup:
        # Parsed again, since the tree is changed in place.
        tree = absolute.visit(ast.parse(part.text))
        setup += [unparsed(node) for node in tree.body]
    tests = [ast.unparse(absolute.visit(ast.parse(test))) for test in module.tests]
    return replace(module, setup=tuple(setup), tests=tuple(tests))


def _is_relative(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.level > 0


def solution_modules(parts: Sequence[Statement]) -> set[str]:
    """Collect the names of `import solution` and `import solution as name`."""
    return _module_names(part.node for part in parts)


def _module_names(nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(
                alias.asname or SOLUTION for alias in node.names if alias.name == SOLUTION
            )
    return found


def names_from_solution(code: str) -> set[str]:
    """Collect the names that code takes from module `solution`, at any depth: `solution.add`, or an imported name.

    Raises:
        BadTests: if the code is no Python.

    Examples:
        >>> sorted(names_from_solution("import solution as s\\nfrom solution import add\\nassert s.sub(1) == add(0)"))
        ['add', 'sub']
    """
    if SOLUTION not in code:
        return set()
    nodes = nodes_of(statements(code))
    modules = _module_names(nodes)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and is_solution_import(node):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and _last_name(node.value) in modules:
            names.add(node.attr)
    return names


def unknown_modules(module: Module) -> set[str]:
    """Collect the imported modules that are neither `solution` nor known here."""
    found: set[str] = set()
    for node in nodes_of(module.parts):
        for name in imported_modules(node):
            if name != SOLUTION and not is_known_module(name):
                found.add(name)
    return found


def with_solution_for_unknown(module: Module) -> Module | None:
    """Rename the only unknown module that the tests import to `solution`; None if there is nothing to rename.

    Return None also if the tests import `solution` already, or two unknown modules: one of the two may hold helpers of
    the tests, which no program may replace. The sandbox may have more packages than this machine. A module that is
    found there is not the program: the setup then fails, or a program could replace a helper of the tests.
    """
    unknown = unknown_modules(module)
    nodes = nodes_of(module.parts)
    if len(unknown) != 1 or any(imports_solution(node) for node in nodes):
        return None
    (name,) = unknown
    renamed = _Renamed(name)
    guard = statements(_must_be_nowhere(name))
    setup = []
    for part in module.setup:
        # Parsed again, since the tree is changed in place.
        tree = renamed.visit(ast.parse(part.text))
        setup += [unparsed(node) for node in tree.body]
    tests = [ast.unparse(renamed.visit(ast.parse(test))) for test in module.tests]
    # The only import may stand in a `try` that handles its failure, and so stay as it is.
    if not renamed.changed:
        return None
    return replace(module, setup=(*guard, *setup), tests=tuple(tests))


def _must_be_nowhere(name: str) -> str:
    why = f"the tests import {name}, which is found beside the program; for the program, write `solution`"
    # A call of `__import__`, unlike an `import`, binds no name in the tests.
    return f"if __import__('importlib.util').util.find_spec({name!r}): raise ImportError({why!r})"


@lru_cache(maxsize=1024)
def is_known_module(name: str) -> bool:
    """Recognize a module of the standard library or of a package; modules in the current folder do not count."""
    return name in {*sys.stdlib_module_names, *_PACKAGES} or is_installed(name)


class _Absolute(ast.NodeTransformer):
    """Replaces relative imports by absolute imports.

    Args:
        bare: Names that are no modules: `from . import add` takes a function of the program.
    """

    def __init__(self, bare: set[str]) -> None:
        self.bare = bare

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        if not node.level:
            return node
        if node.module:
            return ast.ImportFrom(_local(node.module), node.names, 0)
        imports: list[ast.stmt] = []
        for alias in node.names:
            if alias.name == "*" or (alias.asname or alias.name) in self.bare:
                imports.append(ast.ImportFrom(SOLUTION, [alias], 0))
            else:
                bound = alias.asname or alias.name
                module = _local(alias.name)
                asname = None if bound == module else bound
                imports.append(ast.Import([ast.alias(module, asname)]))
        return imports


def _local(module: str) -> str:
    """Return a relative module's absolute name; one that Python or a package has too is the program's."""
    return SOLUTION if is_known_module(top_level(module)) else module


class _Renamed(ast.NodeTransformer):
    """Replaces a module's name by `solution`, except in a `try` that handles a failing import."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changed = False

    def visit_Try(self, node: ast.Try) -> ast.AST:
        if node.handlers:
            return node
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if self._is_it(node.module):
            return ast.ImportFrom(SOLUTION, node.names, 0)
        return node

    def visit_Import(self, node: ast.Import) -> ast.AST:
        for alias in node.names:
            # `import main.tools` binds `main`, and the tests then reach the module through that name.
            binds_itself = alias.asname or "." not in alias.name
            if binds_itself and self._is_it(alias.name):
                alias.asname = alias.asname or alias.name
                alias.name = SOLUTION
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a module name in text, too, as in `patch("main.now")`."""
        is_naming = node.args and _last_name(node.func) in _NAMING
        named = node.args[0] if is_naming else None
        if (
            isinstance(named, ast.Constant)
            and isinstance(named.value, str)
            and self._is_it(named.value)
        ):
            named.value = SOLUTION + named.value.removeprefix(self.name)
        return self.generic_visit(node)

    def _is_it(self, module: str | None) -> bool:
        is_it = top_level(module or "") == self.name
        self.changed |= is_it
        return is_it
