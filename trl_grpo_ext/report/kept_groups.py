"""Choose groups for a run's page: every group of a small run; of a larger run, important groups and a random sample."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.report.group_record import GroupView, Place

MOST_COMPLETIONS = 5000
MOST_CHARACTERS = 24_000_000

Wanted = Callable[[GroupView], float]
# Sort key of a group: its priority, then its position; of equal groups, the earliest in the run ranks highest.
Rank = tuple[float, int, int]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A group's page record and its size, detached from its batch."""

    place: Place
    completions: int
    characters: int
    record: dict[str, Any]


class _Shelf:
    """Groups of highest priority by a given criterion, within a budget of completions and characters.

    `wanted` returns a group's priority; a group of priority 0 or less is not kept. At least one group is kept, even
    over budget.
    """

    def __init__(self, wanted: Wanted, completions: int, characters: int) -> None:
        self.wanted = wanted
        self._completions = completions
        self._characters = characters
        self._held: list[tuple[Rank, _Candidate]] = []

    def wants(self, wanted: float, group: GroupView) -> bool:
        """Say whether the group outranks a kept group, or fits into the remaining budget."""
        if wanted <= 0:
            return False
        if not self._held:
            return True
        lowest, _ = self._held[0]
        if _rank(wanted, group.in_run) > lowest:
            return True
        return group.size <= self._completions and group.characters <= self._characters

    def put(self, wanted: float, candidate: _Candidate) -> None:
        """Keep the group, and drop the lowest-ranked groups until the rest fits the budget."""
        heapq.heappush(self._held, (_rank(wanted, candidate.place), candidate))
        self._completions -= candidate.completions
        self._characters -= candidate.characters
        while len(self._held) > 1 and self._is_over_budget:
            _, gone = heapq.heappop(self._held)
            self._completions += gone.completions
            self._characters += gone.characters

    @property
    def _is_over_budget(self) -> bool:
        return self._completions < 0 or self._characters < 0

    @property
    def best_first(self) -> list[_Candidate]:
        ranked = sorted(self._held, key=lambda item: item[0], reverse=True)
        return [candidate for _, candidate in ranked]


def _rank(wanted: float, place: Place) -> Rank:
    batch, position = place
    # The heap drops the lowest rank first: of equal groups, the latest.
    return wanted, -batch, -position


class KeptGroups:
    """Groups for a page, chosen in bounded memory; each group is added once, in any order.

    Priorities in order: groups at steps with findings (`cited`), hacks, disagreements with a shadow term, void rows,
    large advantages, long completions. The remaining budget goes to a uniform random sample of groups. The budget
    counts completions and characters. Groups are kept whole, at least one per priority, so they may exceed it.
    """

    def __init__(
        self,
        completions: int = MOST_COMPLETIONS,
        characters: int = MOST_CHARACTERS,
        cited: Collection[int] = (),
    ) -> None:
        self._completions = completions
        self._characters = characters
        steps = frozenset(cited)
        # Plus 1, since a group of priority 0 is not kept.
        self._sample = self._shelf(lambda group: 1 + group.lot, 1.0)
        self._shelves = [
            self._shelf(
                lambda group: 1 + group.advantage if group.step in steps else 0, 0.2
            ),
            self._shelf(lambda group: group.hacks, 0.1),
            self._shelf(lambda group: group.disagreements, 0.15),
            self._shelf(lambda group: group.voids, 0.1),
            self._shelf(lambda group: group.advantage, 0.15),
            self._shelf(lambda group: group.longest, 0.05),
            self._sample,
        ]

    def _shelf(self, wanted: Wanted, share: float) -> _Shelf:
        return _Shelf(
            wanted,
            completions=round(share * self._completions),
            characters=round(share * self._characters),
        )

    def add(self, group: GroupView) -> None:
        """Add a group; shelves that want it keep its record."""
        takers = []
        for shelf in self._shelves:
            wanted = shelf.wanted(group)
            if shelf.wants(wanted, group):
                takers.append((shelf, wanted))
        # A record is long, so it is made only for groups that a shelf takes.
        if not takers:
            return
        candidate = _Candidate(
            place=group.in_run,
            completions=group.size,
            characters=group.characters,
            record=group.record(),
        )
        for shelf, wanted in takers:
            shelf.put(wanted, candidate)

    def records(self) -> list[dict[str, Any]]:
        """Return the kept groups' records in run order."""
        chosen: dict[Place, _Candidate] = {}
        for shelf in self._shelves[:-1]:
            for candidate in shelf.best_first:
                chosen[candidate.place] = candidate
        # The budget that the priorities leave to the random sample.
        completions = self._completions
        characters = self._characters
        for candidate in chosen.values():
            completions -= candidate.completions
            characters -= candidate.characters
        for candidate in self._sample.best_first:
            if candidate.place in chosen:
                continue
            is_too_large = (
                candidate.completions > completions or candidate.characters > characters
            )
            # The first group is taken whatever its size: a page without a completion shows nothing.
            if chosen and is_too_large:
                continue
            chosen[candidate.place] = candidate
            completions -= candidate.completions
            characters -= candidate.characters
        return [candidate.record for _, candidate in sorted(chosen.items())]
