"""Run function calls in worker processes that can be killed, each call under its own deadline."""

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

# The key of this process's worker pool among the shared objects.
_KEY = "workers"
# The number of tries for a call whose worker process dies.
ATTEMPTS = 2


class WorkerPool:
    """A pool of up to `size` worker processes, started on first use. Thread-safe.

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
        """Run calls in workers, each call for at most `timeout` seconds.

        A call's time starts when a worker starts it. A call that got little CPU time in that period gets as much time
        again. A call whose worker died is tried once more. Failures are results, never exceptions; calls that the time
        budget left undone are UNFINISHED.
        """
        # A local reference: if the pool is closed meanwhile, these calls start no new workers.
        workers = self.workers
        found = spread(
            lambda call: _run_call(workers, call, timeout),
            calls,
            threads=self.size,
            cancel=self.close,
        )
        return [result or CallResult(failure=Failure.UNFINISHED) for result in found]

    def close(self) -> None:
        """Kill the workers. Running and waiting calls end as LOST."""
        workers, self.workers = self.workers, Lender(self.size, Worker)
        workers.close()

    def abandon(self) -> None:
        """Drop, in a forked child, the workers of the parent process."""
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
            # The process could not start, or died: the completion is not to blame.
            logger.warning(
                "A verifier worker was lost: %s: %s", type(error).__name__, error
            )
            # Idle workers may be dying of the same cause: the next try must start a new one.
            workers.end_idle()
            seconds = time.monotonic() - started
            result = CallResult(
                failure=Failure.LOST, detail=type(error).__name__, seconds=seconds
            )
    return result


def _packed(call: Call) -> bytes | CallResult:
    if isinstance(call.arguments, bytes):
        return call.arguments
    try:
        return pickle.dumps(call.arguments)
    except Exception as error:
        return CallResult(
            failure=Failure.RAISED, detail=type(error).__name__, error=error_text(error)
        )


class RayWorkers:
    """A pool of all workers on a Ray cluster's nodes."""

    def run(self, calls: Sequence[Call], *, timeout: float) -> list[CallResult]:
        """Run calls as `WorkerPool.run` does; the node that runs a call counts its time."""
        packed = [_packed(call) for call in calls]
        items = []
        for call, arguments in zip(calls, packed, strict=True):
            if isinstance(arguments, bytes):
                items.append(
                    {
                        "target": call.target,
                        "arguments": base64.b64encode(arguments).decode(),
                    }
                )
        # A starved call gets its time limit twice, and a lost call is tried again.
        seconds = 2 * ATTEMPTS * timeout
        records = ray_cluster().run(
            f"{__name__}:run_here",
            items,
            seconds=seconds,
            settings={"timeout": timeout},
        )
        found = iter(records)
        return [
            each if isinstance(each, CallResult) else _result_of(next(found))
            for each in packed
        ]


def run_here(items: Sequence[Record], settings: Record, cores: int) -> list[Record]:
    """Run calls received from another machine, in this process's workers."""
    pool = shared((_KEY, cores), lambda: WorkerPool(cores))
    calls = [
        Call(target=each["target"], arguments=base64.b64decode(each["arguments"]))
        for each in items
    ]
    return [asdict(result) for result in pool.run(calls, timeout=settings["timeout"])]


def _result_of(record: Record) -> CallResult:
    if record.get("lost") == BUDGET_SPENT:
        return CallResult(failure=Failure.UNFINISHED)
    if "lost" in record:
        return CallResult(failure=Failure.LOST, detail="lost", error=record["lost"])
    return CallResult(
        **record | {"failure": record["failure"] and Failure(record["failure"])}
    )


def _ask(worker: Worker, target: str, arguments: bytes, timeout: float) -> CallResult:
    reply = worker.prepare(target)
    started = time.monotonic()
    if "failure" not in reply:
        reply = worker.call(target, arguments, timeout)
    seconds = time.monotonic() - started
    if "failure" in reply:
        _once.warn(
            logger,
            (target, reply["failure"]),
            "%s raised in a worker: %s.",
            target,
            reply["error"],
        )
        return CallResult(
            failure=Failure.RAISED,
            detail=reply["failure"],
            error=reply["error"],
            seconds=seconds,
        )
    return CallResult(value=reply["value"], seconds=seconds)


def usable_cores() -> int:
    """Return this rank's share of the CPU cores that the node's ranks may use; at least 1."""
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def shared_pool() -> WorkerPool | RayWorkers:
    """Return this process's worker pool, created on first use; a forked child creates a pool of its own."""
    if on_ray():
        return RayWorkers()
    return shared(_KEY, lambda: WorkerPool(usable_cores()))


def judge_in_workers(
    target: str, arguments: Sequence[tuple[Any, ...]], *, timeout: float
) -> list[Verdict]:
    """Call a function in workers, once per tuple of arguments; return the verdicts, in order.

    The function must return the record of a verdict.

    Args:
        target: The import path of the function, `"package.module:function"`.
        arguments: One tuple of positional arguments per call.
        timeout: The time limit of one call, in seconds.
    """
    # Without a call, no worker is started.
    if not arguments:
        return []
    calls = [Call(target=target, arguments=each) for each in arguments]
    results = shared_pool().run(calls, timeout=timeout)
    return [result.to_verdict() for result in results]


def close_workers() -> None:
    """Kill this process's workers and drop its Ray actors; the next call starts new workers."""
    close_one(_KEY)
    close_one(RAY_KEY)
