"""Find skips that depend on state which other tests change, and so perhaps on what the program returned to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from traceback import walk_tb

from trl_grpo_ext.programs.sandbox.inside.compiled import innermost

# What these return does not change.
_MAKE_CONSTANTS = frozenset(
    ["Path", "PurePath", "str", "int", "float", "bool", "frozenset", "tuple", "len"]
)
_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def depends_on_state(error: BaseException, sources: Mapping[str, str]) -> bool:
    """Test whether functions of the tests that raised a skip had read state before that tests change.

    Args:
        error: The skip.
        sources: Source code of the tests by the file name of its compilation.
    """
    read: set[str] = set()
    for frame, line in walk_tb(error.__traceback__):
        source = sources.get(frame.f_code.co_filename)
        if source is None or frame.f_code.co_name == "<module>":
            continue
        function = innermost(source, line, ast.FunctionDef, ast.AsyncFunctionDef)
        if function is not None:
            read |= _read_until(function, line)
    return bool(read) and not read.isdisjoint(_changed("\n".join(sources.values())))


def _read_until(function: ast.stmt, line: int) -> set[str]:
    """Collect names and attributes that a function reads up to a line."""
    found = set()
    for node in ast.walk(function):
        if getattr(node, "lineno", line + 1) > line:
            continue
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def _changed(source: str) -> set[str]:
    """Collect names and attributes that functions of the tests may change."""
    module = ast.parse(source)
    containers = set(_containers(module))
    changed: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Global):
            changed.update(node.names)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed.add(node.attr)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed |= containers & _path(node.value)
        elif isinstance(node, ast.Call):
            # A method may change its object, and any function what it is given.
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            for part in (owner, *node.args, *(each.value for each in node.keywords)):
                changed |= containers & _path(part)
    return changed


def _containers(module: ast.Module) -> Iterator[str]:
    """Yield names of the module and its classes that hold values which may change."""
    waiting: list[ast.stmt] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign) and _may_change(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from _path(target)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.iter_child_nodes(node):
                if isinstance(inner, ast.stmt):
                    waiting.append(inner)


def _may_change(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id not in _MAKE_CONSTANTS
    return isinstance(value, _DISPLAYS)


def _path(node: ast.AST | None) -> set[str]:
    """List the names of a dotted path: `T` and `seen` of `T.seen`."""
    found = set()
    while isinstance(node, ast.Attribute):
        found.add(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        found.add(node.id)
    return found
