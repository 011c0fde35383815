"""Evaluate a program's expression without running code: numbers, texts, containers, arithmetic, calls.

The expression may call functions and classes of the program, as in `eval(repr(point)) == point`, classes of plain
values, such as `set` or `Decimal`, and functions such as `abs` or `math.sqrt`. It may read names that the test gives
it, as in `eval(f(), {"x": 3})`. The tests' own variables are out of reach: a program that read them could return
expected values.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.contained import demote
from trl_grpo_ext.programs.sandbox.inside.remote_class import RemoteClass, is_function

MAX_BITS = 100_000
"""Limit in bits for integer results of arithmetic: `9**9**9` exceeds it."""
MAX_ITEMS = 1_000_000
"""Limit for the length of a repeated text or list."""

_CLASSES = (
    *(bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset),
    *(
        Counter,
        OrderedDict,
        defaultdict,
        deque,
        Decimal,
        Fraction,
        date,
        datetime,
        time,
        timedelta,
    ),
)
_NAMES = {
    (kind.__module__, kind.__qualname__) for kind in (*_CLASSES, bytearray, range, slice)
}
_FUNCTIONS = (
    abs,
    all,
    any,
    divmod,
    len,
    max,
    min,
    round,
    sorted,
    sum,
    *vars(math).values(),
)
_NUMBERS = (bool, int, float, complex, Decimal, Fraction)
_SEQUENCES = (str, bytes, tuple, list)
_DISPLAYS: dict[type[ast.expr], Callable[..., Any]] = {
    ast.List: list,
    ast.Tuple: tuple,
    ast.Set: set,
}
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
_COMPARISONS: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class NotPlainError(Exception):
    """The expression contains more than numbers, texts, containers, arithmetic and permitted calls."""


def is_plain_class(module: str, name: str) -> bool:
    """Return whether pickled data may name a class: only classes of plain values."""
    return (module, name) in _NAMES


def evaluate(
    source: Any,
    global_names: Mapping[str, Any],
    local_names: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
) -> Any:
    """Evaluate an expression; objects that the program makes in it count as results of the program.

    Args:
        source: The expression.
        global_names: Global names of the test; the expression may only call permitted functions and classes, and read
            float constants of modules.
        local_names: Local names of the test, searched before the global names under the same restriction.
        given: Names that the test gives the expression to read.

    Raises:
        NotPlainError: for an expression that is more.
        SyntaxError, TypeError, ValueError, ...: any error that `eval` raises for an invalid expression.

    Examples:
        >>> evaluate("(1 + 2 + 3) * 4", {}, {})
        24
    """
    if not isinstance(source, str | bytes):
        raise TypeError("eval() arg 1 must be a string, bytes or code object")
    # The text that crossed: a stand-in's own methods could give another text.
    text = str.__str__(source) if isinstance(source, str) else bytes(source)
    tree = ast.parse(text.strip(), mode="eval")
    value = _Evaluation((local_names, global_names, vars(builtins)), given or {}).value(
        tree.body
    )
    demote(value)
    return value


class _Evaluation:
    def __init__(
        self, scopes: tuple[Mapping[str, Any], ...], given: Mapping[str, Any]
    ) -> None:
        self._scopes = scopes
        self._given = given

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return _DISPLAYS[type(node)](map(self.value, node.elts))
        # `{**other}` has a key of None, and `f(**other)` a keyword of None: both go to `_chosen`, which refuses them.
        if isinstance(node, ast.Dict) and all(node.keys):
            return self._dict(node)
        if isinstance(node, ast.UnaryOp):
            return _apply(node.op, self.value(node.operand))
        if isinstance(node, ast.BinOp):
            return _apply(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Call) and all(keyword.arg for keyword in node.keywords):
            named = {
                str(keyword.arg): self.value(keyword.value) for keyword in node.keywords
            }
            return self._function(node.func)(*map(self.value, node.args), **named)
        if isinstance(node, ast.Name) and node.id in self._given:
            return self._given[node.id]
        return self._chosen(node)

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        found = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                found[self.value(key)] = self.value(value)
        return found

    def _chosen(self, node: ast.expr) -> Any:
        """Evaluate a comparison, `and`, `or`, a conditional expression, or a module's constant such as `math.pi`."""
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.BoolOp):
            *others, last = node.values
            for each in others:
                value = self.value(each)
                # `or` ends at its first true value, `and` at its first false value.
                if bool(value) is isinstance(node.op, ast.Or):
                    return value
            return self.value(last)
        if isinstance(node, ast.IfExp):
            return self.value(node.body if self.value(node.test) else node.orelse)
        found = self._named(node)
        if type(found) is float and isinstance(node, ast.Attribute):
            return found
        raise _not_plain(node)

    def _compared(self, node: ast.Compare) -> bool:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        if not _are_plain(values):
            raise NotPlainError("a comparison of objects")
        result = True
        for place, operation in enumerate(node.ops):
            compare = _COMPARISONS.get(type(operation))
            if compare is None:
                raise NotPlainError("a comparison of objects")
            result = result and compare(values[place], values[place + 1])
        return bool(result)

    def _function(self, node: ast.expr) -> Any:
        found = self._named(node)
        # Functions are compared by identity: an object of the program could claim to equal `len`.
        is_of_program = isinstance(found, RemoteClass) or is_function(found)
        if is_of_program or any(found is each for each in (*_CLASSES, *_FUNCTIONS)):
            return found
        raise _not_plain(node)

    def _named(self, node: ast.expr) -> Any:
        """Look up a name, or a module's attribute such as `datetime.date`."""
        if isinstance(node, ast.Name):
            return self._found(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            home = self._found(node.value.id)
            # An exact type: `SolutionModule` is a module too, and would ask the program.
            if type(home) is ModuleType:
                return vars(home).get(node.attr)
            return None
        raise NotPlainError(type(node).__name__)

    def _found(self, name: str) -> Any:
        for scope in self._scopes:
            if name in scope:
                return scope[name]
        raise NameError(f"name {name!r} is not defined", name=name)


def _apply(kind: ast.operator | ast.unaryop, *operands: Any) -> Any:
    if not _are_plain(operands):
        raise NotPlainError(f"{type(kind).__name__} of objects")
    if len(operands) == 2:
        _check_size(kind, *operands)
    return _OPERATORS[type(kind)](*operands)


def _are_plain(values: Iterable[Any]) -> bool:
    return all(type(each) in (*_NUMBERS, *_SEQUENCES) for each in values)


def _not_plain(node: ast.expr) -> NotPlainError:
    return NotPlainError(f"the name {ast.unparse(node)[:60]}")


def _check_size(kind: ast.operator | ast.unaryop, left: Any, right: Any) -> None:
    """Refuse arithmetic whose result may be too large.

    Raises:
        NotPlainError: if the result could exceed `MAX_BITS` or `MAX_ITEMS`, or formats a text.
    """
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        growth: dict[type, int] = {
            ast.Pow: bits * abs(right),
            ast.LShift: bits + abs(right),
            ast.Mult: bits + right.bit_length(),
        }
        if growth.get(type(kind), 0) > MAX_BITS:
            raise NotPlainError("an integer that is too large")
    elif isinstance(kind, ast.Pow) and not all(
        isinstance(each, int | float | complex) for each in (left, right)
    ):
        raise NotPlainError("a power that may be too large")
    elif isinstance(kind, ast.Mod) and isinstance(left, str | bytes):
        raise NotPlainError("the formatting of a text")
    elif isinstance(kind, ast.Mult):
        sizes = [
            len(each) if isinstance(each, _SEQUENCES) else abs(each)
            for each in (left, right)
        ]
        is_repetition = isinstance(left, _SEQUENCES) or isinstance(right, _SEQUENCES)
        if is_repetition and sizes[0] * sizes[1] > MAX_ITEMS:
            raise NotPlainError("a text or list that is too long")
