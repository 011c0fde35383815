"""Worker processes that can be killed: each call gets its own deadline, and a late worker is replaced.

A worker is started with `exec`, so it holds none of the trainer's memory and no CUDA state, and never imports
the user's `__main__`. It ends when the trainer does: its standard input closes, and a kernel timer stops it
should it be inside a call at that moment.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from trl_grpo_ext.support.error_text import error_text
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.workers.call import Call, Failure, Outcome
from trl_grpo_ext.workers.cpu_use import is_asleep, seconds_on_cpu, seconds_queued
from trl_grpo_ext.workers.wire import Deadline, DeadlineError, read_frame, write_frame

logger = logging.getLogger(__name__)

START_TIMEOUT = 60.0  # seconds to start Python and import what is called, on a machine that is very busy
BUSY_SHARE = 0.5  # a call that ran out of time with less than this share of it as CPU time was starved, or waited
ATTEMPTS = 2  # how often a call is tried when its worker is lost


class Worker:
    """One process that answers one request at a time. Not thread-safe; the pool lends it to one thread."""

    def __init__(self) -> None:
        # One thread a worker: the pool is the parallelism, and BLAS threads on busy cores only spin.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "trl_grpo_ext.workers.worker_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests = self._process.stdin.fileno()
        self._replies = self._process.stdout.fileno()
        self._prepared: set[str] = set()
        self._cpu_reported = 0.0
        self._queued_before: float | None = None
        try:
            self._ask({"path": sys.path}, Deadline(START_TIMEOUT))
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def prepare(self, target: str) -> dict[str, Any]:
        """Import what is to be called, outside any call's deadline; the reply says whether that worked."""
        if target in self._prepared:
            return {"value": None}
        reply = self._ask({"target": target}, Deadline(START_TIMEOUT))
        if "failure" not in reply:
            self._prepared.add(target)
        return reply

    def call(self, target: str, arguments: bytes, timeout: float) -> dict[str, Any]:
        """Run a call for `timeout` seconds, or twice that if the machine left it no CPU for the first half.

        Raises:
            DeadlineError: when its time is up.
            OSError, EOFError: if the process is gone.
        """
        self._queued_before = seconds_queued(self.pid)
        request = {"target": target, "arguments": arguments, "timeout": 2 * timeout}
        again = Deadline(timeout, lambda: timeout if self.why_late(timeout) is Failure.STARVED else 0.0)
        return self._ask(request, again)

    def why_late(self, timeout: float) -> Failure:
        """What a call that is under way after `timeout` seconds did with them."""
        ran, enough = seconds_on_cpu(self.pid) - self._cpu_reported, BUSY_SHARE * timeout
        if ran >= enough:
            return Failure.TIMEOUT
        queued = seconds_queued(self.pid)
        if queued is None or self._queued_before is None or ran + queued - self._queued_before >= enough:
            return Failure.STARVED
        return Failure.WAITED if is_asleep(self.pid) else Failure.STARVED

    def kill(self) -> None:
        """End the process, whatever it is doing, and close its pipes."""
        self.stop()
        self._process.wait()
        self.close_pipes()

    def stop(self) -> None:
        """End the process only: whoever waits for its reply meets the end of the pipe, and then calls `kill`."""
        self._process.kill()

    def close_pipes(self) -> None:
        """Close this process's ends of the pipes; the worker ends when nobody holds them."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _ask(self, request: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        write_frame(self._requests, pickle.dumps(request), deadline=deadline)
        reply: dict[str, Any] = json.loads(read_frame(self._replies, deadline=deadline))
        self._cpu_reported = reply["cpu"]
        return reply


class WorkerPool:
    """Up to `size` workers, started when they are first needed. Safe to call from several threads.

    Example:
        >>> pool = WorkerPool(size=1)
        >>> pool.run([Call(target="math:sqrt", arguments=(9,))], timeout=5.0)[0].value
        3.0
        >>> pool.close()
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"A worker pool needs at least one worker, got size={size}.")
        self.size = size
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._alive: set[Worker] = set()
        self._threads: ThreadPoolExecutor | None = None

    def run(self, calls: Sequence[Call], *, timeout: float) -> list[Outcome]:
        """Run every call, each for at most `timeout` seconds from its start in a worker; never raises.

        A call that got little CPU time in that time gets as much again; one whose worker was lost is tried once more.
        """
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="verifier-worker")
            futures = [self._submit(self._threads, call, timeout) for call in calls]
        try:
            return [_result(future) for future in futures]
        except BaseException:  # Ctrl-C: whoever waits for the trainer to end does not wait for its workers
            self.close()
            raise

    def close(self) -> None:
        """Kill the workers. Calls that are under way, or have not begun, end as LOST."""
        with self._lock:
            threads, self._threads = self._threads, None
            idle, self._idle = self._idle, []
            busy = self._alive.difference(idle)
            self._alive = set()
        for worker in busy:  # their threads hold the pipes, and clean up
            worker.stop()
        for worker in idle:
            worker.kill()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)

    def abandon(self) -> None:
        """Let go of workers that belong to the process this one was forked from."""
        for worker in self._alive:
            worker.close_pipes()

    def _submit(self, threads: ThreadPoolExecutor, call: Call, timeout: float) -> Future[Outcome]:
        try:
            return threads.submit(self._run_call, threads, call, timeout)
        except RuntimeError as error:  # no room for a thread
            lost: Future[Outcome] = Future()
            lost.set_result(Outcome(failure=Failure.LOST, detail=str(error)))
            return lost

    def _run_call(self, owner: ThreadPoolExecutor, call: Call, timeout: float) -> Outcome:
        try:
            arguments = pickle.dumps(call.arguments)
        except Exception as error:
            return Outcome(failure=Failure.RAISED, detail=type(error).__name__, error=error_text(error))
        outcome = Outcome(failure=Failure.LOST)
        for _ in range(ATTEMPTS):
            if self._threads is not owner:  # closed meanwhile
                break
            outcome = self._attempt(call.target, arguments, timeout)
            if outcome.failure is not Failure.LOST:
                break
        return outcome

    def _attempt(self, target: str, arguments: bytes, timeout: float) -> Outcome:
        started = time.monotonic()
        worker: Worker | None = None
        try:
            worker = self._take()
            reply = worker.prepare(target)
            if "failure" not in reply:
                started = time.monotonic()
                try:
                    reply = worker.call(target, arguments, timeout)
                except DeadlineError:
                    failure = worker.why_late(timeout)
                    self._discard(worker)
                    return Outcome(failure=failure, seconds=time.monotonic() - started)
        except Exception as error:
            # The process could not start, or died: nothing here is the completion's doing.
            if self._threads is not None:
                logger.warning("A verifier worker was lost: %s: %s", type(error).__name__, error)
            if worker is not None:
                self._discard(worker)
            return Outcome(failure=Failure.LOST, detail=type(error).__name__, seconds=time.monotonic() - started)
        self._put_back(worker)
        seconds = time.monotonic() - started
        if "failure" in reply:
            _warn_raised(target, reply)
            return Outcome(failure=Failure.RAISED, detail=reply["failure"], error=reply["error"], seconds=seconds)
        return Outcome(value=reply["value"], seconds=seconds)

    def _take(self) -> Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                self._alive.discard(worker)
                worker.kill()
        worker = Worker()
        with self._lock:
            self._alive.add(worker)
        return worker

    def _put_back(self, worker: Worker) -> None:
        with self._lock:
            if worker in self._alive:
                self._idle.append(worker)

    def _discard(self, worker: Worker) -> None:
        with self._lock:
            self._alive.discard(worker)
        worker.kill()


def _result(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except CancelledError:
        return Outcome(failure=Failure.LOST, detail="closed")


def usable_cores() -> int:
    """CPU cores that this rank may use: its share of those that the node's ranks have between them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


_pool: WorkerPool | None = None
_pool_lock = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool of this process, made when it is first asked for. A forked child makes its own."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = WorkerPool(usable_cores())
        return _pool


def judge_in_workers(target: str, arguments: Sequence[tuple[Any, ...]], *, timeout: float) -> list[Verdict]:
    """The verdicts of a function that returns their records, called once for each tuple of arguments; in order."""
    calls = [Call(target=target, arguments=each) for each in arguments]
    return [outcome.to_verdict() for outcome in shared_pool().run(calls, timeout=timeout)] if calls else []


def close_workers() -> None:
    """Kill this process's workers; the next call starts new ones."""
    if _pool is not None:
        _pool.close()


def _forget_pool() -> None:
    # The parent's workers answer the parent. Its locks may be held by threads that do not exist here.
    global _pool, _pool_lock
    if _pool is not None:
        _pool.abandon()
    _pool, _pool_lock = None, threading.Lock()


_warned: set[tuple[str, str]] = set()


def _warn_raised(target: str, reply: dict[str, Any]) -> None:
    if (target, reply["failure"]) not in _warned:
        _warned.add((target, reply["failure"]))
        logger.warning("%s raised in a worker: %s. Such an error is shown once.", target, reply["error"])


os.register_at_fork(after_in_child=_forget_pool)
atexit.register(close_workers)
