"""The trainer's configuration: TRL's `GRPOConfig` and the few fields of our own."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trl import GRPOConfig

from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.trainer.run_callback import check_halt_on
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


class _Range(NamedTuple):
    least: float
    most: float = float("inf")
    open_below: bool = False
    """Whether the least value itself is out."""

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float):
            return False
        return (self.least < value if self.open_below else self.least <= value) and value <= self.most

    def __str__(self) -> str:
        lower = f"above {self.least:g}" if self.open_below else f"{self.least:g} or more"
        return lower if self.most == float("inf") else f"{lower}, and {self.most:g} at most"


_COUNT, _NOT_NEGATIVE, _POSITIVE = _Range(1), _Range(0), _Range(0, open_below=True)
_RANGES = {
    "per_device_train_batch_size": _COUNT,
    "per_device_eval_batch_size": _COUNT,
    "gradient_accumulation_steps": _COUNT,
    "steps_per_generation": _COUNT,
    "num_iterations": _COUNT,
    "max_completion_length": _COUNT,
    "learning_rate": _NOT_NEGATIVE,
    "weight_decay": _NOT_NEGATIVE,
    "max_grad_norm": _NOT_NEGATIVE,
    "adam_epsilon": _NOT_NEGATIVE,
    "adam_beta1": _Range(0, 1),
    "adam_beta2": _Range(0, 1),
    "temperature": _POSITIVE,
    "repetition_penalty": _POSITIVE,
    "top_p": _Range(0, 1, open_below=True),
    "min_p": _Range(0, 1),
}
_OF_TRANSFORMERS = {"top_k": _NOT_NEGATIVE}  # vLLM takes -1
_CHOICES = ("loss_type", "scale_rewards", "importance_sampling_level", "multi_objective_aggregation")
_QUOTED = re.compile(r"\b(\w+)'(?!\w)")


def check_settings(settings: Any) -> None:
    """Raise a ValueError for a setting that is out of its range or none of its choices.

    Args:
        settings: A `GRPOConfig`; what this version of TRL does not have, and what is None, is passed over.

    Examples:
        >>> from types import SimpleNamespace
        >>> check_settings(SimpleNamespace(temperature=0.0))
        Traceback (most recent call last):
            ...
        ValueError: `temperature` must be above 0, got 0.0.
    """
    ranges = _RANGES if getattr(settings, "use_vllm", False) else _RANGES | _OF_TRANSFORMERS
    for name, wanted in ranges.items():
        value = getattr(settings, name, None)
        if value is not None and value not in wanted:
            raise ValueError(f"`{name}` must be {wanted}, got {value!r}.")
    if getattr(settings, "max_steps", None) == 0:
        raise ValueError(
            "`max_steps` must be 1 or more, or -1 to train for num_train_epochs: with 0, TRL trains one step. To train "
            "none, set max_steps: -1 and num_train_epochs: 0."
        )
    # TRL has no other list of these than the help of its flags, which quotes them.
    fields = dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ()
    for each in fields:
        if each.name in _CHOICES:
            known, value = _QUOTED.findall(each.metadata.get("help", "")), getattr(settings, each.name)
            if known and isinstance(value, str) and value not in known:
                raise ValueError(f"`{each.name}` cannot be {value!r}. {did_you_mean(value, known)}")
