"""A sandbox under load and under attack: its verdicts, its leftovers, its next batch."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from child_processes import command_of
from walls import wait_until, walls_or_skip

from trl_grpo_ext.programs.sandbox import probe
from trl_grpo_ext.programs.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    StdioCase,
    StdioSuite,
)
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.monitor import (
    Monitor,
    _live_task,
    _proportional_bytes,
)
from trl_grpo_ext.programs.sandbox.zygote import Zygote
from trl_grpo_ext.workers.frames import Inbox

BEST = walls_or_skip()

ADD = CallSuite(
    tests=("assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert add(5, 0) == 5"),
    names=("add",),
)
SUM = StdioSuite(
    tests=(StdioCase(stdin="1 2\n", stdout="3\n"), StdioCase(stdin="4 5\n", stdout="9"))
)
RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
PRINTS = "a, b = map(int, input().split())\nprint(a + b)\n"
QUICK = Limits(wall_seconds=1.0, cpu_seconds=1.0, memory_mb=128)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with closing(LocalSandbox(2)) as sandbox:
        yield sandbox


def job(
    program: str,
    suite: CallSuite | StdioSuite = ADD,
    *,
    stop: bool = True,
    limits: Limits = QUICK,
) -> Job:
    return Job(program=program, suite=suite, limits=limits, stop_at_first=stop)


def endings(sandbox: LocalSandbox, *jobs: Job) -> list[Ending]:
    return [outcome.ending for outcome in sandbox.run(jobs)]


def zygotes(besides: Collection[psutil.Process] = ()) -> list[psutil.Process]:
    """List keepers of this process's zygotes, or zygotes without keepers, except processes in `besides`.

    Other tests in this process may have sandboxes too: pytest-xdist decides which tests share a process.
    """
    return [
        child
        for child in psutil.Process().children()
        if "sandbox.inside" in command_of(child) and child not in besides
    ]


def test_outcomes_come_in_the_order_of_the_jobs(sandbox: LocalSandbox) -> None:
    programs = [
        RIGHT,
        WRONG,
        "def add(",
        "raise ValueError('no')",
        "import os; os._exit(0)",
    ] * 3
    expected = [
        Ending.PASSED,
        Ending.FAILED,
        Ending.COMPILE_ERROR,
        Ending.ERROR,
        Ending.ERROR,
    ] * 3
    assert endings(sandbox, *map(job, programs)) == expected


def test_every_outcome_names_the_walls_that_its_program_ran_behind(
    sandbox: LocalSandbox,
) -> None:
    assert sandbox.run([job(RIGHT)])[0].level == BEST


def test_without_stopping_at_the_first_failure_every_test_has_its_result(
    sandbox: LocalSandbox,
) -> None:
    program = "def add(a, b):\n    if a == 2:\n        raise KeyError(a)\n    return 3\n"
    tests = sandbox.run([job(program, stop=False)])[0].tests
    assert [test.ending for test in tests] == [Ending.PASSED, Ending.ERROR, Ending.FAILED]
    assert "KeyError" in tests[1].detail and "add(5, 0) returned 3" in tests[2].detail


def test_after_the_first_failure_the_rest_is_not_run(sandbox: LocalSandbox) -> None:
    tests = sandbox.run([job(WRONG)])[0].tests
    assert [test.ending for test in tests] == [
        Ending.FAILED,
        Ending.NOT_RUN,
        Ending.NOT_RUN,
    ]


def test_each_way_to_end_has_its_ending(sandbox: LocalSandbox) -> None:
    hoards = "def add(a, b):\n    return len(bytearray(1 << 30))\n"
    floods = "while True: print('x' * 1000)\n"
    stops = "import os, signal\ndef add(a, b):\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
    crashes = "import ctypes\ndef add(a, b):\n    ctypes.string_at(0)\n"
    speaks = (
        "import os\nfor fd in range(3, 9):\n    try: os.write(fd, b'x' * 99)\n    except OSError: pass\n"
        + RIGHT
    )
    ends = endings(
        sandbox,
        job("import time; time.sleep(99)"),
        job(hoards),
        job(floods, SUM),
        job(speaks),
    )
    assert ends == [Ending.TIMEOUT, Ending.MEMORY, Ending.OUTPUT_LIMIT, Ending.PROTOCOL]
    assert endings(sandbox, job(crashes)) == [Ending.KILLED]
    assert endings(sandbox, job(stops))[0] is not Ending.PASSED


def test_many_processes_share_one_limit_of_memory() -> None:
    if not BEST.namespaces:
        pytest.skip("programs cannot start processes here")
    forks = (
        "import os, time\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0:\n"
        "        block = bytearray(b'x') * (80 << 20)\n"
        "        time.sleep(30)\n"
        "time.sleep(30)\n"
    )
    with closing(LocalSandbox(1)) as sandbox:
        limits = Limits(wall_seconds=10.0, memory_mb=128)
        assert endings(sandbox, job(forks, limits=limits)) == [Ending.MEMORY]


def test_a_process_that_ends_between_two_readings_of_its_memory_counts_nothing() -> None:
    waits = "held = bytearray(b'x') * (20 << 20); print(flush=True); input()"
    program = [sys.executable, "-c", waits]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        ((task, most),) = _live_task(process.pid)
        assert 20 << 20 < _proportional_bytes(task, most) <= most
        process.kill()
        process.wait()
        assert _proportional_bytes(task, most) == 0


def test_pages_that_processes_share_count_once(sandbox: LocalSandbox) -> None:
    if not BEST.namespaces:
        pytest.skip("programs cannot start processes here")
    forks = (
        "import os, time\n"
        "block = bytearray(b'x') * (60 << 20)\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(0.5)\n"
        "        os._exit(0)\n"
        "time.sleep(0.5)\n"
    )
    limits = Limits(wall_seconds=10.0, memory_mb=128)
    assert endings(sandbox, job(forks + RIGHT, limits=limits)) == [Ending.PASSED]


def test_a_socket_counts_as_memory_that_unread_data_may_take(sandbox: LocalSandbox) -> None:
    if not BEST.namespaces:
        pytest.skip("programs cannot start processes here")
    # Below 128 open files a process, hence several processes.
    hoards = (
        "import os, socket, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        pairs = [socket.socketpair() for _ in range(55)]\n"
        "        time.sleep(5)\n"
        "        os._exit(0)\n"
        "time.sleep(5)\n"
    )
    without_sockets = hoards.replace("range(55)", "range(0)").replace(
        "sleep(5)", "sleep(0.3)"
    )
    limits = Limits(wall_seconds=10.0, memory_mb=32)
    jobs = [job(program + RIGHT, limits=limits) for program in (hoards, without_sockets)]
    assert endings(sandbox, *jobs) == [Ending.MEMORY, Ending.PASSED]


def test_programs_that_print_are_compared_outside(sandbox: LocalSandbox) -> None:
    hard_wired, guesses = "print(3)", "for n in range(20): print(n)"
    outcomes = sandbox.run(
        [job(PRINTS, SUM), job(hard_wired, SUM, stop=False), job(guesses, SUM)]
    )
    assert [outcome.ending for outcome in outcomes] == [
        Ending.PASSED,
        Ending.FAILED,
        Ending.FAILED,
    ]
    assert [test.ending for test in outcomes[1].tests] == [Ending.PASSED, Ending.FAILED]


def test_a_program_that_does_not_read_megabytes_of_input_is_judged_by_what_it_prints(
    sandbox: LocalSandbox,
) -> None:
    suite = StdioSuite(tests=(StdioCase(stdin="1\n" * 1_000_000, stdout="done"),))
    assert endings(
        sandbox,
        job("print('done')", suite),
        job("import sys; sys.stdin.read(); print('done')", suite),
    ) == [
        Ending.PASSED,
        Ending.PASSED,
    ]


def test_what_is_printed_in_a_million_small_pieces_is_read_in_few(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reads = os.read, []

    def counted(descriptor: int, most: int) -> bytes:
        reads.append(descriptor)
        return read(descriptor, most)

    monkeypatch.setattr("trl_grpo_ext.programs.sandbox.stdio_run.os.read", counted)
    floods = "import os, time\nwhile time.process_time() < 0.2: os.write(2, b'x')\nprint('done')\n"
    started = time.monotonic()
    (outcome,) = sandbox.run(
        [
            job(
                floods,
                StdioSuite(tests=(StdioCase(stdin="", stdout="done"),)),
                limits=Limits(wall_seconds=30),
            )
        ]
    )
    assert outcome.ending is Ending.PASSED
    assert len(reads) < 100 + 2 * (time.monotonic() - started) / 0.005


# The test waits for a deadline.
@pytest.mark.slow
def test_one_programs_deadline_delays_no_other(sandbox: LocalSandbox) -> None:
    slow = job("while True: pass", limits=Limits(wall_seconds=3.0, cpu_seconds=3.0))
    outcomes = sandbox.run([slow, *[job(f"{RIGHT}# {number}") for number in range(40)]])
    assert outcomes[0].ending is Ending.TIMEOUT
    assert all(
        outcome.ending is Ending.PASSED and outcome.seconds < 3.0
        for outcome in outcomes[1:]
    )


def test_identical_programs_run_once(sandbox: LocalSandbox) -> None:
    outcomes = sandbox.run(
        [job("import random\ndef add(a, b):\n    return random.random()\n")] * 4
    )
    assert len({outcome.detail for outcome in outcomes}) == 1


def test_tests_that_do_not_run_are_the_datas_fault(sandbox: LocalSandbox) -> None:
    broken = CallSuite(
        setup="import no_such_module", tests=("assert add(1, 2) == 3",), names=("add",)
    )
    unparsed = CallSuite(tests=("assert add(1, 2) ==",), names=("add",))
    assert endings(sandbox, job(RIGHT, broken), job(RIGHT, unparsed)) == [
        Ending.BAD_TESTS,
        Ending.BAD_TESTS,
    ]


@pytest.mark.parametrize(
    "setup",
    [
        "import math, builtins\nmath.isclose = lambda *a, **k: True\nbuiltins.abs = lambda x: 0",
        "exec('import math, builtins; math.isclose = lambda *a, **k: True; builtins.abs = lambda x: 0')",
        "import math, types\ntypes.ModuleType.__setattr__(math, 'isclose', lambda *a, **k: True)",
        "import math as m\nfor name in ['isclose']: m.__dict__[name] = lambda *a, **k: True",
    ],
)
def test_tests_that_patch_python_do_not_reach_the_next_tests(setup: str) -> None:
    patches = CallSuite(setup=setup, tests=("assert area(1) is not None",), names=("area",))
    asks = CallSuite(
        tests=("import math\nassert math.isclose(area(1), 3.0) and abs(area(1) - 3) < 1",),
        names=("area",),
    )
    wrong = "def area(r):\n    return 7.0\n"
    with closing(LocalSandbox(1)) as sandbox:
        assert endings(sandbox, job(wrong, patches)) == [Ending.PASSED]
        assert endings(sandbox, job(wrong, asks)) == [Ending.FAILED]


@pytest.mark.skipif(not BEST.namespaces, reason="there is no file system of its own here")
def test_a_program_keeps_files_in_its_own_folder_and_nowhere_else(
    sandbox: LocalSandbox,
) -> None:
    program = """\
import os, tempfile
def add(a, b):
    with tempfile.NamedTemporaryFile("w+") as file, open("/tmp/kept", "w") as kept:
        assert os.path.samefile("/tmp", os.getcwd()) and os.path.exists("kept")
    for path in ("/x", "/scratch/x", "/dev/x", os.path.dirname(os.__file__) + "/x"):
        for attempt in (os.mkdir, lambda path: open(path, "w"), lambda path: os.rename("kept", path)):
            try:
                attempt(path)
                return 0
            except OSError:
                pass
    return a + b
"""
    assert endings(sandbox, job(program)) == [Ending.PASSED]


def test_a_program_finds_nothing_of_the_one_before() -> None:
    leaves = (
        "import os, sys\nopen('/tmp/left', 'w').write('x')\nos.environ['LEFT'] = 'x'\nsys.left = 1\n"
        + RIGHT
    )
    finds = (
        "import os, sys\n"
        "found = os.path.exists('/tmp/left') or os.listdir('.') or 'LEFT' in os.environ or hasattr(sys, 'left')\n"
        "def add(a, b):\n    return 0 if found else a + b\n"
    )
    with closing(LocalSandbox(1)) as sandbox:
        if BEST.namespaces:
            assert endings(sandbox, job(leaves)) == [Ending.PASSED]
        assert endings(sandbox, job(finds)) == [Ending.PASSED]


def test_a_package_is_there_for_a_sandbox_that_names_its_folder(tmp_path: Path) -> None:
    (tmp_path / "adder.py").write_text(RIGHT)
    tmp_path.chmod(0o755)
    program = "from adder import add\n"
    plain, with_package = LocalSandbox(1), LocalSandbox(1, packages=[str(tmp_path)])
    try:
        assert endings(plain, job(program)) == [Ending.ERROR]
        assert endings(with_package, job(program)) == [Ending.PASSED]
    finally:
        plain.close()
        with_package.close()


def test_a_folder_of_packages_that_programs_could_not_read_is_refused_at_the_start(
    tmp_path: Path,
) -> None:
    if os.getuid() != 0 or not BEST.namespaces:
        pytest.skip("programs may run as the same user, who may read it")
    tmp_path.chmod(0o700)
    sandbox = LocalSandbox(1, packages=[str(tmp_path)])
    with pytest.raises(IsolationError, match="may not read"):
        sandbox.check()
    sandbox.close()


@pytest.mark.parametrize(
    "victim",
    [
        "zygote",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("keeper", "jail")),
    ],
)
def test_whatever_is_killed_under_load_every_job_has_an_answer_and_the_next_batch_is_fine(
    victim: str,
) -> None:
    sandbox, others = LocalSandbox(2), zygotes()
    try:
        sandbox.run([job(RIGHT)])
        programs = [
            f"import time\ntime.sleep(0.02)\n{RIGHT}# {number}" for number in range(100)
        ]
        outcomes: list[Ending] = []
        batch = threading.Thread(
            target=lambda: outcomes.extend(endings(sandbox, *map(job, programs)))
        )
        batch.start()
        for _ in range(6):
            time.sleep(0.1)
            _kill_one(victim, zygotes(besides=others))
        batch.join(60)
        assert len(outcomes) == 100
        assert set(outcomes) <= {
            Ending.PASSED,
            Ending.NO_VERDICT,
            Ending.KILLED,
            Ending.PROTOCOL,
        }
        assert outcomes.count(Ending.PASSED) > 80
        assert endings(sandbox, job(RIGHT), job(WRONG)) == [Ending.PASSED, Ending.FAILED]
    finally:
        sandbox.close()
    assert wait_until(lambda: not zygotes(besides=others))


def _kill_one(victim: str, keepers: Sequence[psutil.Process]) -> None:
    """Kill a keeper, a zygote or a jailed process among the descendants of `keepers`."""
    for keeper in keepers:
        try:
            below = keeper.children(recursive=True)
            target = {"keeper": [keeper], "zygote": below[:1], "jail": below[1:]}[victim]
            if target:
                target[-1].send_signal(signal.SIGKILL)
                return
        except psutil.NoSuchProcess:
            continue


TRAINER = """
import sys
from trl_grpo_ext.programs.sandbox.job import Job
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.job import CallSuite
suite = CallSuite(tests=("assert add(1, 2) == 3",), names=("add",))
sandbox = LocalSandbox(2)
sandbox.run([Job(program="def add(a, b): return a + b", suite=suite)])
print("up", flush=True)
sandbox.run([Job(program=f"import time\\ntime.sleep(9)\\n# {number}", suite=suite) for number in range(20)])
"""


def test_when_the_trainer_is_killed_nothing_is_left_behind() -> None:
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER], stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout is not None and trainer.stdout.readline() == "up\n"
    assert wait_until(
        lambda: len(psutil.Process(trainer.pid).children(recursive=True)) >= 6
    )
    below = psutil.Process(trainer.pid).children(recursive=True)
    trainer.kill()
    trainer.communicate()
    assert wait_until(lambda: not any(process.is_running() for process in below))


def test_a_sandbox_may_be_closed_while_it_works_and_used_again() -> None:
    sandbox, others = LocalSandbox(1), zygotes()
    endings_: list[Ending] = []
    slow = [job(f"import time; time.sleep(0.3)\n{RIGHT}# {number}") for number in range(10)]
    batch = threading.Thread(target=lambda: endings_.extend(endings(sandbox, *slow)))
    batch.start()
    time.sleep(0.5)
    sandbox.close()
    batch.join(30)
    assert len(endings_) == 10 and Ending.NO_VERDICT in endings_
    assert endings(sandbox, job(RIGHT)) == [Ending.PASSED]
    sandbox.close()
    assert wait_until(lambda: not zygotes(besides=others))


def test_a_forked_child_has_a_sandbox_of_its_own() -> None:
    from trl_grpo_ext.programs.sandbox.sandbox import local_sandbox

    local_sandbox(workers=1).run([job(RIGHT)])
    child = os.fork()
    if child == 0:
        passed = local_sandbox(workers=1).run([job(RIGHT)])[0].ending is Ending.PASSED
        local_sandbox(workers=1).close()
        os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert local_sandbox(workers=1).run([job(f"{RIGHT}# again")])[0].ending is Ending.PASSED
    local_sandbox(workers=1).close()


def test_without_walls_programs_are_refused_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> Isolation:
        raise IsolationError("no walls here")

    monkeypatch.setattr("trl_grpo_ext.programs.sandbox.local.best_isolation", none)
    with pytest.raises(IsolationError, match="no walls here"):
        LocalSandbox(1).check()
    unsafe = LocalSandbox(1, allow_unsafe=True)
    try:
        outcome = unsafe.run([job(RIGHT)])[0]
        assert (outcome.ending, outcome.level) == (Ending.PASSED, "none")
    finally:
        unsafe.close()


def test_a_kernel_without_landlock_keeps_the_namespaces_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_landlock(isolation: Isolation) -> list[probe.AttackResult]:
        if isolation.landlock:
            raise IsolationError("Landlock: this kernel does not have it, or it is off")
        return [probe.AttackResult(attack="any", held=True, seen="")]

    monkeypatch.setattr(probe, "probe", without_landlock)
    assert probe.best_isolation.__wrapped__() is Isolation.NAMESPACES


# A soak test.
@pytest.mark.slow
def test_thousands_of_programs_leave_nothing_growing() -> None:
    sandbox = LocalSandbox(2)
    process = psutil.Process()
    try:
        sandbox.run([job(f"{RIGHT}# {number}") for number in range(100)])
        files, memory = process.num_fds(), process.memory_info().rss
        for batch in range(5):
            programs = [
                RIGHT if number % 10 else "import os; os._exit(0)" for number in range(200)
            ]
            sandbox.run(
                [
                    job(f"{program}\n# {batch} {number}")
                    for number, program in enumerate(programs)
                ]
            )
        assert process.num_fds() <= files + 2
        assert process.memory_info().rss < memory + (20 << 20)
    finally:
        sandbox.close()


def test_a_sandbox_works_in_a_process_with_thousands_of_open_files() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000:
        pytest.skip("this process may not open that many")
    opened = [open(os.devnull) for _ in range(1100)]  # noqa: SIM115
    sandbox = LocalSandbox(1)
    try:
        assert endings(
            sandbox, job(RIGHT), job(PRINTS, SUM), job("import os; os._exit(0)")
        ) == [
            Ending.PASSED,
            Ending.PASSED,
            Ending.ERROR,
        ]
    finally:
        sandbox.close()
        for file in opened:
            file.close()


@pytest.mark.slow
def test_what_one_program_leaves_in_its_judge_does_not_count_against_the_next() -> None:
    limits = Limits(wall_seconds=10.0, cpu_seconds=10.0, memory_mb=256)
    suite = CallSuite(tests=("assert len(f()) > 0",), names=("f",))
    heavy = "def f(): return [[] for _ in range(900_000)]"
    needy = (
        "def f():\n"
        "    block = bytearray(b'x') * (180 << 20)\n"
        "    import time; time.sleep(0.3)\n"
        "    return [len(block)]"
    )
    with closing(LocalSandbox(1)) as sandbox:
        assert (
            endings(
                sandbox, job(heavy, suite, limits=limits), job(needy, suite, limits=limits)
            )[1]
            is Ending.PASSED
        )


def test_what_a_program_writes_on_the_channel_to_the_trainer_is_not_read() -> None:
    here, there = socket.socketpair()
    zygote = Zygote(BEST)
    try:
        ready = json.dumps({"ready": True}).encode()
        there.sendall(len(ready).to_bytes(4) + ready + bytes(4) + b"\xff" * 9)
        Monitor(zygote, QUICK).await_ready(Inbox(here))
    finally:
        zygote.kill()
        here.close()
        there.close()
