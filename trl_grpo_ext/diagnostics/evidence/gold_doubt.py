"""Whether it may be the gold answers that are wrong: wrong answers scatter, and answers against a wrong gold agree."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.evidence.figures import percent
from trl_grpo_ext.diagnostics.evidence.window import Window

AGREEING = 0.3  # of the groups without a right answer; ours


def agreeing_share(window: Window) -> float:
    """Of the groups without a right answer, the share in which most completions give the same one; 0 for none."""
    wrong = sum(batch.wrong_groups for batch in window.batches)
    return sum(batch.agreeing_wrong_groups for batch in window.batches) / wrong if wrong else 0.0


def compare_with_gold(agreeing: float) -> str:
    """The advice to look at the gold answers first, where such a share of wrong groups agree; empty where fewer do."""
    if agreeing < AGREEING:
        return ""
    return (
        f"First compare answers and gold by hand: in {percent(agreeing)} of the groups without a right answer most "
        f"completions agree on one, as they do where gold answers are wrong, or stand in other rows."
    )
