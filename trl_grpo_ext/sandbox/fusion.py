"""A sandbox on a SandboxFusion service. What a program prints, or answers, is judged here and not by the service."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.sandbox.call_run import JudgeLostError
from trl_grpo_ext.sandbox.fusion_calls import UnsupportedError, run_calls
from trl_grpo_ext.sandbox.fusion_service import FusionService, Run, ending_of
from trl_grpo_ext.sandbox.isolation import Isolation
from trl_grpo_ext.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    RunResult,
    StdioCase,
    StdioSuite,
    TestResult,
    run_result_of,
)
from trl_grpo_ext.sandbox.monitor import NotReadyError, over_time
from trl_grpo_ext.sandbox.nodes import NodeError, spread
from trl_grpo_ext.sandbox.printed import first_difference, same_output
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.remote import RemoteError, no_verdict
from trl_grpo_ext.sandbox.zygote import IsolationError, Zygote, ZygoteLostError

logger = logging.getLogger(__name__)

LEVEL = "remote:sandboxfusion"
JOBS_A_SERVICE = 8
_ATTEMPTS = 2
_FREE_SECONDS = 0.2  # of each run: an interpreter's start is not the program's
_CARRIED_BYTES = 100_000  # of output that the service certainly takes before it stalls the program
_HOPELESS = (Ending.TIMEOUT, Ending.COMPILE_ERROR)


class FusionSandbox:
    """Runs programs on SandboxFusion, by its `POST /run_code`. Safe to call from several threads.

    A `StdioSuite` takes one request a case; what was printed is compared here. A `CallSuite` is judged by our own
    judge here, which asks the program by way of requests that run it again from its start, one for each call that
    the tests make: right only for programs that give the same answers each time, and slow for tests with many calls.
    Tests that need more than `replay_run.MAX_REQUESTS` requests, callbacks included, and answers too long for the
    service, have no verdict. The service enforces time and memory; the limits of processes and disk are its own.

    Args:
        addresses: `http://host:port`, one or several that share the work.
        parallel: Programs at a time; by default 8 for each service.

    Raises:
        ValueError: for what is no such address.
    """

    def __init__(self, addresses: Sequence[str], *, parallel: int | None = None) -> None:
        self._service = FusionService(addresses)
        self._parallel = parallel or JOBS_A_SERVICE * self._service.size
        self._lock = threading.Lock()
        self._judge_isolation: Isolation | None = None
        self._idle: list[Zygote] = []
        self._alive: set[Zygote] = set()

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run every job; identical ones once. In order; never raises for what a program, or the service, does."""
        distinct = list(dict.fromkeys(jobs))
        answers = spread(self._run, distinct, threads=self._parallel, cancel=self.close)
        outcomes = dict(zip(distinct, answers, strict=True))
        return [outcomes[job] for job in jobs]

    def check(self) -> str:
        """What programs are run behind.

        Raises:
            RemoteError: unless a service runs a program.
        """
        failures = self._service.failures()
        if len(failures) == self._service.size:
            raise RemoteError(
                f"No SandboxFusion service runs a program: {'; '.join(failures)}. Start one there as its documentation "
                "says, and give its address without /run_code."
            )
        for failure in failures:
            logger.warning("A SandboxFusion service fails, and the others do its work: %s", failure)
        return LEVEL

    def close(self) -> None:
        """End the requests and the judges that are under way; they get no verdict."""
        self._service.close()
        with self._lock:
            alive, self._alive, self._idle = self._alive, set(), []
        for zygote in alive:
            zygote.kill()

    def abandon(self) -> None:
        """Let go of processes that belong to the process this one was forked from."""
        for zygote in self._alive:
            zygote.close_control()

    def _run(self, job: Job) -> RunResult:
        started = time.perf_counter()
        outcome = self._judge(job)
        return replace(outcome, level=LEVEL, seconds=time.perf_counter() - started)

    def _judge(self, job: Job) -> RunResult:
        if not _is_text(job.program):
            return run_result_of((_NOT_TEXT,) * len(job.suite.tests))
        try:
            if isinstance(job.suite, StdioSuite):
                return self._run_cases(job, job.suite)
            return self._run_calls(job, job.suite)
        except (NodeError, UnsupportedError) as error:
            return no_verdict(str(error))

    def _run_cases(self, job: Job, suite: StdioSuite) -> RunResult:
        results: list[TestResult] = []
        left = job.limits.wall_seconds
        for case in suite.tests:
            run, result = self._run_case(job, case, left)
            results.append(result)
            left = max(0.001, left - max(0.0, run.seconds - _FREE_SECONDS))
            if result.ending is not Ending.PASSED and (job.stop_at_first or result.ending in _HOPELESS):
                break
        rest = TestResult(ending=Ending.NOT_RUN) if job.stop_at_first else results[-1]
        return run_result_of((*results, *[rest] * (len(suite.tests) - len(results))))

    def _run_case(self, job: Job, case: StdioCase, seconds: float) -> tuple[Run, TestResult]:
        if not _is_text(case.stdin):
            raise UnsupportedError("a test's standard input is no UTF-8")
        run = self._service.run(job.program, case.stdin, job.limits, seconds)
        if not run.timed_out and run.code == 0 and _is_cut_short(run.stdout, case.stdout):
            run = self._service.run(job.program, case.stdin, job.limits, seconds)
        if run.timed_out and len(case.stdout) > _CARRIED_BYTES:
            raise UnsupportedError("what the program is to print is too long for the service to carry")
        return run, _case_result(run, case, job.limits)

    def _run_calls(self, job: Job, suite: CallSuite) -> RunResult:
        outcome = no_verdict("")
        for _ in range(_ATTEMPTS):
            zygote: Zygote | None = None
            try:
                zygote = self._take()
                outcome = run_calls(zygote, job, suite, lambda code, stdin: self._ask(job, code, stdin))
                self._put_back(zygote)
                return outcome
            except JudgeLostError:
                # Twice on two judges: it is what this program sends that a judge cannot cope with.
                outcome = run_result_of((_JUDGE_LOST,) * len(suite.tests))
            except (NotReadyError, ZygoteLostError, IsolationError, OSError) as error:
                outcome = no_verdict(f"{type(error).__name__}: {error}")
            except (NodeError, UnsupportedError):
                self._put_back(zygote)
                raise
            self._discard(zygote)
        return outcome

    def _ask(self, job: Job, code: str, stdin: str) -> Run:
        return self._service.run(code, stdin, job.limits, job.limits.wall_seconds)

    def _take(self) -> Zygote:
        with self._lock:
            while self._idle:
                zygote = self._idle.pop()
                if zygote.alive:
                    return zygote
                self._alive.discard(zygote)
                zygote.kill()
            if self._judge_isolation is None:
                self._judge_isolation = _best_isolation()
            isolation = self._judge_isolation
        zygote = Zygote(isolation)
        with self._lock:
            self._alive.add(zygote)
        return zygote

    def _put_back(self, zygote: Zygote | None) -> None:
        with self._lock:
            if zygote in self._alive:
                self._idle.append(zygote)

    def _discard(self, zygote: Zygote | None) -> None:
        if zygote is not None:
            with self._lock:
                self._alive.discard(zygote)
            zygote.kill()


_NOT_TEXT = TestResult(ending=Ending.COMPILE_ERROR, detail="the program is no UTF-8")
_JUDGE_LOST = TestResult(ending=Ending.PROTOCOL, detail="the judge was lost")


def _case_result(run: Run, case: StdioCase, limits: Limits) -> TestResult:
    if run.timed_out:
        return over_time(limits)
    if run.code != 0:
        return ending_of(run, limits)
    printed = run.stdout.encode("utf-8", "surrogatepass")
    if len(printed) > limits.output_kb << 10:
        return TestResult(ending=Ending.OUTPUT_LIMIT, detail=f"over {limits.output_kb} KiB")
    if same_output(printed, case.stdout):
        return TestResult(ending=Ending.PASSED)
    return TestResult(ending=Ending.FAILED, detail=first_difference(printed, case.stdout))


def _is_cut_short(printed: str, expected: str) -> bool:
    """Whether the service may have lost the end of what was printed, as it does at times."""
    return len(printed) < len(expected.rstrip()) and expected.startswith(printed)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _best_isolation() -> Isolation:
    """The judge's: its tests are trusted, so that walls are only a second line here, and none will do."""
    try:
        return best_isolation()
    except IsolationError:
        return Isolation.NONE
