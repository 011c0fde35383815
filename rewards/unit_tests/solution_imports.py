"""The imports by which tests take the program as a module: of `solution`, or of a module that is nowhere."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from trl_grpo_ext.rewards.unit_tests.source import Statement, statements, unparsed
from trl_grpo_ext.rewards.unit_tests.test_module import Module
from trl_grpo_ext.sandbox.installed import is_installed

SOLUTION = "solution"  # the module that the tests may import, which is the completion's program

# Packages that tests may mean where they are not installed. A program that is to stand for one could only fail.
_PACKAGES = (
    {"PIL", "aiohttp", "attr", "bs4", "cv2", "django", "fastapi", "flask", "freezegun", "hypothesis", "jsonschema"}
    | {"matplotlib", "mock", "networkx", "nose", "numpy", "pandas", "parameterized", "polars", "pydantic", "pytest"}
    | {"requests", "responses", "scipy", "sklearn", "sortedcontainers", "sqlalchemy", "sympy", "tensorflow", "torch"}
    | {"yaml"}
)
_NAMING = frozenset({"patch", "dict", "multiple", "setattr", "delattr", "import_module", "__import__"})


def is_solution_import(node: ast.AST) -> bool:
    """Whether it is `from solution import ...`."""
    return isinstance(node, ast.ImportFrom) and node.module == SOLUTION and node.level == 0


def imports_solution(node: ast.AST) -> bool:
    """Whether it imports the solution, or a name of it."""
    if isinstance(node, ast.Import):
        return any(alias.name == SOLUTION for alias in node.names)
    if isinstance(node, ast.Call) and _last_name(node.func) in {"import_module", "__import__"}:
        return any(isinstance(value, ast.Constant) and value.value == SOLUTION for value in node.args)
    return is_solution_import(node)


def _last_name(node: ast.expr) -> str | None:
    """The name, or the attribute's name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def without_solution_imports(parts: Sequence[Statement]) -> tuple[list[str], list[Statement]]:
    """The names that are imported from the solution under their own names, and the other statements.

    A solution that lacks a name must fail the test that uses it, not the import that all of them share.
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
    """The names that the solution is imported under as a module."""
    aliases = [alias for part in parts if isinstance(part.node, ast.Import) for alias in part.node.names]
    return {alias.asname or alias.name for alias in aliases if alias.name == SOLUTION}


def with_solution_for_unknown(module: Module) -> Module | None:
    """The tests with `solution` in the place of a module that is nowhere; None if they import none, or `solution`.

    None too if they import two: one of them may hold the helpers of the tests, for which no program may stand.
    Where programs run there may be more than here, such as given packages. A module that is found there is never the
    program's: the setup then fails, or a program could stand for a helper of the tests.
    """
    parts = [*module.setup, *(part for test in module.tests for part in statements(test))]
    nodes = [node for part in parts for node in ast.walk(part.node)]
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
    """The modules that a statement imports, without what they are in or have in them."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    return [node.module.partition(".")[0]] if isinstance(node, ast.ImportFrom) and node.module else []


@cache
def _is_known(name: str) -> bool:
    """Whether it is of Python's library or a package. What lies in the folder of a run is none."""
    return name in {SOLUTION, *sys.stdlib_module_names, *_PACKAGES} or is_installed(name)


class _Renamed(ast.NodeTransformer):
    """Puts `solution` for modules, but where code is ready for an import to fail."""

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
        """Of a module that is named in text too, as in `patch("main.now")`."""
        named = node.args[0] if node.args and _last_name(node.func) in _NAMING else None
        if isinstance(named, ast.Constant) and isinstance(named.value, str) and self._is_one(named.value):
            named.value = SOLUTION + named.value.removeprefix(named.value.partition(".")[0])
        return self.generic_visit(node)

    def _is_one(self, module: str | None) -> bool:
        found = (module or "").partition(".")[0] in self.names
        self.changed |= found
        return found
