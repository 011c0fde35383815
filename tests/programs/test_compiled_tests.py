"""Tests sent to a judge as compiled code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.suites.source import packed

SETUP = "def check(f):\n    assert f(1) == 2, 'one'\n    assert f(2) == 4\n"
TESTS = ("check(double)", "assert double(0) == 0")
RIGHT, WRONG = "def double(x):\n    return 2 * x\n", "def double(x):\n    return x + 1\n"


def suite(code: str) -> CallSuite:
    return CallSuite(setup=SETUP, tests=TESTS, names=("double",), code=code)


@pytest.mark.parametrize("program", [RIGHT, WRONG, "def double(x): return 1 / 0", "1 +"])
def test_the_verdict_and_its_reason_are_those_of_the_source(
    sandbox: LocalSandbox, program: str
) -> None:
    outcomes = [
        sandbox.run([Job(program=program, suite=suite(code), stop_at_first=False)])[0]
        for code in ("", packed(SETUP, TESTS))
    ]
    assert outcomes[0].tests == outcomes[1].tests
    assert (outcomes[0].ending is Ending.PASSED) == (program is RIGHT)


def test_code_is_no_part_of_what_tests_are() -> None:
    compiled = suite(packed(SETUP, TESTS))
    assert compiled.code
    assert compiled == suite("")
    assert hash(compiled) == hash(suite(""))
    assert compiled.code not in repr(compiled)


def test_code_does_not_leave_the_machine() -> None:
    with_code = Job(program=RIGHT, suite=suite(packed(SETUP, TESTS)))
    record = with_code.to_record()
    assert record == Job(program=RIGHT, suite=suite("")).to_record()
    assert with_code.suite.code not in json.dumps(record)  # type: ignore[union-attr]


def test_tests_that_do_not_compile_are_left_to_the_judge(sandbox: LocalSandbox) -> None:
    assert packed("", ("assert double(",)) == ""
    broken = CallSuite(
        tests=("assert double(",), names=("double",), code=packed("", ("assert double(",))
    )
    assert sandbox.run([Job(program=RIGHT, suite=broken)])[0].ending is Ending.BAD_TESTS


def test_a_python_that_leaves_assertions_out_judges_by_them() -> None:
    code = "from trl_grpo_ext.rewards import unit_test_reward as reward; print(reward({!r}, tests=[{!r}] * 2))"
    asked = code.format([RIGHT, WRONG], [SETUP + TESTS[0], TESTS[1]])
    environment = os.environ | {"PYTHONOPTIMIZE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout == "[1.0, 0.0]\n"
