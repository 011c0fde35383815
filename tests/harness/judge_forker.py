"""Fork a process for each judge and each program of judge_harness.py; a new Python takes ten times as long.

Started as a script with the repository's folder and the number of a socket. An order is a role, or code that answers
the judge instead, with the descriptors of the new process; the last descriptor is only held until the process ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

sys.path.insert(0, sys.argv[1])

from trl_grpo_ext.programs.sandbox.inside.answers import serve
from trl_grpo_ext.programs.sandbox.inside.judge import judge
from trl_grpo_ext.workers.frames import Channel

ORDER_BYTES = 1 << 16
ROLES = {"serve": serve, "judge": judge}


def live(order: str, ends: list[int]) -> None:
    """Play a role, or run code with `send(json)` and `receive()` on the judge's channel."""
    if order in ROLES:
        ROLES[order](*ends)
        return
    channel = Channel(ends[0])
    exec(
        order,
        {
            "os": os,
            "FD": ends[0],
            "channel": channel,
            "send": channel.send,
            "receive": channel.receive,
        },
    )


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[2]))
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES, 3)
        if not order:
            return
        if os.fork() == 0:
            orders.close()
            try:
                live(order.decode(), descriptors[:-1])
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    main()
