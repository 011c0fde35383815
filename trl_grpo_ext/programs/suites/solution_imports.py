"""Find and rewrite imports of the program as a module, under the name `solution` or an unknown name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from trl_grpo_ext.programs.sandbox.installed import is_installed
from trl_grpo_ext.programs.suites.source import Statement, nodes_of, statements, unparsed
from trl_grpo_ext.programs.suites.test_module import Module

# The module name under which tests may import the completion's program.
SOLUTION = "solution"

# Packages that tests may import although they are not installed here; no program is ever taken for such a package.
_PACKAGES = (
    {"PIL", "aiohttp", "attr", "bs4", "cv2", "django", "fastapi", "flask", "freezegun", "hypothesis", "jsonschema"}
    | {"matplotlib", "mock", "networkx", "nose", "numpy", "pandas", "parameterized", "polars", "pydantic", "pytest"}
    | {"requests", "responses", "scipy", "sklearn", "sortedcontainers", "sqlalchemy", "sympy", "tensorflow", "torch"}
    | {"yaml"}
)
_NAMING = frozenset({"patch", "dict", "multiple", "setattr", "delattr", "import_module", "__import__"})


def is_solution_import(node: ast.AST) -> bool:
    """Recognize `from solution import ...`."""
    return isinstance(node, ast.ImportFrom) and node.module == SOLUTION and node.level == 0


def imports_solution(node: ast.AST) -> bool:
    """Recognize any import of the solution module, or of its names."""
    if isinstance(node, ast.Import):
        return any(alias.name == SOLUTION for alias in node.names)
    if isinstance(node, ast.Call) and _last_name(node.func) in {"import_module", "__import__"}:
        return any(isinstance(value, ast.Constant) and value.value == SOLUTION for value in node.args)
    return is_solution_import(node)


def _last_name(node: ast.expr) -> str | None:
    """Return `name` of `name` or `x.name`; None for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def without_solution_imports(parts: Sequence[Statement]) -> tuple[list[str], list[Statement]]:
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
        names += [alias.name for alias in part.node.names if not alias.asname and alias.name != "*"]
        renamed = [alias for alias in part.node.names if alias.asname]
        others += [unparsed(ast.ImportFrom(SOLUTION, renamed, 0))] if renamed else []
    return names, others


def solution_modules(parts: Sequence[Statement]) -> set[str]:
    """Collect the names of `import solution` and `import solution as name`."""
    aliases = [alias for part in parts if isinstance(part.node, ast.Import) for alias in part.node.names]
    return {alias.asname or alias.name for alias in aliases if alias.name == SOLUTION}


def with_solution_for_unknown(module: Module) -> Module | None:
    """Rename the only unknown module that the tests import to `solution`; None if there is nothing to rename.

    Return None also if the tests import `solution` already, or two unknown modules: one of the two may hold helpers of
    the tests, which no program may replace. The sandbox may have more packages than this machine. A module that is
    found there is not the program: the setup then fails, or a program could replace a helper of the tests.
    """
    parts = [*module.setup, *(part for test in module.tests for part in statements(test))]
    nodes = nodes_of(parts)
    unknown = _Renamed(sorted({name for node in nodes for name in _modules(node) if not _is_known(name)}))
    if len(unknown.names) != 1 or any(imports_solution(node) for node in nodes):
        return None
    setup = [unparsed(unknown.visit(node)) for part in module.setup for node in ast.parse(part.text).body]
    tests = [ast.unparse(unknown.visit(ast.parse(test))) for test in module.tests]
    if not unknown.changed:
        return None
    guard = statements(_must_be_nowhere(unknown.names[0]))
    return replace(module, setup=(*guard, *setup), tests=(*tests,))


def _must_be_nowhere(name: str) -> str:
    why = f"the tests import {name}, which is found beside the program; for the program, write `solution`"
    return f"if __import__('importlib.util').util.find_spec({name!r}): raise ImportError({why!r})"


def _modules(node: ast.AST) -> list[str]:
    """List the top-level names of modules that a statement imports: `a` for `import a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    return [node.module.partition(".")[0]] if isinstance(node, ast.ImportFrom) and node.module else []


@cache
def _is_known(name: str) -> bool:
    """Recognize a module of the standard library or of a package; modules in the current folder do not count."""
    return name in {SOLUTION, *sys.stdlib_module_names, *_PACKAGES} or is_installed(name)


class _Renamed(ast.NodeTransformer):
    """Replaces module names by `solution`, except in a `try` that handles a failing import."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.changed = False

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return node if node.handlers else self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return ast.ImportFrom(SOLUTION, node.names, 0) if self._is_one(node.module) else node

    def visit_Import(self, node: ast.Import) -> ast.AST:
        for alias in node.names:
            if (alias.asname or "." not in alias.name) and self._is_one(alias.name):
                alias.name, alias.asname = SOLUTION, alias.asname or alias.name
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a module name in text, too, as in `patch("main.now")`."""
        named = node.args[0] if node.args and _last_name(node.func) in _NAMING else None
        if isinstance(named, ast.Constant) and isinstance(named.value, str) and self._is_one(named.value):
            named.value = SOLUTION + named.value.removeprefix(named.value.partition(".")[0])
        return self.generic_visit(node)

    def _is_one(self, module: str | None) -> bool:
        found = (module or "").partition(".")[0] in self.names
        self.changed |= found
        return found
