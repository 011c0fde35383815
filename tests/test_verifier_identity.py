"""Identities of verifiers: equal for equal verdicts, None if unknown."""

from __future__ import annotations

import re
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from trl_grpo_ext import Sample, Verdict, Verifier, rewards, verifier
from trl_grpo_ext.rewards import (
    AllOf,
    MathVerifier,
    RegexVerifier,
    TagsVerifier,
    ThinkFormatVerifier,
)
from trl_grpo_ext.runs.run_settings import verifier_identity
from trl_grpo_ext.verdict import as_verdict


class Kind(Enum):
    ONE = 1
    TWO = 2


class Free(Verifier):
    """A verifier with arbitrary settings."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(True)


class Bare(Verifier):
    """A verifier without attributes."""

    def verify(self, sample: Sample) -> Verdict:
        return as_verdict(True)


@verifier
def polite(sample: Sample) -> bool:
    return "please" in sample.text


def helper() -> None: ...


SAME: list[tuple[Any, Any]] = [
    (MathVerifier(), MathVerifier()),
    (MathVerifier(name="a"), MathVerifier(name="b")),
    (AllOf(verifiers=[MathVerifier()]), AllOf(verifiers=[MathVerifier(name="a")])),
    (Free(a={"x": 1, "y": {2, 3}}), Free(a={"y": {3, 2}, "x": 1})),
    (Free(a=re.compile("x"), b=Path("p"), c=Kind.ONE), Free(a=re.compile("x"), b=Path("p"), c=Kind.ONE)),
    (Free(d=helper), Free(d=helper)),
    (polite, polite),
    (Bare(), Bare()),
]  # fmt: skip
OTHER: list[tuple[Any, Any]] = [
    (MathVerifier(), MathVerifier(mode="boxed_only")),
    (MathVerifier(), ThinkFormatVerifier()),
    (RegexVerifier(pattern="a"), RegexVerifier(pattern="b")),
    (
        AllOf(verifiers=[MathVerifier(), ThinkFormatVerifier()]),
        AllOf(verifiers=[MathVerifier(decimals=2), ThinkFormatVerifier()]),
    ),
    (Free(a=1), Free(a="1")),
    (Free(a=True), Free(a=1)),
    (Free(a=[1]), Free(a={1})),
    (Free(a=Kind.ONE), Free(a=Kind.TWO)),
    (Free(a=re.compile("x")), Free(a=re.compile("x", re.IGNORECASE))),
    (TagsVerifier(tags=["a"]), TagsVerifier(tags=["b"])),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_verifier_with_the_same_arguments_has_the_same_identity(
    one: Verifier, other: Verifier
) -> None:
    assert verifier_identity(one) is not None
    assert verifier_identity(one) == verifier_identity(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_class_or_argument_makes_another_identity(
    one: Verifier, other: Verifier
) -> None:
    assert None not in (verifier_identity(one), verifier_identity(other))
    assert verifier_identity(one) != verifier_identity(other)


def test_what_nobody_can_compare_has_none() -> None:
    class Local(Bare): ...

    circle: list[Any] = []
    circle.append(circle)
    for unknown in (
        Local(),
        Free(a=object()),
        Free(a=lambda: 1),
        Free(a=circle),
        Free(a={1: open}),
    ):
        assert verifier_identity(unknown) is None


@pytest.mark.parametrize(
    "name", [name for name in rewards.__all__ if name.endswith("_reward")]
)
def test_every_shipped_instance_has_one_that_another_process_finds_too(name: str) -> None:
    assert verifier_identity(getattr(rewards, name)) is not None


@pytest.mark.slow
def test_it_is_the_same_in_another_process_whatever_its_hash_seed() -> None:
    code = (
        "from trl_grpo_ext.rewards import AllOf, MathVerifier, JsonVerifier\n"
        "from trl_grpo_ext.runs.run_settings import verifier_identity\n"
        "print(verifier_identity(AllOf(verifiers=[MathVerifier(), JsonVerifier()])))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert "None" not in found.pop()


def test_arguments_are_not_told() -> None:
    assert "secret" not in str(verifier_identity(Free(api_key="secret")))
