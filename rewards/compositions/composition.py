"""A verifier made of verifiers, which are asked in turn, and only where their say can still matter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.protocol import DataProblem, Verifier
from trl_grpo_ext.rewards.compositions.members import as_members
from trl_grpo_ext.rewards.compositions.verdicts import ComposedVerdict, part_verdicts
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Composition(Verifier):
    """What `AllOf`, `AnyOf` and `FirstScored` share: they differ in when a sample is decided, and in how."""

    verifiers: Sequence[Verifier]
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "verifiers", as_members(self.verifiers, whole=self.__name__))

    @property
    def members(self) -> dict[str, Verifier]:
        """The verifiers by name, in order."""
        return {member.__name__: member for member in self.verifiers}

    @abstractmethod
    def is_decided(self, verdict: Verdict) -> bool:
        """Whether one verifier's verdict settles the sample, whatever the later ones would say."""

    @abstractmethod
    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        """The verdict that the verdicts of the verifiers that were asked, at least one, add up to."""

    def read(self, verdict: Verdict) -> Verdict:
        """A verifier's verdict, as this composition takes it."""
        return verdict

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        parts: list[dict[str, Verdict]] = [{} for _ in samples]
        undecided = list(range(len(samples)))
        for name, member in self.members.items():
            judged = self._ask(member, [samples[index] for index in undecided])
            for index, verdict in zip(undecided, judged, strict=True):
                parts[index][name] = verdict
            undecided = [index for index in undecided if not self.is_decided(parts[index][name])]
        return [self.combined(each) for each in parts]

    def _ask(self, member: Verifier, samples: Sequence[Sample]) -> list[Verdict]:
        if not samples:
            return []
        return [self.read(verdict) for verdict in self.guarded_batch(member.judge_samples, samples)]

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError, naming the verifier, unless all of them can judge such a dataset."""
        for name, member in self.members.items():
            try:
                member.check_columns(columns)
            except ValueError as error:
                raise ValueError(f"{self.__name__}, verifier {name!r}: {error}") from None

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows that one of the verifiers cannot judge."""
        found = [
            replace(problem, reason=f"{name}: {problem.reason}")
            for name, member in self.members.items()
            for problem in member.check_rows(rows, thorough=thorough)
        ]
        return sorted(found, key=lambda problem: problem.row)

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        """For each verifier the shares of the samples that it was asked about and could not judge, and its figures."""
        figures = {}
        for name, member in self.members.items():
            said = part_verdicts(verdicts, name)
            figures[f"{name}/asked"] = len(said) / max(len(verdicts), 1)
            figures[f"{name}/unscored"] = sum(verdict.score is None for verdict in said) / max(len(verdicts), 1)
            figures |= {f"{name}/{key}": value for key, value in member.metrics(said).items()}
        return figures

    def facts(self) -> dict[str, str]:
        return {f"{name}/{key}": fact for name, member in self.members.items() for key, fact in member.facts().items()}

    def close(self) -> None:
        """Close every verifier, also if closing one fails."""
        with ExitStack() as stack:
            for member in self.members.values():
                stack.callback(member.close)
