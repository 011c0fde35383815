"""Fixtures shared by tests of several verifiers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from judge_endpoint import JudgeEndpoint, judge_endpoint

from trl_grpo_ext.rewards.llm_judge.asking import remembered_scores
from trl_grpo_ext.workers import processes


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    """Run a judge endpoint on this machine, with empty score caches."""
    remembered_scores.cache_clear()
    with judge_endpoint() as running:
        yield running
        for key in [
            key
            for key in processes._shared
            if isinstance(key, tuple) and key[0] == "endpoint"
        ]:
            # The workers stay, since the next test would have to start them again.
            processes.close_one(key)
