"""Which groups go into a run's page: all of a small run; of a larger run the important ones and a sample."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.report.group_record import GroupView, Place

MOST_COMPLETIONS = 5000
MOST_CHARACTERS = 24_000_000

Wanted = Callable[[GroupView], float]
Rank = tuple[float, int, int]  # how much a group is wanted; of equals, the first in the run


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A group as the page would show it, without the batch that it came from."""

    place: Place
    completions: int
    characters: int
    record: dict[str, Any]


class _Shelf:
    """The groups that one reason wants most, as far as there is room; at least one.

    A group that is `wanted` by 0 or less is not wanted at all. There is room for so many completions and characters.
    """

    def __init__(self, wanted: Wanted, completions: int, characters: int) -> None:
        self.wanted = wanted
        self._completions = completions
        self._characters = characters
        self._held: list[tuple[Rank, _Candidate]] = []

    def wants(self, wanted: float, group: GroupView) -> bool:
        """Whether the group is wanted more than one that is held, or there is room for it."""
        if wanted <= 0:
            return False
        if not self._held or _rank(wanted, group.in_run) > self._held[0][0]:
            return True
        return group.size <= self._completions and group.characters <= self._characters

    def put(self, wanted: float, candidate: _Candidate) -> None:
        """Hold the group, and let those go that are wanted least until the rest fits."""
        heapq.heappush(self._held, (_rank(wanted, candidate.place), candidate))
        self._completions -= candidate.completions
        self._characters -= candidate.characters
        while len(self._held) > 1 and (self._completions < 0 or self._characters < 0):
            _, gone = heapq.heappop(self._held)
            self._completions += gone.completions
            self._characters += gone.characters

    @property
    def best_first(self) -> list[_Candidate]:
        return [candidate for _, candidate in sorted(self._held, key=lambda item: item[0], reverse=True)]


def _rank(wanted: float, place: Place) -> Rank:
    return wanted, -place[0], -place[1]


class KeptGroups:
    """Groups for a page, in bounded memory; each is looked at once, in any order.

    What matters comes first: groups of steps that a finding names, hacks, disagreements with a shadow, void rows, the
    largest advantages, the longest completions. What room is left goes to a sample in which every group has the same
    chance. At most so many completions and characters of text are kept, but for whole groups: the last may go over.
    `cited` are the steps that findings name.
    """

    def __init__(
        self,
        completions: int = MOST_COMPLETIONS,
        characters: int = MOST_CHARACTERS,
        cited: Collection[int] = (),
    ) -> None:
        self._completions, self._characters = completions, characters
        steps = frozenset(cited)
        self._sample = self._shelf(lambda group: 1 + group.lot, 1.0)
        self._shelves = [
            self._shelf(lambda group: 1 + group.advantage if group.step in steps else 0, 0.2),
            self._shelf(lambda group: group.hacks, 0.1),
            self._shelf(lambda group: group.disagreements, 0.15),
            self._shelf(lambda group: group.voids, 0.1),
            self._shelf(lambda group: group.advantage, 0.15),
            self._shelf(lambda group: group.longest, 0.05),
            self._sample,
        ]
        self.completions_met = 0

    def _shelf(self, wanted: Wanted, share: float) -> _Shelf:
        return _Shelf(wanted, round(share * self._completions), round(share * self._characters))

    def add(self, group: GroupView) -> None:
        """Look at a group, and keep it if any reason wants it."""
        self.completions_met += group.size
        wishes = [(shelf, shelf.wanted(group)) for shelf in self._shelves]
        takers = [(shelf, wanted) for shelf, wanted in wishes if shelf.wants(wanted, group)]
        if takers:
            candidate = _Candidate(group.in_run, group.size, group.characters, group.record())
            for shelf, wanted in takers:
                shelf.put(wanted, candidate)

    def records(self) -> list[dict[str, Any]]:
        """The groups that are kept, in the order of the run."""
        chosen: dict[Place, _Candidate] = {}
        for shelf in self._shelves[:-1]:
            chosen |= {candidate.place: candidate for candidate in shelf.best_first}
        completions = self._completions - sum(candidate.completions for candidate in chosen.values())
        characters = self._characters - sum(candidate.characters for candidate in chosen.values())
        for candidate in self._sample.best_first:
            if candidate.place in chosen:
                continue
            if chosen and (candidate.completions > completions or candidate.characters > characters):
                continue
            chosen[candidate.place] = candidate
            completions -= candidate.completions
            characters -= candidate.characters
        return [candidate.record for _, candidate in sorted(chosen.items())]
