"""Run judge and program without a sandbox, for tests with harmless programs."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

from places import ROOT

from trl_grpo_ext.programs.suites.source import required_packages
from trl_grpo_ext.workers.frames import Channel

PASSED = ("passed", "")


def child(role: str, *ends: socket.socket) -> subprocess.Popen[bytes]:
    """Start a Python process as `judge` or `serve` on socket descriptors, like a zygote's child."""
    numbers = [end.fileno() for end in ends]
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from trl_grpo_ext.programs.sandbox.inside.{'judge' if role == 'judge' else 'answers'} import {role}\n"
        f"{role}(*{numbers})"
    )
    return subprocess.Popen([sys.executable, "-E", "-S", "-c", code], pass_fds=numbers, stdin=subprocess.DEVNULL)


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
    solution = child(role, control[1], rpc[0]) if role == "serve" else raw_child(role, rpc[0])
    judge = child("judge", verdicts[1], rpc[1])
    for end in (*rpc, control[1], verdicts[1]):
        end.close()
    try:
        if role == "serve":
            to_solution = Channel(control[0].fileno())
            to_solution.send({"program": program})
            assert to_solution.receive() == {"ready": True}
        to_judge = Channel(verdicts[0].fileno())
        order = {"setup": setup, "tests": tests, "names": names.split(), "stop_at_first": stop_at_first}
        order["imports"] = required_packages([setup, *tests])
        to_judge.send({**order, "message_bytes": message_bytes})
        assert to_judge.receive() == {"ready": True}
        found: list[dict[str, Any]] = []
        while len(found) < len(tests):
            found.append(to_judge.receive())
            if "bad_tests" in found[-1] or (stop_at_first and found[-1]["ending"] != "passed"):
                break
        return found
    finally:
        control[0].close()
        verdicts[0].close()
        for process in (solution, judge):
            process.wait(timeout=30)


def raw_child(code: str, rpc: socket.socket) -> subprocess.Popen[bytes]:
    """Start a Python process that runs `code` with `send(json)` and `receive()` on the judge's channel."""
    start = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from trl_grpo_ext.workers.frames import Channel\n"
        f"import os; FD = {rpc.fileno()}; channel = Channel(FD); send = channel.send; receive = channel.receive\n"
    )
    return subprocess.Popen([sys.executable, "-E", "-S", "-c", start + code], pass_fds=[rpc.fileno()])


def run(program: str, *tests: str, **options: Any) -> list[tuple[str, str]]:
    """Run tests, and return (ending, detail) of each."""
    found = frames(program, *tests, **options)
    assert [each.get("test") for each in found] == list(range(len(found))), found
    return [(each["ending"], each["detail"]) for each in found]


def endings(program: str, *tests: str, **options: Any) -> list[str]:
    return [ending for ending, _ in run(program, *tests, **options)]


def assert_all_pass(program: str, *tests: str, **options: Any) -> None:
    assert run(program, *tests, **options) == [PASSED] * len(tests)
