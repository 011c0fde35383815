"""Select the visible part of a completion, after the thinking, for verifiers of whole texts."""

from __future__ import annotations

from trl_grpo_ext.answers.find.final_answer import after_thinking
from trl_grpo_ext.sample import Sample


def visible_text(sample: Sample) -> str | None:
    """Return a completion's text after the thinking; None for endless thinking.

    If the prefill is known and no `<think>` occurs, `</think>` does not end a thinking: the whole text is judged, so
    that a stray tag cannot hide text.

    Examples:
        >>> visible_text(Sample(text="2+2</think> 4 ", prefill="<think>"))
        ' 4 '
        >>> visible_text(Sample(text="2+2</think> 4", prefill=""))
        '2+2</think> 4'
    """
    text = (sample.prefill or "") + sample.text
    has_no_thinking = sample.prefill is not None and "<think>" not in text
    if has_no_thinking:
        return text
    return after_thinking(text)
