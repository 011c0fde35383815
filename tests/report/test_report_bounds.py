"""The report of a long run: bounded memory and time, and a note on omitted data."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import report_runs as runs
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import RewardMix, RewardTerm
from trl_grpo_ext.report.group_record import groups_of
from trl_grpo_ext.report.kept_groups import KeptGroups
from trl_grpo_ext.report.prompts import MOST_PROMPTS, MOST_STEPS, Prompts
from trl_grpo_ext.report.reported_run import ReportedRun
from trl_grpo_ext.report.series import MOST_POINTS, Timeline, log_columns
from trl_grpo_ext.report.write import spread_out, write_report
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate


def page_of(path: Path) -> Any:
    """Read the data of a page with one run."""
    _, _, data = path.read_text(encoding="ascii").partition('id="data">')
    return json.loads(data.partition("</script>")[0])["runs"][0]


def test_a_long_run_is_no_more_than_a_thousand_points() -> None:
    timeline = Timeline()
    for step in range(2500):
        timeline.add(step, {("reward",): Estimate.of([float(step)])})
        assert len(timeline) <= MOST_POINTS  # while it grows, too
    columns = timeline.columns()
    assert len(columns["steps"]) > MOST_POINTS / 2
    assert (columns["steps"][0], columns["figures"]["reward"][0]) == (
        3,
        1.5,
    )  # the steps 0, 1, 2 and 3 as one


@pytest.mark.parametrize("seed", range(3))
def test_a_report_is_the_same_in_whatever_order_batches_are_read(seed: int) -> None:
    cards = [
        runs.card(step, runs.any_verdict, progress=step / 40, groups=1)
        for step in range(40)
    ]

    def page(numbers: Iterable[int]) -> Any:
        run = ReportedRun(
            "run", kept=KeptGroups(60), weights=(card.weights for card in cards)
        )
        for number in numbers:
            run.add(cards[number], number)
        return run.page_data()

    in_order, at_random = page(range(40)), page(random.Random(seed).sample(range(40), 40))
    assert at_random["train"]["figures"]["value"]["short"] == pytest.approx(
        in_order["train"]["figures"]["value"]["short"]
    )
    # The curves of `train` are compared above.
    for name in in_order.keys() - {"train"}:
        assert at_random[name] == in_order[name], name
    assert at_random["train"]["steps"] == in_order["train"]["steps"]


@given(st.integers(0, 300))
def test_the_order_of_reading_holds_every_batch_once_and_a_first_part_of_it_is_spread_over_the_run(
    size: int,
) -> None:
    order = list(spread_out(range(size)))
    assert sorted(order) == list(range(size))
    first = sorted(order[: size // 2])
    assert all(later - sooner <= 4 for sooner, later in pairwise(first))


def test_a_report_for_which_there_is_little_time_says_how_many_batches_were_not_read(
    tmp_path: Path,
) -> None:
    folder = runs.record(
        tmp_path / "run", *(runs.card(step, runs.any_verdict) for step in range(20))
    )
    run = page_of(write_report([folder], seconds=0.0))
    assert run["batches"] == 1
    assert run["unread"] == 19
    assert run["train"]["steps"][0] in {found["step"] for found in run["findings"]}
    assert page_of(write_report([folder], seconds=600.0))["unread"] == 0


@pytest.mark.slow
def test_the_answer_is_looked_for_in_fewer_batches_where_there_is_little_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = runs.record(
        tmp_path / "run", *(runs.card(step, runs.any_verdict) for step in range(60))
    )
    (folder / "scorecards" / "verdicts-00000020.parquet").write_bytes(b"PAR1 torn")
    assert page_of(write_report([folder], seconds=0.0))["sentence"]
    assert "Batch 20" not in caplog.text  # nobody has tried to read it
    write_report([folder])
    assert "Batch 20" in caplog.text


def test_logs_of_a_long_run_are_no_more_than_a_thousand_points_and_what_is_no_number_is_none() -> (
    None
):
    logs = (
        {"step": step, "kl": float(step % 2), "entropy": None if step else 0.5}
        for step in range(5000)
    )
    columns = log_columns(logs)
    assert len(columns["steps"]) <= MOST_POINTS
    assert set(columns["figures"]["kl"]) == {0.5}
    assert columns["figures"]["entropy"] == [0.5, *[None] * (len(columns["steps"]) - 1)]


def batch_of_prompts(numbers: Iterable[int], *, mode: Any = "train") -> Scorecard:
    """Make a batch with one completion per prompt, right for even prompt numbers."""
    mix = RewardMix([RewardTerm(name="right", verifier=runs.Planted("right"))])
    samples = [
        runs.Sample(
            text="x",
            prompt=f"prompt {number}",
            group=number,
            row={"right": number % 2 == 0},
        )
        for number in numbers
    ]
    return mix.score(samples, mode=mode)


def count(prompts: Prompts, card: Scorecard, step: int) -> None:
    for group in groups_of(card, number=step, step=step, shadows=()):
        passed = group.passes
        prompts.add(
            card.samples[group.members[0]].prompt,
            step,
            passed=sum(passed),
            judged=len(passed),
        )


def test_of_too_many_prompts_a_random_sample_is_kept_with_all_that_became_of_each() -> None:
    prompts = Prompts()
    batches = [
        batch_of_prompts(range(start, start + 500)) for start in range(0, 20_000, 500)
    ]
    for step, batch in enumerate([*batches, *batches]):
        count(prompts, batch, step)
    table = prompts.table({})
    assert len(table["rows"]) == MOST_PROMPTS
    assert all(row["judged"] == 2 and len(row["steps"]) == 2 for row in table["rows"])
    assert table["count"] == pytest.approx(20_000, rel=0.1)
    assert table["bins"][0] + table["bins"][-1] == MOST_PROMPTS
    assert table["bins"][0] == pytest.approx(
        MOST_PROMPTS / 2, rel=0.15
    )  # each with the same chance


def test_a_prompt_that_is_asked_again_and_again_keeps_its_last_steps_and_its_rate(
    tmp_path: Path,
) -> None:
    prompts = Prompts()
    for step in range(1000):
        count(prompts, batch_of_prompts([step % 2 * 2]), step)
    first, second = prompts.table({})["rows"]
    assert first["judged"] == second["judged"] == 500
    assert first["steps"][-1][0] in (998, 999)
    assert len(first["steps"]) == MOST_STEPS
