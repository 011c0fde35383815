"""Bases of verifiers made of verifiers: `Composition` combines several verdicts, `Rescored` changes a score."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.protocol import BatchVerifier, DataProblem, Verifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Blame, Verdict, grader_error

# Verifier name -> verdict, in the order of judging.
Parts = Mapping[str, Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedVerdict(Verdict):
    """A combined verdict with its parts, the verdicts of the member verifiers, for later metrics.

    Attributes:
        parts: The verdict of each verifier that judged the sample, by name. `to_record` leaves them out.
    """

    parts: Parts = field(default_factory=dict, compare=False, repr=False)


def compose(parts: Parts, decided_by: str | None) -> ComposedVerdict:
    """Make one verdict from the verdict of the verifier `decided_by`; the details list every verdict in `parts`.

    If `decided_by` is None, all verdicts agree: status and score come from the first, and the reason is empty.

    Examples:
        >>> from trl_grpo_ext.verdict import Status
        >>> wrong = Verdict(status=Status.INCORRECT, score=0.0, reason="not_equal")
        >>> compose({"math": wrong}, "math").reason
        'math: not_equal'
    """
    agreeing = list(parts.values())
    if decided_by is not None:
        agreeing = [parts[decided_by]]
    deciding = agreeing[0]
    return ComposedVerdict(
        status=deciding.status,
        score=deciding.score,
        blame=deciding.blame,
        answer=_first_answer(agreeing),
        reason=_reason(decided_by, deciding),
        # Members judge one after the other.
        seconds=math.fsum(part.seconds for part in parts.values()),
        details=_details(parts),
        parts=parts,
    )


def unscored_first(parts: Parts) -> str | None:
    """Return the first verifier without a score, grader errors before bad data; None if every verifier gave a score."""
    for blame in (Blame.GRADER, Blame.DATA):
        for name, part in parts.items():
            if part.blame is blame:
                return name
    return None


def within_unit(verdict: Verdict) -> Verdict:
    """Return the verdict unchanged, or a grader error if the score lies outside [0, 1]."""
    if verdict.score is None or 0.0 <= verdict.score <= 1.0:
        return verdict
    return replace(
        grader_error("score_outside_0_1", seconds=verdict.seconds), answer=verdict.answer
    )


def part_verdicts(verdicts: Sequence[Verdict | None], name: str) -> list[Verdict]:
    """Collect the verdicts of the member verifier `name`; skip samples that the member did not judge."""
    composed = (verdict for verdict in verdicts if isinstance(verdict, ComposedVerdict))
    return [verdict.parts[name] for verdict in composed if name in verdict.parts]


def _first_answer(verdicts: Sequence[Verdict]) -> str | None:
    for verdict in verdicts:
        if verdict.answer is not None:
            return verdict.answer
    return None


def _reason(decided_by: str | None, deciding: Verdict) -> str:
    if decided_by is None:
        return ""
    if not deciding.reason:
        return decided_by
    return f"{decided_by}: {deciding.reason}"


def _details(parts: Parts) -> dict[str, str]:
    details = {}
    for name, part in parts.items():
        summary = str(part.status)
        if part.score is not None:
            summary += f" {part.score:g}"
        if part.reason:
            summary += f" ({part.reason})"
        details[name] = summary
        if part.answer is not None:
            details[f"{name}.answer"] = part.answer
        for key, value in part.details.items():
            details[f"{name}.{key}"] = value
    return details


def as_members(given: object, *, whole: str) -> tuple[Verifier, ...]:
    """Check a list of member verifiers, and return the list as a tuple.

    Args:
        given: The list from the user's settings.
        whole: The name of the composition, for error messages.

    Raises:
        ValueError: if the list is empty or no list, an entry is not a verifier or is a `GroupVerifier`, or two
            verifiers have the same name.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ValueError(
            f"{whole} needs a list of verifiers with at least one in it, got {given!r}."
        )
    members: dict[str, Verifier] = {}
    for number, entry in enumerate(given, start=1):
        member = _as_member(entry, number, whole)
        name = member.__name__
        if name in members:
            raise ValueError(
                f"{whole} has two verifiers called {name!r}, and reasons and metrics would mix them up. "
                f"Give each a name of its own: name=..."
            )
        members[name] = member
    return tuple(members.values())


def _as_member(entry: object, number: int, whole: str) -> Verifier:
    where = f"{whole}, verifier {number}"
    # This check comes first, since a GroupVerifier is a Verifier.
    if isinstance(entry, GroupVerifier):
        raise ValueError(
            f"{where}: {entry.__name__!r} compares the completions of a group with each other, and {whole} may ask it "
            f"about some of them only. Make it a reward term of its own, with a gate if it is to depend on another."
        )
    if isinstance(entry, Verifier):
        return entry
    # A class in place of its instance is the most likely mistake.
    if isinstance(entry, type) and issubclass(entry, Verifier):
        raise ValueError(
            f"{where} is the class {entry.__name__}; make a verifier of it: {entry.__name__}()."
        )
    raise ValueError(
        f"{where} must be a verifier, got {entry!r}. Make one of a function with @verifier; in a recipe, write a "
        f"mapping such as {{verifier: math}}."
    )


@dataclass(frozen=True, kw_only=True)
class Composition(BatchVerifier):
    """Base of `AllOf`, `AnyOf` and `FirstScored`: ask verifiers in turn, and combine the verdicts on each sample.

    Each verifier is called once per batch, with the samples still undecided. Subclasses implement `is_decided` and
    `combined`.
    """

    verifiers: Sequence[Verifier]
    name: str | None = None

    def __post_init__(self) -> None:
        members = as_members(self.verifiers, whole=self.__name__)
        # A frozen dataclass allows no plain assignment.
        object.__setattr__(self, "verifiers", members)

    @property
    def members(self) -> dict[str, Verifier]:
        """The member verifiers by name, in the order of judging."""
        return {member.__name__: member for member in self.verifiers}

    @abstractmethod
    def is_decided(self, verdict: Verdict) -> bool:
        """Tell if a verdict decides the sample; later verifiers then skip the sample."""

    @abstractmethod
    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        """Combine the verdicts on one sample, keyed by verifier name and never empty, into a composed verdict."""

    def read(self, verdict: Verdict) -> Verdict:
        """Check or convert a member's verdict before use; by default return the verdict unchanged."""
        return verdict

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        # Verdicts by verifier name, a dict per sample.
        parts: list[dict[str, Verdict]] = [{} for _ in samples]
        undecided = list(range(len(samples)))
        for name, member in self.members.items():
            judged = self._ask(member, [samples[index] for index in undecided])
            still_undecided = []
            for index, verdict in zip(undecided, judged, strict=True):
                parts[index][name] = verdict
                if not self.is_decided(verdict):
                    still_undecided.append(index)
            undecided = still_undecided
        return [self.combined(each) for each in parts]

    def _ask(self, member: Verifier, samples: Sequence[Sample]) -> list[Verdict]:
        if not samples:
            return []
        judged = self.guarded_batch(member.judge_samples, samples)
        return [self.read(verdict) for verdict in judged]

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError that names the member verifier if a member cannot judge a dataset with these columns."""
        for name, member in self.members.items():
            try:
                member.check_columns(columns)
            except ValueError as error:
                raise ValueError(f"{self.__name__}, verifier {name!r}: {error}") from None

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the problems that any member verifier finds in the rows, sorted by row."""
        found = []
        for name, member in self.members.items():
            for problem in member.check_rows(rows, thorough=thorough):
                named = replace(problem, reason=f"{name}: {problem.reason}")
                found.append(named)
        return sorted(found, key=lambda problem: problem.row)

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        """Compute each member's own metrics, and its shares of judged (`asked`) and unscored (`unscored`) samples."""
        figures = {}
        # Without samples, every share is 0.
        samples = max(len(verdicts), 1)
        for name, member in self.members.items():
            judged = part_verdicts(verdicts, name)
            unscored = sum(verdict.score is None for verdict in judged)
            figures[f"{name}/asked"] = len(judged) / samples
            figures[f"{name}/unscored"] = unscored / samples
            for key, value in member.metrics(judged).items():
                figures[f"{name}/{key}"] = value
        return figures

    def facts(self) -> dict[str, str]:
        named = {}
        for name, member in self.members.items():
            for key, fact in member.facts().items():
                named[f"{name}/{key}"] = fact
        return named

    def for_limit(self, tokens: int) -> Composition:
        """Return a copy of the composition whose member verifiers know the token limit."""
        limited = [member.for_limit(tokens) for member in self.verifiers]
        return replace(self, verifiers=limited)

    def close(self) -> None:
        """Close every member verifier, even if an earlier `close` raises."""
        # The stack runs every callback, and raises the last error at its end.
        with ExitStack() as stack:
            for member in self.members.values():
                stack.callback(member.close)


class Rescored(BatchVerifier):
    """Base class: compute a new score from the sample and the verdict of another verifier, `correctness`.

    A sample that `correctness` leaves unscored stays unscored. Subclasses declare the field `correctness`, and
    implement `rescored`.
    """

    correctness: Verifier

    def __post_init__(self) -> None:
        if not isinstance(self.correctness, Verifier):
            raise ValueError(
                f"correctness says what is right, and must be a Verifier such as MathVerifier(); "
                f"got {self.correctness!r}."
            )

    @abstractmethod
    def rescored(self, sample: Sample, verdict: Verdict) -> Verdict:
        """Make the final verdict from the sample and the scored verdict of `correctness`."""

    def asked(self, sample: Sample) -> Sample:
        """Return the sample for `correctness` to judge; by default unchanged."""
        return sample

    def check_columns(self, columns: Collection[str]) -> None:
        self.correctness.check_columns(columns)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows that `correctness` cannot judge."""
        return self.correctness.check_rows(rows, thorough=thorough)

    def facts(self) -> dict[str, str]:
        """Return facts for the run's summary, from the verifier `correctness`, such as its sandbox."""
        return self.correctness.facts()

    def close(self) -> None:
        """Close `correctness`."""
        self.correctness.close()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        asked = [self.asked(sample) for sample in samples]
        judged = self.guarded_batch(self.correctness.judge_samples, asked)
        pairs = zip(samples, judged, strict=True)
        # Each pair by itself: a sample on which `rescored` fails costs no other sample its verdict.
        return [self.guarded(self._rescored_pair, pair) for pair in pairs]

    def _rescored_pair(self, pair: tuple[Sample, Verdict]) -> Verdict:
        sample, verdict = pair
        # The reason and the blame of an unscored verdict stay.
        if verdict.score is None:
            return verdict
        return self.rescored(sample, verdict)
