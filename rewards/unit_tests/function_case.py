"""What runs, in the judge, one call of a function against its expected result. Its source travels there as text."""

from __future__ import annotations

import json
import math
from typing import Any


class SolutionCall:
    """Calls a function of the solution, or the method of its class `Solution`, as LeetCode has it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, arguments: str) -> Any:
        import solution  # type: ignore[import-not-found,unused-ignore]  # the judge resolves it, in every test anew

        function = getattr(solution if hasattr(solution, self.name) else solution.Solution(), self.name)
        return function(*json.loads(arguments))


class Expected:
    """What a call should return.

    Args:
        result: The result, as JSON.
        wrapped: Whether every result of the row is a list of one, which may be the result itself or, as in APPS, a
            wrapping of it.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, result: str, *, wrapped: bool = False) -> None:
        self.result = json.loads(result)
        self.wrapped = wrapped

    def __eq__(self, got: object) -> bool:
        return same(self.result, got) or (self.wrapped and same(self.result[0], got))


def same(expected: Any, got: Any) -> bool:
    """Whether a result equals what JSON says it is: tuples are lists, keys are text, decimals are close."""
    if isinstance(expected, list):
        return (
            isinstance(got, list | tuple)
            and len(expected) == len(got)
            and all(same(one, other) for one, other in zip(expected, got, strict=True))
        )
    if isinstance(expected, dict):
        if not isinstance(got, dict) or len(expected) != len(got):
            return False
        keyed = {key if isinstance(key, str) else json.dumps(key, default=repr): value for key, value in got.items()}
        return keyed.keys() == expected.keys() and all(same(value, keyed[key]) for key, value in expected.items())
    if isinstance(expected, float) and type(got) in (int, float):
        return got == expected or (
            math.isfinite(expected) and abs(got) < 1e300 and math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-6)
        )
    return type(got) in (str, int, float, bool, type(None)) and bool(got == expected)
