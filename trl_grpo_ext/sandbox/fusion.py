"""A sandbox on a SandboxFusion service. What a program prints, or answers, is judged here and not by the service."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.sandbox.fusion_calls import run_calls
from trl_grpo_ext.sandbox.fusion_service import FusionService, Run, ServiceError, ending_of
from trl_grpo_ext.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    RunResult,
    StdioCase,
    StdioSuite,
    TestResult,
    no_verdict,
    run_result_of,
)
from trl_grpo_ext.sandbox.local import LocalSandbox, run_on_zygote
from trl_grpo_ext.sandbox.monitor import over_time
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.stdio_run import compare, run_each, too_much_printed
from trl_grpo_ext.sandbox.zygote import Zygote
from trl_grpo_ext.workers.processes import Lender

logger = logging.getLogger(__name__)

LEVEL = "remote:sandboxfusion"
JOBS_A_SERVICE = 8
_FREE_SECONDS = 0.2  # of each run: an interpreter's start is not the program's
_CARRIED_BYTES = 100_000  # of output that the service certainly takes before it stalls the program


class FusionError(ValueError):
    """No service runs programs there; the message says why, and what to do."""


class FusionSandbox(LocalSandbox):
    """Runs programs on SandboxFusion, by its `POST /run_code`. Safe to call from several threads.

    A `StdioSuite` takes one request a case; what was printed is compared here. A `CallSuite` is judged by our own
    judge here, which asks the program by way of requests that run it again from its start, one for each call that
    the tests make: right only for programs that give the same answers each time, and slow for tests with many calls.
    Tests that need more than `fusion_calls.MAX_REQUESTS` requests, callbacks included, and answers too long for the
    service, have no verdict. The service enforces time and memory; the limits of processes and disk are its own.

    Args:
        addresses: `http://host:port`, one or several that share the work.
        parallel: Programs at a time; by default 8 for each service.

    Raises:
        ValueError: for any other address.
    """

    def __init__(self, addresses: Sequence[str], *, parallel: int | None = None) -> None:
        self._service = FusionService(addresses)
        super().__init__(parallel or JOBS_A_SERVICE * len(self._service.addresses))

    def check(self) -> str:
        """What programs are run behind.

        Raises:
            FusionError: unless a service runs a program.
        """
        failures = self._service.failures()
        if len(failures) == len(self._service.addresses):
            raise FusionError(
                f"No SandboxFusion service runs a program: {'; '.join(failures)}. Start one there as its documentation "
                "says, and give its address without /run_code."
            )
        for failure in failures:
            logger.warning("A SandboxFusion service fails, and the others do its work: %s", failure)
        return LEVEL

    def close(self) -> None:
        """End the requests and the judges that are under way; they get no verdict."""
        self._service.close()
        super().close()

    @property
    def _level(self) -> str:
        return LEVEL

    @functools.cached_property
    def isolation(self) -> Isolation:
        """The judge's: its tests are trusted, so that walls are only a second line here, and none will do."""
        try:
            return best_isolation()
        except IsolationError:
            return Isolation.NONE

    def _run(self, zygotes: Lender[Zygote], job: Job) -> RunResult:
        started = time.perf_counter()
        outcome = self._judge(zygotes, job)
        return replace(outcome, seconds=time.perf_counter() - started)

    def _judge(self, zygotes: Lender[Zygote], job: Job) -> RunResult:
        if not _is_text(job.program):
            return run_result_of((_NOT_TEXT,) * len(job.suite.tests))
        try:
            if isinstance(job.suite, StdioSuite):
                return run_each(job, job.suite, lambda case, seconds: self._run_case(job, case, seconds))
            return self._run_calls(zygotes, job, job.suite)
        except ServiceError as error:
            return no_verdict(str(error))

    def _run_case(self, job: Job, case: StdioCase, seconds: float) -> tuple[TestResult, float]:
        if not _is_text(case.stdin):
            raise ServiceError("a test's standard input is not UTF-8")
        run = self._service.run(job.program, case.stdin, job.limits, seconds)
        if not run.timed_out and run.code == 0 and _is_cut_short(run.stdout, case.stdout):
            run = self._service.run(job.program, case.stdin, job.limits, seconds)
        if run.timed_out and len(case.stdout) > _CARRIED_BYTES:
            raise ServiceError("the expected output is too long for the service")
        return _case_result(run, case, job.limits), max(0.0, run.seconds - _FREE_SECONDS)

    def _run_calls(self, zygotes: Lender[Zygote], job: Job, suite: CallSuite) -> RunResult:
        def ask(code: str, stdin: str) -> Run:
            return self._service.run(code, stdin, job.limits, job.limits.wall_seconds)

        def judge(zygote: Zygote) -> RunResult:
            try:
                return run_calls(zygote, job, suite, ask)
            except ServiceError as error:  # the zygote is as good as before
                return no_verdict(str(error))

        return run_on_zygote(zygotes, judge)


_NOT_TEXT = TestResult(ending=Ending.COMPILE_ERROR, detail="the program is no UTF-8")


def _case_result(run: Run, case: StdioCase, limits: Limits) -> TestResult:
    if run.timed_out:
        return over_time(limits)
    if run.code != 0:
        return ending_of(run, limits)
    printed = run.stdout.encode("utf-8", "surrogatepass")
    if len(printed) > limits.output_kb << 10:
        return too_much_printed(limits)
    return compare(printed, case)


def _is_cut_short(printed: str, expected: str) -> bool:
    """Whether the service may have lost the end of what was printed, as it does at times."""
    return len(printed) < len(expected.rstrip()) and expected.startswith(printed)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
