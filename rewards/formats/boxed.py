r"""Verify the answer format of mathematics: exactly one nonempty `\boxed{}`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trl_grpo_ext.answers.find.marks import boxes
from trl_grpo_ext.answers.read.spelling import visible
from trl_grpo_ext.answers.verdicts import right, unreadable, wrong
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.formats.answer_part import answer_part
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict

_COMMAND = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_BRACE = re.compile(r"\s*\{")
# Characters and commands that print nothing, or a mere placeholder such as dots.
_NOTHING = re.compile(
    r"[\s{}$~.…_?]|\\[,;:!> ()\[\]\\]|\\$"
    r"|\\(?:text(?:rm|bf|it|sf|tt|sc|sl|up|md|normal|style)?|math(?:rm|bf|it|sf|tt|bb|cal|frak|scr|normal|strut)"
    r"|bf|rm|it|sf|tt|[rl]lap|[mhv]box|operatorname\*?|boldsymbol|bm|emph|under(?:line|brace)|overline"
    r"|(?:display|script)style|left|right"
    r"|q?quad|(?:thin|med|thick|neg|en)?space|enskip|null|strut|relax|[lcdv]?dots|square|Box)(?![A-Za-z])"
)
# Commands whose first argument is not printed.
_HIDDEN = re.compile(
    r"(\\(?:[hv]?phantom|[hv]space\*?|(?:text)?color|(?:color|raise)box|label)\s*\{)|\\.|[{}]",
    re.DOTALL,
)
_PLACEHOLDER = re.compile(r"(?:your|the|final)*(?:answer|result)(?:here)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class BoxedVerifier(Verifier):
    r"""Checks for exactly one `\boxed{}` with visible content after the thinking.

    The verifier does not judge the answer, only that the answer can be found: use it as a small term beside
    `MathVerifier`, or as its gate. Boxes in the thinking do not count.

    Args:
        name: The metric key.

    | completion | score | reason |
    |---|---|---|
    | `<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.` | 1 | |
    | `It is 4.` | 0 | `no_boxed` |
    | `\boxed{4} or \boxed{5}`, `\boxed{\boxed{4}}` | 0 | `several_boxed` |
    | `\boxed{4` | 0 | `unclosed_box` |
    | `\boxed 4` | 0 | `box_without_braces` |
    | `\boxed{}`, `\boxed{\text{ }}`, `\boxed{\phantom{4}}` | 0 | `empty_box` |
    | `\boxed{...}`, `\boxed{\text{your answer}}` | 0 | `empty_box` |
    | `<think>\boxed{4}` | 0 | `unclosed_think` |
    | `<think>\boxed{4}</think>` | 0 | `no_answer` |

    Examples:
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
        if not _holds_something(content):
            return wrong("empty_box", answer=content)
        return right(content)


def _holds_something(content: str) -> bool:
    printed = _NOTHING.sub("", _without_hidden(content))
    left = visible(printed)
    return left != "" and not _PLACEHOLDER.fullmatch(left)


def _without_hidden(content: str) -> str:
    r"""Remove unprinted arguments, such as `4` of `\phantom{4}`."""
    pieces: list[str] = []
    shown_from = 0
    depth = 0
    # The brace depth at which a hidden argument began; None outside hidden arguments.
    hidden: int | None = None
    for token in _HIDDEN.finditer(content):
        if token[1] and hidden is None:
            pieces.append(content[shown_from : token.start()])
            hidden = depth
        # A hiding command ends in the brace of its argument; an escaped brace opens nothing.
        if token[1] or token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
        if hidden is not None and depth <= hidden:
            shown_from = token.end()
            hidden = None
    if hidden is None:
        pieces.append(content[shown_from:])
    return "".join(pieces)


boxed_reward = BoxedVerifier(name="boxed_reward")
"""`BoxedVerifier`, ready for a list of reward functions."""
