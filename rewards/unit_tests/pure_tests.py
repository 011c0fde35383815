"""Which tests leave nothing behind in the process that runs them, so that it may judge another program.

What a test can change and the next one see is a module, an object of one, or Python itself. Tests that name none of
these but what is listed here can change none: all else that they have is made anew for each program.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

_KINDS = (
    *(
        ast.Module,
        ast.FunctionDef,
        ast.Return,
        ast.Assign,
        ast.AugAssign,
        ast.AnnAssign,
        ast.For,
        ast.While,
        ast.If,
        ast.Assert,
    ),
    *(ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Import, ast.ImportFrom, ast.alias, ast.arguments, ast.arg),
    *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Lambda, ast.IfExp, ast.Dict, ast.Set, ast.List, ast.Tuple, ast.Slice),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Compare, ast.Call, ast.keyword),
    *(ast.JoinedStr, ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name),
    *(ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop),
)
_FUNCTIONS = (
    *(abs, all, any, bin, chr, divmod, enumerate, filter, hex, isinstance, len, map, max, min, oct, ord, pow, range),
    *(repr, reversed, round, slice, sorted, sum, type, zip),
)
_CLASSES = (bool, str, bytes, int, float, complex, list, tuple, dict, set, frozenset)
_BUILTINS = {each.__name__ for each in (*_FUNCTIONS, *_CLASSES)}
_METHODS = {name for kind in _CLASSES for name in dir(kind) if not name.startswith("_")}
_MODULES = {"bisect", "cmath", "collections", "copy", "heapq", "itertools", "math", "string", "typing"}


def are_pure(tests: Iterable[ast.AST]) -> bool:
    """Whether code can leave nothing behind but in its own namespace.

    Examples:
        >>> are_pure([ast.parse("import math\\nassert math.isclose(f([1, 2]), 1.5)")])
        True
        >>> are_pure([ast.parse("import random\\nrandom.seed(1)\\nassert f() == 1")])
        False
    """
    nodes = [node for test in tests for node in ast.walk(test)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.asname or alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    return all(isinstance(node, _KINDS) and _is_pure(node, modules) for node in nodes)


def _is_pure(node: ast.AST, modules: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _BUILTINS or not (hasattr(builtins, node.id) or node.id.startswith("__"))
    if isinstance(node, ast.Import):
        return all(alias.name in _MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in _MODULES and not node.level
    if isinstance(node, ast.Attribute):
        of_module = isinstance(node.value, ast.Name) and node.value.id in modules
        return isinstance(node.ctx, ast.Load) and (
            node.attr in _METHODS or (of_module and not node.attr.startswith("_"))
        )
    return not getattr(node, "decorator_list", [])
