"""Endings of a run, whatever its judge reports."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from walls import walls_or_skip

from trl_grpo_ext.programs.sandbox.call_run import Report, run_calls
from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job, TestResult
from trl_grpo_ext.programs.sandbox.zygote import Zygote
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.workers.frames import Inbox

SUITE = CallSuite(tests=("assert f() == 1", "assert f() == 2"), names=("f",))
PASSED = {"test": 0, "ending": "passed", "detail": ""}
SECOND = {"test": 1, "ending": "passed", "detail": ""}


def report_of(*messages: Any, stop_at_first: bool = True) -> Report:
    report = Report(Job(program="", suite=SUITE, stop_at_first=stop_at_first))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in messages:
            body = message if isinstance(message, bytes) else json.dumps(message).encode()
            theirs.sendall(len(body).to_bytes(4, "big") + body)
        inbox = Inbox(ours)
        inbox.read()
        report.read(inbox)
    return report


def endings(report: Report) -> list[Ending]:
    result = report.conclude(TestResult(ending=Ending.TIMEOUT), lambda: None)
    return [test.ending for test in result.tests]


def test_a_whole_report_is_the_result() -> None:
    report = report_of(PASSED, SECOND)
    assert report.complete
    assert endings(report) == [Ending.PASSED] * 2


def test_a_report_that_is_cut_ends_as_the_run_did() -> None:
    report = report_of(PASSED)
    assert not report.complete
    assert endings(report) == [Ending.PASSED, Ending.TIMEOUT]


@pytest.mark.parametrize("stop_at_first", [True, False])
def test_nothing_comes_after_a_refusal(stop_at_first: bool) -> None:
    report = report_of(PASSED | {"ending": "refused"}, stop_at_first=stop_at_first)
    assert report.complete
    assert endings(report) == [Ending.REFUSED, Ending.NOT_RUN]


@pytest.mark.parametrize(
    "messages",
    [
        (PASSED, SECOND, SECOND | {"test": 2}),
        (PASSED, PASSED),
        (SECOND,),
        (PASSED | {"ending": "timeout"},),
        (PASSED | {"ending": "no_verdict"},),
        (PASSED | {"ending": "splendid"},),
        (PASSED | {"ending": ["passed"]},),
        ({"test": 0},),
        ({},),
        ([PASSED],),
        ("passed",),
        (7,),
        (b"no JSON",),
        (b"\xff\xfe",),
    ],
)
def test_a_judge_that_talks_nonsense_was_taken_over_by_the_program(
    messages: tuple[Any, ...],
) -> None:
    report = report_of(*messages)
    assert report.complete
    assert endings(report) == [Ending.PROTOCOL] * 2


def test_half_a_surrogate_in_what_a_program_says_becomes_an_escape() -> None:
    report = report_of(
        SECOND | {"test": 0, "ending": "error", "detail": "SystemExit: \ud800"}
    )
    assert report.results[0].detail == "SystemExit: \\ud800"


def test_control_characters_in_what_a_program_says_become_escapes() -> None:
    said = "\x1b[2J\x07\x9b\u202eabc\t\r\x7f\u00e9"
    report = report_of(SECOND | {"test": 0, "ending": "error", "detail": said})
    assert report.results[0].detail == "\\x1b[2J\\x07\\x9b\\u202eabc\t\\r\\x7f\u00e9"


def test_tests_that_do_not_run_are_the_datas_fault() -> None:
    result = report_of({"bad_tests": "SyntaxError"}).conclude(
        TestResult(ending=Ending.TIMEOUT), lambda: None
    )
    assert (result.ending, result.detail, result.tests) == (
        Ending.BAD_TESTS,
        "SyntaxError",
        (),
    )


def test_each_program_meets_the_tests_as_they_were_written() -> None:
    setup = "import math\nseen = []\ndef check(f, log=[]):\n    log.append(f()); seen.append(1); math.calls = f()\n"
    test = "assert not hasattr(math, 'calls')\ncheck(f)\nassert len(seen) == 1 and check.__defaults__ == ([f()],)"
    suite = CallSuite(setup=setup, tests=(test,), names=("f",))
    walls = walls_or_skip()
    zygote = Zygote(walls)
    try:
        for number in range(3):
            job = Job(program=f"def f(): return {number}", suite=suite)
            assert run_calls(zygote, job, suite).ending is Ending.PASSED
    finally:
        zygote.kill()


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("assert f() == 'a   '", "assert f() == 'a   '"),
        ("assert (\n    f()  ==  'a  b'\n)", "assert ( f() == 'a  b' )"),
        ('assert f() == """a\n  b"""', 'assert f() == """a\\n  b"""'),
        ("assert (f()  # don't\n    == 'a  b')", "assert (f() # don't == 'a  b')"),
        ("é = 'é'; assert f() == 'é'", "assert f() == 'é'"),
        ("é = 'é'\r\nif é: assert (f() ==\r\n  'é')\r\n", "assert (f() == 'é')"),
        (f"padding = '{'x' * 200_000}'; assert f() == 'b'", "assert f() == 'b'"),
    ],
)
def test_a_reason_shows_the_failed_statement_and_collapses_white_space_outside_strings(
    test: str, told: str
) -> None:
    (verdict,) = UnitTestVerifier().judge(["def f(): return 'a'"], tests=[[test]])
    assert verdict.details["why"] == f"{told}; f() returned 'a'"
