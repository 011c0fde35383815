"""Rehearse in a zygote: run a sample judge and a sample solution before any child is forked."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator

from trl_grpo_ext.programs.sandbox.inside import answers, judge
from trl_grpo_ext.workers.frames import Channel

# Python specializes code after it has run this often.
_REHEARSALS = 4
_REHEARSED_PROGRAM = {
    "program": "from typing import List\n\ndef add(a: List[int], b):\n    return a + b\n"
}
_REHEARSED_TESTS = {
    "setup": "import math\ndef check(f):\n    assert f([1], [2]) == [1, 2]\n    assert f(1, b=2.5) == 3.5\n",
    "tests": [
        "check(add)",
        "assert add('a', 'b') == 'ab'",
        "assert add((1,), (2,)) == (1, 2)",
    ],
    "names": ["add"],
    "stop_at_first": True,
    "message_bytes": 1 << 20,
}


def rehearse() -> None:
    """Run judge and solution in this process, each against a forked partner.

    Python prepares much on first use: function pointers, caches in code, its parser. Every child inherits the results
    of a rehearsal; otherwise each child would repeat this work, on pages that it must copy first. No program has
    arrived yet.
    """
    for _ in range(_REHEARSALS):
        _play(judge_here=True)
        _play(judge_here=False)


def _play(*, judge_here: bool) -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    (trainer, judge_end), (other, solution_end), (left, right) = pairs
    Channel(trainer.fileno()).send(_REHEARSED_TESTS)
    Channel(other.fileno()).send(_REHEARSED_PROGRAM)
    pid = os.fork()
    try:
        # Parent and child play different roles; the parent keeps the caches of its own role.
        if judge_here == (pid != 0):
            left.close()
            with _as_it_was():
                judge.run_tests(judge_end.fileno(), right.fileno(), guarded=False)
        else:
            right.close()
            with _as_it_was():
                answers.serve(solution_end.fileno(), left.fileno())
    finally:
        # The child must not return, or a second zygote would run.
        if pid == 0:
            os._exit(0)
        for pair in pairs:
            for end in pair:
                end.close()
        os.waitpid(pid, 0)


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    streams, limit = (sys.stdin, sys.stdout, sys.stderr), sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.setrecursionlimit(limit)
        for name in ("solution", "tests"):
            sys.modules.pop(name, None)
