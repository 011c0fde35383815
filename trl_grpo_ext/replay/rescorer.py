"""The rescorer: makes the scorecard that a recorded batch would have had under another mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.runs.settings import verifier_identity
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Blame, Verdict


class Rescorer:
    """Scores recorded batches by another mix.

    `recorded` has the identities of the verifiers that the run had, by term; None where one is not known. `rescore`
    judges everything again, even where a recorded verdict is that of the same verifier.

    Attributes:
        same: For each term of the mix, the recorded term with the same verifier, which has the same verdicts. Terms
            that compare the completions of a group have none: their verdicts depend on which were compared.
        reused: The terms of `same` whose recorded verdicts are used.
        stops: The step at which each term whose `on_unscored` is `raise` would have ended the run.
        failures: How many completions the grader has failed on now and had not in the run, by term and reason.
        revived: How many completions were void, and are not now, of a run with other reward functions.
    """

    def __init__(self, mix: RewardMix, recorded: Mapping[str, str | None], *, rescore: bool = False) -> None:
        self.same = _same_verifiers(mix, recorded)
        self.reused = {} if rescore else self.same
        self.stops: dict[str, int | None] = {}
        self.failures: Counter[tuple[str, str]] = Counter()
        self.revived = 0
        self._raising = [term.name for term in mix.terms if term.on_unscored == "raise"]
        self.mix = RewardMix([self._prepared(term) for term in mix.terms])

    def _prepared(self, term: RewardTerm) -> RewardTerm:
        if term.on_unscored == "raise":  # noted down in `stops` instead: the rest of the run is of interest too
            term = replace(term, on_unscored="void_row")
        if term.name in self.reused and term.verifier is not None:
            return replace(term, verifier=_RecordedVerdicts(term.verifier, self.reused[term.name]))
        return term

    def score(self, old: Scorecard, progress: float, *, alone: bool) -> Scorecard:
        """The scorecard of a recorded batch under the mix, with the same samples.

        `progress` is the share of training that was done, in [0, 1]. Where the run had reward functions beside its mix,
        what those added to a total is added again.

        Raises:
            ValueError: for a schedule that gives no weight.
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
        return (card if alone else self._with_others(card, old)).with_failed(old.failed)

    def _with_others(self, card: Scorecard, old: Scorecard) -> Scorecard:
        """With what other functions had added. What they gave to a completion that was void was not recorded."""
        others = [0.0 if out else other for out, other in zip(old.void, old.other_column.tolist(), strict=True)]
        scored = [any(card.verdicts[term][row] is not None for term in card.in_force) for row in range(len(card))]
        new = card.with_others(
            [None if out and not known else other for out, known, other in zip(old.void, scored, others, strict=True)]
        )
        self.revived += sum(was and not out for was, out in zip(old.void, new.void, strict=True))
        return new

    def _note_failures(self, card: Scorecard, old: Scorecard) -> None:
        for term, _ in self.mix.verifiers:
            before = old.verdicts.get(self.reused.get(term.name, term.name), ())
            failed_before = {row for row, verdict in enumerate(before) if verdict and verdict.blame is Blame.GRADER}
            self.failures.update(
                (term.name, verdict.reason)
                for row, verdict in enumerate(card.verdicts[term.name])
                if verdict and verdict.blame is Blame.GRADER and row not in failed_before
            )


def _same_verifiers(mix: RewardMix, recorded: Mapping[str, str | None]) -> dict[str, str]:
    """For each term of the mix, a recorded one with the same verifier; if there are several, that of the same name."""
    reusable = {}
    for term, verifier in mix.verifiers:
        identity = None if isinstance(verifier, GroupVerifier) else verifier_identity(verifier)
        same = [name for name, other in recorded.items() if other is not None and other == identity]
        if same:
            reusable[term.name] = term.name if term.name in same else same[0]
    return reusable


class _RecordedVerdicts(Verifier):
    """The verdicts of a recorded term, batch by batch.

    The verifier, which was the same, judges the samples that the recorded term did not apply to.
    """

    def __init__(self, verifier: Verifier, term: str) -> None:
        self.name = verifier.__name__
        self.verifier = verifier
        self.term = term
        self._known: dict[int, Verdict] = {}

    def open(self, card: Scorecard) -> None:
        """Turn to this batch; the samples asked for next must be its own, not copies of them."""
        column = card.verdicts.get(self.term, ())
        pairs = zip(card.samples, column, strict=False)
        self._known = {id(sample): verdict for sample, verdict in pairs if verdict is not None}

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        unknown = [sample for sample in samples if id(sample) not in self._known]
        judged = iter(self.verifier.judge_samples(unknown) if unknown else ())
        return [self._known.get(id(sample)) or next(judged) for sample in samples]

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def close(self) -> None:
        self.verifier.close()
