"""What a naive grader would say: program and tests in one process, judged by whether it ends with status 0.

Such graders are common, and programs can cheat them: by `sys.exit(0)`, by an object that equals everything, by a
patched builtin. A program that passes here and not before the judge has found such a hole, or else the judge has a
fault; either is worth a look.
"""

from __future__ import annotations

from dataclasses import replace

from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, RunResult, StdioCase, StdioSuite


def naive_job(job: Job) -> Job | None:
    """The job that asks a naive grader, still in the sandbox; None where programs print and there is none to ask."""
    if not isinstance(job.suite, CallSuite):
        return None
    program = "\n\n".join([job.program, job.suite.setup, *job.suite.tests])
    return replace(job, program=program, suite=StdioSuite(tests=(StdioCase(stdin="", stdout=""),)))


def passed_naively(outcome: RunResult) -> bool:
    """Whether the naive grader was content. The program may have printed anything; only its status counts."""
    return outcome.ending in (Ending.PASSED, Ending.FAILED)
