"""Jobs and outcomes as records that go to a sandbox server and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from trl_grpo_ext.sandbox.job import CallSuite, Ending, Job, Limits, StdioCase, StdioSuite, TestResult, run_result_of
from trl_grpo_ext.sandbox.wire_format import (
    FORMAT,
    OverLimitError,
    WireError,
    job_from_record,
    outcome_from_record,
    read_jobs,
    read_outcomes,
    write_job,
    write_jobs,
    write_outcomes,
)

CALLS = Job(program="def f(): return 1", suite=CallSuite(tests=("assert f() == 1",) * 2, names=("f",), setup="x = 1"))
CASES = Job(
    program="print('é\ud800')", suite=StdioSuite(tests=(StdioCase(stdin="a", stdout="b"),)), stop_at_first=False
)
MAXIMA = Limits(wall_seconds=60, cpu_seconds=60, memory_mb=1024, processes=64, output_kb=1024, disk_mb=64)


def request(*jobs: Job) -> bytes:
    return write_jobs([write_job(job) for job in jobs])


@pytest.mark.parametrize("job", [CALLS, CASES, replace(CALLS, limits=Limits(wall_seconds=1.5, memory_mb=64))])
def test_a_job_crosses_the_wire_unchanged(job: Job) -> None:
    assert read_jobs(request(job), most=1, maxima=MAXIMA) == [job]


def test_an_outcome_crosses_the_wire_with_a_level_that_says_that_it_came_from_elsewhere() -> None:
    tests = (TestResult(ending=Ending.PASSED), TestResult(ending=Ending.FAILED, detail="é\ud800"))
    outcome = replace(run_result_of(tests), level="landlock+seccomp", seconds=1.5, cpu_seconds=1.0)
    (found,) = read_outcomes(write_outcomes([outcome], "landlock+seccomp"), [CALLS])
    assert found == replace(outcome, level="remote:landlock+seccomp")


JOB = CALLS.to_record()


@pytest.mark.parametrize(
    "change",
    [
        {"program": 1},
        {"program": None},
        {"kind": "pickle"},
        {"kind": "stdio"},
        {"extra": 1},
        {"stop_at_first": 1},
        {"suite": {"tests": ["x"], "names": [], "setup": "", "more": 1}},
        {"suite": {"tests": [1], "names": [], "setup": ""}},
        {"suite": {"tests": "abc", "names": [], "setup": ""}},
        {"suite": {"tests": ["x"] * 10_001, "names": [], "setup": ""}},
        {"limits": {}},
        {"limits": {**JOB["limits"], "wall_seconds": True}},
        {"limits": {**JOB["limits"], "wall_seconds": -1}},
        {"limits": {**JOB["limits"], "wall_seconds": 10**400}},
        {"limits": {**JOB["limits"], "memory_mb": 1.5}},
    ],
)
def test_a_record_that_is_no_job_is_refused(change: dict[str, Any]) -> None:
    record = json.loads(write_job(CALLS)) | change
    with pytest.raises(WireError):
        job_from_record(record, maxima=MAXIMA)


@pytest.mark.parametrize("name", list(Limits().to_record()))
def test_a_job_that_asks_for_more_than_the_server_gives_is_refused_and_not_given_less(name: str) -> None:
    record = json.loads(write_job(CALLS))
    record["limits"][name] = 2 * getattr(MAXIMA, name)
    with pytest.raises(OverLimitError, match=name):
        job_from_record(record, maxima=MAXIMA)


OUTCOME = {"ending": "passed", "detail": "", "level": "none", "seconds": 1, "cpu_seconds": 0.5}
TESTS = [{"ending": "passed", "detail": ""}, {"ending": "passed", "detail": ""}]


@pytest.mark.parametrize(
    "change",
    [
        {"ending": "won"},
        {"ending": 1},
        {"ending": "failed"},
        {"tests": TESTS[:1]},
        {"tests": TESTS * 2},
        {"tests": [TESTS[0], {"ending": "passed", "detail": "", "score": 1.0}]},
        {"tests": [TESTS[0], {"ending": "failed", "detail": ""}]},
        {"tests": [TESTS[0], {"ending": "no_verdict", "detail": ""}]},
        {"tests": [TESTS[0], {"ending": "passed", "detail": 1}]},
        {"tests": [{"ending": "not_run", "detail": ""}] * 2, "ending": "not_run"},
        {"ending": "no_verdict"},
        {"seconds": "1"},
        {"seconds": True},
        {"seconds": -1},
        {"seconds": None},
        {"cpu_seconds": 1e999},
        {"score": 1.0},
        {"detail": None},
    ],
)
def test_a_record_that_is_no_outcome_or_contradicts_itself_is_refused(change: dict[str, Any]) -> None:
    assert outcome_from_record(OUTCOME | {"tests": TESTS}, CALLS).ending is Ending.PASSED
    with pytest.raises(WireError):
        outcome_from_record(OUTCOME | {"tests": TESTS} | change, CALLS)


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b"[NaN]", b"9" * 5000, b"[]", b'{"format":1}'])
def test_a_body_that_is_no_request_and_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        read_jobs(body, most=1, maxima=MAXIMA)
    with pytest.raises(WireError):
        read_outcomes(body, [CALLS])


def test_another_format_is_refused_by_its_number() -> None:
    with pytest.raises(WireError, match="version"):
        read_jobs(b'{"format":%d,"jobs":[]}' % (FORMAT + 1), most=1, maxima=MAXIMA)
