"""What a finding advises is what would help: causes that look alike, and their actions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_runs import RUNS
from diagnosis_cases import CASES
from diagnosis_simulator import simulate
from simulated_run import Run, Term, lenient
from windows import batch, diagnosis_of, window_of

from trl_grpo_ext import Blame, Scorecard
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.diagnosis import Diagnosis
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.verdict import as_verdict

QUICK = ("shape_makes_all_equal", "tiny_learning_rate", "frozen_adapter", "pairs_that_are_all_wrong")


def said_of(name: str, run: Run) -> Diagnosis:
    return diagnosis_of(simulate(name, run), run.settings)


@pytest.mark.parametrize("name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in RUNS])
def test_the_cause_and_its_action_are_named(name: str) -> None:
    case = RUNS[name]
    found = said_of(name, case.run)
    first = found.causes[0]
    assert first.code in case.expected, found.sentence
    assert case.missing(found.sentence) == []
    assert case.does in first.action.lower()
    assert not case.never or case.never not in first.action.lower()


FLAT_EVALUATION = Run(score=[(0, 0.3), (150, 0.9)], evaluation=0.4, steps=150, pool=64)


@pytest.mark.slow  # simulated runs
@pytest.mark.parametrize("draw", range(3))
def test_an_evaluation_that_does_not_follow_is_never_all_well(draw: int) -> None:
    found = said_of(f"overfits {draw}", replace(FLAT_EVALUATION, options={"num_generations_eval": 1}))
    assert not found.sentence.startswith("All is well")
    assert "evaluation" in found.sentence


def rising(step: int) -> list[float]:
    """The scores of 64 completions, of which one more is right at each step, in any group."""
    return [float(27 * place % 64 < 8 + min(step, 50)) for place in range(64)]


def test_evaluations_of_which_nothing_could_be_judged_are_told() -> None:
    trained = [batch({"answer": rising(step)}, step=step) for step in range(40)]
    empty = [batch({"answer": [Blame.GRADER] * 8}, step=step) for step in (0, 20, 39)]
    cards: list[Scorecard] = []
    for card in trained:
        cards += [card, *(replace(one, mode="eval") for one in empty if one.step == card.step)]
    sentence = diagnosis_of(cards, {}).sentence
    assert sentence.startswith("The score of `answer` has risen from 0.1")
    assert sentence.endswith("; in 3 evaluations nothing could be judged.")


def test_a_run_on_a_few_prompts_says_how_many_they_are() -> None:
    def prompted(step: int) -> Scorecard:
        card = batch({"answer": rising(step)}, step=step)
        samples = [replace(sample, prompt=f"Question {place // 8}") for place, sample in enumerate(card.samples)]
        return replace(card, samples=tuple(samples))

    sentence = diagnosis_of([prompted(step) for step in range(40)], {}).sentence
    assert sentence.endswith("; nothing is held out, and the data has 8 prompts.")


def test_a_run_whose_completions_are_cut_says_so_however_well_they_score() -> None:
    cards = [batch({"answer": rising(step)}, step=step, truncated=True) for step in range(40)]
    sentence = diagnosis_of(cards, {"max_completion_length": 64}).sentence
    assert "100 % of the completions are cut at 64 tokens" in sentence


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_beside_an_earlier_trouble_all_is_never_well(severity: str) -> None:
    failed = 8 if severity == "critical" else 3

    def card(step: int) -> Scorecard:
        scores: list[object] = [*rising(step)]
        return batch({"answer": [Blame.GRADER] * failed + scores[failed:] if 4 <= step < 12 else scores}, step=step)

    held_out = [replace(batch({"answer": rising(n)}, step=step), mode="eval") for step, n in ENDS]
    cards = [held_out[0], *map(card, range(60)), held_out[1]]
    sentence = diagnosis_of(cards, {}).sentence
    assert not sentence.startswith("All is well")
    assert "Earlier, at step" in sentence


ENDS = ((0, 0), (60, 48))


def test_failures_of_one_rank_are_told_by_their_place() -> None:
    def card(step: int) -> Scorecard:
        verdicts = [Blame.GRADER if place % 8 == 3 else float(place % 2) for place in range(64)]
        return batch({"answer": verdicts}, step=step)

    window = window_of([card(step) for step in range(4)], settings={"world_size": 8})
    found = CHECKS["grader_trouble"](window)
    assert isinstance(found, Finding)
    assert "nearly all at place 4 of their group, as of one rank" in found.sentence


def test_no_number_without_a_range_is_called_right_or_wrong() -> None:
    penalties = [as_verdict(-1.0)] * 4 + [as_verdict(0.0)] * 4
    window = window_of([batch({"penalty": penalties * 4}, step=step) for step in range(40)])
    learned = window_of([batch({"penalty": [as_verdict(0.0)] * 32}, step=step) for step in range(40)])
    for one in (window, learned):
        told = [found for check in CHECKS.values() if isinstance(found := check(one), Finding)]
        assert not any(word in finding.sentence for finding in told for word in ("all right", "all wrong"))
        assert not one.is_solved


@pytest.mark.slow  # simulated runs
def test_penalties_that_are_learned_away_are_no_trouble() -> None:
    def judge(draw: object) -> float:
        found = lenient(draw)  # type: ignore[arg-type]
        return (found.score or 0.0) - 1.0

    run = replace(CASES["learned_all"].run, terms=(Term(name="penalty", judge=judge),))
    found = said_of("penalties learned away", run)
    assert all(finding.severity is Severity.INFO for finding in found.findings)
    assert found.sentence.startswith("The score of `penalty` has risen from -0.")
