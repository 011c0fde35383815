"""Find the names that a program's text takes from outside: neither builtins nor bound anywhere in it.

Completions are read by patterns in linear time, never parsed. Of a doubtful name the patterns say that it is bound.
"""

from __future__ import annotations

import builtins
import re

_BUILTINS = frozenset(dir(builtins))
_NAME = r"[^\W\d]\w*"
# The arguments of a function, with at most one pair of brackets within them, as in `def f(x, y=())`
_PARAMETERS = re.compile(rf"\bdef[ \t]+{_NAME}[ \t]*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_LAMBDA = re.compile(r"\blambda\b([^:\n]{0,200}):")
# What stands in brackets of a type: `Dict[str, int]`
_SUBSCRIPT = re.compile(r"\[[^\[\]]*\]")
_PARAMETER = re.compile(rf"(?:^|,)\s*\*{{0,2}}\s*({_NAME})")
_LOOP = re.compile(r"\bfor\b([^\n]{0,200}?)\bin\b")
# `a, *b = c`
_UNPACKED = re.compile(
    rf"^[ \t]*\(?((?:\*?{_NAME}[ \t]*,[ \t]*)+(?:\*?{_NAME})?)[ \t]*\)?[ \t]*=[^=]",
    re.MULTILINE,
)
# `with f() as x`, `(x := 1)`, `f(x=1)` and `a = x = 1`
_BINDINGS = re.compile(
    rf"\bas[ \t]+({_NAME})|\b({_NAME})[ \t]*:=|[(,=]\s*({_NAME})[ \t]*=(?!=)"
)
# `x = 1`, `x: int = 1`, and `a, b = 1, 2`
_VALUE = re.compile(rf"({_NAME})[ \t]*(?::[^=\n]*)?=[^=]")
_ANY_NAME = re.compile(_NAME)
_GLOBAL = re.compile(r"^[ \t]+global[ \t]+([^\n;#]*)", re.MULTILINE)


def assigned_names(statement: str) -> set[str]:
    """Return the names that an assignment at the top binds; none for another statement.

    Examples:
        >>> assigned_names("x: int = 1"), sorted(assigned_names("a, b = 1, 2")), assigned_names("x.y = 1")
        ({'x'}, ['a', 'b'], set())
    """
    value = _VALUE.match(statement)
    if value:
        return {value[1]}
    unpacked = _UNPACKED.match(statement)
    return set(_ANY_NAME.findall(unpacked[1])) if unpacked else set()


def bound_within(code: str) -> set[str]:
    """Collect names that a code text, without its strings, binds for a part of it: parameters and variables.

    Examples:
        >>> sorted(bound_within("def f(a, *b, c: D = 1):\\n    for d, e in a: g(h=1)\\n    i, j = lambda k: l"))
        ['a', 'b', 'c', 'd', 'e', 'h', 'i', 'j', 'k']
    """
    found: set[str] = set()
    for parameters in (*_PARAMETERS.findall(code), *_LAMBDA.findall(code)):
        found.update(_PARAMETER.findall(_SUBSCRIPT.sub("", parameters)))
    for targets in (*_LOOP.findall(code), *_UNPACKED.findall(code)):
        found.update(_ANY_NAME.findall(targets))
    for names in _BINDINGS.findall(code):
        found.update(names)
    return found - {""}


def free_names(code: str, mentioned: set[str], bound: set[str]) -> set[str]:
    """Return the names that a code text takes from outside.

    Args:
        code: The text, without its strings.
        mentioned: The names that it mentions.
        bound: The names that it defines, assigns or imports on lines of their own.
    """
    free = mentioned - bound - bound_within(code) - _BUILTINS
    return free.union(*(_ANY_NAME.findall(names) for names in _GLOBAL.findall(code)))
