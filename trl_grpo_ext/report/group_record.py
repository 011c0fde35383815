"""A group of completions for the page: plain values, shortened to the page's limits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from trl_grpo_ext.diagnostics.example import gold_column
from trl_grpo_ext.figures.primary import passes
from trl_grpo_ext.figures.reduction import NO_ADVANTAGE
from trl_grpo_ext.figures.terms import would_fool
from trl_grpo_ext.report.conversation import conversation
from trl_grpo_ext.report.page import DIGITS, LONGEST_TEXT, bounded, rounded
from trl_grpo_ext.report.prompts import LONGEST_MESSAGE, MOST_MESSAGES, prompt_messages
from trl_grpo_ext.runs.schema import SAMPLE_COLUMNS, VERDICT_COLUMNS
from trl_grpo_ext.sample import Prompt, Sample, prompt_key
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.verdict import Verdict

# Longest answer or verdict detail, in characters.
LONGEST_FIELD = 4_000
# Longest value of a dataset column, in characters.
LONGEST_COLUMN = 20_000
MOST_COLUMNS = 50
# Columns of a verdict that are mostly empty, and then left out of the page.
SELDOM = ("gated", "details")

# In a group of equal rewards, TRL's float32 arithmetic gives advantages up to 3e-4 instead of 0.
ROUNDING = 1e-3

# A group's position in the run: batch number, then position in the batch.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group in its batch, with the properties by which the page keeps or drops it."""

    # The batch's scorecard.
    card: Scorecard
    # Rows of the group's completions in the batch.
    members: Sequence[int]
    # One of `GROUP_KINDS`; None for a sample of unknown group, which makes a group alone.
    kind: str | None
    # The group's position in the run.
    in_run: Place
    # The step to show the group at.
    step: int
    # Terms without training weight, compared with the primary terms.
    shadows: Sequence[str] = ()

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def characters(self) -> int:
        """Estimate the group's size in the page, in characters; columns other than text are not counted."""
        samples = self.card.samples
        first = samples[self.members[0]]
        columns = (value for value in islice(first.row.values(), MOST_COLUMNS) if isinstance(value, str))
        return (
            sum(min(len(samples[row].text), LONGEST_TEXT) + self._said(row) for row in self.members)
            + sum(_prompt_characters(samples[row].messages) + len(_outcome(samples[row])) for row in self.members)
            + sum(min(len(value), LONGEST_COLUMN) for value in columns)
            + _prompt_characters(first.prompt)
        )

    def _verdicts(self, row: int) -> list[tuple[str, Verdict]]:
        """List a completion's verdicts with their terms."""
        found = ((term, self.card.verdicts[term][row]) for term in self.card.terms)
        return [(term, verdict) for term, verdict in found if verdict is not None]

    def _said(self, row: int) -> int:
        """Estimate the size of a completion's verdicts in the page, in characters."""
        return sum(
            150 + sum(min(len(text), LONGEST_FIELD) for text in (verdict.answer or "", *verdict.details.values()))
            for _, verdict in self._verdicts(row)
        )

    @property
    def advantage(self) -> float:
        """Return the largest absolute advantage of a member; 0 if unknown."""
        return max(abs(self._advantage(row) or 0.0) for row in self.members)

    def _advantage(self, row: int) -> float | None:
        """Return a member's advantage, 0 if within rounding error; None if unknown."""
        advantages = self.card.advantages
        if advantages is None:
            return None
        dead = self.kind not in {None, "live", "secondary_only"}
        return 0.0 if abs(advantages[row]) <= (ROUNDING if dead else NO_ADVANTAGE) else advantages[row]

    @property
    def longest(self) -> int:
        """Return the length of the longest completion, in characters."""
        return max(len(self.card.samples[row].text) for row in self.members)

    @property
    def hacks(self) -> int:
        """Count failed completions that would have fooled a naive grader."""
        return sum(self._is_hack(row) for row in self.members)

    def _is_hack(self, row: int) -> bool:
        return any(would_fool(verdict) for _, verdict in self._verdicts(row))

    @property
    def disagreements(self) -> int:
        """Count completions on which a shadow term and the primary term disagree."""
        return sum(self._disagrees(row) for row in self.members)

    def _disagrees(self, row: int) -> bool:
        passed = passes(self.card.primary[row])
        return passed is not None and any(
            passes(self.card.verdicts[shadow][row]) is (not passed) for shadow in self.shadows
        )

    @property
    def passes(self) -> list[bool]:
        """Return a pass flag for each completion judged by its primary term."""
        return [passed for row in self.members if (passed := passes(self.card.primary[row])) is not None]

    @property
    def voids(self) -> int:
        return sum(self.card.void[row] for row in self.members)

    @property
    def lot(self) -> int:
        """Return a pseudo-random number that depends only on mode, step and group, so reports are reproducible."""
        group = self.card.samples[self.members[0]].group
        return zlib.crc32(f"{self.card.mode} {self.step} {group} {self.members[0]}".encode())

    def record(self) -> dict[str, Any]:
        """Return the group as plain values; `prompt` is the prompt's key, and `messages` its text."""
        first = self.card.samples[self.members[0]]
        return {
            "step": self.step,
            "mode": self.card.mode,
            "group": first.group,
            "kind": self.kind,
            "prompt": prompt_key(first.prompt),
            "messages": prompt_messages(first.prompt),
            "prefill": first.prefill or "",
            "gold": gold_column(first.row),
            "row": [[str(name), _shown(value)] for name, value in islice(first.row.items(), MOST_COLUMNS)],
            "weights": {term: rounded(weight) for term, weight in self.card.weights.items()},
            "members": [self._member(row) for row in self.members],
        }

    def _member(self, row: int) -> dict[str, Any]:
        """Return a completion's record: page columns and derived values."""
        columns = {column.page: column.of(self.card, row) for column in SAMPLE_COLUMNS if column.page}
        sample = self.card.samples[row]
        turns, outcome = conversation(sample.messages or ()), _outcome(sample)
        return {name: _short(value, LONGEST_TEXT) for name, value in columns.items()} | {
            **({"turns": turns} if turns else {}),
            **({"outcome": outcome} if outcome else {}),
            "advantage": rounded(self._advantage(row)),
            "disagrees": self._disagrees(row),
            "hack": self._is_hack(row),
            "primary": self.card.primary_terms[row],
            "verdicts": {term: self._verdict(term, row, verdict) for term, verdict in self._verdicts(row)},
        }

    def _verdict(self, term: str, row: int, verdict: Verdict) -> dict[str, Any]:
        columns = {column.page: column.of(self.card, term, row, verdict) for column in VERDICT_COLUMNS if column.page}
        shown = {name: _short(value, LONGEST_FIELD) for name, value in columns.items()}
        # A page has thousands of verdicts, so empty values of rare columns are left out.
        return {name: value for name, value in shown.items() if value or name not in SELDOM} | (
            {"hack": True} if would_fool(verdict) else {}
        )


def groups_of(card: Scorecard, *, number: int, step: int, shadows: Sequence[str]) -> list[GroupView]:
    """Split a batch into groups for the page; a sample of unknown group makes a group alone.

    `number` is the batch's number in the run, `step` the step to show, and `shadows` the terms without training weight.
    """
    kinds: list[str | None] = [
        "secondary_only" if is_live and not differs else str(outcome)
        for outcome, is_live, differs in zip(card.outcomes, card.live, card.primary_differs, strict=True)
    ]
    alone = [(row,) for row, sample in enumerate(card.samples) if sample.group is None]
    members = [*card.members, *alone]
    return [
        GroupView(card=card, members=rows, kind=kind, in_run=(number, place), step=step, shadows=shadows)
        for place, (rows, kind) in enumerate(zip(members, [*kinds, *(None for _ in alone)], strict=True))
    ]


def _outcome(sample: Sample) -> str:
    """Describe an environment's outcome: its reward or error, then its final state; empty without an environment."""
    outcome = sample.outcome
    if outcome is None:
        return ""
    said = outcome.error or f"reward {'none' if outcome.reward is None else f'{outcome.reward:g}'}"
    state = "" if outcome.state is None else f"\n{_shown(outcome.state)}"
    return bounded(f"{outcome.environment}: {said}{state}", LONGEST_FIELD)


def _short(value: Any, most: int) -> Any:
    """Round numbers and shorten texts for the page."""
    if isinstance(value, str):
        return bounded(value, most)
    if isinstance(value, Mapping):
        return {str(name): bounded(str(text), most) for name, text in value.items()}
    return rounded(value) if isinstance(value, float) else value


def _prompt_characters(prompt: Prompt | None) -> int:
    if prompt is None or isinstance(prompt, str):
        return min(len(prompt or ""), LONGEST_MESSAGE)
    contents = (message.get("content") for message in prompt[-MOST_MESSAGES:])
    return sum(min(len(content), LONGEST_MESSAGE) for content in contents if isinstance(content, str))


def _shown(value: Any) -> str:
    said = value if isinstance(value, str) else json.dumps(plain(value, DIGITS), ensure_ascii=False)
    return bounded(said, LONGEST_COLUMN)
