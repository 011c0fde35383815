"""The ranks of a run: asking the main one, and leaving the process group before the interpreter ends.

Gloo's threads outlive the last collective call. Such a thread may free that call's tensor just as the interpreter ends,
and then needs the interpreter's lock; Python 3.11 to 3.13 end a thread that asks for it so late, and in C++ code that
ends the process by SIGABRT ("terminate called without an active exception"), though training has finished.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from typing import Any

import torch.distributed
from accelerate.utils import broadcast_object_list


def ask_main(accelerator: Any, ask: Callable[[], int]) -> int:
    """What the main process answers, on every rank: ranks that number groups must agree on the first number."""
    answer = [ask() if accelerator.is_main_process else 0]
    if accelerator.num_processes > 1:
        broadcast_object_list(answer)
    return answer[0]


@cache
def leave_at_exit() -> None:
    """Have this process leave its process group, if it still has one, when the interpreter ends.

    Called where training has finished: a rank whose training has failed leaves nothing, since others may be waiting for
    it, and the launcher ends them.
    """
    atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
