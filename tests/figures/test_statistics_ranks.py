"""Figures on two ranks: equal on both, and equal to one rank's figures on the same completions."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rank_of_several import mix
from ranks import scored_on_ranks

from trl_grpo_ext import Scorecard
from trl_grpo_ext.figures.logged import logged_figures
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.runs.recorded_run import RecordedRun

# Figures of the clock, or of the optimizer.
CLOCKED = ("seconds", "latency", "share_of_step", "/weights/")


def untimed(figures: dict[str, Any]) -> dict[str, float]:
    return {
        name: math.nan if value is None else value
        for name, value in figures.items()
        if name.startswith("verified/") and not any(word in name for word in CLOCKED)
    }


@pytest.mark.slow  # two ranks
@pytest.mark.parametrize("how", ["fine", "fail"])
def test_figures_are_those_of_one_rank_on_the_same_completions(
    how: str, tmp_path: Path
) -> None:
    cards, _ = scored_on_ranks(how, tmp_path)
    logs = [
        pickle.loads((tmp_path / f"log-{rank}.pickle").read_bytes())[:3] for rank in (0, 1)
    ]
    settings = RecordedRun(tmp_path).settings
    for step, card in enumerate(cards[:3]):
        alone = scored_alone(card, step) if how == "fine" else card
        wanted = untimed(logged_figures(reduce_card(alone, settings)))
        for log in logs:
            assert untimed(log[step]) == pytest.approx(wanted, abs=1e-6, nan_ok=True)
    assert all(0 < entry["verified/grader/share_of_step"] < 1 for entry in logs[1])


def scored_alone(card: Scorecard, step: int) -> Scorecard:
    """Judge the completions again in this process."""
    once_more = mix("fine").score(card.samples, step / 3)
    return replace(once_more, advantages=card.advantages)
