"""TRL's completions as samples: whether one was cut, and which start of the answer its prompt holds."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.sample import Completion, Prompt, Sample, completion_text, prefill_of, think_prefill

logger = logging.getLogger(__name__)


def samples_of(
    rows: Sequence[Mapping[str, Any]],
    prompts: Sequence[Prompt],
    completions: Sequence[Completion],
    completion_ids: Sequence[Sequence[int]],
    *,
    first_group: int,
    place: int,
    group_size: int,
    step: int,
    ends: set[int],
    prefill: str | None,
) -> list[Sample]:
    """This rank's samples. Groups are numbered over all ranks, since TRL may split one between two.

    Other ranks have `place` completions of the batch before this rank's, and its groups begin at `first_group`. A
    completion that was not cut ends with one of `ends`. `prefill` is what the chat template puts at the start of the
    assistant's turn; None if it is unknown.
    """
    columns = zip(rows, prompts, completions, completion_ids, strict=True)
    return [
        Sample(
            text=completion_text(completion),
            prompt=prompt,
            completion_ids=ids,
            truncated=len(ids) > 0 and ids[-1] not in ends,
            row={key: value for key, value in row.items() if key != "prompt"},
            group=first_group + (place + index) // group_size,
            step=step,
            prefill=prefill_of(prompt, completion, prefill),
        )
        for index, (row, prompt, completion, ids) in enumerate(columns)
    ]


def end_token_ids(processing_class: Any, generation_config: Any) -> set[int]:
    """The tokens that a completion which was not cut ends with, as TRL tells it."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    configured = generation_config.eos_token_id
    ends = configured if isinstance(configured, list) else [configured]
    return {token for token in (*ends, tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None}


def template_prefill(processing_class: Any, template_arguments: Mapping[str, Any] | None) -> str | None:
    """What the chat template puts at the start of the assistant's turn, seen by rendering an empty exchange."""
    try:
        rendered = processing_class.apply_chat_template(
            [{"role": "user", "content": "?"}],
            tokenize=False,
            add_generation_prompt=True,
            **(template_arguments or {}),
        )
    except Exception as error:  # no template, or one with demands of its own
        logger.debug("The chat template's prefill is unknown: %s", error)
        return None
    return think_prefill(rendered)
