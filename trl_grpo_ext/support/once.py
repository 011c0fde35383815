"""Warnings that are shown once, not once a completion or once a step."""

from __future__ import annotations

import logging
from collections.abc import Hashable


class Once:
    """Shows the first warning about each subject, and drops the others.

    Example:
        >>> once = Once()
        >>> [once.warn(logging.getLogger("example"), "disk", "The disk is full.") for _ in range(2)]
        [True, False]
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()

    def warn(
        self,
        logger: logging.Logger,
        subject: Hashable,
        message: str,
        *values: object,
        error: BaseException | None = None,
    ) -> bool:
        """Log a warning, with the traceback of `error`; returns whether it was the first about this subject."""
        if subject in self._seen:
            return False
        self._seen.add(subject)
        logger.warning(f"{message} This is shown once.", *values, exc_info=error)
        return True
