"""Verify programs by unit tests: the program runs in a sandbox, and a judge outside its process compares results."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakSet

from trl_grpo_ext.answers.verdicts import unreadable
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    RunResult,
    Suite,
)
from trl_grpo_ext.programs.sandbox.packages import check_packages
from trl_grpo_ext.programs.sandbox.sandbox import LOCAL, find_sandbox
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.columns import Columns
from trl_grpo_ext.programs.suites.program_text import (
    REFERENCE_COLUMNS,
    ends_answer,
    extract_program,
    reference_program,
)
from trl_grpo_ext.programs.suites.read_row import (
    Groups,
    Part,
    ReadRow,
    read_row,
    row_without_tests,
)
from trl_grpo_ext.programs.suites.trials import (
    REFERENCE,
    naive_job,
    non_solutions,
    passed_naively,
    whatever_it_printed,
)
from trl_grpo_ext.protocol import BatchVerifier, DataProblem, required_column
from trl_grpo_ext.rewards.bases.visible_text import visible_text
from trl_grpo_ext.rewards.unit_tests.row_problems import row_problems
from trl_grpo_ext.rewards.unit_tests.scoring import (
    FOOLED,
    HIDDEN_IMPORT,
    Scoring,
    score,
    scored_verdict,
    unscored_verdict,
    with_hidden_import,
)
from trl_grpo_ext.sample import Prompt, Sample
from trl_grpo_ext.support.setting_checks import (
    check_choice,
    check_number,
    check_seconds,
    check_whole,
)
from trl_grpo_ext.verdict import Verdict, skipped

if TYPE_CHECKING:
    from trl_grpo_ext.programs.sandbox.sandbox import Sandbox

_NOT_THE_PROGRAM = (Ending.PASSED, Ending.NO_VERDICT, Ending.BAD_TESTS)
# Of `timeout`: an empty program takes up to 0.07 s on a busy machine.
LEAST_SECONDS = 0.1
# The most characters of a program in a verdict.
SHOWN_PROGRAM = 4000


@dataclass(frozen=True, kw_only=True)
class UnitTestVerifier(BatchVerifier):
    """Runs the completion's program against unit tests.

    The program runs in a sandbox, on this machine or on a Ray cluster. Tests and expected results never enter the
    program's process: a judge calls the program and compares plain data, so `sys.exit(0)`, an object that equals
    everything, or a patched builtin pass no test. docs/sandbox.md describes the isolation; docs/unit_tests.md describes
    the forms of tests, and the extraction of code from a completion.

    Args:
        column: The column of tests; by default the first of `tests`, `test_list`, `test` (with `entry_point`),
            `verification_info` and `input_output` with a value.
        entry_point_column: The column with the name that the completion must define, for all tests that call it.
        scoring: `all`: 1 if every test passes, else 0. `share`: the share of passed tests. `groups`: the share of fully
            passed groups in `groups_column`, weighted by `group_weights`.
        part: `all`, or a part of a row's tests: `shown` or `hidden`. A term trained on the shown tests, beside a term
            of weight 0 with the hidden tests, reveals if the policy learns the task or only its tests.
        hidden: The share of hidden tests, above 0 and below 1. With 0.5, every second test is hidden.
        groups_column: For `groups`: the column with a mapping from group names to test indices, from 0.
        group_weights: For `groups`: group name -> weight; 1 for a missing name.
        timeout: Time limit for all tests of a completion together, in seconds, for wall time and for CPU time; 0.1 or
            more.
        memory_mb: MiB of memory for the program and its children.
        processes: The most concurrent processes and threads of a program.
        output_kb: The most KiB that a run may print.
        disk_mb: MiB of the program's private temporary folder.
        run_only: Run the program without tests and without input, and score 1 if it ends with status 0. `pass` earns
            as much as a solution, so use it for a small term beside a term of correctness, or for a gate.
        second_opinion: Also run a naive grader on programs that the judge has failed; see `passes_naively` below. It
            costs one more run per failed completion.
        sandbox: `local`, or the name of a sandbox of another package (docs/sandbox_levels.md). With the setting
            `executor: ray`, `local` is the sandbox of each node of the cluster.
        workers: Number of programs that run at once on a machine; by default one per core that this rank, or Ray, may
            use.
        packages: Packages that programs may import, by import name, such as `[pandas, sympy]`, or folders with
            packages. Python's standard library, numpy, and packages imported by a row's tests, prompt or reference need
            no listing.
        reference_column: The column of a reference solution, for `check-data`, for the packages that it imports, and
            for the names it defines that Python has too; by default the first of `canonical_solution`, `reference`,
            `solution`, `code` and `gold_standard_solution`.
        allow_unsafe: Run programs without isolation if this machine offers none. A program then has all your rights.
        name: The metric key.

    | completion, tests | verdict | reason |
    |---|---|---|
    | passes every test | CORRECT, 1 | |
    | a test fails, `scoring="share"` and 3 of 4 pass | PARTIAL, 0.75 | `test_2_failed` |
    | an assert fails, or the output differs | INCORRECT, 0 | `test_1_failed` |
    | raises, exits, takes too much memory, prints too much, is killed | INCORRECT, 0 | `test_1_error`, ... |
    | not Python | INCORRECT, 0 | `test_1_compile_error` |
    | imports an installed package hidden from programs | INCORRECT, 0 | `hidden_import` |
    | any, if a test needs an operator of a returned object: `3 in f()` | INCORRECT, 0 | `operator_not_asked` |
    | fails, but a naive grader would have passed it, with `second_opinion` | INCORRECT, 0 | `passes_naively` |
    | takes longer than `timeout` | TIMEOUT, 0 | `test_1_timeout` |
    | code in thinking that does not end | UNPARSEABLE, 0 | `unclosed_think` |
    | no code at all | UNPARSEABLE, 0 | `no_code` |
    | ends with status 0, whatever it prints, with `run_only` | CORRECT, 1 | |
    | the row has no tests, or they do not run | SKIPPED, none | `tests_missing`, `tests_do_not_run`, ... |
    | the sandbox failed, again and again | ERROR, none | `sandbox_failed` |

    Raises:
        ValueError: for an invalid argument; at the first use, if the machine cannot isolate programs.

    Examples:
        >>> unit_test_reward(
        ...     ["```python\\ndef add(a, b):\\n    return a + b\\n```", "import sys; sys.exit(0)"],
        ...     tests=[["assert add(1, 2) == 3"]] * 2,
        ... )
        [1.0, 0.0]
    """

    column: str | None = None
    entry_point_column: str = "entry_point"
    scoring: Scoring = "all"
    part: Part = "all"
    hidden: float = 0.5
    groups_column: str = "groups"
    group_weights: Mapping[str, float] = field(default_factory=dict)
    timeout: float = 5.0
    memory_mb: int = 512
    processes: int = 32
    output_kb: int = 256
    disk_mb: int = 16
    run_only: bool = False
    second_opinion: bool = False
    sandbox: str = LOCAL
    workers: int | None = None
    packages: Sequence[str] = ()
    reference_column: str | None = None
    allow_unsafe: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout)
        if self.timeout < LEAST_SECONDS:
            raise ValueError(
                f"timeout is {LEAST_SECONDS:g} seconds or more, got {self.timeout!r}: an empty program takes as long "
                f"on a busy machine, so right programs would score 0. The default is 5."
            )
        # Raises a ValueError for an invalid limit.
        _ = self.limits
        check_choice("scoring", self.scoring, get_args(Scoring))
        check_choice("part", self.part, get_args(Part))
        self._check_part()
        # Without tests there is nothing to score, hide or fool.
        looks_at_tests = (
            self.part != "all"
            or self.scoring != "all"
            or self.column
            or self.second_opinion
        )
        if self.run_only and looks_at_tests:
            raise ValueError(
                "run_only looks at no tests: leave out column, scoring, part and second_opinion."
            )
        if self.workers is not None:
            check_whole("workers", self.workers, least=1)
        # Another sandbox has packages of its own.
        if self.sandbox == LOCAL:
            check_packages(self.packages)
        for group, weight in self.group_weights.items():
            if not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
                raise ValueError(
                    f"The weight of the group {group!r} is a number of 0 or more, got {weight!r}."
                )
        if self.sandbox != LOCAL:
            # Raises a ValueError for an unknown sandbox.
            self.runner()

    def _check_part(self) -> None:
        check_number("hidden", self.hidden, "a share of tests", above=0, below=1)
        if self.part != "all" and self.scoring == "groups":
            raise ValueError(
                "The groups of tests are those of all tests: take `part` or `scoring: groups`, not both."
            )

    @functools.cached_property
    def limits(self) -> Limits:
        """The resource limits of one program."""
        return Limits(
            wall_seconds=self.timeout,
            cpu_seconds=self.timeout,
            memory_mb=self.memory_mb,
            processes=self.processes,
            output_kb=self.output_kb,
            disk_mb=self.disk_mb,
        )

    @property
    def columns(self) -> Columns:
        """The column names searched for tests."""
        if self.column is None:
            return Columns(entry_point=self.entry_point_column)
        return Columns.only(self.column, entry_point=self.entry_point_column)

    def check_columns(self, columns: Collection[str]) -> None:
        if not self.run_only:
            alternatives = [name for name in self.columns.alternatives if name]
            required_column(columns, alternatives, verifier=self)
        if self.scoring == "groups":
            required_column(columns, [self.groups_column], verifier=self)
        # A machine that cannot run programs fails here, at the start, not in every verdict.
        _check_once(self.runner())

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return self.judge_questions(samples, self._task, self._judge)

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        """Compute shares of completions: per ending, with a hidden import, and accepted by the naive grader only."""
        judged = [verdict for verdict in verdicts if verdict is not None]
        count = max(1, len(judged))
        endings = [verdict.details.get("ending") for verdict in judged]
        reasons = [verdict.reason for verdict in judged]
        shares = {}
        for ending in Ending:
            # A program that has run ends in another way.
            if ending not in (Ending.NOT_RUN, Ending.SKIPPED):
                shares[f"ending/{ending}"] = endings.count(ending) / count
        shares[HIDDEN_IMPORT] = reasons.count(HIDDEN_IMPORT) / count
        if self.second_opinion:
            shares[FOOLED] = reasons.count(FOOLED) / count
        return shares

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose tests are unreadable.

        If `thorough`, also list rows whose tests fail their reference solution, pass a non-solution, or need features
        that the sandbox lacks. This takes one run per row for the reference, and about 20 more for non-solutions.
        """
        if self.run_only:
            return []
        run = self.runner().run if thorough else None
        return row_problems(rows, self.suite_of_row, self.trials, run)

    def suite_of_row(self, row: Mapping[str, Any]) -> Suite:
        """Return the tests of a dataset's row, which has its prompt as a column. May raise BadTests."""
        return self.suite(row, row.get("prompt"))

    def facts(self) -> dict[str, str]:
        return {"isolation": self.runner().check()}

    def close(self) -> None:
        """Stop the sandbox's processes; the next use starts new processes."""
        self.runner().close()

    def runner(self) -> Sandbox:
        """Return the sandbox for these settings, local or by name."""
        return find_sandbox(
            self.sandbox,
            workers=self.workers,
            packages=self.packages,
            allow_unsafe=self.allow_unsafe,
        )

    def suite(self, row: Mapping[str, Any], prompt: Prompt | None = None) -> Suite:
        """Return the tests of a row.

        Raises:
            BadTests: if the tests are missing, or cannot judge any program.
        """
        return self._row(row, prompt).suite

    def run(self, sample: Sample) -> RunResult | Verdict:
        """Run a completion's program against the tests of its row; return a verdict if nothing can be run."""
        task = self.guarded(self._task, sample)
        if isinstance(task, Verdict):
            return task
        return self.runner().run([task.job])[0]

    @property
    def reference_columns(self) -> tuple[str, ...]:
        """The columns of a row's reference solution; the first with a value counts."""
        if self.reference_column:
            return (self.reference_column,)
        return REFERENCE_COLUMNS

    def _row(self, row: Mapping[str, Any], prompt: Prompt | None) -> ReadRow:
        if self.run_only:
            return row_without_tests(prompt)
        groups_column = self.groups_column if self.scoring == "groups" else None
        return read_row(
            row,
            prompt,
            self.columns,
            groups_column,
            self.part,
            self.reference_columns,
            self.hidden,
        )

    def _task(self, sample: Sample) -> _Task | Verdict:
        try:
            row = self._row(sample.row, sample.prompt)
        except BadTests as bad:
            return replace(
                skipped(bad.reason), details={"why": f"{bad.reason}: {bad.value}"}
            )
        names = row.suite.names if isinstance(row.suite, CallSuite) else ()
        program = program_of(sample, names, row.called)
        if isinstance(program, Verdict):
            return program
        # A tool's argument has an end of its own.
        is_text = not isinstance(sample.text, WholeProgram)
        job = Job(
            program=row.whole(program),
            suite=row.suite,
            limits=self.limits,
            # One failed test decides the score.
            stop_at_first=self.scoring == "all",
            imports=row.imports,
            may_be_cut=is_text and ends_answer(program, sample.text),
        )
        return _Task(job, program[:SHOWN_PROGRAM], row.groups)

    def trials(self, row: Mapping[str, Any], suite: Suite) -> list[tuple[str, Job]]:
        """Make the trial jobs of `check-data` for a row: the reference solution, and non-solutions that must fail."""
        trials: list[tuple[str, Job]] = []
        reference = self.reference_job(row)
        if reference is not None:
            trials.append((REFERENCE, reference))
        imports = self._row(row, row.get("prompt")).imports
        for what, program in non_solutions(suite):
            job = Job(
                program=program,
                suite=suite,
                limits=self.limits,
                imports=imports,
            )
            trials.append((what, job))
        return trials

    def reference_job(self, row: Mapping[str, Any]) -> Job | None:
        """Make the job of a row's reference solution; None if the row has none. May raise BadTests."""
        program = reference_program(row, self.reference_columns)
        if program is None:
            return None
        return self.job(row, program)

    def job(self, row: Mapping[str, Any], program: str) -> Job:
        """Make the job of a program and all tests of a dataset's row. May raise BadTests."""
        read = self._row(row, row.get("prompt"))
        return Job(
            program=read.whole(program),
            suite=read.suite,
            limits=self.limits,
            imports=read.imports,
        )

    def _judge(self, tasks: Sequence[_Task]) -> list[Verdict]:
        jobs = [task.job for task in tasks]
        outcomes = self.runner().run(jobs)
        # Its suite has one test with no output, which a printing program fails.
        if self.run_only:
            outcomes = [whatever_it_printed(outcome) for outcome in outcomes]
        fooled: dict[Job, bool] = {}
        if self.second_opinion:
            fooled = self._fooled(jobs, outcomes)
        judged = zip(tasks, outcomes, strict=True)
        return [
            self._verdict(task, outcome, fooled.get(task.job)) for task, outcome in judged
        ]

    def _fooled(
        self, jobs: Sequence[Job], outcomes: Sequence[RunResult]
    ) -> dict[Job, bool]:
        """Run a naive grader on failed jobs, and map each job to the grader's result: True if passed."""
        # Equal programs of a batch are equal jobs: the naive grader runs each once.
        asked: dict[Job, Job] = {}
        for job, outcome in zip(jobs, outcomes, strict=True):
            # Only a program that the judge has failed can be one that fools a naive grader.
            if outcome.ending in _NOT_THE_PROGRAM:
                continue
            naive = naive_job(job)
            if naive is not None:
                asked[job] = naive
        answers = self.runner().run(list(asked.values()))
        fooled = {}
        for job, answer in zip(asked, answers, strict=True):
            # A run without results says nothing.
            if answer.tests:
                fooled[job] = passed_naively(answer)
        return fooled

    def _verdict(self, task: _Task, outcome: RunResult, fooled: bool | None) -> Verdict:
        unscored = unscored_verdict(outcome, tests=len(task.job.suite.tests))
        if unscored is not None:
            return unscored
        passed: list[bool | None] = []
        for test in outcome.tests:
            is_skipped = test.ending is Ending.SKIPPED
            passed.append(None if is_skipped else test.ending is Ending.PASSED)
        value = score(passed, self.scoring, task.groups, self.group_weights)
        verdict = scored_verdict(
            outcome,
            value,
            program=task.shown,
            fooled=fooled,
        )
        return with_hidden_import(verdict, self.packages, task.job.imports)


@dataclass(frozen=True, slots=True)
class _Task:
    """A completion ready to judge: its job, its program text for the verdict, and its groups of tests."""

    job: Job
    shown: str
    groups: Groups | None


_checked: WeakSet[Sandbox] = WeakSet()


def _check_once(sandbox: Sandbox) -> None:
    """Raise an error at the start if the sandbox cannot run programs; a later failure is a grader error instead."""
    if sandbox not in _checked:
        sandbox.check()
        _checked.add(sandbox)


unit_test_reward = UnitTestVerifier(name="unit_test_reward")
"""`UnitTestVerifier` with its defaults, ready for a list of reward functions or for `trl grpo --reward_funcs`."""


class WholeProgram(str):
    """A sample's text without prose around the program, such as a tool's argument."""

    __slots__ = ()


def program_of(
    sample: Sample, names: Collection[str] = (), called: Collection[str] = ()
) -> str | Verdict:
    """Extract the program of a completion by `extract_program`, or return an UNPARSEABLE verdict."""
    if isinstance(sample.text, WholeProgram):
        if not sample.text.strip():
            return unreadable("no_code")
        return sample.text
    answer = visible_text(sample)
    if answer is None:
        return unreadable("unclosed_think")
    # A byte order mark is no Python.
    program = extract_program(answer.lstrip("\ufeff"), names, called)
    if program is None:
        return unreadable("no_code")
    return program
