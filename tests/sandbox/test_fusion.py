"""The SandboxFusion adapter, against a stand-in that speaks the documented API and runs programs in our own jail."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trl_grpo_ext.sandbox import fusion, fusion_calls, fusion_service, monitor
from trl_grpo_ext.sandbox.fusion import FusionError, FusionSandbox
from trl_grpo_ext.sandbox.isolation import IsolationError
from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, RunResult, StdioCase, StdioSuite
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.sandbox.monitor import LimitError
from trl_grpo_ext.sandbox.probe import best_isolation
from trl_grpo_ext.sandbox.sandbox import fusion_sandbox
from trl_grpo_ext.sandbox.stdio_run import jailed, talk
from trl_grpo_ext.sandbox.zygote import Zygote

LIMITS = Limits(wall_seconds=10, cpu_seconds=10)


class StandIn:
    """Runs programs in a jail of this machine, and says what came of them as SandboxFusion does."""

    def __init__(self) -> None:
        self._zygote = Zygote(best_isolation())
        self._lock = threading.Lock()
        self.asked: list[dict[str, Any]] = []

    def run_code(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        with self._lock:
            result = self._run(body["code"], body["stdin"], body["run_timeout"], body["memory_limit_MB"])
        fine = result["status"] == "Finished" and result["return_code"] == 0
        return response("Success" if fine else "Failed", result)

    def _run(self, code: str, stdin: str, seconds: float, memory_mb: int) -> dict[str, Any]:
        limits = Limits(wall_seconds=seconds, cpu_seconds=seconds, memory_mb=memory_mb, output_kb=1024)
        case = StdioCase(stdin=stdin, stdout="")
        with jailed(self._zygote, code, limits) as (program, watch, ends):
            watch.start(seconds)
            try:
                printed, errors = talk(self._zygote, program, watch, case, ends, limits)
            except LimitError:
                return {"status": "TimeLimitExceeded", "execution_time": seconds, "stdout": "", "stderr": ""}
            status = os.waitstatus_to_exitcode(self._zygote.exits[program].status)
            return finished(printed.decode(), errors.decode(), status if status < 100 else 1)

    def close(self) -> None:
        self._zygote.kill()


def finished(stdout: str, stderr: str = "", code: int = 0) -> dict[str, Any]:
    return {"status": "Finished", "execution_time": 0.03, "return_code": code, "stdout": stdout, "stderr": stderr}


def response(status: str, result: dict[str, Any] | None, message: str = "") -> dict[str, Any]:
    both = {"compile_result": None, "run_result": result, "executor_pod_name": None, "files": {}}
    return {"status": status, "message": message, **both}


Answer = Callable[[dict[str, Any]], Any]


def handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    """What gives this answer: a dict, bytes, or a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = answer(body) if self.path == "/run_code" else 404
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(found if isinstance(found, int) else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            pass

    return Handler


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    try:
        best_isolation()
    except IsolationError as error:
        pytest.skip(str(error))
    there = StandIn()
    yield there
    there.close()


@pytest.fixture(scope="module")
def there(stand_in: StandIn) -> Iterator[FusionSandbox]:
    """The adapter to the stand-in."""
    with serving(stand_in.run_code) as address:
        sandbox = FusionSandbox([address], parallel=1)
        yield sandbox
        sandbox.close()


class serving:  # noqa: N801 - a context manager
    """Serves an answer at an address of this machine."""

    def __init__(self, answer: Answer) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(answer))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_service, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(fusion_service, "BUSY_SECONDS", 0.01)


def calls(program: str, *tests: str, names: str = "", setup: str = "", stop_at_first: bool = False) -> Job:
    suite = CallSuite(tests=tests, names=tuple(names.split()), setup=setup)
    return Job(program=program, suite=suite, limits=LIMITS, stop_at_first=stop_at_first)


def cases(program: str, *pairs: tuple[str, str], stop_at_first: bool = False, limits: Limits = LIMITS) -> Job:
    tests = tuple(StdioCase(stdin=stdin, stdout=stdout) for stdin, stdout in pairs)
    return Job(program=program, suite=StdioSuite(tests=tests), limits=limits, stop_at_first=stop_at_first)


def endings(outcome: RunResult) -> list[str]:
    return [str(test.ending) for test in outcome.tests]


def one(sandbox: FusionSandbox, job: Job) -> RunResult:
    (outcome,) = sandbox.run([job])
    return outcome


# --- Programs that read and print


def test_what_a_program_prints_is_compared_here_and_the_service_never_sees_what_is_expected(
    there: FusionSandbox, stand_in: StandIn
) -> None:
    stand_in.asked.clear()
    outcome = one(there, cases("print(int(input()) + 1)", ("1\n", "2\n"), ("2\n", "3"), ("3", "5"), ("x", "SECRET")))
    assert endings(outcome) == ["passed", "passed", "failed", "error"]
    assert outcome.tests[2].detail == "line 1: got '4', expected '5'"
    assert outcome.tests[3].detail.startswith("ValueError: invalid literal")
    assert outcome.level == "remote:sandboxfusion"
    assert "SECRET" not in json.dumps(stand_in.asked)
    assert stand_in.asked[0] == {
        "code": "print(int(input()) + 1)",
        "language": "python",
        "stdin": "1\n",
        "compile_timeout": 10.0,
        "run_timeout": 11.0,
        "memory_limit_MB": 640,
        "files": {},
        "fetch_files": [],
    }


def test_a_run_stops_at_the_first_case_that_fails_if_told_to(there: FusionSandbox, stand_in: StandIn) -> None:
    stand_in.asked.clear()
    outcome = one(there, cases("print(1)", ("", "1"), ("", "2"), ("", "1"), stop_at_first=True))
    assert endings(outcome) == ["passed", "failed", "not_run"]
    assert len(stand_in.asked) == 2


def test_a_program_that_takes_too_long_times_out(there: FusionSandbox) -> None:
    limits = Limits(wall_seconds=0.2, cpu_seconds=5)
    outcome = one(there, cases("while True: pass", ("", "1"), ("", "2"), limits=limits))
    assert endings(outcome) == ["timeout", "timeout"]


def test_a_program_that_is_no_text_has_no_place_to_go(there: FusionSandbox) -> None:
    assert endings(one(there, cases("x = '\ud800'", ("", "1")))) == ["compile_error"]
    assert endings(one(there, calls("x = '\ud800'", "assert x", names="x"))) == ["compile_error"]


@pytest.mark.parametrize(
    ("result", "ending"),
    [
        (finished("1"), "passed"),
        (finished("1", code=3), "error"),
        (finished("1", "  File 'x.py', line 1\nSyntaxError: invalid syntax", 1), "compile_error"),
        (finished("", "Traceback (most recent call last):\nSyntaxError: raised", 1), "error"),
        (finished("", "Traceback (most recent call last):\nMemoryError", 1), "memory"),
        (finished("1", code=-9), "killed"),
        (finished("1", code=137), "killed"),
        (finished("1\n" * 200_000), "output_limit"),
        ({"status": "TimeLimitExceeded", "execution_time": None, "return_code": None, "stdout": "1"}, "timeout"),
    ],
)
def test_each_result_of_a_run_is_an_ending(result: dict[str, Any], ending: str) -> None:
    with serving(lambda _: response("Failed", result)) as address:
        assert endings(one(FusionSandbox([address]), cases("x", ("", "1")))) == [ending]


def test_output_that_the_service_has_lost_is_asked_for_again() -> None:
    left = [finished("1\n"), finished("1\n2\n")]
    with serving(lambda _: response("Success", left.pop(0))) as address:
        assert endings(one(FusionSandbox([address]), cases("x", ("", "1\n2\n")))) == ["passed"]


@pytest.mark.parametrize(
    "answer",
    [
        response("SandboxError", None, "no space left on device"),
        response("SandboxError", {"status": "Error"}),
        response("Success", None),
        response("Success", {**finished("1"), "return_code": "0"}),
        response("Success", {**finished("1"), "return_code": None}),
        response("Success", {**finished("1"), "stdout": 1}),
        response("Success", {**finished("1"), "execution_time": "1"}),
        response("Success", {**finished("1"), "status": "Fine"}),
        response("Won", finished("1")),
        b"<html>",
        b"",
        b"[]",
        500,
        502,
    ],
)
def test_a_service_that_fails_or_talks_nonsense_is_asked_twice_and_then_there_is_no_verdict(answer: Any) -> None:
    asked: list[dict[str, Any]] = []
    with serving(lambda body: asked.append(body) or answer) as address:
        for job in (cases("x", ("", "1")), calls("x = 1", "assert x == 1", names="x")):
            asked.clear()
            sandbox = FusionSandbox([address])
            outcome = one(sandbox, job)
            sandbox.close()
            assert (outcome.ending, outcome.tests, bool(outcome.detail)) == (Ending.NO_VERDICT, (), True)
            assert len(asked) == 2


def test_a_service_that_fails_once_is_forgiven() -> None:
    left = [response("SandboxError", None, "busy"), response("Success", finished("1"))]
    with serving(lambda _: left.pop(0)) as address:
        assert endings(one(FusionSandbox([address]), cases("x", ("", "1")))) == ["passed"]


def test_a_check_runs_a_program_by_effect(there: FusionSandbox) -> None:
    there.check()
    with serving(lambda _: response("Success", finished("something"))) as address, pytest.raises(FusionError):
        FusionSandbox([address]).check()
    with serving(lambda _: 404) as address, pytest.raises(FusionError, match="404"):
        FusionSandbox([address]).check()
    assert isinstance(fusion_sandbox("sandboxfusion+http://127.0.0.1:9"), FusionSandbox)


# --- The way to the service


def test_several_services_share_the_work_and_one_that_is_down_is_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[int] = []

    def answer(number: int) -> Answer:
        return lambda body: asked.append(number) or response("Success", finished(json.dumps(body["stdin"])))

    jobs = [cases("x", (str(number), f'"{number}"')) for number in range(40)]
    with serving(answer(1)) as one_there, serving(answer(2)) as other:
        sandbox = FusionSandbox([one_there, other, nowhere()])
        assert [outcome.ending for outcome in sandbox.run(jobs)] == [Ending.PASSED] * 40
    assert set(asked) == {1, 2}
    with serving(lambda body: response("Success", finished(body["stdin"]))) as address:
        FusionSandbox([nowhere(), address]).check()
        assert "A SandboxFusion service fails" in caplog.text


def nowhere() -> str:
    """An address at which nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_nobody_there_fails_the_check_and_gives_no_verdict() -> None:
    sandbox = FusionSandbox([nowhere()])
    with pytest.raises(FusionError, match=r"No SandboxFusion service runs a program: http://127\.0"):
        sandbox.check()
    assert one(sandbox, cases("x", ("", "1"))).ending is Ending.NO_VERDICT


def test_a_service_that_is_busy_is_asked_again_for_longer_than_one_that_fails() -> None:
    left: list[Any] = [503, 429, 503, response("Success", finished("1"))]
    with serving(lambda _: left.pop(0)) as address:
        assert endings(one(FusionSandbox([address]), cases("x", ("", "1")))) == ["passed"]


def test_too_long_an_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_service, "_ANSWER_BYTES", 1000)
    with serving(lambda _: response("Success", finished("1" * 2000))) as address:
        outcome = one(FusionSandbox([address]), cases("x", ("", "1")))
    assert (outcome.ending, "more than 1000 bytes" in outcome.detail) == (Ending.NO_VERDICT, True)


def test_a_redirect_is_not_followed() -> None:
    goes = "HTTP/1.1 307 Go\r\nLocation: {}/run_code\r\nContent-Length: 0\r\n\r\n"
    with serving(lambda _: response("Success", finished("1"))) as elsewhere, raw(goes.format(elsewhere)) as address:
        outcome = one(FusionSandbox([address]), cases("x", ("", "1")))
    assert (outcome.ending, "307" in outcome.detail) == (Ending.NO_VERDICT, True)


@pytest.mark.parametrize("head", ["HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_trickles_in_is_given_up_in_time(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_service, "_MARGIN_SECONDS", 0.5)
    limits = Limits(wall_seconds=0.5)
    with raw(head, trickles=True) as address:
        began = time.monotonic()
        outcome = one(FusionSandbox([address]), cases("x", ("", "1"), limits=limits))
    assert (outcome.ending, "no answer within 1 s" in outcome.detail) == (Ending.NO_VERDICT, True)
    assert time.monotonic() - began < 30


def test_closing_ends_what_is_under_way_and_it_can_be_used_again() -> None:
    with raw("", trickles=True) as address:
        sandbox = FusionSandbox([address])
        threading.Timer(0.3, sandbox.close).start()
        began = time.monotonic()
        outcome = one(sandbox, cases("x", ("", "1")))
    assert (outcome.ending, "closed" in outcome.detail) == (Ending.NO_VERDICT, True)
    assert time.monotonic() - began < 30
    assert one(sandbox, cases("x", ("", "1"))).detail.startswith("http://127.0.0.1")


@contextlib.contextmanager
def raw(head: str, *, trickles: bool = False) -> Iterator[str]:
    """An address that answers with this text, and then, if it trickles, with a byte now and then."""
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(head.encode())
            while trickles and not ended.wait(0.05):
                connection.sendall(b"x" if head else b"")

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)


@pytest.mark.parametrize("address", ["", "host:8080", "ftp://host", "http://", "http://user@host", "http://host?x=1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address is like http://host:8080"):
        FusionSandbox([address])


# --- Programs that are called

PROGRAMS: Sequence[tuple[str, Job]] = [
    ("plain", calls("def f(x): return x + 1", "assert f(1) == 2", "assert f(1) == 3", "f('a')", "g(1)", names="f g")),
    ("does not load", calls("import sys; sys.exit(0)", "assert f(1) == 2", "assert True", names="f")),
    ("no python", calls("def f(:", "assert f(1) == 2", names="f")),
    ("bad tests", calls("def f(): return 1", "assert (", names="f")),
    ("exits in a call", calls("def f(): import os; os._exit(0)", "assert f() == 1", "assert f() == 1", names="f")),
    ("exits with 7", calls("def f(): import os; os._exit(7)", "assert f() == 1", names="f", stop_at_first=True)),
    (
        "equals all",
        calls("class E:\n def __eq__(s, o): return True\ndef f(): return E()", "assert f() == 1", names="f"),
    ),
    ("changes", calls("def f(x): x.append(1)", "a = []\nf(a)\nassert a == [1]\nf(a)\nassert a == [1, 1]", names="f")),
    (
        "keeps state",
        calls(
            "class S:\n def __init__(s): s.x = []\n def push(s, v): s.x.append(v)\n def pop(s): return s.x.pop()",
            "s = S()\ns.push(1)\ns.push('é')\nassert s.pop() == 'é'\nassert s.pop() == 1",
            "s = S()\ntry:\n    s.pop()\nexcept IndexError:\n    pass\nelse:\n    assert False",
            names="S",
        ),
    ),
    (
        "generator",
        calls("def f():\n yield 1\n yield 2", "assert list(f()) == [1, 2]", "assert next(f()) == 1", names="f"),
    ),
    ("callback", calls("def f(g, x): return g(g(x))", "assert f(lambda x: x * 3, 2) == 18", names="f")),
    (
        "callback that raises",
        calls(
            "def f(g):\n try:\n  return g()\n except ValueError as e:\n  return str(e)",
            "def g(): raise ValueError('no')\nassert f(g) == 'no'",
            names="f",
        ),
    ),
    ("setup", calls("def f(x): return -x", "check(f)", setup="def check(c):\n    assert c(2) == -2", names="f")),
    ("large", calls("def f(): return list(range(20000))", "assert f() == list(range(20000))", names="f")),
    ("prints", calls("print('x')\ndef f():\n print('y')\n return 1", "assert f() == 1", names="f")),
    ("raises its own", calls("class E(Exception): pass\ndef f(): raise E('why')", "f()", names="f")),
]


@pytest.fixture(scope="module")
def local() -> Iterator[LocalSandbox]:
    sandbox = LocalSandbox(size=1)
    yield sandbox
    sandbox.close()


@pytest.mark.parametrize(("job"), [job for _, job in PROGRAMS], ids=[name for name, _ in PROGRAMS])
def test_a_called_program_gets_the_verdict_that_it_gets_on_this_machine(
    there: FusionSandbox, local: LocalSandbox, job: Job
) -> None:
    (expected,) = local.run([job])
    found = one(there, job)
    assert (found.ending, endings(found)) == (expected.ending, endings(expected))
    assert found.tests == expected.tests
    assert found.detail == expected.detail or found.ending is Ending.BAD_TESTS


def test_the_tests_and_what_they_expect_never_reach_the_service(there: FusionSandbox, stand_in: StandIn) -> None:
    stand_in.asked.clear()
    outcome = one(there, calls("def f(x): return x", "assert f(1) == 'SECRET'", names="f"))
    assert endings(outcome) == ["failed"]
    assert "SECRET" not in json.dumps(stand_in.asked)
    assert len(stand_in.asked) == 3  # is it loaded, what are the names, the call


def test_a_call_that_takes_too_long_times_out_and_one_that_takes_too_much_memory_fails(there: FusionSandbox) -> None:
    limits = Limits(wall_seconds=0.5, cpu_seconds=5, memory_mb=64)
    suite = CallSuite(tests=("assert f(1) == 1", "assert f(2) == 2"), names=("f",))
    program = "def f(x):\n    while x == 2: pass\n    return x"
    assert endings(one(there, Job(program=program, suite=suite, limits=limits))) == ["passed", "timeout"]
    limits = Limits(wall_seconds=10, cpu_seconds=10, memory_mb=64)
    program = "def f(x): return len(bytearray(x << 30))"
    assert endings(one(there, Job(program=program, suite=suite, limits=limits))) == ["memory", "not_run"]


FORGERIES = {
    "says that it was loaded": {"loaded": True},
    "is no object": [1],
    "has another number": {"id": 7, "value": 2},
    "has no value": {"id": 0},
    "claims to be a test's": {"test": 0, "ending": "passed", "detail": ""},
}


@pytest.mark.parametrize("forged", list(FORGERIES.values()), ids=list(FORGERIES))
def test_a_program_that_speaks_for_the_driver_is_taken_at_its_word_and_no_more(
    there: FusionSandbox, forged: Any
) -> None:
    # It finds the marker and the way out in the frames above it, and answers every request with the same.
    program = (
        "import sys, json, zlib, base64, os\n"
        "frame = sys._getframe()\n"
        "while 'order' not in frame.f_locals: frame = frame.f_back\n"
        "order, out = frame.f_locals['order'], frame.f_locals['out']\n"
        f"said = {{'loaded': True}} if not order['messages'] else json.loads({json.dumps(forged)!r})\n"
        "text = base64.b64encode(zlib.compress(json.dumps(said).encode())).decode()\n"
        "os.write(out, (order['marker'] + text + order['marker']).encode())\n"
        "os._exit(0)\n"
    )
    outcome = one(there, calls(program, "assert f(1) == 2", names="f", stop_at_first=True))
    assert endings(outcome) == ["protocol"]


@pytest.mark.parametrize("text", ["", "?", "AAAA", "!!"])
def test_an_answer_that_cannot_be_unpacked_ends_the_run_as_the_programs_fault(text: str) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        marker = json.loads(body["stdin"])["marker"]
        return response("Success", finished(f"noise{marker}{text}{marker}noise"))

    with serving(answer) as address:
        sandbox = FusionSandbox([address])
        outcome = one(sandbox, calls("x = 1", "assert x == 1", names="x"))
        sandbox.close()
    assert endings(outcome) == ["protocol"]


def test_too_many_requests_have_no_verdict_and_too_long_an_answer_is_the_programs_doing(
    there: FusionSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion_calls, "MAX_REQUESTS", 4)
    outcome = one(there, calls("def f(x): return x", *["assert f(1) == 1"] * 5, names="f"))
    assert (outcome.ending, outcome.tests) == (Ending.NO_VERDICT, ())
    assert "more than 4 times" in outcome.detail
    outcome = one(there, calls("import random\ndef f(): return random.randbytes(200000)", "f()", names="f"))
    assert outcome.ending is Ending.PROTOCOL


def test_a_judge_whose_jail_is_not_up_in_time_says_nothing_of_the_program(
    there: FusionSandbox, local: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "READY_SECONDS", 0.0)
    for sandbox in (there, local):
        (outcome,) = sandbox.run([calls("def f(x): return x", "assert f(1) == 1", names="f")])
        assert (outcome.ending, "not up in time" in outcome.detail) == (Ending.NO_VERDICT, True)


def test_the_judge_works_without_walls_of_this_machine_too(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise IsolationError("no walls")

    monkeypatch.setattr(fusion, "best_isolation", none)
    with serving(stand_in.run_code) as address:
        sandbox = FusionSandbox([address])
        outcome = one(sandbox, calls("def f(x): return x", "assert f(1) == 1", "assert f(1) == 2", names="f"))
        sandbox.close()
    assert endings(outcome) == ["passed", "failed"]


def test_the_driver_is_python_3_10_which_the_service_has() -> None:
    ast.parse(fusion_calls.driver(), feature_version=(3, 10))
    sources: dict[str, str] = {}
    fusion_calls._collect(fusion_calls._MAIN, sources)
    for source in sources.values():
        ast.parse(source, feature_version=(3, 10))
    order = {"program": "def f(): return 5", "messages": [{"id": 0, "do": "names", "values": ["f"]}], "marker": "MARK"}
    code = "import builtins; del builtins.BaseExceptionGroup, builtins.ExceptionGroup\n" + fusion_calls.driver()
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=json.dumps({**order, "most": 10_000}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    _, text, _ = done.stdout.split("MARK")
    assert json.loads(fusion_calls._unpack(text))["value"][0][0]["handle"][2] == "f"
