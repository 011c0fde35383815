"""A sandbox on other machines: `trl-grpo-ext sandbox-server`, one or several, or a SandboxFusion service."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from trl_grpo_ext.sandbox.access_token import HOW_TO_MAKE_A_TOKEN, check_token, read_token
from trl_grpo_ext.sandbox.job import Ending, Job, RunResult, no_verdict
from trl_grpo_ext.sandbox.nodes import BusyError, NodeError, Nodes, RefusedError, Request
from trl_grpo_ext.sandbox.wire_format import (
    FORMAT,
    HEALTH_PATH,
    RUN_PATH,
    WireError,
    answer_bytes,
    read_json,
    read_outcomes,
    remote_level,
    write_job,
    write_jobs,
)
from trl_grpo_ext.workers.processes import spread

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # how often a request may fail
BATCH_JOBS = 16
BATCH_BYTES = 4 << 20
THREADS_A_NODE = 4
HEALTH_SECONDS = 10.0
# A server tries a job twice when it fails itself, and others may be before this one.
_MARGIN_SECONDS, _RUNS = 60.0, 2
_TOO_LARGE = 413


class RemoteError(ValueError):
    """No program can be run at that address; the message says why, and what to do."""


class RemoteSandbox:
    """Runs programs on one or several sandbox servers. Safe to call from several threads.

    It keeps no thread and no connection between two calls. What fails on the way is the grader's fault: the request
    goes to another server, or to the same again after a pause, and when it has failed too often the outcome is
    `NO_VERDICT` with the reason. What a server answers is checked and taken for data; its claim of isolation, which
    cannot be checked here, is in `RunResult.level` behind the word `remote`.

    Args:
        addresses: `http://host:port` or `https://host:port`, one or several.
        token: The secret shared with the servers; by default from the environment, see `access_token.read_token`. Over
            `http` anyone on the network can read it: use a network that you trust, a tunnel, or a proxy with `https`.
        attempts: How often a request may fail.

    Raises:
        ValueError: for any other address, or without a token.
    """

    def __init__(self, addresses: Sequence[str], *, token: str | None = None, attempts: int = ATTEMPTS) -> None:
        self._nodes = Nodes(addresses, attempts=attempts)
        self._token = None if token is None else check_token(token, "the argument token")

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run every job; identical ones once. In order; never raises for what a program, or a server, does."""
        distinct = list(dict.fromkeys(jobs))
        batches = list(_batches(distinct, nodes=len(self._nodes.all)))
        threads = THREADS_A_NODE * len(self._nodes.all)
        answers = spread(self._run_batch, batches, threads=threads, cancel=self._nodes.close)
        outcomes: dict[Job, RunResult] = {}
        for batch, answer in zip(batches, answers, strict=True):
            outcomes.update(zip((job for job, _ in batch), answer, strict=True))
        return [outcomes[job] for job in jobs]

    def check(self) -> str:
        """What the servers say that they run programs behind.

        Raises:
            RemoteError: unless a server is ready, and all that answer are of our kind and take the token.
        """
        request = Request(method="GET", path=HEALTH_PATH, headers=self._headers(), seconds=HEALTH_SECONDS)
        down, levels = [], set()
        for node in self._nodes.all:
            try:
                levels.add(_check_health(node.address, self._nodes.ask_node(node, request)))
            except BusyError:  # it is there
                continue
            except RefusedError as error:
                raise RemoteError(_refusal(node.address, error)) from None
            except NodeError as error:
                down.append(str(error))
        if len(down) == len(self._nodes.all):
            raise RemoteError(
                f"No sandbox server answers: {'; '.join(down)}. Start one there with `trl-grpo-ext sandbox-server "
                "--host ADDRESS --port PORT --token-file FILE`, and see that this machine may connect to it."
            )
        for failure in down:
            logger.warning("A sandbox server does not answer, and the others do its work: %s", failure)
        return ", ".join(sorted(levels)) or remote_level("unknown")

    def close(self) -> None:
        """End the requests that are under way; they get no verdict."""
        self._nodes.close()

    def abandon(self) -> None:
        """Nothing: it holds no process, and no connection between two calls."""

    def _run_batch(self, batch: Sequence[tuple[Job, bytes]]) -> list[RunResult]:
        jobs = [job for job, _ in batch]
        try:
            request = Request(
                method="POST",
                path=RUN_PATH,
                body=write_jobs([record for _, record in batch]),
                headers={**self._headers(), "Content-Type": "application/json"},
                seconds=_MARGIN_SECONDS + _RUNS * sum(job.limits.wall_seconds for job in jobs),
                most=answer_bytes(jobs),
            )
            return self._nodes.ask(request, lambda body: _read_answer(body, jobs))
        except RefusedError as error:
            if error.status == _TOO_LARGE and len(batch) > 1:
                half = len(batch) // 2
                return self._run_batch(batch[:half]) + self._run_batch(batch[half:])
            return [no_verdict(str(error))] * len(jobs)
        except (NodeError, ValueError, OSError) as error:  # the latter two: there is no token
            return [no_verdict(str(error))] * len(jobs)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token or read_token()}"}


def _batches(jobs: Sequence[Job], *, nodes: int) -> Iterator[list[tuple[Job, bytes]]]:
    """The jobs in requests of a bounded size, small enough that every node gets some."""
    most = min(BATCH_JOBS, max(1, -(-len(jobs) // (2 * nodes))))
    batch: list[tuple[Job, bytes]] = []
    size = 0
    for job in jobs:
        record = write_job(job)
        if batch and (len(batch) == most or size + len(record) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((job, record))
        size += len(record)
    if batch:
        yield batch


def _read_answer(body: bytes, jobs: Sequence[Job]) -> list[RunResult]:
    outcomes = read_outcomes(body, jobs)
    if all(outcome.ending is Ending.NO_VERDICT for outcome in outcomes):
        # A server that fails fast always has least to do; were it not left to rest, it would get all the work.
        raise NodeError(f"the server gave no verdict: {outcomes[0].detail}")
    return outcomes


def _check_health(address: str, body: bytes) -> str:
    """The isolation that a server claims."""
    try:
        record = read_json(body)
    except WireError:
        record = None
    if not isinstance(record, dict) or record.get("status") != "ok" or not isinstance(record.get("isolation"), str):
        raise RemoteError(f"The server at {address} is not a `trl-grpo-ext sandbox-server`. Check host and port.")
    if record.get("format") != FORMAT:
        raise RemoteError(
            f"The sandbox server at {address} speaks another format of messages than this client. Install the same "
            "version of trl-grpo-ext on both machines."
        )
    if record["isolation"] == "none":
        logger.warning("The sandbox server at %s runs programs WITHOUT ISOLATION (%s).", address, remote_level("none"))
    return remote_level(record["isolation"])


def _refusal(address: str, error: RefusedError) -> str:
    if error.status in (401, 403):
        return f"The sandbox server at {address} does not take this token. {HOW_TO_MAKE_A_TOKEN}"
    return f"The server at {address} is not a `trl-grpo-ext sandbox-server`. Check host and port. ({error})"
