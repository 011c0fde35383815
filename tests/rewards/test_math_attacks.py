"""Attacks on the math verifier: right answers in unusual forms, and wrong answers that look right.

Each line of `math_attacks.jsonl` is one case: gold, completion, label, reason, and in some cases a prompt. No
mathematician would dispute a label.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest

from trl_grpo_ext import Sample, Status
from trl_grpo_ext.rewards import MathVerifier

# "class" is a keyword, so the fields are given as a mapping.
Case = TypedDict(
    "Case",
    {
        "class": str,
        "prompt": NotRequired[str],
        "gold": str,
        "completion": str,
        "right": bool,
        "why": str,
    },
)

CASES: list[Case] = [
    json.loads(line)
    for line in Path(__file__)
    .with_name("math_attacks.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
CLASSES = sorted({case["class"] for case in CASES})
# The least number of cases per class.
AT_LEAST = 10


@cache
def accepted() -> list[bool]:
    """Judge all cases in one batch, and return one bool per case: True if judged correct."""
    samples = [
        Sample(
            text=case["completion"],
            prompt=case.get("prompt"),
            row={"solution": case["gold"]},
        )
        for case in CASES
    ]
    return [
        verdict.status is Status.CORRECT
        for verdict in MathVerifier().judge_samples(samples)
    ]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_attack_of_a_class_is_judged_by_its_label(kind: str) -> None:
    judged = zip(CASES, accepted(), strict=True)
    wrong = [
        case
        for case, was_accepted in judged
        if case["class"] == kind and was_accepted != case["right"]
    ]
    assert wrong == []


def test_each_class_has_right_and_wrong_answers() -> None:
    for kind in CLASSES:
        labels = [case["right"] for case in CASES if case["class"] == kind]
        assert len(labels) >= AT_LEAST, kind
        assert 0.3 < sum(labels) / len(labels) < 0.7, kind
