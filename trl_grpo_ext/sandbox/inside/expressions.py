"""Evaluate an expression that a program wrote, without running it: numbers, texts, containers, arithmetic, calls.

A name in it may be a stand-in for an object of the program, as in `eval(repr(point)) == point`, or a class of plain
values, such as `set` or `Decimal`. The judge's own objects are out of reach: a program that knew their names could
return what the tests expect.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

from trl_grpo_ext.sandbox.inside.handle import Stub, demote
from trl_grpo_ext.sandbox.inside.remote_class import RemoteClass

MAX_BITS = 100_000
"""The largest integer that arithmetic may give, in bits: `9**9**9` is none."""
MAX_ITEMS = 1_000_000
"""The longest text or list that a product may give."""

_CLASSES = (
    *(bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset),
    *(Counter, OrderedDict, defaultdict, deque, Decimal, Fraction, date, datetime, time, timedelta),
)
_NAMES = {(kind.__module__, kind.__qualname__) for kind in (*_CLASSES, bytearray, range, slice)}
_NUMBERS = (bool, int, float, complex, Decimal, Fraction)
_SEQUENCES = (str, bytes, tuple, list)
_DISPLAYS: dict[type[ast.expr], Callable[..., Any]] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}
_OPERATORS: dict[type[ast.operator | ast.unaryop], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


class NotPlainError(Exception):
    """An expression is more than numbers, texts, containers, arithmetic and calls of the program."""


def is_plain_class(module: str, name: str) -> bool:
    """Whether pickled data may name this class: its objects are plain values."""
    return (module, name) in _NAMES


def evaluate(source: Any, global_names: Mapping[str, Any], local_names: Mapping[str, Any]) -> Any:
    """The value of an expression. Objects in it that the program makes count as results of the program.

    Raises:
        NotPlainError: for an expression that is more.
        SyntaxError, TypeError, ValueError, ...: what `eval` raises for an expression that is wrong.

    Examples:
        >>> evaluate("(1 + 2 + 3) * 4", {}, {})
        24
    """
    if not isinstance(source, str | bytes):
        raise TypeError("eval() arg 1 must be a string, bytes or code object")
    text = str.__str__(source) if isinstance(source, str) else bytes(source)
    tree = ast.parse(text.strip(), mode="eval")
    value = _Evaluation(global_names, local_names).value(tree.body)
    demote(value)
    return value


class _Evaluation:
    def __init__(self, global_names: Mapping[str, Any], local_names: Mapping[str, Any]) -> None:
        self._scopes = (local_names, global_names, vars(builtins))

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return _DISPLAYS[type(node)](map(self.value, node.elts))
        if isinstance(node, ast.Dict) and all(node.keys):
            return {self.value(key): self.value(each) for key, each in zip(node.keys, node.values, strict=True) if key}
        if isinstance(node, ast.UnaryOp):
            return _apply(node.op, self.value(node.operand))
        if isinstance(node, ast.BinOp):
            return _apply(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Call) and all(keyword.arg for keyword in node.keywords):
            named = {str(keyword.arg): self.value(keyword.value) for keyword in node.keywords}
            return self._named(node.func)(*map(self.value, node.args), **named)
        return self._named(node)

    def _named(self, node: ast.expr) -> Any:
        """What a name stands for, or a name in a module, as in `datetime.date`."""
        if isinstance(node, ast.Name):
            found = self._found(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            home = self._found(node.value.id)
            found = vars(home).get(node.attr) if type(home) is ModuleType else None
        else:
            raise NotPlainError(type(node).__name__)
        if isinstance(found, Stub | RemoteClass) or any(found is kind for kind in _CLASSES):
            return found
        raise NotPlainError(f"the name {ast.unparse(node)[:60]}")

    def _found(self, name: str) -> Any:
        for scope in self._scopes:
            if name in scope:
                return scope[name]
        raise NameError(f"name {name!r} is not defined", name=name)


def _apply(kind: ast.operator | ast.unaryop, *operands: Any) -> Any:
    if not all(type(each) in (*_NUMBERS, *_SEQUENCES) for each in operands):
        raise NotPlainError(f"{type(kind).__name__} of objects")
    if len(operands) == 2:
        _check_size(kind, *operands)
    return _OPERATORS[type(kind)](*operands)


def _check_size(kind: ast.operator | ast.unaryop, left: Any, right: Any) -> None:
    """Refuse what would take long or much memory."""
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        growth: dict[type, int] = {
            ast.Pow: bits * abs(right),
            ast.LShift: bits + abs(right),
            ast.Mult: bits + right.bit_length(),
        }
        if growth.get(type(kind), 0) > MAX_BITS:
            raise NotPlainError("an integer that is too large")
    elif isinstance(kind, ast.Pow) and not all(isinstance(each, int | float | complex) for each in (left, right)):
        raise NotPlainError("a power that may be too large")
    elif isinstance(kind, ast.Mod) and isinstance(left, str | bytes):
        raise NotPlainError("the formatting of a text")
    elif isinstance(kind, ast.Mult):
        sizes = [len(each) if isinstance(each, _SEQUENCES) else abs(each) for each in (left, right)]
        if any(isinstance(each, _SEQUENCES) for each in (left, right)) and sizes[0] * sizes[1] > MAX_ITEMS:
            raise NotPlainError("a text or list that is too long")
