"""Environments that fail: no failure trains as a wrong answer, through TRL's own tool loop."""

from __future__ import annotations

import asyncio
import copy
import math
import statistics
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from environment_run import Scripted, call, scored_by_environments, tool_tokenizer
from isolated_verifiers import total_in_worker
from planted import collected, term

from trl_grpo_ext import RewardMix, RewardTerm, Sample, Status, Verdict, verifier
from trl_grpo_ext.commands.replay.rescorer import Rescorer
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.report.write import write_report
from trl_grpo_ext.rewards import EnvironmentReward, ToolCallsVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.trainer.guarded import GuardedFactory
from trl_grpo_ext.trainer.rollouts import EnvironmentsFailedError
from trl_grpo_ext.verdict import skipped

pytestmark = [
    scored_by_environments,
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory'"),
]

Make = Callable[..., Any]

# The index of the failing rollout, of eight rollouts in two groups.
FAULTY = 1
NO_LIMIT_IS_REACHED = 600.0


class Calculator:
    """An environment that adds, won by a sum of 42; the second instance has the planted `fault`."""

    made = 0
    fault: ClassVar[str] = ""
    given: ClassVar[Any] = None
    calls: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.place = Calculator.made
        Calculator.made += 1
        self.total = 0

    def reset(self, **row: Any) -> Any:
        self.total = 0
        return self._may_fail("reset", None)

    def add(self, a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        self.total = a + b
        return int(self._may_fail("add", self.total))

    def get_reward(self) -> Any:
        return self._may_fail("get_reward", self.total == 42 and self.place % 4 == 0)

    @property
    def state(self) -> dict[str, Any]:
        return {"total": self.total, "steps": (1, 2)}

    def _may_fail(self, method: str, result: Any) -> Any:
        is_meant = self.place == FAULTY or "all" in self.fault
        match self.fault.split() if is_meant else []:
            case [where, "raises", *_] if where == method:
                raise ConnectionError("refused")
            case [where, "exits"] if where == method:
                raise SystemExit(3)
            case [where, "hangs"] if where == method:
                Calculator.calls.append(method)
                threading.Event().wait()
            case [where, "gives", *_] if where == method:
                return Calculator.given
        return result


@pytest.fixture(autouse=True)
def _no_fault(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"made": 0, "fault": "", "given": None, "calls": []}.items():
        monkeypatch.setattr(Calculator, name, value)
    yield


SOLVED = RewardTerm(name="solved", verifier=EnvironmentReward())
RIGHT = term("right", 0, 1, 0, 1)


def plain_right(completions: list[Any], **_: Any) -> list[float]:
    """Score like `RIGHT`, as a plain reward function."""
    return [float(place % 2) for place in range(len(completions))]


REWARDS: dict[str, Any] = {
    "term": RewardMix([SOLVED, RIGHT]),
    "column": RewardMix([RIGHT]),
    "no_mix": plain_right,
}


class Remembering(Scripted):
    """A trainer that keeps TRL's final advantages."""

    advantages: list[float]

    def _batch(self, inputs: Any) -> dict[str, Any]:
        output = super()._batch(inputs)
        self.advantages = output["advantages"].tolist()
        return output


@pytest.fixture
def trained(one_layer: str, sums: Any, config: Make) -> Make:
    """Train one step with environments, by default calculators, and return trainer and scorecards."""

    def train(
        rewards: Any, factory: Any = Calculator, says: Any = Scripted.says, **settings: Any
    ) -> Any:
        args = config(**{"max_completion_length": 200, "max_steps": 1} | settings)
        tokenizer = tool_tokenizer(one_layer)
        trainer = Remembering(
            one_layer,
            rewards,
            args,
            sums["train"],
            environment_factory=factory,
            processing_class=tokenizer,
        )
        trainer.says = says
        cards = collected(trainer)
        trainer.train()
        return trainer, cards

    return train


def advantages_without(void: set[int]) -> Any:
    """Compute the advantages of two groups of four as if the void rows did not exist."""
    totals = [
        None if place in void else float(place % 2 + (place % 4 == 0)) for place in range(8)
    ]
    expected = []
    for group in (totals[:4], totals[4:]):
        known = [total for total in group if total is not None]
        mean, spread = statistics.mean(known), statistics.stdev(known)
        expected += [
            0.0 if total is None else (total - mean) / (spread + 1e-4) for total in group
        ]
    return pytest.approx(expected, abs=1e-5)


FAULTS = {
    "get_reward gives None": "no_reward",
    "get_reward gives NaN": "score_not_finite",
    "get_reward gives text": "returned_str",
    "get_reward raises": "get_reward_ConnectionError",
    "get_reward exits": "get_reward_SystemExit",
    "get_reward hangs": "get_reward_hangs",
    "reset raises": "reset_ConnectionError",
    "reset hangs": "reset_hangs",
    "reset gives 7": "reset_returned_int",
}
GIVEN = {"NaN": math.nan, "text": "done", "7": 7}


def test_a_reward_that_is_a_text_is_told_with_the_text_and_the_values_that_count(
    trained: Make,
) -> None:
    Calculator.fault, Calculator.given = "get_reward gives text", "1.0"
    _, (card,) = trained(REWARDS["term"])
    assert card.samples[FAULTY].outcome.error == (
        "Calculator.get_reward returned '1.0'; it may return a bool, a finite number, a Verdict, or None"
    )


def test_judging_early_changes_nothing(trained: Make) -> None:
    Calculator.fault = "get_reward raises"
    trainer, (card,) = trained(REWARDS["term"], judge_early=True)
    assert trainer.advantages == advantages_without({FAULTY})
    assert card.samples[FAULTY].outcome.error.startswith(
        "Calculator.get_reward raised ConnectionError: refused"
    )


def test_a_run_records_the_names_of_its_tools(trained: Make) -> None:
    trainer, _ = trained(REWARDS["term"])
    assert trainer._run_settings["tools"] == ["add"]


# Without a term of the environment's reward, a fault of each method stands for the others.
QUICK_FAULTS = ("get_reward raises", "reset hangs")


@pytest.mark.parametrize(
    ("fault", "rewards"),
    [
        pytest.param(
            fault,
            rewards,
            marks=[] if rewards == "term" or fault in QUICK_FAULTS else [pytest.mark.slow],
        )
        for fault, rewards in product(FAULTS, REWARDS)
    ],
)
def test_a_rollout_whose_environment_fails_is_void_and_the_others_learn_as_if_it_had_not_been(
    fault: str, rewards: str, trained: Make
) -> None:
    Calculator.fault, Calculator.given = fault, GIVEN.get(fault.split()[-1])
    limit = 0.5 if "hangs" in fault else NO_LIMIT_IS_REACHED
    trainer, cards = trained(REWARDS[rewards], environment_timeout=limit)
    assert trainer.advantages == advantages_without({FAULTY})
    assert trainer.state.log_history[0]["verified/void"] == 1 / 8
    for card in cards:
        assert [place for place, void in enumerate(card.void) if void] == [FAULTY]
        outcome = card.samples[FAULTY].outcome
        assert outcome.environment == "Calculator"
        assert outcome.reward is None
        if rewards == "term":
            verdict = card.verdicts["solved"][FAULTY]
            assert (verdict.status, verdict.reason) == (Status.ERROR, FAULTS[fault])
            assert card.primary[0].score == 1


def test_with_a_term_the_column_that_trl_makes_is_gone_and_gates_go_by_the_term(
    trained: Make,
) -> None:
    mix = RewardMix([SOLVED, term("short", 0.5, weight=0.1, gate="solved")])
    trainer, (card,) = trained(mix)
    assert trainer.reward_func_names == ["solved", "short"]
    assert trainer.reward_weights.tolist() == pytest.approx([1.0, 0.1])
    assert card.totals == pytest.approx([1.05, 0, 0, 0] * 2)
    assert trainer.state.log_history[0]["verified/pass_at_1"] == 1 / 4


@pytest.mark.parametrize("rewards", ["term", "column"])
def test_a_verdict_is_taken_as_it_is(rewards: str, trained: Make) -> None:
    verdict = Verdict(status=Status.PARTIAL, score=0.25, reason="half_way", answer="21")
    Calculator.fault, Calculator.given = "get_reward gives all", verdict
    _, (card,) = trained(REWARDS[rewards])
    assert card.totals == (0.25, 1.25) * 4
    assert {sample.outcome.verdict.reason for sample in card.samples} == {"half_way"}


def test_an_episode_without_a_submission_scores_what_the_term_says(trained: Make) -> None:
    Calculator.fault, Calculator.given = "get_reward gives all", None
    mix = RewardMix(
        [RewardTerm(name="solved", verifier=EnvironmentReward(unsubmitted=0.0)), RIGHT]
    )
    _, (card,) = trained(mix)
    assert card.totals == (0.0, 1.0) * 4
    assert {verdict.reason for verdict in card.verdicts["solved"]} == {"unsubmitted"}


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("add raises", "{'error': 'refused'}"),
        ("add hangs", "{'error': 'add took more than 0.5 s.'}"),
    ],
)
def test_a_tool_that_fails_is_told_to_the_model_and_makes_no_row_void(
    fault: str, told: str, trained: Make
) -> None:
    Calculator.fault = fault
    _, (card,) = trained(
        REWARDS["term"],
        environment_timeout=0.5 if "hangs" in fault else NO_LIMIT_IS_REACHED,
    )
    results = [sample.messages[1]["content"] for sample in card.samples]
    assert results == [told if place == FAULTY else "42" for place in range(8)]
    assert not any(card.void)


def slow_search(words: str) -> str:
    """Search.

    Args:
        words: The words.
    """
    threading.Event().wait()
    return words


async def slow_async_search(words: str) -> str:
    """Search.

    Args:
        words: The words.
    """
    await asyncio.Event().wait()
    return words


@pytest.mark.parametrize("tool", [slow_search, slow_async_search])
def test_tools_without_an_environment_have_the_time_limit_too(
    tool: Any, one_layer: str, sums: Any, config: Make
) -> None:
    args = config(max_completion_length=200, max_steps=1, environment_timeout=0.05)
    tokenizer = tool_tokenizer(one_layer)
    trainer = Scripted(
        one_layer,
        RewardMix([RIGHT]),
        args,
        sums["train"].select(range(4)),
        tools=[tool],
        processing_class=tokenizer,
    )
    trainer.says = (call(tool.__name__, words="a"), "42")
    cards = collected(trainer)
    trainer.train()
    results = {sample.messages[1]["content"] for sample in cards[0].samples}
    assert results == {str({"error": f"{tool.__name__} took more than 0.05 s."})}


def long_search(words: str) -> str:
    """Search.

    Args:
        words: The words.
    """
    if words == "down":
        raise ConnectionError("refused " * 100)
    return words * 100


DOWN = "ConnectionError: " + "refused " * 100


@pytest.mark.parametrize(
    ("asks", "error"),
    [
        (call("long_search", words="found"), ""),
        (call("long_search", words="down"), DOWN),
        (call("search" * 50, words="a"), f"Tool {'search' * 50} not found."),
    ],
)
def test_a_result_that_does_not_fit_cuts_the_rollout_and_its_call_and_error_are_recorded(
    asks: str, error: str, one_layer: str, sums: Any, config: Make, tmp_path: Path
) -> None:
    tokenizer = tool_tokenizer(one_layer)
    limit = len(tokenizer(asks)["input_ids"]) + 20
    args = config(max_completion_length=limit, max_steps=1)
    rows = sums["train"].select(range(4))
    trainer = Scripted(
        one_layer,
        RewardMix([RIGHT]),
        args,
        rows,
        tools=[long_search],
        processing_class=tokenizer,
    )
    trainer.says = (asks, "42")
    trainer.train()
    # The tokens that TRL trains on end with an end token.
    assert trainer.state.log_history[0]["completions/clipped_ratio"] == 0
    (card,) = RecordedRun(tmp_path / "run").cards("train")
    assert all(sample.truncated for sample in card.samples)
    asked, result = card.samples[0].messages
    [each] = asked["tool_calls"]
    tool = each["function"]["name"]
    assert (result["name"], result["left_out"]) == (tool, True)
    figures = reduce_card(card, {})
    assert figures.left_out == {(tool,): len(card)}
    assert [found.error[:40] for found in figures.tool_errors] == (
        [error[:40]] if error else []
    )


def test_calls_after_the_last_turn_that_trl_answers_are_not_taken_for_results_that_do_not_fit(
    trained: Make,
) -> None:
    _, (card,) = trained(
        REWARDS["term"], says=[call("add", a=40, b=2)], max_tool_calling_iterations=1
    )
    assert [message["role"] for message in card.samples[0].messages] == [
        "assistant",
        "tool",
        "assistant",
    ]
    assert not any(sample.truncated for sample in card.samples)


def test_an_environment_that_hangs_is_never_used_again(trained: Make) -> None:
    Calculator.fault = "get_reward hangs"
    _, cards = trained(REWARDS["term"], environment_timeout=0.5, max_steps=3)
    assert Calculator.calls == ["get_reward"]
    assert [sum(card.void) for card in cards] == [1, 0, 0]
    assert Calculator.made == 9


def test_a_run_ends_after_some_batches_in_which_every_rollout_failed_and_says_why(
    trained: Make, tmp_path: Path
) -> None:
    Calculator.fault = "reset raises all"
    with pytest.raises(EnvironmentsFailedError) as caught:
        trained(REWARDS["column"], max_steps=5, environment_patience=2)
    message = str(caught.value)
    assert "Calculator.reset raised ConnectionError: refused" in message
    assert "'solution'" in message
    assert "environment_patience=2" in message
    assert len(list(RecordedRun(tmp_path / "run").cards("train"))) == 2


@pytest.mark.parametrize("rewards", REWARDS)
def test_rows_that_an_environment_cannot_judge_are_void_and_no_failure_of_the_environment(
    rewards: str, trained: Make
) -> None:
    class Unjudging(Calculator):
        def get_reward(self) -> Verdict:
            return skipped("tests_empty")

    trainer, cards = trained(
        REWARDS[rewards], Unjudging, max_steps=2, environment_patience=1
    )
    assert trainer.state.global_step == 2
    assert trainer.state.log_history[0]["verified/void"] == 1
    assert all(all(card.void) for card in cards)


def test_a_batch_with_one_rollout_that_came_to_an_outcome_begins_the_count_again(
    trained: Make,
) -> None:
    class Recovering(Calculator):
        def reset(self, **row: Any) -> Any:
            Recovering.resets += 1
            if Recovering.resets % 16 != 0:
                raise ConnectionError("refused")

        resets: ClassVar[int] = 0

    _, cards = trained(REWARDS["term"], Recovering, max_steps=4, environment_patience=2)
    assert [sum(card.void) for card in cards] == [8, 7, 8, 7]


class Watching:
    """An environment of another class, without `get_reward`."""

    def reset(self, **_: Any) -> None:
        return None


def test_the_empty_cells_of_another_class_are_no_failure(
    one_layer: str, sums: Any, config: Make, trained: Make
) -> None:
    rows = sums["train"].map(
        lambda row, index: {"environment": "ab"[index % 2]}, with_indices=True
    )
    sums = {"train": rows}
    args = config(
        max_completion_length=200,
        max_steps=1,
        per_device_train_batch_size=16,
        shuffle_dataset=False,
    )
    factories = {"a": Calculator, "b": Watching}
    tokenizer = tool_tokenizer(one_layer)
    trainer = Scripted(
        one_layer,
        REWARDS["column"],
        args,
        rows,
        environment_factory=factories,
        processing_class=tokenizer,
    )
    cards = collected(trainer)
    trainer.train()
    assert {sample.outcome.environment for sample in cards[0].samples} == {
        "Calculator",
        "Watching",
    }
    assert not any(cards[0].void)


class AsyncCalculator(Calculator):
    """A calculator with an async `get_reward`, which hangs or blocks its event loop on the planted fault."""

    released: ClassVar[threading.Event]

    async def get_reward(self) -> Any:
        await asyncio.sleep(0)
        if self.fault == "all get_reward block":
            self.released.wait()
        if self.place == FAULTY and self.fault == "get_reward blocks":
            self.released.wait(1.5)
        if self.place == FAULTY and self.fault == "get_reward hangs":
            await asyncio.Event().wait()
        return super().get_reward()


@pytest.mark.parametrize("fault", ["", "get_reward raises", "get_reward hangs"])
@pytest.mark.parametrize("rewards", ["term", "column"])
def test_an_async_reward_is_asked_in_the_same_way(
    fault: str, rewards: str, trained: Make
) -> None:
    Calculator.fault = fault
    limit = 0.5 if "hangs" in fault else NO_LIMIT_IS_REACHED
    trainer, _ = trained(REWARDS[rewards], AsyncCalculator, environment_timeout=limit)
    assert trainer.advantages == advantages_without({FAULTY} if fault else set())


@pytest.mark.slow
def test_an_async_reward_that_blocks_its_event_loop_is_void_alone_and_told_the_remedy(
    trained: Make,
) -> None:
    Calculator.fault = "get_reward blocks"
    AsyncCalculator.released = threading.Event()
    trainer, (card,) = trained(REWARDS["term"], AsyncCalculator, environment_timeout=0.5)
    assert trainer.advantages == advantages_without({FAULTY})
    blocked = card.samples[FAULTY].outcome
    assert blocked.verdict.reason == "get_reward_hangs"
    assert "holds the event loop" in blocked.error
    assert "asyncio.to_thread" in blocked.error


@pytest.mark.slow
def test_a_run_that_ends_behind_an_async_reward_that_blocks_names_the_row_of_that_reward(
    trained: Make, tmp_path: Path
) -> None:
    Calculator.fault = "all get_reward block"
    AsyncCalculator.released = threading.Event()
    with pytest.raises(EnvironmentsFailedError) as caught:
        trained(
            REWARDS["term"],
            AsyncCalculator,
            environment_timeout=0.2,
            environment_patience=1,
        )
    AsyncCalculator.released.set()
    assert "holds the event loop" in str(caught.value)
    assert "'solution'" in str(caught.value)
    (card,) = RecordedRun(tmp_path / "run").cards("train")
    reasons = sorted(sample.outcome.verdict.reason for sample in card.samples)
    assert reasons == ["get_reward_hangs", *["get_reward_waits"] * 7]


@verifier
def total_is_42(sample: Sample) -> bool:
    """Verify the environment's final state."""
    assert sample.outcome is not None
    return bool(sample.outcome.state["total"] == 42)


def test_verifiers_see_the_final_state_and_the_record_gives_it_back(
    trained: Make, tmp_path: Path
) -> None:
    worker = RewardTerm(name="in_worker", verifier=total_in_worker, weight=0)
    mix = RewardMix(
        [SOLVED, RewardTerm(name="sum", verifier=total_is_42, weight=0.5), worker]
    )
    _, (card,) = trained(mix)
    assert card.values["sum"] == card.values["in_worker"] == (1.0,) * 8
    (recorded,) = RecordedRun(tmp_path / "run").cards("train")
    assert [sample.outcome for sample in recorded.samples] == [
        sample.outcome for sample in card.samples
    ]
    assert recorded.samples[0].outcome.state == {"total": 42, "steps": [1, 2]}
    again = mix.score(recorded.samples)
    assert again.values == card.values
    page = write_report([tmp_path / "run"]).read_text(encoding="utf-8")
    assert "Calculator: reward 1" in page


@pytest.mark.parametrize("rewards", ["term", "column"])
@pytest.mark.parametrize("fault", ["reset raises", "get_reward raises"])
def test_a_record_tells_which_rows_were_void(
    fault: str, rewards: str, trained: Make, tmp_path: Path
) -> None:
    Calculator.fault = fault
    _, (card,) = trained(REWARDS[rewards])
    (recorded,) = RecordedRun(tmp_path / "run").cards("train")
    assert recorded.void == card.void
    assert recorded.totals == card.totals
    if (
        rewards == "column"
    ):  # without a verdict that says so, a replay by other rewards leaves them out too
        other = RewardMix([term("other", 1)])
        assert (
            Rescorer(other, {}).score(recorded, 0.0, alone=not recorded.has_others).void
            == card.void
        )


def test_calls_have_their_seconds_and_what_tools_return_is_no_part_of_the_length(
    trained: Make, tmp_path: Path
) -> None:
    trainer, (card,) = trained(REWARDS["term"])
    logged = trainer.state.log_history[0]
    for sample in card.samples:
        _, result, answer = sample.messages
        assert result["seconds"] >= 0
        assert "seconds" not in answer
        assert sample.length == logged["completions/mean_length"]
        assert sample.tool_tokens == logged["completions/tool_tokens"] > 0
        assert sample.length + sample.tool_tokens == len(sample.completion_ids)
    (recorded,) = RecordedRun(tmp_path / "run").cards("train")
    assert [sample.messages for sample in recorded.samples] == [
        sample.messages for sample in card.samples
    ]
    assert recorded.tokens.tolist() == card.tokens.tolist()


def test_a_failed_call_is_a_failed_call_for_a_verifier_of_the_process(
    trained: Make,
) -> None:
    Calculator.fault = "add raises"
    mix = RewardMix(
        [
            SOLVED,
            RewardTerm(
                name="calls", verifier=ToolCallsVerifier(marker="<call>"), weight=0.1
            ),
        ]
    )
    _, (card,) = trained(mix)
    reasons = [verdict.reason for verdict in card.verdicts["calls"]]
    assert reasons == ["failed_call" if place == FAULTY else "" for place in range(8)]


class Huge(Calculator):
    """A calculator with a state too large to keep, or with an unreadable state."""

    @property
    def state(self) -> Any:
        # TRL 1.11 reads properties when it makes an environment, so raise only after a call of `add`.
        if self.place % 2 and self.total:
            raise KeyError("board")
        return "x" * 100_000


def test_a_state_that_cannot_be_kept_is_none_and_makes_no_row_void(
    trained: Make, caplog: pytest.LogCaptureFixture
) -> None:
    _, (card,) = trained(REWARDS["term"], Huge)
    assert {sample.outcome.state for sample in card.samples} == {None}
    assert not any(card.void)
    assert (
        "Huge.state has 100002 characters as JSON, and at most 65536 are kept"
        in caplog.text
    )
    assert "Huge.state failed" in caplog.text


def test_a_term_that_no_environment_has_a_reward_for_is_refused(
    one_layer: str, sums: Any, config: Make, trained: Make
) -> None:
    with pytest.raises(ValueError, match="no environment has a `get_reward`"):
        trained(RewardMix([SOLVED]), Watching)
    with pytest.raises(ValueError, match="VerifiedGRPOTrainer"):
        RewardMix([SOLVED]).reward_funcs()


def test_a_copy_of_an_environment_goes_on_by_itself() -> None:
    environment = GuardedFactory(Calculator, 30.0)()
    environment.reset()
    for ahead in (copy.copy(environment), copy.deepcopy(environment)):
        assert ahead.add(40, 2) == 42
        assert ahead.get_reward() is True
        assert environment.total == 0
    environment.add(1, 1)
    assert environment.get_reward() == 0
    assert isinstance(environment, Calculator)
    assert type(environment).__name__ == "Calculator"


class Slotted:
    """An environment with empty `__slots__`, which cannot hold a guard."""

    __slots__ = ()

    def reset(self, **_: Any) -> None:
        return None


def test_an_environment_that_cannot_be_guarded_is_refused() -> None:
    with pytest.raises(TypeError, match="Slotted cannot be guarded"):
        GuardedFactory(Slotted, None)()


@pytest.mark.parametrize("seconds", [None, 30.0])
def test_all_calls_of_an_environment_are_made_on_one_thread(seconds: float | None) -> None:
    class Threads(Calculator):
        def __init__(self) -> None:
            super().__init__()
            self.seen = {threading.get_ident()}

        def reset(self, **row: Any) -> None:
            self.seen.add(threading.get_ident())

        def get_reward(self) -> float:
            self.seen.add(threading.get_ident())
            return 1.0

    environment = GuardedFactory(Threads, seconds)()
    environment.reset()
    assert environment.get_reward() == 1.0
    assert len(environment.seen) == 1
    assert (threading.get_ident() in environment.seen) is (seconds is None)
