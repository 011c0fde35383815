"""Extract the answer of a completion, bare or from a code fence; shared by the format verifiers."""

from __future__ import annotations

from typing import Literal, get_args

from trl_grpo_ext.answers.read.spelling import visible
from trl_grpo_ext.answers.verdicts import unreadable
from trl_grpo_ext.programs.suites.blocks import fenced_blocks
from trl_grpo_ext.rewards.bases.visible_text import visible_text
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_choice
from trl_grpo_ext.verdict import Verdict

Fence = Literal["optional", "required", "forbidden"]
FENCES: tuple[str, ...] = get_args(Fence)

# A line that no fence matches.
_MARK = "\x00"


def answer_part(sample: Sample) -> str | Verdict:
    """Return the stripped text after the thinking, or a verdict if no visible text follows the thinking.

    Examples:
        >>> answer_part(Sample(text="<think>2+2</think> 4 "))
        '4'
        >>> answer_part(Sample(text="2+2 is", prefill="<think>")).reason
        'unclosed_think'
    """
    said = visible_text(sample)
    if said is None:
        return unreadable("unclosed_think")
    if not visible(said):
        return unreadable("no_answer")
    return said.strip()


class FormatFaultError(Exception):
    """Raised for a text that violates the required format.

    Attributes:
        reason: The reason code of the verdict.
        detail: The kind and place of the violation, in a few words.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def check_fence(fence: object, *, text_around: bool, form: str) -> None:
    """Raise a ValueError unless the fence settings are valid, and let the verifier find an answer in this format."""
    check_choice("fence", fence, FENCES)
    if text_around and fence == "forbidden":
        raise ValueError(
            f"Without a fence, nothing tells {form} from the text around it; set fence='required'."
        )


def fenced_answer(
    sample: Sample,
    tag: str,
    *,
    fence: Fence,
    text_around: bool,
) -> str | Verdict:
    r"""Return the content of the answer's single `tag` fence, or the bare answer; a verdict for any other form.

    Args:
        sample: The completion; its text after the thinking is the answer.
        tag: The language of the fence, such as `json`.
        fence: Require, allow or forbid a fence.
        text_around: Allow text before and after the fence.

    Examples:
        >>> fenced_answer(Sample(text="```json\n{}\n```"), "json", fence="optional", text_around=False)
        '{}'
        >>> fenced_answer(Sample(text="Here:\n```json\n{}\n```"), "json", fence="required", text_around=False).reason
        'text_outside'
    """
    answer = answer_part(sample)
    if isinstance(answer, Verdict):
        return answer
    if _is_bare(answer, fence, text_around=text_around):
        return answer
    blocks = closed_blocks(answer)
    if isinstance(blocks, Verdict):
        return blocks
    if not blocks and fence == "optional":
        return answer
    if not blocks:
        return unreadable("no_fence")
    tagged = [code for found, code in blocks if found.casefold() == tag.casefold()]
    if not tagged:
        return unreadable("wrong_fence")
    # Of two blocks nothing says which is the answer, and a policy would hand in both.
    if len(tagged) > 1:
        return unreadable("several_fences")
    if not text_around and not _is_one_fence(answer):
        return unreadable("text_outside")
    if not visible(tagged[0]):
        return unreadable("no_answer")
    return tagged[0].strip()


def _is_bare(answer: str, fence: Fence, *, text_around: bool) -> bool:
    # With text around it, a fence may begin anywhere.
    if fence == "optional" and not text_around:
        return not _is_fence(answer)
    return fence == "forbidden"


def closed_blocks(text: str) -> list[tuple[str, str]] | Verdict:
    r"""List the (tag, content) pairs of all fenced blocks; a verdict if the last block is unclosed.

    Examples:
        >>> closed_blocks("~~~py\n1\n~~~")
        [('py', '1\n')]
        >>> closed_blocks("~~~py\n1").reason
        'unclosed_fence'
    """
    # An unclosed block at the end of the text would contain the mark.
    blocks = fenced_blocks(f"{text}\n{_MARK}")
    if blocks and blocks[-1].code.endswith(f"{_MARK}\n"):
        return unreadable("unclosed_fence")
    return [(block.tag, block.code) for block in blocks]


def _is_one_fence(answer: str) -> bool:
    """Test that the whole answer is one block: first and last line are fences, without another fence line between."""
    first, *inner, last = answer.split("\n")
    if any(_is_fence(line) for line in inner):
        return False
    return _is_fence(first) and _is_fence(last)


def _is_fence(line: str) -> bool:
    return line.lstrip(" \t").startswith(("```", "~~~"))
