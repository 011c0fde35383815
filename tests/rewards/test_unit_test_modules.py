"""Test code in the style of pytest and unittest as a suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from suite_harness import STACK, call_suite, reason_of, run
from walls import walls_or_skip

from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.columns import suite_from_row
from trl_grpo_ext.programs.suites.source import statements
from trl_grpo_ext.programs.suites.test_module import read_test_module
from trl_grpo_ext.rewards import UnitTestVerifier

MODULE = """
import unittest
import pytest
from solution import Stack, top as peek

@pytest.fixture
def stack():
    yield Stack([1, 2])

@pytest.mark.parametrize("item, size", [(1, 3), pytest.param(2, 3, id="two")])
@pytest.mark.parametrize("twice", [False])
def test_push(stack, item, size, twice):
    stack.push(item)
    assert len(stack.items) == size

def test_empty():
    with pytest.raises(IndexError, match="pop") as caught:
        Stack([]).pop()
    assert "empty" in str(caught.value)

@pytest.mark.skip(reason="later")
def test_later():
    assert False

class TestTop:
    def setup_method(self):
        self.stack = Stack([0.1 + 0.2])

    def test_top(self):
        assert peek(self.stack) == pytest.approx(0.3)

class TestPop(unittest.TestCase):
    def setUp(self):
        self.stack = Stack([5])

    def test_pop(self):
        self.assertEqual(self.stack.pop(), 5)

    @unittest.skip("no")
    def test_no(self):
        self.fail()

if __name__ == "__main__":
    unittest.main()
"""


def test_each_function_and_method_of_a_module_is_a_test() -> None:
    suite = call_suite({"tests": MODULE})
    assert len(suite.tests) == 4
    assert suite.names == ("Stack",)
    assert run(suite, STACK) == ["passed"] * 4
    broken = STACK.replace("return self.items.pop()", "return 5").replace(
        ".append(item)", ".extend([item, item])"
    )
    assert run(suite, broken) == ["AssertionError", "Failed", "passed", "passed"]


def test_a_solution_that_lacks_a_name_fails_tests_and_not_the_setup() -> None:
    suite = call_suite(
        {
            "tests": "from solution import f, g\ndef test_f(): assert f()\ndef test_g(): assert g()"
        }
    )
    assert suite.names == ("f", "g") and "from solution" not in suite.setup
    assert run(suite, "def f(): return 1") == ["passed", "NameError"]


def test_state_made_with_the_solution_is_made_anew_for_each_test() -> None:
    source = (
        "s = Stack([1])\ndef test_a():\n    s.push(2)\n    assert s.items == [1, 2]\n"
        "def test_b():\n    assert s.items == [1]"
    )
    assert run(call_suite({"tests": source}), STACK) == ["passed", "passed"]


def test_asserts_that_share_a_state_are_one_test() -> None:
    suite = call_suite(
        {"tests": "s = Stack([])\nassert s.push(1) is None\nassert s.pop() == 1"}
    )
    assert len(suite.tests) == 1 and run(suite, STACK) == ["passed"]
    assert len(call_suite({"tests": "x = 1\nassert f(x)\ny = 2\nassert f(y)"}).tests) == 1
    assert len(call_suite({"tests": "x = 1\nassert f(x)\nassert f(2)"}).tests) == 2


def test_tests_under_a_main_guard_count_if_there_are_no_others() -> None:
    suite = call_suite(
        {
            "tests": 'def main():\n    assert f(1) == 1\nif __name__ == "__main__":\n    main()'
        }
    )
    assert run(suite, "def f(x): return x") == ["passed"] and run(
        suite, "def f(x): return 0"
    ) == ["AssertionError"]


def test_modules_keep_their_future_imports_first() -> None:
    source = "from __future__ import annotations\nimport pytest\ndef test_a(x: List = 1): assert math.floor(f(x)) == 1"
    assert run(call_suite({"tests": source}), "def f(x): return x") == ["passed"]


@pytest.mark.parametrize(
    "source",
    [
        "def test_a(caplog): assert f()",
        "import pytest\ndef test_a():\n    with pytest.deprecated_call(): f()",
        "import pytest\n@pytest.fixture(params=[1])\ndef x(): return 1\ndef test_a(x): assert f(x)",
        "from pytest import MonkeyPatch\ndef test_a(): assert f()",
        "def test_a(monkeypatch):\n    monkeypatch.syspath_prepend('.')\n    assert f()",
        "def test_a(monkeypatch):\n    with monkeypatch.context() as m: m.syspath_prepend('.')\n    assert f()",
        "def test_a(capsys):\n    with capsys.global_and_fixture_disabled(): assert f()",
        "import pytest\ndef test_a():\n    with pytest.raises(KeyError) as e: f()\n    assert e.traceback",
        "import pytest\nwith pytest.raises(KeyError) as e: f()\nassert 'KeyError' in e.exconly()",
    ],
)
def test_what_the_stand_in_for_pytest_lacks_is_said_before_a_run(source: str) -> None:
    assert reason_of({"tests": source}) == "tests_need_pytest"


@pytest.mark.parametrize(
    "source",
    [
        "from hypothesis import given\n@given(integers())\ndef test_a(x): assert f(x)",
        "import hypothesis\n@hypothesis.given(x=integers())\ndef test_a(x): assert f(x)",
        "class TestF:\n    @settings(max_examples=9)\n    @given(data())\n    def test_a(self, data): assert f(data)",
    ],
)
def test_tests_that_hypothesis_draws_arguments_for_are_told_by_its_name(
    source: str,
) -> None:
    assert reason_of({"tests": source}) == "tests_need_hypothesis"


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\ndef test_a(): assert subprocess.run(['python', 'solution.py']).returncode == 0",
        "from subprocess import check_output as run\ndef test_a(): assert run(['python', 'a.py'])",
        "import os\nassert os.popen('python solution.py').read() == '9'",
        "import runpy\ndef test_a(): assert runpy.run_path('solution.py')['f'](1) == 2",
    ],
)
def test_tests_that_only_start_the_program_as_a_process_are_told_so(source: str) -> None:
    assert reason_of({"tests": source}) == "tests_start_processes"


@pytest.mark.parametrize(
    "source",
    [
        "from models import Task\nfrom store import Store\ndef test_a(): assert Store().has(Task())",
        "from main import f\nfrom helpers_of_mine import check\ndef test_f(): check(f(2), 4)",
    ],
)
def test_tests_that_import_two_unknown_modules_are_told_so(source: str) -> None:
    assert reason_of({"tests": source}) == "tests_import_several"


@pytest.mark.parametrize(
    "source",
    [
        "def test_a(monkeypatch):\n    with monkeypatch.context() as m:\n"
        "        m.setattr('time.time', lambda: 5)\n        assert f(time.time) == 5\n    assert f(time.time) > 5",
        "class Clock:\n    @staticmethod\n    def now(): return 5\ndef test_a(monkeypatch):\n"
        "    with monkeypatch.context() as m: m.delattr(Clock, 'now')\n    assert f(Clock().now) == 5",
        "def test_a(capsys):\n    f(lambda: print('a'))\n    with capsys.disabled(): print('b')\n"
        "    assert capsys.readouterr().out == 'a\\n'",
        "import pytest\ndef test_a():\n    with pytest.raises(ZeroDivisionError) as e: f(lambda: 1 / 0)\n"
        "    assert e.typename == 'ZeroDivisionError' and e.errisinstance(ArithmeticError)",
    ],
)
def test_what_tests_often_use_of_pytest_is_there(source: str) -> None:
    assert run(call_suite({"tests": source}), "def f(g): return g()")[-1] == "passed"


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\ndef test_a():\n    with pytest.raises(KeyError) as e: f()\n    e = e.value\n"
        "    assert e.traceback",
        "class Fake:\n    def syspath_prepend(self, path): pass\nimport pytest\n@pytest.fixture\n"
        "def monkeypatch(): return Fake()\ndef test_a(monkeypatch):\n    monkeypatch.syspath_prepend(1)\n"
        "    assert f()",
    ],
)
def test_a_name_that_the_tests_use_for_something_else_is_no_part_of_pytest(
    source: str,
) -> None:
    assert call_suite({"tests": source}).names == ("f",)


def test_inherited_test_methods_are_found() -> None:
    source = (
        "import unittest\nclass Base(unittest.TestCase):\n    def test_a(self): self.assertTrue(f(1))\n"
        "class More(Base):\n    def test_b(self):\n        for x in (1, 0):\n"
        "            with self.subTest(x=x): assert f(x)"
    )
    module = read_test_module(statements(source))
    assert len(module.tests) == 3
    assert run(call_suite({"tests": source}), "def f(x): return x") == [
        "passed",
        "passed",
        "AssertionError",
    ]


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("pytest.fail('no')", "Failed"),
        ("pytest.skip('no')", "Skipped"),
        ("pytest.raises(ValueError, int, 'x')", "passed"),
        ("with pytest.raises((KeyError, ValueError)):\n        {}[f(1)]", "passed"),
        ("with pytest.raises(KeyError):\n        int('x')", "ValueError"),
        (
            "assert [f(0.1), {'a': 0.2}] == [pytest.approx(0.1), pytest.approx({'a': 0.2 + 1e-9})]",
            "passed",
        ),
        ("assert [0.1, 0.2] == pytest.approx([0.1, 0.3])", "AssertionError"),
        ("assert (1, 2) == pytest.approx((1.05, 2), abs=0.1)", "passed"),
        ("assert 'x' != pytest.approx(1) and None != pytest.approx(1)", "passed"),
        (
            "assert float('inf') != pytest.approx(1) and 1 != pytest.approx(float('inf'))",
            "passed",
        ),
        ("assert f(1e400) == pytest.approx(float('inf'))", "passed"),
    ],
)
def test_the_stand_in_for_pytest_does_as_pytest_does(body: str, ending: str) -> None:
    source = f"import pytest\ndef test_a():\n    f(0)\n    {body}"
    assert run(call_suite({"tests": source}), "def f(x): return x") == [ending]


def test_fixtures_and_asynchronous_tests_run() -> None:
    source = (
        "import pytest\nlog = []\n"
        "@pytest.fixture(autouse=True, scope='module')\ndef always():\n    log.append(1)\n    yield\n    log.clear()\n"
        "@pytest.fixture(name='two')\ndef make_two(): return f(2)\n"
        "@pytest.fixture\ndef four(two): return two * 2\n"
        "@pytest.mark.asyncio\nasync def test_a(four, two): assert (four, two, log) == (4, 2, [1])\n"
        "class TestB:\n    @pytest.fixture\n    def three(self): return 3\n"
        "    def test_b(self, three, two): assert three + two == 5 and log == [1]\n"
    )
    assert run(call_suite({"tests": source}), "def f(x): return x") == ["passed", "passed"]


def test_a_generator_of_the_program_that_a_fixture_returns_is_what_the_test_gets() -> None:
    source = (
        "import pytest\n@pytest.fixture\ndef items():\n    return count()\n"
        "def test_a(items):\n    assert list(items) == [1, 2]\n"
    )
    assert run(call_suite({"tests": source}), "def count():\n    yield 1\n    yield 2") == [
        "passed"
    ]


def test_patches_give_their_mocks_to_the_test() -> None:
    source = (
        "import random, unittest\nfrom unittest.mock import patch\n"
        "@patch('random.randint', side_effect=[3, 1])\n@patch('random.random', new=lambda: 0.5)\n"
        "def test_a(mock):\n    assert f() == 3\n    mock.assert_called_with(1, 6)\n"
        "class TestB(unittest.TestCase):\n    @patch('random.randint', return_value=2)\n"
        "    def test_b(self, mock):\n        assert f() == 2 and mock.call_count == 1\n"
    )
    program = "import random\ndef f(): return random.randint(1, 6)"
    assert run(call_suite({"tests": source}), program) == ["passed", "passed"]


def test_a_test_that_yields_runs_nothing_and_is_refused() -> None:
    for code in (
        "def test_a():\n    yield\n    assert f() == 1",
        "class TestA:\n    def test_a(self):\n        assert f() == 1\n        yield from []",
    ):
        assert reason_of({"tests": code}) == "tests_need_pytest"
    assert call_suite(
        {"tests": "def test_a():\n    def g(): yield 1\n    assert f(g()) == 1"}
    ).tests == ("test_a()",)


def test_a_parametrized_test_without_parameters_does_not_pass() -> None:
    code = "import pytest\n@pytest.mark.parametrize('x', CASES)\ndef test_a(x): assert f(x) == x\n"
    assert run(call_suite({"tests": code}), "CASES = []\ndef f(x): return 0") == [
        "AssertionError"
    ]
    assert run(call_suite({"tests": code}), "CASES = [0]\ndef f(x): return 0") == ["passed"]


@pytest.mark.parametrize(
    "tests",
    [
        [
            "import pytest",
            "with pytest.raises(TypeError):\n    add(1)",
            "assert add(1, 2) == 3",
        ],
        ["assert add(0.1, 0.2) == pytest.approx(0.3)"],
        ["from pytest import approx", "assert add(0.1, 0.2) == approx(0.3)"],
        ["assert add(0.1, 0.2) == approx(0.3)", "def test_a():\n    assert add(1, 2) == 3"],
    ],
)
def test_asserts_in_a_list_may_use_pytest(tests: list[str]) -> None:
    suite = call_suite({"tests": tests})
    assert set(run(suite, "def add(a, b): return a + b")) == {"passed"}
    assert (
        "passed"
        not in run(suite, "def add(a, b=0): return a - b\napprox = lambda x: 0.1 - 0.2")[-1]
    )


def test_names_that_tests_forgot_to_import_never_come_from_the_program() -> None:
    suite = call_suite(
        {"tests": ["assert abs(area(1) - pi) < 1e-9 and norm(1, 1) == sqrt(2)"]}
    )
    assert suite.names == ("area", "norm")
    assert run(
        suite, "pi = 9\nsqrt = lambda x: 9\ndef area(r): return 9\ndef norm(*a): return 9"
    ) == ["AssertionError"]
    assert call_suite({"tests": ["assert gcd(12, 18) == 6"]}).names == ("gcd",)


IMPORTS = (
    "from main import f\ndef test_f(): assert f(2) == 4",
    "from main import f\nassert f(2) == 4",
    "from src.utils.helpers import f\nfrom src.bank import limit\ndef test_f(): assert f(limit()) == 4",
    "from .answer import f as twice\ndef test_f(): assert twice(2) == 4",
    "import your_module as m\ndef test_f(): assert m.f(2) == 4",
    "def test_f():\n    import program\n    assert program.f(2) == 4",
    "from main import f\ndef check(a, b): assert a == b\ndef test_f(): check(len([f(2)]), sqrt(1)); check(f(2), 4)",
    "from unittest.mock import patch\nimport main\n"
    "@patch('main.limit', return_value=4)\ndef test_f(_): assert main.f(main.limit() - 2) == 4",
)


@pytest.mark.parametrize("source", IMPORTS)
def test_a_module_that_is_nowhere_is_the_program(source: str) -> None:
    suite, right = (
        call_suite({"tests": source}),
        "def f(x): return 2 * x\ndef limit(): return 2",
    )
    assert run(suite, right) == ["passed"]
    assert run(suite, right.replace("* x", "* x + 1")) == ["AssertionError"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from .solution import f", "f"),
        ("from ..solution import f as twice", "twice"),
        ("from .solution import *", "f"),
        ("from . import solution", "solution.f"),
        ("from .. import calc as c", "c.f"),
        ("from . import f", "f"),
        # In the tests' package, a module of this name is not Python's.
        ("from .statistics import f", "f"),
        (
            "try:\n    from .solution import f\nexcept ImportError:\n    from solution import f",
            "f",
        ),
    ],
)
def test_a_relative_import_of_tests_is_read_as_an_absolute_one(
    line: str, name: str
) -> None:
    suite = call_suite({"tests": f"{line}\ndef test_f():\n    assert {name}(2) == 4"})
    assert run(suite, "def f(x): return 2 * x") == ["passed"]
    assert run(suite, "def f(x): return 3 * x") == ["AssertionError"]


def test_two_relative_modules_of_tests_may_hold_helpers() -> None:
    source = "from .helpers import check\nfrom .calc import f\ndef test_f(): check(f(2), 4)"
    assert reason_of({"tests": source}) == "tests_import_several"


@pytest.mark.parametrize(
    "source",
    [
        "from json import loads\ndef test_f(): assert loads('2') == 2",
        "try:\n    from main import f\nexcept ImportError:\n    f = None\ndef test_f(): assert not f",
    ],
)
def test_a_module_that_is_there_or_may_be_missing_is_not_the_program(source: str) -> None:
    assert reason_of({"tests": source}) == "tests_call_nothing"


def test_tests_of_a_module_that_call_nothing_of_the_program_are_told_by_name() -> None:
    source = "import pytest\n@pytest.mark.slow\ndef test_f(): assert max(1, 2) == 2\n"
    source += "class TestMore:\n    def test_g(self): assert min(1, 2) == 1"
    with pytest.raises(BadTests) as caught:
        suite_from_row({"tests": source})
    assert caught.value.value == "test_f\nTestMore.test_g"


@pytest.mark.parametrize(
    "imports", ["import freezegun\nfrom main import f", "import networks_of_mine"]
)
def test_a_package_that_is_missing_is_not_the_program(imports: str) -> None:
    verdict = UnitTestVerifier().judge(
        ["def f(): return 1"], tests=[f"{imports}\ndef test_f(): assert f() == 1"]
    )[0]
    assert (verdict.status, verdict.reason) == ("skipped", "tests_do_not_run")


def test_a_helper_of_a_given_package_is_never_the_programs(tmp_path: Path) -> None:
    (tmp_path / "checks_of_mine.py").write_text("def check(a, b):\n    assert a == b\n")
    tmp_path.chmod(0o755)
    tests = (
        "from checks_of_mine import check\nfrom {} import f\ndef test_f(): check(f(), 1)"
    )
    verifier = UnitTestVerifier(packages=[str(tmp_path)], workers=1)
    lie = "def check(a, b): pass\ndef f(): return 2"
    alone = "from checks_of_mine import check\ndef test_f(): check(1, 2)"
    columns = {"tests": [tests.format("solution"), tests.format("main"), alone]}
    verdicts = verifier.judge([lie] * 3, **columns)
    verifier.close()
    assert [verdict.reason for verdict in verdicts] == [
        "test_1_failed",
        "tests_import_several",
        "tests_do_not_run",
    ]


@pytest.mark.parametrize(
    "tests",
    [
        "from unittest.mock import patch\n@patch.object(Api, 'get', return_value=3)\ndef test_a(m): assert f() == 3",
        "from unittest import mock\n@mock.patch.object(Api, 'get', return_value=3)\ndef test_a(m): assert f() == 3",
        "from unittest.mock import patch\n@patch('solution.Api.get', return_value=3)\n"
        "class TestA:\n    def test_a(self, m): assert f() == 3",
        "import unittest\nfrom unittest.mock import patch\n@patch.object(Api, 'get', return_value=3)\n"
        "class TestA(unittest.TestCase):\n    def test_a(self, m): self.assertEqual(f(), 3)",
        "from unittest.mock import DEFAULT, patch\n@patch.multiple('solution.Api', get=DEFAULT)\n"
        "def test_a(get):\n    get.return_value = 3\n    assert f() == 3",
    ],
)
def test_every_form_of_patch_gives_its_mocks_to_the_test(tests: str) -> None:
    program = "class Api:\n    def get(self): raise OSError\ndef f(): return Api().get()"
    wrong = "class Api:\n    def get(self): raise OSError\ndef f(): return 2"
    assert run(call_suite({"tests": tests}), program) == ["passed"]
    assert run(call_suite({"tests": tests}), wrong) == ["AssertionError"]


USES_NUMPY = """
import numpy as np
def solve(a, b):
    return np.linalg.solve(np.array(a, dtype=float), np.array(b)).tolist()
def kinds(x):
    return np.unique(x).tolist()
def roll():
    return int(np.random.randint(1, 7))
"""
OF_NUMPY = (
    "import numpy as np, pytest\nfrom solution import kinds, solve\n"
    "def test_a(monkeypatch):\n    monkeypatch.setenv('A', '1')\n    assert kinds([2, 1, 2]) == [1, 2]\n"
    "def test_b():\n    with pytest.raises(np.linalg.LinAlgError, match='Singular') as info:\n"
    "        solve([[0, 0], [0, 0]], [1, 2])\n    assert info.type is np.linalg.LinAlgError",
    "import numpy as np, unittest\nfrom unittest.mock import patch\nimport solution\n"
    "class TestAll(unittest.TestCase):\n    @patch('numpy.random.randint', return_value=3)\n"
    "    def test_a(self, randint):\n        self.assertEqual(solution.roll(), 3)\n"
    "        self.assertEqual(solution.kinds([3, 3]), [3])\n        randint.assert_called_once_with(1, 7)\n"
    "    def test_b(self):\n        with self.assertRaises(np.linalg.LinAlgError):\n"
    "            solution.solve([[0, 0], [0, 0]], [1, 2])",
    "from unittest.mock import patch\nfrom solution import roll, kinds\n@patch('numpy.random.randint')\n"
    "def test_a(randint):\n    randint.return_value = 5\n    assert roll() == 5 and kinds([1]) == [1]",
)


def test_tests_patch_numpy_and_expect_its_exceptions_of_a_program_that_uses_it() -> None:
    walls_or_skip()
    wrong = USES_NUMPY.replace("np.unique(x)", "np.sort(x)[:0]").replace(
        "linalg.solve", "dot"
    )
    verifier = UnitTestVerifier(timeout=20.0)
    for program, score in ((USES_NUMPY, 1.0), (wrong, 0.0)):
        verdicts = verifier.judge([program] * len(OF_NUMPY), tests=list(OF_NUMPY))
        assert [verdict.score for verdict in verdicts] == [score] * len(OF_NUMPY), verdicts
    verifier.close()
