"""The modules that tests name: those are watched for patches, and no others."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import ModuleType

NEVER_WATCHED = frozenset({"__future__", "antigravity", "pytest", "solution", "test", "this", "typing", "unittest"})
"""Modules that no program has in common with the tests, or that do something when they are imported."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def root_of(path: str) -> str:
    """Return the first name of a dotted one."""
    return path.partition(".")[0]


def imported(name: str) -> ModuleType | None:
    """Import a module; None if there is none of that name, or none that can be imported."""
    with suppress(Exception):
        return importlib.import_module(name)
    return None


def named_modules(texts: Iterable[str]) -> Iterator[ModuleType]:
    """Yield the modules that tests import, use by a dotted name, or name in a text: `patch("os.path.exists")`."""
    nodes = [node for text in texts for node in ast.walk(_tree(text))]
    aliases = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    known = {
        alias.asname or root_of(alias.name): alias.name if alias.asname else root_of(alias.name) for alias in aliases
    }
    paths = {*(alias.name for alias in aliases), *(path for node in nodes for path in _paths(node, known))}
    roots = {root_of(alias.name) for alias in aliases} | sys.stdlib_module_names
    for path in paths:
        module = _innermost(path) if root_of(path) in roots - NEVER_WATCHED else None
        if module is not None:
            yield module


def _tree(text: str) -> ast.Module:
    with suppress(SyntaxError):  # where a line of the tests is left out that looks like the runner's
        return ast.parse(text)
    return ast.Module([], [])


def _paths(node: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """The dotted names in a node that may begin with a module; `known` is what the names of modules stand for."""
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*")
    elif isinstance(node, ast.Constant) and type(node.value) is str and _DOTTED.fullmatch(node.value):
        yield node.value
    elif isinstance(node, ast.Attribute) and _DOTTED.fullmatch(path := ast.unparse(node)):
        root, _, rest = path.partition(".")
        if root in known:
            yield f"{known[root]}.{rest}"


def _innermost(path: str) -> ModuleType | None:
    """The module that the longest beginning of a dotted name stands for."""
    parts = path.split(".")
    found = (imported(".".join(parts[:length])) for length in range(len(parts), 0, -1))
    return next((module for module in found if module is not None), None)
