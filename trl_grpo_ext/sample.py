"""Samples: single completions with all data for verifiers. Samples are not handles on the trainer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import is_
from typing import Any

from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.support.text import is_picture, text_for_json

Message = Mapping[str, Any]
Prompt = str | Sequence[Message]
Completion = str | Sequence[Message]

PROMPT_KEY_BITS = 64
# The key of a recorded tool result that TRL left out, since it did not fit in the length limit: it ended the rollout.
LEFT_OUT = "left_out"
_LAST_TAG = re.compile(r"<think>\s*\Z")
# The line of a Markdown fence, with its marks and its language
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#-]*)", re.MULTILINE)
# An opening mark of code at the end of a text: a fence, such as "```python", also behind "Solution:"; or another mark
_LAST_FENCE = re.compile(
    r"(?:^|[:>])[ \t]*((`{3,}|~{3,})[ \t]*([\w+#-]*)\s*)\Z", re.MULTILINE
)
_LAST_MARK = re.compile(r"(?:<code>|\[PYTHON\])\s*\Z")
# The rest of a fence's line, where the prompt ends on it
_ENDS_FENCE = re.compile(r"[\w+#-]*[ \t]*\n")
# More of a prompt's end than such a line has
_LINE_CHARS = 200

# The keywords that TRL passes to every reward function besides the dataset's columns.
TRL_EXTRAS = frozenset(
    {
        "prompts",
        "completion_ids",
        "trainer_state",
        "log_extra",
        "log_metric",
        "environments",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A completion with its prompt, dataset row, group and step.

    A plain TRL trainer does not tell a reward function the group, the truncation or the step: these are None there, and
    known under `VerifiedGRPOTrainer`.

    Attributes:
        text: The completion as text; for a conversation, its last assistant message (see `completion_text`).
        prompt: The dataset's prompt, a string or a list of messages.
        completion_ids: The completion's token ids, tool results included.
        tool_tokens: The number of tokens in `completion_ids` that come from tool results.
        truncated: Whether generation stopped at the length limit, not at an end token; True also for a rollout that TRL
            ended since a tool's result did not fit.
        row: The dataset's columns for this prompt, without the prompt itself.
        group: The group number; the completions of one prompt that are compared with each other share it.
        step: The trainer's optimizer step.
        prefill: The start of the assistant's turn that was part of the prompt, such as `"<think>\\n"`, or the opening
            fence of its code; an empty string if there is no prefill, None if it is unknown. It is not part of `text`.
        messages: All messages of a completion with several messages, such as tool calls, tool results (with `seconds`,
            the time of the call, if known) and the final answer. A result with `left_out` did not fit in the length
            limit, and never reached the model. None for a completion with a single message.
        outcome: The outcome of the rollout in its environment, under `VerifiedGRPOTrainer`; None without environment.

    Examples:
        >>> Sample(text="The answer is 4.", row={"solution": "4"}).row["solution"]
        '4'
    """

    text: str
    prompt: Prompt | None = None
    completion_ids: Sequence[int] | None = None
    tool_tokens: int = 0
    truncated: bool | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    group: int | None = None
    step: int | None = None
    prefill: str | None = None
    messages: Sequence[Message] | None = None
    outcome: Outcome | None = None

    @property
    def length(self) -> int | None:
        """The number of tokens that the model wrote, without tool results; None if unknown."""
        return (
            None
            if self.completion_ids is None
            else len(self.completion_ids) - self.tool_tokens
        )


def completion_text(completion: Completion) -> str:
    """Return a completion's text, for any form in which TRL passes completions.

    A string is returned unchanged. Of a conversation the last assistant message counts (tool calls make several
    messages), with its text blocks joined. If TRL's response parser has moved the thinking to a separate field, it is
    put back in `<think>` tags, so that verifiers see a single form. An empty conversation gives "".

    Examples:
        >>> completion_text([{"role": "assistant", "content": [{"type": "text", "text": "4"}]}])
        '4'
        >>> completion_text([{"role": "assistant", "reasoning_content": "2+2", "content": "4"}])
        '<think>2+2</think>4'
    """
    if isinstance(completion, str):
        return completion
    thinking, content = _last_said(completion)
    if not thinking:
        return content
    # Without content it is unknown whether the thinking ended; the answer is missing in both cases.
    return f"<think>{thinking}</think>{content}" if content else f"<think>{thinking}"


def _last_said(completion: Sequence[Message]) -> tuple[Any, str]:
    """Return the separate thinking field, if any, and the text of the last assistant message."""
    spoken = [
        message for message in completion if message.get("role", "assistant") == "assistant"
    ]
    message = spoken[-1] if spoken else {}
    return message.get("reasoning_content") or message.get("thinking"), content_text(
        message.get("content")
    )


def content_text(content: object) -> str:
    """Return a message's `content` as text, with text blocks joined; "" for None."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Sequence):
        return "".join(
            str(block.get("text") or "") for block in content if isinstance(block, Mapping)
        )
    return str(content)


def think_prefill(text: str) -> str:
    """Return the `<think>` tag at the end of a prompt, with trailing white space; "" without a tag there.

    A tag elsewhere in the prompt, such as in instructions, does not count.
    """
    tag = _LAST_TAG.search(text)
    return tag[0] if tag else ""


def code_prefill(prompt: Prompt | None) -> str:
    r"""Return the mark at the end of a prompt that opens the code, with trailing white space; "" without a mark there.

    The marks are a fence that no other line of the prompt opens, `<code>` and `[PYTHON]`. The last message of a
    conversation counts, whoever says it.

    Examples:
        >>> code_prefill("Write add(a, b).\n~~~python\n"), code_prefill("Write add(a, b), as in\n~~~\nf(1)\n~~~\n")
        ('~~~python\n', '')
    """
    text = last_message(prompt)
    end = text[-_LINE_CHARS:]
    mark = _LAST_MARK.search(end)
    if mark:
        return mark[0]
    fence = _LAST_FENCE.search(end)
    if fence is None:
        return ""
    before = text[: len(text) - len(fence[1])]
    # A fence with a language opens a block, wherever it stands.
    is_open = bool(fence[3]) or not _opened_fence(before)
    return fence[1] if is_open else ""


def _opened_fence(text: str) -> str:
    """Return the marks of the fence that is open at a text's end; "" if none is."""
    opened = ""
    for marks, tag in _FENCE.findall(text):
        if tag or not opened:
            opened = marks
        elif marks.startswith(opened):
            opened = ""
    return opened


def _begins_in_code(text: str) -> bool:
    """Test if a completion continues the code that the prompt opened, rather than open a block of its own."""
    fence = _FENCE.search(text)
    if fence is None:
        return True
    before = text[: fence.start()]
    is_in_string = before.count('"""') % 2 or before.count("'''") % 2
    return bool(before.strip()) and (not fence[2] or bool(is_in_string))


def last_message(prompt: Prompt | None) -> str:
    """Return the text of a prompt's last message; a string prompt unchanged, "" for None.

    Examples:
        >>> last_message([{"role": "system", "content": "Answer."}, {"role": "user", "content": "2+2?"}])
        '2+2?'
    """
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return content_text(prompt[-1].get("content")) if prompt else ""


def prompt_key(prompt: Prompt | None) -> int:
    """Hash a prompt's content to a 64-bit integer that identifies it."""
    said = prompt if isinstance(prompt, str) else json.dumps(prompt, default=text_for_json)
    return int.from_bytes(
        blake2b(
            said.encode("utf-8", "surrogatepass"), digest_size=PROMPT_KEY_BITS // 8
        ).digest()
    )


def without_pictures(sample: Sample) -> Sample:
    """Replace a sample's pictures by short texts (see `text_for_json`); return the same object if there is no picture.

    Verifiers look at pictures. Later steps compare, write and send samples, where megabytes per picture are too much.
    """
    # The texts by the pictures' ids, since TRL puts the row's pictures into the prompt too.
    texts: dict[int, str] = {}
    found = {
        name: _with_texts(getattr(sample, name), texts)
        for name in ("prompt", "row", "messages")
    }
    is_same = all(value is getattr(sample, name) for name, value in found.items())
    return sample if is_same else replace(sample, **found)


def _with_texts(value: Any, texts: dict[int, str]) -> Any:
    """Replace the pictures in a value by texts; `texts` caches the text of each picture by its id."""
    # The most frequent types first, since the check for a mapping is slow.
    if value is None or isinstance(value, str | int | float):
        return value
    if is_picture(value):
        return texts.get(id(value)) or texts.setdefault(id(value), text_for_json(value))
    if isinstance(value, Mapping):
        found = {key: _with_texts(item, texts) for key, item in value.items()}
        return value if all(map(is_, found.values(), value.values())) else found
    # The items of a dataset's list have one type, so the first item shows whether they are texts.
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str):
        items = [_with_texts(item, texts) for item in value]
        return value if all(map(is_, items, value)) else items
    return value


def sample_of_row(
    row: Mapping[str, Any], text: str, outcome: Outcome | None = None
) -> Sample:
    """Make a sample of a dataset row and a completion text without a tokenizer: four characters count as a token.

    Examples:
        >>> sample_of_row({"prompt": "2+2?", "solution": "4"}, "four").row
        {'solution': '4'}
    """
    return Sample(
        text=text,
        prompt=row.get("prompt"),
        completion_ids=range(-(-len(text) // 4)),
        truncated=False,
        row={name: value for name, value in row.items() if name != "prompt"},
        group=0,
        step=0,
        prefill="",
        outcome=outcome,
    )


def sample_of(
    completion: Completion,
    prompt: Prompt | None,
    *,
    completion_ids: Sequence[int] | None,
    row: Mapping[str, Any],
    truncated: bool | None = None,
    group: int | None = None,
    step: int | None = None,
    template_prefill: str | None = None,
    outcome: Outcome | None = None,
    tool_tokens: int = 0,
) -> Sample:
    """Make a sample of a completion, for any form in which TRL passes completions.

    The prefill is the `<think>` tag at the end of a text prompt; for a conversation it is `template_prefill`, the chat
    template's own. Without thinking, it is the mark at the prompt's end that opens the code: see `code_prefill`.

    Examples:
        >>> sample_of("4", "What is 2+2? <think>", completion_ids=None, row={}).prefill
        '<think>'
    """
    # A conversation that ends with an assistant message gets the template's prefill too: TRL lets the template close
    # that message and open a new one.
    prefill = think_prefill(prompt) if isinstance(prompt, str) else template_prefill
    conversation = () if isinstance(completion, str) else completion
    if _last_said(conversation)[0]:
        # `completion_text` puts the `<think>` tag back into the text itself.
        prefill = ""
    text = completion_text(completion)
    # An unknown prefill may have opened the thinking, which the completion ends.
    is_after_thinking = prefill == "" or (prefill is None and "</think>" not in text)
    if is_after_thinking:
        mark = code_prefill(prompt)
        if mark and _begins_in_code(text):
            prefill = mark if "\n" in mark or _ENDS_FENCE.match(text) else f"{mark}\n"
    return Sample(
        text=text,
        prompt=prompt,
        completion_ids=completion_ids,
        tool_tokens=tool_tokens,
        truncated=True if tools_left_out(conversation) else truncated,
        row=row,
        group=group,
        step=step,
        prefill=prefill,
        messages=conversation if len(conversation) > 1 else None,
        outcome=outcome,
    )


def tools_left_out(messages: Sequence[Message]) -> tuple[str, ...]:
    """Name the tools whose results did not fit in the length limit, so that the rollout ended; mostly none."""
    return tuple(
        dict.fromkeys(
            str(message.get("name", "")) for message in messages if message.get(LEFT_OUT)
        )
    )


def samples_from_columns(
    completions: Sequence[Completion], columns: Mapping[str, Any]
) -> list[Sample]:
    """Make samples from the arguments of a TRL reward function: completions, and one keyword per column.

    A list with one value per completion is a dataset column. A single value, such as a number, text or mapping, holds
    for every row. Functions and lists of other lengths are ignored. TRL passes prompts as `prompts`; the column
    `prompt` of a dataset holds them where `prompts` is missing.
    """
    size = len(completions)
    prompts = _per_row(columns.get("prompts", columns.get("prompt")), size)
    ids = _per_row(columns.get("completion_ids"), size)
    rows = _rows(columns, size)
    samples = []
    for completion, prompt, own_ids, row in zip(
        completions, prompts, ids, rows, strict=True
    ):
        samples.append(sample_of(completion, prompt, completion_ids=own_ids, row=row))
    return samples


def _per_row(values: Any, size: int) -> Sequence[Any]:
    return values if values is not None and len(values) == size else [None] * size


def _rows(columns: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """Yield each completion's dataset columns: single values first, then its values of lists."""
    scalars = {}
    per_row = {}
    for key, value in columns.items():
        if key in TRL_EXTRAS:
            continue
        if _is_list(value):
            if len(value) == size:
                per_row[key] = value
        elif not callable(value):
            scalars[key] = value
    for index in range(size):
        yield scalars | {key: value[index] for key, value in per_row.items()}


def _is_list(value: Any) -> bool:
    """Test whether a value has items by number, as lists, arrays and tensors have."""
    has_items = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    return has_items and not isinstance(value, str | bytes | Mapping)
