"""Measure completions' text: repeated token 8-grams, and words outside the prompt's scripts.

Only a few completions of a batch are read, and only their beginnings, because this runs during training.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trl_grpo_ext.rewards.prose import passages, word_count
from trl_grpo_ext.rewards.repetition import repeated_share
from trl_grpo_ext.sample import Sample, content_text
from trl_grpo_ext.support.estimate import mean_of_known
from trl_grpo_ext.support.text import cut, on_one_line

# Completions of a batch that are read, evenly spread.
SAMPLES = 8
# Tokens of an n-gram: long enough that honest text seldom repeats an n-gram.
NGRAM = 8
# Shorter completions are not measured for repetition.
LEAST_TOKENS = 32
MOST_TOKENS = 1024
MOST_CHARS = 1000
# Shorter completions are not measured for foreign words.
LEAST_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFigures:
    """Average text figures over a few completions of a batch."""

    # Share of token 8-grams that occurred before in the completion, in [0, 1]; None if no completion is long enough.
    repeated: float | None
    # Share of words in a script that the prompt does not use, in [0, 1]; None with too few words, or without the
    # library `regex`.
    foreign: float | None


# Tokens, besides those that begin and end a turn.
FEW_TOKENS = 2
# Characters of a written call.
MOST_OF_CALL = 60
# How chat templates begin a call, and what stands in it.
_CALL = re.compile(
    r"""<\|?tool_calls?|<call>|<function(_call|=)|\[TOOL_CALLS\]"""
    r"""|\{\s*"name"\s*:\s*"[^"]+"\s*,\s*"(arguments|parameters)"\s*:"""
)


def is_silent(sample: Sample) -> bool:
    """Check whether a completion has tokens and no text: special tokens only, which decoding leaves out.

    Examples:
        >>> is_silent(Sample(text="", completion_ids=[7, 8, 9])), is_silent(Sample(text="", completion_ids=[2]))
        (True, False)
    """
    return not sample.text and not sample.messages and (sample.length or 0) > FEW_TOKENS


def written_call(sample: Sample) -> str:
    """Return the beginning of a tool call that stands in a completion's text; empty without one.

    Examples:
        >>> written_call(Sample(text='I call <tool_call>{"name": "add"}</tool_call>'))
        '<tool_call>{"name": "add"}</tool_call>'
    """
    found = _CALL.search(sample.text)
    return on_one_line(sample.text[found.start() :], MOST_OF_CALL) if found else ""


def text_figures(samples: Sequence[Sample]) -> TextFigures:
    """Measure the text of a few evenly spread samples.

    Examples:
        >>> text_figures([Sample(text="?", completion_ids=[1, 2] * 100)]).repeated
        0.9896373056994818
    """
    size = min(SAMPLES, len(samples))
    chosen = [samples[place * len(samples) // size] for place in range(size)]
    return TextFigures(
        repeated=mean_of_known(map(_repeated, chosen)),
        foreign=mean_of_known(map(_foreign, chosen)),
    )


def _repeated(sample: Sample) -> float | None:
    ids = tuple(sample.completion_ids or ())[:MOST_TOKENS]
    if len(ids) < LEAST_TOKENS:
        return None
    return repeated_share(ids, NGRAM)


def _foreign(sample: Sample) -> float | None:
    prompt = sample.prompt
    if prompt is None:
        return None
    if not isinstance(prompt, str):
        prompt = " ".join(content_text(message.get("content")) for message in prompt)
    # The start and the end of a prompt: instructions and the question may be in different languages.
    half = MOST_CHARS // 2
    prompt = cut(prompt, half, half, " ")
    try:
        said = passages(sample.text[:MOST_CHARS])
        asked = passages(prompt)
    # `regex` is missing; transformers usually installs it.
    except ImportError:
        return None
    scripts = {window.script for window in asked}
    words = word_count(said)
    if not scripts or words < LEAST_WORDS:
        return None
    return word_count(said, outside=scripts) / words
