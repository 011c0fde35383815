"""A sandbox on this machine: zygotes, by default one per core, that run jobs in parallel."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trl_grpo_ext.programs.sandbox.call_run import run_calls
from trl_grpo_ext.programs.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Job,
    RunResult,
    no_verdict,
    run_each_once,
)
from trl_grpo_ext.programs.sandbox.packages import VisiblePackages, visible_packages
from trl_grpo_ext.programs.sandbox.probe import best_isolation
from trl_grpo_ext.programs.sandbox.stdio_run import run_cases
from trl_grpo_ext.programs.sandbox.zygote import LostError, Zygote
from trl_grpo_ext.workers.processes import ClosedError, Lender, spread

logger = logging.getLogger(__name__)

# A job is tried this often if the sandbox fails.
ATTEMPTS = 3
# Idle zygotes kept beside `size`, for later jobs that need their packages. Each takes 10 MiB; a start takes 0.2 s.
SPARE_ZYGOTES = 8


class LocalSandbox:
    """A local sandbox that runs up to `size` programs concurrently; several threads may use it.

    Processes start on first use, belong to the process that created the sandbox, and end with it.

    Args:
        size: Number of zygotes; each runs one job at a time.
        isolation: Walls to put up; by default the strongest that hold on this machine.
        packages: Import names, or folders with packages, that programs may import. Python's own library, numpy and the
            packages that a job's tests import are always available.
        allow_unsafe: Whether to run programs without walls on a machine where no walls hold.

    Raises:
        ValueError: if `size` is below 1.

    Examples:
        >>> from trl_grpo_ext.programs.sandbox.job import CallSuite
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
        """Walls around programs, found by trying attacks.

        Raises:
            IsolationError: if no walls hold and `allow_unsafe` is False.
        """
        try:
            return best_isolation()
        except IsolationError as error:
            if not self._allow_unsafe:
                raise
            logger.warning(
                "RUNNING PROGRAMS WITHOUT ISOLATION, as allow_unsafe=True says. They can do what you can. %s",
                error,
            )
            return Isolation.NONE

    def check(self) -> str:
        """Start a zygote and return the name of its isolation level.

        Raises:
            IsolationError: if a wall is missing.
            LostError: if the zygote could not start.
        """
        with self._zygotes.lend(visible_packages(self._packages)):
            return self.isolation.value

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run jobs, identical jobs only once, and return their results in order.

        Nothing that a program does raises an exception here.
        """
        level = self.isolation.value
        # If another thread closes the sandbox meanwhile, these jobs must not start new zygotes.
        zygotes = self._zygotes

        def run_one(job: Job) -> RunResult:
            return _run(zygotes, job, visible_packages(self._packages, job.imports))

        def run(distinct: list[Job]) -> list[RunResult | None]:
            return spread(run_one, distinct, threads=self.size, cancel=self.close)

        return [replace(result, level=level) for result in run_each_once(jobs, run)]

    @contextlib.contextmanager
    def zygote(self) -> Iterator[Zygote]:
        """Lend a zygote that shows the packages of this sandbox; wait while `size` are lent.

        Raises:
            ClosedError: if the sandbox is closed meanwhile.
            IsolationError: if a wall is missing.
            LostError: if the zygote could not start.
        """
        with self._zygotes.lend(visible_packages(self._packages)) as zygote:
            yield zygote

    def close(self) -> None:
        """End all processes. Jobs that run or wait get NO_VERDICT."""
        zygotes, self._zygotes = self._zygotes, self._lender()
        zygotes.close()

    def abandon(self) -> None:
        """Drop, in a forked child, the processes of the parent process."""
        self._zygotes.abandon()

    def _lender(self) -> Lender[Zygote]:
        return Lender(
            self.size, lambda wanted: Zygote(self.isolation, wanted), spare=SPARE_ZYGOTES
        )


def _run_on(zygote: Zygote, job: Job) -> RunResult:
    started = time.perf_counter()
    if isinstance(job.suite, CallSuite):
        result = run_calls(zygote, job, job.suite)
    else:
        result = run_cases(zygote, job, job.suite)
    return replace(result, seconds=time.perf_counter() - started)


def _run(zygotes: Lender[Zygote], job: Job, wanted: VisiblePackages) -> RunResult:
    """Run a job on a zygote that shows the wanted packages; retry on another zygote if the sandbox fails."""
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
        # A fault of the sandbox must not end a training run: the job gets no verdict, and the log a traceback.
        except Exception as error:
            logger.exception("The sandbox has a fault of its own.")
            failure = f"{type(error).__name__}: {error}"
    return no_verdict(failure)
