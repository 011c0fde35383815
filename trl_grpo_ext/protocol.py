"""The verifier: an object that looks at a completion and returns a verdict. It has no weight and no schedule.

A verifier is also a TRL reward function, so it can be handed to any TRL trainer as it is. To write one, either
decorate a function with `verifier`, or subclass `Verifier` and implement `verify`.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pickle
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from trl_grpo_ext.error_text import error_text
from trl_grpo_ext.sample import TRL_EXTRAS, Completion, Sample, samples_from_columns
from trl_grpo_ext.verdict import Verdict, as_verdict, grader_error
from trl_grpo_ext.verdict_log import log_columns, log_figures, status_shares

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from trl_grpo_ext.data_check import DataProblem

S = TypeVar("S")
T = TypeVar("T")


class Verifier(ABC):
    """Judges completions one by one; also a TRL reward function.

    Subclasses implement `verify`. Those that hold what cannot be pickled (processes, locks) must create it
    lazily and outside their state: verifiers travel to workers and to AsyncGRPO's child process by pickle.

    Attributes:
        name: The metric key, `__name__` for TRL; by default made of the class name, `MathVerifier` -> `math`.

    Example:
        >>> class Short(Verifier):
        ...     def verify(self, sample):
        ...         return as_verdict(len(sample.text) < 10)
        >>> Short()(["brief", "not so brief at all"])
        [1.0, 0.0]
    """

    name: str | None = None

    @abstractmethod
    def verify(self, sample: Sample) -> Verdict:
        """Judge one completion. A bad completion is a verdict, never an exception."""

    @property
    def __name__(self) -> str:
        return self.name or _snake_case(type(self).__qualname__.rpartition(".")[2].removesuffix("Verifier"))

    def __call__(self, completions: Sequence[Completion], **columns: Any) -> list[float | None]:
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
        return [verdict.score for verdict in verdicts]

    def judge(self, completions: Sequence[Completion], **columns: Any) -> list[Verdict]:
        """As `__call__`, but whole verdicts, with the reasons."""
        samples = samples_from_columns(completions, columns)
        if samples:
            check_lengths(columns, len(samples))
            self.check_columns(samples[0].row)
        return self.judge_samples(samples)

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        """Judge a batch, one verdict a sample, in order. Never raises: a verifier that fails is an ERROR verdict."""
        return [self.guarded(self._timed, sample) for sample in samples]

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
        return [as_verdict(verdict) for verdict in judged]

    def check_columns(self, columns: Collection[str]) -> None:  # noqa: B027  # most verifiers need none
        """Raise a ValueError if a dataset with these columns cannot be judged. By default every dataset can."""

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows of a dataset that cannot be judged, and why. By default none is known of.

        Args:
            rows: The rows, as mappings.
            thorough: Whether to look for what takes long to find, as `trl-grpo-ext check-data` does.
        """
        return []

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

    def _timed(self, sample: Sample) -> Verdict:
        started = time.perf_counter()
        verdict = as_verdict(self.verify(sample))
        return verdict if verdict.seconds else replace(verdict, seconds=time.perf_counter() - started)


class FunctionVerifier(Verifier):
    """What `@verifier` makes of a function; it pickles by the function's qualified name."""

    def __init__(self, function: Callable[[Sample], object], *, name: str | None, isolated: bool, timeout: float):
        self.function = function
        self.name = name or function.__name__
        self.isolated = isolated
        self.timeout = timeout
        self.__doc__ = function.__doc__

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0] if self.isolated else as_verdict(self.function(sample))

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        if not self.isolated:
            return super().judge_samples(samples)
        # Imported here because most verifiers never need a worker.
        from trl_grpo_ext.execution.workers import judge_in_workers

        self._check_findable()
        target = f"{self.function.__module__}:{self.function.__qualname__}.run_here"
        return judge_in_workers(target, [(sample,) for sample in samples], timeout=self.timeout)

    def run_here(self, sample: Sample) -> dict[str, Any]:
        """Judge in this process, as a record. Called inside a worker."""
        return as_verdict(self.function(sample)).to_record()

    def __reduce__(self) -> tuple[Callable[[str, str], object], tuple[str, str]]:
        try:
            self._check_findable()
        except ValueError as error:
            raise pickle.PicklingError(str(error)) from None
        return find_object, (self.function.__module__, self.function.__qualname__)

    def close(self) -> None:
        """End this process's workers, if this verifier uses them; they are started again when they are needed."""
        if self.isolated:
            close_workers()

    def _check_findable(self) -> None:
        """Raise a ValueError unless another process finds this verifier under its function's name."""
        module, qualname = self.function.__module__, self.function.__qualname__
        try:
            found = find_object(module, qualname)
        except (ImportError, AttributeError):
            found = None
        if found is not self:
            raise ValueError(
                f"No other process can find the verifier {self.name!r} as {module}.{qualname}. Define its function at "
                f"the top level of a module, with @verifier on it, so that the name holds the verifier."
            )

    def __repr__(self) -> str:
        return f"<verifier {self.function.__module__}.{self.function.__qualname__}>"


def find_object(module: str, qualname: str) -> object:
    """The object of that qualified name; raises ImportError or AttributeError."""
    found: object = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


@overload
def verifier(function: Callable[[Sample], object], /) -> FunctionVerifier: ...
@overload
def verifier(
    *, name: str | None = None, isolated: bool = False, timeout: float = 5.0
) -> Callable[[Callable[[Sample], object]], FunctionVerifier]: ...
def verifier(
    function: Callable[[Sample], object] | None = None,
    /,
    *,
    name: str | None = None,
    isolated: bool = False,
    timeout: float = 5.0,
) -> FunctionVerifier | Callable[[Callable[[Sample], object]], FunctionVerifier]:
    """Make a verifier of a function that takes a `Sample`.

    The function returns a bool, a number or a `Verdict` (see `as_verdict` for how each is read). An exception is
    a verdict that blames the grader, not the end of the run.

    Args:
        name: The metric key; the function's name by default.
        isolated: Run it in a worker process that is killed after `timeout` seconds. Use it for whatever may hang
            on hostile text. The function must then stand at the top level of an importable module, not in the
            script that is run: workers never import `__main__`.
        timeout: Seconds that an isolated function has for one completion.

    Raises:
        ValueError: for an isolated function that a worker could not import.
        TypeError: for an `async` function.

    Example:
        >>> @verifier
        ... def mentions_gold(sample):
        ...     return sample.row["solution"] in sample.text
        >>> mentions_gold(["It is 4.", "It is 5."], solution=["4", "4"])
        [1.0, 0.0]
    """

    def decorate(function: Callable[[Sample], object]) -> FunctionVerifier:
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"@verifier does not take async functions, and {function.__name__!r} is one. "
                f"Pass an async reward function to the trainer as it is."
            )
        if isolated:
            _check_importable(function)
        return FunctionVerifier(function, name=name, isolated=isolated, timeout=timeout)

    return decorate if function is None else decorate(function)


def _check_importable(function: Callable[..., object]) -> None:
    where = None
    if function.__module__ == "__main__":
        where = "in the script that is run (__main__), which workers never import"
    elif "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        where = "inside another function, where workers cannot find it"
    if where:
        raise ValueError(
            f"The isolated verifier {function.__name__!r} is defined {where}. Move it to a module, at top level."
        )


def check_timeout(timeout: object) -> None:
    """Raise a ValueError unless this is a number of seconds above 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"timeout is a number of seconds above 0, got {timeout!r}.")


def close_workers() -> None:
    """End this process's workers, if it has any; they are started again when they are needed."""
    workers = sys.modules.get("trl_grpo_ext.execution.workers")
    if workers is not None:
        workers.close_shared_pool()


def check_lengths(columns: Mapping[str, Any], size: int) -> None:
    """Raise a ValueError if a column is a list that has not one value a completion."""
    for name, values in columns.items():
        if isinstance(values, list | tuple) and len(values) != size and name not in TRL_EXTRAS:
            raise ValueError(f"The column `{name}` has {len(values)} values for {size} completions; it needs one each.")


def required_column(columns: Collection[str], wanted: Sequence[str], *, verifier: str) -> None:
    """Raise a ValueError unless one of the `wanted` columns is there; `prompt` never is, for a reward function."""
    if not any(column in columns and column != "prompt" for column in wanted):
        have = ", ".join(f"`{column}`" for column in columns) or "none"
        have += "; TRL keeps `prompt` to itself" if "prompt" in wanted else ""
        raise ValueError(
            f"The verifier {verifier!r} needs the dataset column {' or '.join(f'`{name}`' for name in wanted)}, "
            f"with one value a completion; the columns are: {have}. Rename the column, or name it: column=..."
        )


def first_value(row: Mapping[str, Any], columns: Sequence[str]) -> Any:
    """The first value that is there and not None among these columns of a row, else None."""
    return next((row[column] for column in columns if row.get(column) is not None), None)


_warned: set[tuple[str, type]] = set()


def warn_once(name: str, error: Exception) -> None:
    """Show the traceback of each kind of failure of what has this name once, not once a completion."""
    if (name, type(error)) not in _warned:
        _warned.add((name, type(error)))
        logger.warning(
            "%r raised %s; such rows are not trained on. This is shown once.",
            name,
            type(error).__name__,
            exc_info=error,
        )


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
