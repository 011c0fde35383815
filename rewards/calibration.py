"""Reward calibrated confidence: compare the confidence that a completion states with the correctness of its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from trl_grpo_ext.answers.verdicts import unreadable
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.bases.visible_text import visible_text
from trl_grpo_ext.rewards.composed import Rescored
from trl_grpo_ext.rewards.math import MathVerifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict

# All quantifiers are possessive: backtracking over a completion that loops on blanks would take quadratic time.
_NUMBER = r"(-?\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})[ \t]*+(%?)"
_STATED = re.compile(
    rf"<confidence>\s*+{_NUMBER}\s*+</confidence>"
    rf"|^[ \t*_>#-]*+(?:my )?confidence[ \t*_]*+[:：][ \t*_]*+{_NUMBER}[ \t*_.]*+$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class CalibrationVerifier(Rescored):
    r"""Scores the stated confidence: one minus the Brier score (Brier 1950), `1 - (confidence - right)^2`.

    A completion states its confidence exactly once after the thinking: `<confidence>0.8</confidence>`, or a line
    `Confidence: 80%`. The verifier `correctness` judges the completion without the confidence; `right` is 1 for its
    verdict `correct`, else 0. The score is proper: its mean is highest if the confidence equals the true probability of
    a right answer. A policy also earns full score by wrong answers of confidence 0, so add a reward term for
    correctness, and give this term no larger weight.

    Args:
        correctness: The verifier of the answer. Only its verdict `correct` counts as right; `partial` counts as wrong.
        name: The metric key.

    | completion, gold 4 | score | reason |
    |---|---|---|
    | `\boxed{4} <confidence>1</confidence>` | 1 | |
    | `\boxed{4} <confidence>40%</confidence>` | 0.64 | `underconfident` |
    | `\boxed{5} <confidence>0.9</confidence>` | 0.19 | `overconfident` |
    | `\boxed{5} <confidence>0</confidence>` | 1 | |
    | `\boxed{4}` | 0 | `no_confidence` |
    | two confidences, or one outside [0, 1] | 0 | `several_confidences`, `confidence_outside_0_1` |
    | thinking that does not end | 0 | `unclosed_think` |
    | `correctness` gives no score | none | the reason and blame of `correctness` |

    Raises:
        ValueError: if `correctness` is not a verifier.

    Examples:
        >>> said = [r"\boxed{4} <confidence>0.5</confidence>", r"\boxed{4}"]
        >>> calibration_reward(said, solution=["4", "4"])
        [0.75, 0.0]
    """

    correctness: Verifier = field(default_factory=MathVerifier)
    name: str | None = None

    def asked(self, sample: Sample) -> Sample:
        # The confidence is a number, which `correctness` could take for the answer.
        return replace(sample, text=_STATED.sub("", sample.text))

    def rescored(self, sample: Sample, verdict: Verdict) -> Verdict:
        stated = _confidence(sample)
        if isinstance(stated, Verdict):
            return replace(stated, answer=verdict.answer, seconds=verdict.seconds)
        is_right = verdict.status is Status.CORRECT
        # In the Brier score, `is_right` is 1 or 0.
        score = 1.0 - (stated - is_right) ** 2
        details = {
            **verdict.details,
            "confidence": f"{stated:g}",
            "right": "yes" if is_right else "no",
        }
        return replace(
            verdict,
            status=_status(score),
            score=score,
            reason=_reason(stated, is_right=is_right),
            details=details,
        )


def _status(score: float) -> Status:
    if score == 1.0:
        return Status.CORRECT
    if score == 0.0:
        return Status.INCORRECT
    return Status.PARTIAL


def _reason(stated: float, *, is_right: bool) -> str:
    """Name the side on which the confidence misses; empty if it leans towards the truth."""
    leans_to_right = stated >= 0.5
    if leans_to_right is is_right:
        return ""
    if is_right:
        return "underconfident"
    return "overconfident"


def _confidence(sample: Sample) -> float | Verdict:
    """Read the confidence, in [0, 1], after the thinking; an UNPARSEABLE verdict unless exactly one is stated."""
    answer = visible_text(sample)
    if answer is None:
        return unreadable("unclosed_think")
    found = _STATED.findall(answer)
    if not found:
        return unreadable("no_confidence")
    if len(found) > 1:
        return unreadable("several_confidences")
    # The pattern has two forms, the tag and the line; the groups of the other form are empty.
    tagged, tagged_percent, lined, lined_percent = found[0]
    stated = float(tagged or lined)
    if tagged_percent or lined_percent:
        stated /= 100.0
    if not 0.0 <= stated <= 1.0:
        return unreadable("confidence_outside_0_1")
    return stated


calibration_reward = CalibrationVerifier(name="calibration_reward")
"""`CalibrationVerifier` with its defaults, ready for a list of reward functions or for `trl grpo --reward_funcs`."""
