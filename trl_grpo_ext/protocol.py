"""Verifiers judge completions and return verdicts. They have no weight and no schedule.

A verifier is also a TRL reward function, so any TRL trainer accepts it. To write a verifier, decorate a function with
`verifier`, or subclass `Verifier` and implement `verify`.
"""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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
    """A dataset row that a verifier cannot judge.

    `row` is the row number, from 0; `reason` is the code of the row's verdicts under the reward term `term`; `value` is
    the row's content as text; `advice` tells the user what to do.
    """

    row: int
    reason: str
    value: str
    advice: str
    term: str = ""


def problems_of(
    reasons: Iterable[str], values: Iterable[object], advice: Mapping[str, str]
) -> list[DataProblem]:
    """List the problems of rows, given a reason code per row (empty for a valid row) and the rows' contents."""
    problems = []
    for row, (reason, value) in enumerate(zip(reasons, values, strict=True)):
        if reason:
            problems.append(
                DataProblem(row=row, reason=reason, value=str(value), advice=advice[reason])
            )
    return problems


class Verifier(ABC):
    """A judge of single completions that is also a TRL reward function.

    Subclasses implement `verify`. Verifiers are pickled for workers and for AsyncGRPO's child process, so a subclass
    must create unpicklable objects (processes, locks) lazily and outside its state.

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
        """Judge one completion; return a verdict even for a bad completion, never raise."""

    @property
    def __name__(self) -> str:
        own = type(self).__qualname__.rpartition(".")[2].removesuffix("Verifier")
        return self.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", own).lower()

    def __call__(
        self, /, completions: Sequence[Completion], **columns: Any
    ) -> list[float | None]:
        """Return one finite score per completion, None where there is no score: TRL's reward protocol.

        Args:
            completions: Strings, or conversations (lists of messages).
            **columns: The dataset's columns, one list each, and TRL's extras (`prompts`, `completion_ids`,
                `trainer_state`, `log_extra`, `log_metric`, `environments`), all optional. Others are ignored.

        Raises:
            ValueError: if a needed column is missing, or a column's length is not the number of completions.
        """
        verdicts = self.judge(completions, **columns)
        figures = status_shares(verdicts) | self.metrics(verdicts)
        log_columns(self.__name__, verdicts, columns.get("log_extra"))
        log_figures(
            {f"verified/{self.__name__}/{key}": share for key, share in figures.items()},
            columns.get("log_metric"),
        )
        warn_of_zeros(
            self.__name__, [verdict.score is None for verdict in verdicts], columns
        )
        return [verdict.score for verdict in verdicts]

    def judge(self, /, completions: Sequence[Completion], **columns: Any) -> list[Verdict]:
        """Return whole verdicts, with reasons, for the arguments of `__call__`."""
        samples = samples_from_columns(completions, columns)
        if samples:
            check_lengths(columns, len(samples))
            self.check_columns(samples[0].row)
        return self.judge_samples(samples)

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        """Judge a batch; return one verdict per sample, in order. Never raises: failures are ERROR verdicts."""
        verdicts = []
        for sample in samples:
            started = time.perf_counter()
            if not seconds_left():
                verdicts.append(grader_error(BUDGET_SPENT))
                continue
            verdict = as_verdict(self.guarded(self.verify, sample), self.score_range)
            # A verifier may know its time better, such as that of a worker.
            if not verdict.seconds:
                verdict = replace(verdict, seconds=time.perf_counter() - started)
            verdicts.append(verdict)
        return verdicts

    def guarded(self, step: Callable[[S], T], subject: S) -> T | Verdict:
        """Return `step(subject)`, or a grader error if `step` raises."""
        try:
            return step(subject)
        except Exception as error:
            warn_once(self.__name__, error)
            return grader_error(f"raised_{type(error).__name__}", error=error_text(error))

    def guarded_batch(
        self,
        judge: Callable[[Sequence[Sample]], Sequence[object]],
        samples: Sequence[Sample],
    ) -> list[Verdict]:
        """Return one verdict per sample, even if `judge` raises or returns too few."""
        judged = self.guarded(judge, samples)
        if isinstance(judged, Verdict):
            return [judged] * len(samples)
        if len(judged) != len(samples):
            logger.error(
                "%r gave %d verdicts for %d completions.",
                self.__name__,
                len(judged),
                len(samples),
            )
            return [grader_error("wrong_number_of_verdicts")] * len(samples)
        return [as_verdict(verdict, self.score_range) for verdict in judged]

    def check_columns(self, columns: Collection[str]) -> None:  # noqa: B027  # most verifiers need none
        """Raise a ValueError if a dataset lacks columns for judging. The default accepts every dataset."""

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the dataset rows that cannot be judged, with reasons; none by default.

        `thorough` adds slow checks, for `trl-grpo-ext check-data`.
        """
        return []

    def for_limit(self, tokens: int) -> Verifier:
        """Return this verifier for completions cut after `tokens` tokens; most verifiers ignore the limit."""
        return self

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        """Return extra figures of a batch for the logs, with constant keys; each is a mean over the verdicts.

        Means let the trainer average the figures of several ranks.
        """
        return {}

    def facts(self) -> dict[str, str]:
        """Return facts for the run's summary, such as a judge's server or the sandbox's isolation level."""
        return {}

    def close(self) -> None:  # noqa: B027  # most verifiers hold nothing
        """Release the verifier's resources, such as processes. The verifier remains usable."""


class BatchVerifier(Verifier):
    """A verifier that judges whole batches, such as by workers or a server. Subclasses implement `judge_samples`."""

    @abstractmethod
    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        """Judge a batch; return one verdict per sample, in order. Never raises."""

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def judge_questions(
        self,
        subjects: Sequence[S],
        prepare: Callable[[S], Q | Verdict],
        judge: Callable[[Sequence[Q]], Sequence[Verdict]],
    ) -> list[Verdict]:
        """Return a verdict per subject: made by `prepare`, or by `judge`, which gets all prepared questions at once."""
        prepared = [self.guarded(prepare, subject) for subject in subjects]
        questions = [each for each in prepared if not isinstance(each, Verdict)]
        judged = iter(judge(questions) if questions else ())
        return [each if isinstance(each, Verdict) else next(judged) for each in prepared]


# Control characters that double quotes make of a backslash and a letter, in YAML and in Python.
_FROM_BACKSLASHES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\v": r"\v"}


def check_backslashes(name: str, text: str) -> None:
    r"""Raise a ValueError if a pattern has a control character: double quotes make a backspace of `\b`.

    Examples:
        >>> check_backslashes("pattern", r"\bhowever\b")
    """
    for character, written in _FROM_BACKSLASHES.items():
        if character in text:
            raise ValueError(
                f"The {name} {text!r} has the control character {character!r} in place of {written}, since double "
                f"quotes take the backslash away. In YAML put it in single quotes, '{written}...', and in Python write "
                f"r'{written}...'. A backslash that the matched text has is two there: '\\\\boxed'."
            )


def check_lengths(columns: Mapping[str, Any], size: int) -> None:
    """Raise a ValueError if a column's length differs from `size`, the number of completions."""
    for name, values in columns.items():
        if (
            isinstance(values, list | tuple)
            and len(values) != size
            and name not in TRL_EXTRAS
        ):
            raise ValueError(
                f"The column `{name}` has {len(values)} values for {size} completions; it needs one each."
            )


def required_column(
    columns: Collection[str], wanted: Sequence[str], *, verifier: Verifier
) -> None:
    """Raise a ValueError unless a `wanted` column exists; TRL passes no `prompt` to reward functions."""
    others = {*columns} - {"prompt"}
    if others.intersection(wanted):
        return
    have = ", ".join(f"`{column}`" for column in columns) or "none"
    if "prompt" in wanted:
        have += "; TRL keeps `prompt` to itself"
    hint = ""
    for column in wanted:
        near = nearest(column, others, 0.75)
        if near:
            hint = f"Did you mean `{near}`? "
            break
    needed = " or ".join(f"`{column}`" for column in wanted)
    name = verifier.__name__
    raise ValueError(
        f"The verifier {name!r} needs the dataset column {needed}, "
        f"with one value a completion; the columns are: {have}. {hint}Name the right one by the verifier's "
        f'`column`: {{verifier: {name}, column: NAME}}, or in Python {type(verifier).__name__}(column="NAME").'
    )


def first_value(row: Mapping[str, Any], columns: Sequence[str]) -> Any:
    """Return the first value among columns of a row that is not None, else None."""
    return next((row[column] for column in columns if row.get(column) is not None), None)


_once = Once()


def warn_once(name: str, error: Exception) -> None:
    """Log the traceback of each kind of exception once per name, not once per completion."""
    kind = type(error)
    _once.warn(
        logger,
        (name, kind),
        "%r raised %s; such rows get no score.",
        name,
        kind.__name__,
        error=error,
    )


def warn_of_zeros(name: str, unscored: Sequence[bool], columns: Mapping[str, Any]) -> None:
    """Warn once if the calling trainer may count missing scores as 0.

    TRL's Online DPO and SDPO do: they pass `trainer_state` but no `log_metric`. Trainers that leave such rows out pass
    both, or, like AsyncGRPO, neither.
    """
    if any(unscored) and "trainer_state" in columns and "log_metric" not in columns:
        message = "%r has no score for %d of %d completions. TRL's Online DPO and SDPO count that as 0; %s"
        advice = '`RewardTerm(..., on_unscored="raise")` in a mix ends such a run.'
        _once.warn(
            logger, (name, "zeros"), message, name, sum(unscored), len(unscored), advice
        )


LogExtra = Callable[[str, list[Any]], None]
LogMetric = Callable[[str, float], None]


# The columns of the completions table, and the text that each shows of a verdict.
COLUMNS: Mapping[str, Callable[[Verdict], str | None]] = {
    "status": lambda verdict: str(verdict.status),
    "answer": lambda verdict: verdict.answer,
    "reason": lambda verdict: verdict.reason,
    "details": lambda verdict: "; ".join(
        f"{key}: {value}" for key, value in verdict.details.items()
    ),
}


def log_columns(
    name: str, verdicts: Sequence[Verdict | None], log_extra: LogExtra | None
) -> None:
    """Log verdicts as columns of TRL's completions table through `log_extra`, unless it is None.

    Every call logs every column in a fixed order, since TRL matches columns over ranks and steps. A verdict is None
    where the term does not apply.
    """
    if log_extra is not None:
        for column, shown in COLUMNS.items():
            log_extra(
                f"{name}/{column}",
                [shown(verdict) if verdict else None for verdict in verdicts],
            )


def log_figures(figures: Mapping[str, float], log_metric: LogMetric | None) -> None:
    """Log figures through TRL's `log_metric`, unless it is None; calls must use the same names in the same order."""
    if log_metric is not None:
        for name, value in figures.items():
            log_metric(name, value)


def status_shares(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return the share of each status among the verdicts; zeros if there are none."""
    statuses = [verdict.status for verdict in verdicts]
    return {
        str(status): statuses.count(status) / max(len(statuses), 1) for status in Status
    }
