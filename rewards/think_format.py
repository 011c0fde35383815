"""Reasoning in `<think>` tags, before the answer."""

from __future__ import annotations

from dataclasses import dataclass

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True, kw_only=True)
class ThinkFormatVerifier(Verifier):
    """One think block, at the very start, closed, and then the answer.

    Many chat templates (DeepSeek-R1, QwQ, Qwen3 thinking) put the opening tag into the prompt, so that it is never
    part of the completion, and a reward that insists on it is always 0 (trl#6966). `VerifiedGRPOTrainer` knows the
    template; so does a string prompt that ends with the tag. Where nobody knows, a completion may leave it out.

    Args:
        prefilled: Whether the prompt opens the think block; None finds out as described.
        min_chars: The least number of characters, white space at the ends aside, that the block must hold.
        name: The metric key.

    | completion | score | reason |
    |---|---|---|
    | `<think>2+2=4</think>4` | 1 | |
    | `2+2=4</think>4`, the prompt opens the block | 1 | |
    | `2+2=4</think>4`, nobody knows | 1 | `prefill_assumed` |
    | `2+2=4</think>4`, the prompt does not | 0 | `no_think` |
    | `4` | 0 | `no_think` |
    | `<think>2+2=4` | 0 | `unclosed_think` |
    | `So: <think>2+2=4</think>4` | 0 | `text_before_think` |
    | `<think>2+2<think>=4</think>4` | 0 | `several_thinks` |
    | `<think></think>4` with `min_chars=1` | 0 | `short_think` |

    Example:
        >>> ThinkFormatVerifier()(["<think>2+2=4</think>4", "4"])
        [1.0, 0.0]
    """

    prefilled: bool | None = None
    min_chars: int = 0
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.min_chars, int) or self.min_chars < 0:
            raise ValueError(f"min_chars is a number of characters, 0 or more; got {self.min_chars}.")

    def verify(self, sample: Sample) -> Verdict:
        prefilled = self._is_prefilled(sample)
        text = sample.text
        assumed = prefilled is None and OPEN not in text and CLOSE in text
        if assumed or prefilled:
            text = OPEN + text
        problem = self._problem(text)
        if problem:
            return Verdict(status=Status.INCORRECT, score=0.0, reason=problem)
        return Verdict(status=Status.CORRECT, score=1.0, reason="prefill_assumed" if assumed else "")

    def _is_prefilled(self, sample: Sample) -> bool | None:
        if self.prefilled is not None:
            return self.prefilled
        return None if sample.prefill is None else sample.prefill.startswith(OPEN)

    def _problem(self, text: str) -> str:
        before, opening, after = text.partition(OPEN)
        if not opening:
            return "no_think"
        thought, closing, answer = after.partition(CLOSE)
        if OPEN in after:
            return "several_thinks"
        if before.strip():
            return "text_before_think"
        if not closing:
            return "unclosed_think"
        if CLOSE in answer:
            return "several_thinks"
        return "short_think" if len(thought.strip()) < self.min_chars else ""


think_format_reward = ThinkFormatVerifier(name="think_format_reward")
"""`ThinkFormatVerifier` with its defaults, ready for a list of reward functions."""
