"""Figures of which nothing is known at a step, in trackers that expect a number."""

from __future__ import annotations

import logging

# Where transformers warns of them, from its callback for tensorboard.
TRACKERS = "transformers.integrations.integration_utils"


class _WithoutUnknownFigures(logging.Filter):
    """Drops the warning that one of this package's figures is None."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not ('log a value of "None"' in message and "verified/" in message)


_FILTER = _WithoutUnknownFigures()


def accept_unknown_figures() -> None:
    """Keep transformers from warning, at every step and for every name, of figures that are None.

    TRL logs None for what was NaN all along. Tensorboard's charts have a gap there, which is what it means.
    """
    logging.getLogger(TRACKERS).addFilter(_FILTER)
