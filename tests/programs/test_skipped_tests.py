"""A test that skips itself neither passes nor fails; a program skips no test."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from walls import walls_or_skip

from trl_grpo_ext.rewards import UnitTestVerifier
from trl_grpo_ext.verdict import Blame, Verdict

walls_or_skip()

RIGHT = "def f(x):\n    return x + 1"
WRONG = "def f(x):\n    return x - 1"
# It is right where the one test that runs looks.
HALF = "def f(x):\n    return 2 if x == 1 else None"
IMPORTS = "import os\nimport sys\nimport unittest\nimport pytest\nfrom solution import f\n"
JUDGED = IMPORTS + "def test_judged():\n    assert f(1) == 2\n"
CASE = (
    IMPORTS
    + "class T(unittest.TestCase):\n    def test_judged(self):\n        self.assertEqual(f(1), 2)\n"
)

# By the way in which it is skipped: tests, of which the first judges the program and the other would fail.
SKIPPED = {
    "skip in the body": JUDGED
    + "def test_b():\n    if sys.platform:\n        pytest.skip('x')\n    assert f(1) == 5",
    "skip at once": JUDGED + "def test_b():\n    '''Later.'''\n    pytest.skip('x')",
    "a fixture": JUDGED
    + "@pytest.fixture\ndef gpu():\n    pytest.skip('x')\ndef test_b(gpu):\n    assert f(1) == 5",
    "importorskip": JUDGED
    + "def test_b():\n    m = pytest.importorskip('nowhere')\n    assert m.g(f(1))",
    "a mark": JUDGED + "@pytest.mark.skip(reason='x')\ndef test_b():\n    assert f(1) == 5",
    "a condition": JUDGED
    + "@pytest.mark.skipif('RUN_SLOW' not in os.environ, reason='x')\ndef test_b():\n    assert f(1) == 5",
    "a named mark": JUDGED
    + "later = pytest.mark.skip(reason='x')\n@later\ndef test_b():\n    assert f(1) == 5",
    "a mark of a class": JUDGED
    + "class TestB:\n    pytestmark = pytest.mark.skipif(True, reason='x')\n"
    "    def test_b(self):\n        assert f(1) == 5",
    "an expected failure": JUDGED
    + "@pytest.mark.xfail(sys.version_info > (3,), reason='x')\ndef test_b():\n    assert f(1) == 5",
    "a parameter": IMPORTS
    + "@pytest.mark.parametrize('x,y', [(1, 2), pytest.param(2, 9, marks=pytest.mark.skip)])\n"
    "def test_a(x, y):\n    assert f(x) == y",
    "a list of marks": IMPORTS
    + "@pytest.mark.parametrize('x,y', [pytest.param(1, 2, id='a'), "
    "pytest.param(2, 9, marks=[pytest.mark.xfail(reason='x')])])\ndef test_a(x, y):\n    assert f(x) == y",
    "some rows": IMPORTS
    + "BAD = {3}\n@pytest.mark.parametrize('x', range(5))\ndef test_a(x):\n"
    "    if x in BAD:\n        pytest.skip('x')\n    assert f(x) == x + 1",
    "unittest.skip": CASE
    + "    @unittest.skip('x')\n    def test_b(self):\n        self.assertEqual(f(1), 5)",
    "skipUnless": CASE
    + "    @unittest.skipUnless(False, 'x')\n    def test_b(self):\n        self.assertEqual(f(1), 5)",
    "skipTest in setUp": CASE
    + "class V(unittest.TestCase):\n    def setUp(self):\n        self.skipTest('x')\n"
    "    def test_b(self):\n        self.assertEqual(f(1), 5)",
    "SkipTest": JUDGED
    + "def test_b():\n    if os.sep == '/':\n        raise unittest.SkipTest('x')\n    assert f(1) == 5",
}
# By what the skip depends on: a test that HALF would like to skip, behind a test that it passes.
WANTED = {
    "a result": "def test_b():\n    if f(3) is None:\n        pytest.skip('x')\n    assert f(3) == 4",
    "an exception": "def test_b():\n    try:\n        assert f(3) == 4\n"
    "    except AssertionError:\n        pytest.skip('x')",
    "any exception": "def test_b():\n    try:\n        assert f(3) == 4\n"
    "    except BaseException:\n        pytest.skip('x')",
    "a name": "def test_b():\n    if f.__doc__ is None:\n        pytest.skip('x')\n    assert f(3) == 4",
    "a missing name": "import solution\n@pytest.mark.skipif(not hasattr(solution, 'g'), reason='x')\n"
    "def test_b():\n    assert solution.g(3) == 4",
    "a row": "@pytest.mark.parametrize('x', [1, 3])\ndef test_b(x):\n"
    "    if f(x) is None:\n        pytest.skip('x')\n    assert f(x) == x + 1",
    "a mark of a row": "@pytest.mark.parametrize('x', [1, pytest.param(3, marks=pytest.mark.skipif(f(3) is None, "
    "reason='x'))])\ndef test_b(x):\n    assert f(x) == x + 1",
    "a fixture": "@pytest.fixture\ndef found():\n    if f(3) is None:\n        pytest.skip('x')\n    return f(3)\n"
    "def test_b(found):\n    assert found == 4",
}
# By where it is kept: a result that a later test wants, else it skips itself.
KEPT = {
    "a dict": "kept = {}\ndef test_a():\n    kept['x'] = f(3)\n"
    "def test_b():\n    if kept.get('x') is None:\n        pytest.skip('x')\n    assert f(3) == 4",
    "a class": "class T(unittest.TestCase):\n    kept = None\n    def test_a(self):\n        T.kept = f(3)\n"
    "    def test_b(self):\n        if self.kept is None:\n            self.skipTest('x')\n        assert f(3) == 4",
    "the environment": "def test_a():\n    os.environ['KEPT'] = str(f(3))\n"
    "def test_b():\n    if os.environ.get('KEPT', 'None') == 'None':\n        pytest.skip('x')\n    assert f(3) == 4",
}
# Programs that raise the exceptions by which tests are skipped.
RAISING = (
    "import unittest\ndef f(x): raise unittest.SkipTest('x')",
    "class Skipped(AssertionError): pass\nSkipped.__module__ = 'pytest'\ndef f(x): raise Skipped('x')",
    "import unittest\nraise unittest.SkipTest('x')",
)


def judge(verifier: UnitTestVerifier, tests: str, *programs: str) -> list[Verdict]:
    return verifier.judge(list(programs), tests=[tests] * len(programs))


def scores(tests: str, programs: Sequence[str]) -> list[float | None]:
    return [verdict.score for verdict in judge(UnitTestVerifier(), tests, *programs)]


@pytest.mark.parametrize("way", SKIPPED)
def test_the_other_tests_judge_a_program(way: str) -> None:
    assert scores(SKIPPED[way], [RIGHT, WRONG]) == [1.0, 0.0]


@pytest.mark.parametrize("what", WANTED)
def test_a_skip_that_may_depend_on_the_program_is_a_failure(what: str) -> None:
    assert scores(JUDGED + WANTED[what], [HALF]) == [0.0]


@pytest.mark.parametrize("where", KEPT)
def test_what_a_program_returned_to_another_test_has_no_say_in_a_skip(where: str) -> None:
    programs = [RIGHT, HALF, WRONG.replace("1", "0")]
    for verdict in judge(
        UnitTestVerifier(scoring="share"), JUDGED + KEPT[where], *programs
    ):
        assert verdict.details["tests"].endswith(" of 3 passed, 1 skipped")


def test_no_name_of_a_program_passes_over_rows() -> None:
    tests = (
        "import pytest\nfrom solution import *\n@pytest.mark.parametrize('x', [1, 3])\n"
        "def test_a(x):\n    assert f(x) == x + 1"
    )
    program = (
        "__all__ = ['f', '__trl_run_row__']\n__trl_run_row__ = lambda place, run: None\n"
    )
    assert scores(tests, [program + HALF, program + RIGHT]) == [0.0, 1.0]


@pytest.mark.parametrize("program", RAISING)
def test_no_exception_of_a_program_skips_a_test(program: str) -> None:
    assert scores(JUDGED, [program]) == [0.0]
    assert scores(CASE, [program]) == [0.0]


def test_no_file_of_a_program_skips_a_test() -> None:
    tests = (
        JUDGED
        + "def test_b(tmp_path):\n    if os.path.exists('lock'):\n        pytest.skip('x')\n    assert f(3) == 4"
    )
    assert scores(tests, [f"open('lock', 'w').close()\n{HALF}"]) == [0.0]


def test_the_search_for_skips_leaves_no_trace() -> None:
    tests = JUDGED + (
        "import random\ncount = []\n"
        "def test_a():\n    open('made', 'x').close()\n    count.append(1)\n    assert f(len(count)) == 2\n"
        "def test_b():\n    random.seed(0)\n    pytest.importorskip('nowhere')"
    )
    assert scores(tests, [RIGHT, WRONG]) == [1.0, 0.0]


@pytest.mark.parametrize(
    "tests",
    [
        "def test_a():\n    pytest.skip('no GPU')",
        "@pytest.mark.skip(reason='no GPU')\ndef test_a():\n    assert f(1) == 2",
        "@pytest.mark.skipif(True, reason='no GPU')\ndef test_a():\n    assert f(1) == 2",
        "pytest.importorskip('nowhere')\ndef test_a():\n    assert f(1) == 2",
        "pytestmark = pytest.mark.skipif(True, reason='no GPU')\ndef test_a():\n    assert f(1) == 2",
    ],
)
def test_a_row_whose_tests_are_all_skipped_has_no_verdict(tests: str) -> None:
    for verdict in judge(UnitTestVerifier(), IMPORTS + tests, RIGHT, WRONG):
        assert (verdict.score, verdict.blame) == (None, Blame.DATA)
        assert verdict.reason == "tests_all_skipped"


def test_check_data_names_a_row_whose_tests_are_all_skipped_once() -> None:
    row = {
        "tests": f"{IMPORTS}def test_a():\n    pytest.importorskip('nowhere')\n    assert f(1) == 2"
    }
    problems = UnitTestVerifier().check_rows(
        [row, {"tests": SKIPPED["a mark"]}], thorough=True
    )
    assert [(each.row, each.reason) for each in problems] == [(0, "tests_all_skipped")]


def test_a_share_counts_the_tests_that_ran() -> None:
    tests = JUDGED + "def test_b():\n    assert f(3) == 4\n"
    tests += "@pytest.mark.skipif(True, reason='x')\ndef test_c():\n    assert f(1) == 5"
    (verdict,) = judge(UnitTestVerifier(scoring="share"), tests, HALF)
    assert verdict.score == 0.5
    assert verdict.details["tests"] == "1 of 3 passed, 1 skipped"


def test_a_group_without_a_test_that_ran_does_not_count() -> None:
    tests = (
        JUDGED
        + "@pytest.mark.skipif(True, reason='x')\ndef test_b():\n    assert f(1) == 5"
    )
    verifier = UnitTestVerifier(scoring="groups")
    (verdict,) = verifier.judge([RIGHT], tests=[tests], groups=[{"a": [0], "b": [1]}])
    assert verdict.score == 1.0


PARAMETRIZED = {
    "keywords": "@pytest.mark.parametrize(argnames='x,y', argvalues=[(1, 2), (2, 3)])",
    "a named function": "param = pytest.mark.parametrize\n@param('x,y', [(1, 2), (2, 3)])",
    "a named mark": "cases = pytest.mark.parametrize('x,y', [(1, 2), (2, 3)])\n@cases",
    "named arguments": "NAMES = ['x', 'y']\n@pytest.mark.parametrize(NAMES, [(1, 2), (2, 3)])",
    "an import": "from pytest import mark\n@mark.parametrize(argvalues=[(1, 2), (2, 3)], argnames=('x', 'y'))",
}


@pytest.mark.parametrize("way", PARAMETRIZED)
def test_parametrize_gives_arguments_however_it_is_written(way: str) -> None:
    tests = f"{IMPORTS}{PARAMETRIZED[way]}\ndef test_a(x, y):\n    assert f(x) == y"
    assert scores(tests, [RIGHT, WRONG, HALF]) == [1.0, 0.0, 0.0]
