"""Figures of the text of completions: how much is repeated, and how much is not in the prompt's script.

Only a few completions of a batch are read, and only their start, because this runs during training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trl_grpo_ext.rewards.prose import passages, word_count
from trl_grpo_ext.rewards.repetition import repeated_share
from trl_grpo_ext.sample import Sample, content_text
from trl_grpo_ext.support.estimate import mean_of_known
from trl_grpo_ext.support.text import cut

SAMPLES = 8  # of a batch, evenly spread
NGRAM = 8  # tokens: long enough that honest text seldom repeats one
LEAST_TOKENS = 32  # of a completion to be looked at
MOST_TOKENS = 1024
MOST_CHARS = 1000
LEAST_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFigures:
    """Means over a few completions of a batch."""

    # The share of token 8-grams that were there before, in [0, 1]; None if no completion is long enough.
    repeated: float | None
    # The share of words in a script that the prompt does not use, in [0, 1]; None if there are too few words, or no
    # library that knows scripts.
    foreign: float | None


def text_figures(samples: Sequence[Sample]) -> TextFigures:
    """What a few of these completions are like.

    Examples:
        >>> text_figures([Sample(text="?", completion_ids=[1, 2] * 100)]).repeated
        0.9896373056994818
    """
    size = min(SAMPLES, len(samples))
    chosen = [samples[place * len(samples) // size] for place in range(size)]
    ids = [tuple(sample.completion_ids or ())[:MOST_TOKENS] for sample in chosen]
    return TextFigures(
        repeated=mean_of_known(repeated_share(each, NGRAM) for each in ids if len(each) >= LEAST_TOKENS),
        foreign=mean_of_known(map(_foreign, chosen)),
    )


def _foreign(sample: Sample) -> float | None:
    prompt = sample.prompt
    if prompt is None:
        return None
    if not isinstance(prompt, str):
        prompt = " ".join(content_text(message.get("content")) for message in prompt)
    # The start and the end of a prompt: instructions and the question may be in different languages.
    prompt = cut(prompt, MOST_CHARS // 2, MOST_CHARS // 2, " ")
    try:
        said, asked = passages(sample.text[:MOST_CHARS]), passages(prompt)
    except ImportError:  # of `regex`, which transformers brings
        return None
    used = {window.script for window in asked}
    words = word_count(said)
    return word_count(said, outside=used) / words if used and words >= LEAST_WORDS else None
