"""Start a real Ray cluster on this machine: a head node without cores, and nodes that judge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from trl_grpo_ext.workers import processes
from trl_grpo_ext.workers.executor import ADDRESS_VARIABLE, EXECUTOR_VARIABLE, connect

# Set before the import of Ray, which reads these variables once: no usage statistics, no node killed for low memory.
RAY_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
ADD = ["assert add(1, 2) == 3"]
_NODE = {"object_store_memory": 80 << 20, "include_dashboard": False}


def program(number: int, note: str = "") -> str:
    """Write a program that is right for an even number, wrong for an odd number, and unique."""
    return f"```python\ndef add(a, b):\n    return a + b + {number % 2}  # {number} {note}\n```"


class LocalCluster:
    """A cluster: a head node, to which this process connects, and worker nodes with two cores each."""

    def __init__(self, nodes: int) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True, head_node_args={**_NODE, "num_cpus": 0}
        )
        self._nodes: list[Any] = []
        os.environ |= {
            ADDRESS_VARIABLE: str(self._cluster.address),
            EXECUTOR_VARIABLE: "ray",
        }
        # Connect before other nodes start: Ray could mistake another node on this machine for ours.
        connect()
        for _ in range(nodes):
            self.add()

    def add(self) -> None:
        """Start another node."""
        self._nodes.append(
            self._cluster.add_node(
                num_cpus=2, object_store_memory=_NODE["object_store_memory"]
            )
        )

    def kill(self) -> None:
        """Kill a node's processes, like a power cut."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def close(self) -> None:
        """Shut the cluster down."""
        self._cluster.shutdown()


@contextmanager
def ray_cluster_of(nodes: int) -> Iterator[LocalCluster]:
    """Run a cluster as this process's executor; at the end, assert that all its processes are gone."""
    pytest.importorskip("ray")
    before = {
        name: os.environ.get(name)
        for name in (*RAY_VARIABLES, ADDRESS_VARIABLE, EXECUTOR_VARIABLE)
    }
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
            os.environ.pop(name, None) if value is None else os.environ.update(
                {name: value}
            )
        _, left = psutil.wait_procs(started, timeout=60)
        for process in left:
            process.kill()
        assert not left
