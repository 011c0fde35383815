"""A stand-in for a verifier: gives the verdicts that were recorded, and asks the verifier only for those that were not.

It is what makes the replay of an edited weight cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Verdict


class RecordedVerdicts(Verifier):
    """The verdicts of a recorded term, batch by batch.

    Args:
        verifier: Judges the samples that the recorded term did not apply to.
        term: The recorded term, whose verifier was the same.
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
