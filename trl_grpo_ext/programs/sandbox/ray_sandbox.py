"""A sandbox on a Ray cluster: each node runs a local sandbox behind the walls that hold there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trl_grpo_ext.programs.sandbox.isolation import IsolationError
from trl_grpo_ext.programs.sandbox.job import Job, RunResult, no_verdict, run_each_once
from trl_grpo_ext.programs.sandbox.local import ATTEMPTS, LocalSandbox
from trl_grpo_ext.workers.processes import close_one, shared
from trl_grpo_ext.workers.ray_cluster import KEY, Record, ray_cluster


class RaySandbox:
    """A sandbox that runs programs on a Ray cluster.

    A program's time is measured on its node, and its verdict names the isolation level of that node.

    Args:
        **settings: Settings of the sandbox on each node, as for `LocalSandbox`: `packages`, `allow_unsafe`, and
            `workers`, by default one per core of the node.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run jobs, identical jobs only once, and return their results in order.

        Nothing that a program or a node does raises an exception here; jobs on a lost node get NO_VERDICT.
        """

        def run_there(distinct: list[Job]) -> list[RunResult]:
            items = [job.to_record() for job in distinct]
            # Each node tries a job up to ATTEMPTS times, each time with the whole limit of wall time.
            seconds = ATTEMPTS * max(
                (job.limits.wall_seconds for job in distinct), default=0.0
            )
            records = ray_cluster().run(
                f"{__name__}:run_here",
                items,
                seconds=seconds,
                settings=self._settings,
            )
            return [_outcome(record) for record in records]

        return run_each_once(jobs, run_there)

    def check(self) -> str:
        """Check every node and return the names of their isolation levels, joined by commas.

        Raises:
            IsolationError: if a node has no walls, or no node answers.
        """
        found = ray_cluster().ask_each(f"{__name__}:check_here", self._settings)
        lost = [reply["lost"] for reply in found.values() if "lost" in reply]
        if lost or not found:
            raise IsolationError(
                f"Programs cannot be run on every node of the Ray cluster: {'; '.join(lost) or 'it has none'}. Mend "
                "that, or keep a node out of judging: `ray start --num-cpus=0` on it."
            )
        return ", ".join(sorted({reply["answers"][0]["level"] for reply in found.values()}))

    def close(self) -> None:
        """Close the connection to the cluster; running programs get NO_VERDICT."""
        close_one(KEY)

    def abandon(self) -> None:
        """Do nothing: this sandbox holds no process."""


def run_here(items: Sequence[Record], settings: Record, cores: int) -> list[Record]:
    """Run jobs that came from another machine in this machine's sandbox."""
    jobs = [Job.from_record(item) for item in items]
    outcomes = _here(settings, cores).run(jobs)
    return [outcome.to_record() for outcome in outcomes]


def check_here(_items: Sequence[Record], settings: Record, cores: int) -> list[Record]:
    """Return the isolation level of this machine's sandbox."""
    return [{"level": _here(settings, cores).check()}]


def _here(settings: Record, cores: int) -> LocalSandbox:
    size = settings["workers"] or cores
    packages, allow_unsafe = tuple(settings["packages"]), settings["allow_unsafe"]
    return shared(
        ("local", size, packages, allow_unsafe),
        lambda: LocalSandbox(size, packages=packages, allow_unsafe=allow_unsafe),
    )


def _outcome(record: Record) -> RunResult:
    if "lost" in record:
        return no_verdict(record["lost"])
    return RunResult.from_record(record)
