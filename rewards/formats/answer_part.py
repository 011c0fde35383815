"""The part of a completion that is its answer, bare or in a fence. Shared by the verifiers of formats."""

from __future__ import annotations

from typing import Literal, get_args

from trl_grpo_ext.answers.read.invisible import visible
from trl_grpo_ext.answers.verdicts import unreadable
from trl_grpo_ext.rewards.bases.spoken import spoken
from trl_grpo_ext.rewards.unit_tests.blocks import fenced_blocks
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Verdict

Fence = Literal["optional", "required", "forbidden"]
FENCES: tuple[str, ...] = get_args(Fence)

_MARK = "\x00"  # a line that is no fence


def answer_part(sample: Sample) -> str | Verdict:
    """What follows the thinking, without white space around it; a verdict if that is nothing one can see.

    Examples:
        >>> answer_part(Sample(text="<think>2+2</think> 4 "))
        '4'
        >>> answer_part(Sample(text="2+2 is", prefill="<think>")).reason
        'unclosed_think'
    """
    said = spoken(sample)
    if said is None:
        return unreadable("unclosed_think")
    return said.strip() if visible(said) else unreadable("no_answer")


class FormatFaultError(Exception):
    """The text does not have the form that it must have.

    Attributes:
        reason: The verdict's reason code.
        detail: Where and what, in a few words.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def check_fence(fence: object, *, text_around: bool, form: str) -> None:
    """Raise a ValueError unless an answer in this form, such as JSON, can be found by these settings."""
    if fence not in FENCES:
        raise ValueError(f"There is no setting fence={fence!r}. {did_you_mean(str(fence), FENCES)}")
    if text_around and fence == "forbidden":
        raise ValueError(f"Without a fence, nothing tells {form} from the text around it; set fence='required'.")


def fenced_answer(sample: Sample, tag: str, *, fence: Fence, text_around: bool) -> str | Verdict:
    r"""What stands in the answer's one fence with that tag, or the bare answer; a verdict if neither is as asked.

    Args:
        sample: Of its text, what follows the thinking is the answer.
        tag: The fence's language, such as `json`.
        fence: Whether there is to be a fence.
        text_around: Whether there may be text before and after a fence.

    Examples:
        >>> fenced_answer(Sample(text="```json\n{}\n```"), "json", fence="optional", text_around=False)
        '{}'
        >>> fenced_answer(Sample(text="Here:\n```json\n{}\n```"), "json", fence="required", text_around=False).reason
        'text_outside'
    """
    answer = answer_part(sample)
    if isinstance(answer, Verdict):
        return answer
    if fence == "forbidden" or (fence == "optional" and not text_around and not _is_fence(answer)):
        return answer
    blocks = closed_blocks(answer)
    if isinstance(blocks, Verdict):
        return blocks
    tagged = [code for found, code in blocks if found == tag]
    if not tagged and blocks:
        return unreadable("wrong_fence")
    if not tagged:
        return unreadable("no_fence") if fence == "required" else answer
    if len(tagged) > 1:
        return unreadable("several_fences")
    if not text_around and not _is_one_fence(answer):
        return unreadable("text_outside")
    return tagged[0].strip() if visible(tagged[0]) else unreadable("no_answer")


def closed_blocks(text: str) -> list[tuple[str, str]] | Verdict:
    r"""The tag and the content of each fenced block; a verdict if the last is never closed.

    Examples:
        >>> closed_blocks("~~~py\n1\n~~~")
        [('py', '1\n')]
        >>> closed_blocks("~~~py\n1").reason
        'unclosed_fence'
    """
    # A block that is open at the end would hold this line.
    blocks = fenced_blocks(f"{text}\n{_MARK}")
    if blocks and blocks[-1].code.endswith(f"{_MARK}\n"):
        return unreadable("unclosed_fence")
    return [(block.tag, block.code) for block in blocks]


def _is_one_fence(answer: str) -> bool:
    """Whether the first and the last line are fences, with none between them: the whole answer is one block."""
    first, *inner, last = answer.split("\n")
    return _is_fence(first) and _is_fence(last) and not any(_is_fence(line) for line in inner)


def _is_fence(line: str) -> bool:
    return line.lstrip(" \t").startswith(("```", "~~~"))
