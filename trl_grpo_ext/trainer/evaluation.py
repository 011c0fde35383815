"""An evaluation: what one pass over the test split came to, term by term."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.interval import Interval, mean_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Figures of one pass over the test split.

    Attributes:
        terms: The mean score of each term with its 95 % interval; None for a term that scored nothing.
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
    """Run TRL's own `trainer.evaluate()` and sum up the scorecards it makes. Call it on every rank.

    On ranks other than the main one, which see no scorecards, the result is empty.
    """
    cards: list[Scorecard] = []

    def collect(card: Scorecard) -> None:
        if card.mode == "eval":
            cards.append(card)

    with trainer.scorecard_listener(collect):
        trainer.evaluate()
    prompts = len(trainer.eval_dataset) if isinstance(trainer.eval_dataset, Sized) else None
    return summarise(_without_padding(cards, None if prompts is None else prompts * trainer.num_generations_eval))


def _without_padding(cards: Sequence[Scorecard], wanted: int | None) -> list[Scorecard]:
    """The cards without what comes after `wanted` completions: on several ranks, prompts again that fill up batches."""
    kept: list[Scorecard] = []
    left = wanted
    for card in cards:
        kept.append(card if left is None else card.first(left))
        left = None if left is None else max(0, left - len(card))
    return kept


def summarise(cards: Sequence[Scorecard]) -> Evaluation:
    """The figures of the scorecards of one pass."""
    terms = cards[0].terms if cards else ()
    lengths = [len(s.completion_ids) for card in cards for s in card.samples if s.completion_ids is not None]
    return Evaluation(
        terms={term: mean_interval(_scores_by_group(cards, term)) for term in terms},
        tokens=fmean(lengths) if lengths else None,
        prompts=len({sample.group for card in cards for sample in card.samples}),
        completions=sum(len(card) for card in cards),
        void=sum(sum(card.void) for card in cards),
    )


def _scores_by_group(cards: Sequence[Scorecard], term: str) -> list[list[float]]:
    groups: dict[int | None, list[float]] = {}
    for card in cards:
        for sample, reward in zip(card.samples, card.rewards(term), strict=True):
            if reward is not None:
                groups.setdefault(sample.group, []).append(reward)
    return list(groups.values())
