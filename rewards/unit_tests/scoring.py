"""From the results of single tests to one score, and to a verdict."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from trl_grpo_ext.rewards.unit_tests.bad_tests import TESTS_DO_NOT_RUN, BadTests
from trl_grpo_ext.sandbox.installed import is_installed
from trl_grpo_ext.sandbox.job import Ending, RunResult
from trl_grpo_ext.sandbox.packages import is_refused, shown
from trl_grpo_ext.support.text import Once
from trl_grpo_ext.verdict import Status, Verdict, grader_error, skipped

logger = logging.getLogger(__name__)

Scoring = Literal["all", "share", "groups"]

Groups = Mapping[str, Sequence[int]]

FOOLED = "passes_naively"  # the reason that `UnitTestVerifier` gives with `second_opinion`
HIDDEN_IMPORT = "hidden_import"  # the reason where a program imports a package that is installed and not shown
HIDDEN = "installed, but programs are not shown it"
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_SHOWN_TESTS = 100
_told = Once()


def score(passed: Sequence[bool], scoring: Scoring, groups: Groups | None, weights: Mapping[str, float]) -> float:
    """The score of these results, in [0, 1].

    Args:
        passed: Whether each test passed; at least one.
        scoring: `all`: 1 if every test passed. `share`: the share that passed. `groups`: the weight of the groups of
            which every test passed, over the weight of all groups, as in programming contests.
        groups: For `groups`: the tests of each, by their places from 0.
        weights: For `groups`: the weight of each, 1 where there is none.

    Examples:
        >>> score([True, True, False], "share", None, {})
        0.6666666666666666
        >>> score([True, True, False], "groups", {"easy": [0, 1], "hard": [2]}, {"hard": 3})
        0.25
    """
    if scoring == "share":
        return sum(passed) / len(passed)
    if scoring == "groups" and groups:
        total = math.fsum(weights.get(name, 1.0) for name in groups)
        won = math.fsum(weights.get(name, 1.0) for name, tests in groups.items() if all(passed[i] for i in tests))
        return won / total if total else float(all(passed))
    return float(all(passed))


def groups_of(value: Any, tests: int) -> Groups:
    """The groups that a row names, checked.

    Raises:
        BadTests: if it is no mapping of names to places of tests, or leaves a test out.
    """
    if isinstance(value, Mapping):  # datasets give every row the keys of all rows, with None
        value = {name: places for name, places in value.items() if places is not None}
    fine = bool(value) and isinstance(value, dict) and all(_are_places(places, tests) for places in value.values())
    if not fine or set().union(*map(set, value.values())) != set(range(tests)):
        raise BadTests("groups_invalid", value)
    return value  # type: ignore[no-any-return]


def _are_places(places: Sequence[Any], tests: int) -> bool:
    return (
        isinstance(places, list | tuple)
        and bool(places)
        and all(isinstance(place, int) and not isinstance(place, bool) and 0 <= place < tests for place in places)
    )


def unscored_verdict(outcome: RunResult, *, tests: int) -> Verdict | None:
    """The verdict where the outcome says nothing of the program; None where it does.

    Args:
        outcome: What the sandbox says.
        tests: How many tests there are. Nothing passes by having no results.
    """
    if outcome.ending is Ending.BAD_TESTS:
        return replace(skipped(TESTS_DO_NOT_RUN), details=_details(outcome), seconds=outcome.seconds)
    if outcome.ending is Ending.NO_VERDICT or len(outcome.tests) != tests:
        return replace(grader_error(outcome.failure, seconds=outcome.seconds), details=_details(outcome))
    return None


def scored_verdict(outcome: RunResult, value: float, *, program: str, fooled: bool | None) -> Verdict:
    """The verdict on a program whose tests have run.

    Args:
        outcome: What the sandbox says.
        value: The score, in [0, 1].
        program: The program, as it is shown.
        fooled: Whether a naive grader would have passed it; None if none was asked.
    """
    details = _details(outcome)
    if fooled is not None:
        details["naive_grader"] = "passed" if fooled else "failed"
    verdict = Verdict(status=Status.CORRECT, score=value, answer=program, seconds=outcome.seconds, details=details)
    failed = next((place for place, test in enumerate(outcome.tests, 1) if test.ending is not Ending.PASSED), None)
    if failed is None:
        return verdict
    reason = FOOLED if fooled else f"test_{failed}_{outcome.tests[failed - 1].ending}"
    return replace(verdict, status=_failed_status(value, outcome), reason=reason)


def with_hidden_import(verdict: Verdict, packages: Sequence[str], imports: Sequence[str] = ()) -> Verdict:
    """Say which setting would show a program the package that it has failed to import, if one would.

    The program stays wrong: without a verdict, an import would be a way out of every hard row. A program that only says
    that it lacks a package is as wrong.

    Args:
        verdict: On the program.
        packages: The packages that programs are shown.
        imports: Those that the program is shown besides, as its row imports them.
    """
    why = verdict.details.get("why", "")
    name = missing_module(why)
    failed = verdict.details.get("ending") == Ending.ERROR and verdict.reason != FOOLED
    if not (failed and name) or is_refused(name) or not is_installed(name) or shown(packages, imports).has(name):
        return verdict
    setting = f"packages: [{', '.join((*packages, name))}]"
    _told.warn(logger, name, "A program imports %s, which programs are not shown. To show it, set %s.", name, setting)
    details = {**verdict.details, "why": f"{why}: {HIDDEN}; to show it, set {setting}"}
    return replace(verdict, reason=HIDDEN_IMPORT, details=details)


def missing_module(why: str) -> str:
    """Return the top-level name of the module that was not found, as Python says it; empty if it says something else.

    Examples:
        >>> missing_module("ModuleNotFoundError: No module named 'pandas.core' (line 1)")
        'pandas'
    """
    found = _NO_MODULE.match(why)
    return found[1] if found else ""


def _failed_status(value: float, outcome: RunResult) -> Status:
    if value:
        return Status.PARTIAL if value < 1 else Status.CORRECT
    return Status.TIMEOUT if outcome.ending is Ending.TIMEOUT else Status.INCORRECT


def _details(outcome: RunResult) -> dict[str, str]:
    passed = sum(test.ending is Ending.PASSED for test in outcome.tests)
    details = {"ending": str(outcome.ending), "why": outcome.detail, "isolation": outcome.level}
    if outcome.tests:
        details["tests"] = f"{passed} of {len(outcome.tests)} passed"
        details["each"] = " ".join(str(test.ending) for test in outcome.tests[:_SHOWN_TESTS])
    return {name: value for name, value in details.items() if value}
