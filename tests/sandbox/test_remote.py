"""The client of sandbox servers, against real servers on this machine: those that work, and those that do not."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trl_grpo_ext.sandbox import nodes, remote
from trl_grpo_ext.sandbox.access_token import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, RunResult, StdioCase, StdioSuite, TestResult, run_result_of
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.remote import RemoteError, RemoteSandbox
from trl_grpo_ext.sandbox.sandbox import remote_sandbox
from trl_grpo_ext.sandbox.server import SandboxServer, Settings
from trl_grpo_ext.workers import processes

TOKEN = "0123456789abcdef-token"
SUITE = CallSuite(tests=("assert f(1) == 2",), names=("f",))
JOBS = [Job(program=f"def f(x): return x + {number}", suite=SUITE) for number in range(40)]

Start = Callable[..., str]


class Telling:
    """A sandbox in which programs that end with `+ 1` pass, and others fail."""

    def __init__(self, ending: Ending = Ending.FAILED, seconds: float = 0.0) -> None:
        self.ran: list[Job] = []
        self._other, self._seconds = ending, seconds

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        time.sleep(self._seconds)
        self.ran += jobs
        return [self._outcome(job) for job in jobs]

    def _outcome(self, job: Job) -> RunResult:
        if self._other is Ending.NO_VERDICT:
            return RunResult(ending=Ending.NO_VERDICT, detail="no space left on device")
        return run_result_of((TestResult(ending=Ending.PASSED if job.program.endswith("+ 1") else self._other),))

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def without_pauses_and_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Retries that are as many as ever, but not as far apart."""
    monkeypatch.setattr(nodes, "_FIRST_PAUSE", 0.01)
    for name in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    yield
    processes.close_shared()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers, gives their addresses, and ends them."""
    servers: list[tuple[Any, threading.Thread]] = []

    def begin(what: Any, **settings: Any) -> str:
        if isinstance(what, type):
            server: Any = ThreadingHTTPServer(("127.0.0.1", 0), what)
        else:
            server = SandboxServer("127.0.0.1", 0, TOKEN, what, Settings(**settings))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield begin
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join(30)


def answering(*bodies: bytes | int, health: bytes = b"{}") -> type[BaseHTTPRequestHandler]:
    """A server that gives these answers, statuses or bodies, one after another, and the last one for ever."""
    left = list(bodies)

    class Handler(BaseHTTPRequestHandler):
        asked = 0

        def do_GET(self) -> None:
            self.answer(health)

        def do_POST(self) -> None:
            type(self).asked += 1
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(left.pop(0) if len(left) > 1 else left[0])

        def answer(self, what: bytes | int) -> None:
            body = what if isinstance(what, bytes) else b'{"error": "because"}'
            self.send_response(200 if isinstance(what, bytes) else what)
            self.send_header("Content-Length", str(len(body)))
            if what == 503:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            pass

    return Handler


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def dead() -> str:
    """An address at which nobody answers."""
    return f"http://127.0.0.1:{free_port()}"


def sandbox(*addresses: str, **options: Any) -> RemoteSandbox:
    return RemoteSandbox(addresses, **{"token": TOKEN, **options})


def endings(found: Sequence[RunResult]) -> list[Ending]:
    return [outcome.ending for outcome in found]


EXPECTED = [Ending.PASSED if number == 1 else Ending.FAILED for number in range(40)]


# --- Servers that work


def test_outcomes_come_in_order_and_identical_jobs_are_run_once(start: Start) -> None:
    there = Telling()
    found = sandbox(start(there)).run([*JOBS, JOBS[1], JOBS[0]])
    assert endings(found) == [*EXPECTED, Ending.PASSED, Ending.FAILED]
    assert len(there.ran) == len(JOBS)
    assert {outcome.level for outcome in found} == {"remote:unknown"}


def test_no_jobs_need_no_server() -> None:
    assert sandbox(dead()).run([]) == []


def test_programs_are_run_by_the_real_sandbox_of_the_other_side(start: Start) -> None:
    try:
        isolation = best_isolation().label
    except ValueError as error:
        pytest.skip(str(error))
    local = LocalSandbox(size=1)
    try:
        there = sandbox(start(local))
        there.check()
        echo = StdioSuite(tests=(StdioCase(stdin="é\n", stdout="é"),))
        jobs = [
            JOBS[1],
            JOBS[2],
            Job(program="import sys; sys.exit(0)", suite=SUITE),
            Job(program="def f(:", suite=SUITE),
            Job(program="print(input())", suite=echo),
            Job(program="x = 1", suite=CallSuite(tests=("assert (",), names=())),
        ]
        found, expected = there.run(jobs), local.run(jobs)
        assert endings(found) == [
            Ending.PASSED,
            Ending.FAILED,
            Ending.ERROR,
            Ending.COMPILE_ERROR,
            Ending.PASSED,
            Ending.BAD_TESTS,
        ]
        assert [(each.ending, each.tests, each.detail) for each in found] == [
            (each.ending, each.tests, each.detail) for each in expected
        ]
        assert {outcome.level for outcome in found} == {f"remote:{isolation}"}
    finally:
        local.close()


def test_several_servers_share_the_work(start: Start) -> None:
    sides = [Telling(seconds=0.05), Telling(seconds=0.05)]
    assert endings(sandbox(*map(start, sides)).run(JOBS)) == EXPECTED
    assert all(side.ran for side in sides)
    assert sum(len(side.ran) for side in sides) == len(JOBS)


def test_requests_that_are_too_large_for_a_server_are_made_smaller(start: Start) -> None:
    jobs = [Job(program="#" * 3000 + each.program, suite=SUITE) for each in JOBS]
    assert endings(sandbox(start(Telling(), max_body_bytes=8000)).run(jobs)) == EXPECTED
    (outcome,) = sandbox(start(Telling(), max_body_bytes=2000)).run(jobs[:1])
    assert outcome.ending is Ending.NO_VERDICT
    assert "413" in outcome.detail


def test_a_sandbox_is_made_once_an_address_and_its_token_comes_from_the_environment(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = start(Telling())
    there = remote_sandbox(address)
    assert remote_sandbox(address) is there
    with pytest.raises(ValueError, match="token_urlsafe"):
        there.check()
    (outcome,) = there.run(JOBS[:1])
    assert outcome.ending is Ending.NO_VERDICT
    assert "token" in outcome.detail
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    there.check()
    assert endings(there.run(JOBS[1:2])) == [Ending.PASSED]


@pytest.mark.parametrize(
    "address",
    [
        "",
        ",",
        "local",
        "cpu-node:8750",
        "ftp://a",
        "http://",
        "http://a:b",
        "http://u:p@a",
        "http://a?x=1",
        "http://a b",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        remote_sandbox(address)


def test_addresses_of_two_kinds_do_not_mix() -> None:
    with pytest.raises(ValueError, match="mix"):
        remote_sandbox("sandboxfusion+http://a:1,http://b:2")


FORKS = """
import os, sys
from trl_grpo_ext.sandbox.job import Job
from trl_grpo_ext.sandbox.sandbox import remote_sandbox
from trl_grpo_ext.sandbox.job import CallSuite
suite = CallSuite(tests=("assert f(1) == 2",), names=("f",))
jobs = [Job(program=f"def f(x): return x + {number}", suite=suite) for number in range(40)]
def passed():
    return [outcome.ending == "passed" for outcome in remote_sandbox(sys.argv[1]).run(jobs)].index(True)
before, kept = passed(), remote_sandbox(sys.argv[1])
child = os.fork()
if child == 0:
    again = kept is not remote_sandbox(sys.argv[1])
    os._exit(0 if passed() == before == 1 and again else 1)
print(before, passed(), os.waitpid(child, 0)[1])
"""


def test_a_forked_child_uses_the_servers_too(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    done = subprocess.run(
        [sys.executable, "-c", FORKS, start(Telling())], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "1 1 0\n", done.stderr


def test_verifiers_hold_the_address_only_and_pickle(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl_grpo_ext.rewards.unit_tests.verifier import UnitTestVerifier

    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    reward = UnitTestVerifier(sandbox=start(Telling()))
    completion, tests = "def f(x):\n    return x + 1", [["assert f(1) == 2"]]
    assert reward([completion], tests=tests) == [1.0]
    assert pickle.loads(pickle.dumps(reward))([completion], tests=tests) == [1.0]
    reward.close()


# --- Servers that do not


def test_a_wrong_token_fails_the_check_and_gives_no_verdict(start: Start) -> None:
    there = sandbox(start(Telling()), token=TOKEN + "-old")
    with pytest.raises(RemoteError, match="does not take this token"):
        there.check()
    (outcome,) = there.run(JOBS[:1])
    assert outcome.ending is Ending.NO_VERDICT
    assert "401" in outcome.detail


def test_nobody_there_fails_the_check_and_gives_no_verdict() -> None:
    there = sandbox(dead())
    with pytest.raises(RemoteError, match="sandbox-server --host"):
        there.check()
    found = there.run(JOBS)
    assert endings(found) == [Ending.NO_VERDICT] * len(JOBS)
    assert "Connection" in found[0].detail


def test_half_of_the_servers_down_is_no_matter(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    there = sandbox(dead(), start(Telling()), dead(), start(Telling()))
    there.check()
    assert "does not answer" in caplog.text
    assert endings(there.run(JOBS)) == EXPECTED


def test_a_server_that_fails_all_jobs_does_not_get_all_the_work(start: Start) -> None:
    broken, fine = Telling(Ending.NO_VERDICT), Telling(seconds=0.02)
    there = sandbox(start(broken), start(fine))
    assert endings(there.run(JOBS)) == EXPECTED
    (outcome,) = sandbox(start(broken)).run(JOBS[:1])
    assert outcome.ending is Ending.NO_VERDICT
    assert "no space left on device" in outcome.detail


RIGHT = {"ending": "passed", "tests": [{"ending": "passed", "detail": ""}], "detail": "", "level": "none"}
RIGHT |= {"seconds": 0.1, "cpu_seconds": 0.1}


def answer(**changes: Any) -> bytes:
    return json.dumps({"format": 1, "isolation": "none", "outcomes": [RIGHT], **changes}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[" * 50_000,
        b"null",
        b"x" * 1_000_000,
        answer(outcomes=[]),
        answer(outcomes=[RIGHT] * 2),
        answer(outcomes=[1.0]),
        answer(outcomes=[{**RIGHT, "ending": 1.0}]),
        answer(outcomes=[{**RIGHT, "seconds": "0"}]),
        answer(outcomes=[{**RIGHT, "tests": []}]),
        answer(outcomes=[{**RIGHT, "tests": [{"ending": True, "detail": ""}]}]),
        answer(outcomes=[{**RIGHT, "score": 1.0}]),
        answer(isolation=None),
        answer(format=2),
    ],
)
def test_an_answer_that_is_none_gives_no_verdict_and_another_server_is_asked(start: Start, body: bytes) -> None:
    lying = answering(body)
    address = start(lying)
    (outcome,) = sandbox(address).run(JOBS[:1])
    assert outcome.ending is Ending.NO_VERDICT
    assert "malformed" in outcome.detail or "more than" in outcome.detail
    assert lying.asked == remote.ATTEMPTS  # type: ignore[attr-defined]
    assert endings(sandbox(address, start(Telling())).run(JOBS[1:2])) == [Ending.PASSED]


def test_a_right_answer_is_taken_and_a_level_that_is_no_level_is_not_shown(start: Start) -> None:
    (outcome,) = sandbox(start(answering(answer(outcomes=[{**RIGHT, "level": "<script>"}])))).run(JOBS[:1])
    assert (outcome.ending, outcome.level) == (Ending.PASSED, "remote:unknown")


@pytest.mark.parametrize("status", [500, 502, 504, 408])
def test_a_failure_is_tried_again_a_bounded_number_of_times(start: Start, status: int) -> None:
    assert endings(sandbox(start(answering(status, status, answer()))).run(JOBS[:1])) == [Ending.PASSED]
    failing = answering(status)
    (outcome,) = sandbox(start(failing)).run(JOBS[:1])
    assert (outcome.ending, f"{status}: because" in outcome.detail) == (Ending.NO_VERDICT, True)
    assert failing.asked == remote.ATTEMPTS  # type: ignore[attr-defined]


def test_a_server_that_is_full_is_asked_again_for_longer_than_one_that_fails(start: Start) -> None:
    full = answering(*[503] * 10, answer())
    assert endings(sandbox(start(full)).run(JOBS[:1])) == [Ending.PASSED]
    assert full.asked == 11  # type: ignore[attr-defined]


def test_many_clients_of_a_small_server_all_get_their_verdicts(start: Start) -> None:
    address = start(Telling(seconds=0.02), max_waiting=1)
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: sandbox(address).run(JOBS[:6]), range(3)))
    assert [endings(each) for each in found] == [EXPECTED[:6]] * 3


def test_a_refusal_is_not_asked_for_again(start: Start) -> None:
    refusing = answering(422)
    (outcome,) = sandbox(start(refusing)).run(JOBS[:1])
    assert (outcome.ending, refusing.asked) == (Ending.NO_VERDICT, 1)  # type: ignore[attr-defined]


def test_a_redirect_is_not_followed(start: Start) -> None:
    there = Telling()
    aim = start(there)

    class Elsewhere(answering(b"")):  # type: ignore[misc]
        def answer(self, what: bytes | int) -> None:
            self.send_response(307)
            self.send_header("Location", f"{aim}/v1/run")
            self.send_header("Content-Length", "0")
            self.end_headers()

    assert endings(sandbox(start(Elsewhere)).run(JOBS[:1])) == [Ending.NO_VERDICT]
    assert not there.ran


def test_a_server_that_never_ends_its_answer_is_given_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_MARGIN_SECONDS", 0.3)
    monkeypatch.setattr(remote, "_RUNS", 0)

    class Trickling(answering(b"")):  # type: ignore[misc]
        def answer(self, what: bytes | int) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.05)
            except OSError:
                return

    (outcome,) = sandbox(start(Trickling), attempts=2).run(JOBS[:1])
    assert outcome.ending is Ending.NO_VERDICT
    assert "no answer within" in outcome.detail or "malformed" in outcome.detail


def test_the_time_to_wait_follows_from_the_limits_of_the_jobs(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_MARGIN_SECONDS", 0.2)
    slow = start(Telling(seconds=1.0))
    assert endings(sandbox(slow).run(JOBS[1:2])) == [Ending.PASSED]  # 5 seconds of limits
    monkeypatch.setattr(remote, "_RUNS", 0)
    (outcome,) = sandbox(slow, attempts=1).run(JOBS[1:2])
    assert (outcome.ending, "no answer within" in outcome.detail) == (Ending.NO_VERDICT, True)


def test_what_is_no_sandbox_server_fails_the_check(start: Start) -> None:
    with pytest.raises(RemoteError, match=r"is not a `trl-grpo-ext sandbox-server`"):
        sandbox(start(answering(b"", health=b'{"pong": true}'))).check()
    health = b'{"status": "ok", "isolation": "none", "format": 2}'
    with pytest.raises(RemoteError, match="same version"):
        sandbox(start(answering(b"", health=health))).check()


def test_closing_ends_what_is_under_way_and_it_can_be_used_again(start: Start) -> None:
    blocked, let_go = threading.Event(), threading.Event()

    class Blocked(Telling):
        def run(self, jobs: Sequence[Job]) -> list[RunResult]:
            blocked.set()
            let_go.wait(60)
            return super().run(jobs)

    there = sandbox(start(Blocked()))
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(there.run, JOBS[:1])
        assert blocked.wait(30)
        there.close()
        (outcome,) = future.result(30)
        assert (outcome.ending, "closed" in outcome.detail) == (Ending.NO_VERDICT, True)
    let_go.set()
    assert endings(there.run(JOBS[1:2])) == [Ending.PASSED]


KILLED = """
import os, sys, time
from trl_grpo_ext.sandbox.server import SandboxServer
class Slow:
    def run(self, jobs):
        os.write(1, b"running\\n")  # whole, whichever thread it is
        time.sleep(600)
    def check(self): pass
    def close(self): pass
server = SandboxServer("127.0.0.1", 0, sys.argv[1], Slow())
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_a_server_that_is_killed_in_the_middle_of_a_request_loses_no_verdict_if_there_is_another(start: Start) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, TOKEN], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{int(process.stdout.readline())}"
        fine = Telling()
        both, alone = sandbox(address, start(fine)), sandbox(address)
        with ThreadPoolExecutor(2) as threads:
            shared, single = threads.submit(both.run, JOBS), threads.submit(alone.run, JOBS[:1])
            lines = [process.stdout.readline() for _ in range(2)]
            process.kill()
            assert lines == ["running\n"] * 2
            assert endings(shared.result(60)) == EXPECTED
            assert endings(single.result(60)) == [Ending.NO_VERDICT]
    finally:
        process.kill()
        process.communicate()
