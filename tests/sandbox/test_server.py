"""The sandbox server, spoken to over real sockets; most tests with a sandbox that only says what it was given."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from trl_grpo_ext.cli.sandbox_server import run_sandbox_server_command
from trl_grpo_ext.sandbox.access_token import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, read_token
from trl_grpo_ext.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    RunResult,
    StdioCase,
    StdioSuite,
    TestResult,
    run_result_of,
)
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.server import SandboxServer, Settings
from trl_grpo_ext.sandbox.wire_format import FORMAT, read_outcomes, write_job, write_jobs

TOKEN = "0123456789abcdef-token"
CALLS = Job(program="def f(): return 1", suite=CallSuite(tests=("assert f() == 1",) * 2, names=("f",), setup="x = 1"))
CASES = Job(
    program="print('é\ud800')", suite=StdioSuite(tests=(StdioCase(stdin="a", stdout="b"),)), stop_at_first=False
)
MAXIMA = Limits(wall_seconds=60, cpu_seconds=60, memory_mb=1024, processes=64, output_kb=1024, disk_mb=64)


class Passing:
    """A sandbox in which every program passes, once it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.may_end.set()
        self.closed = 0
        self.ran: list[Job] = []

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        self.ran += jobs
        self.may_end.wait(60)
        return [run_result_of((TestResult(ending=Ending.PASSED),) * len(job.suite.tests)) for job in jobs]

    def check(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1
        self.may_end.set()


Start = Callable[..., SandboxServer]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers, and ends them."""
    servers: list[tuple[SandboxServer, threading.Thread]] = []

    def begin(sandbox: Any = None, **settings: Any) -> SandboxServer:
        server = SandboxServer("127.0.0.1", 0, TOKEN, sandbox or Passing(), Settings(**settings))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        servers.append((server, thread))
        return server

    yield begin
    for server, thread in servers:
        if not server.stopping.is_set():
            server.stop()
        thread.join(30)
        assert not thread.is_alive()


def ask(
    server: SandboxServer,
    body: bytes = b"",
    method: str = "POST",
    path: str = "/v1/run",
    token: str = TOKEN,
    **headers: str,
) -> tuple[int, dict[str, Any], HTTPResponse]:
    """The status, the JSON and the rest of an answer."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path, body or None, {"Authorization": f"Bearer {token}", **headers})
        response = connection.getresponse()
        return response.status, json.loads(response.read()), response
    finally:
        connection.close()


def raw(server: SandboxServer, sent: bytes) -> bytes:
    """What the server says to these bytes, until it hangs up."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        connection.sendall(sent)
        said = b""
        while part := connection.recv(1 << 16):
            said += part
        return said


def request(*jobs: Job) -> bytes:
    return write_jobs([write_job(job) for job in jobs])


# --- The token


def test_a_token_comes_from_a_file_or_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_FILE_VARIABLE, raising=False)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert read_token(str(tmp_path / "token")) == TOKEN
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "token"))
    assert read_token() == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN + "2")
    assert read_token() == TOKEN + "2"


@pytest.mark.parametrize(
    "token", ["", "short", "a token with spaces in it", "snowmen ☃☃☃☃☃☃☃☃☃☃☃☃☃☃☃", "line\nanother line here"]
)
def test_a_server_does_not_start_with_what_is_no_token(token: str) -> None:
    with pytest.raises(ValueError, match="token_urlsafe"):
        SandboxServer("127.0.0.1", 0, token, Passing())


def test_the_command_without_a_token_says_how_to_make_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_FILE_VARIABLE, raising=False)
    assert run_sandbox_server_command(argparse.Namespace(flags=[])) == 2
    assert "secrets.token_urlsafe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xe9"]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/health"), ("POST", "/v1/run"), ("GET", "/other")])
def test_nothing_is_answered_without_the_token(start: Start, header: str, method: str, path: str) -> None:
    sandbox = Passing()
    status, found, _ = ask(start(sandbox), request(CALLS), method, path, Authorization=header)
    assert (status, found) == (401, {"error": "no token, or another than the server's"})
    assert not sandbox.ran


# --- Requests


def test_jobs_are_run_and_health_says_what_the_server_is(start: Start) -> None:
    server = start()
    status, found, _ = ask(server, request(CALLS, CASES))
    assert status == 200
    assert [each["ending"] for each in found["outcomes"]] == ["passed", "passed"]
    status, found, _ = ask(server, method="GET", path="/v1/health")
    assert status == 200
    assert (found["status"], found["format"], found["isolation"]) == ("ok", FORMAT, "unknown")
    assert found["maxima"] == Settings().maxima.to_record()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/run", 404), ("POST", "/v1/health", 404), ("POST", "/", 404), ("PUT", "/v1/run", 501)],
)
def test_another_path_or_method_is_refused_as_json(start: Start, method: str, path: str, status: int) -> None:
    found, body, _ = ask(start(), b"{}", method, path)
    assert found == status
    assert body["error"]


def test_a_body_that_is_too_long_is_refused_before_it_is_read(start: Start) -> None:
    server = start(max_body_bytes=1000)
    status, found, _ = ask(server, b"x" * 5_000_000)
    assert status == 413
    assert "1000" in found["error"]
    head = f"POST /v1/run HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {10**15}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("body", [b"garbage", b"[]", b'{"format":1,"jobs":[{}]}', b"[" * 50_000, b"\x80\x04pickle."])
def test_garbage_is_refused_as_json_and_the_server_goes_on(start: Start, body: bytes) -> None:
    server = start()
    status, found, _ = ask(server, body)
    assert status == 400
    assert found["error"]
    assert ask(server, request(CALLS))[0] == 200


def test_too_many_jobs_and_too_high_limits_are_refused_with_the_number(start: Start) -> None:
    server = start(max_jobs=2, maxima=MAXIMA)
    status, found, _ = ask(server, request(CALLS, CALLS, CALLS))
    assert (status, found["error"]) == (400, "3 jobs in one request; this server takes 2")
    status, found, _ = ask(server, request(replace(CALLS, limits=Limits(wall_seconds=61))))
    assert (status, found["error"]) == (422, "a job asks for wall_seconds=61; this server gives 60 at most")


@pytest.mark.parametrize(
    "headers",
    ["", "Content-Length: -1\r\n", "Content-Length: x\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"],
)
def test_a_request_needs_one_length(start: Start, headers: str) -> None:
    said = raw(start(), f"POST /v1/run HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\r\n".encode())
    assert said.startswith(b"HTTP/1.1 411 ")


def test_a_client_that_trickles_is_cut_off(start: Start) -> None:
    server = start(read_seconds=0.6)
    head = f"POST /v1/run HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        connection.sendall(head)
        for _ in range(200):  # each byte well within the time, all of them not
            try:
                connection.sendall(b" ")
            except OSError:
                break
            time.sleep(0.05)
            if select_readable(connection):
                break
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
    assert raw(server, b"POST /v1/run HT") == b""


def select_readable(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(30)


def test_a_server_with_too_much_to_do_says_so_and_when_to_come_back(start: Start) -> None:
    sandbox = Passing()
    sandbox.may_end.clear()
    server = start(sandbox, max_waiting=1)
    first: list[int] = []
    thread = threading.Thread(target=lambda: first.append(ask(server, request(CALLS))[0]))
    thread.start()
    while not sandbox.ran:
        time.sleep(0.01)
    status, found, response = ask(server, request(CALLS))
    assert (status, found["error"]) == (503, "the server has too much to do")
    assert response.headers["Retry-After"].isdigit()
    assert ask(server, method="GET", path="/v1/health")[0] == 200
    sandbox.may_end.set()
    thread.join(30)
    assert first == [200]
    assert ask(server, request(CALLS))[0] == 200


def test_connections_are_bounded_and_free_again_when_they_are_closed(start: Start) -> None:
    server = start(max_connections=2)
    held = [socket.create_connection(("127.0.0.1", server.server_port), timeout=30) for _ in range(2)]
    assert b"too many connections" in raw(server, b"")
    for connection in held:
        connection.close()
    until = time.monotonic() + 30
    while not (answered := is_answered(server)) and time.monotonic() < until:
        time.sleep(0.02)
    assert answered


def is_answered(server: SandboxServer) -> bool:
    try:
        return ask(server, request(CALLS))[0] == 200
    except ConnectionError:  # turned away before it had said all
        return False


def test_a_sandbox_that_raises_gives_no_word_of_the_program_away(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Passing):
        def run(self, jobs: Sequence[Job]) -> list[RunResult]:
            raise RuntimeError(jobs[0].program)

    with caplog.at_level(logging.DEBUG):
        status, found, _ = ask(start(Broken()), request(CALLS))
    assert (status, found) == (500, {"error": "the sandbox failed: RuntimeError"})
    assert "def f" not in caplog.text


def test_the_log_has_one_line_a_request_and_neither_token_nor_program(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = start()
    with caplog.at_level(logging.DEBUG):
        ask(server, request(CALLS))
        ask(server, request(CALLS), path=f"/v1/run?token={TOKEN}")
        raw(server, f"GET {TOKEN} {TOKEN} {TOKEN}\r\n\r\n".encode())
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(", ")[0] for line in lines] == [
        "127.0.0.1 POST /v1/run 200",
        "127.0.0.1 POST ? 404",
        "127.0.0.1 ? ? 400",
    ]
    assert TOKEN not in caplog.text
    assert "def f" not in caplog.text


def test_stopping_answers_what_is_under_way_and_takes_no_more(start: Start) -> None:
    sandbox = Passing()
    sandbox.may_end.clear()
    server = start(sandbox)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(ask(server, request(CALLS))[0]))
    thread.start()
    while not sandbox.ran:
        time.sleep(0.01)
    server.stop()
    thread.join(30)
    assert found == [200]
    assert sandbox.closed
    with pytest.raises(OSError, match=r"."):
        ask(server, request(CALLS))


# --- The command, with the real sandbox

COMMAND = """
import argparse, sys
from trl_grpo_ext.cli.sandbox_server import run_sandbox_server_command
sys.exit(run_sandbox_server_command(argparse.Namespace(flags=sys.argv[1:])))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_runs_programs_and_leaves_no_process_when_it_is_told_to_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    try:
        isolation = best_isolation().label
    except ValueError as error:
        pytest.skip(str(error))
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    flags = ["--port", "0", "--token-file", str(token), "--workers", "1", "--max-seconds", "10"]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *flags], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert isolation in line
        port = int(line.split("http://127.0.0.1:")[1].split(",")[0])
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        jobs = (CALLS, replace(CALLS, program="import sys; sys.exit(0)"))
        connection.request("POST", "/v1/run", request(*jobs), {"Authorization": f"Bearer {TOKEN}"})
        found = read_outcomes(connection.getresponse().read(), jobs)
        connection.close()
        assert [outcome.ending for outcome in found] == [Ending.PASSED, Ending.ERROR]
        assert found[0].level == f"remote:{isolation}"
        children = descendants(process.pid)
        assert children
        process.send_signal(number)
        rest = process.communicate(timeout=60)[1]
        assert process.returncode == 0
        assert f"{number.name}: the server ends" in rest
        until = time.monotonic() + 30
        while any(is_alive(child) for child in children) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(is_alive(child) for child in children)
    finally:
        process.kill()
        process.wait()


def descendants(pid: int) -> list[int]:
    found = [int(child) for each in Path(f"/proc/{pid}/task").glob("*/children") for child in each.read_text().split()]
    return found + [each for child in found for each in descendants(child)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
