"""Run ten thousand programs, a tenth of them hostile, and watch rate, memory, descriptors, processes and mounts.

    python benchmarks/sandbox_soak.py [--programs 10000] [--workers 2] [--kills 0]

Nothing may grow, and the last thousand programs must run as fast as the first. `--kills` kills this many random
processes per second below this process meanwhile: keepers, zygotes, judges, programs. No verdict may be wrong, and at
most one program in a hundred may lack a verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, StdioCase, StdioSuite
from trl_grpo_ext.sandbox.local import LocalSandbox

ADD = CallSuite(tests=("assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert add(5, 0) == 5"), names=("add",))
SUM = StdioSuite(tests=(StdioCase(stdin="1 2\n", stdout="3\n"),))
LIMITS = Limits(wall_seconds=0.5, cpu_seconds=1.0, memory_mb=128, processes=16, disk_mb=4)
RIGHT = "def add(a, b):\n    return a + b\n"
PRINTS = "a, b = map(int, input().split())\nprint(a + b)\n"

HOSTILE = (
    "import os; os._exit(0)",
    "import sys; sys.exit(0)",
    "class A:\n    def __eq__(self, o): return True\ndef add(a, b): return A()",
    "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "import os\nfor _ in range(40): os.fork()",
    "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
    "import os\nos.kill(-1, 9)",
    "import tempfile\nfor _ in range(90): tempfile.NamedTemporaryFile(delete=False).write(b'x' * 9999)",
    "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass",
    "while True: pass",
)


def program(number: int) -> Job:
    """Build job `number`: every tenth is hostile, every third of the others prints."""
    if number % 10 == 9:
        return Job(program=f"{HOSTILE[number // 10 % len(HOSTILE)]}\n# {number}", suite=ADD, limits=LIMITS)
    if number % 3 == 0:
        return Job(program=f"{PRINTS}# {number}", suite=SUM, limits=LIMITS)
    return Job(program=f"{RIGHT}# {number}", suite=ADD, limits=LIMITS)


def state() -> str:
    """Describe values that must not grow: memory, descriptors, processes and mounts."""
    process = psutil.Process()
    below = process.children(recursive=True)
    memory = sum(child.memory_info().rss for child in below if child.is_running())
    mounts = len(Path("/proc/self/mounts").read_text().splitlines())
    return (
        f"{process.memory_info().rss >> 20:5d} MiB here, {memory >> 20:4d} MiB below, "
        f"{process.num_fds():3d} descriptors, {len(below):3d} processes, {mounts:3d} mounts"
    )


def kill_at_random(a_second: float, stop: threading.Event) -> int:
    """Kill random processes below this process until `stop` is set; return their number."""
    chance, killed = random.Random(0), 0
    while not stop.wait(chance.expovariate(a_second)):
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            chance.choice(psutil.Process().children(recursive=True)).kill()
            killed += 1
    return killed


@contextlib.contextmanager
def killing(a_second: float) -> Iterator[None]:
    """Kill random processes during the block, then print their number."""
    stop, killed = threading.Event(), []
    thread = threading.Thread(target=lambda: killed.append(kill_at_random(a_second, stop)))
    if a_second:
        thread.start()
    yield
    stop.set()
    if a_second:
        thread.join()
        print(f"{killed[0]} processes were killed")


def main() -> None:
    """Run programs by the thousand, and print results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=float, default=0.0)
    arguments = parser.parse_args()
    sandbox = LocalSandbox(arguments.workers)
    print(f"walls: {sandbox.isolation}; load {os.getloadavg()[0]:.1f}")
    for start in range(0, arguments.programs, 1000):
        jobs = [program(number) for number in range(start, min(start + 1000, arguments.programs))]
        started = time.perf_counter()
        with killing(arguments.kills):
            outcomes = sandbox.run(jobs)
        rate = len(jobs) / (time.perf_counter() - started)
        judged = [(number, o) for number, o in enumerate(outcomes) if o.ending is not Ending.NO_VERDICT]
        wrong = sum((outcome.ending is Ending.PASSED) != (number % 10 != 9) for number, outcome in judged)
        void = len(jobs) - len(judged)
        print(f"{start + len(jobs):6d}: {rate:4.0f}/s, {wrong} misjudged, {void} without a verdict, {state()}")
        if wrong:
            print("        ", Counter(str(o.ending) for n, o in enumerate(outcomes) if n % 10 != 9))
    sandbox.close()
    print(f"closed: {state()}")


if __name__ == "__main__":
    main()
