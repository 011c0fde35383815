"""SandboxFusion's `POST /run_code`: one program, what it reads, and what came of it.

https://github.com/bytedance/SandboxFusion, whose documentation calls the answer's `status` `Success` where every
command ended with 0, `Failed` where one did not or took too long, and `SandboxError` where the service itself failed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.sandbox.job import Ending, Limits, TestResult
from trl_grpo_ext.sandbox.monitor import over_memory
from trl_grpo_ext.sandbox.nodes import Node, NodeError, Nodes, Request
from trl_grpo_ext.sandbox.wire_format import WireError, read_json, write_json

RUN_CODE_PATH = "/run_code"
ATTEMPTS = 2
START_SECONDS = 1.0  # for an interpreter to start, beyond what the program may take
_COMPILE_SECONDS = 10.0  # unused for Python
_MARGIN_SECONDS = 60.0  # for the request to wait for its turn, there and here
_OWN_MEMORY_MB = 128  # of an interpreter, beyond what the program may take
_ANSWER_BYTES = 16 << 20  # the service keeps 1 MiB of what a program prints
_NOT_PYTHON = ("SyntaxError", "IndentationError", "TabError")
_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of running a program.

    Attributes:
        timed_out: Whether the service ended it when its time was up.
        code: What it exited with; below 0, the signal that ended it.
        stdout: What it printed, or the first part.
        stderr: The same of standard error.
        seconds: Wall time, as the service says.
    """

    timed_out: bool
    code: int
    stdout: str
    stderr: str
    seconds: float


class FusionService:
    """A SandboxFusion service, or several that do the same.

    Args:
        addresses: `http://host:port`, at least one, without `/run_code`.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._nodes = Nodes(addresses, attempts=ATTEMPTS)

    @property
    def size(self) -> int:
        """How many services there are."""
        return len(self._nodes.all)

    def run(self, code: str, stdin: str, limits: Limits, seconds: float) -> Run:
        """Run Python code, for so long.

        Raises:
            NodeError: if the service fails.
        """
        return self._nodes.ask(_request(code, stdin, limits, seconds), _read_run)

    def failures(self) -> list[str]:
        """Why each service that cannot run a program cannot."""
        return [why for node in self._nodes.all if (why := self._failure(node))]

    def close(self) -> None:
        """End the requests that are under way."""
        self._nodes.close()

    def _failure(self, node: Node) -> str:
        word = secrets.token_hex(8)
        try:
            run = _read_run(self._nodes.ask_node(node, _request("print(input())", word, Limits(), 5.0)))
        except (NodeError, WireError) as error:
            return f"{node.address}: {error}"
        return "" if run.stdout.strip() == word else f"{node.address}: a program that prints a word printed another"


def ending_of(run: Run, limits: Limits) -> TestResult:
    """How a program ended that did not get to its end, from its status and the last line that it left."""
    lines = run.stderr.strip().splitlines()
    last = lines[-1][:_SHOWN] if lines else ""
    signal = -run.code if run.code < 0 else run.code - 128
    if last.startswith("MemoryError"):
        return over_memory(limits)
    if last.startswith(_NOT_PYTHON) and not run.stderr.startswith("Traceback"):
        return TestResult(ending=Ending.COMPILE_ERROR, detail=last)
    if 0 < signal < 65:
        return TestResult(ending=Ending.KILLED, detail=f"ended by signal {signal}")
    return TestResult(ending=Ending.ERROR, detail=last or f"the program exited with status {run.code}")


def _request(code: str, stdin: str, limits: Limits, seconds: float) -> Request:
    body = {
        "code": code,
        "language": "python",
        "stdin": stdin,
        "compile_timeout": _COMPILE_SECONDS,
        "run_timeout": seconds + START_SECONDS,
        "memory_limit_MB": limits.memory_mb + _OWN_MEMORY_MB,
        "files": {},
        "fetch_files": [],
    }
    return Request(
        method="POST",
        path=RUN_CODE_PATH,
        body=write_json(body),
        headers={"Content-Type": "application/json"},
        seconds=_MARGIN_SECONDS + seconds,
        most=_ANSWER_BYTES,
    )


def _read_run(body: bytes) -> Run:
    record = read_json(body)
    if not isinstance(record, dict) or record.get("status") not in ("Success", "Failed", "SandboxError"):
        raise WireError("an unknown status")
    if record["status"] == "SandboxError":
        raise NodeError(f"the service failed: {_text(record, 'message')[-_SHOWN:]}")
    result = record.get("run_result")
    if not isinstance(result, dict) or result.get("status") not in ("Finished", "TimeLimitExceeded"):
        raise WireError("no result of a run")
    timed_out = result["status"] == "TimeLimitExceeded"
    code = -1 if timed_out else result.get("return_code")
    if type(code) is not int or not -256 < code < 256:
        raise WireError("an impossible return_code")
    return Run(
        timed_out=timed_out,
        code=code,
        stdout=_text(result, "stdout"),
        stderr=_text(result, "stderr"),
        seconds=_seconds(result.get("execution_time")),
    )


def _text(record: dict[str, Any], name: str) -> str:
    found = record.get(name)
    if found is not None and not isinstance(found, str):
        raise WireError(f"a {name} that is not text")
    return found or ""


def _seconds(found: Any) -> float:
    if found is None:
        return 0.0
    if type(found) not in (int, float) or not 0 <= found < 1e9:
        raise WireError("an impossible execution_time")
    return float(found)
