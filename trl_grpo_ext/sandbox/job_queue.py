"""Jobs that wait for a zygote, those with the same tests side by side."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Collection
from concurrent.futures import Future

from trl_grpo_ext.sandbox.job import Job, RunResult, Suite

Waiting = tuple[Job, "Future[RunResult]"]


class JobQueue:
    """First come, first served, but for whoever is set up for a suite already: it gets that suite's jobs first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._suites: OrderedDict[Suite, deque[Waiting]] = OrderedDict()

    def add(self, job: Job) -> Future[RunResult]:
        """Let a job wait; its outcome, in the future."""
        future: Future[RunResult] = Future()
        with self._lock:
            self._suites.setdefault(job.suite, deque()).append((job, future))
        return future

    def suites(self) -> Collection[Suite]:
        """The suites that jobs wait for."""
        return self._suites.keys()

    def take(self, prepared: Suite | None = None) -> Waiting | None:
        """The next job: of the suite that is prepared, else of one that nobody may have taken up yet."""
        with self._lock:
            if not self._suites:
                return None
            suite = prepared if prepared is not None and prepared in self._suites else next(iter(self._suites))
            waiting = self._suites[suite]
            taken = waiting.popleft()
            if waiting:
                self._suites.move_to_end(suite)  # the next that looks for work begins with another suite
            else:
                del self._suites[suite]
            return taken
