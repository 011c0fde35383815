"""Calls of a turn run at once in environments that allow it, and each result reaches its own rollout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from environment_run import Scripted, call, scored_by_environments, tool_tokenizer
from planted import collected, term

from trl_grpo_ext import RewardMix
from trl_grpo_ext.trainer import rollouts, tools

pytestmark = [
    scored_by_environments,
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory'"),
]

ROLLOUTS = 8


class Meeting:
    """An environment whose calls wait for the calls of all other rollouts."""

    parallel_calls = True
    met: ClassVar[Any] = None
    made: ClassVar[int] = 0
    # The rollout whose results are too long for TRL.
    verbose: ClassVar[int] = -1

    def __init__(self) -> None:
        self.place = Meeting.made
        Meeting.made += 1
        self.words: list[str] = []

    def reset(self, **_: Any) -> None:
        self.words = []

    def meet(self, word: str) -> str:
        """Meet all others.

        Args:
            word: What to say.
        """
        self.words.append(word)
        self.met.wait(60.0)
        if word == "raise":
            raise ValueError(f"not {self.place}")
        if self.place == self.verbose:
            return "x" * 5000
        return f"{self.place} said {word}"

    def get_reward(self) -> float:
        return 1.0

    @property
    def state(self) -> dict[str, Any]:
        return {"place": self.place, "words": self.words}


class Alone(Meeting):
    """An environment that runs one call at a time."""

    parallel_calls = False
    inside: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def meet(self, word: str) -> str:
        """Meet nobody.

        Args:
            word: What to say.
        """
        Alone.inside += 1
        Alone.most = max(Alone.most, Alone.inside)
        threading.Event().wait(0.01)
        Alone.inside -= 1
        return word


@pytest.fixture(autouse=True)
def _eight_meet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Meeting, "met", threading.Barrier(ROLLOUTS))
    monkeypatch.setattr(Meeting, "made", 0)
    monkeypatch.setattr(tools, "usable_cores", lambda: ROLLOUTS)
    yield


@pytest.fixture
def trained(one_layer: str, sums: Any, config: Callable[..., Any]) -> Callable[..., Any]:
    def train(says: Any, factory: Any = Meeting, **settings: Any) -> Any:
        args = config(max_completion_length=200, max_steps=1, **settings)
        trainer = Scripted(
            one_layer, RewardMix([term("any", 0, 1)]), args, sums["train"], environment_factory=factory,
            processing_class=tool_tokenizer(one_layer),
        )  # fmt: skip
        trainer.says = says
        cards = collected(trainer)
        trainer.train()
        return cards[0]

    return train


def heard(card: Any) -> list[list[str]]:
    return [
        [m["content"] for m in sample.messages or () if m["role"] == "tool"]
        for sample in card.samples
    ]


def test_the_calls_of_a_turn_run_at_once_and_each_rollout_gets_its_own_result(
    trained: Any,
) -> None:
    card = trained((call("meet", word="a"), call("meet", word="b"), "42"))
    places = [sample.outcome.state["place"] for sample in card.samples]
    assert sorted(places) == sorted(set(places)) and len(places) == ROLLOUTS
    assert heard(card) == [[f"{place} said a", f"{place} said b"] for place in places]
    assert all(
        message["seconds"] >= 0
        for s in card.samples
        for message in s.messages
        if message["role"] == "tool"
    )


def test_several_calls_of_a_rollout_keep_their_order(trained: Any) -> None:
    card = trained((call("meet", word="a") + call("meet", word="b"), "42"))
    assert {tuple(sample.outcome.state["words"]) for sample in card.samples} == {("a", "b")}
    places = [sample.outcome.state["place"] for sample in card.samples]
    assert heard(card) == [[f"{place} said {word}" for word in "ab"] for place in places]


def test_an_error_reaches_its_own_rollout(trained: Any) -> None:
    card = trained((call("meet", word="raise"), "42"))
    places = [sample.outcome.state["place"] for sample in card.samples]
    assert heard(card) == [[str({"error": f"not {place}"})] for place in places]


def test_a_call_that_trl_refuses_is_not_made(trained: Any) -> None:
    card = trained((call("no", word="a") + call("meet", word="b"), "42"))
    assert all(
        "Tool no not found" in read[0] and read[1].endswith("said b")
        for read in heard(card)
    )


def test_a_call_whose_result_trl_took_back_is_not_made_again(
    trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Meeting, "verbose", 3)
    waits = iter([threading.Barrier(ROLLOUTS), threading.Barrier(ROLLOUTS - 1)])

    class Both:
        def __init__(self) -> None:
            self._first, self._second = waits
            self._calls = 0
            self._lock = threading.Lock()

        def wait(self, seconds: float) -> None:
            with self._lock:
                self._calls += 1
                barrier = self._first if self._calls <= ROLLOUTS else self._second
            barrier.wait(seconds)

    monkeypatch.setattr(Meeting, "met", Both())
    card = trained((call("meet", word="a"), call("meet", word="b"), "42"))
    words = {
        sample.outcome.state["place"]: sample.outcome.state["words"]
        for sample in card.samples
    }
    assert words == {place: ["a"] if place == 3 else ["a", "b"] for place in words}


@pytest.mark.parametrize(
    ("factory", "settings"), [(Alone, {}), (Meeting, {"environment_timeout": None})]
)
def test_other_calls_run_one_after_another(
    factory: Any, settings: Any, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Meeting, "met", threading.Barrier(1))
    card = trained((call("meet", word="a"), "42"), factory, **settings)
    assert len(heard(card)) == ROLLOUTS
    assert Alone.most <= 1


def test_no_more_environments_that_run_programs_are_asked_at_once_than_this_rank_has_cores(
    trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    lock = threading.Lock()
    now = 0

    def get_reward(self: Meeting) -> float:
        nonlocal now
        with lock:
            now += 1
            asked.append(now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return 1.0

    monkeypatch.setattr(Meeting, "met", threading.Barrier(1))
    monkeypatch.setattr(Meeting, "get_reward", get_reward)
    monkeypatch.setattr(rollouts, "usable_cores", lambda: 2)
    trained((call("meet", word="a"), "42"))
    assert len(asked) == ROLLOUTS
    assert max(asked) <= 2
