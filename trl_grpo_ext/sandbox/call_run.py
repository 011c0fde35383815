"""Running a `CallSuite`: a solution and a judge, each in its jail, with a channel between them.

Both are forked for this one program, and are gone after it: a judge that a program has taken over judges no other.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, RunResult, TestResult, no_verdict, run_result_of
from trl_grpo_ext.sandbox.monitor import LimitError, Monitor, await_exit, check_killed, read_exit, tell
from trl_grpo_ext.sandbox.zygote import Zygote
from trl_grpo_ext.workers.frames import Inbox

_PART_OF_MEMORY = 8  # how much more memory a value may take, as Python has it, than as JSON
REPORT_BYTES = 8 << 20  # what a judge may say of one program


def run_calls(zygote: Zygote, job: Job, suite: CallSuite) -> RunResult:
    """Run the tests against the program; raises LostError or IsolationError if the sandbox fails."""
    if suite.shares_files and not zygote.namespaces:
        return no_verdict("the tests use files, which programs may write only in namespaces; see `doctor`")
    with contextlib.ExitStack() as opened:
        ends = [opened.enter_context(end) for _ in range(3) for end in socket.socketpair()]
        solution, solution_end, control, control_end, left, right = ends
        program, judge = opened.enter_context(
            zygote.children(
                ("solution", job.limits, [solution_end, left]),
                ("judge", judge_limits(job.limits), [control_end, right]),
                shares_files=suite.shares_files,
            )
        )
        tell(solution, {"program": job.program})
        tell(control, judge_order(job, suite))
        return _follow(zygote, job, (program, judge), solution, control)


@functools.lru_cache(maxsize=16)
def judge_limits(limits: Limits) -> Limits:
    """A judge handles what the program returns, so it is jailed too; but its tests are not what is under test."""
    return replace(limits, cpu_seconds=2 * limits.cpu_seconds + 1, memory_mb=max(512, limits.memory_mb))


def judge_order(job: Job, suite: CallSuite) -> dict[str, Any]:
    """The order to a judge: the tests, and how to run them."""
    return {
        "setup": suite.setup,
        "tests": suite.tests,
        "code": suite.code,
        "names": suite.names,
        "imports": suite.imports,
        "stop_at_first": job.stop_at_first,
        # The longest of a program, such as one value that it returns, as JSON.
        "message_bytes": (job.limits.memory_mb << 20) // _PART_OF_MEMORY,
    }


class Report:
    """The report of a judge on a program so far: the results of its first tests, in order."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._whole: RunResult | None = None
        self.results: list[TestResult] = []

    def read(self, inbox: Inbox) -> None:
        """Read the messages that have come. A judge that talks nonsense was taken over by the program."""
        try:
            self._take(inbox.take())
        except (ValueError, TypeError, LookupError):
            nonsense = TestResult(ending=Ending.PROTOCOL, detail="the judge's report makes no sense")
            self._whole = run_result_of((nonsense,) * len(self._job.suite.tests))

    def _take(self, messages: Iterable[dict[str, Any]]) -> None:
        for message in messages:
            if "bad_tests" in message:
                self._whole = RunResult(ending=Ending.BAD_TESTS, detail=str(message["bad_tests"]))
                continue
            if self.complete or message["test"] != len(self.results):
                raise ValueError("a report out of turn")
            self.results.append(TestResult(ending=_JUDGED[message["ending"]], detail=str(message["detail"])))

    @property
    def complete(self) -> bool:
        """Whether nothing is left to say. What cuts the run short from now on cuts nothing."""
        last = self.results[-1].ending if self.results else Ending.PASSED
        stopped = last is Ending.REFUSED or (self._job.stop_at_first and last is not Ending.PASSED)
        return self._whole is not None or stopped or len(self.results) == len(self._job.suite.tests)

    def conclude(self, cut: TestResult, ended: Callable[[], TestResult | None]) -> RunResult:
        """The outcome of the run.

        Args:
            cut: The result of the test that it was cut short in, if it is not complete.
            ended: Asked where the judge only saw the program go: how it ended, None if that is unknown.
        """
        if self._whole is not None:
            return self._whole
        results = self.results if self.complete else [*self.results, cut]
        if any(each.ending is Ending.KILLED for each in self.results) and (known := ended()) is not None:
            results = [known if each.ending is Ending.KILLED else each for each in results]
        rest = TestResult(ending=Ending.NOT_RUN) if self.complete or self._job.stop_at_first else cut
        return run_result_of((*results, *[rest] * (len(self._job.suite.tests) - len(results))))


_JUDGED = {
    ending.value: ending
    for ending in (
        *(Ending.PASSED, Ending.FAILED, Ending.ERROR, Ending.COMPILE_ERROR, Ending.MEMORY, Ending.PROTOCOL),
        *(Ending.KILLED, Ending.REFUSED),
    )
}
"""The endings that a judge may report."""


def _follow(
    zygote: Zygote, job: Job, children: tuple[int, int], solution: socket.socket, control: socket.socket
) -> RunResult:
    program, judge = children
    monitor, report, inbox = Monitor(zygote, job.limits), Report(job), Inbox(control.fileno(), REPORT_BYTES)
    monitor.await_ready(Inbox(solution.fileno()))
    monitor.await_ready(inbox)  # its start is not the program's time
    monitor.start(job.limits.wall_seconds)
    monitor.add(inbox.descriptor)
    report.read(inbox)
    try:
        while not (report.complete or inbox.ended):
            # Not when only a child has ended: a judge that is busy would be waited for without end.
            if inbox.descriptor in monitor.wait():
                inbox.read()
                report.read(inbox)
        cut = TestResult(ending=Ending.PROTOCOL, detail="the judge was lost")  # by what the program sent
    except LimitError as over:
        cut = over.result
    else:
        if not report.complete:
            check_killed(await_exit(zygote, judge), judge_limits(job.limits))
    return report.conclude(cut, lambda: _ending(zygote, program, job.limits))


def _ending(zygote: Zygote, program: int, limits: Limits) -> TestResult | None:
    left = await_exit(zygote, program)
    if zygote.namespaces:
        check_killed(left, limits)
    return None if left is None else read_exit(left, limits)
