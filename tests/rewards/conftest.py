"""What tests of several verifiers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from judge_endpoint import JudgeEndpoint, judge_endpoint

from trl_grpo_ext.rewards.llm_judge.asking import shared_cache


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    """A judging model's address on this machine, with nothing remembered of an earlier one."""
    from trl_grpo_ext.workers.processes import close_shared

    shared_cache.cache_clear()
    with judge_endpoint() as running:
        yield running
        close_shared()
