"""A session runs cells in one jailed process: names stay, limits hold, and nothing that a cell does raises here."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import psutil
import pytest
from child_processes import command_of
from sandbox_bait import leftover_processes
from sandbox_corpus import load_corpus, run_corpus
from walls import level_or_skip, wait_until, walls_or_skip

from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job, RunResult
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.session import SESSION_LIMITS, PythonSession
from trl_grpo_ext.programs.sandbox.zygote import LostError
from trl_grpo_ext.workers.processes import close_shared

BEST = walls_or_skip()
SHORT = replace(SESSION_LIMITS, wall_seconds=0.5)
SPINS = "while True: pass"
needs_namespaces = pytest.mark.skipif(
    not BEST.namespaces, reason="programs cannot start processes here"
)


@pytest.fixture
def session() -> Iterator[PythonSession]:
    with closing(PythonSession()) as session:
        yield session


def ending(session: PythonSession, code: str) -> Ending | None:
    end = session.run(code).end
    return None if end is None else end.ending


def zygotes() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if "sandbox.inside" in command_of(child)
    ]


def test_names_files_and_imports_stay_from_cell_to_cell(session: PythonSession) -> None:
    session.run("import math\nx = 40\ndef f(n):\n    return n + x")
    assert session.run("print(f(2)); math.floor(2.5)").output == "42\n2\n"
    if BEST.namespaces:
        session.run("open('note', 'w').write('kept')")
        assert session.run("open('note').read()").output == "'kept'\n"


def test_only_an_expression_in_the_last_statement_is_shown_and_none_is_not(
    session: PythonSession,
) -> None:
    assert [
        session.run(code).output for code in ("1\n2", "3; x = 4", "None", "", "# nothing")
    ] == ["2\n", *[""] * 4]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1/0", "ZeroDivisionError: division by zero (line 1)"),
        ("x = 1\ndef f(): raise KeyError('a')\nf()", "KeyError: 'a' (line 2)"),
        ("def f(", "SyntaxError: '(' was never closed"),
        ("x = '\0'", "source code string cannot contain null bytes"),
        ("input()", "EOFError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("[" * 100_000, "Error"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("print('\\ud800')", "UnicodeEncodeError"),
        ("raise ValueError('\\ud800')", "ValueError: \\ud800 (line 1)"),
        ("class A:\n    def __repr__(self): raise ValueError('no')\nA()", "ValueError: no"),
        (
            "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
            "E (line 3)",
        ),
    ],
)
def test_an_error_is_told_and_the_names_stay(
    session: PythonSession, code: str, said: str
) -> None:
    session.run("kept = 1")
    result = session.run(code)
    assert said in result.output
    assert result.end is None
    assert session.run("kept").output == "1\n"


def test_text_that_no_encoding_holds_and_bytes_that_are_no_text_are_told(
    session: PythonSession,
) -> None:
    assert (
        session.run("import os\nn = os.write(1, b'\\xff')\n'\\ud800'").output
        == "\ufffd'\\ud800'\n"
    )
    assert "surrogates not allowed" in session.run("'\ud800'").output


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (SPINS, Ending.TIMEOUT),
        ("import time; time.sleep(99)", Ending.TIMEOUT),
        ("import os; os._exit(0)", Ending.ERROR),
        ("import ctypes; ctypes.string_at(0)", Ending.KILLED),
        ("while True: print('x' * 1000)", Ending.OUTPUT_LIMIT),
        ("import os\nwhile True: os.write(2, b'x' * 1000)", Ending.OUTPUT_LIMIT),
        ("import os; os.closerange(0, 99)", Ending.ERROR),
        ("import os; os.write(3, b'x' * 9)", Ending.PROTOCOL),
        ("import os; os.write(3, b'\\0\\0\\0\\2[]')", Ending.PROTOCOL),
        ("import os; os.write(3, b'\\0\\0\\0\\1' + b'[' * 99_999)", Ending.PROTOCOL),
        (
            "import os; os.write(3, b'\\xff\\xff\\xff\\xff' + b'x' * (1 << 21))",
            Ending.PROTOCOL,
        ),
    ],
)
def test_a_cell_that_ends_its_session_is_told_why_and_the_next_begins_anew(
    code: str, expected: Ending
) -> None:
    with closing(PythonSession(SHORT)) as session:
        wait_until(lambda: session.run("x = 1").end is None)
        assert ending(session, code) is expected
        assert wait_until(lambda: "NameError" in session.run("x").output)


def test_a_cell_that_hoards_memory_is_refused_it(session: PythonSession) -> None:
    assert "MemoryError" in session.run("x = bytearray(1 << 30)").output
    assert (
        "MemoryError"
        in session.run("l = []\nwhile True: l.append(bytearray(1 << 20))").output
    )


@needs_namespaces
def test_processes_of_a_session_share_its_memory() -> None:
    forks = (
        "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (60 << 20)\n"
        "        time.sleep(30)\ntime.sleep(30)"
    )
    limits = replace(SESSION_LIMITS, memory_mb=128, wall_seconds=25.0)
    with closing(PythonSession(limits)) as session:
        assert ending(session, forks) is Ending.MEMORY


@needs_namespaces
def test_a_fork_bomb_stays_in_its_session(session: PythonSession) -> None:
    with closing(PythonSession()) as other:
        other.run("import threading")
        for _ in range(3):
            session.run("import os\nwhile True: os.fork()")
        started = (
            "t = threading.Thread(target=print, args=('started',)); t.start(); t.join()"
        )
        assert other.run(started).output == "started\n"


@needs_namespaces
def test_a_process_that_a_cell_has_forked_runs_no_later_cell(
    session: PythonSession,
) -> None:
    both = "import os, time\nif os.fork(): time.sleep(1)\n'here'"
    assert session.run(both).output == "'here'\n" * 2
    assert [session.run("1").output for _ in range(9)] == ["1\n"] * 9


def test_processor_time_is_that_of_the_whole_session() -> None:
    limits = replace(SESSION_LIMITS, cpu_seconds=1.0, wall_seconds=60.0)
    spins = "import time\nuntil = time.process_time() + .4\nwhile time.process_time() < until: pass"
    with closing(PythonSession(limits)) as session:
        ends = [ending(session, spins) for _ in range(4)]
    assert {Ending.TIMEOUT, Ending.KILLED} & {*ends}


def test_processor_time_that_the_kernel_charges_beyond_the_time_used_is_the_sessions() -> (
    None
):
    limits = replace(SESSION_LIMITS, cpu_seconds=1.0, wall_seconds=10.0)
    # Runs only around the ticks at which many kernels charge a whole tick to whoever runs.
    code = (
        "import time\nwhile True:\n    gap = 4_000_000 - time.monotonic_ns() % 4_000_000\n"
        "    time.sleep(max(0, gap - 300_000) / 1e9)\n    until = time.monotonic_ns() + 400_000\n"
        "    while time.monotonic_ns() < until: pass"
    )
    with closing(PythonSession(limits)) as session:
        assert ending(session, code) is Ending.TIMEOUT


def test_between_cells_nothing_of_a_session_runs(session: PythonSession) -> None:
    session.run(
        f"import threading\ndef f():\n    {SPINS}\nthreading.Thread(target=f, daemon=True).start()"
    )
    if BEST.namespaces:
        session.run(f"import os\nif os.fork() == 0:\n    {SPINS}")
    spinning = 2 if BEST.namespaces else 1

    def rests() -> bool:
        stopped = [
            each
            for each in psutil.Process().children(recursive=True)
            if each.status() == psutil.STATUS_STOPPED
        ]
        before = [each.cpu_times().user for each in stopped]
        time.sleep(0.3)
        after = [each.cpu_times().user for each in stopped]
        return len(stopped) == spinning and after == before

    # The zygote, which looks after its children, may run; a process may still be about to stop.
    assert wait_until(rests)
    assert session.run("'runs'").output == "'runs'\n"


def test_two_sessions_see_nothing_of_each_other(session: PythonSession) -> None:
    with closing(PythonSession()) as other:
        session.run(
            "import builtins, os, sys\nbuiltins.hush = sys.hush = os.environ['HUSH'] = 'hush'"
        )
        if BEST.namespaces:
            session.run("open('/tmp/hush', 'w').write('hush')")
        look = (
            "import builtins, os, sys\nwhere = [vars(builtins), vars(sys), os.environ]\n"
            "[any('hush' in str(each).lower() for each in where), os.path.exists('/tmp/hush')]"
        )
        assert other.run(look).output == "[False, False]\n"
        # Nor does the next session on the same zygote.
        session.close()
        assert session.run(look).output == "[False, False]\n"


@pytest.mark.slow
def test_a_message_that_a_cell_forges_fools_only_its_own_session() -> None:
    brief = replace(SESSION_LIMITS, wall_seconds=2.0)
    with closing(PythonSession(brief)) as session, closing(PythonSession()) as other:
        forge = (
            "import json, os, time\nbody = json.dumps({'done': 1}).encode()\n"
            "os.write(3, len(body).to_bytes(4, 'big') + body)\ntime.sleep(9)"
        )
        assert session.run(forge).end is None
        assert other.run("'mine'").output == "'mine'\n"
        # The forger still sleeps, and reads no more code.
        assert "mine" not in session.run("'mine'").output


def test_an_output_that_was_closed_is_open_again_in_the_next_cell(
    session: PythonSession,
) -> None:
    session.run(
        "import os, sys\nsys.stdout.close()\nos.close(1)\nos.close(2)\nsys.stdout = None"
    )
    assert session.run("print('back')").output == "back\n"
    # The pipe itself is gone with this, but not the session.
    assert session.run("os.dup2(0, 4); os.dup2(0, 1); os.dup2(0, 2)\nx = 1").end is None
    assert session.run("x").end is None


def test_a_zygote_killed_from_outside_is_a_failure_of_the_sandbox(
    session: PythonSession,
) -> None:
    session.run("x = 1")
    keeper = psutil.Process(session._live._zygote.pid)  # type: ignore[union-attr]
    below = keeper.children(recursive=True)
    keeper.kill()
    assert wait_until(lambda: not any(each.is_running() for each in below))
    with pytest.raises(LostError):
        session.run("x")
    assert session.run("2").output == "2\n"


def test_a_process_killed_from_outside_is_a_failure_of_the_sandbox(
    session: PythonSession,
) -> None:
    if not BEST.namespaces:
        pytest.skip("here a program could kill itself like that")
    session.run("x = 1")
    for child in psutil.Process(session._live._zygote.pid).children(recursive=True)[1:]:  # type: ignore[union-attr]
        child.kill()
    with pytest.raises(LostError):
        session.run("x")


def test_many_threads_may_use_sessions_and_one_session() -> None:
    sessions = [PythonSession() for _ in range(6)]
    said: dict[int, list[str]] = {}

    def use(number: int) -> None:
        sessions[number].run(f"n = {number}")
        said[number] = [sessions[number].run("n").output for _ in range(20)]
        said[number].append(sessions[0].run("'shared'").output)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: [f"{number}\n"] * 20 + ["'shared'\n"] for number in range(6)}
    for session in sessions:
        session.close()


def test_a_closed_session_leaves_no_process_and_its_zygote_serves_the_next() -> None:
    with closing(PythonSession()) as session:
        session.run("1")
        keeper = psutil.Process(session._live._zygote.pid)  # type: ignore[union-attr]
        few = len(keeper.children(recursive=True))
    assert len(keeper.children(recursive=True)) == few - 1
    with closing(PythonSession()) as session:
        session.run("1")
        assert session._live._zygote.pid == keeper.pid  # type: ignore[union-attr]


def test_a_session_that_is_dropped_ends_and_all_end_with_the_sandboxes_of_the_process() -> (
    None
):
    dropped, kept = PythonSession(), PythonSession()
    dropped.run("1")
    kept.run("1")
    keeper = psutil.Process(dropped._live._zygote.pid)  # type: ignore[union-attr]
    del dropped
    gc.collect()
    assert wait_until(lambda: len(keeper.children(recursive=True)) <= 1)
    close_shared()
    assert not keeper.is_running()
    assert zygotes() == []
    assert kept.run("'again'").output == "'again'\n"
    kept.close()


def test_a_forked_process_leaves_its_parents_session_alone(session: PythonSession) -> None:
    session.run("x = 'parent'")
    pid = os.fork()
    if pid == 0:
        # As a process of a data loader would end.
        status = 0 if "NameError" in session.run("x").output else 1
        session.close()
        close_shared()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert session.run("x").output == "'parent'\n"


def test_packages_are_shown_as_to_programs_under_test() -> None:
    with closing(PythonSession()) as session:
        assert session.run("import numpy; numpy.arange(3).sum() == 3").end is None
        assert "ModuleNotFoundError" in session.run("import jinja2").output
        assert "ModuleNotFoundError" in session.run("import trl_grpo_ext.rewards").output
    with closing(PythonSession(packages=["jinja2"])) as session:
        assert (
            session.run("import jinja2; jinja2.Template('{{ 1 + 1 }}').render()").output
            == "'2'\n"
        )


@pytest.mark.parametrize("isolation", [Isolation.LANDLOCK, Isolation.NAMESPACES])
def test_sessions_run_behind_weaker_walls_too(
    isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    level_or_skip(isolation)
    with (
        closing(PythonSession()) as session,
        closing(LocalSandbox(9, isolation=isolation)) as sandbox,
    ):
        monkeypatch.setattr(session._host(), "sandbox", sandbox)
        session.run(
            f"import threading\ndef f():\n    {SPINS}\nthreading.Thread(target=f, daemon=True).start()\nx = 1"
        )
        assert session.run("x").output == "1\n"
        session.close()


class Cells:
    """A runner of the corpus that runs each program and its tests as cells, beside a session with a secret."""

    isolation = BEST

    def __init__(self, neighbour: PythonSession) -> None:
        self._neighbour = neighbour
        self._neighbour.run("secret = 'the neighbour' + 's secret'")

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        return [self._run(job) for job in jobs]

    def _run(self, job: Job) -> RunResult:
        tests = job.suite.tests if isinstance(job.suite, CallSuite) else ()
        with closing(
            PythonSession(
                replace(job.limits, wall_seconds=min(1.0, job.limits.wall_seconds))
            )
        ) as session:
            outputs = [session.run(code).output for code in (job.program, *tests[:2])]
        assert not any("the neighbours secret" in output for output in outputs)
        assert self._neighbour.run("secret").output == "'the neighbours secret'\n"
        # No test has judged the program; its output is searched for secrets of the machine.
        return RunResult(ending=Ending.FAILED, detail=" ".join(outputs))


@pytest.mark.slow
def test_no_attack_of_the_corpus_reaches_the_machine_or_another_session() -> None:
    programs = [program for program in load_corpus() if program.category != "benign"]
    with closing(PythonSession()) as neighbour:
        records = run_corpus(Cells(neighbour), programs)
    assert leftover_processes() == []
    # There is no judge here, whose endings these would be; and the process that was left is the neighbour.
    ours = ("it ", "processes were left")
    broken = {
        record.id: [text for text in record.broken if not text.startswith(ours)]
        for record in records
    }
    assert {name: texts for name, texts in broken.items() if texts} == {}
    assert len(records) > 300


def test_a_byte_out_of_band_is_refused_since_it_would_look_like_a_message() -> None:
    with closing(PythonSession()) as session:
        code = "import socket\nchannel = socket.socket(fileno=3)\nchannel.send(b'x', socket.MSG_OOB)"
        assert "PermissionError" in session.run(code).output


def test_no_process_continues_what_the_sandbox_has_stopped() -> None:
    code = "import os, signal\nfor number in (os.getpid(), -1): os.kill(number, signal.SIGCONT)"
    with closing(PythonSession()) as session:
        assert "PermissionError" in session.run(code).output


def test_what_is_printed_before_a_limit_is_shown() -> None:
    with closing(PythonSession(replace(SESSION_LIMITS, wall_seconds=1.0))) as session:
        found = session.run("print('progress')\nwhile True: pass")
    assert (found.output, found.end is None) == ("progress\n", False)


NAMES = [b"\xff", b"\x0cVmRSS: -999999", b"\x0cVmRSS: x", b"\x0cVmRSS:"]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_process_lifts_no_limit_and_breaks_nothing(name: bytes) -> None:
    named = f"import ctypes, time\nctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)\n"
    with closing(PythonSession(replace(SESSION_LIMITS, memory_mb=64))) as session:
        assert session.run(f"{named}time.sleep(0.2)\nprint('here')").output == "here\n"
        found = session.run(
            f"{named}held = bytearray(200 << 20)\ntime.sleep(1)\nprint('survived')"
        )
    assert "survived" not in found.output


def test_memory_that_short_cells_leave_behind_counts() -> None:
    # A cell ends when its child holds the memory, and long before the child does.
    code = """
import os, time
is_held, held_here = os.pipe()
if os.fork() == 0:
    held = b'x' * (30 << 20)
    os.write(held_here, b'1')
    time.sleep(60)
    os._exit(0)
os.read(is_held, 1)
"""
    with closing(PythonSession(replace(SESSION_LIMITS, memory_mb=128))) as session:
        ends = [session.run(code).end for _ in range(12)]
    assert Ending.MEMORY in [end.ending for end in ends if end is not None]
