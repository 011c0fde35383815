"""Calls of functions in worker processes that can be killed: each call gets its own deadline."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trl_grpo_ext.support.budget import BUDGET_SPENT
from trl_grpo_ext.support.text import Once, error_text
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.workers.call import Call, CallResult, Failure
from trl_grpo_ext.workers.executor import on_ray
from trl_grpo_ext.workers.processes import ClosedError, Lender, close_one, shared, spread
from trl_grpo_ext.workers.ray_cluster import KEY as RAY_KEY
from trl_grpo_ext.workers.ray_cluster import Record, ray_cluster
from trl_grpo_ext.workers.worker import LateError, Worker

logger = logging.getLogger(__name__)
_once = Once()

_KEY = "workers"  # of what this process shares
ATTEMPTS = 2  # how often a call is tried when its worker is lost


class WorkerPool:
    """Up to `size` workers, started when they are first needed. Safe to call from several threads.

    Examples:
        >>> pool = WorkerPool(size=1)
        >>> pool.run([Call(target="math:sqrt", arguments=(9,))], timeout=5.0)[0].value
        3.0
        >>> pool.close()
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"A worker pool needs at least one worker, got size={size}.")
        self.size = size
        self.workers = Lender(size, Worker)

    def run(self, calls: Sequence[Call], *, timeout: float) -> list[CallResult]:
        """Run every call, each for at most `timeout` seconds from its start in a worker; never raises.

        A call that got little CPU time in that time gets as much again; one whose worker was lost is tried once more.
        """
        workers = self.workers  # if the pool is closed meanwhile, these calls start no others
        found = spread(lambda call: _run_call(workers, call, timeout), calls, threads=self.size, cancel=self.close)
        return [result or CallResult(failure=Failure.UNFINISHED) for result in found]

    def close(self) -> None:
        """Kill the workers. Calls that are under way, or have not begun, end as LOST."""
        workers, self.workers = self.workers, Lender(self.size, Worker)
        workers.close()

    def abandon(self) -> None:
        """Let go of workers that belong to the process this one was forked from."""
        self.workers.abandon()


def _run_call(workers: Lender[Worker], call: Call, timeout: float) -> CallResult:
    arguments = _packed(call)
    if isinstance(arguments, CallResult):
        return arguments
    result = CallResult(failure=Failure.LOST)
    for _ in range(ATTEMPTS):
        started = time.monotonic()
        try:
            with workers.lend() as worker:
                return _ask(worker, call.target, arguments, timeout)
        except LateError as late:
            return CallResult(failure=late.failure, seconds=late.seconds)
        except ClosedError:
            return CallResult(failure=Failure.LOST, detail="closed")
        except Exception as error:
            # The process could not start, or died: nothing here is the completion's doing.
            logger.warning("A verifier worker was lost: %s: %s", type(error).__name__, error)
            workers.end_idle()  # the next try is not to meet another that is as good as dead
            seconds = time.monotonic() - started
            result = CallResult(failure=Failure.LOST, detail=type(error).__name__, seconds=seconds)
    return result


def _packed(call: Call) -> bytes | CallResult:
    if isinstance(call.arguments, bytes):
        return call.arguments
    try:
        return pickle.dumps(call.arguments)
    except Exception as error:
        return CallResult(failure=Failure.RAISED, detail=type(error).__name__, error=error_text(error))


class RayWorkers:
    """The workers of a Ray cluster's nodes, seen as a pool."""

    def run(self, calls: Sequence[Call], *, timeout: float) -> list[CallResult]:
        """As `WorkerPool.run`; a call's time is counted on the node that runs it."""
        packed = [_packed(call) for call in calls]
        items = [
            {"target": call.target, "arguments": base64.b64encode(arguments).decode()}
            for call, arguments in zip(calls, packed, strict=True)
            if isinstance(arguments, bytes)
        ]
        # A starved call gets its time twice, and a lost one is tried again.
        seconds = 2 * ATTEMPTS * timeout
        found = iter(ray_cluster().run(f"{__name__}:run_here", items, seconds=seconds, settings={"timeout": timeout}))
        return [each if isinstance(each, CallResult) else _result_of(next(found)) for each in packed]


def run_here(items: Sequence[Record], settings: Record, cores: int) -> list[Record]:
    """Run calls that have come from another machine, in this process's workers."""
    pool = shared((_KEY, cores), lambda: WorkerPool(cores))
    calls = [Call(target=each["target"], arguments=base64.b64decode(each["arguments"])) for each in items]
    return [asdict(result) for result in pool.run(calls, timeout=settings["timeout"])]


def _result_of(record: Record) -> CallResult:
    if record.get("lost") == BUDGET_SPENT:
        return CallResult(failure=Failure.UNFINISHED)
    if "lost" in record:
        return CallResult(failure=Failure.LOST, detail="lost", error=record["lost"])
    return CallResult(**record | {"failure": record["failure"] and Failure(record["failure"])})


def _ask(worker: Worker, target: str, arguments: bytes, timeout: float) -> CallResult:
    reply, started = worker.prepare(target), time.monotonic()
    if "failure" not in reply:
        reply = worker.call(target, arguments, timeout)
    seconds = time.monotonic() - started
    if "failure" in reply:
        _once.warn(logger, (target, reply["failure"]), "%s raised in a worker: %s.", target, reply["error"])
        return CallResult(failure=Failure.RAISED, detail=reply["failure"], error=reply["error"], seconds=seconds)
    return CallResult(value=reply["value"], seconds=seconds)


def usable_cores() -> int:
    """CPU cores that this rank may use: its share of the cores that the node's ranks may use together."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def shared_pool() -> WorkerPool | RayWorkers:
    """The pool of this process, made when it is first asked for. A forked child makes its own."""
    return RayWorkers() if on_ray() else shared(_KEY, lambda: WorkerPool(usable_cores()))


def judge_in_workers(target: str, arguments: Sequence[tuple[Any, ...]], *, timeout: float) -> list[Verdict]:
    """The verdicts of a function that returns their records, called once for each tuple of arguments; in order."""
    calls = [Call(target=target, arguments=each) for each in arguments]
    return [result.to_verdict() for result in shared_pool().run(calls, timeout=timeout)] if calls else []


def close_workers() -> None:
    """Kill this process's workers; the next call starts new ones."""
    close_one(_KEY)
    close_one(RAY_KEY)
