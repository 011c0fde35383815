"""Rehearse in a zygote: run a sample judge and a sample solution before any child is forked."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator

from trl_grpo_ext.programs.sandbox.inside import answers, judge
from trl_grpo_ext.workers.frames import Channel

# Python specializes code after it has run this often.
_REHEARSALS = 9
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
    _play(_judge, partner=_solve)
    _play(_solve, partner=_judge)


def _play(role: Callable[[_Round], None], partner: Callable[[_Round], None]) -> None:
    """Run one role in this process, against a forked partner that runs the other role in all rounds."""
    rounds = [_Round() for _ in range(_REHEARSALS)]
    pid = os.fork()
    play = role if pid else partner
    try:
        for each in rounds:
            with _as_it_was():
                play(each)
            each.close()
    finally:
        # The child must not return, or a second zygote would run.
        if pid == 0:
            os._exit(0)
        # After an error in this process, the partner would wait for a message forever.
        for each in rounds:
            each.close()
        os.waitpid(pid, 0)


def _judge(each: _Round) -> None:
    each.of_solution.close()
    judge.run_tests(each.tests.fileno(), each.of_judge.fileno(), guarded=False)


def _solve(each: _Round) -> None:
    each.of_judge.close()
    answers.serve(each.program.fileno(), each.of_solution.fileno())


class _Round:
    """Sockets of one rehearsal, with the trainer's orders for judge and solution already sent."""

    def __init__(self) -> None:
        self.trainer, self.tests = socket.socketpair()
        self.other, self.program = socket.socketpair()
        self.of_judge, self.of_solution = socket.socketpair()
        Channel(self.trainer.fileno()).send(_REHEARSED_TESTS)
        Channel(self.other.fileno()).send(_REHEARSED_PROGRAM)

    def close(self) -> None:
        """Close all sockets."""
        for end in vars(self).values():
            end.close()


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
