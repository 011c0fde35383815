"""Worker processes: deadlines, kills, blame, and leftovers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
from child_processes import command_of
from isolated_verifiers import in_worker
from places import HARNESS, ROOT

from trl_grpo_ext import Blame, Status
from trl_grpo_ext.rewards import JsonVerifier
from trl_grpo_ext.workers.call import Call, Failure
from trl_grpo_ext.workers.pool import WorkerPool, close_workers, shared_pool
from trl_grpo_ext.workers.processes import spread
from trl_grpo_ext.workers.worker import Worker

SQRT, SLEEP = "math:sqrt", "time:sleep"


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(size=2)
    yield pool
    pool.close()


def workers_of(pid: int) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(pid).children(recursive=True)
        if "trl_grpo_ext.workers.worker_main" in command_of(child)
    ]


def wait_until(condition: object, seconds: float = 20.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_outcomes_come_in_the_order_of_the_calls(pool: WorkerPool) -> None:
    outcomes = pool.run(
        [Call(target=SQRT, arguments=(n * n,)) for n in range(20)], timeout=5.0
    )
    assert [outcome.value for outcome in outcomes] == list(range(20))


@pytest.mark.usefixtures("any_cpu_counts")
def test_an_endless_loop_is_killed_and_is_the_answers_fault() -> None:
    verdicts = in_worker.judge(["right", "spin", "wrong"])
    assert [verdict.status for verdict in verdicts] == [
        Status.CORRECT,
        Status.TIMEOUT,
        Status.INCORRECT,
    ]
    assert (verdicts[1].score, verdicts[1].blame) == (0.0, Blame.POLICY)
    assert verdicts[1].seconds >= 1.0


def test_a_verifier_that_waits_is_a_timeout_and_no_fault_of_the_answer_or_the_machine() -> (
    None
):
    (verdict,) = in_worker.judge(["sleep"])
    assert (verdict.status, verdict.score, verdict.blame) == (
        Status.TIMEOUT,
        None,
        Blame.GRADER,
    )
    assert verdict.reason == "timeout_waiting"


@contextmanager
def a_core_shared_with(count: int) -> Iterator[None]:
    """Pin all workers, and `count` busy processes, to one core."""
    core = sorted(os.sched_getaffinity(0))[:1]
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)
    ]
    try:
        for process in (*spinning, *workers_of(os.getpid())):
            os.sched_setaffinity(process.pid, core)
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
        # The workers pinned to one core must not serve later tests.
        close_workers()


@pytest.mark.slow
def test_a_verifier_that_others_leave_no_cpu_is_starved_even_beside_one_that_waits() -> (
    None
):
    in_worker(["right", "right"])  # so that they have been started
    with a_core_shared_with(3):
        verdicts = in_worker.judge(["spin", "sleep"])
    assert [verdict.reason for verdict in verdicts] == ["worker_starved", "timeout_waiting"]


@pytest.mark.slow
def test_a_schema_s_bound_of_processor_time_is_the_answer_s_fault_also_where_others_leave_it_little() -> (
    None
):
    verifier = JsonVerifier(schema={"pattern": "^(a+)+$"}, root="any")
    assert verifier(['"a"']) == [1.0]  # so that a worker has been started
    with a_core_shared_with(3):
        (verdict,) = verifier.judge([json.dumps("a" * 40 + "b")])
    assert (verdict.status, verdict.score, verdict.reason) == (
        Status.TIMEOUT,
        0.0,
        "timeout",
    )


def test_an_exception_in_a_worker_is_the_graders_fault_and_the_worker_lives_on() -> None:
    before, raised, after = in_worker.judge(["pid", "raise", "pid"])
    assert (raised.status, raised.reason) == (Status.ERROR, "raised_RuntimeError")
    assert re.fullmatch(
        r"RuntimeError: as asked \(isolated_verifiers.py:\d+\)", raised.details["error"]
    )
    assert {before.answer, after.answer} <= {
        str(child.pid) for child in workers_of(os.getpid())
    }


def test_what_a_verifier_prints_does_not_reach_the_replies() -> None:
    assert in_worker(["print", "right", "print", "right"]) == [0.0, 1.0, 0.0, 1.0]


def test_memory_is_limited() -> None:
    (verdict,) = in_worker.judge(["memory"])
    assert verdict.reason == "raised_MemoryError"


def test_a_worker_that_always_dies_is_the_graders_fault_and_the_next_batch_is_fine() -> (
    None
):
    (verdict,) = in_worker.judge(["die"])
    assert (verdict.status, verdict.blame, verdict.reason) == (
        Status.ERROR,
        Blame.GRADER,
        "worker_lost",
    )
    assert in_worker(["right"]) == [1.0]


def test_idle_workers_killed_from_outside_are_replaced_without_a_lost_row(
    pool: WorkerPool,
) -> None:
    calls = [Call(target=SQRT, arguments=(4,))] * 8
    pool.run(calls, timeout=5.0)
    for worker in workers_of(os.getpid()):
        worker.kill()
    assert [outcome.value for outcome in pool.run(calls, timeout=5.0)] == [2.0] * 8


def test_a_call_meets_no_second_worker_that_died_with_the_first(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [Call(target=SLEEP, arguments=(0.2,))] * 2
    pool.run(calls, timeout=5.0)
    killed = [worker.pid for worker in pool.workers._alive]
    assert len(killed) == 2
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    monkeypatch.setattr(
        Worker, "alive", True
    )  # as in the moment before the kernel has ended them
    assert [result.failure for result in pool.run(calls[:1], timeout=5.0)] == [None]


def test_a_busy_worker_killed_from_outside_is_retried_once() -> None:
    with ThreadPoolExecutor(1) as threads, closing(WorkerPool(size=1)) as pool:
        outcome = threads.submit(
            pool.run, [Call(target=SLEEP, arguments=(0.8,))], timeout=10.0
        )
        assert wait_until(lambda: busy(pool))
        time.sleep(0.3)
        for worker in list(pool.workers._alive):
            os.kill(worker.pid, signal.SIGKILL)
        assert outcome.result()[0].failure is None


def busy(pool: WorkerPool) -> bool:
    return bool(pool.workers._alive) and not pool.workers._idle


def test_a_call_that_cannot_be_imported_or_pickled_is_an_outcome(pool: WorkerPool) -> None:
    outcomes = pool.run(
        [
            Call(target="no_such_module:f", arguments=()),
            Call(target=SQRT, arguments=(threading.Lock(),)),
        ],
        timeout=5.0,
    )
    assert [(outcome.failure, outcome.detail) for outcome in outcomes] == [
        (Failure.RAISED, "ModuleNotFoundError"),
        (Failure.RAISED, "TypeError"),
    ]


def test_a_value_or_a_number_that_json_does_not_know_is_an_outcome(
    pool: WorkerPool,
) -> None:
    calls = [
        Call(target="builtins:complex", arguments=(1, 2)),
        Call(target="builtins:float", arguments=("nan",)),
    ]
    outcomes = [
        (outcome.failure, outcome.detail) for outcome in pool.run(calls, timeout=5.0)
    ]
    assert outcomes == [(Failure.RAISED, "TypeError"), (Failure.RAISED, "ValueError")]


@pytest.mark.parametrize("room", [0, 1])
def test_where_there_is_no_room_for_threads_fewer_do_the_work(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = threading.Thread.start, []

    def start_if_there_is_room(thread: threading.Thread) -> None:
        if len(started) == room:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_there_is_room)
    assert spread(str, range(5), threads=3) == ["0", "1", "2", "3", "4"]
    assert len(started) == room


def test_a_process_table_that_is_full_blames_the_grader(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    (outcome,) = pool.run([Call(target=SQRT, arguments=(4,))], timeout=5.0)
    assert outcome.failure is Failure.LOST
    assert outcome.to_verdict().blame is Blame.GRADER


def test_several_threads_may_use_one_pool(pool: WorkerPool) -> None:
    def square_roots(first: int) -> list[float]:
        calls = [Call(target=SQRT, arguments=(n * n,)) for n in range(first, first + 10)]
        return [outcome.value for outcome in pool.run(calls, timeout=5.0)]

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(square_roots, range(0, 40, 10)))
    assert results == [list(range(first, first + 10)) for first in range(0, 40, 10)]


def test_closing_leaves_no_process_and_the_pool_may_be_used_again() -> None:
    assert in_worker(["right"]) == [1.0]
    assert workers_of(os.getpid())
    close_workers()
    assert not workers_of(os.getpid())
    assert in_worker(["right"]) == [1.0]


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    assert in_worker(["right"]) == [1.0]
    pool = shared_pool()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        ok = shared_pool() is not pool and in_worker(["right", "wrong"]) == [1.0, 0.0]
        close_workers()
        os.write(write, b"1" if ok else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"1"
    os.close(read)
    os.close(write)
    assert in_worker(["right"]) == [1.0]


TRAINER = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.path.insert(0, {tests!r})
from isolated_verifiers import in_worker
in_worker(["right", "right"])
print("warm", flush=True)
{then}
"""


def start_trainer(then: str) -> subprocess.Popen[str]:
    script = TRAINER.format(tests=str(HARNESS), then=then)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "warm\n"
    return process


@pytest.mark.slow
def test_the_end_of_the_interpreter_leaves_no_worker() -> None:
    process = start_trainer("sys.stdin.readline()")
    workers = workers_of(process.pid)
    assert workers
    process.terminate()
    process.communicate()
    assert wait_until(lambda: not any(worker.is_running() for worker in workers))


@pytest.mark.slow  # what is busy is left until its deadline
def test_killing_the_trainer_leaves_no_worker_idle_or_busy() -> None:
    process = start_trainer('in_worker(["spin"] * 4)')
    workers = workers_of(process.pid)
    assert workers
    process.kill()
    process.communicate()
    assert wait_until(lambda: not any(worker.is_running() for worker in workers))


def test_closing_ends_what_runs_drops_what_is_queued_and_starts_nothing_again(
    pool: WorkerPool,
) -> None:
    calls = [Call(target=SLEEP, arguments=(60,))] * 20
    with ThreadPoolExecutor(1) as threads:
        outcomes = threads.submit(pool.run, calls, timeout=60.0)
        assert wait_until(lambda: busy(pool))
        time.sleep(0.2)
        before = time.monotonic()
        pool.close()
        assert {outcome.failure for outcome in outcomes.result()} == {Failure.LOST}
    assert time.monotonic() - before < 30.0
    assert not pool.workers._alive


def test_an_interrupt_does_not_wait_for_the_calls_that_are_left() -> None:
    process = start_trainer('print("begun", flush=True); in_worker(["spin"] * 100)')
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30.0)  # a hundred calls would take minutes
    assert process.returncode != 0


def test_a_module_in_the_current_folder_does_not_get_into_the_workers_way(
    tmp_path: Path,
) -> None:
    (tmp_path / "resource.py").write_text("raise RuntimeError('not this one')")
    script = TRAINER.format(tests=str(HARNESS), then='print(in_worker(["right"]))')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "train.py").write_text(script)
    command = [sys.executable, "elsewhere/train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "warm\n[1.0]\n"


@pytest.mark.slow  # a soak
def test_workers_killed_at_random_under_load_lose_no_row_and_shift_none(
    pool: WorkerPool,
) -> None:
    stop = threading.Event()

    def kill_now_and_then() -> None:
        while not stop.wait(0.4):
            for worker in list(pool.workers._alive)[:1]:
                os.kill(worker.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        deadline = time.monotonic() + 8.0
        while time.monotonic() < deadline:
            outcomes = pool.run(
                [Call(target=SQRT, arguments=(n * n,)) for n in range(50)], timeout=5.0
            )
            answered = [
                (n, outcome.value)
                for n, outcome in enumerate(outcomes)
                if outcome.failure is None
            ]
            assert answered == [(n, float(n)) for n, _ in answered]
            assert len(outcomes) == 50
            assert {outcome.failure for outcome in outcomes} <= {None, Failure.LOST}
    finally:
        stop.set()
        killer.join()
    assert [
        outcome.value
        for outcome in pool.run([Call(target=SQRT, arguments=(4,))] * 4, timeout=5.0)
    ] == [2.0] * 4


@pytest.mark.slow
def test_a_worker_that_stops_reading_does_not_block_whoever_writes_to_it(
    pool: WorkerPool,
) -> None:
    pool.run([Call(target="builtins:len", arguments=("x",))], timeout=5.0)
    for (
        worker
    ) in pool.workers._alive:  # not the workers of other tests, which would stay stopped
        os.kill(worker.pid, signal.SIGSTOP)
    full = "x" * (1 << 22)  # more than a pipe holds
    (outcome,) = pool.run([Call(target="builtins:len", arguments=(full,))], timeout=1.0)
    assert outcome.failure is Failure.STARVED
    assert (
        pool.run([Call(target="builtins:len", arguments=(full,))], timeout=20.0)[0].value
        == 1 << 22
    )


@pytest.mark.slow
def test_what_the_trainer_ignores_and_blocks_reaches_no_process_of_ours(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import signal\n"
        "for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "from trl_grpo_ext.rewards import math_reward, unit_test_reward\n"
        "program = 'import os, signal\\ndef f():\\n    pid = os.fork()\\n    if not pid: signal.pause()\\n'\n"
        "program += '    os.kill(pid, signal.SIGTERM)\\n    return os.waitpid(pid, 0)[1]'\n"
        "print(unit_test_reward([program], tests=[['assert f() == 15']]))\n"
        "print(math_reward([r'\\boxed{x^x*x}'], solution=['x^(x+1)']))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[1.0]", "[1.0]"]


@pytest.mark.slow
def test_modules_in_the_current_folder_replace_none_of_pythons_library(
    tmp_path: Path,
) -> None:
    for name in ("types", "random", "math", "signal", "copy"):
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    (tmp_path / "own.py").write_text(
        "from trl_grpo_ext import verifier\n"
        "@verifier(isolated=True)\n"
        "def polite(sample):\n"
        "    import random\n"
        "    return random.random() < 1\n"
    )
    (tmp_path / "rows.jsonl").write_text(
        '{"prompt": "?", "completion": "\\\\boxed{x^x*x}", "solution": "x^(x+1)"}\n'
    )
    command = "import sys; sys.path.remove(''); from trl_grpo_ext.cli.main import main; sys.exit(main())"
    arguments = [
        "score",
        "rows.jsonl",
        "--verifier",
        "math",
        "--verifier",
        "own.polite",
        "--json",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)["terms"]
    assert [found[term]["statuses"]["correct"] for term in ("math", "polite")] == [1, 1]


def test_a_folder_that_is_added_after_a_workers_start_is_searched_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_module.py").write_text("def double(x):\n    return 2 * x\n")
    with closing(WorkerPool(size=1)) as pool:
        pool.run([Call(target="builtins:abs", arguments=(-1,))], timeout=5)
        monkeypatch.syspath_prepend(str(tmp_path))
        (result,) = pool.run([Call(target="late_module:double", arguments=(2,))], timeout=5)
    assert result.value == 4
