"""Replay a run: compare its recorded rewards with other rewards for the same completions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

from trl_grpo_ext.commands.replay.changes import Comparison
from trl_grpo_ext.commands.replay.recorded_batches import (
    NewRewards,
    RecordedBatches,
    RunClock,
    Selection,
)
from trl_grpo_ext.commands.replay.rescorer import Rescorer
from trl_grpo_ext.figures.advantages import AdvantageSettings
from trl_grpo_ext.mix.reward_plan import plan_rewards
from trl_grpo_ext.mix.schedule import Schedule
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.run_settings import functions_beside
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import listed


def replay_run(
    run: RecordedRun,
    rewards: NewRewards,
    selection: Selection | None = None,
    *,
    rescore: bool = False,
    examples: int = 2,
) -> ReplayedRun:
    """Score a run's recorded completions by other rewards, and compare both; show a bar if stderr is a terminal.

    The run may still be going on. By default all training batches are selected. `rescore` judges again, even if a
    verifier equals the recorded one.

    Raises:
        ValueError: without selected batches, for rewards that cannot be trained on, and for rewards that need
            unrecorded columns.
    """
    replayed = ReplayedRun(
        RecordedBatches(run, selection or Selection()),
        rewards,
        rescore=rescore,
        examples=examples,
    )
    for number in tqdm(
        replayed.batches.numbers, desc="replaying", unit="batch", leave=False, disable=None
    ):
        card = replayed.batches.card(number)
        if card is not None:
            replayed.add(card)
    if not replayed.comparison.batches:
        raise ValueError(replayed.batches.why_none())
    return replayed


class ReplayedRun:
    """A replay: recorded batches, rescored batches, and how they compare.

    Attributes:
        comparison: The comparison of all batches so far.
        seconds: The time since the start, in seconds, until the latest batch.
    """

    def __init__(
        self, batches: RecordedBatches, rewards: NewRewards, *, rescore: bool, examples: int
    ) -> None:
        self.batches, self.rewards = batches, rewards
        self.settings = settings = batches.run.settings
        self.clock = RunClock.of(batches.run, settings)
        self.seconds = 0.0
        self._began = time.perf_counter()
        self._steps: list[int] = []
        self._has_others = False
        # Reward functions outside both mixes. Environments, which TRL adds as functions, may be missing here.
        self.beside = functions_beside(settings) - {term.name for term in rewards.mix.terms}
        # Refuse rewards that the trainer would refuse.
        plan_rewards(rewards.mix, others=bool(self.beside))
        recorded = settings.get("verifiers")
        self.rescorer = Rescorer(
            rewards.mix, recorded if isinstance(recorded, dict) else {}, rescore=rescore
        )
        terms = [term.name for term in rewards.mix.terms]
        old_settings = AdvantageSettings.read(settings)
        self.comparison = Comparison(
            terms, old_settings, rewards.settings or old_settings, examples=examples
        )

    def add(self, card: Scorecard) -> None:
        """Rescore a recorded batch, and compare it."""
        if self.beside.intersection(card.terms):
            card = card.with_terms_as_others(self.beside)
        # Once, by the first batch: all rows of a dataset have the same columns.
        if not self.comparison.batches:
            self._check_columns(card)
        self._has_others |= card.has_others
        alone = not (self.beside or card.has_others)
        self.comparison.add(
            card, self.rescorer.score(card, self.clock.progress(card.step), alone=alone)
        )
        if card.step is not None:
            self._steps.append(card.step)
        self.seconds = time.perf_counter() - self._began

    def _check_columns(self, card: Scorecard) -> None:
        # A dict keeps the order and drops repeated names.
        columns: dict[str, None] = {}
        for sample in card.samples:
            columns |= dict.fromkeys(sample.row)
        try:
            self.rewards.mix.check_columns(columns)
        except ValueError as error:
            raise ValueError(
                f"{error} A replay has the dataset columns that the run had."
            ) from None

    @property
    def folder(self) -> str:
        return os.fspath(self.batches.run.folder)

    @property
    def steps(self) -> tuple[int, int] | None:
        """The first and the last step; None if no step is known."""
        if not self._steps:
            return None
        return min(self._steps), max(self._steps)

    @property
    def sources(self) -> dict[str, str]:
        """The source of each new term's verdicts: recorded, judged, judged again, or combined."""
        found = {}
        for term in self.rewards.mix.terms:
            found[term.name] = self._source(term)
        return found

    def _source(self, term: RewardTerm) -> str:
        if term.combine is not None:
            return "combined"
        reused = self.rescorer.reused.get(term.name)
        if reused == term.name:
            return "recorded"
        if reused is not None:
            return f"recorded as {reused}"
        if term.name in self.batches.terms:
            return "judged again"
        return "judged"

    def to_record(self) -> dict[str, Any]:
        old, new = self.comparison.settings
        steps = None
        if self.steps is not None:
            steps = {"first": self.steps[0], "last": self.steps[1]}
        return {
            "run": self.folder,
            "steps": steps,
            "settings": {"old": str(old), "new": str(new)},
            "notes": self.notes,
            "sources": self.sources,
            **self.comparison.to_record(),
            "seconds": round(self.seconds, 3),
        }

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader needs to trust the figures."""
        return [
            *self._notes_on_run(),
            *self._notes_on_advantages(),
            *self._notes_on_others(),
            *self._notes_on_weights(),
            *self._notes_on_verdicts(),
        ]

    def _notes_on_weights(self) -> Iterator[str]:
        moving = [repr(name) for name in self.comparison.terms if self._weight_moves(name)]
        if moving:
            yield (
                f"The weight of {listed(moving)} moves with training: each batch is compared under the weights of its "
                f"own step, on both sides, and mean totals are over batches with different weights."
            )
        if self.clock.last_step is None and any(
            map(_depends_on_length, self.rewards.mix.terms)
        ):
            yield "The length of the run is unknown, so weights over the progress are those of its beginning."

    def _notes_on_verdicts(self) -> Iterator[str]:
        for term, old_term in self.rescorer.same.items():
            changed = self.comparison.terms[term].changed
            if changed and term == old_term and term not in self.rescorer.reused:
                yield (
                    f"{changed} verdicts of {term!r} change, though its verifier is the same: it is not deterministic, "
                    f"it depends on what a recorded row does not bring back, or code that it imports has changed."
                )
        for (term, reason), count in self.rescorer.failures.items():
            yield (
                f"{term!r} could not judge {count} completions now ({reason}), by the grader's fault: what changes for "
                f"them says nothing of the new rewards."
            )
        for term, step in self.rescorer.stops.items():
            yield f"{term!r} could not judge a completion of step {step}: its on_unscored, raise, would end the run."
        if self.rewards.ignored:
            differing = [
                f"{key} {old} -> {new}" for key, (old, new) in self.rewards.ignored.items()
            ]
            yield f"Ignored, since only a new run could try it: {listed(differing, 3)}."

    def _weight_moves(self, term: str) -> bool:
        """Say whether a term's weight changes during the run, in a different way on each side."""
        old = self.comparison.old.weights(term)
        new = self.comparison.new.weights(term)
        moves = len(set(old)) > 1 or len(set(new)) > 1
        return moves and old != new

    def _notes_on_advantages(self) -> Iterator[str]:
        comparison = self.comparison
        if not self.settings:
            yield "The run has no run.json that can be read, so its settings are taken to be TRL's defaults."
        if comparison.without_advantages:
            yield f"{comparison.without_advantages} batches have no recorded advantages to check the computed ones by."
        if comparison.not_reproduced:
            yield (
                f"In {comparison.not_reproduced} of {comparison.batches} batches the recorded advantages are not those "
                f"that follow from the recorded values (by up to {comparison.largest_difference:.2g}): something else "
                f"went into them, and is on neither side here."
            )
        if not comparison.groups.groups:
            yield "The completions have no group numbers, so there are no advantages and no groups to compare."

    def _notes_on_others(self) -> Iterator[str]:
        if not self.beside and not self._has_others:
            return
        what = "Environments' rewards"
        if self.beside:
            what = f"The reward functions beside the mix ({listed(sorted(self.beside))})"
        aggregations = {
            side.multi_objective_aggregation for side in self.comparison.settings
        }
        if "normalize_then_sum" in aggregations:
            yield f"{what} cannot be replayed, and are left out where TRL normalises each reward by itself."
        else:
            yield f"{what} cannot be replayed: what they added to the totals is on both sides, as it was recorded."
        if self.rescorer.revived:
            yield f"What they would add to {self.rescorer.revived} completions that were void is not known; taken as 0."

    def _notes_on_run(self) -> Iterator[str]:
        batches = self.batches
        if batches.selection.mode == "train" and not self.clock.ended:
            yield "The run is going on, or was stopped before its end: this is what has been recorded so far."
        if batches.unreadable:
            yield f"{len(batches.unreadable)} batches cannot be read and were left out: {listed(batches.unreadable)}."
        if batches.left_out:
            yield f"{batches.left_out} batches were left out to keep to the limit; the others are spread over the run."


def _depends_on_length(term: RewardTerm) -> bool:
    """Say whether a term's weight depends on the length of the run."""
    if isinstance(term.weight, Schedule):
        return term.weight.unit == "progress"
    return callable(term.weight)
