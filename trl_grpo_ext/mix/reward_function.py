"""Reward functions for TRL, one callable per term of a mix; together they judge a batch once."""

from __future__ import annotations

import multiprocessing
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from trl_grpo_ext.figures.logged import verdict_figures
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import log_columns, log_figures, warn_of_zeros
from trl_grpo_ext.sample import Completion, Sample, samples_from_columns
from trl_grpo_ext.scorecard import Scorecard

# Limits the number of open batches: AsyncGRPO scores several at once, in threads; unread batches must not leak memory.
MAX_OPEN_BATCHES = 256


# The name of the process in which TRL's AsyncGRPOTrainer scores: the only sign of this trainer in a reward function.
ASYNC_WORKER = "grpo-rollout-worker-child"


class Scores(Protocol):
    """The methods of `RewardMix` that this module calls."""

    @property
    def terms(self) -> Sequence[RewardTerm]: ...
    def score(self, samples: Sequence[Sample]) -> Scorecard: ...
    def check_columns(self, columns: Collection[str]) -> None: ...
    def verifier_figures(self, card: Scorecard) -> dict[str, float]: ...


class TermReward:
    """A TRL reward function that returns the values of one term of a mix."""

    def __init__(self, scorer: BatchScorer, name: str) -> None:
        self.__name__ = name
        self.scorer = scorer

    def __call__(
        self, /, completions: Sequence[Completion], **columns: Any
    ) -> list[float | None]:
        """Return one value per completion, None where the sample is void, as TRL's reward protocol asks.

        See `Verifier.__call__`.
        """
        card = self.scorer.read(self.__name__, completions, columns)
        return card.rewards(self.__name__)

    def __repr__(self) -> str:
        return f"<reward term {self.__name__}>"


@dataclass(eq=False)
class _OpenBatch:
    """A batch and its scorecard, kept for terms without a read yet."""

    # A reference to the list keeps Python from giving its id to another list.
    completions: Sequence[Completion]
    unread: set[str]
    card: Scorecard | None
    logged: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class BatchScorer:
    """A scorer that judges each batch once, although TRL calls one reward function per term.

    TRL passes the same list object to every reward function, so the scorer recognises a batch by the list's identity.
    It drops a scorecard as soon as every term has read it.
    """

    def __init__(self, mix: Scores) -> None:
        self.mix = mix
        self._lock = threading.Lock()
        self._batches: OrderedDict[int, _OpenBatch] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        # Locks and open batches stay in their process.
        return {"mix": self.mix}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["mix"])  # type: ignore[misc]
        # The worker unpickles the functions before it scores, so wrong weights end the start, not the run.
        if multiprocessing.current_process().name == ASYNC_WORKER:
            _check_weights_are_1(self.mix.terms)

    def prime(self, completions: Sequence[Completion], card: Scorecard) -> None:
        """Store the scorecard of a list of completions for the terms to read; the caller logs its figures."""
        with self._lock:
            self._open(completions, card)

    def read(
        self,
        term: str,
        completions: Sequence[Completion],
        columns: Mapping[str, Any],
    ) -> Scorecard:
        """Return the batch's scorecard to one term; the first call judges the batch and logs its figures."""
        with self._lock:
            batch = self._batches.get(id(completions))
            if (
                batch is None
                or batch.completions is not completions
                # A term that asks again wants a new judgement, as any function gives one at each call.
                or term not in batch.unread
            ):
                batch = self._open(completions, None)
            batch.unread.discard(term)
            if not batch.unread:
                del self._batches[id(completions)]
        # A batch's own lock: AsyncGRPO's threads judge several batches at once, and terms of one batch wait here.
        with batch.lock:
            # A plain TRL trainer does not call `prime`.
            if batch.card is None:
                samples = samples_from_columns(completions, columns)
                # All rows of a batch have the same columns.
                if samples:
                    self.mix.check_columns(samples[0].row)
                batch.card = self.mix.score(samples)
                warn_of_zeros(term, batch.card.void, columns)
                figures = verdict_figures(batch.card) | self.mix.verifier_figures(
                    batch.card
                )
                log_figures(figures, columns.get("log_metric"))
            # TRL hands `log_extra` to reward functions only, so a primed batch's columns are logged here, too.
            if not batch.logged:
                batch.logged = True
                for name in batch.card.terms:
                    log_columns(name, batch.card.verdicts[name], columns.get("log_extra"))
        return batch.card

    def _open(
        self, completions: Sequence[Completion], card: Scorecard | None
    ) -> _OpenBatch:
        batch = _OpenBatch(
            completions=completions,
            unread={term.name for term in self.mix.terms},
            card=card,
        )
        self._batches[id(completions)] = batch
        while len(self._batches) > MAX_OPEN_BATCHES:
            self._batches.popitem(last=False)
        return batch


def _check_weights_are_1(terms: Sequence[RewardTerm]) -> None:
    other = []
    for term in terms:
        if isinstance(term.weight, float) and term.weight != 1:
            other.append(f"{term.name}: {term.weight:g}")
    if other:
        raise ValueError(
            f"AsyncGRPOTrainer adds rewards up without weights, so those of this mix would be lost "
            f"({', '.join(other)}), and terms of weight 0 would be trained on: hand it the mix by "
            f"judge_by(trainer, mix) instead of reward_funcs, or give every term weight 1."
        )
