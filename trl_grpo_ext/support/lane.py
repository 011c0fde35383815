"""A lane: a thread that makes all calls of one object, with a time limit per call."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

# The time limits for which a call waits for the same other call: a longer one may never end.
MOST_WAITS = 4
# Parts of a time limit. A call's clock stands still for whole parts.
PARTS = 20

_Jobs = SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]


class HangsError(TimeoutError):
    """A call that exceeded its time limit. Its thread cannot be killed and keeps running."""


class WaitsError(HangsError):
    """A call that waited too long for other calls."""


def _nothing() -> None:
    return None


class Lane:
    """A thread that runs calls in sequence, for objects such as connections and browsers bound to a single thread.

    After a call that exceeds its time limit, later calls run on a new thread.

    Examples:
        >>> Lane().call(lambda: 40 + 2, seconds=30.0)
        42
    """

    def __init__(self) -> None:
        self._jobs: _Jobs | None = None
        # The id of the thread that runs a call now.
        self._inside: int | None = None

    def call(
        self,
        function: Callable[[], T],
        seconds: float | None = None,
        waits_for: Callable[[], object] = _nothing,
    ) -> T:
        """Run a function on the lane's thread; return its result or raise its exception.

        Within another call of this lane, the function runs directly on the current thread.

        Args:
            function: The function.
            seconds: The time limit; None is no limit.
            waits_for: Returns the call that the function waits for now, else None. Its clock stands still meanwhile.

        Raises:
            HangsError: if the function takes more than `seconds` seconds.
            WaitsError: if the function waits for the same call for more than `MOST_WAITS` time limits.
        """
        if self.is_inside():
            return function()
        done: Future[T] = Future()
        if self._jobs is None:
            self._jobs = self._start()
        self._jobs.put((lambda: self._run(function), done))
        try:
            _wait(done, seconds, waits_for)
        except HangsError:
            self._jobs.put(None)
            self._jobs = None
            raise
        return done.result()

    def is_inside(self) -> bool:
        """Return whether the current thread is running a call of this lane."""
        return self._inside == threading.get_ident()

    def _run(self, function: Callable[[], T]) -> T:
        self._inside = threading.get_ident()
        try:
            return function()
        finally:
            if self.is_inside():
                self._inside = None

    def _start(self) -> _Jobs:
        jobs: _Jobs = SimpleQueue()
        # A daemon thread, since the interpreter must not wait at exit for a call that hangs.
        thread = threading.Thread(
            target=_serve,
            args=(jobs,),
            name="lane",
            daemon=True,
        )
        thread.start()
        # The thread ends with its lane.
        weakref.finalize(self, jobs.put, None).atexit = False
        return jobs


def _wait(
    done: Future[Any], seconds: float | None, waits_for: Callable[[], object]
) -> None:
    """Wait for a call's end; raise a HangsError or WaitsError after its time limit."""
    if seconds is None:
        wait([done])
        return
    taken = 0
    waited = 0
    last = None
    while not wait([done], seconds / PARTS).done:
        other = waits_for()
        if other is None:
            taken += 1
        # Calls that take their turns come to an end.
        waited = waited + 1 if other is last else 1
        last = other
        if taken >= PARTS:
            raise HangsError(f"took more than {seconds:g} s")
        if last is not None and waited >= PARTS * MOST_WAITS:
            raise WaitsError(f"waited for more than {seconds * MOST_WAITS:g} s")


def _serve(jobs: _Jobs) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        function, done = job
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)
        # An idle thread must not keep the objects of its last call alive.
        del job, function, done
