"""Unusual right programs, each with a buggy twin: programs pass, twins score 0."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from places import DATA
from walls import walls_or_skip

from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.verdict import Verdict

walls_or_skip()

CORPUS = DATA / "unusual_programs.txt"

# docs/unit_tests_reference.md lists each of these under "What is not supported".
UNSUPPORTED = {
    "enums: ordered by their own methods": "order among returned objects",
    "subclasses: UserDict and UserList": "an object of the program against plain data",
    "threads: of the test, that wait for each other": "threads of the test",
    "threads: a barrier": "threads of the test",
    "pickle: a round trip": "pickles of objects of the program",
}


class Case(NamedTuple):
    """A program, its tests, and a twin with a bug."""

    title: str
    program: str
    tests: Any
    twin: str


def cases() -> list[Case]:
    """Read the corpus.

    A case begins with `=== title`, then come the program and `--- tests` or `--- cases`; the line `--- twin: old =>
    new` makes the buggy twin.
    """
    found = []
    for block in re.split(r"^=== ", CORPUS.read_text(encoding="utf-8"), flags=re.MULTILINE)[
        1:
    ]:
        title, _, rest = block.partition("\n")
        program, kind, rest = re.split(
            r"^--- (tests|cases)\n", rest, maxsplit=1, flags=re.MULTILINE
        )
        tests, _, bug = rest.partition("\n--- twin: ")
        old, _, new = bug.rstrip("\n").partition(" => ")
        old, new = (re.sub(r"\\n(?=    |x|def )", "\n", each) for each in (old, new))
        assert old in program, title
        read = json.loads(tests) if kind == "cases" else tests
        found.append(Case(title, program, read, program.replace(old, new, 1)))
    return found


CASES = cases()


@pytest.fixture(scope="module")
def verdicts() -> Iterator[dict[str, tuple[Verdict, Verdict]]]:
    """Yield verdict pairs by title: right program, buggy twin."""
    verifier = UnitTestVerifier(timeout=10.0)
    columns = {"tests": [case.tests for case in CASES]}
    right = verifier.judge([case.program for case in CASES], **columns)
    wrong = verifier.judge([case.twin for case in CASES], **columns)
    yield {
        case.title: pair
        for case, pair in zip(CASES, zip(right, wrong, strict=True), strict=True)
    }
    verifier.close()


def test_the_corpus_has_200_programs_with_names_of_their_own_and_19_of_20_are_supported() -> (
    None
):
    assert len({case.title for case in CASES}) == len(CASES) >= 200
    assert {*UNSUPPORTED} <= {case.title for case in CASES}
    assert len(UNSUPPORTED) <= len(CASES) / 20


# Runs 400 programs.
@pytest.mark.slow
def test_every_right_program_passes(verdicts: dict[str, tuple[Verdict, Verdict]]) -> None:
    failed = {
        title: str(right.details)
        for title, (right, _) in verdicts.items()
        if right.score != 1.0
    }
    assert {title: why for title, why in failed.items() if title not in UNSUPPORTED} == {}


# Runs 400 programs.
@pytest.mark.slow
def test_no_twin_with_a_bug_has_a_score(
    verdicts: dict[str, tuple[Verdict, Verdict]],
) -> None:
    assert [
        title for title, (_, wrong) in verdicts.items() if wrong.score not in (0.0, None)
    ] == []
    unscored = {title for title, (_, wrong) in verdicts.items() if wrong.score is None}
    assert unscored <= {*UNSUPPORTED}


# Runs 400 programs.
@pytest.mark.slow
def test_what_is_listed_as_unsupported_does_not_pass(
    verdicts: dict[str, tuple[Verdict, Verdict]],
) -> None:
    assert [title for title in UNSUPPORTED if verdicts[title][0].score == 1.0] == []
