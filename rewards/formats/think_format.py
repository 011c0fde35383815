"""Reasoning in `<think>` tags, before the answer."""

from __future__ import annotations

from dataclasses import dataclass

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.answers.said import visible
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True, kw_only=True)
class ThinkFormatVerifier(Verifier):
    """One think block, at the very start, closed, and then the answer.

    Many chat templates (DeepSeek-R1, QwQ, Qwen3 thinking) put the opening tag into the prompt, so that it is never
    part of the completion, and a reward that insists on it is always 0 (trl#6966). `VerifiedGRPOTrainer` knows the
    template; so does a string prompt that ends with the tag. Where that is unknown, a completion may leave it out.

    Args:
        prefilled: Whether the prompt opens the think block; None finds out as described.
        min_chars: The least number of visible characters, white space at the ends aside, that the block must hold. 0
            lets the empty block pass that a model writes in a mode without thinking, such as Qwen3's.
        graded: Score the share of the parts that are right, each of them only together with what it needs: an opening
            tag, the only one, at the very start, unless the prompt has it; a closing tag, the only one, of a block
            that is long enough, after the only opening tag; an answer after such a block. For a model that is too
            weak for all of it at once.
        name: The metric key.

    | completion | score | `graded` | reason |
    |---|---|---|---|
    | `<think>2+2=4</think>4` | 1 | 1 | |
    | `2+2=4</think>4`, the prompt opens the block | 1 | 1 | |
    | `2+2=4</think>4`, prefill unknown | 1 | 1 | `prefill_assumed` |
    | `2+2=4</think>4`, the prompt does not | 0 | 0 | `no_think` |
    | `4` | 0 | 0 | `no_think` |
    | `<think>2+2=4` | 0 | 1/3 | `unclosed_think` |
    | `2+2=4`, the prompt opens the block | 0 | 0 | `unclosed_think` |
    | `So: <think>2+2=4</think>4` | 0 | 2/3 | `text_before_think` |
    | `<think>2+2<think>=4</think>4` | 0 | 0 | `several_thinks` |
    | `<think>2+2=4</think>4</think>` | 0 | 1/3 | `several_thinks` |
    | `<think></think>4` | 0 | 1/3 | `short_think` |
    | the same, with `min_chars=0` | 1 | 1 | |
    | `<think>2+2=4</think>` | 0 | 2/3 | `no_answer` |
    | `2+2=4</think>`, the prompt opens the block | 0 | 1/2 | `no_answer` |

    Raises:
        ValueError: for a `min_chars` that is not a whole number of 0 or more.

    Example:
        >>> ThinkFormatVerifier()(["<think>2+2=4</think>4", "4"])
        [1.0, 0.0]
        >>> ThinkFormatVerifier(graded=True)(["So: <think>2+2=4</think>4", "<think>" * 50])
        [0.6666666666666666, 0.0]
    """

    prefilled: bool | None = None
    min_chars: int = 1
    graded: bool = False
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
        if not problem:
            return Verdict(status=Status.CORRECT, score=1.0, reason="prefill_assumed" if assumed else "")
        score = self._share(text, opened_by_prompt=bool(assumed or prefilled)) if self.graded else 0.0
        return Verdict(status=Status.PARTIAL if score else Status.INCORRECT, score=score, reason=problem)

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
        if self._is_short(thought):
            return "short_think"
        return "" if visible(answer) else "no_answer"

    def _is_short(self, thought: str) -> bool:
        return len(visible(thought)) < self.min_chars

    def _share(self, text: str, *, opened_by_prompt: bool) -> float:
        """The share of the parts that are right: an opening, a closing, an answer."""
        before, opening, after = text.partition(OPEN)
        thought, closing, answer = after.partition(CLOSE)
        one_opening = bool(opening) and OPEN not in after
        opens = one_opening and not before.strip()
        closes = one_opening and bool(closing) and text.count(CLOSE) == 1 and not self._is_short(thought)
        answers = closes and bool(visible(answer))
        # What the prompt has done earns the completion nothing.
        return (closes + answers) / 2 if opened_by_prompt else (opens + closes + answers) / 3


think_format_reward = ThinkFormatVerifier(name="think_format_reward")
"""`ThinkFormatVerifier` with its defaults, ready for a list of reward functions."""
