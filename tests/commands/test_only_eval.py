"""Terms for evaluations only, and the best checkpoint by such a term's score."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here

from trl_grpo_ext import (
    Blame,
    RewardMix,
    RewardTerm,
    Sample,
    Status,
    Verdict,
    VerifiedGRPOTrainer,
    Verifier,
)
from trl_grpo_ext.mix import product
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.rewards import MathVerifier, RegexVerifier
from trl_grpo_ext.runs.recorded_run import RecordedRun

Make = Callable[..., Any]


class ByStep(Verifier):
    """A verifier with planted scores per step, which records its samples; None is a grader error."""

    def __init__(self, scores: dict[int, float | None]) -> None:
        self.name = "by_step"
        self.scores = scores
        self.judged: list[Sample] = []

    def verify(self, sample: Sample) -> Verdict:
        self.judged.append(sample)
        score = self.scores[sample.step or 0]
        if score is None:
            return Verdict(
                status=Status.ERROR, score=None, blame=Blame.GRADER, reason="planted"
            )
        return Verdict(status=Status.PARTIAL, score=score)


def eval_only(verifier: Verifier, **settings: Any) -> RewardTerm:
    return RewardTerm(name="judge", verifier=verifier, weight=0, only="eval", **settings)


ACCURACY = RewardTerm(name="accuracy", verifier=MathVerifier())


def test_it_judges_evaluations_and_not_a_single_completion_of_the_training(
    tiny_model: str, sums: Any, config: Make
) -> None:
    judge = ByStep({1: 0.25, 2: 0.75})
    trainer = VerifiedGRPOTrainer(
        model=tiny_model,
        reward_funcs=RewardMix([ACCURACY, eval_only(judge)]),
        args=config(eval_strategy="steps", eval_steps=1),
        train_dataset=sums["train"],
        eval_dataset=sums["test"].select(range(4)),
    )
    trainer.train()
    assert len(judge.judged) == 2 * 16  # two evaluations of 4 prompts, 4 completions each
    run = RecordedRun(Path(trainer.args.output_dir))
    for card in run.cards():
        assert len(card.verdicts["judge"]) == len(card)
        assert all(
            (verdict is None) == (card.mode == "train")
            for verdict in card.verdicts["judge"]
        )
        assert not any(card.void)
    logs = trainer.state.log_history
    evaluated = [
        entry["eval_rewards/judge/mean"] for entry in logs if "eval_reward" in entry
    ]
    assert evaluated == [0.25, 0.75]
    assert {entry["rewards/judge/mean"] for entry in logs if "reward" in entry} == {None}
    assert {entry["verified/judge/coverage"] for entry in logs if "reward" in entry} == {
        0.0
    }


@pytest.mark.parametrize(
    "metric",
    ["rewards/judge/mean", pytest.param("eval_rewards/judge/mean", marks=pytest.mark.slow)],
)
def test_the_best_checkpoint_is_the_one_that_the_term_likes_best_and_it_is_loaded_at_the_end(
    tiny_model: str, sums: Any, config: Make, metric: str
) -> None:
    trainer = VerifiedGRPOTrainer(
        model=tiny_model,
        reward_funcs=RewardMix(
            [ACCURACY, eval_only(ByStep({1: None, 2: 0.875, 3: None, 4: 0.5}))]
        ),
        args=config(
            max_steps=4,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="steps",
            save_steps=1,
            save_only_model=True,
            load_best_model_at_end=True,
            metric_for_best_model=metric,
        ),
        train_dataset=sums["train"],
        eval_dataset=sums["test"].select(range(2)),
    )
    trainer.train()
    assert trainer.state.best_metric == 0.875  # what could not be judged is never the best
    assert trainer.state.best_global_step == 2
    from safetensors.torch import load_file

    best = load_file(Path(trainer.args.output_dir) / "checkpoint-2/model.safetensors")
    last = load_file(Path(trainer.args.output_dir) / "checkpoint-4/model.safetensors")
    loaded = dict(trainer.model.named_parameters())
    assert all(loaded[name].equal(weights) for name, weights in best.items())
    assert any(not loaded[name].equal(weights) for name, weights in last.items())


@pytest.mark.slow
def test_a_recipe_keeps_only_the_best_checkpoint_and_evaluates_with_a_term_of_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "model_name_or_path: bundled:tiny_reasoner\n"
        "dtype: float32\n"
        "dataset_name: bundled:sums\n"
        "rewards:\n"
        "  - {name: accuracy, verifier: math}\n"
        "  - {name: boxed, verifier: boxed, weight: 0, only: eval}\n"
        "output_dir: run\n"
        "max_steps: 2\n"
        "num_generations: 4\n"
        "num_generations_eval: 1\n"
        "per_device_eval_batch_size: 200\n"
        "max_completion_length: 16\n"
        "eval_strategy: steps\n"
        "eval_steps: 1\n"
        "save_strategy: best\n"
        "save_total_limit: 1\n"
        "metric_for_best_model: rewards/boxed/mean\n"
        "use_cpu: true\n"
        "bf16: false\n"
        "write_report: false\n"
        "report_to: none\n"
    )
    said = run_here("train", "--config", "mine.yaml", cwd=tmp_path)
    assert "boxed" not in said.stderr  # the lines of the training have nothing to say of it
    (checkpoint,) = (tmp_path / "run").glob("checkpoint-*")
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    scores = {
        entry["step"]: entry["eval_rewards/boxed/mean"]
        for entry in state["log_history"]
        if "eval_reward" in entry
    }
    assert state["best_metric"] == max(scores.values())
    found = json.loads(
        run_here(
            "eval",
            "--config",
            "mine.yaml",
            "--model",
            str(checkpoint),
            "--limit",
            "8",
            "--json",
            cwd=tmp_path,
        ).stdout
    )
    assert found["models"][0]["terms"]["boxed"]["verdicts"] == 8


def test_it_is_refused_where_it_would_train_or_where_it_could_not_be_told_what_an_evaluation_is() -> (
    None
):
    with pytest.raises(ValueError, match="set its weight to 0"):
        RewardTerm(name="judge", verifier=RegexVerifier(pattern="a"), only="eval")
    with pytest.raises(ValueError, match="`only` is 'eval' or left out, got 'train'"):
        RewardTerm(
            name="judge", verifier=RegexVerifier(pattern="a"), weight=0, only="train"
        )  # type: ignore[arg-type]
    judge = eval_only(RegexVerifier(pattern="a"))
    for needs in (
        {"verifier": MathVerifier(), "gate": "judge"},
        {"combine": product("judge")},
    ):
        with pytest.raises(
            ValueError, match="needs the term 'judge', which is only for evaluations"
        ):
            RewardMix([judge, RewardTerm(name="accuracy", **needs)])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="train with VerifiedGRPOTrainer"):
        RewardMix([ACCURACY, judge]).reward_funcs()
    mix = build_mix(
        [
            {"verifier": "math"},
            {"verifier": "boxed", "name": "judge", "weight": 0, "only": "eval"},
        ]
    )
    sample = Sample(text="\\boxed{4}", row={"solution": "4"})
    assert mix.score([sample]).verdicts["judge"] == (None,)
    assert mix.score([sample], mode="eval").values["judge"] == (1.0,)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("rewards/acuracy/mean", "Did you mean `rewards/accuracy/mean`"),
        ("eval_rewards/acuracy/mean", "Did you mean `rewards/accuracy/mean`"),
        ("accuracy", "Did you mean `rewards/accuracy/mean`"),
    ],
)
def test_a_metric_of_no_reward_is_refused_before_the_model_is_loaded(
    sums: Any, config: Make, metric: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        VerifiedGRPOTrainer(
            model="/no/such/model",
            reward_funcs=RewardMix([ACCURACY]),
            args=config(metric_for_best_model=metric),
            train_dataset=sums["train"],
            eval_dataset=sums["test"],
        )


def test_going_by_the_loss_is_warned_of(
    sums: Any, config: Make, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        "eval_strategy": "steps",
        "eval_steps": 1,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    with pytest.raises(OSError):
        VerifiedGRPOTrainer(
            model="/no/such/model",
            reward_funcs=RewardMix([ACCURACY]),
            args=config(load_best_model_at_end=True, **settings),
            train_dataset=sums["train"],
            eval_dataset=sums["test"],
        )
    assert "metric_for_best_model: rewards/accuracy/mean" in caplog.text
