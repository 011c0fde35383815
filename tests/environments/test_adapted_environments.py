"""TRL's Harbor and OpenReward environments under a term: rewards, failures, and episodes without a submission."""

from __future__ import annotations

import asyncio
import gc
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from environment_run import Scripted, call, scored_by_environments, tool_tokenizer
from library_servers import install_harbor, install_openreward
from planted import collected, term
from walls import wait_until

from trl_grpo_ext import RewardMix, RewardTerm, Scorecard
from trl_grpo_ext.environments import FromHarbor, FromOpenReward
from trl_grpo_ext.rewards import EnvironmentReward

pytestmark = [scored_by_environments, pytest.mark.filterwarnings("ignore")]

harbor = pytest.importorskip("trl.experimental.harbor")
openreward = pytest.importorskip("trl.experimental.openreward")

MIX = RewardMix(
    [
        RewardTerm(name="solved", verifier=EnvironmentReward()),
        term("right", 1, 0, weight=0.1),
    ]
)


@pytest.fixture
def trained(one_layer: str, config: Callable[..., Any]) -> Callable[..., Scorecard]:
    """Train one step on rows with these environments, and return the scorecard."""

    def train(factory: Any, rows: Any, says: Any) -> Scorecard:
        args = config(
            max_completion_length=250, max_steps=1, per_device_train_batch_size=2 * len(rows), num_generations=2,
            shuffle_dataset=False,
        )  # fmt: skip
        tokenizer = tool_tokenizer(one_layer)
        trainer = Scripted(
            one_layer,
            MIX,
            args,
            rows,
            environment_factory=factory,
            processing_class=tokenizer,
        )
        trainer.says = says
        cards = collected(trainer)
        trainer.train()
        return cards[0]

    return train


@pytest.fixture
def closed_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the event loops that TRL's environments stop but leave open, which would fail whichever test runs next."""
    made: list[asyncio.AbstractEventLoop] = []
    new_event_loop = asyncio.new_event_loop

    def remembered() -> asyncio.AbstractEventLoop:
        made.append(new_event_loop())
        return made[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", remembered)
    yield
    # An environment stops its loop when it is dropped.
    gc.collect()
    assert wait_until(lambda: not any(loop.is_running() for loop in made))
    for loop in made:
        loop.close()


def reasons(card: Scorecard) -> list[tuple[float | None, str]]:
    """List (score, reason) of each group's first completion."""
    verdicts = [card.verdicts["solved"][rows[0]] for rows in card.members]
    return [(verdict.score, verdict.reason) for verdict in verdicts if verdict is not None]


@pytest.mark.usefixtures("closed_loops")
def test_harbors_verifier_scores_and_a_sandbox_or_a_verifier_that_fails_makes_the_row_void(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_harbor(monkeypatch)
    prompt = [{"role": "user", "content": ""}]
    names = ("fine", "no_sandbox", "no_verdict")
    rows = Dataset.from_list(
        [{"prompt": prompt, "task_dir": str(tmp_path / name)} for name in names]
    )
    factory = FromHarbor(partial(harbor.HarborBashEnv, environment_type="docker"))
    assert pickle.loads(pickle.dumps(factory)).factory.func is harbor.HarborBashEnv
    card = trained(
        factory, rows, (call("bash", command="echo 42 > /workdir/answer.txt"), "Done.")
    )
    assert reasons(card) == [
        (1.0, ""),
        (None, "reset_ConnectionError"),
        (None, "get_reward_FileNotFoundError"),
    ]
    assert card.void == (False, False, True, True, True, True)
    assert card.samples[0].outcome is not None
    assert card.samples[0].outcome.state == {"task": "fine"}
    assert reasons(trained(factory, rows.select([0]), ("I do not know.",))) == [(0.0, "")]


def test_openreward_gives_the_last_reward_and_what_was_not_submitted_is_wrong_but_a_call_that_failed_is_void(
    trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_openreward(monkeypatch)
    spec = openreward.OpenRewardSpec("http://server", num_tasks=4)
    factory, rows = FromOpenReward(spec.environment_factory), spec.train_dataset
    card = trained(factory, rows, (call("submit", answer="42"), "Done."))
    assert reasons(card) == [
        (1.0, ""),
        (None, "get_reward_ConnectionError"),
        (0.0, "unsubmitted"),
        (None, "reset_ConnectionError"),
    ]
    assert card.samples[0].outcome is not None
    assert card.samples[0].outcome.state == {
        "rewards": [1.0],
        "metadata": [{"tries": 1}],
        "finished": True,
    }
    assert reasons(trained(factory, rows.select([0]), ("I do not know.",))) == [
        (0.0, "unsubmitted")
    ]
