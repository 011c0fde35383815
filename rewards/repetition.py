"""Repeated token n-grams: TRL's repetition penalty, with a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.prose.ngrams import repeated_share
from trl_grpo_ext.rewards.token_budget import is_number, is_whole_number
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict, grader_error


@dataclass(frozen=True, kw_only=True)
class RepetitionVerifier(Verifier):
    """Punishes a completion for the share of its token n-grams that it has said before.

    Loops are how a policy fills a length that is rewarded. The formula is that of TRL's
    `get_repetition_penalty_reward`. Honest text repeats some n-grams too, a program or a long calculation most of all:
    watch the term as a shadow, of weight 0, before you train on it, or take longer n-grams.

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
        ValueError: for an `ngram_size` below 1, or a `max_penalty` above 0.

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

    def verify(self, sample: Sample) -> Verdict:
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        score = self.max_penalty * repeated_share(sample.completion_ids, self.ngram_size)
        if score == 0:
            return Verdict(status=Status.CORRECT, score=0.0)
        return Verdict(status=Status.INCORRECT, score=score, reason="repeated_ngrams")


repetition_reward = RepetitionVerifier(name="repetition_reward")
"""`RepetitionVerifier` with its defaults, ready for a list of reward functions."""
