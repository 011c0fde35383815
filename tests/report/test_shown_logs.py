"""Figures shown on console and trackers, and listeners that receive all figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from trl_grpo_ext import RewardMix, RewardTerm, VerifiedGRPOConfig, VerifiedGRPOTrainer
from trl_grpo_ext.rewards import ConciseVerifier, MathVerifier, ThinkFormatVerifier
from trl_grpo_ext.trainer.console import MOST, shown_logs


class Tracker(TrainerCallback):
    """A callback that keeps all logs, like a tracker."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any
    ) -> None:
        self.told.append(dict(logs))


def run(
    model: str, data: Any, args: Any
) -> tuple[Tracker, Tracker, VerifiedGRPOTrainer, dict[str, float]]:
    """Train, and return an early tracker, a tracker added later, the trainer, and the result of `evaluate`."""
    mix = RewardMix(
        [
            RewardTerm(name="accuracy", verifier=MathVerifier()),
            RewardTerm(name="thinks", verifier=ThinkFormatVerifier(), weight=0.1),
            RewardTerm(
                name="brief", verifier=ConciseVerifier(), weight=0.1, gate="accuracy"
            ),
        ]
    )
    tracker, later = Tracker(), Tracker()
    eval_data = data["test"].select(range(4))
    trainer = VerifiedGRPOTrainer(
        model, mix, args, data["train"], eval_data, callbacks=[tracker]
    )
    trainer.add_callback(later)
    trainer.train()
    return tracker, later, trainer, trainer.evaluate()


@pytest.mark.slow
def test_trackers_get_the_known_figures_to_look_at_and_recorder_and_later_callbacks_all(
    tiny_model: str,
    sums: Any,
    config: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    tracker, later, trainer, evaluated = run(tiny_model, sums, config(max_steps=3))
    recorded = (
        (Path(trainer.args.output_dir) / "scorecards" / "log.jsonl")
        .read_text()
        .splitlines()
    )
    for told, whole, line in zip(tracker.told, later.told, recorded, strict=True):
        assert len(told) <= MOST
        assert None not in told.values()
        assert told.items() <= whole.items()
        assert {*whole} <= {*json.loads(line)}
    assert {"loss", "reward", "rewards/accuracy/mean", "verified/groups/live"} <= {
        *tracker.told[0]
    }
    assert min(len(later.told[0]), len(evaluated)) > 2 * MOST
    said = capsys.readouterr()
    assert "step 3/3 | reward " in said.err
    assert "verified/" not in said.out + said.err


def test_full_metrics_are_all_that_are_known_and_print_dicts(
    tiny_model: str,
    sums: Any,
    config: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    tracker, later, _, _ = run(tiny_model, sums, config(max_steps=1, metrics="full"))
    for told, whole in zip(tracker.told, later.told, strict=True):
        assert told == {key: value for key, value in whole.items() if value is not None}
    assert "verified/accuracy/coverage" in capsys.readouterr().out


def test_of_many_terms_the_mean_of_each_is_shown_and_the_users_own_figures_stay() -> None:
    logs = {f"rewards/t{term}/mean": 0.5 for term in range(20)} | {
        "mine": 1.0,
        "verified/void": 0.1,
    }
    logs |= {
        f"verified/t{term}/{name}": 0.5
        for term in range(20)
        for name in ("driver_share", "unparseable")
    }
    shown = shown_logs(logs, full=False)
    assert sum(key.startswith("rewards/") for key in shown) == 20
    assert {"mine", "verified/void"} <= {*shown}
    assert len(shown) <= MOST


def test_other_words_than_compact_and_full_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"metrics cannot be 'all'\. Valid are: .compact., .full."
    ):
        VerifiedGRPOConfig(output_dir="run", use_cpu=True, bf16=False, metrics="all")
