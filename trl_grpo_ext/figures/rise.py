"""A rise: how much a score has gained, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

SURE = 2.0  # standard errors: beyond them, chance is below 5 %


@dataclass(frozen=True, slots=True)
class Rise:
    """A difference of two means.

    Attributes:
        size: How much higher the later one is.
        error: The standard error of that, 0 or more.

    Example:
        >>> rise = Rise(0.1, 0.02)
        >>> rise.is_sure, rise.is_chance, rise.is_surely_below(0.12), rise.is_surely_below(0.15)
        (True, False, False, True)
    """

    size: float
    error: float

    @property
    def is_sure(self) -> bool:
        """Whether it is more than chance."""
        return self.size > SURE * self.error

    @property
    def is_chance(self) -> bool:
        """Whether nothing speaks for it."""
        return self.size <= self.error

    def is_surely_below(self, least: float) -> bool:
        """Whether it is less than `least`, even if chance has hidden some of it."""
        return self.size + SURE * self.error < least
