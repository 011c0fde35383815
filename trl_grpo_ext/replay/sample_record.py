"""A sample as a plain record for an example: where it was, what was asked, what was said."""

from __future__ import annotations

from typing import Any

from trl_grpo_ext.sample import Prompt, completion_text
from trl_grpo_ext.scorecard import Scorecard

MAX_CHARS = 2000


def sample_record(card: Scorecard, index: int) -> dict[str, Any]:
    """Step, group, place in the batch, the last message of the prompt, and the text; long ones cut in the middle.

    Example:
        >>> from trl_grpo_ext.replay.sample_record import shortened
        >>> shortened("abcdefghij", 6)
        'ab...j'
    """
    sample = card.samples[index]
    return {
        "step": sample.step,
        "group": sample.group,
        "sample": index,
        "prompt": shortened(_last_message(sample.prompt), MAX_CHARS),
        "text": shortened(sample.text, MAX_CHARS),
    }


def shortened(text: str, size: int) -> str:
    """The text with at most `size` characters, its middle left out: an answer mostly stands at the end."""
    if len(text) <= size:
        return text
    tail = (size - 3) // 2
    return f"{text[: size - 3 - tail]}...{text[len(text) - tail :]}"


def _last_message(prompt: Prompt | None) -> str:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return completion_text([{**prompt[-1], "role": "assistant"}]) if prompt else ""
