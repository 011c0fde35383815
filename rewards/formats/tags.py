"""Verify tag formats: a structure such as `<reasoning>...</reasoning><answer>...</answer>`, and the think block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trl_grpo_ext.answers.read.spelling import visible
from trl_grpo_ext.answers.verdicts import graded
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.rewards.formats.answer_part import answer_part
from trl_grpo_ext.rewards.formats.tag_structure import (
    Element,
    TagPart,
    read_structure,
    read_tags,
    tag_names,
)
from trl_grpo_ext.sample import Sample, completion_text, think_prefill
from trl_grpo_ext.support.setting_checks import check_whole
from trl_grpo_ext.verdict import Verdict

THINK = "think"
# Faults of the whole completion, which name no tag.
WRONG_ORDER = ("wrong_order", "")
TEXT_OUTSIDE = ("text_outside", "")


@dataclass(frozen=True, kw_only=True)
class TagsVerifier(Verifier):
    """Checks the tags of a completion against a required structure; if `graded`, scores the correct share.

    Use it for formats in the prompt's instructions, such as `<reasoning>...</reasoning><answer>...</answer>`. Tags are
    spelled exactly as listed, without attributes; any other tag is text. Unless `think` is listed, only the text after
    the thinking counts. If the prompt opens the first tag, at its end or by a chat template, the completion does not
    repeat the tag.

    Args:
        tags: The tags, in order. `answer` occurs exactly once, `note?` at most once, `step+` at least once, `step*`
            any number of times, `step{2,4}` two to four times. `reasoning/step+` stands inside `reasoning`, which must
            be listed before it. Anywhere else a listed tag is a fault, even as a mention in the reasoning.
        text_outside: Allow text outside the outermost tags.
        mentions: Let a tag without child tags mention other tags, as in "I must write <answer>".
        min_chars: The least number of visible characters in each tag, without white space at the ends.
        prefilled: True if the prompt opens the first tag; None detects it from the prompt.
        graded: Score the share of correct parts. Each required tag is a part: correct if it occurs in its place in an
            allowed number, closed and long enough, and nowhere else. So a repeated tag is a wrong part. The order is
            one more part, and so is the absence of text outside, unless `text_outside`; both score only if no tag is
            wrong. An optional tag is no part.
        name: The metric key.

    | completion | `tags=["reasoning", "answer"]` | `graded` | reason |
    |---|---|---|---|
    | `<reasoning>2+2</reasoning><answer>4</answer>` | 1 | 1 | |
    | the same, with `So: ` before it | 0 | 0.75 | `text_outside` |
    | `<answer>4</answer><reasoning>2+2</reasoning>` | 0 | 0.75 | `wrong_order` |
    | `<answer>4</answer>` | 0 | 0.25 | `missing_reasoning` |
    | `<reasoning>2+2</reasoning><answer>4` | 0 | 0.25 | `unclosed_answer` |
    | `2+2</reasoning><answer>4</answer>` | 0 | 0.25 | `unopened_reasoning` |
    | `<reasoning>2+2</reasoning><answer></answer>` | 0 | 0.25 | `empty_answer` |
    | `<reasoning>2+2</reasoning>`, and then 50 times `<answer>4</answer>` | 0 | 0.25 | `too_many_answer` |
    | `<reasoning>2+2<answer>4</answer></reasoning>` | 0 | 0.25 | `misplaced_answer` |
    | `4` | 0 | 0 | `missing_reasoning` |
    | `<think>2+2` | 0 | 0 | `unclosed_think` |
    | `<step>1</step>` with `tags=["step{2}"]` | 0 | 0 | `too_few_step` |
    | `2+2</think>4` with `tags=["think"], text_outside=True`, prefill unknown | 1 | 1 | `prefill_assumed` |

    Raises:
        ValueError: for an unreadable or repeated tag, a parent tag that is not listed, tags that are all optional, or a
            `min_chars` below 0.

    Examples:
        >>> TagsVerifier(tags=["reasoning", "answer"], graded=True)(
        ...     ["<reasoning>2+2</reasoning><answer>4</answer>", "<answer>4</answer>" * 50, "<answer>4</answer>"]
        ... )
        [1.0, 0.0, 0.25]
    """

    tags: Sequence[str]
    text_outside: bool = False
    mentions: bool = False
    min_chars: int = 1
    prefilled: bool | None = None
    graded: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if (
            isinstance(self.tags, str)
            or not isinstance(self.tags, Sequence)
            or not self.tags
        ):
            raise ValueError(
                f"tags is a list of tags, such as ['reasoning', 'answer']; got {self.tags!r}."
            )
        structure = read_structure(tuple(self.tags))
        if not any(part.least for part in structure.values()):
            raise ValueError(
                f"Every tag of {list(self.tags)} may be missing, so that any completion is right."
            )
        check_whole("min_chars", self.min_chars, "a number of characters", least=0)

    def verify(self, sample: Sample) -> Verdict:
        structure = read_structure(tuple(self.tags))
        text: str | Verdict = sample.text
        if THINK not in tag_names(structure):
            text = answer_part(sample)
        if isinstance(text, Verdict):
            return text
        first = next(iter(structure))
        prefix = self._prefix(sample, first)
        if prefix is not None:
            return self._verdict(prefix + text, structure, assumed=False)
        # The end of the prompt is unknown. A closing tag without an opening tag shows that the prompt has opened it.
        opening = f"<{first}>"
        closes_unopened = opening not in text and f"</{first}>" in text
        if closes_unopened:
            text = opening + text
        return self._verdict(text, structure, assumed=closes_unopened)

    def _prefix(self, sample: Sample, first: str) -> str | None:
        """Return the prompt's start of the completion, from the first tag on; empty if absent, None if unknown."""
        tag = f"<{first}>"
        if self.prefilled is not None:
            return tag if self.prefilled else ""
        if first == THINK:
            # A prefill that opens code has no tag.
            return None if sample.prefill is None else think_prefill(sample.prefill)
        if sample.prompt is None:
            return ""
        if isinstance(sample.prompt, str):
            ends_with_tag = sample.prompt.rstrip().endswith(tag)
            return tag if ends_with_tag else ""
        # The last message may be the beginning of the answer, which the completion continues.
        last_message = completion_text(sample.prompt[-1:])
        _, found, after = last_message.partition(tag)
        return found + after

    def _verdict(
        self,
        text: str,
        structure: Mapping[str, TagPart],
        *,
        assumed: bool,
    ) -> Verdict:
        reading = read_tags(text, structure, mentions=self.mentions)
        elements = reading.elements
        faults = [*reading.faults, *self._faults(text, structure, elements)]
        # With a faulty tag, order and text outside mean little.
        if not faults:
            faults = list(self._faults_of_the_whole(text, elements))
        answer = _content(text, elements[-1]) if elements else None
        if not faults:
            reason = "prefill_assumed" if assumed else ""
            return graded(1.0, answer=answer, reason=reason)
        score = 0.0
        if self.graded:
            score = self._share(structure, faults)
        code, tag = faults[0]
        reason = f"{code}_{tag}" if tag else code
        return graded(score, answer=answer, reason=reason)

    def _faults(
        self,
        text: str,
        structure: Mapping[str, TagPart],
        elements: Sequence[Element],
    ) -> Iterator[tuple[str, str]]:
        """Yield (reason code, tag name) for missing, too few, too many, empty and too short tags."""
        # Elements by tag name; `read_tags` keeps only elements at an allowed place.
        found: dict[str, list[Element]] = {name: [] for name in structure}
        for element in elements:
            found[element.name].append(element)
        for name, part in structure.items():
            count = len(found[name])
            if not count and part.least:
                for missing in part.required():
                    yield "missing", missing.name
            elif count < part.least:
                yield "too_few", name
            elif part.most is not None and count > part.most:
                yield "too_many", name
            for element in found[name]:
                content = visible(_content(text, element))
                if not content and self.min_chars:
                    yield "empty", name
                elif len(content) < self.min_chars:
                    yield "short", name
                yield from self._faults(text, part.children, element.children)

    def _faults_of_the_whole(
        self, text: str, elements: Sequence[Element]
    ) -> Iterator[tuple[str, str]]:
        if not _in_order(elements):
            yield WRONG_ORDER
        if not self.text_outside and _has_text_outside(text, elements):
            yield TEXT_OUTSIDE

    def _share(
        self, structure: Mapping[str, TagPart], faults: Sequence[tuple[str, str]]
    ) -> float:
        """Compute the share of correct parts of a faulty completion, in [0, 1)."""
        required: list[str] = []
        for top in structure.values():
            required.extend(part.name for part in top.required())
        conditions = [WRONG_ORDER]
        if not self.text_outside:
            conditions.append(TEXT_OUTSIDE)
        # A tag with several faults is one wrong part.
        wrong = {name for _, name in faults if name}
        right = sum(name not in wrong for name in required)
        if not wrong:
            right += sum(condition not in faults for condition in conditions)
        return right / (len(required) + len(conditions))


def _content(text: str, element: Element) -> str:
    return text[element.opened : element.closed].strip()


def _in_order(elements: Sequence[Element]) -> bool:
    places = [element.part.place for element in elements if element.part]
    if places != sorted(places):
        return False
    return all(_in_order(element.children) for element in elements)


def _has_text_outside(text: str, elements: Sequence[Element]) -> bool:
    # The gaps lie between the end of each element and the start of the next.
    ends = [0, *(element.end for element in elements)]
    starts = [*(element.start for element in elements), len(text)]
    gaps = zip(ends, starts, strict=True)
    return any(text[end:start].strip() for end, start in gaps)


OPEN = "<think>"
CLOSE = "</think>"


@dataclass(frozen=True, kw_only=True)
class ThinkFormatVerifier(Verifier):
    """Checks for exactly one closed think block at the very start, followed by an answer.

    Many chat templates (DeepSeek-R1, QwQ, Qwen3 thinking) put the opening tag into the prompt. The completion then
    never contains it, and a reward that demands it is always 0 (trl#6966). `VerifiedGRPOTrainer` reads the template,
    and a text prompt shows the tag at its end. If the prompt's end is unknown, a completion may omit the opening tag.

    Args:
        prefilled: True if the prompt opens the think block; None detects it as described.
        min_chars: The least number of visible characters in the block, without white space at the ends. 0 accepts the
            empty block of a mode without thinking, such as Qwen3's.
        graded: Score the share of correct parts: a single opening tag at the very start, unless the prompt has it; a
            single closing tag after a single opening tag, around a block of sufficient length; an answer after such a
            block. For a model that is too weak to get everything right at once.
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

    Examples:
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
        check_whole("min_chars", self.min_chars, "a number of characters", least=0)

    def verify(self, sample: Sample) -> Verdict:
        prefilled = self.prefilled
        if prefilled is None and sample.prefill is not None:
            prefilled = sample.prefill.startswith(OPEN)
        text = sample.text
        # With an unknown prefill, a lone closing tag shows that the prompt has opened the block.
        assumed = prefilled is None and OPEN not in text and CLOSE in text
        if assumed or prefilled:
            text = OPEN + text
        problem = self._problem(text)
        if not problem:
            return graded(1.0, reason="prefill_assumed" if assumed else "")
        if not self.graded:
            return graded(0.0, reason=problem)
        share = self._share(text, opened_by_prompt=assumed or bool(prefilled))
        return graded(share, reason=problem)

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
        if not visible(answer):
            return "no_answer"
        return ""

    def _is_short(self, thought: str) -> bool:
        return len(visible(thought)) < self.min_chars

    def _share(self, text: str, *, opened_by_prompt: bool) -> float:
        """Compute the share of correct parts among opening tag, closing tag and answer."""
        before, _, after = text.partition(OPEN)
        thought, _, answer = after.partition(CLOSE)
        has_one_opening = text.count(OPEN) == 1
        has_one_closing = text.count(CLOSE) == 1
        opens = has_one_opening and not before.strip()
        closes = (
            has_one_opening
            and has_one_closing
            and CLOSE in after
            and not self._is_short(thought)
        )
        answers = closes and visible(answer) != ""
        # An opening tag from the prompt earns nothing.
        if opened_by_prompt:
            return (closes + answers) / 2
        return (opens + closes + answers) / 3


think_format_reward = ThinkFormatVerifier(name="think_format_reward")
"""`ThinkFormatVerifier` with its defaults, ready for a list of reward functions."""
