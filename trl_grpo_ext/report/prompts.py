"""How often each prompt of a run is answered correctly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.report.judged_batch import JudgedBatch, passes
from trl_grpo_ext.report.plain_values import bounded, plain, rounded
from trl_grpo_ext.sample import Prompt

MOST_PROMPTS = 500  # in the table; the histogram counts all
LONGEST_MESSAGE = 20_000  # characters
MOST_MESSAGES = 20  # of a prompt, the last
BINS = 10


@dataclass(slots=True)
class PromptRecord:
    """What became of a prompt: by step, how many completions were judged, and how many passed."""

    prompt: Prompt | None
    steps: list[list[int]] = field(default_factory=list)  # [step, passed, judged]

    @property
    def judged(self) -> int:
        return sum(judged for _, _, judged in self.steps)

    @property
    def rate(self) -> float | None:
        """The share that passed, in [0, 1]; None where nothing could be judged."""
        return sum(passed for _, passed, _ in self.steps) / self.judged if self.judged else None


class Prompts:
    """Every prompt of a run, by what it says."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], PromptRecord] = {}

    def add(self, batch: JudgedBatch, step: int) -> None:
        """Count a batch's completions for their prompts."""
        for group in batch.groups:
            verdicts = [passes(batch.primary[index]) for index in group]
            judged = [verdict for verdict in verdicts if verdict is not None]
            prompt = batch.card.samples[group[0]].prompt
            key = (batch.card.mode, prompt_key(prompt))
            record = self._records.setdefault(key, PromptRecord(prompt))
            if judged:
                record.steps.append([step, sum(judged), len(judged)])

    def table(self, mode: str, place: dict[str, int]) -> dict[str, Any]:
        """The prompts of a mode: `bins`, counts by pass rate, and `rows`, at most `MOST_PROMPTS`, hardest first.

        `bins` has 12 counts: rate 0, ten equal intervals of what lies between, rate 1. A row is `prompt`, a number that
        `place` has or is given, `rate`, `judged` and `steps`.
        """
        known = [
            (record.rate, key, record)
            for (found, key), record in self._records.items()
            if found == mode and record.rate is not None
        ]
        known.sort(key=lambda item: (item[0], -item[2].judged, item[1]))
        bins = [0] * (BINS + 2)
        for rate, _, _ in known:
            bins[_bin(rate or 0.0)] += 1
        rows = [
            {
                "prompt": place.setdefault(key, len(place)),
                "rate": rounded(rate),
                "judged": record.judged,
                "steps": record.steps[-50:],
            }
            for rate, key, record in evenly(known, MOST_PROMPTS)
        ]
        return {"count": len(known), "bins": bins, "rows": rows}

    def texts(self, place: dict[str, int]) -> list[list[list[str]]]:
        """What the prompts in `place` say, in its order: of each its messages, `[role, text]`."""
        said = {key: record.prompt for (_, key), record in self._records.items()}
        return [prompt_messages(said.get(key)) for key in place]


def prompt_key(prompt: Prompt | None) -> str:
    """What tells prompts apart."""
    return prompt if isinstance(prompt, str) else json.dumps(prompt, default=str)


def prompt_messages(prompt: Prompt | None) -> list[list[str]]:
    """The messages of a prompt, `[role, text]`; a text has no role, and what has no text is shown as JSON.

    Example:
        >>> prompt_messages([{"role": "user", "content": "2+2?"}]), prompt_messages("2+2=")
        ([['user', '2+2?']], [['', '2+2=']])
    """
    if prompt is None:
        return []
    if isinstance(prompt, str):
        return [["", bounded(prompt, LONGEST_MESSAGE)]]
    shown = [[str(message.get("role", "")), bounded(_said(message), LONGEST_MESSAGE)] for message in prompt]
    left_out = len(shown) - MOST_MESSAGES
    return [["", f"[... {left_out} messages left out ...]"], *shown[left_out:]] if left_out > 0 else shown


def _said(message: Any) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(block, dict) and "text" in block for block in content):
        return "".join(str(block["text"]) for block in content)
    return json.dumps(plain(content), ensure_ascii=False)


def evenly(items: Sequence[Any], count: int) -> Iterable[Any]:
    """At most `count` of the items, the first and the last among them, evenly spread.

    Example:
        >>> list(evenly(range(10), 4))
        [0, 3, 6, 9]
    """
    if len(items) <= count:
        return items
    return [items[round(place * (len(items) - 1) / (count - 1))] for place in range(count)]


def _bin(rate: float) -> int:
    if rate <= 0:
        return 0
    return BINS + 1 if rate >= 1 else 1 + min(BINS - 1, int(rate * BINS))
