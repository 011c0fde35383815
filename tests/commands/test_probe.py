"""The probe: live shares against brute force, sentences, the command on a real model, and rows selected by rate."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run_here
from datasets import Dataset
from environment_run import scored_by_environments
from hypothesis import given
from hypothesis import strategies as st
from planted import card_of
from walls import walls_or_skip

from trl_grpo_ext import Blame, Scorecard, Status, Verdict
from trl_grpo_ext.commands.probe.figures import Attempts, attempts_of, live_share, probe
from trl_grpo_ext.figures.success_rates import fitted_beta
from trl_grpo_ext.recipe.rates import check_rate, with_rates
from trl_grpo_ext.runs.successes import Successes, write_rates
from trl_grpo_ext.sample import prompt_key

SIZE = 8
SETTINGS = {"num_generations": SIZE}
RIGHT = Verdict(status=Status.CORRECT, score=1.0, answer="4")
WRONG = Verdict(status=Status.INCORRECT, score=0.0, answer="5")
UNREAD = Verdict(status=Status.UNPARSEABLE, score=0.0)
POINTS = [Verdict(status=Status.SCORED, score=float(n % 2)) for n in range(8 * SIZE)]
FAILED = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason="worker_died")


def tries(*counts: int, verdict: Verdict = WRONG) -> Scorecard:
    """Make a batch of prompts with 8 completions each, of which these numbers are right; the others have `verdict`."""
    others = [
        replace(verdict, answer=verdict.answer and f"{place}") for place in range(SIZE)
    ]
    verdicts = [
        RIGHT if place < count else others[place]
        for count in counts
        for place in range(SIZE)
    ]
    card = card_of({"accuracy": verdicts}, [1.0], size=SIZE)
    samples = (
        replace(one, prompt=f"prompt {one.group}", text=str(row))
        for row, one in enumerate(card.samples)
    )
    return replace(card, samples=tuple(samples), mode="eval")


@given(st.lists(st.integers(0, SIZE), min_size=1, max_size=4), st.integers(2, SIZE))
def test_the_live_share_of_groups_as_large_as_the_sample_is_that_of_all_groups_it_makes(
    counts: list[int], group_size: int
) -> None:
    found = live_share(attempts_of([tries(*counts)]), group_size)
    groups = [
        len(set(group)) > 1
        for count in counts
        for group in itertools.combinations(
            [place < count for place in range(SIZE)], group_size
        )
    ]
    assert found is not None
    assert found.mean == pytest.approx(np.mean(groups))
    assert found.low <= found.mean <= found.high


@pytest.mark.parametrize("shape", [(0.3, 0.9), (0.1, 0.3), (2.0, 2.0)])
def test_the_live_share_of_larger_groups_is_that_of_the_fitted_distribution(
    shape: tuple[float, float],
) -> None:
    generator = np.random.default_rng(0)
    rates = generator.beta(*shape, 2000)
    right = generator.binomial(SIZE, rates).astype(float)
    alike = tuple((int(one), SIZE - int(one)) for one in right)
    attempts = Attempts(right=right, judged=np.full(len(right), float(SIZE)), alike=alike)
    assert [float(one) for one in fitted_beta(right, attempts.judged)] == pytest.approx(
        shape, rel=0.2
    )
    for group_size in (16, 32):
        truth = float((1 - rates**group_size - (1 - rates) ** group_size).mean())
        found = live_share(attempts, group_size)
        assert found is not None
        assert found.low <= truth <= found.high
        assert found.mean == pytest.approx(truth, abs=0.03)


@given(st.lists(st.integers(0, SIZE), min_size=1, max_size=6))
def test_larger_groups_are_never_less_often_live_and_intervals_hold_their_mean(
    counts: list[int],
) -> None:
    shares = [live_share(attempts_of([tries(*counts)]), size) for size in (2, 4, 8, 16, 32)]
    means = [one.mean for one in shares if one is not None]
    assert means == sorted(means)
    assert all(
        0 <= one.low <= one.mean <= one.high <= 1 for one in shares if one is not None
    )


def test_a_group_is_live_if_any_reward_with_weight_differs() -> None:
    verdicts = [WRONG] * SIZE
    lengths = [Verdict(status=Status.PARTIAL, score=place / SIZE) for place in range(SIZE)]
    card = card_of({"accuracy": verdicts, "length": lengths}, [1.0, 0.1], size=SIZE)
    found = probe([replace(card, mode="eval")], SETTINGS)
    assert found.live[4] is not None and found.live[4].mean == 1.0
    assert found.differs == {"accuracy": 0.0, "length": 1.0}


@pytest.mark.parametrize(
    ("cards", "begins"),
    [
        ([tries(*[4] * 16)] * 4, "Go: 100 %"),
        ([tries(*[8] * 16)] * 4, "Too easy: 0 %"),
        ([tries(*[0] * 16)] * 4, "Too hard, or right answers are turned down: 0 %"),
        ([tries(1, *[0] * 15)] * 4, "Too hard, or right answers are turned down: 6.2 %"),
        ([tries(1, 1, 1, *[0] * 13)] * 4, "Too hard: 19 %"),
        ([tries(*[0] * 16, verdict=UNREAD)] * 4, "The format is the obstacle: "),
        ([tries(*[4] * 16, verdict=FAILED)] * 4, "The verifier is the obstacle: "),
        (
            [replace(card_of({"accuracy": [RIGHT, WRONG]}, [1.0], size=1), mode="eval")],
            "There is nothing to go by",
        ),
        (
            [replace(card_of({"points": POINTS}, [1.0], size=SIZE), mode="eval")],
            "`points` gives numbers, and nothing says which one is right",
        ),
    ],
)
def test_the_sentence_says_go_or_what_is_in_the_way(
    cards: list[Scorecard], begins: str
) -> None:
    assert probe(cards, SETTINGS).sentence.startswith(begins)


def test_completions_without_a_verdict_are_in_no_rate() -> None:
    found = probe([tries(4, 4, verdict=FAILED)], SETTINGS)
    assert found.rate is not None and found.rate.mean == 1.0
    assert found.void is not None and found.void.mean == 0.5


RECIPE = """
model_name_or_path: bundled:tiny_reasoner
dataset_name: bundled:sums
rows: 24
rewards: [{name: accuracy, verifier: math}]
output_dir: run
max_steps: 1
max_completion_length: 24
per_device_train_batch_size: 8
per_device_eval_batch_size: 32
num_generations: 4
use_cpu: true
bf16: false
report_to: none
write_report: false
"""


@pytest.mark.slow
def test_a_probe_of_a_real_model_leaves_rates_that_select_rows_and_begin_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE)
    command = ("probe", "--config", "recipe.yaml")
    found = json.loads(
        run_here(*command, "--limit", "12", "--samples", "4", "--json", cwd=tmp_path).stdout
    )
    assert (found["prompts"], found["samples"], found["num_generations"]) == (12, 4, 4)
    rates = [
        json.loads(line)
        for line in (tmp_path / "run-probe/rates.jsonl").read_text().splitlines()
    ]
    assert [one["judged"] for one in rates] == [4] * 12
    assert found["rate"]["mean"] == pytest.approx(
        np.mean([one["right"] / 4 for one in rates])
    )
    live = [0 < one["right"] < 4 for one in rates]
    assert found["live"]["4"]["mean"] == pytest.approx(np.mean(live))
    recipe.write_text(
        f"{RECIPE}learnable_rows: true\nrows_from: run-probe/rates.jsonl\nrate: [0.01, 0.99]\n"
    )
    run_here("train", "--config", "recipe.yaml", cwd=tmp_path)
    assert f"rate leaves out {12 - sum(live)} of 24 rows" in caplog.text
    said = run_here(*command, "--limit", "4", "--samples", "2", cwd=tmp_path)
    assert "4 prompts, 2 completions each" in said.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--samples", "1"], "--samples is 2 or more"),
        (["--config", "no such"], "There is no recipe 'no such'"),
    ],
)
def test_a_probe_that_cannot_be_made_is_refused(
    flags: list[str], message: str, tmp_path: Path
) -> None:
    assert (
        message
        in run_here(
            "probe", "--config", "quickstart", *flags, cwd=tmp_path, expect=2
        ).stderr
    )
    assert not list(tmp_path.iterdir())


def test_rows_whose_rate_is_known_and_outside_the_bounds_are_left_out(
    tmp_path: Path,
) -> None:
    rows = Dataset.from_dict({"prompt": ["easy", "fine", "hard", "unknown"]})
    counts = {"easy": 8.0, "fine": 4.0, "hard": 0.0}
    rates = tmp_path / "rates.jsonl"
    write_rates(
        rates,
        {prompt_key(prompt): Successes(right, 8.0) for prompt, right in counts.items()},
    )
    assert with_rates(rows, [0.05, 0.95], str(rates))["prompt"] == ["fine", "unknown"]
    with pytest.raises(ValueError, match=r"No row has a rate between 0\.6 and 0\.7"):
        with_rates(rows.select(range(3)), [0.6, 0.7], str(rates))


@pytest.mark.parametrize("bounds", [[0.5], [0.9, 0.1], [0.0, 2.0], "all", [None, 1.0]])
def test_bounds_that_are_none_are_refused(bounds: object) -> None:
    with pytest.raises(ValueError, match="two bounds between 0 and 1"):
        check_rate(bounds, "rates.jsonl")


def test_a_rate_without_a_source_is_refused() -> None:
    with pytest.raises(ValueError, match="`rate` needs rows_from"):
        check_rate([0.05, 0.95], None)


def test_equal_rewards_are_counted_by_value() -> None:
    assert Counter(attempts_of([tries(3)]).alike) == Counter([(3, 5)])


REPAIR = """
model_name_or_path: bundled:tiny_pythonist
dataset_name: rows.jsonl
environment: trl_grpo_ext.environments.CodeRepairEnvironment
rewards: [{name: solved, verifier: environment}]
output_dir: run
max_completion_length: 24
per_device_eval_batch_size: 4
num_generations: 4
use_cpu: true
bf16: false
report_to: none
"""


@scored_by_environments
@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
@pytest.mark.parametrize(
    ("good", "told"),
    [
        (
            0,
            "The data is the obstacle: .*100 % .*`tests_none_hidden`.*Run `trl-grpo-ext check-data`",
        ),
        (1, "The data is the obstacle: .* 80 % (.|\\n)*no verdict +80 % "),
    ],
)
def test_rows_that_an_environment_cannot_judge_are_told_as_faults_of_the_data(
    good: int, told: str, tmp_path: Path
) -> None:
    walls_or_skip()
    (tmp_path / "recipe.yaml").write_text(REPAIR)
    test = "assert add(1, 2) == 3"
    rows = [
        {"prompt": [{"role": "user", "content": f"{n}"}], "tests": [test]} for n in range(4)
    ]
    rows += [
        {
            "prompt": [{"role": "user", "content": "good"}],
            "tests": [test, "assert add(1, 1) == 2"],
        }
    ] * good
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = run_here("probe", "--config", "recipe.yaml", "--samples", "4", cwd=tmp_path)
    assert re.search(told, said.stdout)
