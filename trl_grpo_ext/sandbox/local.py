"""A sandbox on this machine: zygotes, one a core, that run jobs side by side."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.sandbox.call_run import run_calls
from trl_grpo_ext.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.sandbox.job import CallSuite, Job, RunResult, no_verdict, run_each_once
from trl_grpo_ext.sandbox.packages import Shown, shown
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.stdio_run import run_cases
from trl_grpo_ext.sandbox.zygote import LostError, Zygote
from trl_grpo_ext.workers.processes import ClosedError, Lender, spread

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # how often a job is tried when the sandbox fails it
# Those that show what no job needs at the moment. One takes 10 MiB, and a fifth of a second to start.
SPARE_ZYGOTES = 8


class LocalSandbox:
    """Runs programs on this machine, up to `size` at a time. Safe to call from several threads.

    Processes start when they are first needed, belong to the process that made them, and end with it.

    Args:
        size: Zygotes; each runs one job at a time.
        isolation: The walls to put up; the strongest that hold here by default.
        packages: Packages that programs may import besides Python's own library, numpy, and the packages that the
            tests of a job import: by import name, or folders that packages lie in.
        allow_unsafe: Whether to run programs without walls where no walls hold.

    Examples:
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
        self._allow_unsafe = allow_unsafe
        self._zygotes = self._lender()
        if isolation is not None:
            self.isolation = isolation

    @functools.cached_property
    def isolation(self) -> Isolation:
        """The walls that programs run behind, found by trying attacks; raises IsolationError if none hold."""
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
        """The walls that programs run behind, by name; raises IsolationError or LostError if they cannot be run."""
        with self._zygotes.lend(shown(self._packages)):
            return self.isolation.value

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run every job; identical ones once. In order; never raises for what a program does."""
        level = self.isolation.value
        zygotes = self._zygotes  # if the sandbox is closed meanwhile, these jobs start no others

        def run_one(job: Job) -> RunResult:
            return _run(zygotes, job, shown(self._packages, job.imports))

        def run(distinct: list[Job]) -> list[RunResult | None]:
            return spread(run_one, distinct, threads=self.size, cancel=self.close)

        return [replace(result, level=level) for result in run_each_once(jobs, run)]

    def close(self) -> None:
        """End all processes. Jobs that are under way, or have not begun, get no verdict."""
        zygotes, self._zygotes = self._zygotes, self._lender()
        zygotes.close()

    def abandon(self) -> None:
        """Let go of processes that belong to the process this one was forked from."""
        self._zygotes.abandon()

    def _lender(self) -> Lender[Zygote]:
        return Lender(self.size, lambda wanted: Zygote(self.isolation, wanted), spare=SPARE_ZYGOTES)


def _run_on(zygote: Zygote, job: Job) -> RunResult:
    started = time.perf_counter()
    if isinstance(job.suite, CallSuite):
        result = run_calls(zygote, job, job.suite)
    else:
        result = run_cases(zygote, job, job.suite)
    return replace(result, seconds=time.perf_counter() - started)


def _run(zygotes: Lender[Zygote], job: Job, wanted: Shown) -> RunResult:
    """Run a job on a zygote that shows what is wanted, or on another one if the sandbox fails."""
    failure = ""
    for _ in range(ATTEMPTS):
        try:
            with zygotes.lend(wanted) as zygote:
                return _run_on(zygote, job)
        except ClosedError:
            return no_verdict("closed")
        except (LostError, IsolationError, OSError) as error:
            logger.warning("The sandbox failed: %s: %s", type(error).__name__, error)
            failure = f"{type(error).__name__}: {error}"
        except Exception as error:
            logger.exception("The sandbox has a fault of its own.")
            failure = f"{type(error).__name__}: {error}"
    return no_verdict(failure)
