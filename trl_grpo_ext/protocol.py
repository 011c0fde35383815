"""The verifier: an object that looks at a completion and returns a verdict. It has no weight and no schedule.

A verifier is also a TRL reward function, so it can be handed to any TRL trainer as it is. To write one, either
decorate a function with `verifier`, or subclass `Verifier` and implement `verify`.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeGuard, TypeVar

from trl_grpo_ext.sample import TRL_EXTRAS, Completion, Sample, samples_from_columns
from trl_grpo_ext.support.budget import BUDGET_SPENT, seconds_left
from trl_grpo_ext.support.text import Once, error_text, nearest
from trl_grpo_ext.verdict import ScoreRange, Status, Verdict, as_verdict, grader_error

logger = logging.getLogger(__name__)

Q = TypeVar("Q")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataProblem:
    """A row that a verifier cannot judge.

    `row` is its number, from 0; `reason` is the code of the verdicts that it will get, for the reward term `term`;
    `value` is what the row has, as text, and `advice` what to do about it.
    """

    row: int
    reason: str
    value: str
    advice: str
    term: str = ""


def problems_of(reasons: Iterable[str], values: Iterable[object], advice: Mapping[str, str]) -> list[DataProblem]:
    """The problems of rows: their reason codes, empty for a row without one, and what they have."""
    rows = enumerate(zip(reasons, values, strict=True))
    return [
        DataProblem(row=row, reason=reason, value=str(value), advice=advice[reason])
        for row, (reason, value) in rows
        if reason
    ]


class Verifier(ABC):
    """Judges completions one by one; also a TRL reward function.

    Subclasses implement `verify`. Those that hold what cannot be pickled (processes, locks) must create it
    lazily and outside their state: verifiers travel to workers and to AsyncGRPO's child process by pickle.

    Attributes:
        name: The metric key, `__name__` for TRL; by default made of the class name, `MathVerifier` -> `math`.
        score_range: The lowest and the highest score of a verifier that returns numbers; None if it has no bounds.

    Examples:
        >>> class Short(Verifier):
        ...     def verify(self, sample):
        ...         return as_verdict(len(sample.text) < 10)
        >>> Short()(["brief", "not so brief at all"])
        [1.0, 0.0]
    """

    name: str | None = None
    score_range: ScoreRange | None = None

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            self.name = name

    @abstractmethod
    def verify(self, sample: Sample) -> Verdict:
        """Judge one completion. A bad completion is a verdict, never an exception."""

    @property
    def __name__(self) -> str:
        own = type(self).__qualname__.rpartition(".")[2].removesuffix("Verifier")
        return self.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", own).lower()

    def __call__(self, /, completions: Sequence[Completion], **columns: Any) -> list[float | None]:
        """TRL's reward protocol: one finite float, or None where there is no score, a completion.

        Args:
            completions: Strings, or conversations (lists of messages).
            **columns: The dataset's columns, one list each, and TRL's extras (`prompts`, `completion_ids`,
                `trainer_state`, `log_extra`, `log_metric`, `environments`), all optional. Others are ignored.

        Raises:
            ValueError: if a column that the verifier needs is missing.
        """
        verdicts = self.judge(completions, **columns)
        figures = status_shares(verdicts) | self.metrics(verdicts)
        log_columns(self.__name__, verdicts, columns.get("log_extra"))
        log_figures(
            {f"verified/{self.__name__}/{key}": share for key, share in figures.items()}, columns.get("log_metric")
        )
        warn_of_zeros(self.__name__, [verdict.score is None for verdict in verdicts], columns)
        return [verdict.score for verdict in verdicts]

    def judge(self, /, completions: Sequence[Completion], **columns: Any) -> list[Verdict]:
        """As `__call__`, but whole verdicts, with the reasons."""
        samples = samples_from_columns(completions, columns)
        if samples:
            check_lengths(columns, len(samples))
            self.check_columns(samples[0].row)
        return self.judge_samples(samples)

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        """Judge a batch, one verdict a sample, in order. Never raises: a verifier that fails is an ERROR verdict."""
        verdicts = []
        for sample in samples:
            started = time.perf_counter()
            if not seconds_left():
                verdicts.append(grader_error(BUDGET_SPENT))
                continue
            verdict = as_verdict(self.guarded(self.verify, sample), self.score_range)
            verdicts.append(verdict if verdict.seconds else replace(verdict, seconds=time.perf_counter() - started))
        return verdicts

    def guarded(self, step: Callable[[S], T], subject: S) -> T | Verdict:
        """What `step` makes of a sample, or several; the verdict that blames the grader if it raises."""
        try:
            return step(subject)
        except Exception as error:
            warn_once(self.__name__, error)
            return grader_error(f"raised_{type(error).__name__}", error=error_text(error))

    def guarded_batch(
        self, judge: Callable[[Sequence[Sample]], Sequence[object]], samples: Sequence[Sample]
    ) -> list[Verdict]:
        """One verdict a sample, whatever `judge` does: it may raise, or give too few."""
        judged = self.guarded(judge, samples)
        if isinstance(judged, Verdict):
            return [judged] * len(samples)
        if len(judged) != len(samples):
            logger.error("%r gave %d verdicts for %d completions.", self.__name__, len(judged), len(samples))
            return [grader_error("wrong_number_of_verdicts")] * len(samples)
        return [as_verdict(verdict, self.score_range) for verdict in judged]

    def check_columns(self, columns: Collection[str]) -> None:  # noqa: B027  # most verifiers need none
        """Raise a ValueError if a dataset with these columns cannot be judged. By default every dataset can."""

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows of a dataset that cannot be judged, and why. By default none is known of.

        `thorough` looks for what takes long to find, as `trl-grpo-ext check-data` does.
        """
        return []

    def for_limit(self, tokens: int) -> Verifier:
        """Return this verifier for completions that are cut after so many tokens; most are the same for any."""
        return self

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        """Figures of a batch to log besides the shares of its statuses; the same keys for every batch.

        Each is a mean over the verdicts, so that several ranks can be averaged.
        """
        return {}

    def facts(self) -> dict[str, str]:
        """What a run's summary should say of where this verifier does its work."""
        return {}

    def close(self) -> None:  # noqa: B027  # most verifiers hold nothing
        """Give back what the verifier holds. It may be used again afterwards."""


class BatchVerifier(Verifier):
    """Judges a batch at once, as what asks workers or a server does. Subclasses implement `judge_samples`."""

    @abstractmethod
    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        """Judge a batch, one verdict a sample, in order. Never raises."""

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def judge_questions(
        self,
        subjects: Sequence[S],
        prepare: Callable[[S], Q | Verdict],
        judge: Callable[[Sequence[Q]], Sequence[Verdict]],
    ) -> list[Verdict]:
        """A verdict a subject: that of `prepare`, or what `judge` says of its question, asked about all at once."""
        prepared = [self.guarded(prepare, subject) for subject in subjects]
        questions = [each for each in prepared if not isinstance(each, Verdict)]
        judged = iter(judge(questions) if questions else ())
        return [each if isinstance(each, Verdict) else next(judged) for each in prepared]


def is_whole_number(value: object, *, least: int) -> TypeGuard[int]:
    """Whether a setting is a whole number, of `least` or more, and no bool."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def is_number(value: object) -> TypeGuard[float]:
    """Whether a setting is a finite number, and no bool."""
    return not isinstance(value, bool) and isinstance(value, Real) and abs(value) <= sys.float_info.max  # type: ignore[operator]


def check_timeout(timeout: object) -> None:
    """Raise a ValueError unless this is a number of seconds above 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"timeout is a number of seconds above 0, got {timeout!r}.")


def check_lengths(columns: Mapping[str, Any], size: int) -> None:
    """Raise a ValueError if a column is a list that has not one value a completion."""
    for name, values in columns.items():
        if isinstance(values, list | tuple) and len(values) != size and name not in TRL_EXTRAS:
            raise ValueError(f"The column `{name}` has {len(values)} values for {size} completions; it needs one each.")


def required_column(columns: Collection[str], wanted: Sequence[str], *, verifier: Verifier) -> None:
    """Raise a ValueError unless one of the `wanted` columns is there; `prompt` never is, for a reward function."""
    if not any(column in columns and column != "prompt" for column in wanted):
        have = ", ".join(f"`{column}`" for column in columns) or "none"
        have += "; TRL keeps `prompt` to itself" if "prompt" in wanted else ""
        others = {*columns} - {"prompt"}
        near = next((f"Did you mean `{near}`? " for name in wanted if (near := nearest(name, others, 0.75))), "")
        name = verifier.__name__
        raise ValueError(
            f"The verifier {name!r} needs the dataset column {' or '.join(f'`{each}`' for each in wanted)}, "
            f"with one value a completion; the columns are: {have}. {near}Name the right one by the verifier's "
            f'`column`: {{verifier: {name}, column: NAME}}, or in Python {type(verifier).__name__}(column="NAME").'
        )


def first_value(row: Mapping[str, Any], columns: Sequence[str]) -> Any:
    """The first value that is there and not None among these columns of a row, else None."""
    return next((row[column] for column in columns if row.get(column) is not None), None)


_once = Once()


def warn_once(name: str, error: Exception) -> None:
    """Show the traceback of each kind of failure of what has this name once, not once a completion."""
    kind = type(error)
    _once.warn(logger, (name, kind), "%r raised %s; such rows get no score.", name, kind.__name__, error=error)


def warn_of_zeros(name: str, unscored: Sequence[bool], columns: Mapping[str, Any]) -> None:
    """Say once that the calling trainer may count what has no score as 0.

    TRL's Online DPO and SDPO do. They pass `trainer_state` and no `log_metric`; trainers that leave such rows out pass
    both, or, as AsyncGRPO does, neither.
    """
    if any(unscored) and "trainer_state" in columns and "log_metric" not in columns:
        message = "%r has no score for %d of %d completions. TRL's Online DPO and SDPO count that as 0; %s"
        advice = '`RewardTerm(..., on_unscored="raise")` in a mix ends such a run.'
        _once.warn(logger, (name, "zeros"), message, name, sum(unscored), len(unscored), advice)


LogExtra = Callable[[str, list[Any]], None]
LogMetric = Callable[[str, float], None]


# Of the completions table, and what they show of a verdict.
COLUMNS: Mapping[str, Callable[[Verdict], str | None]] = {
    "status": lambda verdict: str(verdict.status),
    "answer": lambda verdict: verdict.answer,
    "reason": lambda verdict: verdict.reason,
    "details": lambda verdict: "; ".join(f"{key}: {value}" for key, value in verdict.details.items()),
}


def log_columns(name: str, verdicts: Sequence[Verdict | None], log_extra: LogExtra | None) -> None:
    """Log verdicts as columns of TRL's completions table, by its `log_extra`, if it passed one.

    Every column is logged on every call, in one order, because TRL matches them up over ranks and steps. A verdict is
    None where the term does not apply.
    """
    if log_extra is not None:
        for column, shown in COLUMNS.items():
            log_extra(f"{name}/{column}", [shown(verdict) if verdict else None for verdict in verdicts])


def log_figures(figures: Mapping[str, float], log_metric: LogMetric | None) -> None:
    """Log figures by TRL's `log_metric`, if it passed one; the same names in the same order on every call."""
    if log_metric is not None:
        for name, value in figures.items():
            log_metric(name, value)


def status_shares(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The share of each status among the verdicts; all of them 0 if there are none."""
    statuses = [verdict.status for verdict in verdicts]
    return {str(status): statuses.count(status) / max(len(statuses), 1) for status in Status}
