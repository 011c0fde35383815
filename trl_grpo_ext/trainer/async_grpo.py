"""Use a mix in TRL's AsyncGRPO: call `judge_by(trainer, mix)` before `trainer.train()`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import trl
from transformers import TrainerCallback

from trl_grpo_ext.mix.reward_function import TermReward
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.runs.run_settings import run_settings
from trl_grpo_ext.trainer.guarded import GuardedFactory
from trl_grpo_ext.trainer.ranks import ask_main
from trl_grpo_ext.trainer.run_callback import check_halt_on

logger = logging.getLogger(__name__)

# A setting for replay: AsyncGRPO divides by the population's standard deviation, plus 1e-8.
OF_THE_POPULATION = {"advantage_deviation": "population"}


def judge_by(trainer: Any, rewards: Any, **settings: Any) -> None:
    """Score an `AsyncGRPOTrainer`'s rollouts by a mix, in TRL's own loop and process.

    Weights, schedules, gates, void rows, environments' terms and scorecards work as in `VerifiedGRPOTrainer`; progress
    follows the model's version. Create the trainer without `reward_funcs`.

    Args:
        trainer: An `AsyncGRPOTrainer` before training. The rollouts belong to its first rank; on other ranks only the
            callback for `halt_on` is added.
        rewards: A `RewardMix`, a verifier, or a list of verifiers.
        **settings: Fields of `AsyncJudging`, such as `halt_on=["way_out"]` or `drop_dead_groups=True`, with which the
            trainer takes the next group in place of a dead group.

    Raises:
        ValueError: for plain reward functions, in `rewards` or in the trainer, since they give no verdicts.
        ImportError: for a TRL version whose rollout loop cannot take a mix.
        TypeError: for an unknown setting, or a rollout worker that is not TRL's.

    Examples:
        ```python
        trainer = AsyncGRPOTrainer(model="Qwen/Qwen3-4B", args=AsyncGRPOConfig("run"), train_dataset=dataset)
        judge_by(trainer, RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())]))
        trainer.train()
        ```
    """
    try:
        from trl_grpo_ext.trainer.mix_loop import AsyncJudging, MixLoop, RunClock
    except ImportError as error:
        raise ImportError(
            f"judge_by needs an AsyncGRPO whose rollout loop takes a reward of its own, and that of TRL "
            f"{trl.__version__} cannot be used ({error}): install TRL 1.16, with aiohttp."
        ) from None
    plan = plan_rewards(rewards)
    has_only_verifiers = all(
        isinstance(function, TermReward) for function in plan.functions
    )
    if plan.mix is None or not has_only_verifiers:
        raise ValueError(
            "judge_by takes verifiers or a RewardMix; make a verifier of a function with @verifier."
        )
    judging = AsyncJudging(output_dir=trainer.args.output_dir, **settings)
    check_halt_on(list(judging.halt_on))
    worker = trainer.rollout_worker
    trainer.add_callback(_Halt(trainer.accelerator))
    if worker is None:
        # Only the first rank has a rollout worker.
        return
    kwargs = _loop_arguments(worker)
    args = trainer.args
    clock = RunClock(
        steps_a_version=args.weight_sync_steps,
        max_steps=max(0, args.max_steps),
        groups_a_step=_groups_a_step(trainer),
        settings=run_settings(args, plan, 1, trainer.model, trainer.train_dataset)
        | OF_THE_POPULATION,
    )
    worker._loop_cls = MixLoop
    factory = _guarded(kwargs["environment_factory"], judging.environment_timeout)
    _check_columns(plan.mix, kwargs["dataset"], has_environments=factory is not None)
    kwargs["mix"] = plan.mix
    kwargs["judging"] = judging
    kwargs["clock"] = clock
    kwargs["environment_factory"] = factory


def _loop_arguments(worker: Any) -> dict[str, Any]:
    """Return the arguments that TRL's worker passes to its rollout loop, or raise if a mix cannot join them."""
    if not hasattr(worker, "_loop_kwargs"):
        raise TypeError(
            f"judge_by needs TRL's AsyncRolloutWorker, and the trainer's is a {type(worker).__name__}."
        )
    arguments: dict[str, Any] = worker._loop_kwargs
    if arguments["reward_funcs"]:
        raise ValueError(
            "The AsyncGRPOTrainer has reward_funcs: leave them out, as judge_by brings all rewards."
        )
    return arguments


def _groups_a_step(trainer: Any) -> int:
    args = trainer.args
    of_a_rank = args.per_device_train_batch_size * args.gradient_accumulation_steps
    samples = int(of_a_rank * trainer.accelerator.num_processes)
    return max(1, samples // int(args.num_generations))


def _guarded(factory: Any, seconds: float | None) -> Any:
    if factory is None:
        return None
    if isinstance(factory, Mapping):
        return {
            name: GuardedFactory(each, seconds, gives_outcomes=True)
            for name, each in factory.items()
        }
    return GuardedFactory(factory, seconds, gives_outcomes=True)


def _check_columns(mix: RewardMix, dataset: Any, *, has_environments: bool) -> None:
    columns = getattr(dataset, "column_names", None)
    # TRL's placeholder for data that environments own.
    is_placeholder = has_environments and columns == ["prompt"]
    if columns and not is_placeholder:
        mix.check_columns(columns)


class _Halt(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """A callback that ends training on all ranks, after the rollout loop has logged a finding of `halt_on`."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        has_halted = bool(logs and logs.get("verified/halted"))
        if ask_main(self._accelerator, lambda: int(has_halted)):
            logger.error(
                "Halted after step %d by a finding (halt_on); a checkpoint is saved.",
                state.global_step,
            )
            control.should_save = True
            control.should_training_stop = True
