"""Jobs and outcomes as JSON, for a sandbox elsewhere. What comes over the network is checked, and nothing is unpickled.

A request is `{"format": 1, "jobs": [...]}`, each job as `Job.to_record` gives it; its answer is
`{"format": 1, "isolation": "...", "outcomes": [...]}`, each outcome as `RunResult.to_record` gives it. Every key must
be there, none may be added, and every value has the type that it has here: `true` and `"1"` are not numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NoReturn

from trl_grpo_ext.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    RunResult,
    StdioCase,
    StdioSuite,
    Suite,
    TestResult,
    run_result_of,
)

FORMAT = 1
RUN_PATH, HEALTH_PATH = "/v1/run", "/v1/health"
MAX_TESTS = 10_000
MAX_NAMES = 10_000
MAX_DETAIL = 1_000
"""Characters of a reason that are kept."""


_LEVEL = re.compile(r"[a-z0-9+:_-]{1,80}", re.ASCII)
_NUMBER = (int, float)
_Kinds = Mapping[str, type | tuple[type, ...]]
_JOB: _Kinds = {"program": str, "suite": dict, "limits": dict, "stop_at_first": bool, "kind": str}
_LIMITS: _Kinds = {each.name: _NUMBER for each in fields(Limits)}
_OUTCOME: _Kinds = {
    "ending": str,
    "tests": list,
    "detail": str,
    "level": str,
    "seconds": _NUMBER,
    "cpu_seconds": _NUMBER,
}
_LARGEST = 1 << 53  # a larger integer may have no float
_NOT_OF_A_PROGRAM = (Ending.BAD_TESTS, Ending.NO_VERDICT)
# Generous sizes of an answer, so that only one that is out of all proportion is cut off.
_ANSWER_BYTES, _BYTES_A_JOB, _BYTES_A_TEST = 1 << 16, 1 << 14, 1 << 13


class WireError(ValueError):
    """What came is not what the other end should have sent."""


class OverLimitError(ValueError):
    """A job asks for more than a server gives."""


def read_json(body: bytes) -> Any:
    """The JSON in `body`.

    Raises:
        WireError: if it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise WireError("JSON that is nested too deeply") from None
    except WireError:
        raise
    except ValueError:  # the message of the error quotes what came
        raise WireError("not JSON") from None


def write_json(value: Any) -> bytes:
    """JSON of plain ASCII, whatever the strings hold."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def write_jobs(jobs: Sequence[bytes]) -> bytes:
    """A request to run these, each as `write_job` gives it."""
    return b'{"format":%d,"jobs":[%s]}' % (FORMAT, b",".join(jobs))


def write_job(job: Job) -> bytes:
    """One job of a request."""
    return write_json(job.to_record())


def read_jobs(body: bytes, *, most: int, maxima: Limits) -> list[Job]:
    """The jobs of a request.

    Raises:
        WireError: if it is not a request, or one for more than `most` jobs.
        OverLimitError: if a job asks for more than `maxima`.
    """
    record = _fields(read_json(body), {"format": int, "jobs": list}, "the request")
    _check_format(record["format"])
    if len(record["jobs"]) > most:
        raise WireError(f"{len(record['jobs'])} jobs in one request; this server takes {most}")
    return [job_from_record(each, maxima=maxima) for each in record["jobs"]]


def job_from_record(record: Any, *, maxima: Limits) -> Job:
    """The job that `Job.to_record` was called on.

    Raises:
        WireError: if it is not a job.
        OverLimitError: if it asks for more than `maxima`: were it given less, the verdict would be a wrong one.
    """
    found = _fields(record, _JOB, "a job")
    if found["kind"] not in _SUITES:
        raise WireError("a job's kind is call or stdio")
    return Job(
        program=found["program"],
        suite=_SUITES[found["kind"]](found["suite"]),
        limits=_read_limits(found["limits"], maxima),
        stop_at_first=found["stop_at_first"],
    )


def write_outcomes(outcomes: Sequence[RunResult], isolation: str) -> bytes:
    """The answer to a request."""
    records = [outcome.to_record() for outcome in outcomes]
    return write_json({"format": FORMAT, "isolation": isolation, "outcomes": records})


def read_outcomes(body: bytes, jobs: Sequence[Job]) -> list[RunResult]:
    """The outcomes of `jobs`, each with a level that says where it came from.

    Raises:
        WireError: if that is not what the body holds.
    """
    record = _fields(read_json(body), {"format": int, "isolation": str, "outcomes": list}, "the answer")
    _check_format(record["format"])
    if len(record["outcomes"]) != len(jobs):
        raise WireError(f"{len(record['outcomes'])} outcomes for {len(jobs)} jobs")
    return [outcome_from_record(each, job) for each, job in zip(record["outcomes"], jobs, strict=True)]


def outcome_from_record(record: Any, job: Job) -> RunResult:
    """The outcome of `job` that `RunResult.to_record` was called on.

    Raises:
        WireError: if it is not an outcome, or contradicts itself.
    """
    found = _fields(record, _OUTCOME, "an outcome")
    if any(not 0 <= found[name] < math.inf for name in ("seconds", "cpu_seconds")):
        raise WireError("an outcome with an impossible time")
    ending, detail = _ending(found["ending"]), found["detail"][:MAX_DETAIL]
    if ending in _NOT_OF_A_PROGRAM:
        if found["tests"]:
            raise WireError("an outcome that says nothing about the program, but something about its tests")
        outcome = RunResult(ending=ending, detail=detail)
    else:
        outcome = _judged(found["tests"], ending, job)
    return replace(
        outcome,
        level=remote_level(found["level"]),
        seconds=float(found["seconds"]),
        cpu_seconds=float(found["cpu_seconds"]),
    )


def remote_level(level: str) -> str:
    """A server's claim of its isolation, as it is named in verdicts.

    Example:
        >>> remote_level("landlock+seccomp"), remote_level("<b>none</b>")
        ('remote:landlock+seccomp', 'remote:unknown')
    """
    return f"remote:{level if _LEVEL.fullmatch(level) else 'unknown'}"


def answer_bytes(jobs: Sequence[Job]) -> int:
    """The longest answer to a request to run these that can be right."""
    tests = sum(len(job.suite.tests) for job in jobs)
    return _ANSWER_BYTES + _BYTES_A_JOB * len(jobs) + _BYTES_A_TEST * tests


def _judged(records: list[Any], ending: Ending, job: Job) -> RunResult:
    if len(records) != len(job.suite.tests):
        raise WireError(f"{len(records)} results of {len(job.suite.tests)} tests")
    tests = tuple(_result(each) for each in records)
    outcome = run_result_of(tests)
    if outcome.ending is not ending or ending is Ending.NOT_RUN:
        raise WireError("an outcome that does not follow from its tests")
    return outcome


def _result(record: Any) -> TestResult:
    found = _fields(record, {"ending": str, "detail": str}, "a test's result")
    ending = _ending(found["ending"])
    if ending in _NOT_OF_A_PROGRAM:
        raise WireError(f"a test that ended as {ending}")
    return TestResult(ending=ending, detail=found["detail"][:MAX_DETAIL])


def _ending(name: str) -> Ending:
    try:
        return Ending(name)
    except ValueError:
        raise WireError("an unknown ending") from None


def _read_limits(record: Any, maxima: Limits) -> Limits:
    found = _fields(record, _LIMITS, "the limits")
    try:
        limits = Limits(**found)
    except ValueError as error:
        raise WireError(str(error)[:MAX_DETAIL]) from None
    for name, most in maxima.to_record().items():
        if found[name] > most:
            raise OverLimitError(f"a job asks for {name}={found[name]:g}; this server gives {most:g} at most")
    return limits


def _read_calls(record: Any) -> Suite:
    found = _fields(record, {"tests": list, "names": list, "setup": str}, "a suite")
    tests, names = _texts(found["tests"], MAX_TESTS), _texts(found["names"], MAX_NAMES)
    return CallSuite(tests=tests, names=names, setup=found["setup"])


def _read_cases(record: Any) -> Suite:
    cases = _fields(record, {"tests": list}, "a suite")["tests"]
    _check_count(cases, MAX_TESTS)
    found = [_fields(each, {"stdin": str, "stdout": str}, "a case") for each in cases]
    return StdioSuite(tests=tuple(StdioCase(**each) for each in found))


_SUITES = {"call": _read_calls, "stdio": _read_cases}


def _texts(values: list[Any], most: int) -> tuple[str, ...]:
    _check_count(values, most)
    if any(type(each) is not str for each in values):
        raise WireError("a list of texts holds something else")
    return tuple(values)


def _check_count(values: list[Any], most: int) -> None:
    if len(values) > most:
        raise WireError(f"{len(values)} tests or names; {most} is the most")


def _check_format(number: int) -> None:
    if number != FORMAT:
        raise WireError(
            f"format {number:.0f} of the messages; here it is {FORMAT}: client and server differ in version"
        )


def _fields(record: Any, kinds: _Kinds, what: str) -> dict[str, Any]:
    """The record, if it is an object of just these keys, each of just its type."""
    if type(record) is not dict or record.keys() != kinds.keys():
        raise WireError(f"{what} has the keys {', '.join(kinds)}, each once, and no others")
    for name, kind in kinds.items():
        if type(record[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise WireError(f"{what} has a {name} of the wrong type")
        if type(record[name]) is int and abs(record[name]) > _LARGEST:
            raise WireError(f"{what} has a {name} that is too large")
    found: dict[str, Any] = record
    return found


def _no_constant(name: str) -> NoReturn:
    raise WireError(f"{name} is not JSON")
