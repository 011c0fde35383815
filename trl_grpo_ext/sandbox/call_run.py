"""Running a `CallSuite`: a solution and a judge, each in its jail, with a channel between them."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from typing import Any

from trl_grpo_ext.sandbox.inside.judge import OTHER_TESTS, SAME_TESTS
from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, RunResult, TestResult, run_result_of
from trl_grpo_ext.sandbox.monitor import (
    Monitor,
    NotReadyError,
    OverMemoryError,
    await_exit,
    over_memory,
    over_time,
    read_exit,
    tell,
)
from trl_grpo_ext.sandbox.zygote import JudgeSession, Zygote
from trl_grpo_ext.workers.frames import DeadlineError, Inbox

_PART_OF_MEMORY = 8  # how much more memory a value may take, as Python has it, than as JSON
JUDGE_RUNS = 32  # programs that one judge judges, before another takes its place
_REPORT_BYTES = 8 << 20  # what a judge may say of one program
# After these, the program has left nothing in the judge that another could meet.
_JUDGE_IS_FINE = (Ending.PASSED, Ending.FAILED, Ending.ERROR, Ending.COMPILE_ERROR, Ending.NOT_RUN)


class JudgeLostError(Exception):
    """The judge ended in the middle: something killed it, or it could not cope with what the program sent."""


def run_calls(zygote: Zygote, job: Job, suite: CallSuite) -> RunResult:
    """Run the tests against the program.

    Raises:
        NotReadyError: if a jail could not be put up.
        JudgeLostError: if the judge ended before its verdict.
        ZygoteLostError: if the zygote went away.
    """
    with contextlib.ExitStack() as opened:
        ends = [opened.enter_context(end) for _ in range(2) for end in socket.socketpair()]
        solution, solution_end, left, right = ends
        child = ("solution", job.limits.to_record(), [solution_end.fileno(), left.fileno()])
        program, judge = _start(zygote, job, suite, child, right)
        kept = False
        try:
            for end in (solution_end, left, right):
                end.close()
            tell(solution, {"program": job.program})
            outcome = _follow(zygote, job, program, solution, judge)
            # Of every test: after one that was cut short the judge is still busy, and would report to the next program.
            fine = all(test.ending in _JUDGE_IS_FINE for test in outcome.tests)
            kept = bool(outcome.tests) and fine and judge.clean and judge.runs < JUDGE_RUNS
            return outcome
        finally:
            if kept:
                zygote.end([program])
            else:
                _dismiss(zygote, judge, [program])


def _start(
    zygote: Zygote, job: Job, suite: CallSuite, solution: tuple[str, dict[str, Any], list[int]], rpc: socket.socket
) -> tuple[int, JudgeSession]:
    """Start the solution, and a judge unless there is one that can be used again; the solution's number, the judge."""
    judge = zygote.judge
    if judge is not None:
        same_tests = (judge.suite, judge.stop_at_first) == (suite, job.stop_at_first)
        if judge.limits == job.limits:
            (program,) = zygote.spawn([solution])
            _give(judge, job, suite, rpc, same_tests=same_tests)
            return program, judge
        _dismiss(zygote, judge, [])
    control, inner = socket.socketpair()
    with inner:
        limits = judge_limits(job.limits, JUDGE_RUNS * (job.limits.cpu_seconds + 1))
        child = ("judge", limits, [inner.fileno(), rpc.fileno()])
        try:
            program, number = zygote.spawn([solution, child])
        except BaseException:
            control.close()
            raise
    judge = JudgeSession(
        number=number, control=control, limits=job.limits, suite=suite, stop_at_first=job.stop_at_first, runs=1
    )
    zygote.judge = judge
    tell(control, judge_order(job, suite))
    return program, judge


def _give(judge: JudgeSession, job: Job, suite: CallSuite, rpc: socket.socket, *, same_tests: bool) -> None:
    """Give a judge its next program, and its tests if they are others."""
    judge.runs += 1
    with contextlib.suppress(OSError):  # a judge that is gone shows when it says nothing
        socket.send_fds(judge.control, [SAME_TESTS if same_tests else OTHER_TESTS], [rpc.fileno()])
    if not same_tests:
        judge.suite, judge.stop_at_first = suite, job.stop_at_first
        tell(judge.control, judge_order(job, suite))


def _dismiss(zygote: Zygote, judge: JudgeSession, others: list[int]) -> None:
    zygote.judge = None
    judge.control.close()
    zygote.end([judge.number, *others])


def judge_limits(limits: Limits, cpu_seconds: float) -> dict[str, Any]:
    """A judge handles what the program returns, so it is jailed too; but its tests are not what is under test."""
    return replace(limits, cpu_seconds=cpu_seconds, memory_mb=max(512, limits.memory_mb)).to_record()


def message_bytes(limits: Limits) -> int:
    """The longest message of a program, such as one value that it returns, as JSON."""
    return (limits.memory_mb << 20) // _PART_OF_MEMORY


def judge_order(job: Job, suite: CallSuite) -> dict[str, Any]:
    """What a judge is told of its tests."""
    return {
        "setup": suite.setup,
        "tests": suite.tests,
        "code": suite.code,
        "names": suite.names,
        "stop_at_first": job.stop_at_first,
        "message_bytes": message_bytes(job.limits),
    }


def _follow(zygote: Zygote, job: Job, program: int, solution: socket.socket, judge: JudgeSession) -> RunResult:
    monitor = Monitor(zygote, job.limits)
    inbox = Inbox(judge.control.fileno(), _REPORT_BYTES)
    monitor.await_ready(Inbox(solution.fileno()))
    if judge.runs == 1:  # its start is not the program's time
        monitor.await_ready(inbox)
    monitor.start(job.limits.wall_seconds)
    monitor.add(judge.control.fileno())
    results: list[TestResult] = []
    cut: TestResult | None = None
    try:
        while not (done := _read(inbox, monitor, results, judge)):
            if inbox.ended:
                raise JudgeLostError("the judge was lost")
        if isinstance(done, RunResult):
            return done
    except DeadlineError:
        cut = over_time(job.limits)
    except OverMemoryError:
        cut = over_memory(job.limits)
    return conclude(job, _explain(results, zygote, program, job.limits), cut)


def conclude(job: Job, results: list[TestResult], cut: TestResult | None) -> RunResult:
    """The outcome of the results that a judge has reported, and of what cut the run short, if anything did."""
    rest = cut or TestResult(ending=Ending.NOT_RUN)
    if cut and job.stop_at_first:
        results, rest = [*results, cut], TestResult(ending=Ending.NOT_RUN)
    missing = len(job.suite.tests) - len(results)
    return run_result_of((*results, *[rest] * missing))


def _read(inbox: Inbox, monitor: Monitor, results: list[TestResult], judge: JudgeSession) -> RunResult | bool:
    """Take what the judge says; True when it is done, an outcome when the tests do not even run."""
    frames = inbox.take()
    # Not when only a child has ended: a judge that is busy would be waited for without end.
    if not frames and inbox.descriptor in monitor.wait():
        inbox.read()
        frames = inbox.take()
    for frame in frames:
        judge.clean = frame.get("clean", judge.clean)
        if done := read_report(frame, results):
            return done
    return False


def read_report(frame: dict[str, Any], results: list[TestResult]) -> RunResult | bool:
    """Take one message of a judge; True when it is done, a result when the tests do not even run.

    Raises:
        NotReadyError: if its jail could not be put up.
    """
    if "failed" in frame:
        raise NotReadyError(frame["failed"])
    if "bad_tests" in frame:
        return RunResult(ending=Ending.BAD_TESTS, detail=frame["bad_tests"])
    if "test" in frame:
        results.append(TestResult(ending=Ending(frame["ending"]), detail=frame["detail"]))
    return "done" in frame


def _explain(results: list[TestResult], zygote: Zygote, program: int, limits: Limits) -> list[TestResult]:
    """Where the judge only saw the program go, how it went."""
    if not any(result.ending is Ending.KILLED for result in results):
        return results
    left = await_exit(zygote, program)
    if left is None:
        return results
    return [read_exit(left, limits) if result.ending is Ending.KILLED else result for result in results]
