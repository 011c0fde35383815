"""Running a `CallSuite`: a solution and a judge, each in its jail, with a channel between them.

The solution's process is forked for this one program and is gone after it. So is the judge, unless the run can have
left nothing in it: its tests are pure, nothing came from the program but plain data, and the judge's last report, which
bears the number of the run, has been read. Such a judge takes the next program.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, RunResult, TestResult, run_result_of
from trl_grpo_ext.sandbox.monitor import LimitError, Monitor, await_exit, check_killed, read_exit, tell
from trl_grpo_ext.sandbox.zygote import Judge, LostError, Zygote
from trl_grpo_ext.workers.frames import Inbox

_PART_OF_MEMORY = 8  # how much more memory a value may take, as Python has it, than as JSON
REPORT_BYTES = 8 << 20  # what a judge may say of one program
MOST_RUNS = 64  # of one judge


def run_calls(zygote: Zygote, job: Job, suite: CallSuite) -> RunResult:
    """Run the tests against the program; raises LostError or IsolationError if the sandbox fails."""
    limits = judge_limits(job.limits)
    with contextlib.ExitStack() as opened:
        ends = [opened.enter_context(end) for _ in range(2) for end in socket.socketpair()]
        solution, solution_end, left, right = ends
        wanted = [("solution", job.limits, [solution_end, left])]
        spare, zygote.judge = zygote.judge, None  # however this run ends, no other begins with what it has used
        controls = opened.enter_context(contextlib.ExitStack())
        if spare is not None:
            controls.enter_context(spare.control)
        if spare is None or spare.limits != limits:
            controls.close()
            control, control_end = [controls.enter_context(end) for end in socket.socketpair()]
            wanted.append(("judge", limits, [control_end]))
        children = opened.enter_context(zygote.children(*wanted))
        judge = Judge(children[1], control, limits) if children[1:] else cast(Judge, spare)
        if spare is not None:
            children.append(spare.number)
        report = Report(job, judge.runs)
        tell(solution, {"program": job.program})
        tell_judge(judge.control, right, judge_order(job, suite, judge.runs))
        result = _follow(zygote, job, report, children[0], judge, solution)
        if suite.pure and report.clean and judge.runs < MOST_RUNS:
            children.remove(judge.number)
            controls.pop_all()
            zygote.judge = replace(judge, runs=judge.runs + 1)
        return result


def tell_judge(control: socket.socket, rpc: socket.socket, order: dict[str, Any]) -> None:
    """Give a judge the channel to a program, and say what it is to run against it."""
    with contextlib.suppress(OSError):  # as in `tell`
        socket.send_fds(control, [b"\0"], [rpc.fileno()])
    tell(control, order)


@functools.lru_cache(maxsize=16)
def judge_limits(limits: Limits) -> Limits:
    """A judge handles what the program returns, so it is jailed too; but its tests are not what is under test."""
    return replace(limits, cpu_seconds=2 * limits.cpu_seconds + 1, memory_mb=max(512, limits.memory_mb))


def judge_order(job: Job, suite: CallSuite, run: int = 0) -> dict[str, Any]:
    """What a judge is told of its tests, which are its `run`-th."""
    return {
        "run": run,
        "setup": suite.setup,
        "tests": suite.tests,
        "code": suite.code,
        "names": suite.names,
        "stop_at_first": job.stop_at_first,
        # The longest of a program, such as one value that it returns, as JSON.
        "message_bytes": (job.limits.memory_mb << 20) // _PART_OF_MEMORY,
    }


class Report:
    """What a judge has said so far of a program: the results of its first tests, in order.

    It is `clean` once the judge has said its last word, and that the run has left nothing in it.
    """

    def __init__(self, job: Job, run: int = 0) -> None:
        self._job = job
        self._run = run
        self.clean = False
        self._bad_tests: RunResult | None = None
        self.results: list[TestResult] = []

    def take(self, frames: Iterable[dict[str, Any]]) -> None:
        """Take messages of the judge; raises LostError if one is of another run."""
        for frame in frames:
            if frame["run"] != self._run or self.clean:
                raise LostError("the judge speaks of another run")
            if "bad_tests" in frame:
                self._bad_tests = RunResult(ending=Ending.BAD_TESTS, detail=frame["bad_tests"])
            if "test" in frame:
                self.results.append(TestResult(ending=Ending(frame["ending"]), detail=frame["detail"]))
                self.clean = frame.get("clean", False)

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


def _follow(zygote: Zygote, job: Job, report: Report, program: int, judge: Judge, solution: socket.socket) -> RunResult:
    monitor = Monitor(zygote, job.limits)
    inbox = Inbox(judge.control.fileno(), REPORT_BYTES)
    monitor.await_ready(Inbox(solution.fileno()))
    report.take([monitor.await_ready(inbox)])  # its start is not the program's time
    monitor.start(job.limits.wall_seconds)
    monitor.add(inbox.descriptor)
    report.take(inbox.take())

    def step() -> None:
        # Not when only a child has ended: a judge that is busy would be waited for without end.
        if inbox.descriptor in monitor.wait():
            inbox.read()
            report.take(inbox.take())

    cut = follow(zygote, judge.number, job, report, inbox, step)
    return report.conclude(cut, lambda: _ending(zygote, program, job.limits))


def follow(zygote: Zygote, judge: int, job: Job, report: Report, inbox: Inbox, step: Callable[[], None]) -> TestResult:
    """Follow a judge to the end of its report, a step at a time; the result of the test that it is cut short in.

    Raises LostError if something outside killed it.
    """
    try:
        while not (report.complete or inbox.ended):
            step()
    except LimitError as over:
        return over.result
    if not report.complete:
        check_killed(await_exit(zygote, judge), judge_limits(job.limits))
    return TestResult(ending=Ending.PROTOCOL, detail="the judge was lost")  # by what the program sent


def _ending(zygote: Zygote, program: int, limits: Limits) -> TestResult | None:
    left = await_exit(zygote, program)
    if zygote.namespaces:
        check_killed(left, limits)
    return None if left is None else read_exit(left, limits)
