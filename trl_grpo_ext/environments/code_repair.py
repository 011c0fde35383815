"""Code repair: the model sees some tests of a row and may run them, and is judged by the others."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from trl_grpo_ext.environments.openreward import UNSUBMITTED
from trl_grpo_ext.environments.python import OUTPUT_CHARS, cut_for_the_model
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    RunResult,
    Suite,
    TestResult,
)
from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.test_module import told_test
from trl_grpo_ext.programs.suites.trials import BROKEN, REFERENCE
from trl_grpo_ext.protocol import DataProblem
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.rewards.function import verifier
from trl_grpo_ext.rewards.unit_tests.row_problems import row_problems
from trl_grpo_ext.rewards.unit_tests.scoring import unscored_verdict
from trl_grpo_ext.rewards.unit_tests.verifier import WholeProgram
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Blame, Verdict, grader_error, skipped

SUBMISSIONS = "submissions"
# The most characters of a program in the state, which the record keeps.
_SHOWN_PROGRAM = 4000


class CodeRepairEnvironment:
    """A program to mend or to write: `submit` runs the public tests, and hidden tests judge the last submission.

    Both parts are run and judged as `UnitTestVerifier` does, so a row has its tests in any form that it reads. The
    hidden tests are in no process that the model's code can read. The prompt states the task; broken code of the row
    and its public tests are added to it. A subclass has other settings::

        class PandasRepair(CodeRepairEnvironment):
            tests = UnitTestVerifier(packages=["pandas"], hidden=0.25)

    Attributes:
        tests: Columns, limits, packages and sandbox, as for the verifier `unit_test`, and the share of hidden tests.
        hidden_column: The column of hidden tests. If it is None, a share of the row's tests is hidden.
        broken_column: The column of the code to mend. Rows without it are to be written from nothing.
        submissions: The most submissions of a rollout.

    Raises:
        ValueError: for settings that do not fit, and where no walls hold.

    | the last submission | verdict |
    |---|---|
    | passes all hidden tests | CORRECT, 1 |
    | fails one | INCORRECT, 0, or as `tests` scores it |
    | there is none | INCORRECT, 0, `unsubmitted` |
    | the sandbox failed, for this submission or an earlier one | ERROR, none: the row is void |
    | the row has no tests, or too few to hide any, or they do not run | SKIPPED, none: the row is void |

    Examples:
        >>> environment = CodeRepairEnvironment()
        >>> tests = ["assert add(1, 0) == 1", "assert add(1, 2) == 3"]
        >>> print(environment.reset(broken="def add(a, b):\\n    return a - b", tests=tests))
        <BLANKLINE>
        ```python
        def add(a, b):
            return a - b
        ```
        Tests:
        assert add(1, 0) == 1
        >>> environment.submit("def add(a, b):\\n    return 1"), environment.get_reward().score
        ('assert add(1, 0) == 1: passed', 0.0)
        >>> environment.submit("def add(a, b):\\n    return a + b"), environment.get_reward().score
        ('assert add(1, 0) == 1: passed', 1.0)
    """

    tests: UnitTestVerifier = UnitTestVerifier()
    hidden_column: str | None = None
    broken_column: str = "broken"
    submissions: int = 5
    # Submissions of several rollouts share nothing.
    parallel_calls = True

    def __init__(self) -> None:
        # This scoring runs all public tests, also after a failed one.
        public = replace(self.tests, scoring="share", second_opinion=False)
        if self.hidden_column is None:
            self._public = replace(public, part="shown")
            self._hidden = replace(self.tests, part="hidden")
        else:
            self._public = public
            self._hidden = replace(self.tests, column=self.hidden_column)
        # A run must not begin if each of its submissions would fail.
        self._hidden.runner().check()
        self.reset()

    def reset(self, prompt: Any = None, **row: Any) -> str:
        """Begin with a row, and show its broken code and its public tests."""
        self._prompt = prompt
        self._row: Mapping[str, Any] = row
        self._submitted: list[str] = []
        self._passed = ""
        self._failure = ""
        try:
            tests = _texts(self._public.suite(row, prompt))
        except BadTests:
            # The verdict says so.
            tests = []
        shown = "\n"
        broken = row.get(self.broken_column)
        if isinstance(broken, str):
            shown += f"```python\n{broken.rstrip()}\n```\n"
        return f"{shown}Tests:\n" + "\n".join(tests)

    def submit(self, code: str) -> str:
        """Submit a program, in place of the last one, and run the tests.

        Args:
            code: The whole program.

        Returns:
            How each test has ended.
        """
        if not isinstance(code, str):
            raise TypeError(f"code is a text of Python, got {type(code).__name__}.")
        if len(self._submitted) >= self.submissions:
            return f"There are no submissions left: {len(self._submitted)} were made. The last one counts."
        self._submitted.append(code)
        self._passed = ""
        result = self._public.run(self._sample(code))
        if isinstance(result, Verdict):
            return f"No test was run: {result.reason}."
        tests = _texts(self._public.suite(self._row, self._prompt))
        unscored = unscored_verdict(result, tests=len(tests))
        if unscored is None:
            self._passed = _passed(result)
            return cut_for_the_model(_told(tests, result), OUTPUT_CHARS)
        if unscored.blame is Blame.DATA:
            return "The tests themselves do not run."
        self._failure = unscored.reason
        raise RuntimeError("The sandbox failed, not your code: no test was run.")

    def get_reward(self) -> Verdict:
        """Judge the last submission by the hidden tests."""
        if self._failure:
            return grader_error(self._failure)
        if not self._submitted:
            return self._unsubmitted()
        return self._hidden.verify(self._sample(self._submitted[-1]))

    @property
    def state(self) -> dict[str, Any]:
        """Report the number of submissions, the last program and its count of passed public tests."""
        last = None
        if self._submitted:
            last = self._submitted[-1][:_SHOWN_PROGRAM]
        return {SUBMISSIONS: len(self._submitted), "code": last, "public": self._passed}

    def _check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose public or hidden tests judge nothing, as `UnitTestVerifier.check_rows` does.

        If `thorough`, also list rows whose reference fails a test, and rows whose hidden tests pass a non-solution or
        the broken code.
        """
        run = self._hidden.runner().run if thorough else None
        found = row_problems(
            rows, self._hidden.suite_of_row, partial(self._trials, self._hidden), run
        )
        found += row_problems(rows, self._public.suite_of_row, self._public_trials, run)
        # Both parts of a row have some problems alike.
        return list(dict.fromkeys(found))

    def _trials(
        self, verifier: UnitTestVerifier, row: Mapping[str, Any], suite: Suite
    ) -> list[tuple[str, Job]]:
        """Make the trials of a part of a row's tests: those of its verifier, and the row's broken code."""
        trials = verifier.trials(row, suite)
        broken = row.get(self.broken_column)
        if isinstance(broken, str) and broken.strip():
            job = verifier.job(row, _unfenced(broken))
            # A column such as `code` was read as that of a reference, too.
            trials = [trial for trial in trials if trial[1].program != job.program]
            trials.append((BROKEN, job))
        return trials

    def _public_trials(self, row: Mapping[str, Any], suite: Suite) -> list[tuple[str, Job]]:
        # Public tests judge nothing, so any other program may pass them.
        return [
            trial
            for trial in self._trials(self._public, row, suite)
            if trial[0] == REFERENCE
        ]

    def _sample(self, code: str) -> Sample:
        return Sample(
            text=WholeProgram(_unfenced(code)), prompt=self._prompt, row=self._row
        )

    def _unsubmitted(self) -> Verdict:
        try:
            self._hidden.suite(self._row, self._prompt)
        except BadTests as bad:
            # Nothing that the model could have submitted would have been judged.
            return skipped(bad.reason)
        return UNSUBMITTED


@verifier
def extra_submissions(sample: Sample) -> float | None:
    """Count the submissions of a rollout after its first, as a price: a term with a weight below 0 is its rate.

    A rollout without submissions costs nothing, and None is no reward: the environment was no code repair.
    """
    state = None if sample.outcome is None else sample.outcome.state
    if not isinstance(state, Mapping) or SUBMISSIONS not in state:
        return None
    return float(max(0, state[SUBMISSIONS] - 1))


_FENCE = re.compile(r"`{3,}|~{3,}")


def _unfenced(code: str) -> str:
    """Remove a Markdown fence around a whole program; return programs without fence unchanged."""
    code = code.lstrip("\ufeff")
    lines = code.strip().splitlines(keepends=True)
    if len(lines) < 2:
        return code
    opening = _FENCE.match(lines[0].strip())
    if opening is None:
        return code
    closing = lines[-1].strip()
    # At least as long as the opening fence, and nothing but fence.
    is_closed = closing.startswith(opening[0]) and not closing.strip(opening[0][0])
    if not is_closed:
        return code
    return textwrap.dedent("".join(lines[1:-1]))


def _texts(suite: Suite) -> list[str]:
    """Write each test as the model reads it: of a module, the name of a test alone.

    The code that is run for one test of a module may hold those of the others.
    """
    if isinstance(suite, CallSuite):
        return list(map(told_test, suite.tests))
    return [
        f"for the input {case.stdin!r} it prints {case.stdout!r}" for case in suite.tests
    ]


def _told(tests: Sequence[str], result: RunResult) -> str:
    lines = []
    for test, end in zip(tests, result.tests, strict=True):
        lines.append(f"{test}: {_end_text(test, end)}")
    return "\n".join(lines)


def _end_text(test: str, end: TestResult) -> str:
    # The detail of a failed assert begins with the assert.
    detail = end.detail.removeprefix(test).removeprefix("; ")
    if not detail:
        return str(end.ending)
    return f"{end.ending}, {detail}"


def _passed(result: RunResult) -> str:
    passed = sum(test.ending is Ending.PASSED for test in result.tests)
    return f"{passed} of {len(result.tests)} passed"
