"""Runs cut short or killed at an unlucky moment: each program gets its own verdict, or none."""

from __future__ import annotations

import contextlib
import random
import threading

import psutil
import pytest
from child_processes import command_of
from walls import walls_or_skip

from trl_grpo_ext.programs.sandbox import stdio_run
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    StdioCase,
    StdioSuite,
    TestResult,
)
from trl_grpo_ext.programs.sandbox.local import ATTEMPTS, LocalSandbox

BEST = walls_or_skip()

# The judge needs 0.6 s from its report on the last test to its exit, because it frees the setup's names in between.
LINGERS = (
    "import time, weakref\nlingers = {1}\nweakref.finalize(lingers, time.sleep, 0.6)\n"
)
SUITE = CallSuite(
    setup=LINGERS, tests=("assert add(1, 2) == 3", "assert add(2, 2) == 4"), names=("add",)
)
RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
SHORT = Limits(wall_seconds=0.3, cpu_seconds=1.0)


@pytest.mark.parametrize("stop_at_first", [True, False])
def test_a_run_that_is_cut_after_its_last_test_has_the_verdict_of_its_tests(
    sandbox: LocalSandbox, stop_at_first: bool
) -> None:
    for _ in range(2):
        jobs = [Job(program=RIGHT, suite=SUITE, limits=SHORT, stop_at_first=stop_at_first)]
        (outcome,) = sandbox.run(jobs)
        assert (outcome.ending, [test.ending for test in outcome.tests]) == (
            Ending.PASSED,
            [Ending.PASSED] * 2,
        )


@pytest.mark.parametrize("stop_at_first", [True, False])
def test_no_program_gets_what_the_judge_said_of_the_one_before(
    sandbox: LocalSandbox, stop_at_first: bool
) -> None:
    programs = [RIGHT, WRONG, RIGHT, WRONG, "def add(a, b): raise KeyError(a)", RIGHT]
    jobs = [
        Job(
            program=f"{program}# {number}",
            suite=SUITE,
            limits=SHORT,
            stop_at_first=stop_at_first,
        )
        for number, program in enumerate(programs)
    ]
    expected = [
        Ending.PASSED if program == RIGHT else Ending.FAILED for program in programs
    ]
    expected[4] = Ending.ERROR
    assert [outcome.ending for outcome in sandbox.run(jobs)] == expected


ADD = CallSuite(tests=("assert add(1, 2) == 3", "assert add(2, 2) == 4"), names=("add",))
SUM = StdioSuite(
    tests=(StdioCase(stdin="1 2\n", stdout="3\n"), StdioCase(stdin="4 5\n", stdout="9"))
)
PRINTS = "a, b = map(int, input().split())\nprint(a + b)\n"


def kill_at_random(stop: threading.Event, killed: list[int]) -> None:
    """Kill a random process of a sandbox, about eight times a second, and record its number."""
    chance = random.Random(0)
    while not stop.wait(chance.expovariate(8)):
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            below = psutil.Process().children(recursive=True)
            victim = chance.choice(
                [each for each in below if "sandbox.inside" in command_of(each)]
            )
            victim.kill()
            killed.append(victim.pid)


@pytest.mark.slow
@pytest.mark.skipif(not BEST.namespaces, reason="a program may have killed itself here")
def test_no_verdict_is_wrong_while_zygotes_judges_and_programs_are_killed() -> None:
    kinds = [
        (RIGHT, ADD, Ending.PASSED),
        (WRONG, ADD, Ending.FAILED),
        (PRINTS, SUM, Ending.PASSED),
    ]
    kinds += [
        ("print(3)", SUM, Ending.FAILED),
        ("def add(a, b): raise KeyError", ADD, Ending.ERROR),
    ]
    expected = [kinds[number % len(kinds)] for number in range(80)]
    sandbox, stop, killed = LocalSandbox(2), threading.Event(), list[int]()
    killer = threading.Thread(target=kill_at_random, args=(stop, killed))
    killer.start()
    try:
        jobs = [
            Job(program=f"{program}\n# {number}", suite=suite)
            for number, (program, suite, _) in enumerate(expected)
        ]
        found = [outcome.ending for outcome in sandbox.run(jobs)]
    finally:
        stop.set()
        killer.join()
        sandbox.close()
    assert all(
        ending in (wanted, Ending.NO_VERDICT)
        for ending, (_, _, wanted) in zip(found, expected, strict=True)
    )
    # Each kill ends at most one attempt.
    assert found.count(Ending.NO_VERDICT) * ATTEMPTS <= len(killed)


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_program_cannot_have_itself_killed_by_its_limit_of_processor_time(
    sandbox: LocalSandbox, seconds: int
) -> None:
    lowers = f"import resource\nresource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))\n"
    jobs = [
        Job(program=f"{lowers}while True: pass", suite=suite, limits=SHORT)
        for suite in (ADD, SUM)
    ]
    jobs += [
        Job(program=lowers + program, suite=suite)
        for program, suite in ((RIGHT, ADD), (PRINTS, SUM))
    ]
    expected = [Ending.TIMEOUT, Ending.TIMEOUT, Ending.PASSED, Ending.PASSED]
    assert [outcome.ending for outcome in sandbox.run(jobs)] == expected


def test_a_program_that_kills_itself_has_a_verdict(sandbox: LocalSandbox) -> None:
    program = "import os\nos.kill(os.getpid(), 9)\nos.kill(0, 9)\nos.abort()\n"
    for suite in (ADD, SUM):
        assert sandbox.run([Job(program=program, suite=suite)])[0].ending is Ending.KILLED


def test_a_program_that_ends_in_the_middle_of_a_message_is_judged_by_how_it_ended(
    sandbox: LocalSandbox,
) -> None:
    program = (
        "import os\ndef add(a, b):\n    os.write(4, b'\\0\\0\\0\\xff{')\n    os._exit(7)\n"
    )
    (outcome,) = sandbox.run([Job(program=program, suite=ADD)])
    assert (outcome.ending, outcome.detail) == (
        Ending.ERROR,
        "the program exited with status 7",
    )


def test_the_wall_time_is_for_all_cases_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = tuple(StdioCase(stdin=str(number), stdout="") for number in range(4))
    had: list[float] = []

    def run_case(
        zygote: object, job: Job, case: StdioCase, seconds: float
    ) -> tuple[TestResult, float]:
        had.append(seconds)
        return TestResult(ending=Ending.PASSED), 1.5

    suite = StdioSuite(tests=cases)
    monkeypatch.setattr(stdio_run, "_run_case", run_case)
    job = Job(program="", suite=suite, limits=Limits(wall_seconds=4.0))
    stdio_run.run_cases(None, job, suite)  # type: ignore[arg-type]
    assert had == [4.0, 2.5, 1.0, 0.001]
