"""Which groups of a run go into its page: all of a small run, of a larger one those that matter, and a sample."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.report.group_record import GroupView

MOST_COMPLETIONS = 5000
MOST_CHARACTERS = 24_000_000

Wanted = Callable[[GroupView], float]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group as the page would show it, without the batch that it came from."""

    number: int  # groups are numbered in the order in which they are met
    completions: int
    characters: int
    record: dict[str, Any]


class Shelf:
    """The groups that one reason wants most, as far as there is room; at least one.

    Args:
        wanted: How much a group is wanted; 0 or less is not at all.
        completions: Room, in completions.
        characters: Room, in characters.
    """

    def __init__(self, wanted: Wanted, completions: int, characters: int) -> None:
        self.wanted = wanted
        self._completions = completions
        self._characters = characters
        self._held: list[tuple[float, int, Candidate]] = []

    def wants(self, wanted: float, number: int, completions: int, characters: int) -> bool:
        """Whether there is room for the group, or it is wanted more than one that is held."""
        if wanted <= 0:
            return False
        fits = completions <= self._completions and characters <= self._characters
        return fits or not self._held or (wanted, -number) > self._held[0][:2]

    def put(self, wanted: float, candidate: Candidate) -> None:
        """Hold the group, and let those go that are wanted least until the rest fits."""
        heapq.heappush(self._held, (wanted, -candidate.number, candidate))
        self._completions -= candidate.completions
        self._characters -= candidate.characters
        while len(self._held) > 1 and (self._completions < 0 or self._characters < 0):
            _, _, gone = heapq.heappop(self._held)
            self._completions += gone.completions
            self._characters += gone.characters

    @property
    def best_first(self) -> list[Candidate]:
        """What is held."""
        return [candidate for _, _, candidate in sorted(self._held, key=lambda item: item[:2], reverse=True)]


class KeptGroups:
    """Groups for a page, in bounded memory; each is looked at once.

    What matters comes first: groups of steps that a finding names, hacks, disagreements with a shadow, void rows, the
    largest advantages, the longest completions. What room is left goes to a sample in which every group has the same
    chance.

    Args:
        completions: At most so many are kept, but for whole groups: the last may go over.
        characters: At most so many characters of text, with the same exception.
        cited: Steps that findings name.
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
        self._groups_met = 0
        self.completions_met = 0

    def _shelf(self, wanted: Wanted, share: float) -> Shelf:
        return Shelf(wanted, round(share * self._completions), round(share * self._characters))

    def add(self, group: GroupView) -> None:
        """Look at a group, and keep it if any reason wants it."""
        number = self._groups_met
        self._groups_met += 1
        self.completions_met += group.size
        wishes = [(shelf, shelf.wanted(group)) for shelf in self._shelves]
        size, characters = group.size, group.characters
        takers = [(shelf, wanted) for shelf, wanted in wishes if shelf.wants(wanted, number, size, characters)]
        if takers:
            candidate = Candidate(number, size, characters, group.record())
            for shelf, wanted in takers:
                shelf.put(wanted, candidate)

    def records(self) -> list[dict[str, Any]]:
        """The groups that are kept, in the order in which they were met."""
        chosen: dict[int, Candidate] = {}
        for shelf in self._shelves[:-1]:
            chosen |= {candidate.number: candidate for candidate in shelf.best_first}
        completions = self._completions - sum(candidate.completions for candidate in chosen.values())
        characters = self._characters - sum(candidate.characters for candidate in chosen.values())
        for candidate in self._sample.best_first:
            if candidate.number in chosen:
                continue
            if chosen and (candidate.completions > completions or candidate.characters > characters):
                continue
            chosen[candidate.number] = candidate
            completions -= candidate.completions
            characters -= candidate.characters
        return [candidate.record for _, candidate in sorted(chosen.items())]
