"""The program's end of the calls on a service that keeps nothing between two runs: each run does everything again.

A run gets every message that the judge has sent so far, does what they say, and prints the answer to the last one.
So a program that gives the same answers each time is judged as it would be over a channel. The program shares the
process and may print what it likes in place of the answer, which the judge takes for the program's own words.

The service runs this with whatever Python it has, 3.10 included.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import zlib
from collections.abc import Callable
from typing import Any, NoReturn, cast

from trl_grpo_ext.sandbox.inside.answers import answer
from trl_grpo_ext.sandbox.inside.program import PRINTED, Capture
from trl_grpo_ext.workers.frames import Channel

# The program may replace any of these.
_encode = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode
_write, _exit, _compress, _base64 = os.write, os._exit, zlib.compress, base64.b64encode


class RecordedCalls:
    """What stands for a channel: gives out the messages that there are, and ends the process instead of waiting."""

    def __init__(self, messages: list[Any], say: Callable[[bytes], None]) -> None:
        self._messages = messages
        self._at = 0
        self._say = say
        self._last: Any = None

    def send(self, message: Any) -> None:
        """Keep the message, which is only said if it is the last."""
        self._last = message

    def receive(self) -> Any:
        """The next message; when there is none, say what was sent last, and end."""
        if self._at == len(self._messages):
            self._say(_encode(self._last).encode())
            _exit(0)
        self._at += 1
        return self._messages[self._at - 1]


def main() -> NoReturn:
    """Do what the order on standard input says: `program`, `messages`, `marker` and `most`, the longest answer."""
    order = json.loads(sys.stdin.buffer.read())
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    printed = Capture(PRINTED)
    sys.stdout = printed
    marker, most = order["marker"].encode(), order["most"]

    def say(answer: bytes) -> None:
        packed = _base64(_compress(answer))
        text = packed if len(packed) <= most else b"!"
        whole = memoryview(b"\n" + marker + text + marker + b"\n")
        while whole:
            whole = whole[_write(out, whole) :]

    calls = RecordedCalls(order["messages"], say)
    answer(cast(Channel, calls), order["program"], printed)
    calls.receive()
    _exit(1)
