"""A group of completions as the page shows it: plain values, cut to what a page can hold."""

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

LONGEST_FIELD = 4_000  # characters of an answer, or of a detail of a verdict
LONGEST_COLUMN = 20_000  # characters of a dataset column
MOST_COLUMNS = 50
SELDOM = ("gated", "details")  # parts of a verdict that are mostly empty

ROUNDING = 1e-3  # of the advantages of a group of equals, which TRL computes in single precision: up to 3e-4, not 0

Place = tuple[int, int]  # of a group in the run: its batch's, and its own in that


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group in its batch, with what decides whether it is kept for the page."""

    card: Scorecard  # the batch that it is of
    members: Sequence[int]  # the rows of its members
    kind: str | None  # one of `GROUP_KINDS`; None for a sample whose group is unknown, which is one by itself
    in_run: Place  # its place in the run
    step: int  # the step that it is shown at
    shadows: Sequence[str] = ()  # the terms that are not trained on, to be set against the primary ones

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def characters(self) -> int:
        """About how many characters it takes in the page, without columns that are not text."""
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
        """The verdicts on a completion, by term."""
        found = ((term, self.card.verdicts[term][row]) for term in self.card.terms)
        return [(term, verdict) for term, verdict in found if verdict is not None]

    def _said(self, row: int) -> int:
        """About how many characters the verdicts on a completion take."""
        return sum(
            150 + sum(min(len(text), LONGEST_FIELD) for text in (verdict.answer or "", *verdict.details.values()))
            for _, verdict in self._verdicts(row)
        )

    @property
    def advantage(self) -> float:
        """The largest advantage of a member, without its sign; 0 where none is known."""
        return max(abs(self._advantage(row) or 0.0) for row in self.members)

    def _advantage(self, row: int) -> float | None:
        """The advantage of a member, 0 if it is within rounding error; None if it is unknown."""
        advantages = self.card.advantages
        if advantages is None:
            return None
        dead = self.kind not in {None, "live", "secondary_only"}
        return 0.0 if abs(advantages[row]) <= (ROUNDING if dead else NO_ADVANTAGE) else advantages[row]

    @property
    def longest(self) -> int:
        """The characters of its longest completion."""
        return max(len(self.card.samples[row].text) for row in self.members)

    @property
    def hacks(self) -> int:
        """How many completions a term has failed that would have fooled a naive grader."""
        return sum(self._is_hack(row) for row in self.members)

    def _is_hack(self, row: int) -> bool:
        return any(would_fool(verdict) for _, verdict in self._verdicts(row))

    @property
    def disagreements(self) -> int:
        """On how many completions a shadow and the primary term disagree."""
        return sum(self._disagrees(row) for row in self.members)

    def _disagrees(self, row: int) -> bool:
        passed = passes(self.card.primary[row])
        return passed is not None and any(
            passes(self.card.verdicts[shadow][row]) is (not passed) for shadow in self.shadows
        )

    @property
    def passes(self) -> list[bool]:
        """Of each completion that its primary term has judged, whether it passes."""
        return [passed for row in self.members if (passed := passes(self.card.primary[row])) is not None]

    @property
    def voids(self) -> int:
        return sum(self.card.void[row] for row in self.members)

    @property
    def lot(self) -> int:
        """A number drawn from what the group is, the same each time."""
        group = self.card.samples[self.members[0]].group
        return zlib.crc32(f"{self.card.mode} {self.step} {group} {self.members[0]}".encode())

    def record(self) -> dict[str, Any]:
        """The group as plain values; `prompt` is the key of its prompt, and `messages` what that says."""
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
        """A completion: the columns that the page shows, and what follows from them."""
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
        # What is mostly empty is left out: there are thousands of verdicts.
        return {name: value for name, value in shown.items() if value or name not in SELDOM} | (
            {"hack": True} if would_fool(verdict) else {}
        )


def groups_of(card: Scorecard, *, number: int, step: int, shadows: Sequence[str]) -> list[GroupView]:
    """The groups of the batch with this number in the run; a sample whose group is unknown is one by itself."""
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
    """The reward of the environment, or its failure, and its final state; empty without an environment."""
    outcome = sample.outcome
    if outcome is None:
        return ""
    said = outcome.error or f"reward {'none' if outcome.reward is None else f'{outcome.reward:g}'}"
    state = "" if outcome.state is None else f"\n{_shown(outcome.state)}"
    return bounded(f"{outcome.environment}: {said}{state}", LONGEST_FIELD)


def _short(value: Any, most: int) -> Any:
    """A value of a column as the page holds it: numbers rounded, texts cut."""
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
