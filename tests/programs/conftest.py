"""Sandboxes of several files of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from walls import level_or_skip, walls_or_skip

from trl_grpo_ext.doctor import LEVELS
from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.local import LocalSandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    """Yield a sandbox of size 1, which runs programs in sequence in the same processes."""
    with closing(LocalSandbox(1, isolation=walls_or_skip())) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=LEVELS, ids=lambda isolation: isolation.name.lower())
def level(request: pytest.FixtureRequest) -> Isolation:
    """Return each isolation level that holds on this machine."""
    return level_or_skip(request.param)
