"""The ranks of a run: asking the main one, what each is doing, and how they leave their process group.

Gloo's threads outlive the last collective call. Such a thread may free that call's tensor just as the interpreter ends,
and then needs the interpreter's lock; Python 3.11 to 3.13 end a thread that asks for it so late, and in C++ code that
ends the process by SIGABRT ("terminate called without an active exception"), though training has finished. Gloo joins
its threads only once nothing holds the process group, and each `DistributedDataParallel` that is left holds it.
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
    """What the main process answers, on every rank: ranks that number groups must agree on the first number."""
    answer = [ask() if accelerator.is_main_process else 0]
    if accelerator.num_processes > 1:
        broadcast_object_list(answer)
    return answer[0]


def on_this_gpu(call: Callable[[], T]) -> Callable[[], T]:
    """The call, for another thread: threads begin with the first GPU, and models belong on the rank's."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return call
    gpu = torch.cuda.current_device()

    def on_gpu() -> T:
        torch.cuda.set_device(gpu)
        return call()

    return on_gpu


class Whereabouts:
    """Which reward each rank is in, so that a rank that has waited in vain can say for which reward.

    Ranks tell it to the store of their process group, which outlives a rank that dies, if this is not the first one.
    """

    def __init__(self, accelerator: Any) -> None:
        self._rank, self._size = int(accelerator.process_index), int(accelerator.num_processes)
        self._store = _store()
        self._reward = ""

    def enter(self, reward: str) -> None:
        """Tell that this rank is now in this reward; an empty name for none."""
        self._reward = reward
        if self._store is not None:
            with suppress(RuntimeError):  # the first rank is gone, and the store with it
                self._store.set(_key(self._rank), reward)

    @contextmanager
    def told_on_failure(self) -> Iterator[None]:
        """Add a note of where the ranks were to an exception."""
        try:
            yield
        except Exception as error:
            if self._reward or self._size > 1:
                error.add_note(f"Where this happened: {'; '.join(map(self._of, range(self._size)))}.")
            raise

    def _of(self, rank: int) -> str:
        own = rank == self._rank
        try:
            reward = self._reward if own else self._asked(rank)
        except RuntimeError:  # the store was the first rank's
            return f"what rank {rank} did is unknown"
        what = f"in the reward {reward!r}" if reward else "in no reward"
        return f"rank {rank}{' (this one)' if own else ''} was {what}" if self._size > 1 else what

    def _asked(self, rank: int) -> str:
        if self._store is None:
            raise RuntimeError("These ranks have no store.")
        return str(self._store.get(_key(rank)).decode()) if self._store.check([_key(rank)]) else ""


def _store() -> Any:
    """The store of the process group, if there is one: a run on TPUs has none."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed.distributed_c10d._get_default_store()


def _key(rank: int) -> str:
    return f"trl_grpo_ext/reward_of_rank_{rank}"


_has_finished = threading.Event()


def leave_at_exit() -> None:
    """Have this process leave its process group, if it still has one, when the interpreter ends.

    Called where training has finished: a rank whose training has failed leaves nothing, since others may be waiting for
    it, and the launcher ends them.
    """
    _has_finished.set()


def _leave() -> None:
    if _has_finished.is_set() and torch.distributed.is_available() and torch.distributed.is_initialized():
        for wrapped_model in filter(_is_wrapped_model, gc.get_objects()):
            vars(wrapped_model).clear()
        torch.distributed.destroy_process_group()


def _is_wrapped_model(something: object) -> bool:
    # Not `isinstance`, which asks an object for its `__class__`: a proxy may then import what it stands for.
    return issubclass(type(something), torch.nn.parallel.DistributedDataParallel)


# Made when this module is imported: finalizers run from the newest to the oldest, so an engine that has made groups of
# its own within this one, as vLLM does in a trainer's process, first takes these apart.
weakref.finalize(leave_at_exit, _leave)
