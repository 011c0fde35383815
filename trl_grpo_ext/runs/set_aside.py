"""Putting what an earlier run has left out of the way of the next."""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)


def set_aside(recorded: Path) -> None:
    """Rename what an earlier run has recorded, a file or a folder, so that two runs are not read as one."""
    if not recorded.exists():
        return
    number = 1
    while (aside := recorded.with_name(f"{recorded.stem}.{number}{recorded.suffix}")).exists():
        number += 1
    recorded.rename(aside)
    logger.warning("%s holds an earlier run; its %s are now %s.", recorded.parent, recorded.stem, aside)
