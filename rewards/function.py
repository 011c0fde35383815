"""Verifiers made of functions: the decorator `@verifier`, and TRL's plain reward functions as terms of a mix."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard, overload

from trl_grpo_ext.protocol import BatchVerifier, Verifier
from trl_grpo_ext.sample import TRL_EXTRAS, Sample
from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.verdict import (
    ScoreRange,
    Verdict,
    as_verdict,
    check_score_range,
    grader_error,
    placed,
    skipped,
)
from trl_grpo_ext.workers.pool import close_workers, judge_in_workers


class FunctionVerifier(Verifier):
    """A verifier around a function, made by `@verifier`; pickled by the qualified name of the function."""

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
        # A worker finds this verifier by the function's name, which must lead here.
        self._check_findable()
        target = f"{self.function.__module__}:{self.function.__qualname__}.run_here"
        arguments = [(sample,) for sample in samples]
        judged = judge_in_workers(target, arguments, timeout=self.timeout)
        # A record from a worker has a bare score; the range is applied here.
        return [placed(verdict, self.score_range) for verdict in judged]

    def run_here(self, sample: Sample) -> dict[str, Any]:
        """Judge one sample in this process, and return the verdict as a record. Workers call this method."""
        return as_verdict(self.function(sample)).to_record()

    def __reduce__(self) -> tuple[Callable[[str, str], object], tuple[str, str]]:
        try:
            self._check_findable()
        except ValueError as error:
            raise pickle.PicklingError(str(error)) from None
        return find_object, (self.function.__module__, self.function.__qualname__)

    def close(self) -> None:
        """Stop all workers of this process if the verifier is isolated; the next use of a worker starts new ones."""
        if self.isolated:
            close_workers()

    def _check_findable(self) -> None:
        """Raise a ValueError unless importing the function by its qualified name yields this verifier."""
        module = self.function.__module__
        qualname = self.function.__qualname__
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


# Parameters that take any number of arguments.
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


DOES_NOT_APPLY = "does_not_apply"
"""Reason of a plain function's None: as in TRL, the reward does not apply to the row. A mix drops such a verdict."""


class PlainFunction(BatchVerifier):
    """A plain TRL reward function as a verifier: its numbers become scores without reasons.

    The function runs in this process, with TRL's arguments; `trainer_state` is None, and its logged values are dropped.
    As in TRL, its None means that the reward does not apply to the row, and its NaN that it could not judge the row. A
    function with a parameter `completion_ids` cannot judge completions of unknown tokens (`tokens_unknown`).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(getattr(function, "__name__", type(function).__name__))
        self.function = function

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError for a function without `**kwargs`, or with a parameter that has no dataset column."""
        if not takes_extras(self.function):
            raise ValueError(
                f"The function {self.__name__!r} has no **kwargs, and TRL passes it each column of the dataset and "
                f"more. Add **kwargs to its parameters."
            )
        missing = missing_columns(self.function, columns)
        if missing:
            raise ValueError(needs_columns(self.__name__, missing, columns))

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return self.guarded_batch(self._call, samples)

    def _call(self, samples: Sequence[Sample]) -> list[Verdict]:
        if not samples:
            return []
        takes_tokens = any(
            parameter.name == "completion_ids" for parameter in _parameters(self.function)
        )
        if takes_tokens and any(sample.completion_ids is None for sample in samples):
            # Recorded completions may have no tokens; none at all would look like empty completions.
            return [grader_error("tokens_unknown")] * len(samples)
        completions, columns = as_trl_calls(samples)
        started = time.perf_counter()
        verdicts = call_plain(self.function, completions, columns)
        # A batch has one time: each completion is given an equal part.
        share = (time.perf_counter() - started) / len(verdicts)
        return [replace(verdict, seconds=share) for verdict in verdicts]


def is_plain_function(found: object) -> TypeGuard[Callable[..., Any]]:
    """Return whether an object is a plain TRL reward function: a callable that takes `completions`, and no class."""
    if isinstance(found, type) or not callable(found):
        return False
    for parameter in _parameters(found):
        # A function of `**kwargs` alone gets `completions` among them.
        if parameter.name == "completions" or parameter.kind is parameter.VAR_KEYWORD:
            return True
    return False


def takes_extras(function: Callable[..., Any]) -> bool:
    """Return whether a function takes any argument by name; True where that is unknown."""
    parameters = _parameters(function)
    # Without a signature, only a call can tell.
    if not parameters:
        return True
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Some functions written in C have no signature.
        return []


def missing_columns(function: Callable[..., Any], columns: Collection[str]) -> list[str]:
    """List the required parameters of a plain reward function that neither TRL nor a dataset column supplies.

    Examples:
        >>> def exact(completions, answer, strict=True, **kwargs): ...
        >>> missing_columns(exact, ["solution"]), missing_columns(exact, ["answer"])
        (['answer'], [])
    """
    supplied = {"completions", *TRL_EXTRAS, *columns}
    missing = []
    for parameter in _parameters(function):
        is_required = (
            parameter.default is parameter.empty and parameter.kind not in VARIABLE
        )
        if is_required and parameter.name not in supplied:
            missing.append(parameter.name)
    return missing


def needs_columns(name: str, missing: Sequence[str], columns: Collection[str]) -> str:
    """Write the error message for a plain reward function whose parameters have no dataset column."""
    # TRL passes the prompts under another name, `prompts`.
    others = [column for column in columns if column != "prompt"]
    have = _quoted(others) or "none"
    return (
        f"The function {name!r} takes {_quoted(missing)}, and the data has no such column; "
        f"its columns are: {have}. TRL passes each column under its own name: rename the parameter, or the column."
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def as_trl_calls(samples: Sequence[Sample]) -> tuple[list[Any], dict[str, list[Any]]]:
    """Return completions and columns in TRL's form: a conversation for a conversational prompt, else a text."""
    completions = [_as_trl_completion(sample) for sample in samples]
    columns: dict[str, list[Any]] = {
        "prompts": [sample.prompt for sample in samples],
        "completion_ids": [list(sample.completion_ids or ()) for sample in samples],
    }
    # All rows of a batch have the same columns.
    for name in samples[0].row:
        columns[name] = [sample.row.get(name) for sample in samples]
    return completions, columns


def _as_trl_completion(sample: Sample) -> Any:
    if isinstance(sample.prompt, str):
        return sample.text
    # Messages have the tool calls, which the text lacks.
    if sample.messages:
        return sample.messages
    return [{"role": "assistant", "content": sample.text}]


def call_plain(
    function: Any, completions: Sequence[Any], columns: dict[str, list[Any]]
) -> list[Verdict]:
    """Call a plain reward function, and turn its scores into verdicts; grader errors if the score count is wrong."""
    scores = function(
        completions=completions,
        trainer_state=None,
        log_extra=_ignored,
        log_metric=_ignored,
        **columns,
    )
    # TRL awaits async reward functions too.
    if inspect.isawaitable(scores):
        scores = asyncio.run(_awaited(scores))
    wanted = len(completions)
    # A function that returns nothing, or one number for the whole batch, is a usual mistake.
    if not isinstance(scores, Iterable):
        return [_no_list(scores)] * wanted
    scores = list(scores)
    if len(scores) != wanted:
        many = "1 score" if len(scores) == 1 else f"{len(scores)} scores"
        what = f"The function returned {many} for {wanted} completions"
        failed = grader_error("wrong_number_of_scores", error=what)
        return [failed] * wanted
    return [_verdict_of(score) for score in scores]


def _no_list(returned: object) -> Verdict:
    kind = type(returned).__name__
    what = f"The function returned {kind}, and TRL expects a list with one number per completion"
    if returned is None:
        what += " (is a `return` missing?)"
    return grader_error(f"returned_{kind}", error=what)


def _verdict_of(score: object) -> Verdict:
    if score is None:
        return skipped(DOES_NOT_APPLY)
    verdict = as_verdict(score)
    kind = type(score).__name__
    if verdict.reason != f"returned_{kind}":
        return verdict
    what = f"The function returned {score!r:.40}, a {kind}, in its list, and TRL expects numbers"
    return grader_error(verdict.reason, error=what)


async def _awaited(scores: Any) -> Any:
    return await scores


def _ignored(*_: object) -> None:
    """Stand in for TRL's `log_extra` and `log_metric`; the logged values are dropped."""


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
    """Make a verifier from a function that takes a `Sample`.

    The function returns a bool, a number or a `Verdict` (`as_verdict` converts each to a verdict). If the function
    raises, the sample gets an ERROR verdict that blames the grader, and the run goes on.

    Args:
        function: The function that judges a sample.
        name: The metric key; the function's name by default.
        isolated: Run the function in a worker process, which is killed after `timeout` seconds. Set it for a function
            that hostile text may hang. Define the function at the top level of an importable module, not in the
            script that you run: workers never import `__main__`.
        timeout: Time limit of an isolated function for one completion, in seconds.
        score_range: The lowest and the highest number that the function can return, such as `(0, 50)` or `(-1, 0)`;
            the highest is right. Without it a number is a score, neither right nor wrong.

    Raises:
        ValueError: if a worker could not import the isolated function, or for an invalid range.
        TypeError: if `function` is `async`, or is not a function, such as a class or a `partial`.

    Examples:
        >>> @verifier
        ... def mentions_gold(sample):
        ...     return sample.row["solution"] in sample.text
        >>> mentions_gold(["It is 4.", "It is 5."], solution=["4", "4"])
        [1.0, 0.0]
    """

    def decorate(function: Callable[[Sample], object]) -> FunctionVerifier:
        _check_judges_samples(function)
        if isolated:
            _check_importable(function)
        return FunctionVerifier(
            function,
            name=name,
            isolated=isolated,
            timeout=timeout,
            score_range=score_range,
        )

    # `@verifier` passes the function at once, `@verifier(...)` in a second call.
    if function is None:
        return decorate
    return decorate(function)


def _check_judges_samples(function: Callable[..., object]) -> None:
    """Raise a TypeError for a class, a plain reward function of TRL, or an async function."""
    # A `partial` has no qualified name, by which a worker would find the function.
    if isinstance(function, type) or not hasattr(function, "__qualname__"):
        raise TypeError(
            f"@verifier takes a function, and this is a {type(function).__name__}. Write a function that calls it, "
            f"or a subclass of Verifier for what has settings."
        )
    names = [parameter.name for parameter in _parameters(function)]
    if "completions" in names:
        raise TypeError(
            f"@verifier takes a function of one Sample, and {function.__name__!r} is a plain reward function of "
            f"TRL, which takes `completions`. Use it as it is: RewardTerm(name=..., verifier={function.__name__})."
        )
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"@verifier does not take async functions, and {function.__name__!r} is one. "
            f"Pass an async reward function to the trainer as it is."
        )


def _check_importable(function: Callable[..., object]) -> None:
    if function.__module__ == "__main__":
        where = "in the script that is run (__main__), which workers never import"
    elif "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        where = "inside another function, where workers cannot find it"
    else:
        return
    raise ValueError(
        f"The isolated verifier {function.__name__!r} is defined {where}. Move it to a module, at top level."
    )
