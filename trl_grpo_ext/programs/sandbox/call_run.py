"""Run a `CallSuite`: solution and judge in separate jails, connected by a socket.

Both processes are forked for a single program and end with it, so a judge that a program takes over judges no other
program.
"""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.compiled import own_lines
from trl_grpo_ext.programs.sandbox.job import (
    FILES_NEED_NAMESPACES,
    CallSuite,
    Ending,
    Job,
    Limits,
    RunResult,
    TestResult,
    no_verdict,
    run_result_of,
)
from trl_grpo_ext.programs.sandbox.monitor import (
    LimitError,
    Monitor,
    await_exit,
    check_killed,
    read_exit,
    tell,
)
from trl_grpo_ext.programs.sandbox.zygote import Zygote
from trl_grpo_ext.workers.frames import Inbox

# A value may need this many times more memory as Python objects than as JSON.
_PART_OF_MEMORY = 8
# Limit of bytes that a judge may report about a program.
REPORT_BYTES = 8 << 20


# A program that does nothing: what fails beside it is no fault of a program.
_EMPTY = "pass\n"
_OF_SKIPS = ("skip", "Skip", "xfail")


def run_calls(zygote: Zygote, job: Job, suite: CallSuite) -> RunResult:
    """Run tests against the program.

    Before the program is there, a run finds the tests that skip themselves, so no program has a say in it.

    Raises:
        LostError: if a process of the sandbox died or did not start.
        IsolationError: if a wall could not be put up.
    """
    if suite.shares_files and not zygote.namespaces:
        return no_verdict(FILES_NEED_NAMESPACES)
    skips: list[TestResult] = []
    if _may_skip(suite):
        alone = replace(job, program=_EMPTY, stop_at_first=False)
        found = _run_once(zygote, alone, suite, {"finds_skips": True})
        if found.ending is Ending.BAD_TESTS:
            return found
        skips = [*found.tests]
    order = {"skips": [(test.ending, test.detail) for test in skips]}
    result = _run_once(zygote, job, suite, order)
    if result.ending is Ending.BAD_TESTS and suite.shares_files:
        return _result_of_setup(zygote, job, suite, result)
    return result


def _result_of_setup(
    zygote: Zygote, job: Job, suite: CallSuite, failed: RunResult
) -> RunResult:
    """Blame the tests for a failed setup only if it also fails in a folder that no program has touched.

    A program could fill the folder that it shares with the tests, or close it, and so void its row.
    """
    alone = _run_once(zygote, replace(job, program=_EMPTY), suite, {})
    if alone.ending is Ending.BAD_TESTS:
        return failed
    detail = f"the setup of the tests failed in the folder that the program has changed: {failed.detail}"
    return run_result_of(
        (TestResult(ending=Ending.ERROR, detail=detail),) * len(suite.tests)
    )


def _may_skip(suite: CallSuite) -> bool:
    """Test whether code of tests speaks of skips or expected failures."""
    texts = (own_lines(suite.setup), *suite.tests)
    return any(word in text for text in texts for word in _OF_SKIPS)


def _run_once(
    zygote: Zygote, job: Job, suite: CallSuite, of_skips: dict[str, Any]
) -> RunResult:
    with contextlib.ExitStack() as opened:
        ends = []
        for _ in range(3):
            for end in socket.socketpair():
                ends.append(opened.enter_context(end))
        # By the third pair the judge asks the program; the trainer keeps no end of it.
        solution, solution_end, control, control_end, left, right = ends
        program, judge = opened.enter_context(
            zygote.children(
                ("solution", job.limits, [solution_end, left]),
                ("judge", judge_limits(job.limits), [control_end, right]),
                shares_files=suite.shares_files,
            )
        )
        cut = suite.names if job.may_be_cut else None
        tell(solution, {"program": job.program, "cut": cut})
        tell(control, judge_order(job, suite) | of_skips)
        return _follow(zygote, job, (program, judge), solution, control)


@functools.lru_cache(maxsize=16)
def judge_limits(limits: Limits) -> Limits:
    """Derive a judge's limits from its program's limits.

    A judge handles values that the program returns, so it is jailed too. It gets more time, and at least 512 MiB,
    because tests are not on trial.
    """
    return replace(
        limits, cpu_seconds=2 * limits.cpu_seconds + 1, memory_mb=max(512, limits.memory_mb)
    )


def judge_order(job: Job, suite: CallSuite) -> dict[str, Any]:
    """Build the judge's order: tests, code, names and settings, as JSON values."""
    return {
        "setup": suite.setup,
        "tests": suite.tests,
        "code": suite.code,
        "names": suite.names,
        "imports": suite.imports,
        "stop_at_first": job.stop_at_first,
        # The longest message of the program in bytes of JSON; a returned value must fit into it.
        "message_bytes": (job.limits.memory_mb << 20) // _PART_OF_MEMORY,
    }


class Report:
    """Test results reported so far by a judge, in test order."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._whole: RunResult | None = None
        self.results: list[TestResult] = []

    def read(self, inbox: Inbox) -> None:
        """Read all messages that have arrived.

        A malformed message means that the program took over the judge: every test then ends as PROTOCOL.
        """
        try:
            self._take(inbox.take())
        except (ValueError, TypeError, LookupError):
            nonsense = TestResult(
                ending=Ending.PROTOCOL, detail="the judge's report makes no sense"
            )
            self._whole = run_result_of((nonsense,) * len(self._job.suite.tests))

    def _take(self, messages: Iterable[dict[str, Any]]) -> None:
        for message in messages:
            if "bad_tests" in message:
                self._whole = RunResult(
                    ending=Ending.BAD_TESTS, detail=str(message["bad_tests"])
                )
                continue
            if self.complete or message["test"] != len(self.results):
                raise ValueError("a report out of turn")
            self.results.append(
                TestResult(ending=_JUDGED[message["ending"]], detail=str(message["detail"]))
            )

    @property
    def complete(self) -> bool:
        """Whether the judge has nothing left to report.

        A limit that the program exceeds after this point no longer changes the result.
        """
        last = self.results[-1].ending if self.results else Ending.PASSED
        stopped = last is Ending.REFUSED or (
            self._job.stop_at_first and last not in (Ending.PASSED, Ending.SKIPPED)
        )
        return (
            self._whole is not None
            or stopped
            or len(self.results) == len(self._job.suite.tests)
        )

    def conclude(
        self, cut: TestResult, ended: Callable[[], TestResult | None]
    ) -> RunResult:
        """Build the result of the run.

        Args:
            cut: Result of the test that was running when the run stopped early; unused if the report is complete.
            ended: Returns how the program's process ended, or None if unknown. Called if the judge reported KILLED,
                because a judge sees only a closed channel.
        """
        if self._whole is not None:
            return self._whole
        results = [*self.results]
        if not self.complete:
            results.append(cut)
        # Asked only where needed: it may wait for the program to end.
        is_killed = any(each.ending is Ending.KILLED for each in self.results)
        known = ended() if is_killed else None
        if known is not None:
            results = [known if each.ending is Ending.KILLED else each for each in results]
        rest = cut
        if self.complete or self._job.stop_at_first:
            rest = TestResult(ending=Ending.NOT_RUN)
        missing = len(self._job.suite.tests) - len(results)
        return run_result_of((*results, *[rest] * missing))


_JUDGED = {
    ending.value: ending
    for ending in (
        *(
            Ending.PASSED,
            Ending.FAILED,
            Ending.ERROR,
            Ending.COMPILE_ERROR,
            Ending.MEMORY,
            Ending.PROTOCOL,
        ),
        *(Ending.KILLED, Ending.REFUSED, Ending.SKIPPED),
    )
}
"""Endings that a judge may report; any other word makes the report malformed."""


def _follow(
    zygote: Zygote,
    job: Job,
    children: tuple[int, int],
    solution: socket.socket,
    control: socket.socket,
) -> RunResult:
    program, judge = children
    monitor, report, inbox = (
        Monitor(zygote, job.limits),
        Report(job),
        Inbox(control, REPORT_BYTES),
    )
    monitor.await_ready(Inbox(solution))
    # The start of the judge does not count as time of the program.
    monitor.await_ready(inbox)
    monitor.start(job.limits.wall_seconds)
    monitor.add(inbox.descriptor)
    # The read that brought the judge's ready frame may have brought reports too.
    report.read(inbox)
    try:
        while not (report.complete or inbox.ended):
            # `wait` also returns when a child has ended. A read would then block until a busy judge reports.
            if inbox.descriptor in monitor.wait():
                inbox.read()
                report.read(inbox)
        # Data that the program sent brought the judge down.
        cut = TestResult(ending=Ending.PROTOCOL, detail="the judge was lost")
    except LimitError as over:
        cut = over.result
    else:
        if not report.complete:
            # A judge that was killed from outside says nothing of the program, so the run is repeated.
            check_killed(await_exit(zygote, judge), judge_limits(job.limits))
    return report.conclude(cut, lambda: _ending(zygote, program, job.limits))


def _ending(zygote: Zygote, program: int, limits: Limits) -> TestResult | None:
    left = await_exit(zygote, program)
    if zygote.namespaces:
        # In a process tree of its own, a program is process 1, which cannot kill itself.
        check_killed(left, limits)
    return None if left is None else read_exit(left, limits)
