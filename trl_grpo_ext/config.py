"""The trainer's configuration: TRL's `GRPOConfig` and the few fields of our own."""

from __future__ import annotations

from dataclasses import dataclass, field

from trl import GRPOConfig


@dataclass
class VerifiedGRPOConfig(GRPOConfig):  # type: ignore[misc]  # TRL ships no types
    """Configuration of `VerifiedGRPOTrainer`: every field of TRL's `GRPOConfig`, and those below.

    Weights of a `RewardMix` stand in its terms, by name; `reward_weights` is for a list of reward functions.

    Attributes:
        record_scorecards: Write every generation batch to `output_dir/scorecards/`.

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
