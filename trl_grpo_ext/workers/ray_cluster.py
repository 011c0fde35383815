"""Judge on a Ray cluster: one actor per node, to which this process sends work. Ray starts and watches the nodes.

A node's actor uses worker processes and a sandbox of its node. Work goes to the node with the least work per core; the
work of a lost node goes to another node, a bounded number of times. Only JSON crosses the network: no output of a
program or worker is unpickled. The cluster itself is trusted.
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
from trl_grpo_ext.workers.executor import (
    EXECUTOR_VARIABLE,
    NAMESPACE,
    ExecutorError,
    connect,
    on_ray,
    run_name,
)
from trl_grpo_ext.workers.processes import shared

logger = logging.getLogger(__name__)

# Tries of a batch of items, when nodes fail.
ATTEMPTS = 3
# The maximum number of items in a message to a node.
BATCH = 8
# Items per core that a node has at a time, so that no core waits for the network.
AHEAD = 2
# Time between two looks for new nodes.
LOOK_SECONDS = 10.0
# Time in which a failed node gets work only if all other nodes have failed too.
REST_SECONDS = 30.0
# Time limit for the start of a node's actor.
START_SECONDS = 60.0
# Time limit for an answer, in addition to the time limits of the items.
PATIENCE_SECONDS = 60.0
_TICK_SECONDS = 0.5
# The key of the cluster among this process's shared objects.
KEY = "ray"

_abandoned: list[RayCluster] = []

Record = dict[str, Any]
"""A mapping of plain JSON values. `{"lost": why}` stands for an item that no node could judge."""


class NodeJudge:
    """A Ray actor that runs this package's functions on a node, with local workers and a local sandbox.

    Args:
        cores: The number of CPU cores of the node.
        path: The trainer's `sys.path`. If the node has the same folders, it finds the user's own verifiers there.
    """

    def __init__(self, cores: int, path: Sequence[str] = ()) -> None:
        self._cores = cores
        sys.path += [folder for folder in path if folder not in sys.path]
        # The actor judges on its own machine, not on the cluster.
        os.environ.pop(EXECUTOR_VARIABLE, None)

    def run(self, target: str, request: bytes) -> bytes:
        """Run a function on a request's items; return its records, or an exception as `{"lost": why}`, as JSON."""
        try:
            order = json.loads(request)
            if order["version"] != __version__:
                raise RuntimeError(
                    f"it has trl-grpo-ext {__version__}, and the trainer has {order['version']}"
                )
            function: Any = find_object(*target.split(":"))
            return json.dumps(
                {"answers": function(order["items"], order["settings"], self._cores)}
            ).encode()
        except Exception as error:
            return json.dumps(
                {"lost": f"{type(error).__name__}: {error_text(error)}"}
            ).encode()


@dataclass(frozen=True, eq=False, slots=True)
class _Node:
    """A judging node and its Ray actor."""

    name: str
    cores: int
    actor: Any


@dataclass(eq=False, slots=True)
class _Batch:
    """A batch of items for one node, with its first item's index, number of failures and deadline."""

    start: int
    items: Sequence[Any]
    failures: int = 0
    until: float = 0.0


class RayCluster:
    """The judging nodes of a Ray cluster. Thread-safe.

    Attributes:
        rests_until: By node name, the monotonic time until which a failed node gets work only if all others failed.
        closing: An event that ends the running calls when it is set.
        checked: Whether a node has answered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._looked_at = float("-inf")
        self.rests_until: dict[str, float] = {}
        self.closing = threading.Event()
        self.checked = False

    def run(
        self, target: str, items: list[Any], *, seconds: float, settings: Record
    ) -> list[Record]:
        """Judge items by a function on the cluster's nodes.

        Args:
            target: `"module:function"`, as a node imports it. The function takes a list of items, the settings and the
                number of the node's cores, and returns one record per item.
            items: Plain JSON values.
            seconds: The time limit of one item.
            settings: Settings for all items.

        Returns:
            One record per item, in order; `{"lost": why}` after `ATTEMPTS` failures, or if no node or time is left.

        Raises:
            ExecutorError: if there is no cluster.
        """
        try:
            return _Round(self, target, items, settings, seconds).answers()
        except ExecutorError:
            raise
        except Exception as error:  # for example, the user's own code has shut Ray down
            logger.exception("Ray failed.")
            return [{"lost": f"{type(error).__name__}: {error}"}] * len(items)

    def ask_each(self, target: str, settings: Record) -> dict[str, Record]:
        """Call a function without items on each node; return replies by node name, `{"lost": why}` for a failure."""
        sent = [(node, send(node, target, [], settings)) for node in self.nodes()]
        until = time.monotonic() + START_SECONDS
        return {
            node.name: self.receive(node, each, max(0.0, until - time.monotonic()))
            for node, each in sent
        }

    def nodes(self) -> list[_Node]:
        """List the judging nodes; the list is refreshed every `LOOK_SECONDS`, and while empty."""
        with self._lock:
            if not self._nodes or time.monotonic() > self._looked_at + LOOK_SECONDS:
                connect()
                alive = _alive_nodes()
                self._nodes = {
                    name: self._nodes.get(name) or _start(name, about)
                    for name, about in alive.items()
                }
                self._looked_at = time.monotonic()
            return list(self._nodes.values())

    def receive(self, node: _Node, reference: Any, timeout: float) -> Record:
        """Return a node's reply; `{"lost": why}` if the node fails or the timeout passes."""
        import ray

        try:
            reply: Record = json.loads(ray.get(reference, timeout=timeout))
        except (
            Exception
        ) as error:  # Ray raises many types; the first line of the message names the cause
            reply = {
                "lost": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            }
            # The node may be alive; then it gets a new actor.
            with self._lock:
                if self._nodes.get(node.name) is node:
                    del self._nodes[node.name]
        if "lost" in reply:
            logger.warning(
                "The Ray node %s failed; others do its work: %s", node.name, reply["lost"]
            )
            self.rests_until[node.name] = time.monotonic() + REST_SECONDS
            reply["lost"] = f"the Ray node {node.name}: {reply['lost']}"
        return reply

    def close(self) -> None:
        """Drop the actors' handles: Ray ends the actors, running work is lost. The cluster is usable afterwards."""
        with self._lock:
            self.closing.set()
            self.closing, self._nodes = threading.Event(), {}

    def abandon(self) -> None:
        """Keep the actors' handles in a forked child; if it dropped them, Ray would end the parent's actors."""
        _abandoned.append(self)


class _Round:
    """One call of `RayCluster.run`: waiting batches, running batches, and answers so far."""

    def __init__(
        self,
        cluster: RayCluster,
        target: str,
        items: list[Any],
        settings: Record,
        seconds: float,
    ) -> None:
        self._cluster, self._target, self._settings = cluster, target, settings
        self._closing = cluster.closing
        self._answers: list[Record | None] = [None] * len(items)
        # Each may have as many items on a node as this rank.
        ranks = max(4, int(os.environ.get("WORLD_SIZE", "1")))
        self._patience = PATIENCE_SECONDS + ranks * AHEAD * seconds
        # Every core gets some items.
        size = min(BATCH, max(1, len(items) // max(1, self._room(cluster.nodes()))))
        self._waiting = deque(
            _Batch(start, items[start : start + size])
            for start in range(0, len(items), size)
        )
        self._under_way: dict[Any, tuple[_Batch, _Node]] = {}

    def answers(self) -> list[Record]:
        """Wait for all records; work that still runs on nodes when the budget is spent ends by its own limits."""
        import ray

        while (
            (self._waiting or self._under_way)
            and not self._closing.is_set()
            and seconds_left()
        ):
            self._hand_out()
            references = list(self._under_way)
            ready, _ = (
                ray.wait(references, timeout=min(_TICK_SECONDS, seconds_left()))
                if references
                else ([], [])
            )
            now = time.monotonic()
            for reference in references:
                batch, _ = self._under_way[reference]
                if reference in ready or batch.until < now:
                    self._take(reference)
        unfinished = {"lost": "closed" if self._closing.is_set() else BUDGET_SPENT}
        return [answer or unfinished for answer in self._answers]

    def _hand_out(self) -> None:
        """Send waiting batches to the nodes with the least work per core, until all cores are busy."""
        nodes = self._cluster.nodes()
        if not nodes:
            self._give_up()
        busy = Counter[str]()
        for batch, node in self._under_way.values():
            busy[node.name] += len(batch.items)
        while self._waiting and busy.total() < self._room(nodes):
            batch, now = self._waiting.popleft(), time.monotonic()
            rests = {
                name
                for name, until in list(self._cluster.rests_until.items())
                if until > now
            }
            node = min(
                nodes, key=lambda each: (each.name in rests, busy[each.name] / each.cores)
            )
            busy[node.name] += len(batch.items)
            batch.until = now + self._patience
            self._under_way[send(node, self._target, batch.items, self._settings)] = (
                batch,
                node,
            )

    def _give_up(self) -> None:
        """Answer all waiting and running batches as lost, since no node is left."""
        lost = {"lost": "no node of the Ray cluster is left"}
        for batch, _ in self._under_way.values():
            self._waiting.append(batch)
        for batch in self._waiting:
            self._answer(batch, [lost] * len(batch.items))
        self._waiting, self._under_way = deque(), {}

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
    """Return this process's Ray cluster, which connects on first use; a forked child creates its own."""
    return shared(KEY, RayCluster)


def check_executor() -> None:
    """Raise an ExecutorError if this process judges on a Ray cluster without a node that answers."""
    if not on_ray() or ray_cluster().checked:
        return
    found = ray_cluster().ask_each(f"{__name__}:say_nothing", {})
    if all("lost" in reply for reply in found.values()):
        why = (
            "; ".join(reply["lost"] for reply in found.values())
            or "it has no node with a CPU; see --num-cpus"
        )
        raise ExecutorError(
            f"executor: ray found no node on the Ray cluster that can judge: {why}. Each node needs this version of "
            "trl-grpo-ext, with the same Python and the same Ray as here."
        )
    ray_cluster().checked = True


def say_nothing(_items: Sequence[Any], _settings: Record, _cores: int) -> list[Record]:
    """Return an empty list: a function that tests whether a node answers."""
    return []


def send(node: _Node, target: str, items: Sequence[Any], settings: Record) -> Any:
    """Send items to a node; return Ray's reference to the reply."""
    request = {"version": __version__, "items": items, "settings": settings}
    return node.actor.run.remote(target, json.dumps(request, allow_nan=False).encode())


def _alive_nodes() -> dict[str, Record]:
    """Return Ray's record of each live node with at least one CPU, by a name made of host and node id.

    Nodes started with `--num-cpus=0` are left out. The result is empty if this machine's own node is lost: then Ray
    answers this process no more.
    """
    import ray

    alive = set()
    judging = {}
    for each in ray.nodes():
        if not each["Alive"]:
            continue
        alive.add(each["NodeID"])
        if each["Resources"].get("CPU", 0) >= 1:
            judging[f"{each['NodeManagerHostname']} {each['NodeID'][:8]}"] = each
    if ray.get_runtime_context().get_node_id() not in alive:
        return {}
    return judging


def _start(name: str, about: Record) -> _Node:
    """Make a node with an actor shared by all ranks; its first reply tells whether the actor runs."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    cores = int(about["Resources"]["CPU"])
    options = {
        "name": f"{run_name()}-{about['NodeID']}",
        "namespace": NAMESPACE,
        "get_if_exists": True,
        # The actor uses all cores without reserving them, so it waits for none.
        "num_cpus": 0,
        "max_concurrency": AHEAD * cores + 2,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(
            node_id=about["NodeID"], soft=False
        ),
    }
    path = [str(Path(folder).resolve()) for folder in sys.path]
    return _Node(name, cores, ray.remote(NodeJudge).options(**options).remote(cores, path))
