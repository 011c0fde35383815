"""Run a `StdioSuite`: the program once per case, each time in a fresh jail, with its output compared outside."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from io import FileIO

from trl_grpo_ext.programs.sandbox.job import (
    Ending,
    Job,
    Limits,
    RunResult,
    StdioCase,
    StdioSuite,
    TestResult,
    run_result_of,
)
from trl_grpo_ext.programs.sandbox.monitor import (
    LimitError,
    Monitor,
    check_killed,
    read_exit,
    tell,
)
from trl_grpo_ext.programs.sandbox.output_comparison import first_difference
from trl_grpo_ext.programs.sandbox.zygote import Exit, Zygote
from trl_grpo_ext.workers.frames import Inbox

# Limit of bytes kept from standard error.
_ERROR_BYTES = 1 << 14
_CHUNK = 1 << 16
# After this many reads, a pause precedes each read, so that small writes of the program arrive together.
_READS, _PAUSE_SECONDS = 64, 0.005
# The trainer's ends of the program's standard input, standard output and standard error.
Ends = tuple[FileIO, FileIO, FileIO]
# After such an ending, every later case would end alike.
_HOPELESS = (Ending.TIMEOUT, Ending.COMPILE_ERROR)


def run_cases(zygote: Zygote, job: Job, suite: StdioSuite) -> RunResult:
    """Run the program on each case in turn; all cases together share the limit of wall time.

    Raises:
        LostError, IsolationError: if the sandbox fails.
    """
    results: list[TestResult] = []
    left = job.limits.wall_seconds
    for case in suite.tests:
        result, seconds = _run_case(zygote, job, case, left)
        left = max(0.001, left - seconds)
        results.append(result)
        if result.ending is not Ending.PASSED and (
            job.stop_at_first or result.ending in _HOPELESS
        ):
            break
    rest = TestResult(ending=Ending.NOT_RUN) if job.stop_at_first else results[-1]
    return run_result_of((*results, *[rest] * (len(suite.tests) - len(results))))


def _run_case(
    zygote: Zygote, job: Job, case: StdioCase, seconds: float
) -> tuple[TestResult, float]:
    """Run a case; return its result and the program's wall time in seconds."""
    with _jailed(zygote, job.program, job.limits) as (program, monitor, ends):
        monitor.start(seconds)
        started = time.monotonic()
        try:
            printed, errors = _talk(zygote, program, monitor, case, ends, job.limits)
            left = zygote.exits[program]
            if zygote.namespaces:
                check_killed(left, job.limits)
            result = _result_of(printed, errors, case, left, job.limits)
        except LimitError as over:
            result = over.result
        return result, time.monotonic() - started


@contextlib.contextmanager
def _jailed(
    zygote: Zygote, program: str, limits: Limits
) -> Iterator[tuple[int, Monitor, Ends]]:
    """Fork a child in a fresh jail, ready to start a program.

    Yields:
        The child's number, its monitor, and the trainer's ends of its standard streams.
    """
    control, inner = socket.socketpair()
    with (
        control,
        inner,
        _pipe() as (stdin, feed),
        _pipe() as (out, stdout),
        _pipe() as (err, stderr),
        zygote.children(("program", limits, [stdin, stdout, stderr, inner])) as (number,),
    ):
        monitor = Monitor(zygote, limits)
        tell(control, {"program": program})
        monitor.await_ready(Inbox(control))
        yield number, monitor, (feed, out, err)


def _talk(
    zygote: Zygote,
    program: int,
    monitor: Monitor,
    case: StdioCase,
    ends: Ends,
    limits: Limits,
) -> tuple[bytes, bytes]:
    """Feed the program its input and collect its output until it ends; return standard output and standard error."""
    feed, out, err = ends
    unread = memoryview(case.stdin.encode("utf-8", "surrogatepass"))
    read = {out.fileno(): bytearray(), err.fileno(): bytearray()}
    # The expected output may always be printed, even if it exceeds the limit.
    expected = len(case.stdout.encode("utf-8", "surrogatepass"))
    most = max(limits.output_kb << 10, 2 * expected)
    keep = {out.fileno(): most + 1, err.fileno(): _ERROR_BYTES}
    going = set(read)
    os.set_blocking(feed.fileno(), False)
    monitor.add(feed.fileno(), select.POLLOUT)
    for descriptor in read:
        monitor.add(descriptor)
    reads = 0
    while going or program not in zygote.exits:
        if reads > _READS:
            time.sleep(_PAUSE_SECONDS)
        ready = monitor.wait()
        if not feed.closed and feed.fileno() in ready:
            unread = _feed(feed, unread, monitor)
        for descriptor in going & ready:
            chunk = os.read(descriptor, _CHUNK)
            reads += 1
            if not chunk:
                going.discard(descriptor)
                monitor.remove(descriptor)
            read[descriptor] += chunk[: keep[descriptor] - len(read[descriptor])]
        if len(read[out.fileno()]) > most:
            detail = f"over {limits.output_kb} KiB"
            raise LimitError(TestResult(ending=Ending.OUTPUT_LIMIT, detail=detail))
    return bytes(read[out.fileno()]), bytes(read[err.fileno()])


def _feed(feed: FileIO, unread: memoryview, monitor: Monitor) -> memoryview:
    """Write whatever fits and return the rest; without a rest, close the program's input."""
    unread = _write(feed.fileno(), unread)
    if not unread:
        monitor.remove(feed.fileno())
        feed.close()
    return unread


def _write(descriptor: int, unread: memoryview) -> memoryview:
    """Write whatever fits and return the rest; closed input leaves an empty rest."""
    try:
        return unread[os.write(descriptor, unread[:_CHUNK]) :]
    except BlockingIOError:
        return unread
    except OSError:
        return unread[:0]


def _result_of(
    printed: bytes, errors: bytes, case: StdioCase, left: Exit, limits: Limits
) -> TestResult:
    if os.waitstatus_to_exitcode(left.status) != 0:
        result = read_exit(left, limits)
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        # The last line of a traceback names the exception; of a timeout or a signal, the trainer knows more.
        told = result.ending in (Ending.TIMEOUT, Ending.KILLED) or not lines
        return result if told else replace(result, detail=lines[-1][:300])
    difference = first_difference(printed, case.stdout)
    return TestResult(
        ending=Ending.FAILED if difference else Ending.PASSED, detail=difference
    )


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[FileIO, FileIO]]:
    reader, writer = os.pipe()
    with (
        open(reader, "rb", buffering=0) as reading,
        open(writer, "wb", buffering=0) as writing,
    ):
        yield reading, writing
