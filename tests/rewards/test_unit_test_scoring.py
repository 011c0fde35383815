"""Scores from test results: shares, groups, and the naive grader's opinion."""

from __future__ import annotations

from typing import Any

import pytest

from trl_grpo_ext.programs.sandbox.job import Ending, RunResult
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.read_row import groups_of
from trl_grpo_ext.programs.suites.trials import passed_naively
from trl_grpo_ext.rewards.unit_tests.scoring import score

GROUPS = {"easy": [0, 1], "hard": [2]}


@pytest.mark.parametrize(
    ("passed", "all_of_them", "share", "groups"),
    [
        ([True, True, True], 1.0, 1.0, 1.0),
        ([True, True, False], 0.0, 2 / 3, 0.25),
        (
            [True, False, True],
            0.0,
            2 / 3,
            0.75,
        ),  # a group counts only if all of its tests passed
        ([False, True, False], 0.0, 1 / 3, 0.0),
        ([False, False, True], 0.0, 1 / 3, 0.75),
    ],
)
def test_results_come_to_a_score(
    passed: list[bool], all_of_them: float, share: float, groups: float
) -> None:
    weights = {"hard": 3.0}
    assert score(passed, "all", None, weights) == all_of_them
    assert score(passed, "share", None, weights) == pytest.approx(share)
    assert score(passed, "groups", GROUPS, weights) == groups


def test_groups_that_all_weigh_nothing_score_as_one() -> None:
    assert score([True, True, True], "groups", GROUPS, {"easy": 0.0, "hard": 0.0}) == 1.0
    assert score([True, True, False], "groups", GROUPS, {"easy": 0.0, "hard": 0.0}) == 0.0


def test_groups_hold_every_test_and_what_datasets_fill_up_with_none_is_no_group() -> None:
    assert groups_of(GROUPS | {"of another row": None}, 3) == GROUPS


@pytest.mark.parametrize(
    "groups",
    [
        {"easy": [0, 1]},
        {"easy": [1, 2]},
        {"easy": [0, 1, 2, 3]},
        {"easy": [0, True, 2]},
        {"easy": [0, 1, 2], "none": []},
        {"easy": [-1, 0, 1, 2]},
        {},
        [0, 1, 2],
        None,
    ],
)
def test_groups_that_leave_a_test_out_or_name_one_that_is_not_there_are_bad_data(
    groups: Any,
) -> None:
    with pytest.raises(BadTests):
        groups_of(groups, 3)


@pytest.mark.parametrize("ending", Ending)
def test_a_naive_grader_looks_only_at_how_the_process_ended(ending: Ending) -> None:
    assert passed_naively(RunResult(ending=ending)) is (
        ending in (Ending.PASSED, Ending.FAILED)
    )
