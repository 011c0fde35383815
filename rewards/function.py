"""Verifiers made of functions: what `@verifier` gives, and TRL's plain reward functions in a recipe."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Callable, Collection, Sequence
from typing import Any, overload

from trl_grpo_ext.protocol import BatchVerifier, Verifier
from trl_grpo_ext.sample import TRL_EXTRAS, Sample
from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.verdict import ScoreRange, Verdict, as_verdict, check_score_range, grader_error, placed
from trl_grpo_ext.workers.pool import close_workers, judge_in_workers


class FunctionVerifier(Verifier):
    """What `@verifier` makes of a function; it pickles by the function's qualified name."""

    def __init__(
        self,
        function: Callable[[Sample], object],
        *,
        name: str | None,
        isolated: bool,
        timeout: float,
        score_range: ScoreRange | None = None,
    ) -> None:
        self.function = function
        self.score_range = check_score_range(score_range)
        self.name = name or function.__name__
        self.isolated = isolated
        self.timeout = timeout
        self.__doc__ = function.__doc__

    def verify(self, sample: Sample) -> Verdict:
        if self.isolated:
            return self.judge_samples([sample])[0]
        return as_verdict(self.function(sample), self.score_range)

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        if not self.isolated:
            return super().judge_samples(samples)
        self._check_findable()
        target = f"{self.function.__module__}:{self.function.__qualname__}.run_here"
        judged = judge_in_workers(target, [(sample,) for sample in samples], timeout=self.timeout)
        return [placed(verdict, self.score_range) for verdict in judged]

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


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class PlainFunction(BatchVerifier):
    """A plain TRL reward function as a verifier: its numbers are scores, and nothing says why they are.

    It is called as TRL calls it, in this process; `trainer_state` is None, and what it logs is dropped.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(getattr(function, "__name__", type(function).__name__))
        self.function = function

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError if the function takes a column that the data does not have."""
        if missing := missing_columns(self.function, columns):
            raise ValueError(needs_columns(self.__name__, missing, columns))

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return self.guarded_batch(self._call, samples)

    def _call(self, samples: Sequence[Sample]) -> list[Verdict]:
        return call_plain(self.function, *as_trl_calls(samples)) if samples else []


def missing_columns(function: Callable[..., Any], columns: Collection[str]) -> list[str]:
    """Return the parameters of a plain function that neither TRL nor a column gives a value.

    Examples:
        >>> def exact(completions, answer, strict=True, **kwargs): ...
        >>> missing_columns(exact, ["solution"]), missing_columns(exact, ["answer"])
        (['answer'], [])
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some of C
        return []
    needed = [each.name for each in parameters if each.default is each.empty and each.kind not in VARIABLE]
    return [name for name in needed if name not in {"completions", *TRL_EXTRAS, *columns}]


def needs_columns(name: str, missing: Sequence[str], columns: Collection[str]) -> str:
    """Say which of its parameters a plain function gets no value for."""
    have = ", ".join(f"`{column}`" for column in columns if column != "prompt") or "none"
    return (
        f"The function {name!r} takes {', '.join(f'`{each}`' for each in missing)}, and the data has no such column; "
        f"its columns are: {have}. TRL passes each column under its own name: rename the parameter, or the column."
    )


def as_trl_calls(samples: Sequence[Sample]) -> tuple[list[Any], dict[str, list[Any]]]:
    """Return completions and columns as TRL passes them: conversations where prompts are, or else texts."""
    completions = [
        sample.text if isinstance(sample.prompt, str) else sample.messages or [_said(sample.text)] for sample in samples
    ]
    columns = {name: [sample.row.get(name) for sample in samples] for name in samples[0].row}
    ids = [list(sample.completion_ids or ()) for sample in samples]
    return completions, {"prompts": [sample.prompt for sample in samples], "completion_ids": ids, **columns}


def call_plain(function: Any, completions: Sequence[Any], columns: dict[str, list[Any]]) -> list[Verdict]:
    """Return the verdicts that a plain function's scores are; the same error for all if it gives too few."""
    scores = function(completions=completions, trainer_state=None, log_extra=_ignored, log_metric=_ignored, **columns)
    if inspect.isawaitable(scores):
        scores = asyncio.run(_awaited(scores))
    scores = list(scores)
    if len(scores) != len(completions):
        return [grader_error(f"{len(scores)}_scores_for_{len(completions)}_completions")] * len(completions)
    return [as_verdict(score) for score in scores]


def _said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


async def _awaited(scores: Any) -> Any:
    return await scores


def _ignored(*_: object) -> None:
    """TRL's logging, which is not needed here."""


@overload
def verifier(function: Callable[[Sample], object], /) -> FunctionVerifier: ...
@overload
def verifier(
    *,
    name: str | None = None,
    isolated: bool = False,
    timeout: float = 5.0,
    score_range: ScoreRange | None = None,
) -> Callable[[Callable[[Sample], object]], FunctionVerifier]: ...
def verifier(
    function: Callable[[Sample], object] | None = None,
    /,
    *,
    name: str | None = None,
    isolated: bool = False,
    timeout: float = 5.0,
    score_range: ScoreRange | None = None,
) -> FunctionVerifier | Callable[[Callable[[Sample], object]], FunctionVerifier]:
    """Make a verifier of a function that takes a `Sample`.

    The function returns a bool, a number or a `Verdict` (see `as_verdict` for how each is read). An exception is
    a verdict that blames the grader, not the end of the run.

    Args:
        function: What judges a sample.
        name: The metric key; the function's name by default.
        isolated: Run it in a worker process that is killed after `timeout` seconds. Use it for whatever may hang
            on hostile text. The function must then stand at the top level of an importable module, not in the
            script that is run: workers never import `__main__`.
        timeout: Seconds that an isolated function has for one completion.
        score_range: The lowest and the highest number that the function can return, such as `(0, 50)` or `(-1, 0)`;
            the highest is right. Without it a number is a score, neither right nor wrong.

    Raises:
        ValueError: for an isolated function that a worker could not import, or a range that is none.
        TypeError: for an `async` function, and for what is no function, such as a `partial`.

    Examples:
        >>> @verifier
        ... def mentions_gold(sample):
        ...     return sample.row["solution"] in sample.text
        >>> mentions_gold(["It is 4.", "It is 5."], solution=["4", "4"])
        [1.0, 0.0]
    """

    def decorate(function: Callable[[Sample], object]) -> FunctionVerifier:
        if isinstance(function, type) or not hasattr(function, "__qualname__"):
            raise TypeError(
                f"@verifier takes a function, and this is a {type(function).__name__}. Write a function that calls it, "
                f"or a subclass of Verifier for what has settings."
            )
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"@verifier does not take async functions, and {function.__name__!r} is one. "
                f"Pass an async reward function to the trainer as it is."
            )
        if isolated:
            _check_importable(function)
        return FunctionVerifier(function, name=name, isolated=isolated, timeout=timeout, score_range=score_range)

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
