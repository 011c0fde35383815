"""A gate: a reward term counts only where another term says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.protocol import is_number
from trl_grpo_ext.support.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets a term count only where another term's value, after its own shape and gate, reaches a threshold.

    | gate | value of the gated term where it is closed |
    |---|---|
    | `Gate("accuracy")` | 0 |
    | `Gate("accuracy", scale=0.2)` | a fifth of what it would be |
    | `Gate("accuracy", floor=-1.0)` | -1 |

    A penalty, whose values are below 0, wants a floor: closed to 0, it would spare the wrong answers.

    Where the gating term does not apply, neither does the gated one; where it could not be judged, the gated term has
    no value. A term of weight 0 may be a gate. The gated term is judged all the same, and its raw score logged; only a
    verifier that compares the completions of a group gets just those that the gate lets through.

    Attributes:
        term: The name of the gating term.
        at_least: The value from which on the gate is open.
        scale: The factor for a closed gate.
        floor: The value for a closed gate.

    Raises:
        ValueError: for both a scale and a floor, or numbers that are not finite.

    Examples:
        >>> Gate("accuracy").value(0.7, gating=0.0), Gate("accuracy").value(0.7, gating=1.0)
        (0.0, 0.7)
    """

    term: str
    at_least: float = 1.0
    scale: float | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.term, str) or not self.term:
            raise ValueError(f"A gate needs the name of another term, got {self.term!r}.")
        for name in ("at_least", "scale", "floor"):
            number = getattr(self, name)
            if not (is_number(number) or (number is None and name != "at_least")):
                raise ValueError(f"A gate's `{name}` must be a finite number, got {number!r}.")
        if self.scale is not None and self.floor is not None:
            raise ValueError("A gate has either a `scale` or a `floor`, not both.")

    def is_open(self, gating: float) -> bool:
        """Whether the gating term's value reaches the threshold."""
        return gating >= self.at_least

    def value(self, value: float, *, gating: float) -> float:
        """What becomes of the gated term's value."""
        if self.is_open(gating):
            return value
        if self.floor is not None:
            return self.floor
        return 0.0 if self.scale is None else self.scale * value


Condition = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class When:
    """The rows that a term applies to: each named column equals the value, or is one of the values.

    Examples:
        >>> when = When.parse({"task": ["math", "physics"], "level": 1})
        >>> when.applies({"task": "math", "level": 1}), when.applies({"task": "code", "level": 1})
        (True, False)
    """

    conditions: tuple[Condition, ...]  # pairs of a column and the values that it may have; all of them must hold

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

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError for a column that a dataset with these columns does not have."""
        for column, _ in self.conditions:
            if column not in columns:
                near = did_you_mean(column, columns)
                raise ValueError(f"`when` looks at the dataset column `{column}`, which is not there. {near}")

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
