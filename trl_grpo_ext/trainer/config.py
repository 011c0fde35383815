"""The trainer's configuration: TRL's `GRPOConfig` and the few fields of our own."""

from __future__ import annotations

from dataclasses import dataclass, field

from trl import GRPOConfig

from trl_grpo_ext.trainer.listeners import check_halt_on
from trl_grpo_ext.trainer.setting_ranges import check_settings


@dataclass
class VerifiedGRPOConfig(GRPOConfig):  # type: ignore[misc]  # TRL ships no types
    """Configuration of `VerifiedGRPOTrainer`: every field of TRL's `GRPOConfig`, and those below.

    Weights of a `RewardMix` stand in its terms, by name; `reward_weights` is for a list of reward functions.

    Attributes:
        record_scorecards: Write every generation batch to `output_dir/scorecards/`.
        keep_scorecards_every: Of older training batches keep only each n-th on disk, the first four, and those that a
            finding has looked at.
        write_report: Keep `output_dir/report.html` up to date from the scorecards.
        drop_dead_groups: Take groups in which no reward with weight differs out of the loss. Their advantages are 0
            anyway, but with `beta` above 0 the KL term would still pull on them, and with a loss that is normalised by
            tokens they would make the other groups' count for less.
        run_checks: Check the run while it goes, and write what is wrong to `output_dir/findings.jsonl`.
        halt_on: Codes of findings that end the run, with a checkpoint, such as `["nonfinite_updates"]`.

    Example:
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
            "help": "Of training batches older than the last 64, keep only each n-th on disk, the first four, and the "
            "16 that each finding has looked at. Evaluations are always kept. 1 keeps everything."
        },
    )
    write_report: bool = field(
        default=True,
        metadata={
            "help": "Whether to make `output_dir/report.html` from the scorecards, by a process of its own while the "
            "run goes on, and when it ends."
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
            "help": "Whether to check the run while it goes: what begins to be wrong is shown once, and written to "
            "`output_dir/findings.jsonl`. `trl-grpo-ext docs findings` lists what is looked for."
        },
    )
    halt_on: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Codes of findings that end the run, cleanly and with a checkpoint, such as `nonfinite_updates`; "
            "none by default."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self)
        check_halt_on(self.halt_on)
        if self.halt_on and not self.run_checks:
            raise ValueError("halt_on needs run_checks; without checks there is nothing to halt on.")
        if self.keep_scorecards_every < 1:
            raise ValueError(
                f"keep_scorecards_every is a number of batches, 1 or more; got {self.keep_scorecards_every}."
            )
