"""Find modules named by tests: only these modules are watched for patches."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import ModuleType

NEVER_WATCHED = frozenset(
    {
        "__future__",
        "antigravity",
        "pytest",
        "solution",
        "test",
        "this",
        "typing",
        "unittest",
    }
)
"""Modules that program and tests never share, or whose import has side effects."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def root_of(path: str) -> str:
    """Return a dotted name's first part: `os` for `os.path`."""
    return path.partition(".")[0]


def imported(name: str) -> ModuleType | None:
    """Import a module; None if the import fails."""
    # A module may raise anything while it is imported; the tests cannot use such a module.
    with suppress(Exception):
        return importlib.import_module(name)
    return None


def named_modules(texts: Iterable[str]) -> Iterator[ModuleType]:
    """Yield modules that tests import, use by a dotted name, or name in a string: `patch("os.path.exists")`."""
    nodes: list[ast.AST] = []
    for text in texts:
        nodes += ast.walk(_tree(text))
    # The name that an import binds -> the module's full name.
    known: dict[str, str] = {}
    paths: set[str] = set()
    roots = set(sys.stdlib_module_names)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.add(root_of(node.module))
        if not isinstance(node, ast.Import):
            continue
        for alias in node.names:
            root = root_of(alias.name)
            # `import a.b` binds `a`, and `import a.b as c` binds `a.b`.
            known[alias.asname or root] = alias.name if alias.asname else root
            paths.add(alias.name)
            roots.add(root)
    for node in nodes:
        paths.update(_paths(node, known))
    for path in paths:
        if root_of(path) in roots - NEVER_WATCHED:
            module = _innermost(path)
            if module is not None:
                yield module


def _tree(text: str) -> ast.Module:
    # The text lacks lines that look like the runner's, so it may not parse.
    with suppress(SyntaxError):
        return ast.parse(text)
    return ast.Module([], [])


def _paths(node: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """Yield dotted names in a node that may begin with a module.

    Args:
        node: A node of the tests' syntax tree.
        known: Maps each imported name to its module's full name.
    """
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            if alias.name != "*":
                yield f"{node.module}.{alias.name}"
    elif (
        isinstance(node, ast.Constant)
        and type(node.value) is str
        and _DOTTED.fullmatch(node.value)
    ):
        yield node.value
    elif isinstance(node, ast.Attribute):
        path = ast.unparse(node)
        root, _, rest = path.partition(".")
        if root in known and _DOTTED.fullmatch(path):
            yield f"{known[root]}.{rest}"


def _innermost(path: str) -> ModuleType | None:
    """Import the module that the longest importable prefix of a dotted name denotes; None without a module."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        module = imported(".".join(parts[:length]))
        if module is not None:
            return module
    return None
