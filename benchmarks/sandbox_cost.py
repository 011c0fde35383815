"""CPU time of one jailed run, beside a bare fork of a warm Python and a fresh `python -c pass`, in one run.

    python benchmarks/sandbox_cost.py [--runs 400]

A jailed run is a program in its own jail, from the fork to the last of its processes, and with a function its judge in
another; the work of the zygote is told apart. A bare fork is a child of a Python with the same modules loaded, which
ends at once. Medians, in milliseconds.
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

from trl_grpo_ext.sandbox.call_run import run_calls
from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, StdioCase, StdioSuite
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.stdio_run import run_cases
from trl_grpo_ext.sandbox.zygote import Zygote

NOTHING = StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
ADD = CallSuite(tests=("assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert add(5, 0) == 5"), names=("add",))

FORKS = """
import os, resource, sys
from trl_grpo_ext.sandbox.inside import zygote_main
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
    """CPU seconds of this process's children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def show(name: str, values: list[float], note: str = "") -> None:
    """Print the median and the middle half."""
    low, _, high = quantiles(values, n=4)
    print(f"{name:<44} {median(values):6.2f} ms ({low:.2f} to {high:.2f}){note}")


def fresh_pythons(runs: int, *flags: str) -> list[float]:
    """CPU milliseconds of each `python -c pass`."""
    spent = []
    for _ in range(runs):
        before = children_cpu()
        subprocess.run([sys.executable, *flags, "-c", "pass"], check=True)
        spent.append(1000 * (children_cpu() - before))
    return spent


def jailed(zygote: Zygote, runs: int, run: Callable[[], Ending]) -> tuple[list[float], float]:
    """CPU milliseconds of the children of each run, and the mean of the zygote itself."""
    keeper = psutil.Process(zygote.pid)
    process = keeper.children()[0] if keeper.children() else keeper
    spent = []
    own = sum(process.cpu_times()[:2])
    for _ in range(runs):
        before = zygote.cpu_seconds
        assert run() is Ending.PASSED
        spent.append(1000 * (zygote.cpu_seconds - before))
    return spent, 1000 * (sum(process.cpu_times()[:2]) - own) / runs


def main() -> None:
    """Print all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    root = str(Path(__file__).resolve().parents[1])
    forks = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {root!r})\n{FORKS}", str(runs)],
        check=True,
        capture_output=True,
        text=True,
    )
    zygote = Zygote(best_isolation())
    print(f"walls: {best_isolation()}; {runs} runs each; load {os.getloadavg()[0]:.1f}")
    started = time.perf_counter()
    show("bare fork, of as many modules", [float(line) for line in forks.stdout.split()])
    job = Job(program="pass", suite=NOTHING)
    spent, own = jailed(zygote, runs, lambda: run_cases(zygote, job, NOTHING).ending)
    show("jailed run of `pass`", spent, f" + {own:.2f} of the zygote")
    call = Job(program="def add(a, b):\n    return a + b\n", suite=ADD)
    run_calls(zygote, call, ADD)
    spent, own = jailed(zygote, runs, lambda: run_calls(zygote, call, ADD).ending)
    show("jailed run of a function and its judge", spent, f" + {own:.2f} of the zygote")
    show("python -I -S -c pass", fresh_pythons(runs // 8, "-I", "-S"))
    show("python -c pass", fresh_pythons(runs // 8))
    zygote.kill()
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
