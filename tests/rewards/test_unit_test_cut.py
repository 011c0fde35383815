"""Answers whose end cuts the last statement: the program in front of it is judged."""

from __future__ import annotations

import pytest
from walls import walls_or_skip

from trl_grpo_ext.programs.sandbox.cut_end import without_cut_end
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.rewards.unit_tests.verifier import WholeProgram
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict

walls_or_skip()

FENCE = "`" * 3
PROMPT = 'def twice(x):\n    """Double x."""\n'
RIGHT = "    return 2 * x\n"
WRONG = "    return 3 * x\n"
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
CUTS = (
    "print(twice(1",
    "assert twice(1) ==",
    "def other(x): return (x",
    "def other(x):\n    if x >",
    "class Test:\n    def test(self, x",
    "@cache\n@other\ndef more(x",
    "cases = [\n(1, 2),\n(2,",
    '"""\nThis is how it wor',
    'print("It',
    "for x in range(3",
)


def _judge(*answers: str) -> list[Verdict]:
    return UnitTestVerifier(timeout=3.0).judge(
        answers,
        prompts=[PROMPT] * len(answers),
        test=[TEST] * len(answers),
        entry_point=["twice"] * len(answers),
    )


def test_the_statement_that_an_answers_end_cuts_is_left_out() -> None:
    bodies = [f"{RIGHT}\n\n{cut}" for cut in CUTS]
    blocks = [f"So:\n{FENCE}python\n{PROMPT}{RIGHT}\n{cut}" for cut in CUTS]
    verdicts = _judge(*bodies, *blocks)
    assert [verdict.reason for verdict in verdicts] == [""] * len(verdicts)


def test_a_wrong_program_in_front_of_a_cut_statement_stays_wrong() -> None:
    bodies = [f"{WRONG}\n\n{cut}" for cut in CUTS]
    blocks = [f"{FENCE}python\n{PROMPT}{WRONG}\n{cut}" for cut in CUTS]
    verdicts = _judge(*bodies, *blocks)
    assert {verdict.reason for verdict in verdicts} == {"test_1_failed"}


@pytest.mark.parametrize(
    "answer",
    [
        # A closing fence, or a tag: the model has written the statement so.
        f"{FENCE}python\n{PROMPT}{RIGHT}\nprint(twice(1\n{FENCE}",
        f"<answer>{PROMPT}{RIGHT}\nprint(twice(1\n</answer>",
        # The program itself is cut.
        f"{PROMPT}    return (2 * x",
        f"import math\n\n{PROMPT}    return (2 * x",
        # More than the last statement is no Python.
        f"{PROMPT}{RIGHT}\nx = ?\n\ny = 1\nprint(y",
        # The open bracket takes a definition along.
        f"{PROMPT}{RIGHT}\nprint(twice(1)\n\ndef twice(x):\n    return x\n",
    ],
)
def test_any_other_text_that_is_no_python_stays_a_compile_error(answer: str) -> None:
    (verdict,) = _judge(answer)
    assert verdict.reason == "test_1_compile_error"


def test_a_tools_argument_is_whole_and_no_answers_end_cuts_it() -> None:
    argument = WholeProgram(f"{PROMPT}{RIGHT}\nprint(twice(1")
    sample = Sample(prompt="", text=argument, row={"tests": ["assert twice(2) == 4"]})
    (verdict,) = UnitTestVerifier().judge_samples([sample])
    assert verdict.reason == "test_1_compile_error"


def test_nothing_is_left_of_a_long_text_or_of_one_statement() -> None:
    assert without_cut_end("x = 1\n" * 20_000 + "print(") == ""
    assert without_cut_end("print(\n1") == ""
    assert without_cut_end("x = 1\n  y\n z") == ""
