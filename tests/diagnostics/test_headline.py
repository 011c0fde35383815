"""The headline never contradicts adjacent figures: page head, `summary.json` and table."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from windows import batch, diagnosis_of, recorded, window_of

from trl_grpo_ext import Blame, Scorecard, Status, Verdict
from trl_grpo_ext.diagnostics.batches import percent
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.diagnosis import Diagnosis, diagnose
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.diagnostics.progress import score_text
from trl_grpo_ext.figures.batch_totals import BatchTotals
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.report.reported_run import ReportedRun, findings_of
from trl_grpo_ext.report.series import key_figures
from trl_grpo_ext.scorecard import Mode
from trl_grpo_ext.support.budget import BUDGET_SPENT

SCORE = r"-?\d+\.\d\d(?!\d)"
CHANGE = re.compile(
    rf"from ({SCORE}) [^.]*? to ({SCORE}) |({SCORE}) (?:in|at) [^.;]*? and ({SCORE}) (?:in|at) "
)
TREND = re.compile(
    r", a change of [^)]*|between [^ ]+ and [^ ]+ \(95 % interval\)|95 % interval [^)]*|lower by [\d.]+|KL from [^ ]+"
)


def scored(
    share: float, rng: random.Random, step: int, size: int, mode: Mode = "train"
) -> Scorecard:
    """Make a batch of groups of eight, with about this share of right completions."""
    return replace(
        batch(
            {"answer": [float(rng.random() < share) for _ in range(8 * size)]}, step=step
        ),
        mode=mode,
    )


def seen(cards: Sequence[Scorecard]) -> Diagnosis:
    return diagnosis_of(cards, {})


def curves() -> st.SearchStrategy[list[Scorecard]]:
    """Draw runs of any length with a linear score, with or without evaluations before and after."""

    def cards(
        steps: int, start: float, end: float, size: int, seed: int, evaluated: bool
    ) -> list[Scorecard]:
        rng = random.Random(seed)
        level = [start + (end - start) * step / max(1, steps - 1) for step in range(steps)]
        held_out = [
            scored(share, rng, step, 12, "eval")
            for share, step in ((start, 0), (end, steps))
        ]
        training = [scored(share, rng, step, size) for step, share in enumerate(level)]
        return [held_out[0], *training, held_out[1]] if evaluated else training

    share = st.floats(0, 1)
    return st.builds(
        cards,
        st.integers(1, 44),
        share,
        share,
        st.integers(1, 6),
        st.integers(0, 999),
        st.booleans(),
    )


@pytest.mark.slow
@given(curves())
def test_every_figure_of_the_headline_stands_beside_it_at_the_same_rounding(
    cards: list[Scorecard],
) -> None:
    diagnosis = seen(cards)
    run = ReportedRun("a run")
    for card in cards:
        run.add(card)
    tiles = key_figures(diagnosis.score, run._timelines["train"], "train")["tiles"]
    records = [ends.to_record() for ends in diagnosis.score.values()]
    summary = {
        score_text(record[end])
        for record in records
        for end in ("start", "end")
        if record[end] is not None
    }
    shown = {
        text
        for label, *texts in tiles
        if label.startswith("Score")
        for text in texts
        if text
    }
    assert shown == summary
    named = TREND.sub("", diagnosis.sentence)
    if not diagnosis.causes:
        assert set(re.findall(SCORE, named)) <= shown, (diagnosis.sentence, tiles)
    for place, label in (("training", "Reward"), ("training", "Score, training")):
        (found,) = [tile for tile in tiles if tile[0] == label]
        assert (
            tuple(found[1:]) == diagnosis.score[place].score_texts
        )  # the reward is the score, over the same batches
    for start, end in ((a or c, b or d) for a, b, c, d in CHANGE.findall(named)):
        assert start != end, diagnosis.sentence


@pytest.mark.slow
@given(curves())
def test_the_evaluation_of_the_headline_is_that_of_the_table(
    cards: list[Scorecard],
) -> None:
    held_out = [card for card in cards if card.mode == "eval"]
    table = [BatchTotals([reduce_card(card, {})]).scores("answer") for card in held_out]
    if table:
        assert seen(cards).score["evaluation"].score_texts == tuple(
            score_text(one.mean) for one in table if one is not None
        )


@pytest.mark.slow
@given(curves())
def test_no_finding_names_more_than_all_or_one_figure_as_both_ends_of_a_change(
    cards: list[Scorecard],
) -> None:
    window = window_of([card for card in cards if card.mode == "train"])
    for found in (check(window) for check in CHECKS.values()):
        if isinstance(found, Finding):
            assert all(
                float(share) <= 100 for share in re.findall(r"([\d.]+) %", found.sentence)
            ), found.sentence
            assert all(
                (a or c) != (b or d) for a, b, c, d in CHANGE.findall(found.sentence)
            ), found.sentence


@given(st.floats(0, 1))
@example(0.996)
@example(0.9996)
def test_a_share_is_all_only_where_it_is_all(share: float) -> None:
    assert (percent(share) == "100 %") == (share == 1)


def test_a_short_run_is_too_early_to_tell_and_says_what_it_saw(tmp_path: Path) -> None:
    steady = [batch({"answer": [1.0, 0.0] * 8}, step=step) for step in range(5)]
    sentence = diagnose(recorded(tmp_path / "5", steady)).sentence
    assert sentence == (
        "It is too early to tell: the score of `answer` is 0.50 in the first 2 batches and in the last 3."
    )
    longer = [batch({"answer": [1.0, 0.0] * 8}, step=step) for step in range(16)]
    assert (
        "too early to tell" in diagnose(recorded(tmp_path / "16", longer)).sentence
    )  # a slow rise looks flat


def test_a_run_whose_trend_may_be_a_rise_or_none_is_too_early_to_tell() -> None:
    rng = random.Random(1)
    sentence = seen([scored(0.4 + step / 400, rng, step, 2) for step in range(40)]).sentence
    assert sentence.startswith("It is too early to tell: the score of `answer` is 0.")
    assert re.search(
        r"its trend over 39 steps is between [-+]0\.\d\d and \+0\.\d\d \(95 % interval\)\.$",
        sentence,
    )


@pytest.mark.parametrize(
    ("steps", "begins"),
    [(8, "All is well: the evaluation"), (5, "The evaluation has risen")],
)
def test_an_evaluation_that_has_risen_is_told_where_training_is_flat(
    steps: int, begins: str
) -> None:
    rng = random.Random(0)
    training = [batch({"answer": [1.0, 0.0] * 16}, step=step) for step in range(steps)]
    before, after = scored(0.2, rng, 0, 40, "eval"), scored(0.8, rng, steps, 40, "eval")
    sentence = seen([before, *training, after]).sentence
    assert sentence.startswith(begins)
    assert re.search(
        rf"he evaluation has risen from 0\.\d\d at step 0 to 0\.\d\d at step {steps}",
        sentence,
    )
    assert "0.50 in the first" in sentence


def test_a_score_that_has_risen_to_where_most_groups_are_all_wrong_is_not_called_fine() -> (
    None
):
    def scores(
        right: int,
    ) -> list[float]:  # of 32 groups of four: all right, one live, and all wrong
        return [1.0] * 4 * right + [1.0, 0.0, 0.0, 0.0] + [0.0] * 4 * (31 - right)

    cards = [batch({"answer": scores(step // 4)}, step=step, size=4) for step in range(40)]
    sentence = seen(cards).sentence
    assert sentence.startswith("The score of `answer` has risen from 0.0")
    assert re.search(
        r"Now few groups have anything to teach \(7\d % all wrong, 2\d % all right, 3.1 % live\)",
        sentence,
    )


def test_training_that_rises_while_the_evaluation_falls_is_not_called_fine() -> None:
    rng = random.Random(0)
    training = [scored(0.2 + step / 40, rng, step, 8) for step in range(24)]
    sentence = seen(
        [scored(0.8, rng, 0, 40, "eval"), *training, scored(0.3, rng, 24, 40, "eval")]
    ).sentence
    assert sentence.startswith(
        "What is learned may not carry over: the evaluation has fallen from 0."
    )


@pytest.mark.parametrize(
    ("level", "told"),
    [
        (0.75, r"; the evaluation is 0\.7\d at step 24\.$"),
        (
            0.4,
            r"; the evaluation has not clearly followed: 0\.\d\d at step 12 and 0\.\d\d at step 24, a change of ",
        ),
    ],
)
def test_an_evaluation_that_stands_as_high_as_training_is_told_by_its_level(
    level: float, told: str
) -> None:
    rng = random.Random(0)
    training = [scored(min(0.75, 0.2 + step / 10), rng, step, 8) for step in range(24)]
    evaluations = [scored(level, rng, step, 40, "eval") for step in (12, 24)]
    assert re.search(
        told,
        seen([*training[:12], evaluations[0], *training[12:], evaluations[1]]).sentence,
    )


def test_the_page_goes_by_the_scores_of_its_sentence(tmp_path: Path) -> None:
    rng = random.Random(0)
    run = recorded(tmp_path, [scored(step / 24, rng, step, 8) for step in range(24)])
    findings = findings_of(run)
    reported = ReportedRun("a run", findings=findings)
    for card in run.cards():
        reported.add(card)
    head = reported.page_data()["key_figures"]
    note, about = head["notes"]
    assert about.startswith(
        "A score is a mean of verdicts, before weights, gates and shapes."
    )
    interval = (
        r"Training: in the first 4 batches and in the last 16 \(1,024 completions\), "
        r"a change of \+(0\.\d\d) \(95 % interval (.*) to (.*)\)\."
    )
    gain, low, high = map(float, re.fullmatch(interval, note).groups())  # type: ignore[union-attr]
    assert 0 < low < gain < high
    change = findings.score["training"].to_record()["change"]
    assert [f"{change[name]:.2f}" for name in ("mean", "low", "high")] == [
        f"{one:.2f}" for one in (gain, low, high)
    ]
    label, start, end = head["tiles"][0]
    assert label == "Score, training"
    assert findings.sentence == (
        f"The score of `answer` has risen from {start} in the first 4 batches to {end} in the last 16; nothing is held "
        f"out."
    )


def test_a_budget_that_is_spent_has_an_action_of_its_own() -> None:
    late = Verdict(status=Status.ERROR, score=None, blame=Blame.GRADER, reason=BUDGET_SPENT)
    found = CHECKS["grader_trouble"](
        window_of([batch({"answer": [late] * 4 + [1.0] * 12}, step=n) for n in range(4)])
    )
    assert isinstance(found, Finding)
    assert (
        found.sentence.startswith("The grader, not the model: 25 %")
        and "`budget_spent`" in found.sentence
    )
    assert found.action == "Raise judging_budget well above the time that a batch takes."
