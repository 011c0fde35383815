"""A corpus of programs for the sandbox: attacks on walls or verdicts, and harmless programs that must run normally.

The corpus is data: `sandbox_programs.jsonl`, or a folder of JSON files in the same format. Programs run inside the
sandbox only, and only after a probe has shown that its walls hold: some would harm a machine without walls. Their
targets are canaries, whose names are filled in for each run of the corpus.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from sandbox_bait import SECRET, Bait, Check, leftover_processes

from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.job import (
    Ending,
    Job,
    Limits,
    RunResult,
    StdioCase,
    StdioSuite,
    Suite,
)
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.suites.columns import suite_from_row

CORPUS = Path(__file__).with_name("sandbox_programs.jsonl")
SLACK_SECONDS = 2.0
"""Seconds by which a program may exceed its time limit."""

_NO_ANSWER = (Ending.NO_VERDICT, Ending.BAD_TESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of the corpus, with its expected result.

    Attributes:
        id: Its name.
        category: The kind of attack; `benign` for programs that must pass, or fail as in `per_test`.
        job: The program, its tests and its limits.
        passed: True if it must pass.
        outcomes: Allowed endings; empty for any.
        per_test: Expected result of each test; empty if not checked.
        repeat: Number of runs; each must end as expected.
        checks: Conditions on this machine after the run.
        needs_namespaces: True if it needs a process tree and a file system of its own.
        why: A description of the attack.
    """

    id: str
    category: str
    job: Job
    passed: bool
    outcomes: tuple[str, ...] = ()
    per_test: tuple[bool, ...] = ()
    repeat: int = 1
    checks: tuple[Check, ...] = field(default=(), compare=False)
    needs_namespaces: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A program's result: its ending, and every violated expectation."""

    id: str
    category: str
    ending: str
    seconds: float
    detail: str = ""
    broken: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """Say whether the program met all expectations."""
        return not self.broken

    def to_record(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self) | {"held": self.held}


class Runner(Protocol):
    """A sandbox with known isolation."""

    @property
    def isolation(self) -> Isolation:
        """The isolation of programs."""

    def run(self, jobs: Sequence[Job]) -> list[RunResult]:
        """Run jobs, and return their results in order."""


def load_corpus(source: Path | None = None) -> list[Program]:
    """Load programs from a JSONL file or a folder of JSON files; by default, from `sandbox_programs.jsonl`."""
    source = source or CORPUS
    texts = (
        [path.read_text(encoding="utf-8") for path in sorted(source.glob("*.json"))]
        if source.is_dir()
        else source.read_text(encoding="utf-8").splitlines()
    )
    rows = [json.loads(text) for text in texts if text.strip()]
    return [_program(row) for row in rows if "completion" in row]


def run_corpus(sandbox: Runner, programs: Iterable[Program]) -> list[Record]:
    """Run all programs in parallel on the sandbox, and check their results.

    A harmed canary is blamed on every attack, and a failed check on every program with this check, since the culprit is
    unknown.
    """
    namespaces = sandbox.isolation.namespaces
    kept = [program for program in programs if namespaces or not program.needs_namespaces]
    # Start programs with late effects first.
    kept.sort(key=lambda program: not _seconds_to_wait([program]))
    outcomes: dict[str, list[RunResult]] = {program.id: [] for program in kept}
    with Bait(
        [check for program in kept for check in program.checks], _seconds_to_wait(kept)
    ) as bait:
        for turn in range(max((program.repeat for program in kept), default=0)):
            again = [program for program in kept if program.repeat > turn]
            jobs = [
                replace(program.job, program=bait.filled(program.job.program))
                for program in again
            ]
            for program, outcome in zip(again, _run_all(sandbox, jobs), strict=True):
                outcomes[program.id].append(outcome)
        left = leftover_processes()
        return [_record(program, outcomes[program.id], bait, left) for program in kept]


def try_corpus(
    isolation: Isolation, programs: Iterable[Program], size: int = 4
) -> list[Record]:
    """Run programs at a probed isolation level, `size` at a time."""
    with contextlib.closing(LocalSandbox(size, isolation=isolation)) as sandbox:
        return run_corpus(sandbox, programs)


def _run_all(sandbox: Runner, jobs: Sequence[Job]) -> list[RunResult]:
    """Run jobs; a job that makes the sandbox itself raise, found by halving, gets NO_VERDICT."""
    try:
        return sandbox.run(jobs)
    except Exception as error:
        if len(jobs) == 1:
            return [
                RunResult(
                    ending=Ending.NO_VERDICT,
                    detail=f"the sandbox raised {type(error).__name__}: {error}",
                )
            ]
        middle = len(jobs) // 2
        return _run_all(sandbox, jobs[:middle]) + _run_all(sandbox, jobs[middle:])


def _seconds_to_wait(programs: Iterable[Program]) -> float:
    """Return seconds from the programs' start until all their effects are done."""
    checks = [
        check
        for program in programs
        for check in program.checks
        if check["type"] == "path_absent_after"
    ]
    return max((float(check["s"]) + SLACK_SECONDS for check in checks), default=0.0)


def _program(row: Mapping[str, Any]) -> Program:
    expected = row["expected"]
    per_test = tuple(bool(each) for each in expected.get("per_test") or ())
    job = Job(
        program=row["completion"],
        suite=_suite(row),
        limits=_limits(row["limits"]),
        stop_at_first=not per_test and not row.get("groups"),
    )
    return Program(
        id=row["id"],
        category=row["category"],
        job=job,
        passed=expected["passed"],
        outcomes=tuple(expected.get("outcome", ())),
        per_test=per_test,
        repeat=row.get("repeat") or 1,
        checks=tuple(row.get("host_checks") or ()),
        needs_namespaces=row.get("needs") == "namespaces",
        why=row.get("why", ""),
    )


def _suite(row: Mapping[str, Any]) -> Suite:
    if row["kind"] == "stdio":
        return StdioSuite(
            tests=tuple(
                StdioCase(stdin=case["stdin"], stdout=case["stdout"])
                for case in row["tests"]
            )
        )
    return suite_from_row({"tests": row["tests"]})


def _limits(limits: Mapping[str, Any]) -> Limits:
    return Limits(
        wall_seconds=limits["wall_s"],
        cpu_seconds=limits["cpu_s"],
        memory_mb=limits["memory_mb"],
        processes=limits["pids"],
        output_kb=limits["output_kb"],
        disk_mb=limits["disk_mb"],
    )


def _record(
    program: Program, outcomes: Sequence[RunResult], bait: Bait, left: Sequence[int]
) -> Record:
    broken = [text for outcome in outcomes for text in _wrong(program, outcome)]
    broken += bait.taken(program.checks, harmless=program.category == "benign")
    if left and any(check["type"] == "no_leftover_process" for check in program.checks):
        broken.append(f"processes were left: {list(left)}")
    return Record(
        id=program.id,
        category=program.category,
        ending=str(outcomes[-1].ending),
        seconds=max(outcome.seconds for outcome in outcomes),
        detail=outcomes[-1].detail,
        broken=tuple(dict.fromkeys(broken)),
    )


def _wrong(program: Program, outcome: RunResult) -> Iterator[str]:
    """Yield violated expectations of a run."""
    # A program that can avoid a verdict never loses, so this counts as a successful attack.
    if outcome.ending in _NO_ANSWER:
        yield f"it ended without a verdict: {outcome.ending}, {outcome.detail}"
    elif (outcome.ending is Ending.PASSED) != program.passed:
        yield f"it {outcome.ending}: {outcome.detail}" if program.passed else "it passed"
    elif program.outcomes and outcome.ending not in program.outcomes:
        yield f"it ended as {outcome.ending}, not {' or '.join(program.outcomes)}"
    if (
        program.per_test
        and tuple(test.ending is Ending.PASSED for test in outcome.tests)
        != program.per_test
    ):
        yield f"its tests ended as {[str(test.ending) for test in outcome.tests]}"
    if outcome.seconds > program.job.limits.wall_seconds + SLACK_SECONDS:
        yield f"it took {outcome.seconds:.1f} s"
    if SECRET in json.dumps(outcome.to_record()):
        yield "a secret of the environment was printed"
