"""What the text of completions is like: whether it repeats itself, and whether it leaves the prompt's script.

A few completions of a batch stand for all, and the start of each for the whole, since this is done while training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trl_grpo_ext.sample import Prompt, Sample, completion_text

SAMPLES = 8  # of a batch, evenly spread
NGRAM = 8  # tokens: long enough that honest text seldom repeats one
LEAST_TOKENS = 32  # of a completion to be looked at
MOST_TOKENS = 1024
MOST_CHARS = 1000
LEAST_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFacts:
    """Means over a few completions of a batch.

    Attributes:
        repeated: The share of token 8-grams that were there before, in [0, 1]; None if no completion is long enough.
        foreign: The share of words in a script that the prompt does not use, in [0, 1]; None if there are too few
            words, or no library that knows scripts.
    """

    repeated: float | None
    foreign: float | None


def text_facts(samples: Sequence[Sample]) -> TextFacts:
    """What a few of these completions are like.

    Example:
        >>> text_facts([Sample(text="?", completion_ids=[1, 2] * 100)]).repeated
        0.9896373056994818
    """
    chosen = samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]
    repeated = [share for sample in chosen if (share := _repeated(sample)) is not None]
    foreign = [share for sample in chosen if (share := _foreign(sample)) is not None]
    return TextFacts(
        repeated=sum(repeated) / len(repeated) if repeated else None,
        foreign=sum(foreign) / len(foreign) if foreign else None,
    )


def _repeated(sample: Sample) -> float | None:
    ids = tuple(sample.completion_ids or ())[:MOST_TOKENS]
    if len(ids) < LEAST_TOKENS:
        return None
    count = len(ids) - NGRAM + 1
    return 1 - len({ids[start : start + NGRAM] for start in range(count)}) / count


def _foreign(sample: Sample) -> float | None:
    words = _words_by_script(sample.text)
    size = sum(words.values())
    if size < LEAST_WORDS or sample.prompt is None:
        return None
    used = _words_by_script(_prompt_text(sample.prompt)).keys()
    return sum(count for script, count in words.items() if script not in used) / size if used else None


def _words_by_script(text: str) -> dict[str, float]:
    from trl_grpo_ext.rewards.prose.scripts import windows  # needs `regex`, which transformers brings

    words: dict[str, float] = {}
    try:
        found = windows(text[:MOST_CHARS])
    except ImportError:
        return words
    for window in found:
        words[window.script] = words.get(window.script, 0.0) + window.weight
    return words


def _prompt_text(prompt: Prompt) -> str:
    """The start and the end of a prompt: instructions and the question may be in different languages."""
    if not isinstance(prompt, str):
        prompt = " ".join(completion_text([{**message, "role": "assistant"}]) for message in prompt)
    half = MOST_CHARS // 2
    return prompt if len(prompt) <= MOST_CHARS else f"{prompt[:half]} {prompt[-half:]}"
