"""Programs without tests: `unit_test` with `run_only` asks whether they run, and nothing else."""

from __future__ import annotations

from contextlib import closing

import pytest
from walls import walls_or_skip

from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.rewards.registry import find_verifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status

walls_or_skip()

CASES = {
    "print('hello')": (Status.CORRECT, 1.0, ""),
    "Here:\n```python\nx = 1\n```\nDone.": (Status.CORRECT, 1.0, ""),
    "if __name__ == '__main__':\n    raise ValueError('never')": (
        Status.INCORRECT,
        0.0,
        "test_1_error",
    ),
    "import sys\nsys.exit(3)": (Status.INCORRECT, 0.0, "test_1_error"),
    "import sys\nsys.exit(0)": (Status.CORRECT, 1.0, ""),  # as documented
    "input()": (Status.INCORRECT, 0.0, "test_1_error"),  # there is nothing to read
    "def f(:": (Status.INCORRECT, 0.0, "test_1_compile_error"),
    "import ctypes\nctypes.string_at(0)": (Status.INCORRECT, 0.0, "test_1_killed"),
    "while True: print('x' * 10000)": (Status.INCORRECT, 0.0, "test_1_output_limit"),
    "while True: pass": (Status.TIMEOUT, 0.0, "test_1_timeout"),
    "": (Status.UNPARSEABLE, 0.0, "no_code"),
    "<think>\n```python\nprint(1)\n```": (Status.UNPARSEABLE, 0.0, "unclosed_think"),
}


# That a time limit is a timeout is a quick test in `test_unit_test.py`, whose verifier this is.
@pytest.mark.parametrize(
    "completion",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one == "while True: pass" else [])
        for one in CASES
    ],
)
def test_a_program_is_right_if_it_ends_without_error(completion: str) -> None:
    verdict = UnitTestVerifier(run_only=True, timeout=2.0).verify(Sample(text=completion))
    assert (verdict.status, verdict.score, verdict.reason) == CASES[completion]


def test_it_needs_no_column_and_is_a_trl_reward() -> None:
    assert UnitTestVerifier(run_only=True)(["print(1)", "1 / 0"], prompts=["a", "b"]) == [
        1.0,
        0.0,
    ]


def test_settings_of_tests_are_refused() -> None:
    with pytest.raises(ValueError, match="run_only looks at no tests"):
        UnitTestVerifier(run_only=True, scoring="share")


def test_the_name_of_earlier_versions_is_refused_with_the_setting() -> None:
    with pytest.raises(ValueError, match="run_only: true"):
        find_verifier("run_without_error")


def test_a_program_that_imports_a_hidden_package_is_told_the_setting() -> None:
    with closing(UnitTestVerifier(run_only=True)) as plain:
        (verdict,) = plain.judge(["import click"])
    assert (verdict.score, verdict.reason) == (
        0.0,
        "hidden_import",
    ) and "packages: [click]" in verdict.details["why"]
    with closing(UnitTestVerifier(run_only=True, packages=["click"])) as shown:
        assert shown(["import click"]) == [1.0]
