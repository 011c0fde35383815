"""Running a `CallSuite`: a solution and a judge, each in its jail, with a channel between them.

Both are forked for this one program and are gone after it, so nothing that one program did can reach the next.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, RunResult, TestResult, run_result_of
from trl_grpo_ext.sandbox.monitor import LimitError, Monitor, await_exit, check_killed, read_exit, tell
from trl_grpo_ext.sandbox.zygote import Zygote
from trl_grpo_ext.workers.frames import Inbox

_PART_OF_MEMORY = 8  # how much more memory a value may take, as Python has it, than as JSON
REPORT_BYTES = 8 << 20  # what a judge may say of one program

LOST_JUDGE = TestResult(ending=Ending.PROTOCOL, detail="the judge was lost")
"""The result of a test whose judge could not cope with what the program sent."""


def run_calls(zygote: Zygote, job: Job, suite: CallSuite) -> RunResult:
    """Run the tests against the program.

    Raises:
        LostError, IsolationError: if the sandbox fails.
    """
    with contextlib.ExitStack() as opened:
        ends = [opened.enter_context(end) for _ in range(3) for end in socket.socketpair()]
        solution, solution_end, control, control_end, left, right = ends
        children = zygote.children(
            ("solution", job.limits, [solution_end, left]), ("judge", judge_limits(job.limits), [control_end, right])
        )
        program, judge = opened.enter_context(children)
        tell(solution, {"program": job.program})
        tell(control, judge_order(job, suite))
        return _follow(zygote, job, program, judge, solution, control)


def judge_limits(limits: Limits) -> Limits:
    """A judge handles what the program returns, so it is jailed too; but its tests are not what is under test."""
    return replace(limits, cpu_seconds=2 * limits.cpu_seconds + 1, memory_mb=max(512, limits.memory_mb))


def judge_order(job: Job, suite: CallSuite) -> dict[str, Any]:
    """What a judge is told of its tests."""
    return {
        "setup": suite.setup,
        "tests": suite.tests,
        "code": suite.code,
        "names": suite.names,
        "stop_at_first": job.stop_at_first,
        # The longest of a program, such as one value that it returns, as JSON.
        "message_bytes": (job.limits.memory_mb << 20) // _PART_OF_MEMORY,
    }


class Report:
    """What a judge has said so far of a program.

    Attributes:
        results: Of the first tests, in order.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._bad_tests: RunResult | None = None
        self.results: list[TestResult] = []

    def take(self, frames: Iterable[dict[str, Any]]) -> None:
        """Take messages of the judge."""
        for frame in frames:
            if "bad_tests" in frame:
                self._bad_tests = RunResult(ending=Ending.BAD_TESTS, detail=frame["bad_tests"])
            if "test" in frame:
                self.results.append(TestResult(ending=Ending(frame["ending"]), detail=frame["detail"]))

    @property
    def complete(self) -> bool:
        """Whether nothing is left to say. What cuts the run short from now on cuts nothing."""
        stopped = self._job.stop_at_first and self.results and self.results[-1].ending is not Ending.PASSED
        return bool(self._bad_tests or stopped) or len(self.results) == len(self._job.suite.tests)

    def conclude(self, cut: TestResult, ended: Callable[[], TestResult | None]) -> RunResult:
        """The outcome of the run.

        Args:
            cut: The result of the test that it was cut short in, if it is not complete.
            ended: Asked where the judge only saw the program go: how it ended, None if that is unknown.
        """
        if self._bad_tests:
            return self._bad_tests
        results = self.results if self.complete else [*self.results, cut]
        if any(each.ending is Ending.KILLED for each in self.results) and (known := ended()) is not None:
            results = [known if each.ending is Ending.KILLED else each for each in results]
        rest = TestResult(ending=Ending.NOT_RUN) if self.complete or self._job.stop_at_first else cut
        return run_result_of((*results, *[rest] * (len(self._job.suite.tests) - len(results))))


def _follow(
    zygote: Zygote, job: Job, program: int, judge: int, solution: socket.socket, control: socket.socket
) -> RunResult:
    monitor = Monitor(zygote, job.limits)
    inbox = Inbox(control.fileno(), REPORT_BYTES)
    monitor.await_ready(Inbox(solution.fileno()))
    monitor.await_ready(inbox)  # its start is not the program's time
    monitor.start(job.limits.wall_seconds)
    monitor.add(control.fileno())
    report = Report(job)
    report.take(inbox.take())

    def step() -> None:
        # Not when only a child has ended: a judge that is busy would be waited for without end.
        if inbox.descriptor in monitor.wait():
            inbox.read()
            report.take(inbox.take())

    cut = follow(zygote, judge, job, report, inbox, step)
    return report.conclude(cut, lambda: _ending(zygote, program, job.limits))


def follow(zygote: Zygote, judge: int, job: Job, report: Report, inbox: Inbox, step: Callable[[], None]) -> TestResult:
    """Follow a judge to the end of its report, a step at a time; the result of the test that it is cut short in.

    Raises:
        LostError: if something outside killed it.
    """
    try:
        while not (report.complete or inbox.ended):
            step()
    except LimitError as over:
        return over.result
    if not report.complete:
        check_killed(await_exit(zygote, judge), judge_limits(job.limits))
    return LOST_JUDGE


def _ending(zygote: Zygote, program: int, limits: Limits) -> TestResult | None:
    left = await_exit(zygote, program)
    if zygote.namespaces:
        check_killed(left, limits)
    return None if left is None else read_exit(left, limits)
