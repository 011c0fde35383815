"""The noise meter: its questions to a verifier, measurements, cost, and reported figures."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from growth import grows_linearly
from windows import codes, needs, window_of

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Scorecard,
    Status,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS, NOISE_SECONDS
from trl_grpo_ext.report.series import log_columns
from trl_grpo_ext.rewards import (
    ExactTextVerifier,
    MathVerifier,
    MultipleChoiceVerifier,
    NumericVerifier,
    RegexVerifier,
)
from trl_grpo_ext.rewards.restyled import is_surely, restyled, surely_differ
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer.meters import noise_meter
from trl_grpo_ext.trainer.meters.noise_meter import FILE, NoiseMeter

RATES = (FALSE_REJECTS, FALSE_ACCEPTS)
ANSWERS = (
    "5",
    "-7",
    "12000",
    "0.5",
    "-0.25",
    "3/4",
    r"\frac{1}{2}",
    "(1, 2)",
    r"2\sqrt{5}",
    "x^2+1",
    "B",
    "Tuesday",
)
ENDINGS = (
    r"So $\boxed{{{0}}}$.",
    "<answer>{0}</answer>",
    "The final answer is {0}.",
    "We add.\n#### {0}",
)


@dataclass(frozen=True, kw_only=True)
class Noisy(MathVerifier):
    """A verifier that flips a share of verdicts, selected by a digest of completion and gold."""

    noise: float = 0.0

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        judged = zip(samples, super().judge_samples(samples), strict=True)
        return [
            flipped(verdict) if chance(sample) < self.noise else verdict
            for sample, verdict in judged
        ]


def chance(sample: Sample) -> float:
    digest = hashlib.sha256(f"{sample.text}|{sample.row['solution']}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def flipped(verdict: Verdict) -> Verdict:
    right = verdict.status is not Status.CORRECT
    return replace(
        verdict, status=Status.CORRECT if right else Status.INCORRECT, score=float(right)
    )


def a_mix(verifier: Verifier) -> RewardMix:
    return RewardMix([RewardTerm(name="accuracy", verifier=verifier)])


def a_batch(
    mix: RewardMix, step: int = 0, *, groups: int = 8, size: int = 5, right: int = 2
) -> Scorecard:
    """Make groups of completions with whole-number golds; the last `right` completions of each group are right."""
    samples = []
    for group in range(step * groups, (step + 1) * groups):
        for member in range(size):
            said = group + 8 if member >= size - right else group + 9 + member
            text = f"Way {member} of {group}.\n{ENDINGS[(group + member) % len(ENDINGS)].format(said)}"
            samples.append(
                Sample(text=text, row={"solution": str(group + 8)}, group=group, step=step)
            )
    return mix.score(samples)


def measure(mix: RewardMix, folder: Path, cards: int = 1, **batch: int) -> NoiseMeter:
    """Run a meter without time limit on some batches."""
    meter = NoiseMeter(mix, folder, share=math.inf)
    for step in range(cards):
        meter.on_batch(a_batch(mix, step, **batch), None)
    return meter


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_restyled_right_answer_is_right(answer: str) -> None:
    found = [
        (name, text)
        for ending in ENDINGS
        for name, text in restyled(f"We think.\n{ending.format(answer)}", answer)
    ]
    verdicts = MathVerifier().judge(
        [text for _, text in found], solution=[answer] * len(found)
    )
    assert [
        pair
        for pair, verdict in zip(found, verdicts, strict=True)
        if verdict.status is not Status.CORRECT
    ] == []
    assert len(found) >= 10


def test_every_form_is_made_of_some_answer() -> None:
    made = {
        name
        for answer in ANSWERS
        for name, _ in restyled(rf"So \boxed{{{answer}}}", answer)
    }
    assert made == {
        *(
            "point_zero",
            "thousands",
            "last_zero",
            "no_zero",
            "fraction",
            "dfrac",
            "label",
            "left_right",
        ),
        *("blanks", "dollars", "text", "phrase", "heading", "tag", "box", "alone"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "It is 5, since 2 + 3 = 5",  # nothing marks it
        r"\boxed{5}. In other words the answer is five.",  # another mark follows
        r"\boxed{15}",  # part of another number
        "",
    ],
)
def test_an_answer_is_not_restyled_where_its_place_is_not_sure(text: str) -> None:
    assert list(restyled(text, "5")) == []


def test_thinking_stays_before_a_conclusion_in_another_form() -> None:
    made = dict(restyled(r"<think>2+3=5</think>\boxed{5}", "5"))
    assert made["phrase"] == "<think>2+3=5</think>\nThe final answer is $5$."
    assert "phrase" not in dict(
        restyled("\\[\\begin{aligned}\na &= 2 \\\\\n\\boxed{5}\n\\end{aligned}\\]", "5")
    )


@pytest.mark.parametrize(
    "text",
    ["{0}5", "\\boxed{{5{0}", "\\boxed{{5}}{0}x", "#### {0}x 5", "{0}\nanswer is {0}5{0}x"],
)
def test_restyling_takes_linear_time(text: str) -> None:
    for piece in (
        " ",
        "\n",
        "$",
        "#### ",
        "answer is ",
        "\\boxed{",
        "</think>",
        "**",
        "5",
        "}",
        "(",
    ):

        def restyle(repeats: int, piece: str = piece) -> None:
            list(restyled(text.format(piece * repeats), "5"))

        assert grows_linearly(restyle, 50_000 // len(piece)), piece


def test_only_what_is_written_as_the_gold_is_surely_right() -> None:
    assert is_surely(r"\dfrac{1}{2} ", r"so it is $\boxed{\frac{1}{2}}$")
    assert is_surely("7", ["six", "7"])
    assert not is_surely("0.5", r"\frac{1}{2}")


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("5", "6", True),
        ("0.5", r"\frac{1}{2}", False),
        ("28%", "0.28", False),
        ("1000", "1000.5", False),
        ("1,000", "1000", False),
        ("B", "C", True),
        ("Paris", "Paris, France", False),
        (["5", "6"], "6", False),
        ("5", None, False),
    ],
)
def test_golds_differ_where_that_is_sure(one: object, other: object, differ: bool) -> None:
    assert surely_differ(one, other) is differ
    assert surely_differ(other, one) is differ


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05, 0.20])
def test_planted_noise_is_measured_to_two_points_though_most_answers_are_wrong(
    tmp_path: Path, noise: float
) -> None:
    meter = measure(a_mix(Noisy(noise=noise)), tmp_path, 40, groups=32)
    figures = meter.figures
    for rate in RATES:
        assert len(meter.mistakes[rate]) > 1000
        assert figures[rate] == pytest.approx(noise, abs=0.02)
        assert figures[f"{rate}_low"] <= figures[rate] <= figures[f"{rate}_high"]
        assert figures[f"{rate}_high"] - figures[f"{rate}_low"] < 0.05


@pytest.mark.slow
def test_mistakes_are_written_down_and_not_without_end(tmp_path: Path) -> None:
    assert not (tmp_path / FILE).exists()
    measure(a_mix(Noisy()), tmp_path)
    assert not (tmp_path / FILE).exists()
    measure(a_mix(Noisy(noise=0.5)), tmp_path, 40)
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert len(lines) == noise_meter.MOST_MISTAKES
    swapped = next(line for line in lines if line["form"] == "other_gold")
    assert swapped["gold"] != swapped["answer"]


def test_the_meter_changes_nothing_and_draws_no_random_number(tmp_path: Path) -> None:
    mix = a_mix(Noisy(noise=0.1))
    card = a_batch(mix)
    before = (card.verdicts, card.values, card.samples, random.getstate())
    NoiseMeter(mix, tmp_path, share=math.inf).on_batch(card, None)
    assert (card.verdicts, card.values, card.samples, random.getstate()) == before
    again = a_batch(mix)
    assert [one.score for one in again.primary if one] == [
        one.score for one in card.primary if one
    ]


def test_no_question_is_asked_twice(tmp_path: Path) -> None:
    mix = a_mix(MathVerifier())
    meter, card = NoiseMeter(mix, tmp_path, share=math.inf), a_batch(mix)
    for _ in range(60):
        meter.on_batch(card, None)
    asked = {rate: len(found) for rate, found in meter.mistakes.items()}
    assert (
        asked[FALSE_ACCEPTS] == 8 * 7
    )  # of the first right answer of each group, the golds of the others
    meter.on_batch(card, None)
    assert {rate: len(found) for rate, found in meter.mistakes.items()} == asked


class Clock:
    """A fake clock, advanced by a verifier."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.slow
def test_it_takes_its_share_of_the_time_and_saves_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(noise_meter, "time", clock)

    @dataclass(frozen=True, kw_only=True)
    class Slow(MathVerifier):
        def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
            clock.now += 0.3
            return super().judge_samples(samples)

    mix = a_mix(Slow())
    meter, used = NoiseMeter(mix, tmp_path), []
    for step in range(100):
        card = a_batch(mix, step)
        clock.now += 10.0
        meter.on_batch(card, None)
        used.append(meter.figures[NOISE_SECONDS])
    assert (
        0 < sum(used) <= noise_meter.SHARE * clock.now + 0.3
    )  # the last question may not be paid for yet
    assert max(used) == pytest.approx(0.3)
    clock.now += 10_000.0  # an evaluation
    meter.on_evaluate()
    clock.now += (
        1.0 / noise_meter.SHARE
    )  # the share of which is 1 s: what begins within it is ended
    meter.on_batch(a_batch(mix, 101), None)
    assert (
        0.89 < meter.figures[NOISE_SECONDS] <= 1.3
    )  # three questions or four: a part may be owed from before


def test_a_rank_that_measures_nothing_and_a_mix_without_answers(tmp_path: Path) -> None:
    measured = measure(a_mix(MathVerifier()), tmp_path).figures
    idle = NoiseMeter(a_mix(MathVerifier()), tmp_path).figures
    assert list(idle) == list(measured)
    assert all(math.isnan(value) for value in idle.values())
    assert NoiseMeter(a_mix(RegexVerifier(pattern="4")), tmp_path).figures == {}


@pytest.mark.parametrize(
    "verifier", [ExactTextVerifier(), NumericVerifier(), MathVerifier(mode="last_number")]
)
def test_other_verifiers_of_answers_are_measured_by_swapped_golds_alone(
    tmp_path: Path, verifier: Verifier
) -> None:
    figures = measure(a_mix(verifier), tmp_path, 5).figures
    assert math.isnan(figures[FALSE_REJECTS])
    assert figures[FALSE_ACCEPTS] == 0.0


def test_what_a_verifier_takes_for_the_same_on_purpose_is_no_mistake(
    tmp_path: Path,
) -> None:
    meter = measure(a_mix(NumericVerifier(absolute=2.0)), tmp_path, 5)
    assert meter.mistakes[FALSE_ACCEPTS]
    assert meter.figures[FALSE_ACCEPTS] == 0.0


def test_a_choice_is_judged_by_the_choice_of_another_question(tmp_path: Path) -> None:
    mix = a_mix(MultipleChoiceVerifier())
    rows = [
        {"answer": "ABCD"[group % 4], "choices": ["w", "x", "y", "z"]} for group in range(8)
    ]
    samples = [
        Sample(text=f"Answer: {row['answer']}", row=row, group=group)
        for group, row in enumerate(rows)
    ]
    meter = NoiseMeter(mix, tmp_path, share=math.inf)
    meter.on_batch(mix.score(samples), None)
    assert list(meter.mistakes[FALSE_ACCEPTS]) == [False] * 8


def noise_logs(rate: str, low: float, mean: float, high: float) -> list[dict[str, float]]:
    return [{rate: mean, f"{rate}_low": low, f"{rate}_high": high}]


@pytest.mark.parametrize(
    ("low", "severity"), [(0.019, None), (0.021, "warning"), (0.11, "critical")]
)
@pytest.mark.parametrize("rate", RATES)
def test_a_rate_that_is_surely_too_high_is_a_finding(
    rate: str, low: float, severity: str | None
) -> None:
    from trl_grpo_ext.diagnostics.checks import CHECKS
    from trl_grpo_ext.diagnostics.finding import Finding

    window = window_of(
        [a_batch(a_mix(MathVerifier()))], noise_logs(rate, low, low + 0.02, low + 0.05)
    )
    assert ("noisy_verifier" in codes(window)) is (severity is not None)
    found = CHECKS["noisy_verifier"](window)
    if severity is not None:
        assert isinstance(found, Finding)
        assert found.severity == severity
        assert "`accuracy`" in found.sentence
        assert ("turns down" in found.sentence) is (rate == FALSE_REJECTS)
        assert found.numbers[rate.rpartition("/")[2]] == pytest.approx(low + 0.02)


def test_without_a_measurement_the_check_says_what_it_needs() -> None:
    assert "measure_noise" in needs(
        window_of([a_batch(a_mix(MathVerifier()))]), "noisy_verifier"
    )


@pytest.mark.slow  # real runs
def test_a_real_run_logs_the_rates_and_trains_the_same_without_them(
    tiny_model: str,
    sums: Any,
    config: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noise_meter, "SHARE", 1.0)
    texts: dict[bool, Any] = {}
    for measures in (True, False):
        args = config(
            output_dir=str(tmp_path / str(measures)), measure_noise=measures, per_device_train_batch_size=32,
            max_steps=4, max_completion_length=48, eval_strategy="steps", eval_steps=2, num_generations_eval=2,
        )  # fmt: skip
        trainer = VerifiedGRPOTrainer(
            tiny_model,
            a_mix(Noisy(noise=0.3)),
            args,
            sums["train"],
            sums["test"].select(range(8)),
        )
        trainer.train()
        names = [
            {name for name in entry if "/noise/" in name}
            for entry in trainer.state.log_history
        ]
        steps = [
            own
            for own, entry in zip(names, trainer.state.log_history, strict=True)
            if "loss" in entry
        ]
        assert (
            steps
            == [
                set(NoiseMeter(a_mix(MathVerifier()), tmp_path).figures)
                if measures
                else set()
            ]
            * 4
        )
        assert not any(
            own
            for own, entry in zip(names, trainer.state.log_history, strict=True)
            if "loss" not in entry
        )
        cards = list(RecordedRun(args.output_dir).cards())
        texts[measures] = [
            [
                (one.text, total)
                for one, total in zip(card.samples, card.totals, strict=True)
            ]
            for card in cards
        ]
        if measures:
            last = [entry for entry in trainer.state.log_history if "loss" in entry][-1]
            assert all(
                0 <= last[f"{rate}_low"] <= last[rate] <= last[f"{rate}_high"] <= 1
                for rate in RATES
            )
            shown = log_columns(RecordedRun(args.output_dir).iterate_logs())["figures"]
            assert shown[FALSE_REJECTS][-1] == pytest.approx(last[FALSE_REJECTS], abs=1e-3)
    assert texts[True] == texts[False]
