"""Judge a hostile answer by TRL's accuracy reward and by ours, on the main thread and on another thread.

Prints each reward's time, or its kill after `--limit` seconds. TRL's reward runs in a separate process, because nothing
else stops it.

    python benchmarks/hostile_answer.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

ANSWER = r"\boxed{9^{9^{9^9}}+1}"
REWARDS = {
    "trl accuracy_reward": "from trl.rewards import accuracy_reward as reward",
    "ours math_reward": "from trl_grpo_ext.rewards import math_reward as reward",
}
CALL = """
import threading, time
{load}
reward([[{{"content": r"$4$"}}]], solution=["4"])  # what is loaded at the first call is loaded now
print("ready", flush=True)
def judge():
    started = time.perf_counter()
    score = reward([[{{"content": {answer!r}}}]], solution=["5"])
    print(f"score {{score[0]}} in {{time.perf_counter() - started:.1f}} s", flush=True)
if {threaded}:
    thread = threading.Thread(target=judge)
    thread.start()
    thread.join()
else:
    judge()
"""


def judge(load: str, *, threaded: bool, limit: float) -> str:
    """Judge the answer in a separate process; return its score and time, or the kill after `limit` seconds."""
    script = CALL.format(load=load, answer=ANSWER, threaded=threaded)
    command = [sys.executable, "-W", "ignore", "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        started = time.monotonic()
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return f"killed after {time.monotonic() - started:.0f} s"
        return said.strip() or f"ended with status {process.returncode}"


def main() -> None:
    """Judge the answer by each reward on each thread, and print times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds after which a process is killed"
    )
    limit = parser.parse_args().limit
    print(f"answer {ANSWER}, gold 5")
    for name, load in REWARDS.items():
        for threaded in (False, True):
            where = "another thread" if threaded else "main thread"
            print(
                f"{name:<20} {where:<15} {judge(load, threaded=threaded, limit=limit)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
