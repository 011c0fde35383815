"""Rewards of a completion's length against the trainer's limit: DAPO's soft punishment, and the cosine."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.composed import Rescored
from trl_grpo_ext.rewards.math import MathVerifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_whole, is_number
from trl_grpo_ext.verdict import Status, Verdict, grader_error

BOUNDS = ("min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct")
_A_LIMIT = "a number of tokens, such as the trainer's max_completion_length"


@dataclass(frozen=True, kw_only=True)
class OverlongVerifier(Verifier):
    """Penalizes completions near the length limit: the score falls linearly from 0 to -1 at the limit.

    Beside an accuracy reward, the penalty keeps a model from reaching `max_completion_length`, where its answer would
    be cut off. Short completions gain nothing. The formula is DAPO's, from TRL's `get_soft_overlong_punishment`.

    The length is the number of `completion_ids`, the end token and the results of tools included. Every TRL trainer
    except A2PO's passes `completion_ids`.

    Args:
        max_completion_len: The length in tokens at which the score reaches -1. By default the `max_completion_length`
            of `VerifiedGRPOTrainer` or of the recipe; TRL's own trainers do not pass it.
        soft_punish_cache: The number of tokens before the limit over which the penalty grows; 0 penalizes only longer
            completions. By default a fifth of the limit, as in DAPO.
        name: The metric key.

    | tokens, with `max_completion_len=100, soft_punish_cache=20` | score | reason |
    |---|---|---|
    | 80 or fewer | 0 | |
    | 90 | -0.5 | `near_limit` |
    | 100 or more | -1 | `overlong` |
    | unknown (`completion_ids` is None) | none, the grader's fault | `tokens_unknown` |
    | any, without a known limit | none, the grader's fault | `limit_unknown` |

    Raises:
        ValueError: if a length is not a whole number, or `soft_punish_cache` exceeds the limit.

    Examples:
        >>> verifier = OverlongVerifier(max_completion_len=100, soft_punish_cache=20)
        >>> verifier(["short", "long", "too long"], completion_ids=[[1] * 80, [1] * 90, [1] * 101])
        [0.0, -0.5, -1.0]

    Source: DAPO, eq. 13 (https://huggingface.co/papers/2503.14476).
    """

    max_completion_len: int | None = None
    soft_punish_cache: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        # The trainer tells the limit later, by `for_limit`, which makes a copy and so checks it.
        if self.max_completion_len is None:
            return
        check_whole("max_completion_len", self.max_completion_len, _A_LIMIT, least=1)
        check_whole(
            "soft_punish_cache",
            self._cache,
            "the number of tokens at the end of max_completion_len that are punished softly",
            least=0,
            most=self.max_completion_len,
        )

    @property
    def _cache(self) -> int:
        if self.soft_punish_cache is not None:
            return self.soft_punish_cache
        if self.max_completion_len is None:
            return 0
        # A fifth is DAPO's share: 4,096 of 20,480 tokens.
        return self.max_completion_len // 5

    def for_limit(self, tokens: int) -> OverlongVerifier:
        """Return a copy with the trainer's token limit; an explicit `max_completion_len` stays."""
        if self.max_completion_len is not None:
            return self
        return replace(self, max_completion_len=tokens)

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError where no limit is known, whatever the columns are."""
        _check_limit(self, self.max_completion_len, "max_completion_len")

    def verify(self, sample: Sample) -> Verdict:
        if self.max_completion_len is None:
            return grader_error("limit_unknown")
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        unpunished = self.max_completion_len - self._cache
        beyond = len(sample.completion_ids) - unpunished
        if beyond <= 0:
            return Verdict(status=Status.CORRECT, score=0.0)
        # With a cache of 0 this is never true, so nothing is divided by 0.
        if beyond < self._cache:
            return Verdict(
                status=Status.INCORRECT, score=-beyond / self._cache, reason="near_limit"
            )
        return Verdict(status=Status.INCORRECT, score=-1.0, reason="overlong")


def _check_limit(verifier: Verifier, limit: int | None, setting: str) -> None:
    if limit is None:
        raise ValueError(
            f"The verifier {verifier.__name__!r} does not know the limit of completions, since only "
            f"VerifiedGRPOTrainer and recipes tell it: set {setting} to the max_completion_length."
        )


@dataclass(frozen=True, kw_only=True)
class CosineLengthVerifier(Rescored):
    r"""Scores correctness by length, along a cosine: short right answers and long wrong answers score higher.

    Use it instead of an accuracy reward, to steer the length of the chain of thought: after a wrong answer, more
    thinking is worth trying. The formula is the paper's, as in `trl.rewards.get_cosine_scaled_reward`. The verifier
    `correctness` decides on right and wrong, in its worker process or sandbox; TRL's own function would compare
    formulas in the trainer's process.

    Among wrong answers, the longest scores best, so a policy that cannot solve a task learns to fill the length. Add a
    `RepetitionVerifier`, as the paper does. The length includes tokens that tools returned.

    Args:
        max_len: The length in tokens at the long end of the scale; by default the `max_completion_length` of
            `VerifiedGRPOTrainer` or of the recipe. TRL's own trainers do not tell it.
        min_value_wrong: The score of a wrong answer of 0 tokens.
        max_value_wrong: The score of a wrong answer of `max_len` tokens or more.
        min_value_correct: The score of a right answer of `max_len` tokens or more.
        max_value_correct: The score of a right answer of 0 tokens.
        correctness: The verifier of the answer. Only its verdict `correct` counts as right; `partial` counts as wrong.
        name: The metric key.

    | completion, with `max_len=100` | score | status and reason |
    |---|---|---|
    | right, 0 tokens | 1 | from `correctness` |
    | right, 50 tokens | 0.75 | from `correctness` |
    | right, 100 tokens or more | 0.5 | from `correctness` |
    | wrong, 0 tokens | -1 | from `correctness` |
    | wrong, 50 tokens | -0.75 | from `correctness` |
    | wrong, 100 tokens or more | -0.5 | from `correctness` |
    | partly right | as wrong | `incorrect`, the reason from `correctness` |
    | `correctness` gives no score | none | from `correctness`, with its blame |
    | of unknown length (`completion_ids` is None) | none, the grader's fault | `tokens_unknown` |
    | any, where no limit is known | none, the grader's fault | `limit_unknown` |

    Raises:
        ValueError: for a `max_len` below 1, scores not in rising order, or a `correctness` that is not a verifier.

    Examples:
        >>> verifier = CosineLengthVerifier(max_len=100)
        >>> verifier([r"\boxed{4}", r"\boxed{5}"], solution=["4", "4"], completion_ids=[[1] * 50, [1] * 50])
        [0.75, -0.75]

    Source: Demystifying Long Chain-of-Thought Reasoning, appendix C.1 (https://huggingface.co/papers/2502.03373).
    """

    max_len: int | None = None
    min_value_wrong: float = -1.0
    max_value_wrong: float = -0.5
    min_value_correct: float = 0.5
    max_value_correct: float = 1.0
    correctness: Verifier = field(default_factory=MathVerifier)
    name: str | None = None

    def __post_init__(self) -> None:
        if self.max_len is not None:
            check_whole("max_len", self.max_len, _A_LIMIT, least=1)
        bounds = [getattr(self, bound) for bound in BOUNDS]
        if not all(is_number(bound) for bound in bounds) or bounds != sorted(bounds):
            raise ValueError(
                f"{', '.join(BOUNDS)} are numbers in rising order, or a wrong answer could beat a right one; "
                f"got {', '.join(map(repr, bounds))}."
            )
        super().__post_init__()

    def for_limit(self, tokens: int) -> CosineLengthVerifier:
        """Return a copy with the trainer's limit; return this verifier if its limit is set."""
        if self.max_len is not None:
            return self
        return replace(self, max_len=tokens)

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError where no limit is known, or where `correctness` lacks a column."""
        _check_limit(self, self.max_len, "max_len")
        super().check_columns(columns)

    def rescored(self, sample: Sample, verdict: Verdict) -> Verdict:
        if self.max_len is None:
            return grader_error("limit_unknown")
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        status = verdict.status
        # Only right and wrong answers have a curve.
        if status is Status.PARTIAL:
            status = Status.INCORRECT
        # The results of tools may lead beyond the limit, where the cosine would rise again.
        progress = min(len(sample.completion_ids) / self.max_len, 1.0)
        score = self._score(status is Status.CORRECT, progress)
        return replace(verdict, status=status, score=score)

    def _score(self, is_right: bool, progress: float) -> float:
        """Interpolate the score along half a cosine, from 0 tokens (progress 0) to `max_len` tokens (progress 1)."""
        if is_right:
            shortest = self.max_value_correct
            longest = self.min_value_correct
        else:
            shortest = self.min_value_wrong
            longest = self.max_value_wrong
        # Falls from 2 to 0.
        cosine = 1 + math.cos(math.pi * progress)
        return longest + (shortest - longest) * cosine / 2
