"""A lane: a thread of its own for the calls of one object, which waits for each call no longer than it is told."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Jobs = SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]


class HangsError(TimeoutError):
    """A call has not come to an end in its time. Its thread cannot be ended, and is left to itself."""


class Lane:
    """Makes calls one after another on one thread: connections and browsers want all calls from the thread they know.

    After a call that hangs, later calls have a new thread.

    Examples:
        >>> Lane().call(lambda: 40 + 2, seconds=30.0)
        42
    """

    def __init__(self) -> None:
        self._jobs: _Jobs | None = None
        self._inside: int | None = None  # the thread of the call that is under way

    def call(self, function: Callable[[], T], seconds: float | None = None) -> T:
        """The result of the function, or its exception; within another call of this lane, it is called at once.

        Raises:
            HangsError: if it takes longer than so many seconds. None is no limit.
        """
        if self.is_inside():
            return function()
        done: Future[T] = Future()
        if self._jobs is None:
            self._jobs = self._start()
        self._jobs.put((lambda: self._run(function), done))
        try:
            return done.result(seconds)
        except TimeoutError:
            if done.done():  # just now, or by a timeout of its own
                return done.result()
            self._jobs.put(None)
            self._jobs = None
            raise HangsError(f"took more than {seconds:g} s") from None

    def is_inside(self) -> bool:
        """Whether the caller is itself within a call of this lane."""
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
        # A daemon, as the end of the interpreter must not wait for a call that hangs.
        threading.Thread(target=_serve, args=(jobs,), name="lane", daemon=True).start()
        weakref.finalize(self, jobs.put, None).atexit = False
        return jobs


def _serve(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        function, done = job
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)
        del job, function, done  # an idle thread keeps nothing alive
