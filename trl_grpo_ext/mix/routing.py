"""Routing: which rows of the dataset a reward term is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Condition = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class When:
    """The rows that a term applies to: each named column equals the value, or is one of the values.

    Attributes:
        conditions: Pairs of a column and the values that it may have; all of them must hold.

    Example:
        >>> when = When.parse({"task": ["math", "physics"], "level": 1})
        >>> when.applies({"task": "math", "level": 1}), when.applies({"task": "code", "level": 1})
        (True, False)
    """

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, described: object) -> When:
        """Read a mapping of columns to a value or a list of values.

        Raises:
            ValueError: for anything else, or an empty list, which no row could match.
        """
        if not isinstance(described, Mapping) or not described:
            raise ValueError(f"`when` maps dataset columns to the values they must have, got {described!r}.")
        conditions = []
        for column, wanted in described.items():
            values = _values(wanted)
            if not values:
                raise ValueError(f"`when` lists no value for the column `{column}`, so no row would match.")
            conditions.append((str(column), values))
        return cls(tuple(conditions))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return tuple(column for column, _ in self.conditions)

    def applies(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of the dataset is one of those meant."""
        return all(_is_in(row.get(column), values) for column, values in self.conditions)


def _is_in(value: Any, values: tuple[Any, ...]) -> bool:
    try:
        return value in values
    except ValueError:  # an array has no one answer
        return False


def _values(wanted: object) -> tuple[Any, ...]:
    if isinstance(wanted, str) or not isinstance(wanted, Sequence | set | frozenset):
        return (wanted,)
    return tuple(wanted)
