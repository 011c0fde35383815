"""The trainer's configuration: TRL's `GRPOConfig` with a few fields of this package."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeVar

from trl import GRPOConfig

from trl_grpo_ext.support.setting_checks import check_choice, check_seconds, check_whole
from trl_grpo_ext.trainer.console import SHOWN
from trl_grpo_ext.trainer.run_callback import check_halt_on
from trl_grpo_ext.trainer.trl_settings import check_settings
from trl_grpo_ext.workers.executor import check_executor_name

T = TypeVar("T")


def with_help(config: type[T]) -> type[T]:
    """Use a dataclass docstring's `Attributes` section as help texts of the fields' command line flags."""
    docstring = inspect.getdoc(config) or ""
    _, _, rest = docstring.partition("Attributes:\n")
    section, _, _ = rest.partition("\n\n")
    told = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE))
    for each in fields(config):  # type: ignore[arg-type]  # a dataclass
        if each.name in told:
            # argparse would replace a single %.
            text = " ".join(told[each.name].split()).replace("%", "%%")
            each.metadata = MappingProxyType({"help": text})
    return config


@with_help
@dataclass
class VerifiedGRPOConfig(GRPOConfig):  # type: ignore[misc]  # TRL ships no types
    """Configuration of `VerifiedGRPOTrainer`: all fields of TRL's `GRPOConfig`, and the fields below.

    A `RewardMix` holds the weights in its terms; `reward_weights` is for a list of reward functions.

    Attributes:
        record_scorecards: Write every generation batch to `output_dir/scorecards/`.
        keep_scorecards_every: Keep on disk only each n-th of the training batches older than the last 64, the first
            four, and the 16 that each finding has looked at. Evaluations are always kept; 1 keeps everything.
        write_report: Keep `output_dir/report.html` up to date from the scorecards.
        drop_dead_groups: Take groups in which no reward with weight differs out of the loss. Their advantages are 0
            anyway, but with `beta` above 0 the KL term would still pull on them, and with a loss that is normalised by
            tokens they would make the other groups' count for less. Of such losses, dead rows also cost no forward and
            backward pass. How many there are, and why, is logged either way.
        learnable_rows: In training, draw rows whose groups are likely to be live, by their verdicts so far, instead of
            the rows that come next. Rows must come back, or share a column (`rows_by`), or be known from before
            (`rows_from`). Evaluations stay as they are. The run's figures are those of the `rows_floor` groups.
        rows_floor: The share of training groups that walk over all rows in turn with `learnable_rows`, above 0, and 1
            at most. Each row is met this way, and the score of these groups can be compared from step to step.
        rows_by: A column that tells hard rows from easy rows, such as a level or a source: rows of one value share what
            is learned of them. A column of many different numbers is cut into fifths.
        rows_from: The folder of an earlier run on these rows, or the file `rates.jsonl` of `trl-grpo-ext probe`: what
            is known of the rows to begin with, at half its weight.
        run_checks: Check the run while it trains, and write findings to `output_dir/findings.jsonl`.
        measure_noise: Measure how often a verifier that compares answers turns down right ones and accepts wrong ones,
            on some of the run's own completions and in at most 0.1 % of a step's time.
        judge_early: Judge completions on a thread while the GPU computes log-probabilities, which hides that time. None
            does so where the model is on an accelerator. Verifiers that work on the main thread only need False.
        judging_budget: Seconds that a rank may judge a batch. What has no verdict then is the grader's failure
            `budget_spent`: the row is void, never a 0. None is no limit.
        environment_timeout: Seconds that a call of an environment (`reset`, `get_reward`, `state`) or of a tool may
            take. A rollout whose `reset` or `get_reward` takes longer is void; the model is told of a tool that does.
            None is no limit, and makes calls on the trainer's own thread.
        environment_patience: The run ends after so many batches running in which every rollout, on all ranks, has
            failed in its environment.
        metrics: Which figures console and trackers get: `compact`, a line and those to look at, or `full`, all that are
            known. The record has all either way.
        halt_on: Codes of findings that end the run, with a checkpoint, such as `["nonfinite_updates"]`.
        executor: Where slow verifiers and programs run: `local`, on each rank's machine, or `ray`, on the nodes of a
            Ray cluster. By default what the variable `TRL_GRPO_EXT_EXECUTOR` says, else `local`.

    Examples:
        >>> VerifiedGRPOConfig(output_dir="run", num_generations=8, use_cpu=True, bf16=False).record_scorecards
        True
    """

    record_scorecards: bool = True
    keep_scorecards_every: int = 1
    write_report: bool = True
    drop_dead_groups: bool = False
    learnable_rows: bool = False
    rows_floor: float = 0.25
    rows_by: str | None = None
    rows_from: str | None = None
    run_checks: bool = True
    measure_noise: bool = True
    judge_early: bool | None = None
    judging_budget: float | None = None
    environment_timeout: float | None = 30.0
    environment_patience: int = 3
    metrics: str = "compact"
    halt_on: list[str] = field(default_factory=list)
    executor: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self)
        check_halt_on(self.halt_on)
        if self.executor is not None:
            check_executor_name(self.executor)
        check_choice("metrics", self.metrics, SHOWN)
        if self.halt_on and not self.run_checks:
            raise ValueError(
                "halt_on needs run_checks; without checks there is nothing to halt on."
            )
        if not 0 < self.rows_floor <= 1:
            raise ValueError(
                f"rows_floor is a share above 0, and 1 at most, got {self.rows_floor!r}: without a floor, no figure of "
                f"training would tell how the model does on the data."
            )
        if self.rows_by is not None and not self.learnable_rows:
            raise ValueError(
                "rows_by is for learnable_rows; set learnable_rows: true, or take rows_by out."
            )
        self._check_amounts()

    def _check_amounts(self) -> None:
        for name in ("judging_budget", "environment_timeout"):
            seconds = getattr(self, name)
            if seconds is not None:
                check_seconds(name, seconds)
        for name in ("keep_scorecards_every", "environment_patience"):
            check_whole(name, getattr(self, name), "a number of batches", least=1)


def default_config(model: Any) -> VerifiedGRPOConfig:
    """Return the configuration for a trainer without `args`; the output folder has the model's name, as in TRL."""
    path = model if isinstance(model, str) else getattr(model.config, "_name_or_path", "")
    _, _, name = str(path).rstrip("/").rpartition("/")
    return VerifiedGRPOConfig(output_dir=f"{name or 'model'}-GRPO")
