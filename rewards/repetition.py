"""Repeated token n-grams: TRL's repetition penalty, with a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.token_budget import is_number, is_whole_number
from trl_grpo_ext.rewards.trl_factories import check_trl_has, trl_factory
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict, grader_error

FACTORY, SINCE = "get_repetition_penalty_reward", "1.7"


@dataclass(frozen=True, kw_only=True)
class RepetitionVerifier(Verifier):
    """Punishes a completion for the share of its token n-grams that it has said before.

    Loops are how a policy fills a length that is rewarded. The formula is TRL's
    (`trl.rewards.get_repetition_penalty_reward`, from TRL 1.7 on). Honest text repeats some n-grams too, a program or a
    long calculation most of all: watch the term as a shadow, of weight 0, before you train on it, or take longer
    n-grams.

    Args:
        ngram_size: Tokens in an n-gram, 1 or more. A completion with fewer tokens scores 0.
        max_penalty: The score of a completion that only repeats itself, 0 or less.
        name: The metric key.

    | tokens, with `ngram_size=2` | score | reason |
    |---|---|---|
    | `1 2 3 4` | 0 | |
    | `5 5 5 5 5` | -0.75 | `repeated_ngrams` |
    | none, or too few for one n-gram | 0 | |
    | nobody knows (`completion_ids` is None) | none, the grader's fault | `tokens_unknown` |

    Raises:
        ValueError: for an `ngram_size` below 1, a `max_penalty` above 0, or a TRL before 1.7.

    Example:
        >>> RepetitionVerifier(ngram_size=2)(["a b c d", "e e e e e"], completion_ids=[[1, 2, 3, 4], [5] * 5])
        [0.0, -0.75]

    Source: Demystifying Long Chain-of-Thought Reasoning, appendix C.2 (https://huggingface.co/papers/2502.03373).
    """

    ngram_size: int = 3
    max_penalty: float = -1.0
    name: str | None = None

    def __post_init__(self) -> None:
        if not is_whole_number(self.ngram_size, least=1):
            raise ValueError(f"ngram_size is a number of tokens, 1 or more; got {self.ngram_size!r}.")
        if not is_number(self.max_penalty) or self.max_penalty > 0:
            raise ValueError(f"max_penalty is the lowest score, a number of 0 or less; got {self.max_penalty!r}.")
        check_trl_has(FACTORY, since=SINCE)

    def verify(self, sample: Sample) -> Verdict:
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        penalty = trl_factory(FACTORY, since=SINCE)(self.ngram_size, self.max_penalty)
        (score,) = penalty(completion_ids=[list(sample.completion_ids)])
        if score == 0:
            return Verdict(status=Status.CORRECT, score=0.0)
        return Verdict(status=Status.INCORRECT, score=score, reason="repeated_ngrams")


if TYPE_CHECKING:
    repetition_reward: RepetitionVerifier
    """`RepetitionVerifier` with its defaults, ready for a list of reward functions."""


def __getattr__(name: str) -> RepetitionVerifier:
    # Made when it is asked for: with a TRL before 1.7 the class can still be imported, and says what it needs.
    if name != "repetition_reward":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return RepetitionVerifier(name=name)
