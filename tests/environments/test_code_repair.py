"""Code repair: public tests are run for the model, hidden tests judge its last submission, and no failure is a 0."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from datasets import Dataset
from environment_run import Scripted, call, scored_by_environments, tool_tokenizer
from planted import collected
from walls import walls_or_skip

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status
from trl_grpo_ext.commands.replay.rescorer import Rescorer
from trl_grpo_ext.environments import CodeRepairEnvironment, extra_submissions
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.programs.sandbox.job import RunResult, no_verdict
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.recipe.file import load_recipe
from trl_grpo_ext.recipe.recipe import parse_recipe
from trl_grpo_ext.recipe.run import _check_split
from trl_grpo_ext.rewards import EnvironmentReward, UnitTestVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun

walls_or_skip()
pytestmark = [
    scored_by_environments,
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory'"),
]

BROKEN = "def add(a, b):\n    return a - b"
RIGHT = "def add(a, b):\n    return a + b"
ENDLESS = "while True: pass"
TESTS = [
    "assert add(1, 0) == 1",
    "assert add(2, 2) == 4",
    "assert add(3, 0) == 3",
    "assert add(0, 5) == 5",
]
# It knows the public tests by heart.
SPECIAL = "def add(a, b):\n    return a"
ROW = {
    "prompt": [{"role": "user", "content": "Mend it."}],
    "broken": BROKEN,
    "tests": TESTS,
}


@pytest.fixture
def repair() -> Iterator[CodeRepairEnvironment]:
    environment = CodeRepairEnvironment()
    environment.reset(**ROW)
    yield environment


def test_the_model_is_shown_the_code_and_the_public_tests_only(
    repair: CodeRepairEnvironment,
) -> None:
    shown = repair.reset(**ROW)
    assert shown == f"\n```python\n{BROKEN}\n```\nTests:\n{TESTS[0]}\n{TESTS[2]}"
    missing = repair.reset(tests=TESTS)
    assert missing == f"\nTests:\n{TESTS[0]}\n{TESTS[2]}"


def test_a_submission_is_told_how_each_public_test_has_ended(
    repair: CodeRepairEnvironment,
) -> None:
    told = repair.submit("def add(a, b):\n    if a == 3: raise KeyError(a)\n    return 7")
    assert told.splitlines() == [
        "assert add(1, 0) == 1: failed, add(1, 0) returned 7",
        "assert add(3, 0) == 3: error, KeyError: 3",
    ]
    assert repair.state == {
        "submissions": 1,
        "code": "def add(a, b):\n    if a == 3: raise KeyError(a)\n    return 7",
        "public": "0 of 2 passed",
    }


def test_the_last_submission_is_judged_by_the_hidden_tests(
    repair: CodeRepairEnvironment,
) -> None:
    repair.submit(SPECIAL)
    assert repair.state["public"] == "2 of 2 passed"
    assert (repair.get_reward().status, repair.get_reward().score) == (
        Status.INCORRECT,
        0.0,
    )
    repair.submit(RIGHT)
    assert (repair.get_reward().status, repair.get_reward().score) == (Status.CORRECT, 1.0)


FORMS: dict[str, Any] = {
    "asserts": {"tests": TESTS},
    "mbpp": {"test_list": TESTS, "test_setup_code": "import math"},
    "pytest": {
        "tests": "\n".join(f"def test_{n}():\n    {test}\n" for n, test in enumerate(TESTS))
    },
    "input and output": {
        "input_output": {
            "inputs": [[1, 0], [2, 2], [3, 0]],
            "outputs": [1, 4, 3],
            "fn_name": "add",
        }
    },
}


# An endless program costs its time limit twice: one form stands for the others.
@pytest.mark.parametrize(
    ("form", "program"),
    [
        pytest.param(
            form,
            program,
            marks=[pytest.mark.slow] if program == ENDLESS and form != "asserts" else [],
        )
        for form, program in product(
            FORMS,
            [RIGHT, SPECIAL, BROKEN, "def add(", "import sys; sys.exit(0)", ENDLESS],
        )
    ],
)
def test_the_verdict_is_that_of_the_verifier_unit_test(form: str, program: str) -> None:
    timeout = 0.3 if program == ENDLESS else 5.0
    environment = CodeRepairEnvironment()
    environment.tests = UnitTestVerifier(timeout=timeout)
    environment.__init__()  # type: ignore[misc]  # as a subclass would have it
    environment.reset(**FORMS[form])
    environment.submit(program)
    verdict = environment.get_reward()
    expected = UnitTestVerifier(timeout=timeout, part="hidden").verify(
        Sample(text=program, row=FORMS[form])
    )
    assert (verdict.status, verdict.score, verdict.reason) == (
        expected.status,
        expected.score,
        expected.reason,
    )


def test_programs_that_read_and_print_are_repaired_too() -> None:
    environment = CodeRepairEnvironment()
    cases = [{"input": f"{n}\n", "output": f"{2 * n}\n"} for n in (1, 2)]
    assert "for the input '1\\n' it prints '2\\n'" in environment.reset(tests=cases)
    assert environment.submit("print(2)").endswith(": passed")
    assert environment.get_reward().score == 0.0
    environment.submit("print(2 * int(input()))")
    assert environment.get_reward().score == 1.0


def test_hidden_tests_may_have_a_column_of_their_own() -> None:
    kind = type("TwoColumns", (CodeRepairEnvironment,), {"hidden_column": "hidden_tests"})
    environment = kind()
    shown = environment.reset(tests=TESTS[:1], hidden_tests=TESTS[1:])
    assert shown == f"\nTests:\n{TESTS[0]}"
    environment.submit(SPECIAL)
    assert environment.get_reward().score == 0.0
    environment.submit(RIGHT)
    assert environment.get_reward().score == 1.0


def test_a_rollout_without_a_submission_is_wrong_and_says_so(
    repair: CodeRepairEnvironment,
) -> None:
    assert (repair.get_reward().score, repair.get_reward().reason) == (0.0, "unsubmitted")


def test_a_rollout_has_so_many_submissions(repair: CodeRepairEnvironment) -> None:
    for _ in range(5):
        repair.submit(BROKEN)
    assert (
        repair.submit(RIGHT)
        == "There are no submissions left: 5 were made. The last one counts."
    )
    assert repair.get_reward().score == 0.0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"tests": TESTS[:1]}, "tests_none_hidden"),
        ({}, "tests_missing"),
        ({"tests": ["assert add(", TESTS[0]]}, ""),
    ],
)
def test_a_row_whose_tests_judge_nothing_is_void(row: dict[str, Any], reason: str) -> None:
    environment = CodeRepairEnvironment()
    environment.reset(**row)
    if reason:
        assert environment.get_reward().reason == reason
    assert environment.submit(RIGHT)
    verdict = environment.get_reward()
    assert (verdict.score, verdict.blame) == (None, Blame.DATA)
    assert not reason or verdict.reason == reason


def test_a_submission_that_the_sandbox_failed_voids_the_row(
    repair: CodeRepairEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: LocalSandbox, jobs: Any) -> list[RunResult]:
        return [no_verdict("the zygote is gone") for _ in jobs]

    repair.submit(BROKEN)
    with monkeypatch.context() as broken:
        broken.setattr(LocalSandbox, "run", fails)
        with pytest.raises(RuntimeError, match="The sandbox failed, not your code"):
            repair.submit(RIGHT)
        assert (repair.get_reward().score, repair.get_reward().blame) == (
            None,
            Blame.GRADER,
        )
    # The model could not see what its program does.
    assert (repair.get_reward().score, repair.get_reward().reason) == (
        None,
        "sandbox_failed",
    )
    repair.reset(**ROW)
    repair.submit(RIGHT)
    assert repair.get_reward().score == 1.0


@pytest.mark.parametrize("code", [None, 3, ["x"]])
def test_code_that_is_no_text_is_refused(code: Any, repair: CodeRepairEnvironment) -> None:
    with pytest.raises(TypeError, match="code is a text of Python"):
        repair.submit(code)


def test_an_empty_submission_has_no_code(repair: CodeRepairEnvironment) -> None:
    assert repair.submit("") == "No test was run: no_code."
    assert (repair.get_reward().status, repair.get_reward().score) == (
        Status.UNPARSEABLE,
        0.0,
    )


def test_the_model_reads_a_part_of_a_long_result(repair: CodeRepairEnvironment) -> None:
    repair.reset(tests=[f"assert add(0, '{'x' * 3000}{n}')" for n in range(6)])
    told = repair.submit(RIGHT)
    assert len(told) < 4100
    assert "characters are left out" in told


@pytest.mark.parametrize(("submissions", "price"), [(0, 0.0), (1, 0.0), (4, 3.0)])
def test_a_price_counts_the_submissions_after_the_first(
    submissions: int, price: float
) -> None:
    outcome = Outcome(
        environment="CodeRepairEnvironment", state={"submissions": submissions}
    )
    assert extra_submissions.verify(Sample(text="", outcome=outcome)).score == price


@pytest.mark.parametrize("state", [None, 3, {"total": 1}])
def test_a_rollout_of_another_environment_has_no_price(state: Any) -> None:
    outcome = Outcome(environment="Game", state=state)
    assert extra_submissions.verify(Sample(text="", outcome=outcome)).score is None
    assert extra_submissions.verify(Sample(text="")).score is None


def test_the_model_is_shown_one_tool() -> None:
    public = [
        name
        for name, _ in inspect.getmembers(CodeRepairEnvironment, inspect.isfunction)
        if name[0] != "_"
    ]
    assert public == ["get_reward", "reset", "submit"]


# Whatever a public run can read holds nothing of the hidden tests.
LOOKS = """
import gc, os, sys
found = []
for thing in gc.get_objects():
    if type(thing) in (dict, list, tuple, set):
        found += [each for each in (*thing, *(thing.values() if type(thing) is dict else ())) if type(each) is str]
frame = sys._getframe()
while frame:
    found += [each for each in frame.f_locals.values() if type(each) is str]
    frame = frame.f_back
for root, folders, files in os.walk("/"):
    # Python's library and packages are those of every program, and too large to read here.
    folders[:] = [each for each in folders if "python" not in each and each not in ("dev", "usr", "lib", "packages")]
    for name in files:
        try:
            found.append(open(os.path.join(root, name), errors="replace").read(100_000))
        except Exception:
            pass
# Joined here, so that the program itself does not hold it.
mark = "".join(["HIDDEN", "MARK"])
seen = any(mark in text for text in found)
def add(a, b):
    return seen
"""


def test_no_program_finds_a_hidden_test(repair: CodeRepairEnvironment) -> None:
    repair.reset(tests=["assert add(1, 0) is False", "assert add('HIDDENMARK', 1) == 1"])
    assert repair.submit(LOOKS).endswith(": passed")
    assert "returned True" in repair.submit(f"planted = ['HIDDENMARK']\n{LOOKS}")


@pytest.fixture
def trained(one_layer: str, config: Callable[..., Any]) -> Callable[..., Any]:
    """Train a step in which the model submits `programs`, one a turn."""

    def train(*programs: str, row: Any = ROW) -> Any:
        mix = RewardMix(
            [
                RewardTerm(name="solved", verifier=EnvironmentReward()),
                RewardTerm(
                    name="price", verifier=extra_submissions, weight=-0.1, gate="solved"
                ),
            ]
        )
        rows = Dataset.from_list([row] * 8)
        args = config(max_completion_length=300, max_steps=1, record_scorecards=True)
        trainer = Scripted(
            one_layer, mix, args, rows, environment_factory=CodeRepairEnvironment,
            processing_class=tool_tokenizer(one_layer),
        )  # fmt: skip
        trainer.says = (*(call("submit", code=program) for program in programs), "done")
        cards = collected(trainer)
        trainer.train()
        return cards[0], Path(args.output_dir)

    return train


SHORT = {**ROW, "broken": "f=0", "tests": ["assert f(1)", "assert f(2)"]}


def test_in_a_run_a_special_cased_program_passes_the_public_tests_and_gets_0(
    trained: Any,
) -> None:
    card, folder = trained("def f(x): return x==1", row=SHORT)
    assert {sample.outcome.state["public"] for sample in card.samples} == {"1 of 1 passed"}
    assert [verdict.score for verdict in card.verdicts["solved"]] == [0.0] * len(card)
    # Judged again from the record, the verdicts are the same.
    (recorded,) = RecordedRun(folder).cards("train")
    again = Rescorer(
        RewardMix([RewardTerm(name="solved", verifier=EnvironmentReward())]), {}
    ).score(recorded, 0.0, alone=True)
    assert [verdict.score for verdict in again.verdicts["solved"]] == [0.0] * len(card)


def test_in_a_run_a_price_is_paid_for_each_more_submission(trained: Any) -> None:
    card, _ = trained("f=1", "def f(x): return 1", row=SHORT)
    assert [verdict.score for verdict in card.verdicts["solved"]] == [1.0] * len(card)
    assert list(card.totals) == pytest.approx([0.9] * len(card))


def test_in_a_run_rows_whose_tests_judge_nothing_are_void(trained: Any) -> None:
    card, _ = trained("def f(x): return 1", row={**SHORT, "tests": ["assert f(1)"]})
    assert all(card.void)


NOTES = [
    "'''\n```python\nf(1)\n```\n'''",
    "'<think>'",
    "# </think>",
    "'''\n[DONE]\n'''",
    "'''\n```\n'''",
]


@pytest.mark.parametrize("note", NOTES)
def test_a_program_is_judged_as_it_is_whatever_its_texts_hold(note: str) -> None:
    environment = CodeRepairEnvironment()
    environment.reset(tests=["assert f(1) == 2", "assert f(3) == 4"])
    program = f"def f(x):\n    return x + 1\n{note}\n"
    for submitted in (program, f"```python\n{program}```"):
        environment.submit(submitted)
        assert environment.get_reward().score == 1.0


FORMS_OF_MODULES = {
    "a solution made at the top": "from solution import Solution\ns = Solution()\n"
    "def test_a(): assert s.f(1) == 2\ndef test_b(): assert s.f(41) == 42\n",
    "an alias": "import solution\nf = solution.f\ndef test_a(): assert f(1) == 2\ndef test_b(): assert f(41) == 42\n",
    "a case that asks at its top": "import unittest\nfrom solution import f\n"
    "class T(unittest.TestCase):\n    v = f(1)\n"
    "    def test_a(self): self.assertEqual(f(1), 2)\n    def test_b(self): self.assertEqual(f(41), 42)\n",
}


@pytest.mark.parametrize("form", FORMS_OF_MODULES)
def test_the_model_reads_names_of_a_modules_tests_and_nothing_of_hidden_ones(
    form: str,
) -> None:
    environment = CodeRepairEnvironment()
    shown = environment.reset(tests=FORMS_OF_MODULES[form])
    told = environment.submit(
        "class Solution:\n    def f(self, x): return 0\ndef f(x): return 0\n"
    )
    assert "test_a" in shown
    assert not any(
        secret in shown + told for secret in ("41", "42", "test_b", "__trl_pytest__")
    )


RECIPE = """
model_name_or_path: bundled:tiny_pythonist
dataset_name: rows.jsonl
environment: trl_grpo_ext.environments.CodeRepairEnvironment
rewards:
  - {name: solved, verifier: environment}
  - {name: price, verifier: trl_grpo_ext.environments.extra_submissions, weight: -0.05, gate: solved}
output_dir: run
use_cpu: true
bf16: false
"""
GOOD_ROW = {"prompt": "Mend it.", "broken": BROKEN, "tests": TESTS[:2], "solution": RIGHT}
BAD_ROWS = {
    "tests_do_not_parse": {"tests": ["assert add(1, ==", "assert"]},
    "tests_none_hidden": {"tests": TESTS[:1]},
    "tests_empty": {"tests": []},
    # The public test or the hidden one is wrong.
    "reference_fails": {"tests": ["assert add(1, 1) == 3", "assert add(1, 2) == 3"]},
    "broken_code_passes": {"tests": ["assert add(1, 1) == 2", "assert add(3, 0) == 3"]},
}


@pytest.fixture
def checked(tmp_path: Path) -> Callable[..., str]:
    """Check rows by the command, and return what it prints."""

    def check(rows: list[dict[str, Any]], expect: int) -> str:
        (tmp_path / "rows.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
        (tmp_path / "recipe.yaml").write_text(RECIPE)
        return run_here(
            "check-data", "--config", "recipe.yaml", cwd=tmp_path, expect=expect
        ).stdout

    return check


def test_check_data_runs_a_rows_tests_as_a_rollout_would(
    checked: Callable[..., str],
) -> None:
    said = checked([GOOD_ROW, *(GOOD_ROW | bad for bad in BAD_ROWS.values())], expect=1)
    for line, reason in enumerate(BAD_ROWS, start=2):
        assert f"solved: {reason} in 1 row: line {line} of rows.jsonl" in said
    assert said.endswith("5 of 6 rows of train cannot be judged\n")


def test_check_data_finds_hidden_tests_that_pass_a_constant(
    checked: Callable[..., str],
) -> None:
    said = checked(
        [GOOD_ROW | {"tests": ["assert add(1, 1) == 2", "assert add(0, 0) == 0"]}], expect=1
    )
    assert "non_solution_passes" in said


def test_check_data_of_rows_that_can_be_judged_is_fine(checked: Callable[..., str]) -> None:
    assert "train: 2 rows, all fine" in checked(
        [GOOD_ROW, GOOD_ROW | {"broken": None}], expect=0
    )


def reasons_of(
    environment: Any, rows: list[dict[str, Any]], *, thorough: bool
) -> list[str]:
    return [problem.reason for problem in environment._check_rows(rows, thorough=thorough)]


def test_before_training_all_rows_are_read_and_only_the_first_are_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("rows.jsonl", "bundled:sums"))
    recipe = parse_recipe(load_recipe(str(tmp_path / "recipe.yaml")))
    bad = [GOOD_ROW | bad for bad in BAD_ROWS.values()]
    _check_split(
        recipe,
        "train",
        Dataset.from_list([*bad, *[GOOD_ROW] * 12, bad[-1], bad[0]]),
        is_train=True,
    )
    read, run = (record.getMessage() for record in caplog.records)
    assert (
        "solved: tests_do_not_parse in 2 rows: rows 0, 18 " in read
        and "reference_fails" not in read
    )
    assert "solved: broken_code_passes in 1 row: row 4 " in run and "price" not in run


def test_a_column_of_hidden_tests_and_one_of_broken_code_are_checked_by_their_names() -> (
    None
):
    class Named(CodeRepairEnvironment):
        hidden_column = "secret"
        broken_column = "code"

    row = {"prompt": "Mend it.", "code": BROKEN, "tests": TESTS[:1], "secret": TESTS[1:2]}
    assert reasons_of(Named(), [row], thorough=True) == []
    weak = reasons_of(Named(), [row | {"secret": ["assert add(3, 0) == 3"]}], thorough=True)
    assert "broken_code_passes" in weak and "reference_fails" not in weak
    assert reasons_of(Named(), [row | {"secret": None}], thorough=True) == ["tests_missing"]
    assert reasons_of(Named(), [row | {"tests": None}], thorough=True) == ["tests_missing"]
