"""Listeners of a run: a recorder, a watch, a report. They are called on the main process only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.scorecard import Scorecard

SUMMARY = "summary.json"
"""What a recipe's run has come to, in its folder."""


class RunListener:
    """Hears of a run; by default it does nothing with that.

    A listener that raises does not end the run: the trainer logs the error and goes on.
    """

    def on_train_begin(self, *, quiet: bool) -> None:
        """Training begins, or begins again. `quiet` is TRL's `disable_tqdm`: the run is another program's."""

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        """A generation batch of training or evaluation has been judged: its scorecard, of all ranks.

        `figures` are the scorecard in numbers; None if they could not be computed.
        """

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        """TRL has logged figures after this many optimizer steps."""

    def on_evaluate(self) -> None:
        """An evaluation is over."""

    def on_train_end(self) -> None:
        """Training is over."""

    def on_summary(self, summary: Mapping[str, Any]) -> None:
        """The run is over and has been summed up, as `summary.json` has it."""

    def on_model_card(self) -> None:
        """TRL has written the model card, `README.md`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of a run>"
