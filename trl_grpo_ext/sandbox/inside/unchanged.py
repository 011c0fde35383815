"""Whether tests have left a judge's Python as they found it, so that other tests may follow in the same process.

Tests are trusted, but they may patch the clock, seed a generator or replace `input`; the next tests must not meet that.
What is cheap to put back is put back; anything else that has changed is noticed, and the judge is not used again. That
modules hold what they did is not looked at, which took a twentieth of a sample's time: after tests that might change
them (`compiled.may_change_python`), no judge is used again.
"""

from __future__ import annotations

import decimal
import os
import resource
import sys

# What a judge has ever taken counts against the memory of the programs after; Python does not always give it back.
_GROWTH_KB = 48 << 10


class Baseline:
    """Python as it is before the first tests."""

    def __init__(self) -> None:
        self._loaded = dict(sys.modules)
        self._environment = dict(os.environ)
        self._folder = os.getcwd()
        self._sys = self._of_sys()
        self._peak_kb = _peak_kb()

    def restore(self) -> bool:
        """Put back what can be; False if something else is not as it was."""
        generator = sys.modules.get("random")
        if generator is not None:
            generator.seed()
        decimal.setcontext(decimal.Context())
        for name in ("tests", "solution"):
            sys.modules.pop(name, None)
        threads = sys.modules.get("threading")
        return (
            (threads is None or threads.active_count() == 1)
            and _peak_kb() - self._peak_kb < _GROWTH_KB
            and os.getcwd() == self._folder
            and dict(os.environ) == self._environment
            and self._of_sys() == self._sys
            and all(sys.modules.get(name) is module for name, module in self._loaded.items())
        )

    def _of_sys(self) -> list[object]:
        return [list(sys.path), list(sys.argv), sys.stdin, sys.getrecursionlimit(), sys.getprofile(), sys.gettrace()]


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
