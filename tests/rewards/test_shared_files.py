"""Tests and programs share a folder of the run where the tests use files."""

from __future__ import annotations

import pytest
from walls import walls_or_skip

from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.verdict import Verdict

if not walls_or_skip().namespaces:
    pytest.skip("programs may write files only in namespaces", allow_module_level=True)

SAVES = """
import json
def save(path, data):
    with open(path, "w") as file:
        json.dump(data, file)
def load(path):
    with open(path) as file:
        return json.load(file)
"""
LEAVES_MODULE = "open('helper.py', 'w').write('solved = 4')\ndef f(x): return 3"


def judged(program: str, tests: str | list[str]) -> Verdict:
    (verdict,) = UnitTestVerifier(timeout=5.0).judge([program], tests=[tests])
    return verdict


@pytest.mark.parametrize(
    "tests",
    [
        "def test_a(tmp_path):\n    save(tmp_path / 'a', 3)\n    assert (tmp_path / 'a').read_text() == '3'",
        "def test_a(tmp_path):\n    (tmp_path / 'a').write_text('[5]')\n    assert load(str(tmp_path / 'a')) == [5]",
        "import pytest\n@pytest.fixture\ndef file(tmp_path_factory):\n    path = tmp_path_factory.mktemp('x') / 'a'\n"
        "    path.write_text('[5]')\n    return path\ndef test_a(file):\n    assert load(file) == [5]",
        "def test_a(tmp_path, monkeypatch):\n    monkeypatch.chdir(tmp_path)\n    save('a', 1)\n"
        "    assert (tmp_path / 'a').read_text() == '1'",
        [
            "import os, tempfile\nwith tempfile.TemporaryDirectory() as d:\n    save(d + '/a', 1)\n"
            "    assert os.listdir(d) == ['a']"
        ],
        [
            "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n    f.write('7')\n    f.flush()\n"
            "    assert load(f.name) == 7"
        ],
        ["open('a', 'w').write('[7]')\nassert load('a') == [7]"],
    ],
)
def test_a_file_that_one_side_writes_is_read_by_the_other(tests: str | list[str]) -> None:
    assert judged(SAVES, tests).status == "correct"
    assert (
        judged("def save(path, data): pass\ndef load(path): return None", tests).status
        == "incorrect"
    )


@pytest.mark.parametrize(
    "program",
    [
        "import os\ndef save(path): os.symlink('/proc/self/environ', path)",
        "import os\ndef save(path): os.symlink('expected', path)",
        "import os\ndef save(path): os.mkfifo(path)",
        "def save(path): open(path, 'w').truncate(1 << 40)",
        "def save(path): open(path, 'wb').truncate(16 << 20)",
        "import os\ndef save(path): os.mkdir(path)",
    ],
)
def test_what_a_program_leaves_in_place_of_a_file_is_not_followed(program: str) -> None:
    tests = (
        "def test_a(tmp_path):\n    (tmp_path / 'expected').write_text('4')\n    save(tmp_path / 'a')\n"
        "    assert (tmp_path / 'a').read_text() == '4'"
    )
    verdict = judged(program, tests)
    assert (verdict.status, verdict.score) == ("incorrect", 0.0)


@pytest.mark.parametrize(
    "load",
    [
        "sys.path.insert(0, '')\n    helper = importlib.import_module('helper')",
        "sys.path.insert(0, os.getcwd())\n    helper = importlib.import_module('helper')",
        "sys.path.insert(0, '/tmp')\n    helper = importlib.import_module('helper')",
        "helper = types.SimpleNamespace(**runpy.run_path('helper.py'))",
        "exec(open('helper.py').read())",
    ],
)
def test_a_module_that_a_program_leaves_there_is_not_run_by_the_tests(load: str) -> None:
    imports = "import importlib, os, runpy, sys, tempfile, types"
    tests = f"{imports}\ndef test_a():\n    {load}\n    assert f(2) == helper.solved - 1"
    verdict = judged(LEAVES_MODULE, tests)
    assert verdict.reason == "test_1_refused"


def test_files_of_one_program_are_gone_when_the_next_one_runs() -> None:
    tests = "def test_a(tmp_path):\n    assert f(str(tmp_path)) == 1"
    program = "import os\ndef f(path):\n    open('kept', 'w')\n    return len(os.listdir('.')) - 1"
    verdicts = UnitTestVerifier(timeout=5.0).judge(
        [program, program + "\n"] * 2, tests=[tests] * 4
    )
    assert [verdict.status for verdict in verdicts] == ["correct"] * 4


def test_without_namespaces_tests_with_files_have_no_verdict() -> None:
    sandbox = LocalSandbox(1, isolation=Isolation.LANDLOCK)
    try:
        suite = CallSuite(tests=("assert f() == 1",), names=("f",), shares_files=True)
        (result,) = sandbox.run([Job(program="def f(): return 1", suite=suite)])
    finally:
        sandbox.close()
    assert result.ending is Ending.NO_VERDICT
    assert "files" in result.detail


def test_tests_that_use_no_files_share_no_folder() -> None:
    tests = ["door.open()\nassert f() == 1"]
    assert (
        judged(
            "class Door:\n    def open(self): pass\ndoor = Door()\ndef f(): return 1", tests
        ).status
        == "correct"
    )


def test_a_fixture_that_takes_an_unknown_fixture_is_the_datas_fault() -> None:
    tests = (
        "import pytest\n"
        "@pytest.fixture\n"
        "def file(request):\n"
        "    return 1\n"
        "def test_a(file):\n"
        "    assert f(file) == 1"
    )
    verdict = judged("def f(x): return x", tests)
    assert (verdict.status, verdict.reason) == ("skipped", "tests_need_pytest")
    assert "request" in verdict.details["why"]


WRITES = "import os\nos.makedirs('data')\nopen('data/a', 'w').write('1')\ndef test_a():\n    assert f('data/a') == '1'"


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos.makedirs('data/a')\n",
        "import os\nos.chmod('.', 0)\n",
        "try:\n    for number in range(5000):\n        open(f'{number}', 'w').close()\nexcept OSError:\n    pass\n",
    ],
)
def test_a_program_that_spoils_the_folder_before_the_setup_is_wrong_and_not_without_a_verdict(
    program: str,
) -> None:
    verdict = judged(f"{program}def f(path): return open(path).read()", WRITES)
    assert (verdict.status, verdict.reason) == ("incorrect", "test_1_error")
    assert "the folder that the program has changed" in verdict.details["why"]


def test_a_setup_that_fails_in_a_clean_folder_is_the_datas_fault() -> None:
    tests = "text = open('missing').read()\ndef test_a():\n    assert f(1) == 1"
    verdict = judged("import os\nos.chmod('.', 0)\ndef f(x): return x", tests)
    assert (verdict.status, verdict.reason) == ("skipped", "tests_do_not_run")
