"""Correctness and length in one score: TRL's cosine-scaled reward, with the correctness from a verifier of ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from trl_grpo_ext.protocol import DataProblem, Verifier
from trl_grpo_ext.rewards.math import MathVerifier
from trl_grpo_ext.rewards.token_budget import is_number, is_whole_number
from trl_grpo_ext.rewards.trl_factories import check_trl_has, trl_factory
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict, grader_error

FACTORY, SINCE = "get_cosine_scaled_reward", "1.7"
BOUNDS = ("min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct")

# TRL's callable judges mathematics itself. It gets an answer that is surely right, or surely wrong, instead of the
# model's, which could hang it for ever; so the correctness is ours and the formula stays TRL's.
STAND_IN = [{"role": "assistant", "content": r"\boxed{1}"}]
RIGHT_GOLD, WRONG_GOLD = "$1$", "$2$"


@dataclass(frozen=True, kw_only=True)
class CosineLengthVerifier(Verifier):
    r"""A right answer scores more if it is short, a wrong one less; between them, a cosine of the length.

    It takes the place of the accuracy reward, and steers the length of a chain of thought: a wrong answer is worth a
    longer try. The formula is TRL's (`trl.rewards.get_cosine_scaled_reward`, from TRL 1.7 on). What is right is said by
    `correctness`, in its worker process or sandbox, where TRL's own would compare formulas in the trainer's process.

    A wrong answer of full length scores best among the wrong ones, so a policy that cannot solve a task learns to fill
    the length. Put a `RepetitionVerifier` beside it, as the paper does.

    Args:
        max_len: Tokens at which the long end of the scale is reached; as a rule the trainer's `max_completion_length`.
        min_value_wrong: The score of a wrong answer of no length.
        max_value_wrong: The score of a wrong answer of `max_len` tokens or more.
        min_value_correct: The score of a right answer of `max_len` tokens or more.
        max_value_correct: The score of a right answer of no length.
        correctness: Says what is right: a verdict of `correct`. Anything less, `partial` too, is wrong.
        name: The metric key.

    | completion, with `max_len=100` | score | status and reason |
    |---|---|---|
    | right, 0 tokens | 1 | those of `correctness` |
    | right, 50 tokens | 0.75 | those of `correctness` |
    | right, 100 tokens or more | 0.5 | those of `correctness` |
    | wrong, 0 tokens | -1 | those of `correctness` |
    | wrong, 50 tokens | -0.75 | those of `correctness` |
    | wrong, 100 tokens or more | -0.5 | those of `correctness` |
    | partly right | as wrong | `incorrect` |
    | `correctness` has no score for it | none | those of `correctness`, with its blame |
    | nobody knows its length (`completion_ids` is None) | none, the grader's fault | `tokens_unknown` |

    Raises:
        ValueError: for a `max_len` below 1, scores that are not in rising order, a `correctness` that is none, or a TRL
            before 1.7.

    Example:
        >>> verifier = CosineLengthVerifier(max_len=100)
        >>> verifier([r"\boxed{4}", r"\boxed{5}"], solution=["4", "4"], completion_ids=[[1] * 50, [1] * 50])
        [0.75, -0.75]

    Source: Demystifying Long Chain-of-Thought Reasoning, appendix C.1 (https://huggingface.co/papers/2502.03373).
    """

    max_len: int
    min_value_wrong: float = -1.0
    max_value_wrong: float = -0.5
    min_value_correct: float = 0.5
    max_value_correct: float = 1.0
    correctness: Verifier = field(default_factory=MathVerifier)
    name: str | None = None

    def __post_init__(self) -> None:
        if not is_whole_number(self.max_len, least=1):
            raise ValueError(
                f"max_len is a number of tokens, 1 or more, such as the trainer's max_completion_length; "
                f"got {self.max_len!r}."
            )
        bounds = [getattr(self, bound) for bound in BOUNDS]
        if not all(is_number(bound) for bound in bounds) or bounds != sorted(bounds):
            raise ValueError(
                f"{', '.join(BOUNDS)} are numbers in rising order, or a wrong answer could beat a right one; "
                f"got {', '.join(map(repr, bounds))}."
            )
        if not isinstance(self.correctness, Verifier):
            raise ValueError(
                f"correctness says what is right, and must be a Verifier such as MathVerifier(); "
                f"got {self.correctness!r}."
            )
        check_trl_has(FACTORY, since=SINCE)

    def check_columns(self, columns: Collection[str]) -> None:
        self.correctness.check_columns(columns)

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows that `correctness` cannot judge."""
        return self.correctness.check_rows(rows, thorough=thorough)

    def facts(self) -> dict[str, str]:
        """Where `correctness` does its work."""
        return self.correctness.facts()

    def close(self) -> None:
        """Close `correctness`."""
        self.correctness.close()

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        judged = self.guarded_batch(self.correctness.judge_samples, samples)
        return [self.guarded(self._scaled, pair) for pair in zip(samples, judged, strict=True)]

    def _scaled(self, pair: tuple[Sample, Verdict]) -> Verdict:
        sample, inner = pair
        if inner.score is None:
            return inner
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        status = Status.INCORRECT if inner.status is Status.PARTIAL else inner.status
        score = _score(self._scale, status is Status.CORRECT, len(sample.completion_ids))
        return replace(inner, status=status, score=score)

    @property
    def _scale(self) -> tuple[float, ...]:
        return (self.max_len, *(getattr(self, bound) for bound in BOUNDS))


@lru_cache(maxsize=65_536)
def _score(scale: tuple[float, ...], right: bool, length: int) -> float:
    """TRL's score of a right or a wrong answer of this length; remembered, since math-verify looks at each stand-in."""
    gold = RIGHT_GOLD if right else WRONG_GOLD
    scaled = trl_factory(FACTORY, since=SINCE)(*scale)
    (score,) = scaled(completions=[STAND_IN], solution=[gold], completion_ids=[[0] * length])
    if score is None:
        raise RuntimeError("TRL's accuracy_reward could not read a gold of one digit")
    return float(score)
