"""Order returned objects of a data class that defines an order, such as `@dataclass(order=True)`."""

from __future__ import annotations

import operator
from typing import Any


def by_fields(one: Any, name: str, other: Any) -> Any:
    """Compare two stand-ins by their field values, in the judge.

    Args:
        one: A stand-in.
        name: The special method, such as `__lt__`.
        other: The other operand.

    Returns:
        The comparison's result; NotImplemented for different classes, or a class without an order.
    """
    order: tuple[str, ...] = getattr(type(one), "_order", ())
    if not order or type(other) is not type(one):
        return NotImplemented
    get = one._remote_state.remote.get
    first, second = (tuple(get(each, field) for field in order) for each in (one, other))
    return getattr(operator, name)(first, second)
