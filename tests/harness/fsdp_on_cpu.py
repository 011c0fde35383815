"""Run one rank of a command under FSDP2 on a CPU, for test_fsdp.py; accelerate alone would silently use DDP."""

from __future__ import annotations

import sys
from typing import Any

import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType

from trl_grpo_ext.cli.main import main

_init = PartialState.__init__


def _prepare(self: Any, *_: Any, **__: Any) -> tuple[str, DistributedType]:
    # Accelerate reads the FSDP setting only for this type.
    return "gloo", DistributedType.MULTI_GPU


def _as_accelerator(self: Any, cpu: bool = False, **settings: Any) -> None:
    _init(self, cpu=False, **settings)


def _set_device(self: Any) -> None:
    self.device = torch.device("cpu")


if __name__ == "__main__":
    PartialState.__init__ = _as_accelerator
    PartialState._prepare_backend = _prepare
    PartialState.set_device = _set_device
    sys.exit(main(sys.argv[1:]))
