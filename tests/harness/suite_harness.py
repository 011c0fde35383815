"""Run suites of dataset rows in this process, against harmless programs."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

import pytest

from trl_grpo_ext.programs.sandbox.job import CallSuite
from trl_grpo_ext.programs.suites.bad_tests import ADVICE, BadTests
from trl_grpo_ext.programs.suites.columns import suite_from_row

FENCE = "`" * 3
FIELDS = ("inputs", "outputs", "input", "output", "fn_name", "test_cases", "language")

STUB = '''from typing import List
import math

LIMIT = 10

def norm(xs: List[float]) -> float:
    return math.sqrt(sum(x * x for x in xs))

def unit(xs: List[float]) -> List[float]:
    """ The vector of length 1 in the same direction.
    """
'''

STACK = """
class Stack:
    def __init__(self, items): self.items = list(items)
    def push(self, item): self.items.append(item)
    def pop(self): return self.items.pop()
def top(stack): return stack.items[-1]
"""


def call_suite(row: Mapping[str, Any], prompt: Any = None) -> CallSuite:
    suite = suite_from_row(row, prompt)
    assert isinstance(suite, CallSuite)
    return suite


def run(suite: CallSuite, program: str) -> list[str]:
    """Run a suite without a sandbox, and return each test's ending; only for programs written in tests."""
    solution = types.ModuleType("solution")
    exec(program, solution.__dict__)
    namespace: dict[str, Any] = {"__name__": "tests"}
    taken = {
        name: getattr(solution, name) for name in suite.names if hasattr(solution, name)
    }
    namespace |= taken
    kept = {name: sys.modules.get(name) for name in ("solution", "pytest")}
    sys.modules["solution"] = solution
    try:
        exec(suite.setup, namespace)
        namespace = {
            name: value for name, value in namespace.items() if name not in suite.names
        } | taken
        return [_ending(test, dict(namespace)) for test in suite.tests]
    finally:
        sys.modules.update({name: module for name, module in kept.items() if module})
        sys.modules.pop("solution")


def _ending(test: str, namespace: dict[str, Any]) -> str:
    try:
        exec(test, namespace)
    except Exception as error:
        return type(error).__name__
    return "passed"


def reason_of(row: Mapping[str, Any], prompt: Any = None) -> str:
    with pytest.raises(BadTests) as caught:
        suite_from_row(row, prompt)
    assert caught.value.advice == ADVICE[caught.value.reason]
    assert len(caught.value.value) <= 160
    return caught.value.reason
