"""Warnings of what is meant here: figures of which nothing is known at a step, and rows that nothing could judge."""

from __future__ import annotations

import logging

# Where transformers warns of figures that are None, from its callback for tensorboard.
TRACKERS = "transformers.integrations.integration_utils"
# Where TRL warns of each batch with a void row, and prints that row whole.
TRAINER = "trl.trainer.grpo_trainer"

VOID_ROWS = (
    "Some completions could not be judged; they are left out of training, not punished (verified/void in the logs). "
    "Their verdicts tell why. This is said once."
)


class _WithoutUnknownFigures(logging.Filter):
    """Drops the warning that one of this package's figures is None."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not ('log a value of "None"' in message and "verified/" in message)


class _VoidRowsOnce(logging.Filter):
    """Lets the warning of void rows through once, in words that fit: in TRL alone, they are a mistake."""

    has_said = False

    def filter(self, record: logging.LogRecord) -> bool:
        if "All reward functions returned None" not in record.getMessage():
            return True
        is_first, self.has_said = not self.has_said, True
        record.msg, record.args = VOID_ROWS, ()
        return is_first


_UNKNOWN_FIGURES = _WithoutUnknownFigures()
_VOID_ROWS = _VoidRowsOnce()


def expect_unknown_figures_and_void_rows() -> None:
    """Keep libraries from warning at every step of what is no mistake here.

    TRL logs None for what was NaN all along; tensorboard's charts have a gap there, which is what it means. And a row
    for which all rewards are None is how a void row is left out.
    """
    logging.getLogger(TRACKERS).addFilter(_UNKNOWN_FIGURES)
    logging.getLogger(TRAINER).addFilter(_VOID_ROWS)
