"""The time budget of a batch: samples unjudged at its end are grader errors, and the next batch is judged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil
import pytest
from isolated_verifiers import in_worker
from judge_endpoint import Answer, judge_endpoint
from planted import Positions, collected

from trl_grpo_ext import (
    RewardMix,
    RewardTerm,
    Sample,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.answers import pairs as judging
from trl_grpo_ext.rewards import LlmJudgeVerifier, MathVerifier, UnitTestVerifier
from trl_grpo_ext.support.budget import BUDGET_SPENT, judging_budget, seconds_left
from trl_grpo_ext.verdict import Blame, Status, as_verdict, grader_error
from trl_grpo_ext.workers.pool import usable_cores
from trl_grpo_ext.workers.processes import close_shared

Make = Callable[..., Any]
# In seconds: enough to start processes on a busy machine, and far below the sleeping times.
BUDGET = 3.0
TESTS = [["assert add(1, 2) == 3"]]
RIGHT = "```python\ndef add(a, b):\n    return a + b\n```"
NEVER = "```python\nimport time\ndef add(a, b):\n    while True:\n        pass\n```"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    close_shared()


class Sleeping(Verifier):
    """A verifier that sleeps until the budget is spent, on completions with the text `sleep`."""

    def verify(self, sample: Sample) -> Verdict:
        if sample.text == "sleep" and seconds_left() < math.inf:
            time.sleep(seconds_left() + 0.01)
        return as_verdict(True)


def burning() -> list[psutil.Process]:
    """List descendant processes that currently use CPU time."""
    below = {
        process: process.cpu_times()
        for process in psutil.Process().children(recursive=True)
    }
    time.sleep(0.3)
    return [
        process
        for process, before in below.items()
        if process.is_running() and _used(process) > sum(before[:2])
    ]


def _used(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:2])
    except psutil.NoSuchProcess:
        return 0.0


def reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """List the reasons, and assert that samples lost to the budget are grader errors."""
    for verdict in verdicts:
        if verdict.reason == BUDGET_SPENT:
            assert (verdict.status, verdict.blame, verdict.score) == (
                Status.ERROR,
                Blame.GRADER,
                None,
            )
    return [verdict.reason for verdict in verdicts]


def test_a_verifier_of_this_process_gets_no_further_completion() -> None:
    with judging_budget(1.0):
        assert reasons(Sleeping().judge(["quick", "sleep", "quick"])) == [
            "",
            "",
            BUDGET_SPENT,
        ]
    assert reasons(Sleeping().judge(["quick"])) == [""]


def test_isolated_verifiers_are_ended_and_the_next_batch_is_judged() -> None:
    assert in_worker.judge(["right"])[0].score == 1.0
    with judging_budget(0.5):
        late = in_worker.judge(
            ["spin", *["sleep"] * usable_cores(), "right"]
        )  # one more than there are workers
    assert BUDGET_SPENT in reasons(late)
    assert late[-1].reason == BUDGET_SPENT  # which had not begun
    assert not burning()
    assert [verdict.score for verdict in in_worker.judge(["right", "wrong"])] == [1.0, 0.0]


@pytest.mark.slow  # waits for the budget
def test_programs_are_ended_and_the_next_batch_is_judged() -> None:
    code = UnitTestVerifier(timeout=60.0)
    assert code([RIGHT], tests=TESTS) == [1.0]
    programs = [RIGHT, *(f"{NEVER}\n{number}" for number in range(4))]
    with judging_budget(BUDGET):
        verdicts = code.judge(programs, tests=TESTS * 5)
    assert reasons(verdicts) == ["", *[BUDGET_SPENT] * 4]
    assert not burning()
    assert code([RIGHT, RIGHT.replace("+", "-")], tests=TESTS * 2) == [1.0, 0.0]


def test_an_answer_that_timed_out_is_not_blamed_before_its_gold_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_workers(pairs: Sequence[judging.Pair], timeout: float) -> list[Verdict]:
        late = Verdict(status=Status.TIMEOUT, score=0.0, reason="timeout")
        return [
            grader_error(BUDGET_SPENT) if pair.answer == "1" else late for pair in pairs
        ]

    judging.forget()
    monkeypatch.setattr(judging, "in_workers", in_workers)
    assert reasons(MathVerifier().judge([r"\boxed{x^x*x}"], solution=["x^(x+1)"])) == [
        BUDGET_SPENT
    ]


def test_a_judge_that_is_a_model_is_no_longer_waited_for() -> None:
    with judge_endpoint() as endpoint:
        endpoint.does(Answer(hangs=True))
        judge = LlmJudgeVerifier(model="judge", base_url=endpoint.base_url)
        with judging_budget(0.5):
            assert reasons(judge.judge(["worth 7"], prompts=["What is it worth?"])) == [
                BUDGET_SPENT
            ]
        endpoint.gate.set()
        judge.close()


def test_terms_that_come_after_are_not_begun_and_without_a_budget_all_are() -> None:
    asked: list[float] = []

    class Asked(Verifier):
        def verify(self, sample: Sample) -> Verdict:
            raise NotImplementedError

        def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
            asked.append(seconds_left())
            return [as_verdict(True)] * len(samples)

    mix = RewardMix(
        [
            RewardTerm(name="slow", verifier=Sleeping()),
            RewardTerm(name="next", verifier=Asked()),
        ]
    )
    samples = [Sample(text="sleep"), Sample(text="quick")]
    with judging_budget(0.2):
        card = mix.score(samples)
    assert (
        reasons([verdict for verdict in card.verdicts["next"] if verdict])
        == [BUDGET_SPENT] * 2
    )
    assert card.void == (True, True)
    assert not asked
    assert mix.score(samples).void == (False, False)
    assert asked == [math.inf]


def test_a_run_goes_on_and_says_so(
    one_layer: str, sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    class SlowAtFirst(Positions):
        slow = True

        def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
            if self.slow:
                self.slow = False
                in_worker.judge(["sleep"])
            return super().judge_samples(samples)

    mix = RewardMix(
        [
            RewardTerm(name="first", verifier=SlowAtFirst(1, 0)),
            RewardTerm(name="then", verifier=Positions(0, 1)),
        ]
    )
    trainer = VerifiedGRPOTrainer(one_layer, mix, config(judging_budget=0.5), sums["train"])
    cards = collected(trainer)
    trainer.train()
    assert [set(card.void) for card in cards] == [{True}, {False}]
    assert trainer.state.log_history[0]["verified/then/error"] == 1.0
    assert [
        text for text in caplog.messages if "judging_budget" in text and "'then'" in text
    ]


def test_a_budget_is_more_than_nothing(config: Make) -> None:
    with pytest.raises(ValueError, match="judging_budget"):
        config(judging_budget=0)
