"""Programs without tests: judged by a run without error."""

from contextlib import closing

import pytest
from walls import walls_or_skip

from trl_grpo_ext.rewards import RunWithoutErrorVerifier, run_without_error_reward
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status

walls_or_skip()

CASES = {
    "print('hello')": (Status.CORRECT, 1.0, ""),
    "Here:\n```python\nx = 1\n```\nDone.": (Status.CORRECT, 1.0, ""),
    "if __name__ == '__main__':\n    raise ValueError('never')": (Status.INCORRECT, 0.0, "error"),
    "import sys\nsys.exit(3)": (Status.INCORRECT, 0.0, "error"),
    "import sys\nsys.exit(0)": (Status.CORRECT, 1.0, ""),  # as documented
    "input()": (Status.INCORRECT, 0.0, "error"),  # there is nothing to read
    "def f(:": (Status.INCORRECT, 0.0, "compile_error"),
    "import ctypes\nctypes.string_at(0)": (Status.INCORRECT, 0.0, "killed"),
    "while True: print('x' * 10000)": (Status.INCORRECT, 0.0, "output_limit"),
    "while True: pass": (Status.TIMEOUT, 0.0, "timeout"),
    "": (Status.UNPARSEABLE, 0.0, "no_code"),
    "<think>\n```python\nprint(1)\n```": (Status.UNPARSEABLE, 0.0, "unclosed_think"),
}


@pytest.mark.parametrize("completion", CASES)
def test_a_program_is_right_if_it_ends_without_error(completion: str) -> None:
    verdict = RunWithoutErrorVerifier(timeout=2.0).verify(Sample(text=completion))
    assert (verdict.status, verdict.score, verdict.reason) == CASES[completion]


def test_it_needs_no_column_and_is_a_trl_reward() -> None:
    assert run_without_error_reward(["print(1)", "1 / 0"], prompts=["a", "b"]) == [1.0, 0.0]


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="timeout"):
        RunWithoutErrorVerifier(timeout=0)


def test_a_program_that_imports_a_hidden_package_is_told_the_setting() -> None:
    with closing(RunWithoutErrorVerifier()) as plain:
        (verdict,) = plain.judge(["import click"])
    assert (verdict.score, verdict.reason) == (0.0, "hidden_import") and "packages: [click]" in verdict.details["why"]
    with closing(RunWithoutErrorVerifier(packages=["click"])) as shown:
        assert shown(["import click"]) == [1.0]
