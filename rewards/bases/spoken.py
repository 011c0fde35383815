"""The part of a completion that verifiers of whole texts judge."""

from __future__ import annotations

from trl_grpo_ext.answers.find.thinking import after_thinking
from trl_grpo_ext.sample import Sample


def spoken(sample: Sample) -> str | None:
    """What follows the thinking, for verifiers that judge all of it; None if the thinking does not end.

    A `</think>` ends no thinking where it is known that none began: the text before it would go unseen.

    Examples:
        >>> spoken(Sample(text="2+2</think> 4 ", prefill="<think>")), spoken(Sample(text="2+2</think> 4", prefill=""))
        (' 4 ', '2+2</think> 4')
    """
    text = (sample.prefill or "") + sample.text
    no_thinking = sample.prefill is not None and "<think>" not in text
    return text if no_thinking else after_thinking(text)
