"""Verdicts that were reached before, bounded in number, safe across threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from trl_grpo_ext.verdict import Blame, Verdict

MAX_ENTRIES = 1 << 16


class Memo:
    """Remembers verdicts, those of answers that were killed included; forgets the one unused for longest.

    What was the grader's fault is not remembered: it may work the next time.
    """

    def __init__(self, size: int = MAX_ENTRIES) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._verdicts: OrderedDict[Hashable, Verdict] = OrderedDict()

    def get(self, key: Hashable) -> Verdict | None:
        """The verdict of this key, or None."""
        with self._lock:
            if key in self._verdicts:
                self._verdicts.move_to_end(key)
            return self._verdicts.get(key)

    def put(self, key: Hashable, verdict: Verdict) -> None:
        """Remember a verdict, unless it blames the grader."""
        if verdict.blame is Blame.GRADER:
            return
        with self._lock:
            self._verdicts[key] = verdict
            self._verdicts.move_to_end(key)
            while len(self._verdicts) > self._size:
                self._verdicts.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._verdicts.clear()

    def __len__(self) -> int:
        return len(self._verdicts)

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return Memo, (self._size,)  # what a process has learned stays with it
