"""Run the corpus of attacks and harmless programs at every isolation level that holds on this machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from sandbox_bait import SECRET, Canaries, leftover_processes, sandboxed_processes
from sandbox_corpus import load_corpus, run_corpus

from trl_grpo_ext.doctor import LEVELS, Level, probe_level
from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    RunResult,
    TestResult,
)
from trl_grpo_ext.programs.sandbox.local import LocalSandbox

# Attacks that the walls stop. The judge stops the others, and is identical behind all walls.
BEHIND_WALLS = (
    "benign",
    "host",
    "network",
    "persistence",
    "resource",
    "secrets",
    "read_tests",
)
TESTS = CallSuite(
    tests=("assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3"), names=("f",)
)


class Credulous:
    """A fake sandbox that reports a pass for every program."""

    isolation = Isolation.FULL

    def __init__(self, detail: str = "") -> None:
        self._detail = detail

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        passed = TestResult(ending=Ending.PASSED)
        return [
            RunResult(
                ending=Ending.PASSED,
                detail=self._detail,
                tests=(passed,) * len(job.suite.tests),
            )
            for job in jobs
        ]


@pytest.fixture(scope="module")
def levels() -> dict[Isolation, Level]:
    """Probe results per isolation level; the corpus runs only behind walls that hold."""
    return {level.isolation: level for level in map(probe_level, LEVELS)}


@pytest.fixture(scope="module")
def best(levels: dict[Isolation, Level]) -> Isolation:
    """Return the strongest isolation level that holds on this machine."""
    found = [isolation for isolation, level in levels.items() if level.holds]
    if not found:
        pytest.skip("this machine has no walls to run programs behind")
    return found[0]


# test_identities.py runs attacks on the machine in the quick tests, test_judge_lies.py attacks on the judge.
@pytest.mark.slow
@pytest.mark.parametrize("isolation", LEVELS, ids=lambda isolation: isolation.name.lower())
def test_every_attack_is_held_off_and_every_harmless_program_passes(
    isolation: Isolation, levels: dict[Isolation, Level], best: Isolation
) -> None:
    if not levels[isolation].holds:
        pytest.skip(levels[isolation].missing or "an attack of the probe got through")
    programs = [
        each for each in load_corpus() if isolation is best or each.category in BEHIND_WALLS
    ]
    before = psutil.Process().memory_info().rss
    with closing(LocalSandbox(4, isolation=isolation)) as sandbox:
        records = run_corpus(sandbox, programs)
    # Times depend on the machine more than on the walls.
    broken = {
        record.id: [text for text in record.broken if not text.startswith("it took")]
        for record in records
    }
    assert {name: texts for name, texts in broken.items() if texts} == {}
    assert leftover_processes() == []
    assert psutil.Process().memory_info().rss - before < 64 << 20


@pytest.mark.slow
def test_the_corpus_is_large_and_its_programs_have_names_of_their_own() -> None:
    programs = load_corpus()
    assert len({program.id for program in programs}) == len(programs)
    assert sum(program.category != "benign" for program in programs) > 300
    assert sum(program.category == "benign" for program in programs) > 60


def test_two_at_a_time_have_canaries_of_their_own() -> None:
    with Canaries() as canaries, Canaries() as others:
        assert canaries.folder != others.folder and canaries.port != others.port
        assert canaries.harmed() == []
        (canaries.folder / "new").mkdir()
        assert canaries.harmed() == ["a file was written"] and others.harmed() == []
    assert not canaries.folder.exists()


@pytest.mark.slow
def test_every_attack_is_broken_where_everything_passes() -> None:
    # The sandbox would wait for this daemon.
    programs = [each for each in load_corpus() if each.id != "persist_double_fork_daemon"]
    records = run_corpus(Credulous(), programs)
    partial = {
        program.id
        for program in programs
        if program.category == "benign" and not program.passed
    }
    assert {record.id for record in records if record.held} == {
        program.id for program in programs if program.category == "benign"
    } - partial


@pytest.mark.slow
def test_a_printed_secret_is_broken() -> None:
    (record,) = run_corpus(
        Credulous(f"it was {SECRET}"), [next(each for each in load_corpus() if each.passed)]
    )
    assert not record.held


@pytest.mark.slow
def test_a_sandbox_that_raises_for_one_program_is_found_out() -> None:
    class Fragile(Credulous):
        def run(self, jobs: Sequence[Job]) -> list[RunResult]:
            if any(job == programs[3].job for job in jobs):
                raise ValueError("40 is not a valid Signals")
            return super().run(jobs)

    programs = [each for each in load_corpus() if each.passed][:8]
    assert [record.held for record in run_corpus(Fragile(), programs)] == [True] * 3 + [
        False
    ] + [True] * 4


def test_a_folder_of_json_files_is_a_corpus_too(tmp_path: Path) -> None:
    row = {
        "id": "sum",
        "category": "benign",
        "kind": "stdio",
        "completion": "print(sum(map(int, input().split())))",
        "tests": [{"stdin": "1 2\n", "stdout": "3\n"}],
        "limits": {
            "wall_s": 3,
            "cpu_s": 3,
            "memory_mb": 128,
            "output_kb": 8,
            "disk_mb": 1,
            "pids": 8,
        },
        "expected": {"passed": True},
    }
    (tmp_path / "sum.json").write_text(json.dumps(row))
    (tmp_path / "other.json").write_text('{"note": "no program"}')
    (program,) = load_corpus(tmp_path)
    assert (program.id, program.job.limits.processes, program.passed) == ("sum", 8, True)


@pytest.mark.slow
def test_a_program_that_ends_while_its_judge_is_busy_is_cut_off_in_time(
    sandbox: LocalSandbox,
) -> None:
    programs = [each for each in load_corpus() if each.id == "judge_billion_laughs"]
    (record,) = run_corpus(sandbox, programs)
    assert record.held, record.broken


@pytest.mark.slow
def test_a_program_that_is_too_large_for_its_memory_still_gets_a_verdict(
    sandbox: LocalSandbox,
) -> None:
    large = "x = '" + "y" * (80 << 20) + "'\ndef f(x): return x"
    (outcome,) = sandbox.run([Job(program=large, suite=TESTS, limits=Limits(memory_mb=64))])
    assert outcome.ending not in (Ending.NO_VERDICT, Ending.PASSED)


@pytest.mark.slow
def test_programs_see_nothing_of_each_other_whatever_their_order(
    sandbox: LocalSandbox,
) -> None:
    programs = [
        each
        for each in load_corpus()
        if each.id in ("persist_marks", "persist_inherited", "persist_background")
    ]
    for order in (programs, programs[::-1]):
        assert {
            record.id: record.broken
            for record in run_corpus(sandbox, order)
            if not record.held
        } == {}


# The program sleeps for 5 seconds.
@pytest.mark.slow
def test_a_process_that_a_program_has_is_seen_as_left_behind_while_it_runs(
    best: Isolation,
) -> None:
    program = "import time\ntime.sleep(5)\ndef f(n): return 1\n"
    with closing(LocalSandbox(1, isolation=best)) as sandbox:
        sandbox.run([Job(program="def f(n): return 1", suite=TESTS)])
        batch = threading.Thread(
            target=sandbox.run, args=([Job(program=program, suite=TESTS)],)
        )
        batch.start()
        until = time.monotonic() + 4
        while not (seen := sandboxed_processes()) and time.monotonic() < until:
            time.sleep(0.02)
        assert seen
        batch.join(60)
        assert not leftover_processes()


@pytest.mark.slow
def test_a_sandbox_that_waits_for_programs_has_left_no_process(best: Isolation) -> None:
    # Of any level: tests that ran before in this process may have left such sandboxes open.
    with closing(LocalSandbox(1, isolation=best)) as sandbox:
        sandbox.check()
        assert leftover_processes() == []
