"""Endings and reasons reported by the judge, and origins of the names in tests."""

from __future__ import annotations

import pytest
from judge_harness import PASSED, assert_all_pass, endings, frames, run


def test_each_test_gets_its_own_ending_and_a_reason() -> None:
    found = run(
        "def add(a, b): return a + b",
        "assert add(1, 2) == 3",
        "assert add(1, 1) == 3",
        "add(1, 'a')",
        "missing(1)",
        "assert 1 == 3",
        names="add missing",
    )
    assert found == [
        PASSED,
        ("failed", "assert add(1, 1) == 3; add(1, 1) returned 2"),
        ("error", "TypeError: unsupported operand type(s) for +: 'int' and 'str'"),
        ("error", "NameError: name 'missing' is not defined"),
        # Another test's call does not appear in this test's reason.
        ("failed", "assert 1 == 3"),
    ]
    assert run("def f(): return 10 ** 9999", "assert f() == 1", names="f") == [
        ("failed", "assert f() == 1; f() returned <int>")
    ]


def test_a_reason_shows_a_dict_in_its_own_order() -> None:
    program = "def f(x): return {'b': x, 'a': [{2: {}, 1: 0}], 'z': 0, 'c': 1, 'd': 2}"
    assert run(program, "assert f({'y': 1, 'b': 2}) == 1", names="f") == [
        (
            "failed",
            "assert f({'y': 1, 'b': 2}) == 1; f({'y': 1, 'b': 2}) returned "
            "{'b': {'y': 1, 'b': 2}, 'a': [{2: {}, 1: 0}], 'z': 0, 'c': 1, ...}",
        )
    ]


def test_a_failed_comparison_with_an_object_of_a_library_names_the_limit() -> None:
    found = run(
        "from collections import UserList\ndef f(): return UserList([1])",
        "assert f() == [1]",
        names="f",
    )
    said = (
        "f() returned <UserList>, an object of a library, which equals nothing of the tests"
    )
    assert found == [("failed", f"assert f() == [1]; {said}")]


def test_stops_at_the_first_test_that_does_not_pass_if_told_to() -> None:
    assert endings(
        "x = 1",
        "assert x == 1",
        "assert x == 2",
        "assert x == 1",
        names="x",
        stop_at_first=True,
    ) == [
        "passed",
        "failed",
    ]


@pytest.mark.parametrize(
    ("program", "ending", "detail"),
    [
        ("def f(:", "compile_error", "SyntaxError"),
        ("x = '\0'", "compile_error", "null bytes"),
        ("x = '\ud800'", "compile_error", "UnicodeEncodeError"),
        ("(" * 5000, "compile_error", ""),
        ("-" * 100_000 + "1", "compile_error", ""),
        ("a = 1\nraise_me", "error", "NameError: name 'raise_me' is not defined (line 2)"),
        ("import sys\nsys.exit(0)", "error", "SystemExit: 0 (line 2)"),
        ("raise KeyboardInterrupt", "error", "KeyboardInterrupt (line 1)"),
        ("raise MemoryError", "memory", "MemoryError (line 1)"),
        ("import os\nos._exit(0)", "killed", "the program ended"),
    ],
)
def test_a_program_that_does_not_load_ends_every_test_alike(
    program: str, ending: str, detail: str
) -> None:
    found = run(program, "assert f(1) == 1", "assert True", names="f")
    assert [each for each, _ in found] == [ending] * 2
    assert detail in found[0][1]


def test_a_coding_cookie_and_a_future_import_are_fine() -> None:
    assert_all_pass(
        "# -*- coding: latin-1 -*-\nfrom __future__ import annotations\ns = 'é'",
        "assert s == 'é'",
        names="s",
    )


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("raise MemoryError", "memory"),
        ("f(x)", "error"),
        ("raise AssertionError('mine')", "error"),
        ("raise SystemExit(0)", "error"),
        ("raise KeyboardInterrupt", "error"),
        ("raise GeneratorExit", "error"),
        ("raise ExceptionGroup('g', [ValueError()])", "error"),
        ("import os; os._exit(0)", "killed"),
        ("return [1] * 2_000_000", "protocol"),
    ],
)
def test_what_a_call_does_wrong_has_its_ending(body: str, ending: str) -> None:
    assert endings(f"def f(x):\n    {body}", "f(1)", names="f") == [ending]


def test_no_test_can_swallow_the_end_of_the_program() -> None:
    test = "try:\n    f()\nexcept BaseException:\n    pass"
    assert endings("import os\ndef f(): os._exit(0)", test, "pass", names="f") == [
        "killed",
        "killed",
    ]


def test_tests_that_end_themselves_are_errors() -> None:
    assert (
        endings(
            "", "raise SystemExit(0)", "import sys; sys.exit()", "raise KeyboardInterrupt"
        )
        == ["error"] * 3
    )


def test_a_setup_that_fails_by_itself_is_the_datas_fault() -> None:
    for setup in ("import no_such_module", "1 / 0", "def f(:", "undefined_name"):
        (found,) = frames("x = 1", "assert x == 1", names="x", setup=setup)
        assert found.keys() == {"bad_tests"}
    assert frames("x = 1", "assert (", names="x")[0].keys() == {"bad_tests"}
    assert frames("1 / 0", "assert x == 1", names="x", setup="1 / 0")[0].keys() == {
        "bad_tests"
    }


@pytest.mark.parametrize(
    "setup",
    ["y = f(1)", "y = missing", "from solution import missing", "y = [1][x]", "x()"],
)
def test_a_setup_that_fails_because_of_the_program_is_the_programs_fault(
    setup: str,
) -> None:
    program = "x = 'a'\ndef f(x): raise ValueError"
    assert endings(program, "pass", "pass", names="f x missing", setup=setup) == [
        "error",
        "error",
    ]


def test_what_the_program_has_replaces_a_stub_of_the_setup() -> None:
    setup = "def f(x):\n    pass\ndef helper(x):\n    return f(x) + 1"
    assert_all_pass(
        "def f(x): return x",
        "assert f(1) == 1",
        "assert helper(1) == 2",
        names="f",
        setup=setup,
    )


def test_a_stub_does_not_stand_in_for_what_the_program_lacks() -> None:
    assert endings("", "assert f(1) == 1", names="f", setup="def f(x):\n    return x") == [
        "error"
    ]


def test_one_tests_variables_do_not_reach_the_next() -> None:
    assert endings("", "y = 1", "y") == ["passed", "error"]


def test_the_program_can_be_imported_as_solution() -> None:
    tests = (
        "import solution\nassert solution.f(1) == 2\nsolution.n = 5\nassert solution.f(1) == 6",
        "from solution import *\nassert f(0) == 5",
        "from solution import missing",
        "from unittest import mock\nimport solution\n"
        "with mock.patch('solution.n', 7): assert solution.f(0) == 7\nassert solution.f(0) == 5",
    )
    assert endings("n = 1\ndef f(x): return x + n", *tests) == [
        "passed",
        "passed",
        "error",
        "passed",
    ]


def test_a_main_guard_does_not_fire_and_dataclasses_and_pickle_find_their_module() -> None:
    program = """
from __future__ import annotations
import pickle
from dataclasses import dataclass
@dataclass
class P:
    x: int
def f(): return pickle.loads(pickle.dumps(P(3))).x
if __name__ == "__main__":
    raise SystemExit
"""
    assert_all_pass(program, "assert f() == 3 and P(4).x == 4", names="f P")


@pytest.mark.parametrize("how", ["return {}", "raise {}"])
def test_an_exception_of_the_program_is_never_the_tests_fault(how: str) -> None:
    program = "def f(name):\n    error = ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
    program += "    vars(error)['name'] = name\n    " + how.format("error")
    test = "import math\ntry:\n    raise f('no_such_module')\nexcept KeyError:\n    import no_such_module"
    assert endings(program, test, "g = f('math')\nraise g", names="f") == ["error", "error"]


def test_a_thread_of_the_tests_that_dies_does_not_end_the_row() -> None:
    tests = (
        "import threading\ndef work(): raise ValueError(f(3))\nt = threading.Thread(target=work)\nt.start()\nt.join()\n"
        "assert f(1) == 1",
        "import threading\nt = threading.Thread(target=fail)\nt.start()\nt.join()\nassert f(1) == 1",
        "class D:\n    def __del__(self): fail()\nd = D()\ndel d\nassert f(1) == 1",
        "import threading\nseen = []\nthreading.excepthook = lambda told: seen.append(told.exc_type)\n"
        "t = threading.Thread(target=fail)\nt.start()\nt.join()\nassert seen == [Exception]",
    )
    program = "def f(x): return x\ndef fail(): raise Exception('x')"
    assert_all_pass(program, *tests, names="f fail")
    wrong = "def f(x): return 0\ndef fail(): raise Exception('x')"
    assert endings(wrong, *tests[:3], names="f fail") == ["failed"] * 3


def test_an_exception_that_the_program_raises_is_of_pythons_own_class() -> None:
    program = """
kept = Exception('y')
def fail(): raise Exception('x')
def doubt(): raise AssertionError('x')
def other(): raise type('Exception', (Exception,), {})('x')
def give(): return kept
def throw(): raise kept
"""
    tests = (
        "try: fail()\nexcept Exception as e: assert type(e) is Exception\nelse: assert False",
        "try: doubt()\nexcept AssertionError as e: assert type(e) is AssertionError\nelse: assert False",
        "e = give()\ntry: throw()\nexcept Exception as got: assert got is e\nelse: assert False",
        "try: throw()\nexcept Exception as e: assert give() is e\nelse: assert False",
    )
    assert_all_pass(program, *tests, names="fail doubt give throw")
    wrong = "try: other()\nexcept Exception as e: assert type(e) is Exception"
    assert endings(program, wrong, "doubt()", names="other doubt") == ["failed", "error"]


def test_tests_may_name_their_own_file() -> None:
    setup = "import os, sys\nsys.path.append(os.path.dirname(__file__))"
    assert run("def f(): return 3", "assert f() == 3", names="f", setup=setup) == [PASSED]
