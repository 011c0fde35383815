"""A sandbox on this machine: zygotes, one a core, that run jobs side by side."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from trl_grpo_ext.sandbox.call_run import JudgeLostError, run_calls
from trl_grpo_ext.sandbox.isolation import Isolation
from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, RunResult, TestResult, run_result_of
from trl_grpo_ext.sandbox.job_queue import JobQueue
from trl_grpo_ext.sandbox.monitor import NotReadyError
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.stdio_run import run_cases
from trl_grpo_ext.sandbox.zygote import IsolationError, Zygote, ZygoteLostError, remove_stale_folders

logger = logging.getLogger(__name__)

ATTEMPTS = 2  # how often a job is tried when the sandbox fails it


class LocalSandbox:
    """Runs programs on this machine, up to `size` at a time. Safe to call from several threads.

    Processes start when they are first needed, belong to the process that made them, and end with it.

    Args:
        size: Zygotes; each runs one job at a time.
        isolation: The walls to put up; the strongest that hold here by default.
        packages: Folders of packages that programs may import, besides Python's own library.
        allow_unsafe: Whether to run programs without walls where no walls hold.

    Example:
        >>> from trl_grpo_ext.sandbox.job import CallSuite
        >>> suite = CallSuite(tests=("assert add(1, 2) == 3",), names=("add",))
        >>> sandbox = LocalSandbox(size=1)
        >>> sandbox.run([Job(program="def add(a, b): return a + b", suite=suite)])[0].ending
        <Ending.PASSED: 'passed'>
        >>> sandbox.close()
    """

    def __init__(
        self,
        size: int,
        *,
        isolation: Isolation | None = None,
        packages: Sequence[str] = (),
        allow_unsafe: bool = False,
    ) -> None:
        if size < 1:
            raise ValueError(f"A sandbox needs at least one process, got size={size}.")
        self.size = size
        self._packages = tuple(packages)
        self._isolation = isolation
        self._allow_unsafe = allow_unsafe
        self._lock = threading.Lock()
        self._idle: list[Zygote] = []
        self._alive: set[Zygote] = set()
        self._queue = JobQueue()
        self._threads: ThreadPoolExecutor | None = None

    @property
    def isolation(self) -> Isolation:
        """The walls that programs run behind; found by trying attacks when it is first asked for.

        Raises:
            IsolationError: if not even the weakest hold.
        """
        with self._lock:
            if self._isolation is None:
                self._isolation = self._find_isolation()
            return self._isolation

    def _find_isolation(self) -> Isolation:
        try:
            return best_isolation()
        except IsolationError as error:
            if not self._allow_unsafe:
                raise
            logger.warning(
                "RUNNING PROGRAMS WITHOUT ISOLATION, as allow_unsafe=True says. They can do what you can. %s", error
            )
            return Isolation.NONE

    def check(self) -> str:
        """The walls that programs run behind, such as `"namespaces+landlock+seccomp"`.

        Raises:
            IsolationError, ZygoteLostError: if programs cannot be run.
        """
        self._put_back(self._pop_idle() or self._start())
        return self.isolation.label

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run every job; identical ones once. In order; never raises for what a program does."""
        isolation = self.isolation
        distinct = list(dict.fromkeys(jobs))
        with self._lock:
            if self._threads is None:
                remove_stale_folders()
                self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="sandbox")
            futures = {job: self._submit(self._threads, self._queue, job) for job in distinct}
        try:
            outcomes = {job: future.result() for job, future in futures.items()}
        except BaseException:  # Ctrl-C: whoever waits for the trainer to end does not wait for programs
            self.close()
            raise
        return [replace(outcomes[job], level=isolation.label) for job in jobs]

    def close(self) -> None:
        """End all processes. Jobs that are under way, or have not begun, get no verdict."""
        with self._lock:
            threads, self._threads = self._threads, None
            queue, self._queue = self._queue, JobQueue()
            alive, self._alive, self._idle = self._alive, set(), []
        for zygote in alive:
            zygote.stop()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)
        _drop_waiting(queue, "closed")
        with self._lock:
            alive |= self._alive  # one may have started meanwhile
            self._alive, self._idle = set(), []
        for zygote in alive:
            zygote.kill()

    def abandon(self) -> None:
        """Let go of processes that belong to the process this one was forked from."""
        for zygote in self._alive:
            zygote.close_control()

    def _submit(self, threads: ThreadPoolExecutor, queue: JobQueue, job: Job) -> Future[RunResult]:
        future = queue.add(job)
        try:
            threads.submit(self._work, threads, queue)
        except RuntimeError as error:  # no room for a thread
            _drop_waiting(queue, str(error))
        return future

    def _work(self, owner: ThreadPoolExecutor, queue: JobQueue) -> None:
        """Run one job: of those with the tests of an idle zygote's judge, if there are any."""
        zygote = self._pop_idle()
        waiting = queue.take(zygote.judge.suite if zygote and zygote.judge else None)
        if waiting is None:
            self._put_back(zygote)
            return
        job, future = waiting
        try:
            future.set_result(self._run(owner, zygote, job))
        except BaseException as error:
            future.set_exception(error)

    def _run(self, owner: ThreadPoolExecutor, zygote: Zygote | None, job: Job) -> RunResult:
        outcome, judges_lost = _no_verdict("closed"), 0
        for _ in range(ATTEMPTS):
            if self._threads is not owner:  # closed meanwhile
                self._discard(zygote)
                break
            outcome = self._attempt(zygote, job)
            if outcome.ending is not Ending.NO_VERDICT:
                break
            judges_lost += outcome.detail == _JUDGE_LOST
            zygote = None
        if judges_lost == ATTEMPTS:
            # Each time, on another zygote: it is what this program sends that the judge cannot cope with.
            lost = TestResult(ending=Ending.PROTOCOL, detail=_JUDGE_LOST)
            rest = TestResult(ending=Ending.NOT_RUN)
            return run_result_of((lost, *[rest] * (len(job.suite.tests) - 1)))
        return outcome

    def _attempt(self, zygote: Zygote | None, job: Job) -> RunResult:
        started = time.perf_counter()
        try:
            zygote = zygote or self._start()
            cpu = zygote.cpu_seconds
            outcome = (
                run_calls(zygote, job, job.suite)
                if isinstance(job.suite, CallSuite)
                else run_cases(zygote, job, job.suite)
            )
            seconds, cpu = time.perf_counter() - started, zygote.cpu_seconds - cpu
        except JudgeLostError:
            self._discard(zygote)
            return _no_verdict(_JUDGE_LOST)
        except (NotReadyError, ZygoteLostError, IsolationError, OSError) as error:
            if self._threads is not None:
                logger.warning("The sandbox failed: %s: %s", type(error).__name__, error)
            self._discard(zygote)
            return _no_verdict(f"{type(error).__name__}: {error}")
        except Exception as error:
            logger.exception("The sandbox has a fault of its own.")
            self._discard(zygote)
            return _no_verdict(f"{type(error).__name__}: {error}")
        except BaseException:
            self._discard(zygote)
            raise
        self._put_back(zygote)
        return replace(outcome, seconds=seconds, cpu_seconds=cpu)

    def _pop_idle(self) -> Zygote | None:
        """An idle zygote, if there is one: rather one whose judge has the tests of a job that waits."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                waiting = self._queue.suites()
                ready = [each for each in self._idle if each.judge and each.judge.suite in waiting]
                zygote = ready[-1] if ready else self._idle[-1]
                self._idle.remove(zygote)
            if zygote.alive:
                return zygote
            self._discard(zygote)

    def _start(self) -> Zygote:
        zygote = Zygote(self.isolation, self._packages)
        with self._lock:
            self._alive.add(zygote)
        return zygote

    def _put_back(self, zygote: Zygote | None) -> None:
        with self._lock:
            if zygote in self._alive:
                assert zygote is not None
                self._idle.append(zygote)

    def _discard(self, zygote: Zygote | None) -> None:
        if zygote is not None:
            with self._lock:
                self._alive.discard(zygote)
            zygote.kill()


_JUDGE_LOST = "the judge was lost"


def _no_verdict(detail: str) -> RunResult:
    return RunResult(ending=Ending.NO_VERDICT, detail=detail)


def _drop_waiting(queue: JobQueue, why: str) -> None:
    while (waiting := queue.take()) is not None:
        waiting[1].set_result(_no_verdict(why))
