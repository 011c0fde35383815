"""Child processes, and the pool that lends them to threads. Workers and sandboxes both use it.

A `Lender` starts processes when they are needed, lends each to one thread at a time, and ends those that fail.
`spread` runs jobs on threads that live as long as the call. `shared` keeps one object a process, which is closed when
the process ends; a forked child makes its own, since the parent's processes answer the parent.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from trl_grpo_ext.support.budget import seconds_left


class ChildProcess:
    """A process of this package's own code, started by `exec` and spoken to by a socket, its standard input.

    So it holds none of the trainer's memory and no CUDA state, and it ends when no process holds the other end. Not
    thread-safe; a lender lends it to one thread.

    Args:
        command: What to start.
        kind: The kind of the socket.
        options: Of `subprocess.Popen`.
    """

    def __init__(self, command: Sequence[str], *, kind: socket.SocketKind = socket.SOCK_STREAM, **options: Any) -> None:
        self.socket, inner = socket.socketpair(socket.AF_UNIX, kind)
        try:
            with inner:
                self._process = subprocess.Popen(command, stdin=inner.fileno(), stdout=subprocess.DEVNULL, **options)
        except BaseException:
            self.socket.close()
            raise

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it only. The thread that waits for its answer learns that there is none, and then calls `kill`."""
        self._process.kill()

    def kill(self) -> None:
        """End it, whatever it is doing, and clean up."""
        self.stop()
        self._process.wait()
        self.abandon()

    def abandon(self) -> None:
        """Let go of this process's end of the socket; the process ends when no process holds it."""
        self.socket.close()


P = TypeVar("P", bound=ChildProcess)
T = TypeVar("T")
U = TypeVar("U")


class ClosedError(Exception):
    """The lender was closed while a process was asked for, or in use."""


class Lender(Generic[P]):
    """Lends up to `size` processes, each to one thread at a time. Safe to use from several threads.

    Args:
        size: At least 1.
        start: Starts a process, perhaps one of a kind; it may raise.
        spare: Idle processes to keep beside `size`, for when their kind is asked for.
    """

    def __init__(self, size: int, start: Callable[..., P], *, spare: int = 0) -> None:
        self._size = size
        self._start = start
        self._most = size + spare
        self._changed = threading.Condition()
        self._idle: list[tuple[tuple[Hashable, ...], P]] = []  # with their kinds; the last used are the last
        self._alive: set[P] = set()
        self._lent = 0
        self._closed = threading.Event()

    @contextlib.contextmanager
    def lend(self, *kind: Hashable) -> Iterator[P]:
        """Lend a process: an idle one of this kind, else a new one; waits while `size` are lent.

        A process that is given back by an exception is ended, since its state is unknown.

        Raises:
            ClosedError: if the lender is closed, or is closed meanwhile.
            Exception: what `start` raises.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed.is_set() or self._lent < self._size)
            if self._closed.is_set():
                raise ClosedError
            self._lent += 1
        try:
            process = self._take(kind)
            try:
                yield process
            except BaseException as error:
                self._end(process)
                if isinstance(error, Exception) and self._closed.is_set():
                    raise ClosedError from error
                raise
            with self._changed:
                self._idle.append((kind, process))
        finally:
            with self._changed:
                self._lent -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """End all processes, those that are lent too, and lend no more; waits until all are given back."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
            alive = list(self._alive)
        for process in alive:
            process.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._lent)
            left, self._idle, self._alive = self._alive, [], set()
        for process in left:
            process.kill()

    def end_idle(self) -> None:
        """End the processes that are not lent: what has killed one may have killed them too, unseen as yet."""
        with self._changed:
            idle, self._idle = self._idle, []
        for _, process in idle:
            self._end(process)

    def abandon(self) -> None:
        """Let go of the processes, which belong to the process that this one was forked from."""
        for process in self._alive:
            process.abandon()

    def _take(self, kind: tuple[Hashable, ...]) -> P:
        process = self._take_idle(kind) or self._start_one(kind)
        with self._changed:
            self._alive.add(process)
        if self._closed.is_set():  # while it started
            self._end(process)
            raise ClosedError
        return process

    def _take_idle(self, kind: tuple[Hashable, ...]) -> P | None:
        with self._changed:
            places = [place for place, (other, _) in enumerate(self._idle) if other == kind]
            process = self._idle.pop(places[-1])[1] if places else None
        if process is None or process.alive:
            return process
        self._end(process)
        return self._take_idle(kind)

    def _start_one(self, kind: tuple[Hashable, ...]) -> P:
        with self._changed:
            if self._idle and len(self._idle) + self._lent > self._most:
                self._end(self._idle.pop(0)[1])
        return self._start(*kind)

    def _end(self, process: P) -> None:
        with self._changed:
            self._alive.discard(process)
        process.kill()


def spread(
    function: Callable[[T], U], values: Sequence[T], *, threads: int, cancel: Callable[[], None] = lambda: None
) -> list[U | None]:
    """`function` of each of the values, in order, several at a time; None where the budget of judging was spent first.

    The threads end with the call, so that nothing has to survive a fork. Without room for a thread, fewer do the work.

    Args:
        function: What it raises, this raises.
        values: Any number.
        threads: How many at a time, at most.
        cancel: Ends the calls that are under way when this one is interrupted, or the budget is spent.
    """
    waiting, until = deque(enumerate(values)), time.monotonic() + seconds_left()
    results, failures = dict[int, U](), list[BaseException]()

    def work() -> None:
        while not failures and time.monotonic() < until:
            try:
                number, value = waiting.popleft()
            except IndexError:
                return
            try:
                results[number] = function(value)
            except BaseException as error:
                failures.append(error)

    helpers: list[threading.Thread] = []
    try:
        _start(helpers, work, min(threads, len(values)))
        if not helpers:
            work()
        _join(helpers, until)
        in_time = results.copy()
        if any(helper.is_alive() for helper in helpers):
            cancel()
            _join(helpers)
    except BaseException:  # Ctrl-C: the trainer is to end, and does not wait for the values that are left
        waiting.clear()
        cancel()
        _join(helpers)
        raise
    if failures:
        raise failures[0]
    return [in_time.get(number) for number in range(len(values))]


def _start(started: list[threading.Thread], work: Callable[[], None], count: int) -> None:
    """Start threads that do this work, fewer where there is no room for them."""
    with contextlib.suppress(RuntimeError):
        for _ in range(count):
            thread = threading.Thread(target=work, name="trl-grpo-ext")
            thread.start()
            started.append(thread)


def _join(threads: Sequence[threading.Thread], until: float = float("inf")) -> None:
    for thread in threads:
        thread.join(min(threading.TIMEOUT_MAX, max(0.0, until - time.monotonic())))


class Shared(Protocol):
    """What a process shares."""

    def close(self) -> None:
        """End what it has started."""

    def abandon(self) -> None:
        """Let go of what belongs to the process that this one was forked from."""


S = TypeVar("S", bound=Shared)
_shared: dict[Hashable, Shared] = {}
_lock = threading.RLock()  # what is made may share objects of its own


def shared(key: Hashable, make: Callable[[], S]) -> S:
    """The object of this process by that key, made when it is first asked for. A forked child makes its own."""
    with _lock:
        if key not in _shared:
            _shared[key] = make()
        return cast(S, _shared[key])


def close_one(key: Hashable) -> None:
    """Close what this process shares by that key, if there is such; the next that asks for it makes another."""
    with _lock:
        found = _shared.pop(key, None)
    if found is not None:
        found.close()


def close_shared() -> None:
    """Close all that this process shares."""
    for key in list(_shared):
        close_one(key)


def _forget() -> None:
    # The lock may be held by a thread that does not exist here.
    global _lock  # noqa: PLW0603
    for each in _shared.values():
        each.abandon()
    _shared.clear()
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget)
atexit.register(close_shared)
