"""Run the lab: `VerifiedGRPOTrainer` trains the ten-action policy on any reward mix.

Every algorithm trains by TRL; plain REINFORCE only replaces TRL's advantages by rewards.
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

# DeepSeek's values for settings independent of model size; the learning rate is the lab's own.
DEFAULTS: Mapping[str, Any] = {
    "learning_rate": 0.5,
    "num_generations": 8,
    # With one update per batch, the ratio is always 1 and epsilon has no effect.
    "num_iterations": 2,
    "epsilon": 0.2,
    "beta": 0.04,
    "loss_type": "grpo",
    "max_completion_length": 1,
    "optim": "sgd",
    "lr_scheduler_type": "constant",
    # No gradient clipping: it would complicate the explanation of a step.
    "max_grad_norm": 0.0,
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
    """A training algorithm of the lab.

    `settings` holds the fields of `VerifiedGRPOConfig` that define the algorithm. `plain` uses rewards as advantages,
    which no TRL setting does. `note` explains the implementation on the page.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False
    note: str


# With one update per batch the ratio is 1 and nothing is clipped: the loss has the gradient of REINFORCE.
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
    """A finished lab run: folder on disk, objects in memory."""

    # The run's folder; `RecordedRun(folder)` reads its scorecards.
    folder: Path
    algorithm: Algorithm
    # The trainer after training.
    trainer: VerifiedGRPOTrainer
    # Scorecards in order, one per generation batch, evaluation batches included.
    cards: tuple[Scorecard, ...]
    # TRL's logs, a dict per logging step.
    logs: tuple[Mapping[str, Any], ...]
    # The policy before each update and after the last; logits are divided by `temperature`, as in sampling.
    history: PolicyHistory
    # Rewards of the ten actions; None if the reward is a mix instead of a landscape.
    rewards: tuple[float, ...] | None
    # Wall time of training, without imports and trainer construction.
    seconds: float

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
    """Train the ten-action policy, and return the run.

    The same arguments give the same run. A completion's text is its action, `"1"` to `"10"`.

    Args:
        reward: A landscape, or a mix whose verifiers judge the action.
        folder: The run's folder. It also keeps the starting policy, which is TRL's reference model.
        steps: Updates, 1 or more. A batch serves `num_iterations` updates, by default 2 in GRPO and 1 in REINFORCE.
        seed: The seed for sampling.
        groups: Groups of completions per batch.
        algorithm: `"grpo"`, `"reinforce"` or `"reinforce_baseline"`.
        logits: Ten logits to start from; equal ones by default.
        rows: Dataset rows, used in turn, with columns for verifiers such as a gold answer. The policy ignores a
            `prompt` column.
        eval_rows: Rows for evaluation, which also needs `eval_strategy` and `eval_steps`.
        callbacks: transformers' callbacks.
        **options: Fields of `VerifiedGRPOConfig`; they override `DEFAULTS` and the algorithm's settings.

    Raises:
        ValueError: for an unknown algorithm, or settings that the lab, TRL or the trainer refuses.
        OSError: if the folder cannot be written.
        FloatingPointError: if the policy's logits become infinite or NaN.

    Examples:
        >>> import tempfile
        >>> from trl_grpo_ext.lab import run_lab, single_peak
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = run_lab(single_peak(7), folder, steps=4)
        >>> len(run.cards), run.history.probabilities.shape
        (2, (5, 10))
    """
    chosen = _checked(algorithm, options.setdefault("max_steps", steps), rows)
    folder = Path(folder)
    args = _config(folder, chosen, groups, {"seed": seed, **options})
    model = _start_policy(folder, logits)
    rewards = reward.rewards if isinstance(reward, Landscape) else None
    kind = _PlainReinforceTrainer if chosen.plain else VerifiedGRPOTrainer
    trainer = kind(
        model,
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
        rewards=rewards,
        seconds=seconds,
    )


def _start_policy(folder: Path, logits: Sequence[float] | None) -> Any:
    """Write the starting policy, which TRL loads again as its reference model, and load it."""
    check_writable(folder)
    save_policy(folder / REFERENCE, logits)
    return AutoModelForCausalLM.from_pretrained(folder / REFERENCE)


def _train(trainer: VerifiedGRPOTrainer) -> tuple[tuple[Scorecard, ...], float]:
    """Train, and return scorecards and wall time in seconds."""
    keep_quiet(trainer)
    cards: list[Scorecard] = []
    started = time.perf_counter()
    with trainer.scorecard_listener(cards.append):
        trainer.train()
    return tuple(cards), time.perf_counter() - started


class _LogitWatch(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback for the policy's logits: recorded before each update and after training, divided by `temperature`."""

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def on_step_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        self._note(model, state.global_step)

    def on_train_end(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        self._note(model, state.global_step)
        np.save(Path(args.output_dir) / HISTORY, np.array(self.seen) / args.temperature)

    def _note(self, model: Any, updates: int) -> None:
        logits = model.action_logits.tolist()
        # TRL cannot sample from infinite or NaN logits.
        if not all(map(math.isfinite, logits)):
            raise FloatingPointError(
                f"The policy's logits are no longer finite after {updates} updates. Lower learning_rate or beta."
            )
        self.seen.append(logits)


def _checked(algorithm: str, steps: int, rows: Sequence[Mapping[str, Any]]) -> Algorithm:
    """Check the arguments; return the named algorithm."""
    if algorithm not in ALGORITHMS:
        raise ValueError(
            f"The lab has no algorithm {algorithm!r}; it has {', '.join(ALGORITHMS)}."
        )
    # With 0 or fewer steps, TRL would train until the data ends.
    if steps < 1:
        raise ValueError(f"A run of the lab has one update or more, got {steps}.")
    if not rows:
        raise ValueError("A run of the lab needs a row or more, got none.")
    return ALGORITHMS[algorithm]


def _config(
    folder: Path,
    algorithm: Algorithm,
    groups: int,
    options: Mapping[str, Any],
) -> VerifiedGRPOConfig:
    if groups < 1:
        raise ValueError(f"A batch of the lab has a group or more, got {groups}.")
    settings = {"output_dir": str(folder), **DEFAULTS, **algorithm.settings, **options}
    settings.setdefault("per_device_train_batch_size", groups * settings["num_generations"])
    settings.setdefault("per_device_eval_batch_size", settings["num_generations"])
    return VerifiedGRPOConfig(**settings)


def _dataset(rows: Sequence[Mapping[str, Any]], size: int) -> Dataset:
    """Repeat `rows` up to `size` rows: a run gets all its data in a single epoch, since epochs start slowly."""
    repeated = []
    for index in range(size):
        row = rows[index % len(rows)]
        repeated.append({"prompt": PROMPT, **row})
    return Dataset.from_list(repeated)


class _PlainReinforceTrainer(VerifiedGRPOTrainer):
    """A trainer with each completion's total reward as its advantage; 0 for a void row.

    The scorecard records these advantages. It supports training in a single process only.
    """

    _totals: tuple[float, ...] = ()

    def _publish(self, card: Scorecard) -> None:
        self._totals = tuple(0.0 if total is None else total for total in card.totals)
        super()._publish(card.with_advantages(self._totals))

    def _batch(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._batch(inputs)
        output["advantages"] = torch.tensor(
            self._totals, device=output["advantages"].device
        )
        return output
