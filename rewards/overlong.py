"""Completions that come near their length limit: TRL's soft overlong punishment, with a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.token_budget import is_whole_number
from trl_grpo_ext.rewards.trl_factories import trl_factory
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict, grader_error


@dataclass(frozen=True, kw_only=True)
class OverlongVerifier(Verifier):
    """Punishes the last tokens before a length limit, softly: 0, then down to -1 at the limit.

    Beside an accuracy reward it keeps a model from running into `max_completion_length`, where its answer would be cut
    off. It never rewards being short. The formula is DAPO's, as TRL has it in `get_soft_overlong_punishment`.

    A completion is as long as its `completion_ids`, which a TRL trainer always passes on; the end token counts.

    Args:
        max_completion_len: Tokens from which on the punishment is -1; as a rule the trainer's
            `max_completion_length`.
        soft_punish_cache: Tokens before that, over which the punishment grows; 0 punishes only what is longer. DAPO
            takes a fifth of the limit.
        name: The metric key.

    | tokens, with `max_completion_len=100, soft_punish_cache=20` | score | reason |
    |---|---|---|
    | 80 or fewer | 0 | |
    | 90 | -0.5 | `near_limit` |
    | 100 or more | -1 | `overlong` |
    | nobody knows (`completion_ids` is None) | none, the grader's fault | `tokens_unknown` |

    Raises:
        ValueError: for lengths that are no whole numbers, or a soft zone that is longer than the limit.

    Example:
        >>> verifier = OverlongVerifier(max_completion_len=100, soft_punish_cache=20)
        >>> verifier(["short", "long", "too long"], completion_ids=[[1] * 80, [1] * 90, [1] * 101])
        [0.0, -0.5, -1.0]

    Source: DAPO, eq. 13 (https://huggingface.co/papers/2503.14476).
    """

    max_completion_len: int
    soft_punish_cache: int
    name: str | None = None

    def __post_init__(self) -> None:
        if not is_whole_number(self.max_completion_len, least=1):
            raise ValueError(
                f"max_completion_len is a number of tokens, 1 or more, such as the trainer's max_completion_length; "
                f"got {self.max_completion_len!r}."
            )
        if not is_whole_number(self.soft_punish_cache, least=0) or self.soft_punish_cache > self.max_completion_len:
            raise ValueError(
                f"soft_punish_cache is how many of the {self.max_completion_len} tokens of max_completion_len are "
                f"punished softly, from 0 to all of them; got {self.soft_punish_cache!r}."
            )

    def verify(self, sample: Sample) -> Verdict:
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        factory = trl_factory("get_soft_overlong_punishment", since="1.6")
        (score,) = factory(self.max_completion_len, self.soft_punish_cache)(completion_ids=[sample.completion_ids])
        if score == 0:
            return Verdict(status=Status.CORRECT, score=0.0)
        return Verdict(status=Status.INCORRECT, score=score, reason="near_limit" if score > -1 else "overlong")
