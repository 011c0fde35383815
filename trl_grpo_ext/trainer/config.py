"""The trainer's configuration: TRL's `GRPOConfig` and the few fields of our own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from trl_grpo_ext.trainer.run_callback import check_halt_on
from trl_grpo_ext.trainer.settings import check_settings
from trl_grpo_ext.workers.executor import check_executor_name


@dataclass
class VerifiedGRPOConfig(GRPOConfig):  # type: ignore[misc]  # TRL ships no types
    """Configuration of `VerifiedGRPOTrainer`: every field of TRL's `GRPOConfig`, and those below.

    Weights of a `RewardMix` stand in its terms, by name; `reward_weights` is for a list of reward functions.

    Attributes:
        record_scorecards: Write every generation batch to `output_dir/scorecards/`.
        keep_scorecards_every: Keep on disk only each n-th of the older training batches, the first four, and those
            that a finding has looked at.
        write_report: Keep `output_dir/report.html` up to date from the scorecards.
        drop_dead_groups: Take groups in which no reward with weight differs out of the loss. Their advantages are 0
            anyway, but with `beta` above 0 the KL term would still pull on them, and with a loss that is normalised by
            tokens they would make the other groups' count for less.
        run_checks: Check the run while it trains, and write findings to `output_dir/findings.jsonl`.
        measure_noise: Measure how often a verifier that compares answers turns down right ones and accepts wrong ones,
            on some of the run's own completions and in at most 0.5 % of a step's time.
        judge_early: Judge completions on a thread while the GPU computes log-probabilities, which hides that time. None
            does so where the model is on an accelerator. Verifiers that work on the main thread only need False.
        judging_budget: Seconds that a rank may judge a batch. What has no verdict then is the grader's failure
            `budget_spent`: the row is void, never a 0. None is no limit.
        halt_on: Codes of findings that end the run, with a checkpoint, such as `["nonfinite_updates"]`.
        executor: Where slow verifiers and programs run: `local`, on each rank's machine, or `ray`, on the nodes of a
            Ray cluster. By default what the variable `TRL_GRPO_EXT_EXECUTOR` says, else `local`.

    Examples:
        >>> VerifiedGRPOConfig(output_dir="run", num_generations=8, use_cpu=True, bf16=False).record_scorecards
        True
    """

    record_scorecards: bool = field(
        default=True,
        metadata={
            "help": "Whether to write every generation batch, with each completion's verdicts, values and advantage, "
            "to parquet files in `output_dir/scorecards/`."
        },
    )
    keep_scorecards_every: int = field(
        default=1,
        metadata={
            "help": "Keep only each n-th of the training batches older than the last 64 on disk, the first four, and "
            "the 16 that each finding has looked at. Evaluations are always kept. 1 keeps everything."
        },
    )
    write_report: bool = field(
        default=True,
        metadata={
            "help": "Whether to make `output_dir/report.html` from the scorecards, in a process of its own during the "
            "run, and when it ends."
        },
    )
    drop_dead_groups: bool = field(
        default=False,
        metadata={
            "help": "Whether to take groups in which no reward with weight differs out of the loss, KL included. How "
            "many there are, and why, is logged as `verified/groups/...` either way."
        },
    )
    run_checks: bool = field(
        default=True,
        metadata={
            "help": "Whether to check the run while it trains. A finding is shown once, and written to "
            "`output_dir/findings.jsonl`. `trl-grpo-ext docs findings` lists what is looked for."
        },
    )
    measure_noise: bool = field(
        default=True,
        metadata={
            "help": "Whether to measure how often a verifier that compares answers turns down right answers in another "
            "form, and accepts the answers of other rows. It takes at most 0.5 % of a step's time, changes no reward, "
            "and is logged as `verified/noise/...`."
        },
    )
    judge_early: bool | None = field(
        default=None,
        metadata={
            "help": "Whether to judge completions on a thread while log-probabilities are computed. By default, it is "
            "done where the model is on an accelerator. Set it to false for a verifier that only works on the main "
            "thread."
        },
    )
    judging_budget: float | None = field(
        default=None,
        metadata={
            "help": "Seconds that a rank may judge a batch. What has no verdict then is a failure of the grader, "
            "`budget_spent`: the row is void, and never a 0. By default there is no limit."
        },
    )
    halt_on: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Codes of findings that end the run, cleanly and with a checkpoint, such as `nonfinite_updates`; "
            "none by default."
        },
    )
    executor: str | None = field(
        default=None,
        metadata={
            "help": "Where slow verifiers and programs run: `local`, on each rank's machine, or `ray`, on the nodes of "
            "a Ray cluster. By default what the variable TRL_GRPO_EXT_EXECUTOR says, else `local`."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self)
        check_halt_on(self.halt_on)
        if self.executor is not None:
            check_executor_name(self.executor)
        if self.halt_on and not self.run_checks:
            raise ValueError("halt_on needs run_checks; without checks there is nothing to halt on.")
        if self.judging_budget is not None and not self.judging_budget > 0:
            raise ValueError(f"judging_budget is a number of seconds above 0, got {self.judging_budget!r}.")
        if self.keep_scorecards_every < 1:
            raise ValueError(
                f"keep_scorecards_every is a number of batches, 1 or more; got {self.keep_scorecards_every}."
            )


def default_config(model: Any) -> VerifiedGRPOConfig:
    """The configuration of a trainer that is given none: its output folder is named after the model, as TRL does it."""
    name = model if isinstance(model, str) else getattr(model.config, "_name_or_path", "")
    return VerifiedGRPOConfig(output_dir=f"{str(name).rstrip('/').split('/')[-1] or 'model'}-GRPO")
