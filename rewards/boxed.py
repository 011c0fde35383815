r"""Whether a completion gives its answer in one `\boxed{}`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.math_answers.extraction import boxes
from trl_grpo_ext.rewards.parsing.answer_part import answer_part, right, unreadable, wrong
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict

_COMMAND = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_BRACE = re.compile(r"\s*\{")
# What shows nothing, or only that something should stand there.
_NOTHING = re.compile(
    r"[\s{}$~.…_?]|\\[,;:!> ()\[\]\\]|\\$|\\(?:text|mathrm|mathbf|textbf|quad|qquad|[lcd]?dots)(?![A-Za-z])"
)
_PLACEHOLDER = re.compile(r"(?:your|the|final)*(?:answer|result)(?:here)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class BoxedVerifier(Verifier):
    r"""One `\boxed{}` after the thinking, with something in it.

    It says nothing of whether the answer is right, only that it can be found: a small term beside `MathVerifier`, or a
    gate before it. Boxes in the thinking do not count.

    Args:
        name: The metric key.

    | completion | score | reason |
    |---|---|---|
    | `<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.` | 1 | |
    | `It is 4.` | 0 | `no_boxed` |
    | `\boxed{4} or \boxed{5}`, `\boxed{\boxed{4}}` | 0 | `several_boxed` |
    | `\boxed{4` | 0 | `unclosed_box` |
    | `\boxed 4` | 0 | `box_without_braces` |
    | `\boxed{}`, `\boxed{\text{ }}`, `\boxed{...}`, `\boxed{\text{your answer}}` | 0 | `empty_box` |
    | `<think>\boxed{4}` | 0 | `unclosed_think` |
    | `<think>\boxed{4}</think>` | 0 | `no_answer` |

    Example:
        >>> boxed_reward([r"It is \boxed{4}.", r"\boxed{4}, or \boxed{5}"])
        [1.0, 0.0]
    """

    name: str | None = None

    def verify(self, sample: Sample) -> Verdict:
        answer = answer_part(sample)
        if isinstance(answer, Verdict):
            return answer
        commands = [command.end() for command in _COMMAND.finditer(answer)]
        if not commands:
            return unreadable("no_boxed")
        if len(commands) > 1:
            return wrong("several_boxed")
        if not _BRACE.match(answer, commands[0]):
            return unreadable("box_without_braces")
        found = boxes(answer)
        if not found:
            return unreadable("unclosed_box")
        content = found[0][2].strip()
        return right(content) if _holds_something(content) else wrong("empty_box", answer=content)


def _holds_something(content: str) -> bool:
    left = _NOTHING.sub("", content)
    return bool(left) and not _PLACEHOLDER.fullmatch(left)


boxed_reward = BoxedVerifier(name="boxed_reward")
"""`BoxedVerifier`, ready for a list of reward functions."""
