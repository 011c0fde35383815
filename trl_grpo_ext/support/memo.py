"""An in-memory cache of computed values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """A thread-safe cache that drops the least recently used value when full.

    Args:
        size: The maximum number of values; 0 stores nothing.

    Examples:
        >>> memo = Memo[str, int](size=1)
        >>> memo.put("a", 1), memo.put("b", 2), memo.get("a"), memo.get("b")
        (None, None, None, 2)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return a key's value, or None."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: K, value: V) -> None:
        """Store a value under a key."""
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._size:
                self._held.popitem(last=False)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._held.clear()
