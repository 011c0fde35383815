"""A sample: one completion and all that a verifier may look at. It is not a handle on the trainer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import is_
from typing import Any

from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.support.text import is_picture, told

Message = Mapping[str, Any]
Prompt = str | Sequence[Message]
Completion = str | Sequence[Message]

PROMPT_KEY_BITS = 64
_LAST_TAG = re.compile(r"<think>\s*\Z")

# What TRL passes to every reward function beside the dataset's columns.
TRL_EXTRAS = frozenset({"prompts", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One completion, with what is known of where it came from.

    A plain TRL trainer tells a reward function neither the group, nor whether the completion was cut, nor the
    step: these are None there, and filled in by `VerifiedGRPOTrainer`.

    Attributes:
        text: The completion as text; for a conversation, its last assistant message (see `completion_text`).
        prompt: The prompt as the dataset has it, a string or a list of messages.
        completion_ids: The completion's token ids, with those of what tools returned.
        tool_tokens: How many of them tools returned.
        truncated: Whether generation stopped at the length limit, not at an end token.
        row: The dataset's columns for this prompt, without the prompt itself.
        group: Samples of one prompt that are compared with each other share this number.
        step: The trainer's optimizer step.
        prefill: The start of the assistant's turn that was part of the prompt, such as `"<think>\\n"`; an empty
            string if there is none, None if it is unknown. It is not part of `text`.
        messages: All messages of a completion that has several, as where tools are called: the calls, what the tools
            returned, each with the `seconds` that it took if they are known, and the last answer. None for any other
            completion.
        outcome: The end of the rollout in its environment, for `VerifiedGRPOTrainer`; None without one.

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
        """How many tokens the model has written, without those that tools returned; None if that is unknown."""
        return None if self.completion_ids is None else len(self.completion_ids) - self.tool_tokens


def completion_text(completion: Completion) -> str:
    """The text of a completion, whatever form TRL gives it in.

    A string is returned as it is. In a conversation the last assistant message counts (a tool-using completion has
    several messages), with its text blocks joined. Thinking that TRL's response parser has moved to a field of its
    own is put back in `<think>` tags, so that verifiers meet one form only. An empty conversation is "".

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
    # Without content, nothing tells whether the thinking came to an end; an answer is missing either way.
    return f"<think>{thinking}</think>{content}" if content else f"<think>{thinking}"


def _last_said(completion: Sequence[Message]) -> tuple[Any, str]:
    """Of the last assistant message, the thinking in a field of its own, if there is any, and the text."""
    spoken = [message for message in completion if message.get("role", "assistant") == "assistant"]
    message = spoken[-1] if spoken else {}
    return message.get("reasoning_content") or message.get("thinking"), content_text(message.get("content"))


def content_text(content: object) -> str:
    """What a message has under `content` as text: its text blocks joined; "" for none."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Sequence):
        return "".join(str(block.get("text") or "") for block in content if isinstance(block, Mapping))
    return str(content)


def think_prefill(text: str) -> str:
    """The `<think>` that a prompt ends with, and white space after it; "" if it ends otherwise.

    A prompt may mention the tag anywhere else, such as in its instructions.
    """
    tag = _LAST_TAG.search(text)
    return tag[0] if tag else ""


def last_message(prompt: Prompt | None) -> str:
    """What the last message of a prompt says; a prompt that is a text as it is, and nothing for none.

    Examples:
        >>> last_message([{"role": "system", "content": "Answer."}, {"role": "user", "content": "2+2?"}])
        '2+2?'
    """
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return content_text(prompt[-1].get("content")) if prompt else ""


def prompt_key(prompt: Prompt | None) -> int:
    """What tells prompts apart, in few bytes: a hash of what it says."""
    said = prompt if isinstance(prompt, str) else json.dumps(prompt, default=told)
    return int.from_bytes(blake2b(said.encode("utf-8", "surrogatepass"), digest_size=PROMPT_KEY_BITS // 8).digest())


def without_pictures(sample: Sample) -> Sample:
    """The sample with texts in the place of its pictures, as `told`; the same object if it has none.

    Verifiers look at pictures. What comes after them compares, writes and sends samples, and a picture is megabytes.
    """
    texts: dict[int, str] = {}  # TRL puts the row's pictures into the prompt
    found = {name: _with_texts(getattr(sample, name), texts) for name in ("prompt", "row", "messages")}
    is_same = all(value is getattr(sample, name) for name, value in found.items())
    return sample if is_same else replace(sample, **found)


def _with_texts(value: Any, texts: dict[int, str]) -> Any:
    """The value with texts in the place of pictures; by their ids, those that have been told already."""
    if value is None or isinstance(value, str | int | float):  # most are, and asking for a mapping takes long
        return value
    if is_picture(value):
        return texts.get(id(value)) or texts.setdefault(id(value), told(value))
    if isinstance(value, Mapping):
        found = {key: _with_texts(item, texts) for key, item in value.items()}
        return value if all(map(is_, found.values(), value.values())) else found
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str):  # a dataset's lists are of one kind
        items = [_with_texts(item, texts) for item in value]
        return value if all(map(is_, items, value)) else items
    return value


def sample_of_row(row: Mapping[str, Any], text: str, outcome: Outcome | None = None) -> Sample:
    """A completion for a row of a dataset, as training would show it, but without a tokenizer: four characters a token.

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
    """The sample of a completion in any form that TRL gives it in.

    The start of the assistant's turn that the completion lacks is the text prompt's, or the chat template's, if that is
    known.

    Examples:
        >>> sample_of("4", "What is 2+2? <think>", completion_ids=None, row={}).prefill
        '<think>'
    """
    # Of a conversation, the template's after an assistant's message too: TRL has it close that, and open another.
    prefill = think_prefill(prompt) if isinstance(prompt, str) else template_prefill
    conversation = () if isinstance(completion, str) else completion
    if _last_said(conversation)[0]:
        prefill = ""  # none comes before the `<think>` that `completion_text` puts back
    return Sample(
        text=completion_text(completion),
        prompt=prompt,
        completion_ids=completion_ids,
        tool_tokens=tool_tokens,
        truncated=truncated,
        row=row,
        group=group,
        step=step,
        prefill=prefill,
        messages=conversation if len(conversation) > 1 else None,
        outcome=outcome,
    )


def samples_from_columns(completions: Sequence[Completion], columns: Mapping[str, Any]) -> list[Sample]:
    """Samples for TRL's way of calling a reward function: a list of completions and a keyword a column.

    A keyword that is a list with one value a completion is a dataset column; any other keyword is passed over,
    unless it is a scalar, which then holds for every row.
    """
    size = len(completions)
    prompts = _per_row(columns.get("prompts"), size)
    ids = _per_row(columns.get("completion_ids"), size)
    return [
        sample_of(completion, prompt, completion_ids=completion_ids, row=row)
        for completion, prompt, completion_ids, row in zip(completions, prompts, ids, _rows(columns, size), strict=True)
    ]


def _per_row(values: Any, size: int) -> Sequence[Any]:
    return values if values is not None and len(values) == size else [None] * size


def _rows(columns: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    named = {key: value for key, value in columns.items() if key not in TRL_EXTRAS}
    listed = {
        key: value
        for key, value in named.items()
        if hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)
    }
    scalars = {key: value for key, value in named.items() if key not in listed and not callable(value)}
    per_row = {key: value for key, value in listed.items() if len(value) == size}
    for index in range(size):
        yield scalars | {key: value[index] for key, value in per_row.items()}
