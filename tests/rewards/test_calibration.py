"""Calibration: stated confidence compared with correctness of the answer."""

import math

import pytest

from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.rewards import CalibrationVerifier, ExactTextVerifier, calibration_reward
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status


def verify(text: str, gold: str | None = "4") -> tuple[Status, float | None, str]:
    verdict = CalibrationVerifier().verify(Sample(text=text, row={"solution": gold}))
    return verdict.status, verdict.score and round(verdict.score, 9), verdict.reason


@pytest.mark.parametrize(
    ("text", "score", "reason"),
    [
        (r"\boxed{4} <confidence>1</confidence>", 1.0, ""),
        (r"\boxed{4}" + "\nConfidence: 80%", 0.96, ""),
        (r"\boxed{4}" + "\n**Confidence:** .5", 0.75, ""),
        (r"\boxed{4}" + "\n- My confidence: 80%", 0.96, ""),
        (r"\boxed{4} <confidence>40 %</confidence>", 0.64, "underconfident"),
        (r"\boxed{5} <confidence>0.9</confidence>", 0.19, "overconfident"),
        (r"\boxed{5} <confidence>0</confidence>", 1.0, ""),
        (r"\boxed{5} <confidence>1.0</confidence>", 0.0, "overconfident"),
        ("I am lost.\n<confidence>0.1</confidence>", 0.99, ""),
        (
            "<think><confidence>1</confidence></think>"
            + r"\boxed{4} <confidence>0.5</confidence>",
            0.75,
            "",
        ),
    ],
)
def test_the_score_is_one_less_the_brier_score(
    text: str, score: float, reason: str
) -> None:
    assert verify(text)[1:] == (score, reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r"\boxed{4}", "no_confidence"),
        (r"\boxed{4} I am 80% sure", "no_confidence"),
        (r"\boxed{4} <confidence>high</confidence>", "no_confidence"),
        (
            r"\boxed{4} <confidence>1</confidence><confidence>0</confidence>",
            "several_confidences",
        ),
        (r"\boxed{4} <confidence>80</confidence>", "confidence_outside_0_1"),
        (r"\boxed{4} <confidence>-1</confidence>", "confidence_outside_0_1"),
        ("<think>\nConfidence: 1", "unclosed_think"),
    ],
)
def test_without_one_confidence_there_is_nothing_to_score(text: str, reason: str) -> None:
    assert verify(text) == (Status.UNPARSEABLE, 0.0, reason)


def test_the_truth_is_the_best_confidence() -> None:
    chance = 0.3
    stated = [step / 20 for step in range(21)]
    expected = [
        math.fsum(
            weight
            * (verify(rf"\boxed{{{answer}}} <confidence>{one}</confidence>")[1] or 0.0)
            for answer, weight in ((4, chance), (5, 1 - chance))
        )
        for one in stated
    ]
    assert stated[expected.index(max(expected))] == chance


def test_the_answer_is_judged_without_the_confidence() -> None:
    verifier = CalibrationVerifier(correctness=ExactTextVerifier())
    assert verifier(["4\nConfidence: 1"], solution=["4"]) == [1.0]


def test_what_correctness_cannot_judge_has_no_score() -> None:
    assert verify(r"\boxed{4} <confidence>1</confidence>", gold=None) == (
        Status.SKIPPED,
        None,
        "gold_missing",
    )


def test_a_recipe_names_what_is_right() -> None:
    mix = build_mix([{"verifier": "calibration", "correctness": {"verifier": "numeric"}}])
    card = mix.score(
        [
            Sample(
                text=r"\boxed{4} <confidence>1</confidence>", row={"solution": "4"}, group=0
            )
        ]
    )
    assert card.totals == (1.0,)
    with pytest.raises(ValueError, match="correctness"):
        CalibrationVerifier(correctness=print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "unit", ["<confidence> ", "confidence: ", "* _", "\n ", "9", "<confidence>1"]
)
def test_hostile_text_takes_no_time(unit: str) -> None:
    CalibrationVerifier(correctness=ExactTextVerifier()).verify(
        Sample(text=unit * (100_000 // len(unit)), row={"solution": "4"})
    )


@pytest.mark.parametrize(
    "before",
    ["Confidence: 0.9", "<confidence>0.9", "Confidence:", "<confidence>", "Confidence"],
)
@pytest.mark.parametrize("blank", [" ", "\t", "*", "_", "\n", ". "])
def test_blanks_without_end_take_no_time(before: str, blank: str) -> None:
    """Backtracking over the blanks would take hours."""
    text = f"{before}{blank * 50_000}x"
    (score,) = calibration_reward([text], solution=["4"])
    assert score is not None


def test_a_confidence_on_the_next_line_is_none() -> None:
    (verdict,) = calibration_reward.judge(
        [r"\boxed{4}" + "\nConfidence:\n\n1\n"], solution=["4"]
    )
    assert verdict.reason == "no_confidence"
