"""Compare CPU time of a jailed run, a bare fork of a warm Python, and a fresh `python -c pass`.

    python benchmarks/sandbox_cost.py [--runs 400]

A jailed run is a program in its own jail, from its fork to the end of its last process; a function also has its judge,
in a second jail. The zygote's own work is listed separately. A bare fork is a child of a Python with equal modules
loaded, and ends at once. Printed are milliseconds: means of jailed runs, medians of the others.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import psutil

from trl_grpo_ext.programs.sandbox.call_run import run_calls
from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job, StdioCase, StdioSuite
from trl_grpo_ext.programs.sandbox.probe import best_isolation
from trl_grpo_ext.programs.sandbox.stdio_run import run_cases
from trl_grpo_ext.programs.sandbox.zygote import Zygote

NOTHING = StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
ADD = CallSuite(
    tests=("assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert add(5, 0) == 5"),
    names=("add",),
)

FORKS = """
import os, resource, sys
from trl_grpo_ext.programs.sandbox.inside import zygote_main
import importlib, gc
for name in zygote_main.PRELOADED: importlib.import_module(name)
gc.freeze()
def cpu(): return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
for _ in range(int(sys.argv[1])):
    before = cpu()
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
    print(1000 * (cpu() - before))
"""


def children_cpu() -> float:
    """Return CPU seconds of this process's finished children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def show(name: str, values: list[float]) -> None:
    """Print median and quartiles."""
    low, _, high = quantiles(values, n=4)
    print(f"{name:<44} {median(values):6.2f} ms ({low:.2f} to {high:.2f})")


def fresh_pythons(runs: int, *flags: str) -> list[float]:
    """Time `python -c pass` repeatedly; return CPU milliseconds of each run."""
    spent = []
    for _ in range(runs):
        before = children_cpu()
        subprocess.run([sys.executable, *flags, "-c", "pass"], check=True)
        spent.append(1000 * (children_cpu() - before))
    return spent


def show_jailed(name: str, zygote: Zygote, runs: int, run: Callable[[], Ending]) -> None:
    """Print mean CPU milliseconds per run: of the zygote's children, and of the zygote itself."""
    keeper = psutil.Process(zygote.pid)
    process = next((each for each in keeper.children() if zygote.namespaces), keeper)

    def spent() -> tuple[float, float]:
        times = process.cpu_times()
        kept = sum(sum(each.cpu_times()[:2]) for each in process.children())
        return sum(times[2:4]) + kept, sum(times[:2])

    below, own = spent()
    for _ in range(runs):
        assert run() is Ending.PASSED
    below, own = (
        1000 * (now - before) / runs
        for now, before in zip(spent(), (below, own), strict=True)
    )
    print(f"{name:<44} {below:6.2f} ms + {own:.2f} of the zygote")


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    root = str(Path(__file__).resolve().parents[1])
    forks = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {root!r})\n{FORKS}",
            str(runs),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    zygote = Zygote(best_isolation())
    print(f"walls: {best_isolation()}; {runs} runs each; load {os.getloadavg()[0]:.1f}")
    started = time.perf_counter()
    show("bare fork, of as many modules", [float(line) for line in forks.stdout.split()])
    job = Job(program="pass", suite=NOTHING)
    show_jailed(
        "jailed run of `pass`", zygote, runs, lambda: run_cases(zygote, job, NOTHING).ending
    )
    call = Job(program="def add(a, b):\n    return a + b\n", suite=ADD)
    show_jailed(
        "jailed function and its judge",
        zygote,
        runs,
        lambda: run_calls(zygote, call, ADD).ending,
    )
    show("python -I -S -c pass", fresh_pythons(runs // 8, "-I", "-S"))
    show("python -c pass", fresh_pythons(runs // 8))
    zygote.kill()
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
