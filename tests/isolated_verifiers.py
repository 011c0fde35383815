"""Verifiers that live in a module of their own, as isolated ones must."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from trl_grpo_ext import Sample, Status, Verdict, verifier


@verifier(isolated=True, timeout=1.0)
def in_worker(sample: Sample) -> bool | Verdict | None:
    """Does what its text says."""
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
    """True for "right", however long the machine takes."""
    return sample.text == "right"


@verifier(isolated=True, timeout=60.0)
def meets_three_others(sample: Sample) -> bool:
    """True as soon as four processes are in it at once, whose pids are in the folder of its text."""
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
    """How blue the picture of the row is, in [0, 1], for a text of even length."""
    _, _, blue = sample.row["image"].getpixel((0, 0))
    return blue / 255 if len(sample.text) % 2 == 0 else 0.0


@verifier(isolated=True, timeout=60.0)
def total_in_worker(sample: Sample) -> bool:
    """Whether the final state of an environment has the total 42."""
    return sample.outcome is not None and sample.outcome.state["total"] == 42
