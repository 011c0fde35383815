"""A run of the lab: the ten-action policy, trained by the real `VerifiedGRPOTrainer` on any reward mix.

All of the algorithms that it compares train by TRL; one line of plain REINFORCE is our own.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, TrainerCallback

from trl_grpo_ext.lab.landscape import Landscape
from trl_grpo_ext.lab.policy import PROMPT, make_tokenizer, save_policy
from trl_grpo_ext.lab.policy_history import PolicyHistory
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.trainer.config import VerifiedGRPOConfig
from trl_grpo_ext.trainer.console import keep_quiet
from trl_grpo_ext.trainer.preflight import check_writable
from trl_grpo_ext.trainer.verified_grpo import VerifiedGRPOTrainer

HISTORY = "logits.npy"
REFERENCE = "policy"

# DeepSeek's starting point where the size of the model has no say; the learning rate is the lab's.
DEFAULTS: Mapping[str, Any] = {
    "learning_rate": 0.5,
    "num_generations": 8,
    "num_iterations": 2,  # with one update a batch the ratio is 1, and epsilon does nothing
    "epsilon": 0.2,
    "beta": 0.04,
    "loss_type": "grpo",
    "max_completion_length": 1,
    "optim": "sgd",
    "lr_scheduler_type": "constant",
    "max_grad_norm": 0.0,  # no clipping of gradients, which would be one more thing to explain
    "logging_steps": 1,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """What the trainer is told.

    `settings` are the fields of `VerifiedGRPOConfig` that make it this algorithm. `plain` says whether the rewards
    themselves are the advantages, which no setting of TRL's gives. `note` says how it is done.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False
    note: str


# One update a batch, so the ratio is 1 and nothing is clipped: the loss has the gradient of REINFORCE.
_ON_POLICY = {"num_iterations": 1, "beta": 0.0, "scale_rewards": "none"}

ALGORITHMS: Mapping[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            name="grpo",
            title="GRPO",
            note="TRL's GRPO: rewards less the mean of their group, over its deviation; clipped ratio; KL penalty.",
        ),
        Algorithm(
            name="reinforce_baseline",
            title="REINFORCE with baseline",
            settings=_ON_POLICY,
            note="TRL's GRPO, not scaled, one update a batch, no KL: REINFORCE with the mean of the group as baseline. "
            "TRL's RLOO, whose baseline leaves the sample itself out, is the same at (G - 1)/G of the learning rate.",
        ),
        Algorithm(
            name="reinforce",
            title="REINFORCE",
            settings=_ON_POLICY,
            plain=True,
            note="The same with the rewards as advantages, which no setting of TRL's gives: a few lines of our own.",
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """What a run of the lab has left, live and on disk."""

    folder: Path  # the run's folder; `RecordedRun(folder)` reads its scorecards
    algorithm: Algorithm  # what it was trained by
    trainer: VerifiedGRPOTrainer  # the trainer, after training
    cards: tuple[Scorecard, ...]  # the scorecards, one a generation batch, in order; an evaluation's among them
    logs: tuple[Mapping[str, Any], ...]  # TRL's logs, a dict a logging step
    # The policy before each update, and after the last; with a `temperature`, the one that is sampled from.
    history: PolicyHistory
    # What each of the ten actions earns; None where rewards come from a mix, not a landscape.
    rewards: tuple[float, ...] | None
    seconds: float  # wall time of training, without imports and the making of the trainer

    @property
    def steps(self) -> int:
        return len(self.history.logits) - 1


def run_lab(
    reward: Landscape | RewardMix,
    folder: str | os.PathLike[str],
    *,
    steps: int = 200,
    seed: int = 0,
    groups: int = 1,
    algorithm: str = "grpo",
    logits: Sequence[float] | None = None,
    rows: Sequence[Mapping[str, Any]] = ({},),
    eval_rows: Sequence[Mapping[str, Any]] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    **options: Any,
) -> LabRun:
    """Train the ten-action policy, and return what happened.

    The same arguments give the same run. A completion's text is its action, `"1"` to `"10"`.

    Args:
        reward: A landscape, or a mix whose verifiers look at the action.
        folder: The run's folder. The policy that it starts from, TRL's reference, is kept in it.
        steps: Updates, 1 or more. A batch is used for `num_iterations` of them, 2 by default, 1 in REINFORCE.
        seed: The seed of the samples.
        groups: Groups of completions a batch.
        algorithm: `"grpo"`, `"reinforce"` or `"reinforce_baseline"`.
        logits: Ten logits to start from; equal ones by default.
        rows: The dataset's rows, used in turn; columns such as a gold answer that verifiers read. A `prompt` is
            allowed, and means nothing to the policy.
        eval_rows: The same for evaluation; set `eval_strategy` and `eval_steps` for one.
        callbacks: transformers' callbacks.
        **options: Any field of `VerifiedGRPOConfig`, over the lab's own (`DEFAULTS`) and the algorithm's.

    Raises:
        ValueError: for an unknown algorithm, or settings that the lab, TRL or the trainer refuses.
        OSError: for a folder that cannot be written to.
        FloatingPointError: for a policy that is no longer finite.

    Examples:
        >>> import tempfile
        >>> from trl_grpo_ext.lab import run_lab, single_peak
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = run_lab(single_peak(7), folder, steps=4)
        >>> len(run.cards), run.history.probabilities.shape
        (2, (5, 10))
    """
    _check(algorithm, options.setdefault("max_steps", steps), rows)
    chosen, folder = ALGORITHMS[algorithm], Path(folder)
    args = _config(folder, chosen, groups, {"seed": seed} | options)
    check_writable(folder)
    save_policy(folder / REFERENCE, logits)
    trainer = (_PlainReinforceTrainer if chosen.plain else VerifiedGRPOTrainer)(
        AutoModelForCausalLM.from_pretrained(folder / REFERENCE),
        reward.mix if isinstance(reward, Landscape) else reward,
        args,
        _dataset(rows, args.max_steps * groups),
        None if eval_rows is None else _dataset(eval_rows, len(eval_rows)),
        processing_class=make_tokenizer(),
        callbacks=[_LogitWatch(), *callbacks],
    )
    cards, seconds = _train(trainer)
    return LabRun(
        folder=folder,
        algorithm=chosen,
        trainer=trainer,
        cards=cards,
        logs=tuple(trainer.state.log_history),
        history=PolicyHistory(np.load(folder / HISTORY)),
        rewards=reward.rewards if isinstance(reward, Landscape) else None,
        seconds=seconds,
    )


def _train(trainer: VerifiedGRPOTrainer) -> tuple[tuple[Scorecard, ...], float]:
    """Train; returns the scorecards and the wall time."""
    keep_quiet(trainer)
    cards: list[Scorecard] = []
    started = time.perf_counter()
    with trainer.scorecard_listener(cards.append):
        trainer.train()
    return tuple(cards), time.perf_counter() - started


class _LogitWatch(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Notes the policy's logits before each update and after the last, and saves those that were sampled from."""

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._note(model, state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._note(model, state.global_step)
        np.save(Path(args.output_dir) / HISTORY, np.array(self.seen) / args.temperature)

    def _note(self, model: Any, updates: int) -> None:
        logits = model.action_logits.tolist()
        if not all(map(math.isfinite, logits)):  # nothing can be sampled from them
            raise FloatingPointError(
                f"The policy's logits are no longer finite after {updates} updates. Lower learning_rate or beta."
            )
        self.seen.append(logits)


def _check(algorithm: str, steps: int, rows: Sequence[Mapping[str, Any]]) -> None:
    if algorithm not in ALGORITHMS:
        raise ValueError(f"The lab has no algorithm {algorithm!r}; it has {', '.join(ALGORITHMS)}.")
    if steps < 1:  # TRL would go on until the data ends
        raise ValueError(f"A run of the lab has one update or more, got {steps}.")
    if not rows:
        raise ValueError("A run of the lab needs a row or more, got none.")


def _config(folder: Path, algorithm: Algorithm, groups: int, options: Mapping[str, Any]) -> VerifiedGRPOConfig:
    if groups < 1:
        raise ValueError(f"A batch of the lab has a group or more, got {groups}.")
    settings = {"output_dir": str(folder), **DEFAULTS, **algorithm.settings, **options}
    settings.setdefault("per_device_train_batch_size", groups * settings["num_generations"])
    settings.setdefault("per_device_eval_batch_size", settings["num_generations"])
    return VerifiedGRPOConfig(**settings)


def _dataset(rows: Sequence[Mapping[str, Any]], size: int) -> Dataset:
    """A dataset of `size` rows, these in turn: as many as a run needs, since an epoch takes long to begin."""
    return Dataset.from_list([{"prompt": PROMPT, **rows[index % len(rows)]} for index in range(size)])


class _PlainReinforceTrainer(VerifiedGRPOTrainer):
    """The trainer with each completion's total in the place of its advantage; 0 for a void one.

    The scorecard says what was trained on. For one process, and for training only: it is the lab's.
    """

    _totals: tuple[float, ...] = ()

    def _publish(self, card: Scorecard) -> None:
        self._totals = tuple(0.0 if total is None else total for total in card.totals)
        super()._publish(card.with_advantages(self._totals))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        output["advantages"] = torch.tensor(self._totals, device=output["advantages"].device)
        return output
