"""How many of a run's training completions could be judged, and why the others could not."""

from __future__ import annotations

from collections import Counter

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.scorecard import Scorecard


class TrainingTally(RunListener):
    """Counts the completions of training batches, the void ones among them, and what those of terms in force lacked."""

    def __init__(self) -> None:
        self.completions = 0
        self.void = 0
        self._reasons: Counter[tuple[str, str, str]] = Counter()

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if card.mode != "train":
            return
        self.completions += len(card)
        self.void += sum(card.void)
        for term in card.in_force:
            unscored = (verdict for verdict in card.verdicts[term] if verdict is not None and verdict.score is None)
            self._reasons.update((term, str(verdict.blame), verdict.reason) for verdict in unscored)

    @property
    def nothing_learned(self) -> str | None:
        """A sentence, if there were completions and none could be judged; else None."""
        if not self.completions or self.void < self.completions:
            return None
        sentence = f"None of the {self.completions} completions could be judged"
        if not self._reasons:
            return f"{sentence}: no reward in force applies to any."
        ((term, blame, reason), count), *_ = self._reasons.most_common(1)
        return f"{sentence}: mostly `{reason}` of `{term}` ({count}), the {blame}'s fault."
