"""A group of completions as the page shows it: plain values, cut to what a page can hold."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from itertools import islice
from typing import Any

from trl_grpo_ext.figures.teaching_groups import NO_ADVANTAGE
from trl_grpo_ext.figures.term_facts import would_fool
from trl_grpo_ext.report.judged_batch import Group, JudgedBatch
from trl_grpo_ext.report.plain_values import LONGEST_TEXT, bounded, plain, rounded
from trl_grpo_ext.report.prompts import LONGEST_MESSAGE, MOST_MESSAGES, prompt_key, prompt_messages
from trl_grpo_ext.sample import Prompt
from trl_grpo_ext.verdict import Verdict

LONGEST_FIELD = 4_000  # characters of an answer, or of a detail of a verdict
LONGEST_COLUMN = 20_000  # characters of a dataset column
MOST_COLUMNS = 50

ROUNDING = 1e-3  # of the advantages of a group of equals, which TRL computes in single precision: up to 3e-4, not 0

Place = tuple[int, int]  # of a group in the run: its batch's, and its own in that


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group in its batch, with what decides whether it is kept for the page.

    Attributes:
        batch: The batch that it is of.
        place: Its place among the groups of the batch.
        step: The step that it is shown at.
        number: The batch's place in the run.
    """

    batch: JudgedBatch
    place: int
    step: int
    number: int

    @property
    def in_run(self) -> Place:
        """Its place in the run."""
        return self.number, self.place

    @property
    def members(self) -> Group:
        """The places of its members in the batch."""
        return self.batch.groups[self.place]

    @property
    def size(self) -> int:
        """The number of completions."""
        return len(self.members)

    @property
    def characters(self) -> int:
        """About how many characters it takes in the page, but for columns that are no text."""
        samples = self.batch.card.samples
        first = samples[self.members[0]]
        columns = (value for value in islice(first.row.values(), MOST_COLUMNS) if isinstance(value, str))
        return (
            sum(min(len(samples[index].text), LONGEST_TEXT) + self._said(index) for index in self.members)
            + sum(min(len(value), LONGEST_COLUMN) for value in columns)
            + _prompt_characters(first.prompt)
        )

    def _said(self, index: int) -> int:
        """About how many characters the verdicts on a completion take."""
        verdicts = (self.batch.card.verdicts[term][index] for term in self.batch.card.terms)
        return sum(
            150 + sum(min(len(text), LONGEST_FIELD) for text in (verdict.answer or "", *verdict.details.values()))
            for verdict in verdicts
            if verdict is not None
        )

    @property
    def advantage(self) -> float:
        """The largest advantage of a member, without its sign; 0 where none is known."""
        return max(abs(self._advantage(index) or 0.0) for index in self.members)

    def _advantage(self, index: int) -> float | None:
        """The advantage of a member, 0 where it is no more than rounding; None where none is known."""
        advantages = self.batch.card.advantages
        if advantages is None:
            return None
        dead = self.batch.kinds[self.place] not in {None, "live", "secondary_only"}
        return 0.0 if abs(advantages[index]) <= (ROUNDING if dead else NO_ADVANTAGE) else advantages[index]

    @property
    def longest(self) -> int:
        """The characters of its longest completion."""
        return max(len(self.batch.card.samples[index].text) for index in self.members)

    @property
    def hacks(self) -> int:
        return sum(self.batch.is_hack(index) for index in self.members)

    @property
    def disagreements(self) -> int:
        return sum(self.batch.disagrees(index) for index in self.members)

    @property
    def voids(self) -> int:
        return sum(self.batch.card.void[index] for index in self.members)

    @property
    def lot(self) -> int:
        """A number drawn from what the group is, the same each time."""
        sample = self.batch.card.samples[self.members[0]]
        return zlib.crc32(f"{self.batch.card.mode} {self.step} {sample.group} {self.members[0]}".encode())

    def record(self) -> dict[str, Any]:
        """The group as plain values; `prompt` is the key of its prompt, and `messages` what that says."""
        card = self.batch.card
        first = card.samples[self.members[0]]
        return {
            "step": self.step,
            "mode": card.mode,
            "group": first.group,
            "kind": self.batch.kinds[self.place],
            "prompt": prompt_key(first.prompt),
            "messages": prompt_messages(first.prompt),
            "prefill": first.prefill or "",
            "row": [[str(name), _shown(value)] for name, value in islice(first.row.items(), MOST_COLUMNS)],
            "weights": {term: rounded(weight) for term, weight in card.weights.items()},
            "members": [self._member(index) for index in self.members],
        }

    def _member(self, index: int) -> dict[str, Any]:
        card = self.batch.card
        sample = card.samples[index]
        return {
            "sample": index,
            "text": bounded(sample.text),
            "tokens": None if sample.completion_ids is None else len(sample.completion_ids),
            "cut": sample.truncated,
            "total": rounded(card.totals[index]),
            "advantage": rounded(self._advantage(index)),
            "void": card.void[index],
            "disagrees": self.batch.disagrees(index),
            "hack": self.batch.is_hack(index),
            "primary": self.batch.primary_terms[index],
            "verdicts": {
                term: _verdict(verdict, card.values[term][index], gated=card.gated[term][index])
                for term in card.terms
                if (verdict := card.verdicts[term][index]) is not None
            },
        }


def _verdict(verdict: Verdict, value: float | None, *, gated: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "status": str(verdict.status),
        "blame": str(verdict.blame),
        "score": rounded(verdict.score),
        "value": rounded(value),
        "answer": None if verdict.answer is None else bounded(verdict.answer, LONGEST_FIELD),
        "reason": bounded(verdict.reason, LONGEST_FIELD),
        "seconds": rounded(verdict.seconds),
    }
    details = {str(name): bounded(str(text), LONGEST_FIELD) for name, text in verdict.details.items()}
    flags = {"gated": True} if gated else {}
    fooled = {"hack": True} if would_fool(verdict) else {}
    return found | flags | fooled | ({"details": details} if details else {})


def _prompt_characters(prompt: Prompt | None) -> int:
    if prompt is None or isinstance(prompt, str):
        return min(len(prompt or ""), LONGEST_MESSAGE)
    contents = (message.get("content") for message in prompt[-MOST_MESSAGES:])
    return sum(min(len(content), LONGEST_MESSAGE) for content in contents if isinstance(content, str))


def _shown(value: Any) -> str:
    return bounded(value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False), LONGEST_COLUMN)
