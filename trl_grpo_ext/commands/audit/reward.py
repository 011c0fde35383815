"""Load the reward to audit as a verifier: a shipped verifier, a recipe's sum, or any TRL reward function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from trl_grpo_ext.answers.golds import GOLD_COLUMNS
from trl_grpo_ext.commands.arguments import rewards_entry
from trl_grpo_ext.commands.audit.task import Kind
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.protocol import BatchVerifier, Verifier
from trl_grpo_ext.rewards.bases.answer_verifier import GoldVerifier
from trl_grpo_ext.rewards.composed import Composition, Rescored
from trl_grpo_ext.rewards.function import (
    FunctionVerifier,
    PlainFunction,
    as_trl_calls,
    call_plain,
    missing_columns,
    needs_columns,
)
from trl_grpo_ext.rewards.registry import import_named
from trl_grpo_ext.rewards.unit_tests.verifier import UnitTestVerifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.verdict import Verdict, as_verdict, grader_error
from trl_grpo_ext.workers.call import Call, Failure
from trl_grpo_ext.workers.pool import shared_pool

# Time limits in seconds: for a batch, and for each completion alone after its batch has failed.
BATCH_SECONDS, ONE_SECONDS = 60.0, 5.0
# Once so many completions have failed alone, over all batches, completions of a failed batch are not retried.
MOST_FAILED = 8


def reward_named(written: str) -> Verifier:
    """Return a reward by name: registered verifier, `module.attribute`, or entry of a recipe's `rewards` in braces.

    Raises:
        ValueError: if the name is unknown, or names no reward.
    """
    is_entry = written.lstrip().startswith("{")
    if (
        not is_entry
        and (":" in written or "." in written)
        and not isinstance(found := import_named(written), type)
    ):
        return _as_reward(found, written)
    ((_, verifier),) = build_mix(
        [rewards_entry(written, "the reward")], each="the reward"
    ).verifiers
    return verifier


def gold_columns(reward: Verifier) -> tuple[str, ...]:
    """Return gold-answer columns of the reward and its terms, in order; `GOLD_COLUMNS` if they name none."""
    # A dict keeps the order and drops repeated names.
    golds: dict[str, None] = {}
    for part in _parts(reward):
        if isinstance(part, GoldVerifier):
            golds |= dict.fromkeys(part.gold_columns)
    return tuple(golds) or GOLD_COLUMNS


def program_reader(reward: Verifier) -> UnitTestVerifier | None:
    """Return the first part of the reward that runs programs; None without one."""
    for part in _parts(reward):
        if isinstance(part, UnitTestVerifier):
            return part
    return None


def read_under(reward: Verifier, columns: Collection[str]) -> tuple[str, ...]:
    """Return column names under which this reward reads a gold from another column.

    A verifier reads its own gold column. A function reads a parameter: its only parameter without a column, if there is
    exactly one.
    """
    names: list[str] = []
    for part in _parts(reward):
        if isinstance(part, GoldVerifier):
            names.append(part.gold_columns[0])
        elif len(missing := _missing(part, columns)) == 1:
            names += missing
    return tuple(dict.fromkeys(names))


def check_parameters(reward: Verifier, columns: Collection[str]) -> None:
    """Raise a ValueError if a function's parameter matches no data column."""
    if missing := _missing(reward, columns):
        told = needs_columns(reward.__name__, missing, columns)
        raise ValueError(
            f"{told} For this audit, --gold COLUMN passes it a column of another name."
        )


def _missing(reward: Verifier, columns: Collection[str]) -> list[str]:
    if isinstance(reward, FunctionReward):
        function: Any = find_object(reward.module, reward.attribute)
        return missing_columns(function, columns)
    return (
        missing_columns(reward.function, columns)
        if isinstance(reward, PlainFunction)
        else []
    )


def _parts(reward: Verifier) -> Iterator[Verifier]:
    """Yield the reward and, recursively, the verifiers inside it."""
    yield reward
    members: Iterable[Verifier] = ()
    if isinstance(reward, MixReward):
        members = (verifier for _, verifier in reward.mix.verifiers)
    elif isinstance(reward, Composition):
        members = reward.verifiers
    elif isinstance(reward, Rescored):
        members = (reward.correctness,)
    for member in members:
        yield from _parts(member)


def is_shipped(reward: Verifier) -> bool:
    """Return whether only the package's own verifiers judge: users set them and mend the rows, but write no code."""
    for part in _parts(reward):
        is_written = isinstance(part, FunctionReward | FunctionVerifier | PlainFunction)
        if is_written or not type(part).__module__.startswith("trl_grpo_ext."):
            return False
    return True


def check_attack(reward: Verifier, kind: Kind) -> None:
    """Raise a ValueError if a policy would write programs and the reward may run them outside a sandbox."""
    functions = [part.name for part in _parts(reward) if isinstance(part, FunctionReward)]
    if kind == "program" and functions:
        raise ValueError(
            f"--attack lets a policy write programs, and nothing says that the function {functions[0]!r} runs them in "
            f"a sandbox. Make it a Verifier that does, or leave --attack out: the probes' programs do no harm."
        )


def _as_reward(found: object, name: str) -> Verifier:
    if isinstance(found, Verifier):
        return found
    if not callable(found):
        raise ValueError(
            f"{name!r} is no reward function and no verifier, but {found!r:.80}."
        )
    module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    return FunctionReward(module, attribute)


class MixReward(BatchVerifier):
    """A recipe's weighted sum of rewards at the first training step; its name lists weights and terms."""

    def __init__(self, mix: RewardMix, recipe: str) -> None:
        terms = [
            f"{weight:g} {name}"
            for name, weight in mix.weights_at(0.0, step=0).items()
            if weight
        ]
        self._written = mix
        # A function may end its process by a probe, which would end the audit without a word.
        self.mix = RewardMix([_with_own_process(term) for term in mix.terms])
        self.name = f"{recipe} ({' + '.join(terms)})"

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        card = self.mix.score(samples, step=0)
        by_sample = zip(*card.verdicts.values(), strict=True)
        found = []
        for total, verdicts in zip(card.totals, by_sample, strict=True):
            found.append(_unscored(verdicts) if total is None else as_verdict(total))
        return found

    def check_columns(self, columns: Collection[str]) -> None:
        self._written.check_columns(columns)

    def close(self) -> None:
        self.mix.close()


def _with_own_process(term: RewardTerm) -> RewardTerm:
    """Return a term whose plain function runs in a worker process, if another process can find the function."""
    if not isinstance(term.verifier, PlainFunction):
        return term
    function = term.verifier.function
    module = getattr(function, "__module__", None) or "__main__"
    attribute = getattr(function, "__qualname__", "")
    try:
        is_found = module != "__main__" and find_object(module, attribute) is function
    except (ImportError, AttributeError):
        is_found = False
    return replace(term, verifier=FunctionReward(module, attribute)) if is_found else term


def _unscored(verdicts: Sequence[Verdict | None]) -> Verdict:
    for verdict in verdicts:
        if verdict is not None and verdict.score is None:
            return verdict
    # No term applies to the completion.
    return as_verdict(None)


class FunctionReward(BatchVerifier):
    """A TRL reward function, run in a worker process; a function that hangs is killed.

    An exception, a hang, too few scores and NaN become verdicts that blame the grader; in a training they would end the
    run or spoil it. The function's module may not be `__main__`.
    """

    def __init__(self, module: str, attribute: str) -> None:
        self.module, self.attribute = module, attribute
        self.name = attribute.rpartition(".")[2]
        self._failed = 0

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        if not samples:
            return []
        self._failed = 0
        judged = self._call(samples, BATCH_SECONDS)
        if isinstance(judged, list):
            return judged
        # Retry each completion alone, to blame only the completions on which the function fails.
        return [self._alone(sample, judged) for sample in samples]

    def _alone(self, sample: Sample, failure: Verdict) -> Verdict:
        if self._failed >= MOST_FAILED:
            return failure
        judged = self._call([sample], ONE_SECONDS)
        if isinstance(judged, list):
            return judged[0]
        self._failed += 1
        return judged

    def _call(self, samples: Sequence[Sample], seconds: float) -> list[Verdict] | Verdict:
        arguments = (self.module, self.attribute, *as_trl_calls(samples))
        (result,) = shared_pool().run(
            [Call(target=f"{__name__}:call_reward", arguments=arguments)], timeout=seconds
        )
        if result.failure is None:
            return [Verdict(**record) for record in result.value]
        if result.failure in (Failure.TIMEOUT, Failure.WAITED):
            return grader_error("hangs", seconds=result.seconds)
        return grader_error(f"raised_{result.detail or result.failure}", error=result.error)


def call_reward(
    module: str, attribute: str, completions: Sequence[Any], columns: dict[str, list[Any]]
) -> list[dict[str, Any]]:
    """Call a function inside a worker, and return its scores as records of verdicts."""
    verdicts = call_plain(find_object(module, attribute), completions, columns)
    return [verdict.to_record() for verdict in verdicts]
