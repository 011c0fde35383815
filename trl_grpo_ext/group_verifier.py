"""Group verifiers: they judge the completions of one prompt by comparison, such as the shortest correct answer."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Completion, Sample
from trl_grpo_ext.support.budget import BUDGET_SPENT, seconds_left
from trl_grpo_ext.verdict import Verdict, grader_error


class GroupVerifier(Verifier):
    """A verifier that judges whole groups. Subclasses implement `verify_group`.

    It must see all completions of a group, though TRL may split a group between two ranks (trl#3896). So it works as a
    term of a `RewardMix` under `VerifiedGRPOTrainer`, which gathers groups first; as a plain TRL reward function it
    raises a ValueError.

    If the term has a gate, only completions with an open gate are compared: an ungated length term would prefer the
    shortest wrong answer.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> class Shortest(GroupVerifier):
        ...     def verify_group(self, samples):
        ...         least = min(len(sample.text) for sample in samples)
        ...         return [as_verdict(len(sample.text) == least) for sample in samples]
        >>> verdicts = Shortest().judge_samples([Sample(text="4", group=0), Sample(text="It is 4.", group=0)])
        >>> [verdict.score for verdict in verdicts]
        [1.0, 0.0]
    """

    @abstractmethod
    def verify_group(self, samples: Sequence[Sample]) -> Sequence[Verdict]:
        """Judge the completions of one group, at least one; return one verdict per completion, in order."""

    def verify(self, sample: Sample) -> Verdict:
        return self.verify_group([sample])[0]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        """Judge a batch of whole groups, told apart by `Sample.group`. Never raises.

        Samples without a group number get a grader error.
        """
        groups: dict[int | None, list[int]] = {}
        for index, sample in enumerate(samples):
            groups.setdefault(sample.group, []).append(index)
        verdicts: dict[int, Verdict] = {}
        for group, members in groups.items():
            judged = self._judge_group(group, [samples[index] for index in members])
            verdicts.update(zip(members, judged, strict=True))
        return [verdicts[index] for index in range(len(samples))]

    def __call__(
        self, completions: Sequence[Completion], **columns: Any
    ) -> list[float | None]:
        """Refuse calls by plain TRL, which tells a reward function no groups.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"{self.__name__!r} compares the completions of a group, and plain TRL does not tell a reward function its "
            f"groups. Put it into a RewardMix and train with VerifiedGRPOTrainer."
        )

    def _judge_group(self, group: int | None, samples: Sequence[Sample]) -> list[Verdict]:
        if group is None:
            return [grader_error("group_unknown") for _ in samples]
        if not seconds_left():
            return [grader_error(BUDGET_SPENT) for _ in samples]
        started = time.perf_counter()
        verdicts = self.guarded_batch(self.verify_group, samples)
        # Only the time of the whole group is known.
        share = (time.perf_counter() - started) / len(samples)
        return [
            verdict if verdict.seconds else replace(verdict, seconds=share)
            for verdict in verdicts
        ]
