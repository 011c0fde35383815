"""A Python that keeps its names from cell to cell, behind the walls of the sandbox.

A session has a zygote of its own as long as it runs: so memory, processes and pauses are those of one session, and no
session waits for another. Between cells, all of its processes are stopped.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakSet

from trl_grpo_ext.programs.sandbox.job import Ending, Limits, TestResult
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.monitor import (
    LimitError,
    Monitor,
    await_exit,
    check_killed,
    read_exit,
)
from trl_grpo_ext.programs.sandbox.zygote import LostError, Zygote
from trl_grpo_ext.workers.frames import Channel, Deadline, DeadlineError, Inbox
from trl_grpo_ext.workers.processes import ClosedError, shared

SESSION_LIMITS = Limits(cpu_seconds=60.0, output_kb=1024)
"""Default limits of a session: `wall_seconds` and `output_kb` are for a cell, the others for the whole session."""

# The end of a cell is a message of a few bytes; a session that sends more than this tells nonsense.
_CONTROL_BYTES = 1 << 20
_CHUNK = 1 << 16
# After this many reads, a pause precedes each read, so that small writes of the program arrive together.
_READS, _PAUSE_SECONDS = 64, 0.005
# As many sessions may run at once as a batch has rollouts.
_MOST_SESSIONS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """The result of a cell.

    Attributes:
        output: Everything printed, and at the end the value of a last expression, or the error.
        end: Why the session has ended; None if it goes on. The next cell starts a new one, without the names.
    """

    output: str
    end: TestResult | None = None


class PythonSession:
    """A Python process that runs cells of code; several threads may use it, one at a time.

    The process starts with the first cell, and again after it has ended. Cells have no input: `input()` raises.

    Args:
        limits: Wall time and output of a cell; memory, processes and disk space of the session, and CPU time of each
            of its processes. A session that exceeds a limit ends, and the cell's result says so.
        packages: Packages that cells may import besides Python's library and numpy, as for `LocalSandbox`.
        allow_unsafe: Whether to run cells without walls on a machine where no walls hold.

    Examples:
        >>> session = PythonSession()
        >>> session.run("x = 40").output, session.run("x + 2").output, session.run("y").output
        ('', '42\\n', "NameError: name 'y' is not defined (line 1)\\n")
        >>> session.close()
    """

    def __init__(
        self,
        limits: Limits = SESSION_LIMITS,
        *,
        packages: Sequence[str] = (),
        allow_unsafe: bool = False,
    ) -> None:
        self._limits = limits
        self._packages = tuple(packages)
        self._allow_unsafe = allow_unsafe
        self._lock = threading.Lock()
        self._live: _Live | None = None
        # The process of the parent, in a forked child, which must not end it.
        self._abandoned: _Live | None = None

    def check(self) -> str:
        """Check that sessions can run here; return the isolation level's name.

        Raises:
            IsolationError: if a wall is missing.
            LostError: if no process could start.
        """
        return self._host().sandbox.check()

    def run(self, code: str) -> CellResult:
        """Run a cell; nothing that its code does raises an exception here.

        Raises:
            LostError: if the sandbox failed; the names are gone, and the next cell starts anew.
            IsolationError: if a wall could not be put up.
        """
        with self._lock:
            try:
                if self._live is None:
                    self._live = self._start()
                result = self._live.run(code)
            except BaseException as error:
                self._end()
                if isinstance(error, ClosedError):
                    raise LostError("the sandbox was closed") from error
                raise
            if result.end is not None:
                self._end()
            return result

    def close(self) -> None:
        """End all processes of the session; the next cell would start new ones."""
        with self._lock:
            self._end()

    def abandon(self) -> None:
        """Drop, in a forked child, the process of the parent."""
        # A thread of the parent may hold the old lock. No such thread exists in the child, which would wait for ever.
        self._lock = threading.Lock()
        self._abandoned, self._live = self._live, None

    def _host(self) -> _Host:
        key = "sessions", self._packages, self._allow_unsafe
        return shared(key, lambda: _Host(self._packages, self._allow_unsafe))

    def _start(self) -> _Live:
        host = self._host()
        host.sessions.add(self)
        return _Live(host.sandbox, self._limits)

    def _end(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.close()

    def __del__(self) -> None:
        # A failed `__init__` leaves no attributes.
        if getattr(self, "_live", None) is not None:
            self._end()


class _Live:
    """The running process of a session."""

    def __init__(self, sandbox: LocalSandbox, limits: Limits) -> None:
        self._limits = limits
        with contextlib.ExitStack() as opened:
            self._zygote: Zygote = opened.enter_context(sandbox.zygote())
            control, inner = (opened.enter_context(end) for end in socket.socketpair())
            out, stdout = os.pipe()
            self._out = opened.enter_context(open(out, "rb", buffering=0))
            writer = opened.enter_context(open(stdout, "wb", buffering=0))
            # `_read` reads until nothing is left; a blocking read would wait there for more output.
            os.set_blocking(out, False)
            (self._number,) = opened.enter_context(
                self._zygote.children(("session", limits, [inner, writer]))
            )
            self._inbox = Inbox(control, _CONTROL_BYTES)
            self._channel = Channel(control.fileno())
            self._monitor = Monitor(self._zygote, limits)
            self._monitor.await_ready(self._inbox)
            self._monitor.add(self._inbox.descriptor)
            self._monitor.add(out)
            self._cells = 0
            # If a step above raises, the stack closes the descriptors and gives the zygote back.
            self._opened = opened.pop_all()

    def run(self, code: str) -> CellResult:
        """Run a cell.

        Raises:
            LostError: if the sandbox failed.
        """
        self._zygote.pause(False)
        self._monitor.start(self._limits.wall_seconds)
        printed = bytearray()
        try:
            end = self._follow(code, printed)
        except LimitError as over:
            end = over.result
        else:
            self._zygote.pause(True)
        return CellResult(output=printed.decode("utf-8", "replace"), end=end)

    def close(self) -> None:
        """End the session's process; a sandbox replaces a zygote lost with its process."""
        with contextlib.suppress(LostError, ClosedError):
            self._opened.close()

    def _follow(self, code: str, printed: bytearray) -> TestResult | None:
        """Send a cell and collect what it prints until it ends; return how the session has ended, or None."""
        self._send(code)
        reads = 0
        ready = self._monitor.wait()
        while self._inbox.descriptor not in ready:
            self._read(printed)
            reads += 1
            if reads > _READS:
                time.sleep(_PAUSE_SECONDS)
            ready = self._monitor.wait()
        # Between cells nobody measures what short ones have left.
        self._monitor.check_memory()
        return self._ended(printed)

    def _send(self, code: str) -> None:
        try:
            self._cells += 1
            self._channel.send(
                {"number": self._cells, "code": code}, Deadline(self._limits.wall_seconds)
            )
        except DeadlineError:
            raise LimitError(
                TestResult(ending=Ending.TIMEOUT, detail="it read no more code")
            ) from None
        except OSError:
            # The process is gone; its exit tells why.
            return

    def _read(self, printed: bytearray) -> bool:
        """Read a chunk of printed output; return False if no output was ready."""
        if self._out.closed:
            return False
        chunk = self._out.read(_CHUNK)
        if chunk == b"":
            # No process has the other end any more; a program may close it and run on.
            self._monitor.remove(self._out.fileno())
            self._out.close()
        printed += chunk or b""
        if len(printed) > self._limits.output_kb << 10:
            detail = f"over {self._limits.output_kb} KiB"
            raise LimitError(TestResult(ending=Ending.OUTPUT_LIMIT, detail=detail))
        return bool(chunk)

    def _ended(self, printed: bytearray) -> TestResult | None:
        """Read the arrived message and remaining output; return the session's ending, or None if it continues."""
        self._inbox.read()
        nonsense = TestResult(
            ending=Ending.PROTOCOL, detail="it wrote to the channel of the sandbox"
        )
        try:
            messages = self._inbox.take()
        except (ValueError, RecursionError):
            return nonsense
        # Output takes another channel than the message, so some may still wait in the pipe.
        while self._read(printed):
            pass
        # The number is the cell's own: a message that an earlier cell has sent ahead does not end this cell.
        if messages == [{"done": self._cells}]:
            return None
        if messages or not self._inbox.ended:
            return nonsense
        left = await_exit(self._zygote, self._number)
        if self._zygote.namespaces:
            check_killed(left, self._limits)
        return nonsense if left is None else read_exit(left, self._limits)


class _Host:
    """The shared sandbox of a process's sessions with equal packages."""

    def __init__(self, packages: Sequence[str], allow_unsafe: bool) -> None:
        self.sandbox = LocalSandbox(
            _MOST_SESSIONS, packages=packages, allow_unsafe=allow_unsafe
        )
        self.sessions: WeakSet[PythonSession] = WeakSet()

    def close(self) -> None:
        # The sandbox waits until its zygotes are given back.
        for session in list(self.sessions):
            session.close()
        self.sandbox.close()

    def abandon(self) -> None:
        for session in list(self.sessions):
            session.abandon()
        self.sandbox.abandon()
