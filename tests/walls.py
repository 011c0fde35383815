"""For tests that run programs: skipped where the machine has nothing to run them behind."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from trl_grpo_ext.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.sandbox.probe import best_isolation


def walls_or_skip() -> Isolation:
    """The walls of this machine. At the top of a module, all its tests are skipped where there are none."""
    try:
        return best_isolation()
    except IsolationError as error:
        pytest.skip(f"this machine has no sandbox: {error}", allow_module_level=True)


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Whether it comes to hold within so long."""
    until = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return bool(held)
