"""Run one rank of two, for test_ranks.py: rank 1 ends before gloo has freed its last collective call.

The last exit handler holds the interpreter's lock, so gloo's thread waits for the lock until the interpreter is gone. A
finalizer destroys a subgroup, as in vLLM; a wrapped model outlives the script's last line, like a trainer's model.
"""

from __future__ import annotations

import atexit
import os
import sys

if os.environ["RANK"] == "1":
    # Exit handlers run in reverse order: registered first, it runs last.
    atexit.register(sum, range(10**8))

import time
import weakref

# `torch._dynamo` is imported early, as by TRL: imported later, its functions would hold the process group as a default
# argument.
import torch
import torch._dynamo
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
