"""Run judge and program without a sandbox, for tests with harmless programs."""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from places import ROOT

from trl_grpo_ext.programs.suites.source import required_packages
from trl_grpo_ext.workers.frames import Channel

PASSED = ("passed", "")


FORKER = Path(__file__).with_name("judge_forker.py")


@cache
def forker() -> socket.socket:
    """Start the process that forks judges and programs, and return the socket for orders."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-E", "-S", str(FORKER), str(ROOT), str(theirs.fileno())]
    process = subprocess.Popen(
        command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def start(order: str, *ends: socket.socket) -> socket.socket:
    """Start a process as `judge`, as `serve` or with code of its own; the returned socket closes when it ends."""
    ended, its_end = socket.socketpair()
    socket.send_fds(forker(), [order.encode()], [end.fileno() for end in (*ends, its_end)])
    its_end.close()
    return ended


def frames(
    program: str,
    *tests: str,
    names: str = "",
    setup: str = "",
    stop_at_first: bool = False,
    message_bytes: int = 1 << 20,
    role: str = "serve",
) -> list[dict[str, Any]]:
    """Run tests, and return the judge's frames after its ready frame."""
    rpc, control, verdicts = socket.socketpair(), socket.socketpair(), socket.socketpair()
    solution = start(role, control[1], rpc[0]) if role == "serve" else start(role, rpc[0])
    judge = start("judge", verdicts[1], rpc[1])
    for end in (*rpc, control[1], verdicts[1]):
        end.close()
    try:
        if role == "serve":
            to_solution = Channel(control[0].fileno())
            to_solution.send({"program": program})
            assert to_solution.receive() == {"ready": True}
        to_judge = Channel(verdicts[0].fileno())
        order = {
            "setup": setup,
            "tests": tests,
            "names": names.split(),
            "stop_at_first": stop_at_first,
        }
        order["imports"] = required_packages([setup, *tests])
        to_judge.send({**order, "message_bytes": message_bytes})
        assert to_judge.receive() == {"ready": True}
        found: list[dict[str, Any]] = []
        while len(found) < len(tests):
            found.append(to_judge.receive())
            if "bad_tests" in found[-1] or (
                stop_at_first and found[-1]["ending"] != "passed"
            ):
                break
        return found
    finally:
        control[0].close()
        verdicts[0].close()
        for ended in (solution, judge):
            ended.settimeout(30)
            assert ended.recv(1) == b""
            ended.close()


def run(program: str, *tests: str, **options: Any) -> list[tuple[str, str]]:
    """Run tests, and return (ending, detail) of each."""
    found = frames(program, *tests, **options)
    assert [each.get("test") for each in found] == list(range(len(found))), found
    return [(each["ending"], each["detail"]) for each in found]


def endings(program: str, *tests: str, **options: Any) -> list[str]:
    return [ending for ending, _ in run(program, *tests, **options)]


def assert_all_pass(program: str, *tests: str, **options: Any) -> None:
    assert run(program, *tests, **options) == [PASSED] * len(tests)
