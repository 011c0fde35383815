"""Turn test results into a score and a verdict."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from trl_grpo_ext.programs.sandbox.installed import is_installed
from trl_grpo_ext.programs.sandbox.job import Ending, RunResult
from trl_grpo_ext.programs.sandbox.packages import is_refused, visible_packages
from trl_grpo_ext.programs.suites.read_row import Groups
from trl_grpo_ext.programs.suites.trials import fault_of_tests
from trl_grpo_ext.support.text import Once
from trl_grpo_ext.verdict import Status, Verdict, grader_error, skipped

logger = logging.getLogger(__name__)

Scoring = Literal["all", "share", "groups"]

# The reason for a failed program that a naive grader would pass, with `second_opinion`.
FOOLED = "passes_naively"
# The reason for a failed import of a package that is installed but not shown to programs.
HIDDEN_IMPORT = "hidden_import"
HIDDEN = "installed, but programs are not shown it"
# The reason for a test that needs an operator of a returned object, such as `3 in build()`.
OPERATOR_NOT_ASKED = "operator_not_asked"
_OPERATOR = re.compile(r"(__\w+__) is not asked of a returned '(\w+)' object")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_SHOWN_TESTS = 100
_told = Once()


def score(
    passed: Sequence[bool | None],
    scoring: Scoring,
    groups: Groups | None,
    weights: Mapping[str, float],
) -> float:
    """Compute the score of test results, in [0, 1].

    Args:
        passed: One entry per test: True if the test passed, False if it failed, None if it was skipped. At least one
            was not skipped. A group whose tests were all skipped does not count.
        scoring: `all`: 1 if every test passed, else 0. `share`: the share of passed tests. `groups`: the weight of
            fully passed groups over the weight of all groups, as in programming contests.
        groups: For `groups`: group name -> test indices from 0.
        weights: For `groups`: group name -> weight; 1 for a missing name.

    Examples:
        >>> score([True, True, False], "share", None, {})
        0.6666666666666666
        >>> score([True, True, False], "groups", {"easy": [0, 1], "hard": [2]}, {"hard": 3})
        0.25
    """
    judged = [each for each in passed if each is not None]
    if scoring == "share":
        return sum(judged) / len(judged)
    if scoring == "groups" and groups:
        weights_won = []
        weights_in_all = []
        for name, tests in groups.items():
            of_group = [passed[test] for test in tests if passed[test] is not None]
            if not of_group:
                continue
            weights_in_all.append(weights.get(name, 1.0))
            if all(of_group):
                weights_won.append(weights.get(name, 1.0))
        total = math.fsum(weights_in_all)
        # If all weights are 0, every test must pass.
        if total:
            return math.fsum(weights_won) / total
    return float(all(judged))


def unscored_verdict(outcome: RunResult, *, tests: int) -> Verdict | None:
    """Return a verdict without a score if the run failed by tests or sandbox; None if it judges the program.

    Args:
        outcome: The result of the sandbox.
        tests: The number of tests; a run with missing results is a grader error, never a pass.
    """
    if outcome.ending is Ending.BAD_TESTS:
        verdict = skipped(fault_of_tests(outcome))
    elif outcome.ending is Ending.NO_VERDICT or len(outcome.tests) != tests:
        verdict = grader_error(outcome.failure)
    else:
        return None
    return replace(verdict, details=_details(outcome), seconds=outcome.seconds)


def scored_verdict(
    outcome: RunResult,
    value: float,
    *,
    program: str,
    fooled: bool | None,
) -> Verdict:
    """Make the verdict on a program whose tests have run.

    Args:
        outcome: The result of the sandbox.
        value: The score, in [0, 1].
        program: The program text to show.
        fooled: True if a naive grader passed the program, False if not; None if no naive grader was asked.
    """
    details = _details(outcome)
    if fooled is not None:
        details["naive_grader"] = "passed" if fooled else "failed"
    reason = _first_failure(outcome)
    status = Status.CORRECT
    if reason:
        status = _failed_status(value, outcome)
    if reason and fooled:
        reason = FOOLED
    elif reason and unasked_operator(outcome.detail):
        reason = OPERATOR_NOT_ASKED
    return Verdict(
        status=status,
        score=value,
        answer=program,
        reason=reason,
        seconds=outcome.seconds,
        details=details,
    )


def _first_failure(outcome: RunResult) -> str:
    """Return the reason code of the first failed test, `test_2_failed`; empty if every test passed."""
    for number, test in enumerate(outcome.tests, start=1):
        if test.ending not in (Ending.PASSED, Ending.SKIPPED):
            return f"test_{number}_{test.ending}"
    return ""


def with_hidden_import(
    verdict: Verdict, packages: Sequence[str], imports: Sequence[str] = ()
) -> Verdict:
    """Explain a failed import of a hidden package: name the setting that would show the package to programs.

    The score stays: without a score, an import would be an escape from every hard row. A program that merely prints
    such an error is just as wrong.

    Args:
        verdict: The verdict on the program.
        packages: The packages that programs may import, from the settings.
        imports: Further packages that the program may import, because its row imports them.
    """
    has_raised = verdict.details.get("ending") == Ending.ERROR
    if not has_raised or verdict.reason == FOOLED:
        return verdict
    why = verdict.details.get("why", "")
    name = missing_module(why)
    # A benchmark with solutions is never shown, so no setting would help.
    if not name or is_refused(name):
        return verdict
    if not is_installed(name) or visible_packages(packages, imports).has(name):
        return verdict
    setting = f"packages: [{', '.join((*packages, name))}]"
    _told.warn(
        logger,
        name,
        "A program imports %s, which programs are not shown. To show it, set %s.",
        name,
        setting,
    )
    explained = f"{why}: {HIDDEN}; to show it, set {setting}"
    details = {**verdict.details, "why": explained}
    return replace(verdict, reason=HIDDEN_IMPORT, details=details)


def unasked_operator(why: str) -> str:
    """Return the operator of a returned object that a test needed and the sandbox refuses; empty for any other message.

    Examples:
        >>> unasked_operator("__contains__ is not asked of a returned 'Tree' object")
        '__contains__'
    """
    found = _OPERATOR.fullmatch(why)
    return found[1] if found else ""


def missing_module(why: str) -> str:
    """Return the top-level module name of a ModuleNotFoundError message; empty for any other message.

    Examples:
        >>> missing_module("ModuleNotFoundError: No module named 'pandas.core' (line 1)")
        'pandas'
    """
    found = _NO_MODULE.match(why)
    if found is None:
        return ""
    return found[1]


def _failed_status(value: float, outcome: RunResult) -> Status:
    if value >= 1:
        # The failed test belongs to no group with a weight.
        return Status.CORRECT
    if value > 0:
        return Status.PARTIAL
    if outcome.ending is Ending.TIMEOUT:
        return Status.TIMEOUT
    return Status.INCORRECT


def _details(outcome: RunResult) -> dict[str, str]:
    details = {
        "ending": str(outcome.ending),
        "why": outcome.detail,
        "isolation": outcome.level,
    }
    if outcome.tests:
        passed = sum(test.ending is Ending.PASSED for test in outcome.tests)
        skips = sum(test.ending is Ending.SKIPPED for test in outcome.tests)
        details["tests"] = f"{passed} of {len(outcome.tests)} passed"
        if skips:
            details["tests"] += f", {skips} skipped"
        details["each"] = " ".join(
            str(test.ending) for test in outcome.tests[:_SHOWN_TESTS]
        )
    return {name: value for name, value in details.items() if value}
