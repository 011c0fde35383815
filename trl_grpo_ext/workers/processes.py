"""Start child processes and lend them to threads, for workers and sandboxes.

A `Lender` starts processes on demand, lends each to one thread at a time, and ends processes that fail. `spread` runs
jobs on threads that live as long as the call. `shared` keeps one object per process and closes it at exit; a forked
child creates its own, since the parent's processes answer the parent.
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
    """A process that runs this package's code, started by `exec`, with a socket as its standard input.

    It holds no memory of the trainer and no CUDA state. It ends when no process holds the other end of the socket. Not
    thread-safe; a lender lends it to one thread.

    Args:
        command: The command line.
        kind: The kind of the socket.
        options: Options of `subprocess.Popen`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        kind: socket.SocketKind = socket.SOCK_STREAM,
        **options: Any,
    ) -> None:
        self.socket, inner = socket.socketpair(socket.AF_UNIX, kind)
        try:
            with inner:
                self._process = subprocess.Popen(
                    command, stdin=inner.fileno(), stdout=subprocess.DEVNULL, **options
                )
        except BaseException:
            self.socket.close()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Send SIGKILL only; the thread that waits for an answer gets an exception and calls `kill`."""
        self._process.kill()

    def kill(self) -> None:
        """Kill the process, wait for its end, and close the socket."""
        self.stop()
        self._process.wait()
        self.abandon()

    def abandon(self) -> None:
        """Close this end of the socket; the process ends when no process holds an end."""
        self.socket.close()


P = TypeVar("P", bound=ChildProcess)
T = TypeVar("T")
U = TypeVar("U")


class ClosedError(Exception):
    """A lender closed during a loan, or while a thread waited for a process."""


class Lender(Generic[P]):
    """A thread-safe pool that lends up to `size` processes, each to a single thread.

    Args:
        size: The number of processes that may be lent at a time, at least 1.
        start: Starts a process, given its kind; may raise.
        spare: The number of idle processes kept beside `size`, for later requests of their kind.
    """

    def __init__(self, size: int, start: Callable[..., P], *, spare: int = 0) -> None:
        self._size = size
        self._start = start
        self._most = size + spare
        self._changed = threading.Condition()
        # Pairs of a kind and an idle process, the most recently used last.
        self._idle: list[tuple[tuple[Hashable, ...], P]] = []
        self._alive: set[P] = set()
        self._lent = 0
        self._closed = threading.Event()

    @contextlib.contextmanager
    def lend(self, *kind: Hashable) -> Iterator[P]:
        """Lend an idle process of a kind, else a new process; wait while `size` processes are lent.

        If the `with` block raises, the process ends, since its state is unknown.

        Raises:
            ClosedError: if the lender is closed before or during the loan.
            Exception: any exception of `start`.
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
        """End all processes, including lent processes, refuse further loans, and wait for returns."""
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
        """End all idle processes: whatever killed another process may have hit them unnoticed."""
        with self._changed:
            idle, self._idle = self._idle, []
        for _, process in idle:
            self._end(process)

    def abandon(self) -> None:
        """Drop, in a forked child, the processes of the parent process."""
        for process in self._alive:
            process.abandon()

    def _take(self, kind: tuple[Hashable, ...]) -> P:
        process = self._take_idle(kind) or self._start_one(kind)
        with self._changed:
            self._alive.add(process)
        # The lender has closed while the process started.
        if self._closed.is_set():
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
    function: Callable[[T], U],
    values: Sequence[T],
    *,
    threads: int,
    cancel: Callable[[], None] = lambda: None,
) -> list[U | None]:
    """Apply a function to each value on several threads; return the results in order.

    A result is None if the time budget of judging was spent before the function returned. The threads end with the
    call, so none has to survive a fork. If the system has no room for a thread, fewer threads do the work.

    Args:
        function: The function; its first exception is raised here.
        values: The values.
        threads: The maximum number of threads.
        cancel: Ends running function calls, when this call is interrupted or the budget is spent.
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
    except BaseException:
        # After Ctrl-C the trainer ends without waiting for the remaining values.
        waiting.clear()
        cancel()
        _join(helpers)
        raise
    if failures:
        raise failures[0]
    return [in_time.get(number) for number in range(len(values))]


def _start(started: list[threading.Thread], work: Callable[[], None], count: int) -> None:
    """Start `count` threads, or fewer if the system refuses more."""
    with contextlib.suppress(RuntimeError):
        for _ in range(count):
            thread = threading.Thread(target=work, name="trl-grpo-ext")
            thread.start()
            started.append(thread)


def _join(threads: Sequence[threading.Thread], until: float = float("inf")) -> None:
    for thread in threads:
        thread.join(min(threading.TIMEOUT_MAX, max(0.0, until - time.monotonic())))


class Shared(Protocol):
    """An object that `shared` keeps, one per process."""

    def close(self) -> None:
        """End the processes or connections that the object has started."""

    def abandon(self) -> None:
        """Drop, in a forked child, the resources of the parent process."""


S = TypeVar("S", bound=Shared)
_shared: dict[Hashable, Shared] = {}
# Reentrant, since a shared object may create other shared objects.
_lock = threading.RLock()


def shared(key: Hashable, make: Callable[[], S]) -> S:
    """Return this process's shared object of a key, created on first use; a forked child creates its own."""
    with _lock:
        if key not in _shared:
            _shared[key] = make()
        return cast(S, _shared[key])


def close_one(key: Hashable) -> None:
    """Close and remove the shared object of a key, if it exists; the next `shared` call creates a new object."""
    with _lock:
        found = _shared.pop(key, None)
    if found is not None:
        found.close()


def close_shared() -> None:
    """Close all shared objects of this process."""
    for key in list(_shared):
        close_one(key)


def _forget() -> None:
    # A thread of the parent may hold the lock, and that thread does not exist in a forked child.
    global _lock  # noqa: PLW0603
    for each in _shared.values():
        each.abandon()
    _shared.clear()
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget)
atexit.register(close_shared)
