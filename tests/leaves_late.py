"""One rank of two, started by test_ranks.py: rank 1 ends while gloo still has its last collective call to free.

What runs last holds the interpreter's lock, so that gloo's thread waits for it until there is no interpreter. A group
within the process group is ended by a finalizer, as vLLM does; a wrapped model outlives the script's last line, as a
trainer's does.
"""

from __future__ import annotations

import atexit
import os
import sys

if os.environ["RANK"] == "1":
    atexit.register(sum, range(10**8))  # first of all, so that it runs last

import time
import weakref

import torch
import torch._dynamo  # as TRL does: imported later, functions in it would have the group as an argument's default
from torch import distributed

from trl_grpo_ext.trainer.ranks import leave_at_exit

models: list[torch.nn.Module] = []


def main(how: str) -> None:
    distributed.init_process_group("gloo")
    weakref.finalize(main, distributed.destroy_process_group, distributed.new_group())
    models.append(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)))
    tensor = torch.ones(1)
    distributed.barrier()
    if os.environ["RANK"] == "0":
        time.sleep(1)
        distributed.broadcast(tensor, 0)
        time.sleep(5)
        os._exit(0)
    if how == "leaves":
        leave_at_exit()
    distributed.broadcast(tensor, 0, async_op=True)


if __name__ == "__main__":
    main(sys.argv[1])
