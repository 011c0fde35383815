"""The order of two returned objects of a data class that has one, as `@dataclass(order=True)` gives."""

from __future__ import annotations

import operator
from typing import Any


def by_fields(one: Any, name: str, other: Any) -> Any:
    """Compare two stand-ins by what their fields hold, here in the judge; NotImplemented for objects without an order.

    Args:
        one: A stand-in.
        name: The special method, such as `__lt__`.
        other: What it is compared with.
    """
    order: tuple[str, ...] = getattr(type(one), "_order", ())
    if not order or type(other) is not type(one):
        return NotImplemented
    get = one._remote_state.remote.get
    first, second = (tuple(get(each, field) for field in order) for each in (one, other))
    return getattr(operator, name)(first, second)
