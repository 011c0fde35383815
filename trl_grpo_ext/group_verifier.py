"""A verifier that judges the completions of one prompt against each other, such as the shortest right answer."""

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
    """Judges whole groups. Subclasses implement `verify_group`.

    It needs to know which completions belong together, and to see all of them, though TRL may have split a group
    between two ranks (trl#3896). So it works as a term of a `RewardMix` under `VerifiedGRPOTrainer`, which gathers
    groups first, and refuses to be a plain TRL reward function.

    If its term has a gate, only the completions that the gate lets through are compared with each other: an ungated
    length term would prefer the shortest wrong answer.

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
        """Judge the completions of one group, at least one: a verdict each, in order."""

    def verify(self, sample: Sample) -> Verdict:
        return self.verify_group([sample])[0]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        """Judge a batch that holds whole groups, told apart by `Sample.group`. Never raises."""
        groups: dict[int | None, list[int]] = {}
        for index, sample in enumerate(samples):
            groups.setdefault(sample.group, []).append(index)
        verdicts: dict[int, Verdict] = {}
        for group, members in groups.items():
            judged = self._judge_group(group, [samples[index] for index in members])
            verdicts.update(zip(members, judged, strict=True))
        return [verdicts[index] for index in range(len(samples))]

    def __call__(self, completions: Sequence[Completion], **columns: Any) -> list[float | None]:
        """Refuse: nothing tells a plain TRL reward function its groups.

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
        share = (time.perf_counter() - started) / len(samples)  # the time of a single completion is unknown
        return [verdict if verdict.seconds else replace(verdict, seconds=share) for verdict in verdicts]
