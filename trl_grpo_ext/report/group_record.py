"""A group of completions for the page: plain values, shortened to the page's limits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from trl_grpo_ext.figures.gold import gold_column
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
# Size of a verdict in the page besides its answer and details, in characters.
VERDICT_CHARACTERS = 150
# Columns of a verdict that are mostly empty, and then left out of the page.
SELDOM = ("gated", "details")

# In a group of equal rewards, TRL's float32 arithmetic gives advantages up to 3e-4 instead of 0.
ROUNDING = 1e-3

# A group's position in the run: batch number, then position in the batch.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group in its batch, with criteria for keeping groups in the page."""

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
        first = self.card.samples[self.members[0]]
        characters = _prompt_characters(first.prompt)
        for value in islice(first.row.values(), MOST_COLUMNS):
            if isinstance(value, str):
                characters += min(len(value), LONGEST_COLUMN)
        for row in self.members:
            characters += self._characters_of(row)
        return characters

    def _characters_of(self, row: int) -> int:
        """Estimate a completion's size in the page, with its verdicts, in characters."""
        sample = self.card.samples[row]
        characters = min(len(sample.text), LONGEST_TEXT)
        characters += _prompt_characters(sample.messages)
        characters += len(_outcome(sample))
        for verdict in self._verdicts(row).values():
            characters += VERDICT_CHARACTERS
            answer = verdict.answer or ""
            for text in (answer, *verdict.details.values()):
                characters += min(len(text), LONGEST_FIELD)
        return characters

    def _verdicts(self, row: int) -> dict[str, Verdict]:
        """Return a completion's verdicts by term."""
        found = {}
        for term in self.card.terms:
            verdict = self.card.verdicts[term][row]
            if verdict is not None:
                found[term] = verdict
        return found

    @property
    def advantage(self) -> float:
        """Return the largest absolute advantage of a member; 0 if unknown."""
        advantages = [self._advantage(row) or 0.0 for row in self.members]
        return max(map(abs, advantages))

    def _advantage(self, row: int) -> float | None:
        """Return a member's advantage, 0 if within rounding error; None if unknown."""
        advantages = self.card.advantages
        if advantages is None:
            return None
        is_dead = self.kind not in {None, "live", "secondary_only"}
        rounding = ROUNDING if is_dead else NO_ADVANTAGE
        advantage = advantages[row]
        if abs(advantage) <= rounding:
            return 0.0
        return advantage

    @property
    def longest(self) -> int:
        """Return the length of the longest completion, in characters."""
        return max(len(self.card.samples[row].text) for row in self.members)

    @property
    def hacks(self) -> int:
        """Count failed completions that would have fooled a naive grader."""
        return sum(self._is_hack(row) for row in self.members)

    def _is_hack(self, row: int) -> bool:
        return any(map(would_fool, self._verdicts(row).values()))

    @property
    def disagreements(self) -> int:
        """Count completions on which a shadow term and the primary term disagree."""
        return sum(self._disagrees(row) for row in self.members)

    def _disagrees(self, row: int) -> bool:
        passed = passes(self.card.primary[row])
        if passed is None:
            return False
        for shadow in self.shadows:
            shadow_passed = passes(self.card.verdicts[shadow][row])
            if shadow_passed is not None and shadow_passed != passed:
                return True
        return False

    @property
    def passes(self) -> list[bool]:
        """Return a pass flag for each completion judged by its primary term."""
        flags = [passes(self.card.primary[row]) for row in self.members]
        return [passed for passed in flags if passed is not None]

    @property
    def voids(self) -> int:
        return sum(self.card.void[row] for row in self.members)

    @property
    def lot(self) -> int:
        """Return a pseudo-random number that depends only on mode, step and group, so reports are reproducible."""
        first = self.members[0]
        group = self.card.samples[first].group
        identity = f"{self.card.mode} {self.step} {group} {first}"
        return zlib.crc32(identity.encode())

    def record(self) -> dict[str, Any]:
        """Return the group as plain values; `prompt` is the prompt's key, and `messages` its text."""
        first = self.card.samples[self.members[0]]
        columns = islice(first.row.items(), MOST_COLUMNS)
        return {
            "step": self.step,
            "mode": self.card.mode,
            "group": first.group,
            "kind": self.kind,
            "prompt": prompt_key(first.prompt),
            "messages": prompt_messages(first.prompt),
            "prefill": first.prefill or "",
            "gold": gold_column(first.row),
            "row": [[str(name), _shown(value)] for name, value in columns],
            "weights": {
                term: rounded(weight) for term, weight in self.card.weights.items()
            },
            "members": [self._member(row) for row in self.members],
        }

    def _member(self, row: int) -> dict[str, Any]:
        """Return a completion's record: page columns and derived values."""
        record: dict[str, Any] = {}
        for column in SAMPLE_COLUMNS:
            if column.page:
                record[column.page] = _short(column.of(self.card, row), LONGEST_TEXT)
        sample = self.card.samples[row]
        turns = conversation(sample.messages or ())
        if turns:
            record["turns"] = turns
        outcome = _outcome(sample)
        if outcome:
            record["outcome"] = outcome
        record["advantage"] = rounded(self._advantage(row))
        record["disagrees"] = self._disagrees(row)
        record["hack"] = self._is_hack(row)
        record["primary"] = self.card.primary_terms[row]
        verdicts = self._verdicts(row)
        record["verdicts"] = {
            term: self._verdict(term, row, verdict) for term, verdict in verdicts.items()
        }
        return record

    def _verdict(self, term: str, row: int, verdict: Verdict) -> dict[str, Any]:
        record: dict[str, Any] = {}
        for column in VERDICT_COLUMNS:
            if not column.page:
                continue
            value = _short(column.of(self.card, row, term, verdict), LONGEST_FIELD)
            # A page has thousands of verdicts, so empty values of rare columns are left out.
            if value or column.page not in SELDOM:
                record[column.page] = value
        if would_fool(verdict):
            record["hack"] = True
        return record


def groups_of(
    card: Scorecard,
    *,
    number: int,
    step: int,
    shadows: Sequence[str],
) -> list[GroupView]:
    """Split a batch into groups for the page; a sample of unknown group makes a group alone.

    `number` is the batch's number in the run, `step` the step to show, and `shadows` the terms without training weight.
    """
    views: list[GroupView] = []

    def add(members: Sequence[int], kind: str | None) -> None:
        view = GroupView(
            card=card,
            members=members,
            kind=kind,
            in_run=(number, len(views)),
            step=step,
            shadows=shadows,
        )
        views.append(view)

    is_secondary = card.live & ~card.primary_differs
    for group, members in enumerate(card.members):
        kind = str(card.outcomes[group])
        if is_secondary[group]:
            kind = "secondary_only"
        add(members, kind)
    for row, sample in enumerate(card.samples):
        if sample.group is None:
            add((row,), None)
    return views


def _outcome(sample: Sample) -> str:
    """Describe an environment's outcome: its reward or error, then its final state; empty without an environment."""
    outcome = sample.outcome
    if outcome is None:
        return ""
    reward = "none" if outcome.reward is None else f"{outcome.reward:g}"
    ending = outcome.error or f"reward {reward}"
    text = f"{outcome.environment}: {ending}"
    if outcome.state is not None:
        text += f"\n{_shown(outcome.state)}"
    return bounded(text, LONGEST_FIELD)


def _short(value: Any, most: int) -> Any:
    """Round numbers and shorten texts for the page."""
    if isinstance(value, str):
        return bounded(value, most)
    if isinstance(value, Mapping):
        return {str(name): bounded(str(text), most) for name, text in value.items()}
    if isinstance(value, float):
        return rounded(value)
    return value


def _prompt_characters(prompt: Prompt | None) -> int:
    if prompt is None:
        return 0
    if isinstance(prompt, str):
        return min(len(prompt), LONGEST_MESSAGE)
    characters = 0
    for message in prompt[-MOST_MESSAGES:]:
        content = message.get("content")
        if isinstance(content, str):
            characters += min(len(content), LONGEST_MESSAGE)
    return characters


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        value = json.dumps(plain(value, DIGITS), ensure_ascii=False)
    return bounded(value, LONGEST_COLUMN)
