"""A judge takes the next program only if the run before can have left nothing in it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace

import psutil
import pytest
from walls import walls_or_skip

from trl_grpo_ext.rewards.unit_tests.pure_tests import are_pure
from trl_grpo_ext.rewards.unit_tests.source import parse
from trl_grpo_ext.sandbox import call_run
from trl_grpo_ext.sandbox.call_run import Report, run_calls
from trl_grpo_ext.sandbox.inside.proxy import Fault, ProgramProxy
from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, RunResult
from trl_grpo_ext.sandbox.local import LocalSandbox
from trl_grpo_ext.sandbox.zygote import LostError, Zygote
from trl_grpo_ext.workers.frames import Channel

BEST = walls_or_skip()
ADD = CallSuite(tests=("assert add(1, 2) == 3", "assert add(2, 2) == 4"), names=("add",), pure=True)
RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote(BEST)
    yield zygote
    zygote.kill()


def run(zygote: Zygote, program: str, suite: CallSuite = ADD, limits: Limits | None = None) -> RunResult:
    return run_calls(zygote, Job(program=program, suite=suite, limits=limits or Limits()), suite)


def judge_of(zygote: Zygote) -> int | None:
    return zygote.judge and zygote.judge.number


def test_one_judge_judges_several_programs_and_suites(zygote: Zygote) -> None:
    double = CallSuite(setup="seen = []", tests=("seen.append(f(4))\nassert seen == [8]",), names=("f",), pure=True)
    assert run(zygote, RIGHT).ending is Ending.PASSED
    first = judge_of(zygote)
    assert first is not None
    for program, suite, ending in (
        (WRONG, ADD, Ending.FAILED),
        ("def f(x): return 2 * x", double, Ending.PASSED),
        ("def add(a, b:", ADD, Ending.COMPILE_ERROR),
        ("def f(x): print(x); return [x]", double, Ending.FAILED),
        (RIGHT, ADD, Ending.PASSED),
    ):
        assert run(zygote, program, suite).ending is ending
        assert judge_of(zygote) == first


def test_each_program_meets_the_tests_as_they_were_written(zygote: Zygote) -> None:
    setup = "seen, known = [], {}\ndef check(f, log=[]):\n    log.append(f(1)); seen.append(1); known[f(1)] = 1\n"
    test = "check(f)\nassert (len(seen), len(known)) == (1, 1) and check.__defaults__ == ([f(1)],)"
    suite = CallSuite(setup=setup, tests=(test,), names=("f",), pure=True)
    for number in range(3):
        before = judge_of(zygote)
        assert run(zygote, f"def f(x): return {number}", suite).ending is Ending.PASSED
        assert number == 0 or judge_of(zygote) == before is not None


UNUSUAL = {
    "an object": ("class A: pass\ndef add(a, b): return A()", Ending.FAILED),
    "a class in its place": ("class add:\n    def __new__(cls, a, b): return a + b", Ending.PASSED),
    "an exception": ("def add(a, b): raise KeyError(a)", Ending.ERROR),
    "a named tuple": (
        "from collections import namedtuple\ndef add(a, b): return namedtuple('P', 'x')(1)",
        Ending.FAILED,
    ),
    "what needs a module": ("from pathlib import Path\ndef add(a, b): return Path('a')", Ending.FAILED),
    "a number of decimals": ("from decimal import Decimal\ndef add(a, b): return Decimal(a + b)", Ending.PASSED),
    "its end": ("import os\ndef add(a, b): os._exit(0)", Ending.ERROR),
    "nonsense": ("import os\ndef add(a, b): os.write(4, b'\\0\\0\\0\\2{}'); return a + b", Ending.PROTOCOL),
    "megabytes": ("def add(a, b): return 'x' * (24 << 20)", Ending.FAILED),
}


@pytest.mark.parametrize("program, ending", UNUSUAL.values(), ids=UNUSUAL)
def test_a_judge_goes_with_a_program_that_gave_more_than_plain_data(
    zygote: Zygote, program: str, ending: Ending
) -> None:
    assert run(zygote, program).ending is ending
    assert zygote.judge is None
    assert run(zygote, RIGHT).ending is Ending.PASSED


def test_a_judge_goes_with_a_program_that_called_the_tests(zygote: Zygote) -> None:
    suite = CallSuite(tests=("assert f(lambda x: x + 1) == 2",), names=("f",), pure=True)
    assert run(zygote, "def f(g): return g(1)", suite).ending is Ending.PASSED
    assert zygote.judge is None


def test_a_judge_goes_with_tests_that_may_have_changed_something(zygote: Zygote) -> None:
    for suite in (
        replace(ADD, pure=False),
        replace(ADD, tests=("assert add(1, 2) == 3, 'seed'",)),  # for which Python's own `random.seed` is replaced
        CallSuite(setup="1 / 0", tests=("f()",), names=("f",), pure=True),
    ):
        run(zygote, RIGHT, suite)
        assert zygote.judge is None


def test_a_judge_goes_with_a_run_that_was_cut(zygote: Zygote) -> None:
    assert run(zygote, "def add(a, b):\n    while True: pass", limits=Limits(wall_seconds=0.2)).ending is Ending.TIMEOUT
    assert zygote.judge is None


def test_a_judge_has_the_limits_of_its_job(zygote: Zygote) -> None:
    run(zygote, RIGHT)
    first = judge_of(zygote)
    run(zygote, RIGHT, limits=Limits(memory_mb=1024))
    assert first != judge_of(zygote) is not None


def test_no_judge_is_kept_for_ever(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_run, "MOST_RUNS", 3)
    run(zygote, UNUSUAL["an exception"][0])
    kept = [judge_of(zygote) for _ in range(8) if run(zygote, RIGHT).ending is Ending.PASSED]
    assert [number is None for number in kept] == [False, False, False, True] * 2
    assert len({number for number in kept if number is not None}) == 2


@pytest.mark.parametrize("run_of_frame", [2, 4])
def test_what_a_judge_said_of_another_run_is_no_verdict(run_of_frame: int) -> None:
    report = Report(Job(program="", suite=ADD), 3)
    with pytest.raises(LostError):
        report.take([{"run": run_of_frame, "test": 0, "ending": "passed", "detail": ""}])
    assert report.results == []


def test_nothing_is_taken_after_the_last_word() -> None:
    report = Report(Job(program="", suite=ADD), 0)
    said = {"run": 0, "test": 0, "ending": "passed", "detail": "", "clean": True}
    with pytest.raises(LostError):
        report.take([said, said])


@pytest.mark.skipif(not BEST.namespaces, reason="which process is the judge is seen in namespaces only")
def test_a_judge_that_was_killed_meanwhile_costs_no_verdict() -> None:
    others = psutil.Process().children(recursive=True)
    with contextlib.closing(LocalSandbox(1)) as sandbox:
        for _ in range(3):
            assert sandbox.run([Job(program=RIGHT, suite=ADD)])[0].ending is Ending.PASSED
            own = [each for each in psutil.Process().children(recursive=True) if each not in others]
            (judge,) = [each for each in own if not each.children()]
            os.kill(judge.pid, signal.SIGKILL)


def test_what_is_left_of_a_program_asks_nothing_after_its_run() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        program = ProgramProxy(Channel(ours.fileno()), {})
        assert program.end()
        with pytest.raises(Fault):
            program.request("dir")
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


PURE = (
    "assert f([1, 2]) == {'a': (1, 2.5)}",
    "def check(g):\n    for each in range(3):\n        assert abs(g(each) - each) < 1e-6, 'far'\ncheck(f)",
    "import math\nassert math.isclose(f(1), math.pi)",
    "from collections import Counter\nassert Counter(f('a')) == Counter(['a'])",
    "rows = [x for x in f(2) if x]\nrows.sort(key=lambda row: row[0])\nassert rows[0] == 1",
)
IMPURE = (
    "import random\nassert f(random.random())",
    "from random import *\nassert f()",
    "from . import math",
    "import os.path",
    "import math\nmath.pi = 3\nassert f() == 3",
    "f.calls = 1",
    "class A:\n    pass\nassert f(A())",
    "import functools\n@functools.cache\ndef g(x):\n    return x\nassert f(g)",
    "def g():\n    global x\n    x = 1",
    "assert open('x')",
    "assert __builtins__",
    "assert getattr(f, 'x')",
    "assert f.__globals__",
    "import math\nassert math.__dict__",
    "try:\n    f()\nexcept ValueError:\n    pass",
    "with f():\n    pass",
    "del f",
    "assert (y := f())",
    "raise ValueError",
    "import solution\nassert solution.f()",
)


def checked(sources: Sequence[str]) -> list[bool]:
    return [are_pure([tree]) for source in sources if (tree := parse(source)) is not None]


def test_tests_that_reach_nothing_but_their_own_names_are_pure() -> None:
    assert checked(PURE) == [True] * len(PURE)
    assert checked(IMPURE) == [False] * len(IMPURE)
