"""SandboxFusion's `POST /run_code`: one program, what it reads, and what came of it.

https://github.com/bytedance/SandboxFusion, whose documentation calls the answer's `status` `Success` where every
command ended with 0, `Failed` where one did not or took too long, and `SandboxError` where the service itself failed.

No proxy is used and no redirect is followed: programs go to the address that was named, or nowhere.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
import secrets
import ssl
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from trl_grpo_ext.sandbox.job import Ending, Limits, TestResult
from trl_grpo_ext.sandbox.monitor import over_memory
from trl_grpo_ext.workers.processes import spread

ATTEMPTS = 2
START_SECONDS = 1.0  # for an interpreter to start, beyond what the program may take
CONNECT_SECONDS = 10.0
REST_SECONDS = 5.0  # how long a service that has failed is asked only if no other can be
PAUSE_SECONDS, BUSY_SECONDS = 0.4, 1.0  # before a request goes out again: after a failure; to a service that is busy
_COMPILE_SECONDS = 10.0  # unused for Python
_MARGIN_SECONDS = 60.0  # for the request to wait for its turn, there and here
_OWN_MEMORY_MB = 128  # of an interpreter, beyond what the program may take
_ANSWER_BYTES = 16 << 20  # the service keeps 1 MiB of what a program prints
_BUSY = (429, 503)
_NOT_PYTHON = ("SyntaxError", "IndentationError", "TabError")
_SHOWN = 300


class ServiceError(Exception):
    """There is no answer of a service that can be used, or what is asked of it is more than it can do."""


class _BusyError(ServiceError):
    """A service has too much to do."""


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
    """A SandboxFusion service, or several that do the same. Safe to call from several threads.

    Args:
        addresses: `http://host:port`, at least one, without `/run_code`.

    Raises:
        ValueError: for any other address.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = [_checked(address) for address in addresses]
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._busy = Counter[str]()  # requests to each address that are under way
        self._rests_until = dict.fromkeys(self.addresses, 0.0)
        self._under_way: set[asyncio.Task[Any]] = set()

    def run(self, code: str, stdin: str, limits: Limits, seconds: float) -> Run:
        """Run Python code, for so long. A service that is busy is asked again, one that fails `ATTEMPTS` times in all.

        Raises:
            ServiceError: if no service has given an answer that can be used.
        """
        body, seconds = _request(code, stdin, limits, seconds), _MARGIN_SECONDS + seconds
        stop, until, failures = self._stop, time.monotonic() + seconds, 0
        while True:
            address = self._choose()
            try:
                run = self._ask(address, body, seconds, stop)
            except ServiceError as error:
                busy = isinstance(error, _BusyError)
                failures += not busy
                if failures >= ATTEMPTS or stop.is_set() or time.monotonic() > until:
                    raise
                self._rests_until[address] = time.monotonic() + REST_SECONDS
                # At random, so that many who were refused together do not come back together.
                stop.wait((BUSY_SECONDS if busy else PAUSE_SECONDS) * random.uniform(0.5, 1.5))
            else:
                self._rests_until[address] = 0.0
                return run
            finally:
                with self._lock:
                    self._busy[address] -= 1

    def failures(self) -> list[str]:
        """Why each service that cannot run a program cannot."""
        return [why for why in spread(self._failure, self.addresses, threads=len(self.addresses)) if why]

    def close(self) -> None:
        """End the requests that are under way."""
        with self._lock:
            stop, self._stop = self._stop, threading.Event()
            stop.set()
            for task in self._under_way:
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _choose(self) -> str:
        """The address that is best to ask now; it then has one request more."""
        now = time.monotonic()
        with self._lock:
            rank = {each: (self._rests_until[each] > now, self._busy[each], random.random()) for each in self.addresses}
            address = min(self.addresses, key=rank.__getitem__)
            self._busy[address] += 1
            return address

    def _failure(self, address: str) -> str:
        word = secrets.token_hex(8)
        try:
            run = self._ask(address, _request("print(input())", word, Limits(), 5.0), _MARGIN_SECONDS, self._stop)
        except ServiceError as error:
            return str(error)
        return "" if run.stdout.strip() == word else f"{address}: a program that prints a word printed another"

    def _ask(self, address: str, body: bytes, seconds: float, stop: threading.Event) -> Run:
        import httpx

        try:
            status, answer = asyncio.run(self._post(address, body, seconds, stop))
            if status != 200:
                kind = _BusyError if status in _BUSY else ServiceError
                raise kind(f"it answered {status}: {ascii(answer[:_SHOWN])[2:-1] or 'no reason given'}")
            return _read_run(answer)
        except ServiceError as error:
            raise type(error)(f"{address}: {error}") from None
        except asyncio.CancelledError:
            raise ServiceError(f"{address}: closed") from None
        except TimeoutError:
            raise ServiceError(f"{address}: no answer within {seconds:.0f} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise ServiceError(f"{address}: {type(error).__name__}: {error}"[:_SHOWN]) from None

    async def _post(self, address: str, body: bytes, seconds: float, stop: threading.Event) -> tuple[int, bytes]:
        """The status and the body of the answer. Asynchronous, so that it ends in time, however it trickles in."""
        import httpx

        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if stop.is_set():
                raise ServiceError("closed")
            self._under_way.add(task)
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        patience = httpx.Timeout(None, connect=CONNECT_SECONDS)
        answer = b""
        try:
            async with (
                asyncio.timeout(seconds),
                httpx.AsyncClient(trust_env=False, timeout=patience, verify=_tls()) as client,
                client.stream("POST", f"{address}/run_code", content=body, headers=headers) as response,
            ):
                async for chunk in response.aiter_raw():
                    answer += chunk
                    if len(answer) > _ANSWER_BYTES:
                        raise ServiceError(f"it answered with more than {_ANSWER_BYTES} bytes")
            return response.status_code, answer
        finally:
            with self._lock:
                self._under_way.discard(task)


@functools.cache
def _tls() -> ssl.SSLContext:
    """What `https` is checked with; it takes long to load."""
    return ssl.create_default_context()


def _checked(address: str) -> str:
    """The address without a slash at its end; raises a ValueError if it is none."""
    try:
        url = urlsplit(address)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        valid = valid and address.isascii() and address.isprintable() and " " not in address
    except ValueError:
        valid = False
    if not valid or url.username is not None or url.query or url.fragment:
        raise ValueError(f"A SandboxFusion service's address is like http://host:8080, got {address!r}.")
    return address.rstrip("/")


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


def _request(code: str, stdin: str, limits: Limits, seconds: float) -> bytes:
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
    return json.dumps(body, allow_nan=False).encode()


def _read_run(body: bytes) -> Run:
    try:
        record = json.loads(body)
    except (ValueError, RecursionError):  # the message of the error quotes what came
        raise ServiceError("an answer that is not JSON") from None
    if not isinstance(record, dict) or record.get("status") not in ("Success", "Failed", "SandboxError"):
        raise ServiceError("an unknown status")
    if record["status"] == "SandboxError":
        raise ServiceError(f"the service failed: {_text(record, 'message')[-_SHOWN:]}")
    result = record.get("run_result")
    if not isinstance(result, dict) or result.get("status") not in ("Finished", "TimeLimitExceeded"):
        raise ServiceError("no result of a run")
    timed_out = result["status"] == "TimeLimitExceeded"
    code = -1 if timed_out else result.get("return_code")
    if type(code) is not int or not -256 < code < 256:
        raise ServiceError("an impossible return_code")
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
        raise ServiceError(f"a {name} that is not text")
    return found or ""


def _seconds(found: Any) -> float:
    if found is None:
        return 0.0
    if type(found) not in (int, float) or not 0 <= found < 1e9:
        raise ServiceError("an impossible execution_time")
    return float(found)
