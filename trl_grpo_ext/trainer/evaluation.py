"""An evaluation: the figures of one pass over the test split, term by term."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.figures.reduction import BatchFigures, reduce_card
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate, Interval, score_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Figures of one pass over the test split.

    Attributes:
        terms: The mean value of each term with its 95 % interval; None for a term that scored nothing.
        tokens: The mean length of a completion in tokens.
        prompts: How many prompts there were.
        completions: How many completions, void ones included.
        void: How many completions could not be judged, and are in no mean.
    """

    terms: dict[str, Interval | None]
    tokens: float | None
    prompts: int
    completions: int
    void: int


def evaluate(trainer: Any) -> Evaluation:
    """Run TRL's own `trainer.evaluate()` and sum up the batches that it makes. Call it on every rank.

    On ranks other than the main one, which see no scorecards, the result is empty.
    """
    prompts = len(trainer.eval_dataset) if isinstance(trainer.eval_dataset, Sized) else None
    passed = _Pass(None if prompts is None else prompts * trainer.num_generations_eval)
    with trainer.run_callback.also_telling(passed):
        trainer.evaluate()
    return summarise(passed.batches)


class _Pass(RunListener):
    """Collects the batches of a pass, without what comes after `wanted` completions.

    On several ranks, prompts are repeated to fill up the last batch.
    """

    def __init__(self, wanted: int | None) -> None:
        self.batches: list[BatchFigures] = []
        self._left = wanted

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if card.mode != "eval":
            return
        if figures is None or (self._left is not None and self._left < len(card)):
            figures = reduce_card(card if self._left is None else card.first(self._left), {})
        self.batches.append(figures)
        self._left = None if self._left is None else max(0, self._left - len(card))


def summarise(batches: Sequence[BatchFigures]) -> Evaluation:
    """The figures of one pass."""
    tokens = Estimate.together(batch.tokens for batch in batches)
    return Evaluation(
        terms={term: _interval(batches, term) for term in (batches[0].terms if batches else ())},
        tokens=tokens.mean if tokens.count else None,
        prompts=sum(sum(batch.outcomes.values()) for batch in batches),
        completions=sum(batch.size for batch in batches),
        void=sum(batch.void for batch in batches),
    )


def _interval(batches: Sequence[BatchFigures], term: str) -> Interval | None:
    found = [batch.terms[term] for batch in batches]
    return score_interval(
        Estimate.together(one.values for one in found),
        Estimate.together(one.prompt_values for one in found),
        in_unit=all(one.in_unit for one in found),
    )
