"""Rescore recorded batches under another reward mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import BatchVerifier, Verifier
from trl_grpo_ext.runs.run_settings import verifier_identity
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Blame, Verdict


class Rescorer:
    """A scorer of recorded batches under another mix, reusing recorded verdicts of equal verifiers.

    `recorded` maps the run's terms to identities of their verifiers; None if unknown. `rescore` judges every completion
    again, without reuse.

    Attributes:
        same: Maps each term of the mix to a recorded term with an equal verifier. Group verifiers are left out: their
            verdicts depend on the compared completions.
        reused: The part of `same` whose recorded verdicts are used; empty with `rescore`.
        stops: The step at which a term with `on_unscored: raise` would have ended the run, by term.
        failures: Number of completions on which the grader fails now but not in the run, by term and reason.
        revived: Number of void completions that are not void now, in a run with reward functions outside the mix.
    """

    def __init__(
        self, mix: RewardMix, recorded: Mapping[str, str | None], *, rescore: bool = False
    ) -> None:
        self.same = _same_verifiers(mix, recorded)
        self.reused = {} if rescore else self.same
        self.stops: dict[str, int | None] = {}
        self.failures: Counter[tuple[str, str]] = Counter()
        self.revived = 0
        self._raising = [term.name for term in mix.terms if term.on_unscored == "raise"]
        self.mix = RewardMix([self._prepared(term) for term in mix.terms])

    def _prepared(self, term: RewardTerm) -> RewardTerm:
        # Note the step in `stops` instead of raising, since the rest of the run still matters.
        if term.on_unscored == "raise":
            term = replace(term, on_unscored="void_row")
        if term.name in self.reused and term.verifier is not None:
            return replace(
                term, verifier=_RecordedVerdicts(term.verifier, self.reused[term.name])
            )
        return term

    def score(self, old: Scorecard, progress: float, *, alone: bool) -> Scorecard:
        """Return a recorded batch's scorecard under the mix, with the same samples.

        `progress` is the share of training done, in [0, 1]. `alone` says that the run had no reward functions outside
        its mix; otherwise their recorded contribution is added to the new totals.

        Raises:
            ValueError: for a schedule without a weight at this step.
        """
        for _, verifier in self.mix.verifiers:
            if isinstance(verifier, _RecordedVerdicts):
                verifier.open(old)
        step = old.step
        card = self.mix.score(old.samples, progress, step=step, mode=old.mode, alone=alone)
        for term in self._raising:
            if card.weights[term] != 0 and card.unscored(term):
                self.stops.setdefault(term, card.step)
        self._note_failures(card, old)
        if not alone:
            card = self._with_others(card, old)
        return card.with_failed(old.failed).with_drawn(old.drawn)

    def _with_others(self, card: Scorecard, old: Scorecard) -> Scorecard:
        """Add recorded contributions of functions outside the mix; for void completions these were not recorded."""
        others: list[float | None] = old.other_column.tolist()
        for row, was_void in enumerate(old.void):
            if not was_void:
                continue
            # With 0 the new terms alone decide; None keeps a completion void that no term in force judges.
            is_scored = any(card.verdicts[term][row] is not None for term in card.in_force)
            others[row] = 0.0 if is_scored else None
        new = card.with_others(others)
        for was_void, is_void in zip(old.void, new.void, strict=True):
            self.revived += was_void and not is_void
        return new

    def _note_failures(self, card: Scorecard, old: Scorecard) -> None:
        for term, _ in self.mix.verifiers:
            recorded_as = self.reused.get(term.name, term.name)
            # A term that the run lacked has failed on none.
            before = old.verdicts.get(recorded_as) or (None,) * len(old)
            for earlier, verdict in zip(before, card.verdicts[term.name], strict=True):
                if _has_failed(verdict) and not _has_failed(earlier):
                    self.failures[term.name, verdict.reason] += 1


def _has_failed(verdict: Verdict | None) -> TypeGuard[Verdict]:
    """Say whether the grader failed on a completion."""
    return verdict is not None and verdict.blame is Blame.GRADER


def _same_verifiers(mix: RewardMix, recorded: Mapping[str, str | None]) -> dict[str, str]:
    """Map each term of the mix to a recorded term with an equal verifier, preferring a term of equal name."""
    reusable = {}
    for term, verifier in mix.verifiers:
        # Its verdicts depend on the compared completions.
        if isinstance(verifier, GroupVerifier):
            continue
        identity = verifier_identity(verifier)
        # An unknown verifier equals none, not even another unknown one.
        if identity is None:
            continue
        same = [name for name, other in recorded.items() if other == identity]
        if term.name in same:
            reusable[term.name] = term.name
        elif same:
            reusable[term.name] = same[0]
    return reusable


class _RecordedVerdicts(BatchVerifier):
    """A verifier that returns a recorded term's verdicts, batch by batch.

    Samples without a recorded verdict, to which the recorded term did not apply, are judged by the original verifier.
    """

    def __init__(self, verifier: Verifier, term: str) -> None:
        super().__init__(verifier.__name__)
        self.verifier = verifier
        self.term = term
        self._known: dict[int, Verdict] = {}

    def open(self, card: Scorecard) -> None:
        """Load a batch's verdicts; later samples must be its own objects, since they are looked up by identity."""
        self._known = {}
        # A batch in which the term applied to no row has no column.
        column = card.verdicts.get(self.term, ())
        for sample, verdict in zip(card.samples, column, strict=False):
            if verdict is not None:
                self._known[id(sample)] = verdict

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        unknown = [sample for sample in samples if id(sample) not in self._known]
        judged = dict(self._known)
        if unknown:
            verdicts = self.verifier.judge_samples(unknown)
            judged.update(zip(map(id, unknown), verdicts, strict=True))
        return [judged[id(sample)] for sample in samples]

    def close(self) -> None:
        self.verifier.close()
