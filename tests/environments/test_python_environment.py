"""A model that calls a local Python: names of a rollout, limits, and what the model is told of each end."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest
from environment_run import Scripted, call, scored_by_environments, tool_tokenizer
from planted import collected, term
from transformers.utils import get_json_schema
from walls import wait_until, walls_or_skip

from trl_grpo_ext import RewardMix, RewardTerm
from trl_grpo_ext.environments import CodeRepairEnvironment, PythonEnvironment, python_tool
from trl_grpo_ext.programs.sandbox.isolation import IsolationError
from trl_grpo_ext.programs.sandbox.session import SESSION_LIMITS
from trl_grpo_ext.rewards import EnvironmentReward, MathVerifier
from trl_grpo_ext.workers.processes import close_shared

BEST = walls_or_skip()
SPINS = "while True: pass"

pytestmark = [
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory'"),
    pytest.mark.filterwarnings("ignore:You are using 'tools'"),
]


class Short(PythonEnvironment):
    """A Python whose calls end soon."""

    limits = replace(SESSION_LIMITS, wall_seconds=0.5)


class Scoring(PythonEnvironment):
    """A Python with a reward: whether the session still has the row's solution as its `x`."""

    def get_reward(self) -> bool:
        return "42" in self._session.run("x").output


@pytest.fixture
def python() -> Iterator[PythonEnvironment]:
    environment = PythonEnvironment()
    environment.reset(solution="42")
    yield environment
    environment._end_rollout()


def test_names_stay_from_call_to_call_and_end_with_the_rollout(
    python: PythonEnvironment,
) -> None:
    assert [python.python("x = 40"), python.python("x + 2")] == ["(no output)", "42"]
    assert python.state["calls"] == 2
    python.reset(solution="43")
    assert python.state == {"calls": 0, "seconds": 0.0, "ended": [], "failed": []}
    assert "NameError" in python.python("x")


def test_the_model_reads_the_first_and_the_last_part_of_a_long_output(
    python: PythonEnvironment,
) -> None:
    read = python.python("print('a' * 9_000, 'b' * 9_000)")
    assert read.startswith("a" * 2000 + "\n[14001 characters are left out]\n")
    assert read.endswith("b" * 2000)


def test_a_session_that_ended_is_told_to_the_model_and_to_the_record() -> None:
    environment = Short()
    environment.reset()
    environment.python("x = 1")
    read = environment.python(f"print('begun')\n{SPINS}")
    told = "[The code was ended: timeout, over 0.5 s. Its names are gone; the next call starts a new session.]"
    assert read in (f"begun\n{told}", told)
    assert environment.state["ended"] == ["timeout: over 0.5 s"]
    assert environment.state["failed"] == []
    assert wait_until(lambda: "NameError" in environment.python("x"))
    environment._end_rollout()


def test_a_failure_of_the_sandbox_is_no_error_of_the_models_code(
    python: PythonEnvironment,
) -> None:
    python.python("x = 1")
    zygote = psutil.Process(python._session._live._zygote.pid)  # type: ignore[union-attr]
    below = zygote.children(recursive=True)
    zygote.kill()
    assert wait_until(lambda: not any(each.is_running() for each in below))
    with pytest.raises(RuntimeError, match="The sandbox failed, not your code"):
        python.python("x")
    assert len(python.state["failed"]) == 1
    assert python.state["ended"] == []
    assert python.python("2") == "2"


def test_a_rollout_has_so_many_calls_and_so_much_time() -> None:
    environment = Short()
    environment.calls = 2
    environment.reset()
    read = [environment.python("1") for _ in range(3)]
    assert (
        read[:2] == ["1", "1"]
        and read[2] == "There are no calls left: 2 were made. Answer now."
    )
    environment.calls, environment.seconds = 20, 0.4
    environment.reset()
    environment.python(SPINS)
    assert environment.python("1").startswith("There is no time left")
    environment.reset()
    environment.seconds = 60.0
    assert wait_until(lambda: environment.python("1") == "1")
    environment._end_rollout()


@pytest.mark.parametrize("code", [None, 3, ["1"], {"code": "1"}])
def test_code_that_is_no_text_is_refused(code: Any, python: PythonEnvironment) -> None:
    with pytest.raises(TypeError, match="code is a text of Python"):
        python.python(code)


def test_packages_that_are_not_there_are_refused_before_a_run() -> None:
    with pytest.raises(ValueError, match="packages names 'not_there'"):
        type("Other", (PythonEnvironment,), {"packages": ("not_there",)})()


@pytest.mark.parametrize("kind", [PythonEnvironment, CodeRepairEnvironment])
def test_where_no_walls_hold_an_environment_is_refused_before_a_run(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_hold() -> None:
        raise IsolationError("This machine has no walls.")

    # The sandboxes of this process know their walls.
    close_shared()
    monkeypatch.setattr("trl_grpo_ext.programs.sandbox.local.best_isolation", none_hold)
    with pytest.raises(ValueError, match="no walls"):
        kind()
    close_shared()


def test_the_tool_without_memory_starts_anew_with_each_call() -> None:
    assert [python_tool("x = 40; x + 2"), python_tool("print(1)\nx")] == [
        "42",
        "1\nNameError: name 'x' is not defined (line 2)",
    ]
    assert (
        python_tool("import os; os._exit(3)")
        == "[The code was ended: error, the program exited with status 3.]"
    )
    assert python_tool.__name__ == "python"
    assert pickle.loads(pickle.dumps(python_tool)) is python_tool
    assert pickle.loads(pickle.dumps(PythonEnvironment)) is PythonEnvironment


def test_the_model_is_shown_one_tool() -> None:
    public = [
        name
        for name, _ in inspect.getmembers(PythonEnvironment, inspect.isfunction)
        if name[0] != "_"
    ]
    assert public == ["python", "reset"]
    for tool in (PythonEnvironment.python, python_tool):
        shown = get_json_schema(tool)["function"]
        assert shown["name"] == "python"
        assert [*shown["parameters"]["properties"]] == ["code"]


CALLS = (call("python", code="x = 40"), call("python", code="x + 2"), "\\boxed{42}")


@pytest.fixture
def trained(one_layer: str, sums: Any, config: Callable[..., Any]) -> Callable[..., Any]:
    """Train a step in which the model writes `says`, one text a turn."""

    def train(says: Any, mix: RewardMix, **agent: Any) -> Any:
        args = config(max_completion_length=400, max_steps=1)
        trainer = Scripted(
            one_layer,
            mix,
            args,
            sums["train"],
            processing_class=tool_tokenizer(one_layer),
            **agent,
        )
        trainer.says = says
        cards = collected(trainer)
        trainer.train()
        return trainer, cards[0]

    return train


def results(card: Any) -> list[list[str]]:
    return [
        [m["content"] for m in sample.messages if m["role"] == "tool"]
        for sample in card.samples
    ]


def test_in_a_run_each_rollout_has_a_session_that_ends_with_it(trained: Any) -> None:
    mix = RewardMix([RewardTerm(name="answer", verifier=MathVerifier())])
    trainer, card = trained(CALLS, mix, environment_factory=PythonEnvironment)
    assert results(card) == [["(no output)", "42"]] * len(card)
    states = [sample.outcome.state for sample in card.samples]
    assert [(state["calls"], state["ended"], state["failed"]) for state in states] == [
        (2, [], [])
    ] * len(card)
    assert all(environment._session._live is None for environment in trainer.environments)


@scored_by_environments
def test_a_subclass_has_a_reward_that_may_look_into_the_session(trained: Any) -> None:
    mix = RewardMix([RewardTerm(name="solved", verifier=EnvironmentReward())])
    trainer, card = trained(
        (call("python", code="x = 42"), "done"), mix, environment_factory=Scoring
    )
    assert [verdict.score for verdict in card.verdicts["solved"]] == [1.0] * len(card)
    assert all(environment._session._live is None for environment in trainer.environments)


def test_in_a_run_the_tool_without_memory_has_none(trained: Any) -> None:
    _, card = trained(CALLS, RewardMix([term("any", 0, 1)]), tools=[python_tool])
    assert results(card) == [
        ["(no output)", "NameError: name 'x' is not defined (line 1)"]
    ] * len(card)


def test_in_a_run_every_end_of_a_session_is_told_and_trains_nobody_void(
    trained: Any,
) -> None:
    says = (call("python", code="import os; os._exit(0)"), call("python", code="1"), "0")
    _, card = trained(
        says, RewardMix([term("any", 0, 1)]), environment_factory=PythonEnvironment
    )
    for read in results(card):
        assert "The code was ended: error, the program exited with status 0." in read[0]
    assert {tuple(sample.outcome.state["ended"]) for sample in card.samples} == {
        ("error: the program exited with status 0",)
    }
    assert not any(card.void)
