"""A real Ray cluster of several nodes on this machine, for tests: a head without a core, and nodes that judge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from trl_grpo_ext.workers import processes
from trl_grpo_ext.workers.executor import ADDRESS_VARIABLE, EXECUTOR_VARIABLE, connect

# Before Ray is imported, which reads them once. Nothing is sent to anyone, and no node is ended for want of memory.
RAY_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
ADD = ["assert add(1, 2) == 3"]
_NODE = {"object_store_memory": 80 << 20, "include_dashboard": False}


def program(number: int, note: str = "") -> str:
    """A right program for an even number, a wrong one for an odd one; no two are the same."""
    return f"```python\ndef add(a, b):\n    return a + b + {number % 2}  # {number} {note}\n```"


class LocalCluster:
    """A head, to which this process connects, and nodes with two cores each."""

    def __init__(self, nodes: int) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={**_NODE, "num_cpus": 0})
        self._nodes: list[Any] = []
        os.environ |= {ADDRESS_VARIABLE: str(self._cluster.address), EXECUTOR_VARIABLE: "ray"}
        connect()  # while there is no other node on this machine that Ray might take for ours
        for _ in range(nodes):
            self.add()

    def add(self) -> None:
        """Have one more node join."""
        self._nodes.append(self._cluster.add_node(num_cpus=2, object_store_memory=_NODE["object_store_memory"]))

    def kill(self) -> None:
        """End a node's processes as a power cut would."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def close(self) -> None:
        """End everything."""
        self._cluster.shutdown()


@contextmanager
def ray_cluster_of(nodes: int) -> Iterator[LocalCluster]:
    """A cluster that this process judges on; afterwards neither it nor any of its processes is left."""
    pytest.importorskip("ray")
    before = {name: os.environ.get(name) for name in (*RAY_VARIABLES, ADDRESS_VARIABLE, EXECUTOR_VARIABLE)}
    os.environ |= RAY_VARIABLES
    import ray

    processes.close_shared()
    children = set(psutil.Process().children())
    cluster = LocalCluster(nodes)
    try:
        yield cluster
    finally:
        started = set(psutil.Process().children(recursive=True)) - children
        processes.close_shared()
        ray.shutdown()
        cluster.close()
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        _, left = psutil.wait_procs(started, timeout=60)
        for process in left:
            process.kill()
        assert not left
