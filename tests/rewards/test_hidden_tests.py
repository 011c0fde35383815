"""Shown and hidden tests: training on shown tests, and detecting overfitting by hidden tests."""

from __future__ import annotations

from typing import Any

import pytest
from walls import walls_or_skip

from trl_grpo_ext.rewards import UnitTestVerifier

walls_or_skip()

SHOWN, HIDDEN = UnitTestVerifier(part="shown"), UnitTestVerifier(part="hidden")
RIGHT = "def double(x):\n    return 2 * x"
BY_HEART = "def double(x):\n    return {1: 2, 3: 6}.get(x)"
CASES = [{"input": f"{number}\n", "output": f"{2 * number}\n"} for number in (1, 2, 3, 4)]
FORMS = {
    "asserts": [f"assert double({number}) == {2 * number}" for number in (1, 2, 3, 4)],
    "pytest": "\n".join(
        f"def test_{number}():\n    assert double({number}) == {2 * number}\n"
        for number in (1, 2, 3, 4)
    ),
    "unittest": "import unittest\nclass Tests(unittest.TestCase):\n"
    + "".join(
        f"    def test_{n}(self):\n        self.assertEqual(double({n}), {2 * n})\n"
        for n in (1, 2, 3, 4)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_program_that_has_the_shown_tests_by_heart_passes_them_and_fails_the_hidden_ones(
    form: str,
) -> None:
    tests = [FORMS[form]] * 2
    assert SHOWN([RIGHT, BY_HEART], tests=tests) == [1.0, 1.0]
    assert HIDDEN([RIGHT, BY_HEART], tests=tests) == [1.0, 0.0]


def test_cases_of_programs_that_read_and_print_are_parted_too() -> None:
    by_heart = "print({1: 2, 3: 6}.get(int(input())))"
    columns: dict[str, Any] = {"tests": [CASES] * 2}
    assert SHOWN(["print(2 * int(input()))", by_heart], **columns) == [1.0, 1.0]
    assert HIDDEN(["print(2 * int(input()))", by_heart], **columns) == [1.0, 0.0]


def test_a_row_with_one_test_has_none_to_hide() -> None:
    tests = [["assert double(1) == 2"]]
    assert SHOWN([RIGHT], tests=tests) == [1.0]
    (verdict,) = HIDDEN.judge([RIGHT], tests=tests)
    assert (verdict.score, verdict.reason) == (None, "tests_none_hidden")


def test_the_share_of_hidden_tests_is_a_setting() -> None:
    knows_three = "def double(x):\n    return {1: 2, 2: 4, 3: 6}.get(x)"
    quarter = {
        part: UnitTestVerifier(part=part, hidden=0.25) for part in ("shown", "hidden")
    }  # type: ignore[arg-type]
    tests = [FORMS["asserts"]] * 2
    assert quarter["shown"]([RIGHT, knows_three], tests=tests) == [1.0, 1.0]
    assert quarter["hidden"]([RIGHT, knows_three], tests=tests) == [1.0, 0.0]
    assert [
        len(verifier.suite({"tests": FORMS["asserts"]}).tests)
        for verifier in quarter.values()
    ] == [3, 1]


@pytest.mark.parametrize("hidden", [0, 1, -0.5, 1.5, float("nan"), "0.5", True])
def test_a_share_that_hides_none_or_all_is_refused(hidden: Any) -> None:
    with pytest.raises(ValueError, match="hidden is a share of tests"):
        UnitTestVerifier(part="hidden", hidden=hidden)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"part": "hiden"}, "Did you mean `hidden`"),
        ({"part": "shown", "scoring": "groups"}, "not both"),
    ],
)
def test_a_part_that_there_is_not_and_one_beside_groups_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        UnitTestVerifier(**arguments)
