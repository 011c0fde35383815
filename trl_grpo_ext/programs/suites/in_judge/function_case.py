"""Compare a function call with its expected result; the source of this module is sent to the judge as text."""

from __future__ import annotations

import json
import math
from typing import Any


class SolutionCall:
    """Calls a solution's function, or the method of its class `Solution`, as on LeetCode."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, arguments: str) -> Any:
        # The judge resolves `solution`, anew in every test.
        import solution  # type: ignore[import-not-found,unused-ignore]

        home = solution if hasattr(solution, self.name) else solution.Solution()
        return getattr(home, self.name)(*json.loads(arguments))


class expected:  # noqa: N801  (tests read as sentences: expected(...) == result_of(...))
    """The expected result of a call, compared by `==`.

    Args:
        result: The expected result, as JSON.
        wrapped: True if every result of the row is a list with one item: the list, or (as in APPS) its item, is the
            result.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, result: str, *, wrapped: bool = False) -> None:
        self.result = json.loads(result)
        self.wrapped = wrapped

    def __eq__(self, got: object) -> bool:
        return same(self.result, got) or (self.wrapped and same(self.result[0], got))


def same(expected: Any, got: Any) -> bool:
    """Compare a result with its JSON form: tuples equal lists, keys equal their text, floats are close."""
    if isinstance(expected, list):
        if not isinstance(got, list | tuple) or len(expected) != len(got):
            return False
        # Strict, since an object of the program may have fewer items than it says.
        return all(same(one, other) for one, other in zip(expected, got, strict=True))
    if isinstance(expected, dict):
        if not isinstance(got, dict) or len(expected) != len(got):
            return False
        keyed = {}
        for key, value in got.items():
            name = key if isinstance(key, str) else json.dumps(key, default=repr)
            keyed[name] = value
        return keyed.keys() == expected.keys() and all(
            same(value, keyed[key]) for key, value in expected.items()
        )
    if isinstance(expected, float) and type(got) in (int, float):
        return _is_close(expected, got)
    # Exact types: an object of the program's own class could equal everything.
    return type(got) in (str, int, float, bool, type(None)) and bool(got == expected)


def _is_close(expected: float, got: float) -> bool:
    if got == expected:
        return True
    # An integer may be too large for a float.
    are_finite = math.isfinite(expected) and abs(got) < 1e300
    return are_finite and math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-6)
