"""Scores that a judge has given before, in memory and, where a folder is named, on disk."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Scored:
    """What a judge gave.

    Attributes:
        score: On the judge's scale.
        reply: How the reply began or ended, for the log.
    """

    score: float
    reply: str


class ScoreCache:
    """Scores by a key that stands for all that they depend on. Safe to use from several threads.

    The one in memory holds the `size` scores that were used last. The one on disk grows without bound; a score is a
    file that is put in place in one step, so that several processes, also on a network drive, may share a folder. What
    cannot be read is a miss, and what cannot be written is not kept.

    Args:
        size: Scores to hold in memory; 0 for none.
        folder: Where to keep them on disk; None for nowhere.

    Example:
        >>> cache = ScoreCache(size=1)
        >>> cache.put("a", Scored(7.0, "Fine."))
        >>> cache.get("a").score, cache.get("b")
        (7.0, None)
    """

    def __init__(self, size: int, folder: str | None = None) -> None:
        self._size = size
        self._folder = Path(folder) if folder else None
        self._lock = threading.Lock()
        self._held: OrderedDict[str, Scored] = OrderedDict()

    def get(self, key: str) -> Scored | None:
        """The score that was put under this key, or None."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        found = self._read(key)
        if found is not None:
            self._hold(key, found)
        return found

    def put(self, key: str, scored: Scored) -> None:
        """Remember a score."""
        self._hold(key, scored)
        if self._folder is not None:
            try:
                self._write(self._path(self._folder, key), json.dumps(asdict(scored)))
            except OSError as error:
                _warn_unwritable(str(self._folder), type(error).__name__)

    def _hold(self, key: str, scored: Scored) -> None:
        with self._lock:
            self._held[key] = scored
            self._held.move_to_end(key)
            while len(self._held) > self._size:
                self._held.popitem(last=False)

    def _path(self, folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Scored | None:
        if self._folder is None:
            return None
        try:
            with open(self._path(self._folder, key), encoding="utf-8") as file:
                record = json.loads(file.read(MAX_FILE_BYTES))
            score = float(record["score"])
            return Scored(score, str(record["reply"])) if math.isfinite(score) else None
        except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None

    def _write(self, path: Path, record: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(record)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise


@functools.cache
def shared_cache(size: int, folder: str | None) -> ScoreCache:
    """This process's cache of that size and folder. A forked child makes its own."""
    return ScoreCache(size, folder)


@functools.cache
def _warn_unwritable(folder: str, kind: str) -> None:
    logger.warning("A judge's scores cannot be kept in %s (%s). This is shown once.", folder, kind)


os.register_at_fork(after_in_child=shared_cache.cache_clear)  # its lock may be held by a thread that is not here
