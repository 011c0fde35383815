"""Coordinate ranks: ask the main rank, report which reward each rank computes, and leave the process group.

Gloo's threads outlive the last collective call. Such a thread may free the call's tensor while the interpreter ends,
and needs the interpreter's lock for it. Python 3.11 to 3.13 end a thread that asks for the lock so late; in C++ code
this ends the process by SIGABRT ("terminate called without an active exception"), although training has finished. Gloo
joins its threads when nothing holds the process group, and each remaining `DistributedDataParallel` holds it.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch
import torch.distributed
from accelerate.utils import broadcast_object_list

T = TypeVar("T")


def ask_main(accelerator: Any, ask: Callable[[], int]) -> int:
    """Call a function on the main process; return its result on every rank.

    For example, ranks that number groups must agree on the first number.
    """
    answer = [0]
    if accelerator.is_main_process:
        answer = [ask()]
    if accelerator.num_processes > 1:
        broadcast_object_list(answer)
    return answer[0]


def on_this_gpu(call: Callable[[], T]) -> Callable[[], T]:
    """Wrap a call for another thread, so that it uses this rank's GPU; new threads start with the first GPU."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return call
    gpu = torch.cuda.current_device()

    def on_gpu() -> T:
        torch.cuda.set_device(gpu)
        return call()

    return on_gpu


class Whereabouts:
    """A record of each rank's current reward, for error messages of ranks waiting in vain.

    Ranks write it to the store of their process group. The store is on the first rank, so it outlives other ranks.
    """

    def __init__(self, accelerator: Any) -> None:
        self._rank = int(accelerator.process_index)
        self._size = int(accelerator.num_processes)
        self._store = _store()
        self._reward = ""

    def enter(self, reward: str) -> None:
        """Record that this rank computes a reward now; an empty name for none."""
        self._reward = reward
        if self._store is not None:
            # The first rank may have ended, and the store with it.
            with suppress(RuntimeError):
                self._store.set(_key(self._rank), reward)

    @contextmanager
    def told_on_failure(self) -> Iterator[None]:
        """Add a note with each rank's reward to an exception raised in the `with` block."""
        try:
            yield
        except Exception as error:
            if self._reward or self._size > 1:
                places = "; ".join(map(self._of, range(self._size)))
                error.add_note(f"Where this happened: {places}.")
            raise

    def _of(self, rank: int) -> str:
        is_own = rank == self._rank
        try:
            reward = self._reward if is_own else self._asked(rank)
        except RuntimeError:
            # The first rank has ended, and the store with it.
            return f"what rank {rank} did is unknown"
        where = f"in the reward {reward!r}" if reward else "in no reward"
        if self._size == 1:
            return where
        this_one = " (this one)" if is_own else ""
        return f"rank {rank}{this_one} was {where}"

    def _asked(self, rank: int) -> str:
        if self._store is None:
            raise RuntimeError("These ranks have no store.")
        key = _key(rank)
        # `get` would wait for a rank that has not entered a reward yet.
        if not self._store.check([key]):
            return ""
        return str(self._store.get(key).decode())


def _store() -> Any:
    """Return the store of the process group; None without a process group, as on TPUs."""
    if not _has_group():
        return None
    return torch.distributed.distributed_c10d._get_default_store()


def _key(rank: int) -> str:
    return f"trl_grpo_ext/reward_of_rank_{rank}"


_has_finished = threading.Event()


def leave_at_exit() -> None:
    """Make this process leave its process group, if any, at interpreter exit.

    Called after training. A rank whose training has failed does not leave: others may be waiting for it, and the
    launcher ends them.
    """
    _has_finished.set()


def _leave() -> None:
    if not _has_finished.is_set() or not _has_group():
        return
    for wrapped_model in filter(_is_wrapped_model, gc.get_objects()):
        vars(wrapped_model).clear()
    torch.distributed.destroy_process_group()


def _has_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _is_wrapped_model(something: object) -> bool:
    # Not `isinstance`, which reads an object's `__class__`: a lazy proxy may then import its module.
    return issubclass(type(something), torch.nn.parallel.DistributedDataParallel)


# Registered at import: finalizers run from newest to oldest, so an engine with process groups of its own inside this
# one, such as vLLM in a trainer's process, closes its groups first.
weakref.finalize(leave_at_exit, _leave)
