"""A Ray cluster that judges: one actor a node, to which this process sends work. Ray starts, watches and guards nodes.

A node's actor has the worker processes and the sandbox that any process of this package has. Work goes to the node that
has the least to do for each core; what a lost node had goes to another, a bounded number of times. Only JSON crosses:
nothing that a program or a worker says is unpickled. The cluster itself is trusted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_grpo_ext.support.budget import BUDGET_SPENT, seconds_left
from trl_grpo_ext.support.lazy import find_object
from trl_grpo_ext.support.text import error_text
from trl_grpo_ext.support.version import __version__
from trl_grpo_ext.workers.executor import EXECUTOR_VARIABLE, NAMESPACE, ExecutorError, connect, on_ray, run_name
from trl_grpo_ext.workers.processes import shared

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # how often work is tried when nodes fail it
BATCH = 8  # the most items that go to a node together
AHEAD = 2  # items that a node has at a time, for each core, so that none waits for the network
LOOK_SECONDS = 10.0  # how often to look for nodes that have joined
REST_SECONDS = 30.0  # how long a node that failed is asked only if no other can be
START_SECONDS = 60.0  # for a node's actor to start
PATIENCE_SECONDS = 60.0  # for an answer, beyond the time that the work itself may take
_TICK_SECONDS = 0.5
KEY = "ray"  # of what this process shares

_abandoned: list[RayCluster] = []

Record = dict[str, Any]
"""Plain JSON values. `{"lost": why}` stands for an item that no node has done."""


class NodeJudge:
    """What runs on a node, as a Ray actor: functions of this package, with this node's own workers and sandbox.

    Args:
        cores: Of the node.
        path: The trainer's `sys.path`. Where this node has the same folders, verifiers in the user's own are found.
    """

    def __init__(self, cores: int, path: Sequence[str] = ()) -> None:
        self._cores = cores
        sys.path += [folder for folder in path if folder not in sys.path]
        os.environ.pop(EXECUTOR_VARIABLE, None)  # here everything is local

    def run(self, target: str, request: bytes) -> bytes:
        """What the function of that name makes of the items. Its exceptions are an answer too: none is pickled."""
        try:
            order = json.loads(request)
            if order["version"] != __version__:
                raise RuntimeError(f"it has trl-grpo-ext {__version__}, and the trainer has {order['version']}")
            function: Any = find_object(*target.split(":"))
            return json.dumps({"answers": function(order["items"], order["settings"], self._cores)}).encode()
        except Exception as error:
            return json.dumps({"lost": f"{type(error).__name__}: {error_text(error)}"}).encode()


@dataclass(frozen=True, eq=False, slots=True)
class _Node:
    """A node that judges, and its actor."""

    name: str
    cores: int
    actor: Any


@dataclass(eq=False, slots=True)
class _Batch:
    """Items that go to a node together, the number of the first one, and what has come of them so far."""

    start: int
    items: Sequence[Any]
    failures: int = 0
    until: float = 0.0


class RayCluster:
    """The nodes of a Ray cluster that judge. Safe to call from several threads.

    Attributes:
        rests_until: Until when, by the monotonic clock, a node of that name is asked only if no other can be.
        closing: Set when what is under way is to end.
        checked: Whether a node has answered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._looked_at = float("-inf")
        self.rests_until: dict[str, float] = {}
        self.closing = threading.Event()
        self.checked = False

    def run(self, target: str, items: list[Any], *, seconds: float, settings: Record) -> list[Record]:
        """Have a function judge items on the cluster.

        Args:
            target: `"module:function"`, as a node imports it. The function takes a list of items, the settings and the
                number of the node's cores, and returns one record an item.
            items: Plain JSON values.
            seconds: How long one item may take.
            settings: The same for all items.

        Returns:
            One record an item, in order. `{"lost": why}` where nodes have failed `ATTEMPTS` times, or none is left.

        Raises:
            ExecutorError: if there is no cluster.
        """
        try:
            return _Round(self, target, items, settings, seconds).answers()
        except ExecutorError:
            raise
        except Exception as error:  # such as Ray being shut down by the user's own code
            logger.exception("Ray failed.")
            return [{"lost": f"{type(error).__name__}: {error}"}] * len(items)

    def ask_each(self, target: str, settings: Record) -> dict[str, Record]:
        """What a function says on each node, called without an item; `{"lost": why}` for a node that fails."""
        sent = [(node, send(node, target, [], settings)) for node in self.nodes()]
        until = time.monotonic() + START_SECONDS
        return {node.name: self.receive(node, each, max(0.0, until - time.monotonic())) for node, each in sent}

    def nodes(self) -> list[_Node]:
        """The nodes that there are; looked for again every `LOOK_SECONDS`, and while there is none."""
        with self._lock:
            if not self._nodes or time.monotonic() > self._looked_at + LOOK_SECONDS:
                connect()
                alive = _alive_nodes()
                self._nodes = {name: self._nodes.get(name) or _start(name, about) for name, about in alive.items()}
                self._looked_at = time.monotonic()
            return list(self._nodes.values())

    def receive(self, node: _Node, reference: Any, timeout: float) -> Record:
        """A node's reply; `{"lost": why}` if it has failed."""
        import ray

        try:
            reply: Record = json.loads(ray.get(reference, timeout=timeout))
        except Exception as error:  # Ray has many, and their first line says it
            reply = {"lost": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
            with self._lock:  # it may be there all the same, and then gets another actor
                if self._nodes.get(node.name) is node:
                    del self._nodes[node.name]
        if "lost" in reply:
            logger.warning("The Ray node %s failed; others do its work: %s", node.name, reply["lost"])
            self.rests_until[node.name] = time.monotonic() + REST_SECONDS
            reply["lost"] = f"the Ray node {node.name}: {reply['lost']}"
        return reply

    def close(self) -> None:
        """Let go of the actors, which Ray then ends; what is under way is lost. It may be used again."""
        with self._lock:
            self.closing.set()
            self.closing, self._nodes = threading.Event(), {}

    def abandon(self) -> None:
        """Keep the actors' handles, in a fork: Ray would take it for the parent that lets go of them, and end them."""
        _abandoned.append(self)


class _Round:
    """One call of `RayCluster.run`: what waits, what is under way, and the answers so far."""

    def __init__(self, cluster: RayCluster, target: str, items: list[Any], settings: Record, seconds: float) -> None:
        self._cluster, self._target, self._settings = cluster, target, settings
        self._closing = cluster.closing
        self._answers: list[Record | None] = [None] * len(items)
        ranks = max(4, int(os.environ.get("WORLD_SIZE", "1")))  # each may have as much on a node
        self._patience = PATIENCE_SECONDS + ranks * AHEAD * seconds
        size = min(BATCH, max(1, len(items) // max(1, self._room(cluster.nodes()))))  # so that every core gets some
        self._waiting = deque(_Batch(start, items[start : start + size]) for start in range(0, len(items), size))
        self._under_way: dict[Any, tuple[_Batch, _Node]] = {}

    def answers(self) -> list[Record]:
        """Have it all done; what nodes have under way when the budget is spent ends by its own limits."""
        import ray

        while (self._waiting or self._under_way) and not self._closing.is_set() and seconds_left():
            self._hand_out()
            references = list(self._under_way)
            ready, _ = ray.wait(references, timeout=min(_TICK_SECONDS, seconds_left())) if references else ([], [])
            now = time.monotonic()
            for reference in {*ready, *(each for each in references if self._under_way[each][0].until < now)}:
                self._take(reference)
        unfinished = {"lost": "closed" if self._closing.is_set() else BUDGET_SPENT}
        return [answer or unfinished for answer in self._answers]

    def _hand_out(self) -> None:
        """Send what waits to the nodes with the least to do, as much as keeps all cores busy."""
        nodes = self._cluster.nodes()
        if not nodes:
            for batch in [*self._waiting, *(batch for batch, _ in self._under_way.values())]:
                self._answer(batch, [{"lost": "no node of the Ray cluster is left"}] * len(batch.items))
            self._waiting, self._under_way = deque(), {}
        busy = Counter[str]()
        for batch, node in self._under_way.values():
            busy[node.name] += len(batch.items)
        while self._waiting and busy.total() < self._room(nodes):
            batch, now = self._waiting.popleft(), time.monotonic()
            rests = {name for name, until in list(self._cluster.rests_until.items()) if until > now}
            node = min(nodes, key=lambda each: (each.name in rests, busy[each.name] / each.cores))
            busy[node.name] += len(batch.items)
            batch.until = now + self._patience
            self._under_way[send(node, self._target, batch.items, self._settings)] = batch, node

    def _room(self, nodes: Sequence[_Node]) -> int:
        return AHEAD * sum(node.cores for node in nodes)

    def _take(self, reference: Any) -> None:
        batch, node = self._under_way.pop(reference)
        reply = self._cluster.receive(node, reference, timeout=0.0)
        if "answers" in reply:
            self._answer(batch, reply["answers"])
            return
        batch.failures += 1
        if batch.failures < ATTEMPTS:
            self._waiting.appendleft(batch)
        else:
            self._answer(batch, [reply] * len(batch.items))

    def _answer(self, batch: _Batch, records: Sequence[Record]) -> None:
        self._answers[batch.start : batch.start + len(batch.items)] = records


def ray_cluster() -> RayCluster:
    """The cluster that this process shares; it connects when there is work. A forked child makes its own."""
    return shared(KEY, RayCluster)


def check_executor() -> None:
    """Raise an ExecutorError if this process is to judge on a Ray cluster, and none of its nodes can."""
    if not on_ray() or ray_cluster().checked:
        return
    found = ray_cluster().ask_each(f"{__name__}:say_nothing", {})
    if all("lost" in reply for reply in found.values()):
        why = "; ".join(reply["lost"] for reply in found.values()) or "it has no node with a CPU; see --num-cpus"
        raise ExecutorError(
            f"executor: ray found no node on the Ray cluster that can judge: {why}. Each node needs this version of "
            "trl-grpo-ext, with the same Python and the same Ray as here."
        )
    ray_cluster().checked = True


def say_nothing(_items: Sequence[Any], _settings: Record, _cores: int) -> list[Record]:
    """What a node is asked to see whether it answers."""
    return []


def send(node: _Node, target: str, items: Sequence[Any], settings: Record) -> Any:
    """Have a node begin; Ray's reference to its reply."""
    request = {"version": __version__, "items": items, "settings": settings}
    return node.actor.run.remote(target, json.dumps(request, allow_nan=False).encode())


def _alive_nodes() -> dict[str, Record]:
    """What Ray says of the nodes that have a core for us, by name; one with `--num-cpus=0` has none.

    There are none for a process whose own machine's node is lost: Ray answers it no more.
    """
    import ray

    alive = [each for each in ray.nodes() if each["Alive"]]
    if ray.get_runtime_context().get_node_id() not in [each["NodeID"] for each in alive]:
        return {}
    judging = [each for each in alive if each["Resources"].get("CPU", 0) >= 1]
    return {f"{each['NodeManagerHostname']} {each['NodeID'][:8]}": each for each in judging}


def _start(name: str, about: Record) -> _Node:
    """A node, with the actor that all ranks of this run share. Whether it comes up, its first reply will tell."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    cores = int(about["Resources"]["CPU"])
    options = {
        "name": f"{run_name()}-{about['NodeID']}",
        "namespace": NAMESPACE,
        "get_if_exists": True,
        "num_cpus": 0,  # it uses all cores, and waits for none
        "max_concurrency": AHEAD * cores + 2,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=about["NodeID"], soft=False),
    }
    path = [str(Path(folder).resolve()) for folder in sys.path]
    return _Node(name, cores, ray.remote(NodeJudge).options(**options).remote(cores, path))
