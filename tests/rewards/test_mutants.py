"""Mutants of reference solutions: their programs, and tests too weak to reject them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.cli.main import main
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.rewards.unit_tests.mutants import MOST, mutants, run_mutants

COUNT = (
    "def count(n):\n"
    "    out = []\n"
    "    i = 0\n"
    "    while i < n:\n"
    "        out.append(i)\n"
    "        i += 1\n"
    "    return out\n"
)
WEAK = {
    "tests": ["assert add(1, 2) == 3"],
    "canonical_solution": "def add(a, b):\n    return a + b if a < 9 else b\n",
}
STRONG = {
    "tests": ["assert count(3) == [0, 1, 2]", "assert count(0) == []"],
    "canonical_solution": COUNT,
}
WRONG = {"tests": ["assert count(3) == []"], "canonical_solution": COUNT}
ALONE = {"tests": ["assert count(0) == []"]}


@given(
    st.sampled_from(
        [COUNT, WEAK["canonical_solution"], "x = 1 if True and not 2 % 3 else [4 // 5]"]
    )
)
def test_a_mutant_is_another_program_of_python(source: str) -> None:
    made = mutants(str(source))
    assert made and len(made) <= MOST
    assert len({program for _, program in made}) == len(made)
    assert all(
        ast.dump(ast.parse(program)) != ast.dump(ast.parse(str(source)))
        for _, program in made
    )


def test_strong_tests_pass_no_mutant_and_weak_ones_some_which_are_named() -> None:
    weak, strong = run_mutants(UnitTestVerifier(timeout=1.0), [WEAK, STRONG])
    assert (
        "line 2: `a < 9` as `a <= 9`" in weak.passed
        and "line 2: `a + b` as `a - b`" not in weak.passed
    )
    assert strong.tried > 3 and not strong.passed


@pytest.mark.slow
def test_rows_without_a_reference_that_passes_have_no_mutants() -> None:
    assert [
        run.row
        for run in run_mutants(UnitTestVerifier(timeout=1.0), [WRONG, ALONE, {}, STRONG])
    ] == [3]


@pytest.mark.slow
def test_check_data_counts_them_and_names_the_weakest_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": "Write it."} | row for row in (STRONG, WEAK)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recipe = {"model_name_or_path": "none", "dataset_name": str(tmp_path / "train.jsonl")}
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump(recipe | {"rewards": [{"verifier": "unit_test", "timeout": 1.0}]})
    )
    assert main(["check-data", "--config", str(tmp_path / "mine.yaml"), "--mutants"]) == 0
    said = capsys.readouterr().out
    assert "mutants pass the tests, in 1 of 2 rows" in said
    assert f"  line 2 of {tmp_path / 'train.jsonl'}: 2 of 4, such as line 2: " in said
