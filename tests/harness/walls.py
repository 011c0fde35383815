"""Skip tests that run programs on machines without sandbox isolation."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import pytest

from trl_grpo_ext.doctor import probe_level
from trl_grpo_ext.programs.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.programs.sandbox.probe import best_isolation


def walls_or_skip() -> Isolation:
    """Return this machine's isolation, or skip the test; called at module level, skip the whole module."""
    try:
        return best_isolation()
    except IsolationError as error:
        pytest.skip(f"this machine has no sandbox: {error}", allow_module_level=True)


@cache
def level_or_skip(isolation: Isolation) -> Isolation:
    """Probe an isolation level, once per process, and return it; skip the test if it does not hold here."""
    level = probe_level(isolation)
    if not level.holds:
        pytest.skip(level.missing or "an attack of the probe got through")
    return isolation


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Poll a condition for up to `seconds`, and return True if it becomes true."""
    until = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return bool(held)
