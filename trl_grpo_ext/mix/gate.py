"""Gates and row conditions: they decide on which samples a reward term counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.support.setting_checks import is_number
from trl_grpo_ext.support.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Gate:
    """A rule that lets a term count only where another term's value reaches a threshold.

    The gating term's value is its score after its own shape and gate.

    | gate | value of the gated term where it is closed |
    |---|---|
    | `Gate("accuracy")` | 0 |
    | `Gate("accuracy", scale=0.2)` | a fifth of its value |
    | `Gate("accuracy", floor=-1.0)` | -1 |

    A penalty, whose values are below 0, needs a floor: at 0, a closed gate would spare wrong answers the penalty.

    Where the gating term does not apply, the gated term does not apply either; where the gating term has no value, the
    gated term has none. A gating term may have weight 0. Behind a closed gate the gated term is still judged and its
    raw score logged; only a verifier that compares the completions of a group does not see them.

    Attributes:
        term: The name of the gating term.
        at_least: The threshold: the gate is open at this value and above.
        scale: The factor that a closed gate applies to the gated value.
        floor: The gated value behind a closed gate.

    Raises:
        ValueError: for both a scale and a floor, numbers that are not finite, or an empty name.

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
            is_left_out = number is None and name != "at_least"
            if not is_left_out and not is_number(number):
                raise ValueError(
                    f"A gate's `{name}` must be a finite number, got {number!r}."
                )
        if self.scale is not None and self.floor is not None:
            raise ValueError("A gate has either a `scale` or a `floor`, not both.")

    def is_open(self, gating: float) -> bool:
        """Return whether the gating term's value reaches the threshold."""
        return gating >= self.at_least

    def value(self, value: float, *, gating: float) -> float:
        """Return the gated term's value after the gate."""
        if self.is_open(gating):
            return value
        if self.floor is not None:
            return self.floor
        if self.scale is not None:
            return self.scale * value
        return 0.0


Condition = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class When:
    """A condition on dataset rows: each named column must equal a value, or one of several values.

    Examples:
        >>> when = When.parse({"task": ["math", "physics"], "level": 1})
        >>> when.applies({"task": "math", "level": 1}), when.applies({"task": "code", "level": 1})
        (True, False)
    """

    # Pairs of a column and its allowed values; all pairs must match.
    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, described: object) -> When:
        """Read a mapping from column names to one allowed value or several.

        Raises:
            ValueError: if `described` is no mapping or empty, or for an empty list, which no row could match.
        """
        if not isinstance(described, Mapping) or not described:
            raise ValueError(
                f"`when` maps dataset columns to the values they must have, got {described!r}."
            )
        conditions = []
        for column, wanted in described.items():
            values = _values(wanted)
            if not values:
                raise ValueError(
                    f"`when` lists no value for the column `{column}`, so no row would match."
                )
            conditions.append((str(column), values))
        return cls(tuple(conditions))

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError if a condition names an unknown dataset column."""
        for column, _ in self.conditions:
            if column not in columns:
                near = did_you_mean(column, columns)
                raise ValueError(
                    f"`when` looks at the dataset column `{column}`, which is not there. {near}"
                )

    def applies(self, row: Mapping[str, Any]) -> bool:
        """Return whether a dataset row meets all conditions."""
        return all(_is_in(row.get(column), values) for column, values in self.conditions)


def _is_in(value: Any, values: tuple[Any, ...]) -> bool:
    try:
        return value in values
    except ValueError:
        # Comparing an array gives an array, which has no single truth value.
        return False


def _values(wanted: object) -> tuple[Any, ...]:
    # A text is a sequence, too: of its letters.
    if isinstance(wanted, str) or not isinstance(wanted, Sequence | set | frozenset):
        return (wanted,)
    return tuple(wanted)
