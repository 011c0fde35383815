"""Refuse bad settings: a ValueError tells the setting's name, meaning, bounds and value."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard

from trl_grpo_ext.support.text import did_you_mean


def is_whole_number(value: object, *, least: int) -> TypeGuard[int]:
    """Return whether a value is an integer, `least` or more; bools are refused."""
    return (
        not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least
    )


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; bools are refused."""
    # Checks ask of each log: for the usual types, the abstract class would take several times as long.
    is_real = type(value) in (float, int) or (
        isinstance(value, Real) and not isinstance(value, bool)
    )
    return is_real and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise a ValueError for a setting outside its choices.

    Examples:
        >>> check_choice("part", "finl", ["final", "whole"])
        Traceback (most recent call last):
            ...
        ValueError: part cannot be 'finl'. Did you mean `final`?
    """
    known = list(choices)
    if value not in known:
        raise ValueError(f"{name} cannot be {value!r}. {did_you_mean(str(value), known)}")


def check_whole(
    name: str,
    value: object,
    meaning: str = "a whole number",
    *,
    least: int,
    most: int | None = None,
) -> None:
    """Raise a ValueError unless a setting is an integer within its bounds; bools are refused.

    Examples:
        >>> check_whole("min_words", 0, "a number of words", least=1)
        Traceback (most recent call last):
            ...
        ValueError: min_words is a number of words, 1 or more; got 0.
    """
    is_within = is_whole_number(value, least=least) and (most is None or value <= most)
    if not is_within:
        bounds = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {meaning}, {bounds}; got {value!r}.")


def check_number(
    name: str,
    value: object,
    meaning: str = "a number",
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> None:
    """Raise a ValueError unless a setting is a finite number within its bounds; bools are refused.

    `least` and `most` belong to the range, `above` and `below` do not.

    Examples:
        >>> check_number("threshold", 1.5, "a share", above=0, most=1)
        Traceback (most recent call last):
            ...
        ValueError: threshold is a share, above 0 and up to 1; got 1.5.
    """
    possible = (
        (least, "{:g} or more", operator.ge),
        (above, "above {:g}", operator.gt),
        (most, "up to {:g}", operator.le),
        (below, "below {:g}", operator.lt),
    )
    bounds = [
        (limit, words, holds) for limit, words, holds in possible if limit is not None
    ]
    is_within = is_number(value) and all(holds(value, limit) for limit, _, holds in bounds)
    if not is_within:
        range_ = " and ".join(words.format(limit) for limit, words, _ in bounds)
        raise ValueError(f"{name} is {meaning}, {range_}; got {value!r}.")


def check_seconds(name: str, seconds: object) -> None:
    """Raise a ValueError unless a setting is a number of seconds above 0; infinity is allowed."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ValueError(f"{name} is a number of seconds, above 0; got {seconds!r}.")
