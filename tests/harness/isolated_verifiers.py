"""Isolated verifiers for tests, in an importable module as isolation requires."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from trl_grpo_ext import Sample, Status, Verdict, verifier


@verifier(isolated=True, timeout=1.0)
def in_worker(sample: Sample) -> bool | Verdict | None:
    """Execute the command in the text: loop, sleep, raise, print, die, fill memory or report the pid."""
    match sample.text:
        case "spin":
            while True:
                pass
        case "sleep":
            time.sleep(60)
        case "raise":
            raise RuntimeError("as asked")
        case "print":
            print("a verifier that prints", flush=True)
            os.write(1, b"\x00\x00\x00\x02{}")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            return len(bytearray(64 << 30)) > 0
        case "pid":
            return Verdict(status=Status.CORRECT, score=1.0, answer=str(os.getpid()))
    return sample.text == "right"


@verifier(isolated=True, timeout=60.0)
def right_in_worker(sample: Sample) -> bool:
    """Return True for "right", with a time limit for slow machines."""
    return sample.text == "right"


@verifier(isolated=True, timeout=60.0)
def meets_three_others(sample: Sample) -> bool:
    """Return True once four processes run this function; each leaves its pid in the folder named by the text."""
    folder = Path(sample.text)
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 4:
        time.sleep(0.01)
    return True


@verifier
def inline(sample: Sample) -> bool:
    """True for "right"."""
    return sample.text == "right"


@verifier(isolated=True)
def even_in_worker(sample: Sample) -> bool:
    return len(sample.text) % 2 == 0


@verifier(isolated=True)
def sleeps_after_the_first_step(sample: Sample) -> bool:
    if sample.step:
        time.sleep(60)
    return len(sample.text) % 2 == 0


@verifier(isolated=True)
def blue_in_worker(sample: Sample) -> float:
    """Score the blue share of the row's picture, in [0, 1]; 0 for a text of odd length."""
    _, _, blue = sample.row["image"].getpixel((0, 0))
    return blue / 255 if len(sample.text) % 2 == 0 else 0.0


@verifier(isolated=True, timeout=60.0)
def total_in_worker(sample: Sample) -> bool:
    """Test for the total 42 in the final state of the environment."""
    return sample.outcome is not None and sample.outcome.state["total"] == 42


def fails_on_odd(completions: list[object], **_: object) -> list[float]:
    if "odd" in str(completions):
        raise ValueError("odd")
    return [1.0] * len(completions)
