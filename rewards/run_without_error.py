"""Reward programs that run without an error in the sandbox, for rows without tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from trl_grpo_ext.protocol import BatchVerifier
from trl_grpo_ext.rewards.unit_tests.program import program_of
from trl_grpo_ext.rewards.unit_tests.scoring import with_hidden_import
from trl_grpo_ext.rewards.unit_tests.trials import passed_naively
from trl_grpo_ext.rewards.unit_tests.verifier import SHOWN_PROGRAM, UnitTestVerifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.sandbox.job import Ending, Job, RunResult, StdioCase, StdioSuite
from trl_grpo_ext.sandbox.sandbox import LOCAL
from trl_grpo_ext.verdict import Status, Verdict, grader_error


@dataclass(frozen=True, kw_only=True)
class RunWithoutErrorVerifier(BatchVerifier):
    """Runs the completion's program without input; correct if the program exits by itself with status 0.

    The output is not judged: `pass` scores as much as a solution, and so does `sys.exit(0)`. Give the term a small
    weight beside a correctness term, or use it as the gate of a correctness term.

    Args:
        timeout: Time limit of the program in seconds, for wall time and for CPU time.
        memory_mb: MiB of memory for the program and its children.
        sandbox: `local`, or the name of another sandbox, as for `UnitTestVerifier`.
        workers: Number of programs that run at once on this machine, as for `UnitTestVerifier`.
        packages: Packages that programs may import, as for `UnitTestVerifier`.
        allow_unsafe: Run programs without isolation if this machine offers none. A program then has all your rights.
        name: The metric key.

    | completion | verdict | reason |
    |---|---|---|
    | a program that ends with status 0, whatever it prints | CORRECT, 1 | |
    | one that imports an installed package not listed in `packages` | INCORRECT, 0 | `hidden_import` |
    | one that raises, or ends with another status | INCORRECT, 0 | `error` |
    | not Python | INCORRECT, 0 | `compile_error` |
    | takes too much memory, prints too much, is killed | INCORRECT, 0 | `memory`, `output_limit`, `killed` |
    | takes longer than `timeout` | TIMEOUT, 0 | `timeout` |
    | no code at all, or thinking that does not end | UNPARSEABLE, 0 | `no_code`, `unclosed_think` |
    | the sandbox failed, again and again | ERROR, none | `sandbox_failed` |

    Raises:
        ValueError: for an invalid argument; at the first use, if the machine cannot isolate programs.
    """

    timeout: float = 5.0
    memory_mb: int = 512
    sandbox: str = LOCAL
    workers: int | None = None
    packages: Sequence[str] = ()
    allow_unsafe: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        _ = self._tests

    @cached_property
    def _tests(self) -> UnitTestVerifier:
        """A `UnitTestVerifier` with equal settings: validates the settings, and owns the sandbox."""
        return UnitTestVerifier(
            timeout=self.timeout,
            memory_mb=self.memory_mb,
            sandbox=self.sandbox,
            workers=self.workers,
            packages=self.packages,
            allow_unsafe=self.allow_unsafe,
        )

    def check_columns(self, columns: Collection[str]) -> None:
        self._tests.runner().check()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return self.judge_questions(samples, self._job, self._run)

    def _run(self, jobs: Sequence[Job]) -> list[Verdict]:
        return [
            _verdict(job, outcome, self.packages)
            for job, outcome in zip(jobs, self._tests.runner().run(jobs), strict=True)
        ]

    def _job(self, sample: Sample) -> Job | Verdict:
        program = program_of(sample)
        if isinstance(program, Verdict):
            return program
        suite = StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
        return Job(program=program, suite=suite, limits=self._tests.limits)

    def facts(self) -> dict[str, str]:
        return self._tests.facts()

    def close(self) -> None:
        """Stop the sandbox's processes; the next use starts new processes."""
        self._tests.close()


def _verdict(job: Job, outcome: RunResult, packages: Sequence[str]) -> Verdict:
    about = {"ending": str(outcome.ending), "why": outcome.detail, "isolation": outcome.level}
    details = {name: value for name, value in about.items() if value}
    shown, seconds = job.program[:SHOWN_PROGRAM], outcome.seconds
    if outcome.ending in (Ending.NO_VERDICT, Ending.BAD_TESTS):
        return grader_error(outcome.failure, seconds=seconds, error=outcome.detail)
    # Success is the exit status alone: the output is not compared.
    if passed_naively(outcome):
        return Verdict(status=Status.CORRECT, score=1.0, answer=shown, seconds=seconds, details=details)
    status = Status.TIMEOUT if outcome.ending is Ending.TIMEOUT else Status.INCORRECT
    reason = str(outcome.ending)
    verdict = Verdict(status=status, score=0.0, answer=shown, reason=reason, seconds=seconds, details=details)
    return with_hidden_import(verdict, packages)


run_without_error_reward = RunWithoutErrorVerifier(name="run_without_error_reward")
"""`RunWithoutErrorVerifier` with its defaults, ready for a list of reward functions."""
