"""Judge fifty thousand completions: in this process, in local worker processes, and on 1, 2 and 4 nodes of Ray.

Half are programs with unit tests, half are mathematics that needs algebra; all are distinct, so no verdict comes from
memory. *One process* compares mathematics in the training process, without a deadline, and runs programs one after the
other. The Ray nodes are processes of this machine and share its cores: they show the cost of sending work over Ray, not
the benefit of more machines.

Limits follow from CPU time, which other work on the machine disturbs little. The training process sends and receives in
one thread at a time, so its CPU time per completion limits the rate; and all processes together cannot use more than
all cores. The lower rate is the limit. `--cluster NODES CORES` extrapolates the figures to a cluster.

    python benchmarks/scale.py --completions 50000 --seconds 240 --cluster 64 32
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from trl_grpo_ext.answers import work
from trl_grpo_ext.rewards import MathVerifier, UnitTestVerifier
from trl_grpo_ext.workers.executor import ADDRESS_VARIABLE, EXECUTOR_VARIABLE, LOCAL, RAY
from trl_grpo_ext.workers.pool import usable_cores
from trl_grpo_ext.workers.processes import close_shared

TESTS = ["assert add(1, 2) == 3", "assert add(-1, 1) == 0", "assert add(10, 5) == 15"]
# Completions judged together, as in a generation batch.
BATCH = 512

Judge = Callable[[Sequence[str], Sequence[str]], float]
"""Counts right answers, given answers and golds."""


@dataclass(frozen=True)
class Measured:
    """Costs of judging: number of completions, wall seconds, and CPU seconds of this process and of child processes."""

    count: int
    seconds: float
    here: float
    below: float

    @property
    def each_here(self) -> float:
        """Return this process's CPU milliseconds per completion."""
        return 1000 * self.here / self.count

    @property
    def each_below(self) -> float:
        """Return the child processes' CPU milliseconds per completion."""
        return 1000 * self.below / self.count

    def limit(self, cores: int) -> tuple[float, str]:
        """Return the largest possible rate on `cores` cores, in completions per second, and its bottleneck."""
        of_cores, of_trainer = (
            1000 * cores / (self.each_here + self.each_below),
            1000 / self.each_here,
        )
        return (
            (of_trainer, "the training process")
            if of_trainer < of_cores
            else (of_cores, f"{cores} cores")
        )


def cpu_seconds() -> tuple[float, float]:
    """Return CPU seconds so far: of this process, and of its descendants, finished ones included."""
    here, below = psutil.Process(), 0.0
    for child in here.children(recursive=True):
        try:
            below += sum(child.cpu_times()[:4])
        # The process has ended: its time now counts among its parent's children.
        except psutil.NoSuchProcess:
            continue
    own = here.cpu_times()
    return own.user + own.system, below + own.children_user + own.children_system


def judge(
    note: str, count: int, seconds: float, maths: Judge, code: UnitTestVerifier
) -> Measured:
    """Judge `count` completions of two kinds, or until `seconds` have passed; starting processes is not timed."""
    code([program(-1, note)], tests=[TESTS])
    maths([formula(10**6)], ["(x+1)^2"])
    (here, below), began, right, done = cpu_seconds(), time.perf_counter(), 0.0, 0
    while done < count and time.perf_counter() - began < seconds:
        numbers = range(done // 2, min(done + BATCH, count) // 2)
        right += sum(
            filter(
                None,
                code(
                    [program(number, note) for number in numbers],
                    tests=[TESTS] * len(numbers),
                ),
            )
        )
        golds = [f"x^2 + {number}x + {len(note)}" for number in numbers]
        right += maths([formula(number, len(note)) for number in numbers], golds)
        done += 2 * len(numbers)
    taken, (here_after, below_after) = time.perf_counter() - began, cpu_seconds()
    assert right == done, f"{right} of {done} were right"
    return Measured(done, taken, here_after - here, below_after - below)


def program(number: int, note: str) -> str:
    """Write a right program."""
    return f"```python\ndef add(a, b):\n    return a + b  # {number} {note}\n```"


def formula(number: int, constant: int = 1) -> str:
    """Write a right answer in another form than its gold."""
    return rf"\boxed{{x(x + {number}) + {constant}}}"


def in_this_process(answers: Sequence[str], golds: Sequence[str]) -> float:
    """Compare answers without a worker, hence without a deadline."""
    inner = [answer.removeprefix(r"\boxed{").removesuffix("}") for answer in answers]
    pairs = zip(golds, inner, strict=True)
    return float(sum(work.compare(gold, answer, (), 6)["score"] for gold, answer in pairs))


def in_workers(answers: Sequence[str], golds: Sequence[str]) -> float:
    """Compare answers in workers, as a run does."""
    return sum(filter(None, MathVerifier()(answers, solution=golds)))


@contextmanager
def ray_nodes(nodes: int, cores: int) -> Iterator[None]:
    """Start a local Ray cluster, and judge on it during the block."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0})
    for _ in range(nodes):
        cluster.add_node(num_cpus=max(1, cores // nodes), object_store_memory=80 << 20)
    os.environ |= {EXECUTOR_VARIABLE: RAY, ADDRESS_VARIABLE: str(cluster.address)}
    try:
        yield
    finally:
        close_shared()
        ray.shutdown()
        cluster.shutdown()
        os.environ[EXECUTOR_VARIABLE] = LOCAL


def show(place: str, measured: Measured, cores: int) -> None:
    """Print a measurement."""
    most, limit = measured.limit(cores)
    print(
        f"{place:15} {measured.count:6d} judged, {measured.count / measured.seconds:4.0f}/s; "
        f"{measured.each_here:5.2f} ms CPU here, {measured.each_below:5.2f} ms below; "
        f"at most {most:5.0f}/s, by {limit}",
        flush=True,
    )


def on_paper(measured: Measured, nodes: int, cores: int) -> None:
    """Extrapolate to a cluster: its rate, the cores kept busy by a rank, and ranks needed to use all cores."""
    can = nodes * cores * 1000 / measured.each_below
    rank = 1000 / measured.each_here
    print(
        f"On paper: {nodes} nodes of {cores} cores could judge {can:.0f}/s; one rank hands out {rank:.0f}/s, so it "
        f"keeps {rank * measured.each_below / 1000:.0f} cores busy, and {can / rank:.0f} ranks all of them."
    )


def main() -> None:
    """Measure and print each place."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--completions", type=int, default=50_000)
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="at most, for each place"
    )
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 2, 4], help="of Ray")
    parser.add_argument(
        "--cluster", type=int, nargs=2, default=[64, 32], metavar=("NODES", "CORES")
    )
    options = parser.parse_args()
    count, seconds, cores = options.completions, options.seconds, usable_cores()
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        EXECUTOR_VARIABLE: LOCAL,
    }
    print(
        f"{count} completions, {cores} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}"
    )
    alone = judge("alone", count, seconds, in_this_process, UnitTestVerifier(workers=1))
    show("one process", alone, cores)
    close_shared()
    measured = judge("workers", count, seconds, in_workers, UnitTestVerifier())
    show("processes", measured, cores)
    close_shared()
    for nodes in options.nodes:
        with ray_nodes(nodes, cores):
            measured = judge(
                f"{nodes} of Ray" + "!" * nodes,
                count,
                seconds,
                in_workers,
                UnitTestVerifier(),
            )
            show(f"Ray, {nodes} node{'s' * (nodes > 1)}", measured, cores)
    on_paper(measured, *options.cluster)


if __name__ == "__main__":
    main()
