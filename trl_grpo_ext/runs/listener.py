"""Listeners of a run, such as recorder, watch and report; only the main process calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.scorecard import Scorecard

SUMMARY = "summary.json"
"""Name of the file with a recipe run's summary, in the run's folder."""


class RunListener:
    """A listener that receives a run's events; the methods here do nothing.

    An exception in a listener does not end the run: the trainer logs the error and continues.
    """

    def on_train_begin(self, *, quiet: bool) -> None:
        """Handle the start of training, also if training starts again.

        Args:
            quiet: TRL's `disable_tqdm`: another program controls the run, so print nothing.
        """

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        """Handle a judged generation batch of training or evaluation.

        Args:
            card: The batch's scorecard, with the samples of all ranks.
            figures: The scorecard reduced to numbers; None if the reduction failed.
        """

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        """Handle figures that TRL logged after `step` optimizer steps."""

    def on_evaluate(self) -> None:
        """Handle the end of an evaluation."""

    def on_train_end(self) -> None:
        """Handle the end of training."""

    def on_summary(self, summary: Mapping[str, Any]) -> None:
        """Handle the run's final summary, with the content of `summary.json`."""

    def on_model_card(self) -> None:
        """Handle TRL's new model card, `README.md`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of a run>"
