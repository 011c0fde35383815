"""Pass rates per prompt, for the report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trl_grpo_ext.report.page import DIGITS, bounded, rounded
from trl_grpo_ext.sample import PROMPT_KEY_BITS, Prompt, prompt_key
from trl_grpo_ext.support.files import plain

MOST_PROMPTS = 2000
# Number of steps kept per prompt: the last.
MOST_STEPS = 50
# Longest title and message, in characters.
LONGEST_TITLE = 200
LONGEST_MESSAGE = 20_000
# Number of messages shown per prompt: the last.
MOST_MESSAGES = 20
BINS = 10


class _Step(NamedTuple):
    """Counts of a prompt's judged and passed completions at a step."""

    step: int
    passed: int
    judged: int


@dataclass(slots=True)
class _PromptRecord:
    """Counts of a prompt's judged and passed completions, in total and by step."""

    title: str
    passed: int = 0
    judged: int = 0
    steps: list[_Step] = field(default_factory=list)

    def add(self, step: int, passed: int, judged: int) -> None:
        self.passed += passed
        self.judged += judged
        self.steps.append(_Step(step, passed, judged))
        # Twice as many may come before they are sorted: sorting at each step would cost more than counting.
        if len(self.steps) > 2 * MOST_STEPS:
            self.steps = self.last_steps

    @property
    def last_steps(self) -> list[_Step]:
        return sorted(self.steps)[-MOST_STEPS:]

    @property
    def rate(self) -> float:
        """Return the share of passed completions, in [0, 1]."""
        return self.passed / self.judged


class Prompts:
    """Prompts of a run with their pass rates; of a large run, a random sample of prompts.

    A prompt belongs to the sample if its hash is small enough. All prompts thus have equal chances, and a sampled
    prompt is counted from its first completion.
    """

    def __init__(self) -> None:
        self._records: dict[int, _PromptRecord] = {}
        # Prompts with a larger key are not in the sample.
        self._highest_key = 1 << PROMPT_KEY_BITS

    def add(self, prompt: Prompt | None, step: int, *, passed: int, judged: int) -> None:
        """Count a group's judged and passed completions for its prompt. Groups may come in any order."""
        key = prompt_key(prompt)
        if judged and key <= self._highest_key:
            record = self._records.setdefault(key, _PromptRecord(prompt_title(prompt)))
            record.add(step, passed, judged)
        if len(self._records) > 2 * MOST_PROMPTS:
            self._records = self._sample()
            self._highest_key = max(self._records)

    def _sample(self) -> dict[int, _PromptRecord]:
        return dict(sorted(self._records.items())[:MOST_PROMPTS])

    def table(self, places: Mapping[int, int]) -> dict[str, Any]:
        """Return `count`, the (estimated) number of prompts; `bins`, a histogram of pass rates; `rows`, hardest first.

        `bins` and `rows` cover at most `MOST_PROMPTS` prompts. `bins` has 12 counts: rate 0, ten equal intervals
        between 0 and 1, rate 1. A row has `title`, `rate`, `judged`, `steps` and `prompt`, the prompt's position in the
        page from `places`; None if the page shows none of its completions.
        """
        sample = self._sample()
        bins = [0] * (BINS + 2)
        for record in sample.values():
            bins[_bin(record.rate)] += 1
        rows = []
        for key, record in sorted(sample.items(), key=_difficulty):
            row = {
                "title": record.title,
                "rate": rounded(record.rate),
                "judged": record.judged,
                "steps": record.last_steps,
                "prompt": places.get(key),
            }
            rows.append(row)
        return {"count": self._count(), "bins": bins, "rows": rows}

    def _count(self) -> int:
        """Count the prompts; a sample's hash density gives an estimate."""
        all_keys = 1 << PROMPT_KEY_BITS
        if self._highest_key == all_keys:
            return len(self._records)
        # The largest key bounds the sample, so it does not count for the density below it.
        below_largest = len(self._records) - 1
        return round(below_largest * all_keys / max(self._records))


def _difficulty(item: tuple[int, _PromptRecord]) -> tuple[float, int, int]:
    """Return a sort key: hardest prompts first, of these the best known."""
    key, record = item
    return record.rate, -record.judged, key


def prompt_title(prompt: Prompt | None) -> str:
    """Return the start of a prompt's last message.

    Examples:
        >>> prompt_title([{"role": "system", "content": "Answer."}, {"role": "user", "content": " 2+2? "}])
        '2+2?'
    """
    if prompt is not None and not isinstance(prompt, str):
        prompt = prompt[-1:]
    messages = prompt_messages(prompt)
    if not messages:
        return ""
    _, text = messages[-1]
    return text.strip()[:LONGEST_TITLE]


def prompt_messages(prompt: Prompt | None) -> list[list[str]]:
    """List a prompt's messages as `[role, text]`; plain text has an empty role, and content without text becomes JSON.

    Examples:
        >>> prompt_messages([{"role": "user", "content": "2+2?"}]), prompt_messages("2+2=")
        ([['user', '2+2?']], [['', '2+2=']])
    """
    if prompt is None:
        return []
    if isinstance(prompt, str):
        return [["", bounded(prompt, LONGEST_MESSAGE)]]
    shown = []
    for message in prompt:
        role = str(message.get("role", ""))
        shown.append([role, bounded(_said(message), LONGEST_MESSAGE)])
    left_out = len(shown) - MOST_MESSAGES
    if left_out > 0:
        note = ["", f"[... {left_out} messages left out ...]"]
        shown = [note, *shown[left_out:]]
    return shown


def _said(message: Any) -> str:
    content = message.get("content")
    calls = message.get("tool_calls")
    if calls:
        told = json.dumps(plain(calls, DIGITS), ensure_ascii=False)
        content = f"{content or ''}\n{told}".strip()
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        blocks = list(map(_block_text, content))
        if all(isinstance(text, str) for text in blocks):
            return "".join(blocks)
    return json.dumps(plain(content, DIGITS), ensure_ascii=False)


def _block_text(block: Any) -> Any:
    """Return a block's text or recorded picture; None for other blocks."""
    if not isinstance(block, dict):
        return None
    # datasets adds every block's keys to all blocks, with null values.
    if block.get("image") is not None:
        return block["image"]
    return block.get("text")


def _bin(rate: float) -> int:
    if rate <= 0:
        return 0
    if rate >= 1:
        return BINS + 1
    return 1 + int(rate * BINS)
