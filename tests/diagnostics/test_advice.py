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
from trl_grpo_ext.verdict import Status, Verdict, as_verdict

QUICK = ("shape_makes_all_equal",)


def said_of(name: str, run: Run) -> Diagnosis:
    return diagnosis_of(simulate(name, run), run.settings)


@pytest.mark.parametrize(
    "name",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in RUNS],
)
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
    found = said_of(
        f"overfits {draw}", replace(FLAT_EVALUATION, options={"num_generations_eval": 1})
    )
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
        cards += [
            card,
            *(replace(one, mode="eval") for one in empty if one.step == card.step),
        ]
    sentence = diagnosis_of(cards, {}).sentence
    assert sentence.startswith("The score of `answer` has risen from 0.1")
    assert sentence.endswith("; in 3 evaluations nothing could be judged.")


def test_a_run_on_a_few_prompts_says_how_many_they_are() -> None:
    def prompted(step: int) -> Scorecard:
        card = batch({"answer": rising(step)}, step=step)
        samples = [
            replace(sample, prompt=f"Question {place // 8}")
            for place, sample in enumerate(card.samples)
        ]
        return replace(card, samples=tuple(samples))

    sentence = diagnosis_of([prompted(step) for step in range(40)], {}).sentence
    assert sentence.endswith(
        "; nothing is held out, and the data has 8 prompts: for what carries over, take more."
    )


def test_a_run_whose_completions_are_cut_says_so_however_well_they_score() -> None:
    cards = [
        batch({"answer": rising(step)}, step=step, truncated=True) for step in range(40)
    ]
    sentence = diagnosis_of(cards, {"max_completion_length": 64}).sentence
    assert "100 % of the completions are cut at 64 tokens" in sentence


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_beside_an_earlier_trouble_all_is_never_well(severity: str) -> None:
    failed = 8 if severity == "critical" else 3

    def card(step: int) -> Scorecard:
        scores: list[object] = [*rising(step)]
        return batch(
            {
                "answer": [Blame.GRADER] * failed + scores[failed:]
                if 4 <= step < 12
                else scores
            },
            step=step,
        )

    held_out = [
        replace(batch({"answer": rising(n)}, step=step), mode="eval") for step, n in ENDS
    ]
    cards = [held_out[0], *map(card, range(60)), held_out[1]]
    sentence = diagnosis_of(cards, {}).sentence
    assert not sentence.startswith("All is well")
    assert "Earlier, at step" in sentence


ENDS = ((0, 0), (60, 48))


def test_failures_of_one_rank_are_told_by_their_place() -> None:
    def card(step: int) -> Scorecard:
        verdicts = [
            Blame.GRADER if place % 8 == 3 else float(place % 2) for place in range(64)
        ]
        return batch({"answer": verdicts}, step=step)

    window = window_of([card(step) for step in range(4)], settings={"world_size": 8})
    found = CHECKS["grader_trouble"](window)
    assert isinstance(found, Finding)
    assert "nearly all at place 4 of their group, as of one rank" in found.sentence


def test_no_number_without_a_range_is_called_right_or_wrong() -> None:
    penalties = [as_verdict(-1.0)] * 4 + [as_verdict(0.0)] * 4
    window = window_of([batch({"penalty": penalties * 4}, step=step) for step in range(40)])
    learned = window_of(
        [batch({"penalty": [as_verdict(0.0)] * 32}, step=step) for step in range(40)]
    )
    for one in (window, learned):
        told = [
            found for check in CHECKS.values() if isinstance(found := check(one), Finding)
        ]
        assert not any(
            word in finding.sentence
            for finding in told
            for word in ("all right", "all wrong")
        )
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


def verdicts(share: float) -> list[Verdict]:
    """64 verdicts with an answer, of which this share is right, in any group."""
    return [
        Verdict(status=Status.CORRECT, score=1.0, answer="4")
        if 27 * place % 64 < 64 * share
        else Verdict(status=Status.INCORRECT, score=0.0, answer="5")
        for place in range(64)
    ]


def scores(level: float) -> list[Verdict]:
    """64 scores without a known range, which differ within groups."""
    return [Verdict(status=Status.SCORED, score=level + place % 8) for place in range(64)]


def test_a_reward_that_rises_while_a_watched_accuracy_falls_is_told() -> None:
    cards = [
        batch(
            {"error": scores(step), "accuracy": verdicts(max(0.02, 0.4 - step / 60))},
            step=step,
            weights={"accuracy": 0.0},
        )
        for step in range(40)
    ]
    found = diagnosis_of(cards, {})
    assert found.sentence.startswith(
        "What is rewarded is not what is right: `accuracy`, which has no weight, fell from"
    )
    assert "turn its sign" in found.causes[0].action


def test_an_accuracy_that_is_forgotten_once_its_weight_has_faded_is_told() -> None:
    cards = [
        batch(
            {"accuracy": verdicts(max(0.02, 0.6 - step / 60)), "short": scores(step)},
            step=step,
            weights={"accuracy": max(0.0, 1 - step / 6), "short": 0.1},
        )
        for step in range(50)
    ]
    found = diagnosis_of(cards, {})
    assert "`accuracy`, which has no weight, fell from" in found.sentence
    assert found.causes[0].action == "Keep some weight on `accuracy`."


@pytest.mark.parametrize("fall", [0.012, 0.4], ids=["hardly", "much"])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_helper_of_length_that_has_faded_and_falls_is_no_finding(
    fall: float, *, is_read: bool
) -> None:
    cards = []
    for step in range(50):
        right = verdicts(min(0.9, 0.3 + step / 60))
        if not is_read:
            right = [replace(verdict, answer=None) for verdict in right]
        height = 0.5 - fall * min(1.0, step / 40)
        lengths = [height + 0.001 * (place % 8) for place in range(64)]
        short = [Verdict(status=Status.SCORED, score=score) for score in lengths]
        weights = {"accuracy": 1.0, "short": max(0.0, 0.2 - step / 60)}
        cards.append(batch({"accuracy": right, "short": short}, step=step, weights=weights))
    assert "What is rewarded" not in diagnosis_of(cards, {}).sentence


def test_a_watched_form_that_is_unlearned_is_no_finding() -> None:
    forms = [
        [float(27 * place % 64 < 64 * max(0.02, 0.4 - step / 60)) for place in range(64)]
        for step in range(40)
    ]
    cards = [
        batch(
            {"answer": verdicts(0.15 + step / 80), "form": forms[step]},
            step=step,
            weights={"form": 0.0},
        )
        for step in range(40)
    ]
    assert diagnosis_of(cards, {}).sentence.startswith("The score of `answer` has risen")


def test_no_gate_is_advised_for_a_penalty_which_it_would_spare_wrong_answers() -> None:
    costs = [
        Verdict(status=Status.SCORED, score=-10.0 * (place % 8)) for place in range(64)
    ]
    cards = [
        batch({"answer": rising(step), "cost": costs}, step=step) for step in range(12)
    ]
    (found,) = (one for one in diagnosis_of(cards, {}).causes if one.code == "wrong_driver")
    assert "gate" not in found.action.lower()
    assert "weight of `cost`" in found.action


def test_a_few_right_answers_after_none_are_no_slow_rise() -> None:
    lucky = {12: 3, 26: 5, 33: 20}
    cards = [
        batch(
            {"answer": [float(place == lucky.get(step)) for place in range(64)]}, step=step
        )
        for step in range(40)
    ]
    assert "rises slowly" not in diagnosis_of(cards, {}).sentence


def test_tools_that_mostly_fail_are_told() -> None:
    cards = [
        batch({"answer": [float(place % 8 == step % 8) for place in range(64)]}, step=step)
        for step in range(12)
    ]
    window = window_of(cards, [{"tools/failure_frequency": 0.9}] * 12)
    found = CHECKS["grader_trouble"](window)
    assert isinstance(found, Finding)
    assert found.sentence == "The tools, not the answers: 90 % of the tool calls fail."


def test_a_fall_of_rows_that_are_not_shuffled_asks_to_shuffle_them() -> None:
    cards = [
        batch({"answer": verdicts(max(0.05, 0.8 - step / 80))}, step=step)
        for step in range(60)
    ]
    found = diagnosis_of(cards, {"shuffle_dataset": False})
    assert found.causes[0].action.startswith("Shuffle the rows")
