"""Suites from dataset rows: names, lists of asserts, HumanEval, inputs and outputs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from suite_harness import FIELDS, STACK, STUB, call_suite, reason_of, run

from trl_grpo_ext.programs.sandbox.job import CallSuite, StdioCase, StdioSuite
from trl_grpo_ext.programs.suites.bad_tests import ADVICE, BadTests
from trl_grpo_ext.programs.suites.call_suite import solution_names
from trl_grpo_ext.programs.suites.columns import Columns, suite_from_row
from trl_grpo_ext.programs.suites.in_judge.function_case import same
from trl_grpo_ext.programs.suites.program_text import complete_program, prompt_code
from trl_grpo_ext.programs.suites.source import statements


def names_of(source: str, entry_point: str | None = None) -> tuple[str, ...]:
    return solution_names(statements(source), entry_point).names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("assert add(1, 2) == 3", ("add",)),
        ("import add\nassert add(1, 2)", ()),
        ("def helper(x):\n    return x\nassert helper(f(1))", ("f",)),
        ("assert [g(x) for x in range(3)] == sorted(y for y in h())", ("g", "h")),
        ("assert (lambda x, *a, k=d: f(x))(1)", ("d", "f")),
        ("assert [last := f(x) for x in (1, 2)] and last", ("f",)),
        ("assert [f(x) for x in g() if x]", ("f", "g")),
        ("assert [add for add in (1, 2)] and add(1)", ("add",)),
        ("x = 1\nassert [x for x in f(x)]", ("f",)),
        ("def t():\n    global state\n    state = f()\nt()\nassert state", ("f",)),
        ("class A(Base):\n    size = 3\n    def m(self):\n        return size", ("Base", "size")),
        ("match f():\n    case [a, *rest] if rest: b = a\n    case {'k': v, **more}: more\n    case Point(x=1): pass",
         ("Point", "f")),
        ("try:\n    f()\nexcept Oops as error:\n    assert error", ("Oops", "f")),
        ("x = f()\ndel x", ("f",)),
        ("def t():\n    global f\n    return f()", ("f",)),
        ("with f() as (a, b):\n    assert a", ("f",)),
        ("for i, (a, b) in f():\n    assert a[i]", ("f",)),
        ("assert print(len(__name__))", ()),
        ("def t(add):\n    return add(1)\nassert t(3)", ()),
        ("from math import *\nassert sqrt(f(4)) == pi", ("f",)),
        ("from unittest.mock import *\nassert f(Mock()) == ANY", ("f",)),
        ("from collections.abc import *\nassert isinstance(f(), Mapping)", ("f",)),
        ("from tkinter import *\nassert f(Tk)", ("Tk", "f")),
        ("from solution import *\nassert sqrt(4) == 2", ("sqrt",)),
        ("assert isinstance(f(), Node)", ("Node", "f")),
        ("async def t():\n    return [x async for x in f()]", ("f",)),
        ("assert math.isclose(mean([1]), 1)", ("mean",)),
        ("assert math(1) == math.pi", ("math",)),
        ("assert np.allclose(f(1), 1)", ("f",)),
        ("assert Counter(f()) == Counter('ab')", ("f",)),
        ("c = Counter()\nassert c.count == 0", ("Counter",)),
        ("def t(x: List[int]) -> Optional[int]: return f(x)", ("f",)),
    ],
)  # fmt: skip
def test_only_what_nobody_else_binds_is_the_solutions(
    source: str, names: tuple[str, ...]
) -> None:
    assert names_of(source) == names


def test_the_entry_point_is_the_solutions_whatever_its_name() -> None:
    assert names_of("assert pow(2, 3) == f(8)", "pow") == ("pow", "f")
    assert names_of("c = Counter()\nassert f(c)", "Counter") == ("Counter", "f")


def test_forgotten_imports_are_made_up_for_outside_the_solution() -> None:
    taken = solution_names(statements("assert math.isclose(f(Counter()), np.pi) and List"))
    assert taken.names == ("f",)
    assert taken.imports == (
        "from collections import Counter", "from typing import List", "import math", "import numpy as np",
    )  # fmt: skip


def test_a_solution_cannot_forge_the_modules_that_tests_forgot_to_import() -> None:
    suite = call_suite({"tests": ["assert math.isclose(mean([1, 3]), 2)"]})
    forged = "class math:\n    isclose = staticmethod(lambda a, b: True)\ndef mean(xs):\n    return 0\n"
    assert run(suite, forged) == ["AssertionError"]


GCD = "assert gcd(12, 8) == 4"
LCM = "assert lcm(4, 6) == 12"
IN_TESTS = f"def test_gcd():\n    {GCD}\ndef test_lcm():\n    {LCM}\n"
CASE = "import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.c = Counter()\n"
METHOD = (
    "    def test_c(self):\n        self.c.inc()\n        self.assertEqual(self.c.n, 1)\n"
)


@pytest.mark.parametrize(
    ("tests", "names"),
    [
        ([GCD, LCM], ("gcd", "lcm")),
        (IN_TESTS, ("gcd", "lcm")),
        (f"from solution import *\n{IN_TESTS}", ("gcd", "lcm")),
        (f"from math import gcd\n{IN_TESTS}", ("lcm",)),
        (f"from math import *\n{IN_TESTS}", ()),
        (f"def gcd(a, b): return 4\n{IN_TESTS}", ("lcm",)),
        (f"{GCD}\n{LCM}\nassert lcm(4, gcd(6, 9)) == 12", ("gcd", "lcm")),
        ("def test_a():\n    for a, b, c in [(12, 8, 4)]:\n        assert gcd(a, b) == c\n    assert lcm(4, 6) == 12",
         ("gcd", "lcm")),
        ("import pytest\n@pytest.mark.parametrize('a, b', [(1, 1)])\ndef test_a(a, b): assert gcd(a, 8) == b\n"
         f"def test_b(): {LCM}", ("gcd", "lcm")),
        (["c = Counter()\nc.inc()\nassert c.n == 1", "assert Timer().t == 0"], ("Counter", "Timer")),
        (f"{CASE}{METHOD}class U(unittest.TestCase):\n    def test_t(self): assert Timer().t == 0",
         ("Counter", "Timer")),
        (f"{CASE}        self.t = Timer()\n{METHOD}", ("Timer",)),
        (["assert len(list(permutations([1, 2]))) == 2", "assert double(3) == 6"], ("double", "permutations")),
        (["assert Counter(permutations([1])) == Counter([(1,)])", "assert double(3) == 6"], ("double",)),
        (["assert isclose(half(1), 0.5)", "assert half(2) == 1"], ("half",)),
        ("import pytest\n@pytest.fixture\ndef x(): return half(1)\ndef test_a(x): assert isclose(x, 0.5)", ("half",)),
        ("out = []\nf(out.append)\nassert Counter(out) == Counter([1])\nassert f(print)", ("f",)),
        (["with pytest.raises(ValueError): f(1)", "assert pytest.approx(1) == 1"], ("f",)),
        (["assert max(1, 2) == 2", "assert low(1, 2) == 1"], ("low", "max")),
        (["assert max(1, 2) == 2", "assert max(low(1, 2), 1) == 1"], ("low",)),
        (["assert sorted(f([2, 1])) == [1, 2]", "assert len(f([1])) == 1"], ("f",)),
        ("from solution import low\nassert max(1, 2) == 2\nassert low(1, 2) == 1", ("low",)),
        ("from solution import *\nassert max(1, 2) == 2\nassert low(1, 2) == 1", ("low", "max")),
    ],
)  # fmt: skip
def test_a_name_that_python_has_too_is_the_solutions_where_a_test_would_test_python(
    tests: Any, names: tuple[str, ...]
) -> None:
    try:
        found = call_suite({"tests": tests}).names
    except BadTests as bad:
        found = ()
        assert bad.reason == "tests_call_nothing"
    assert found == names


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        ("def gcd(a, b): pass\ndef lcm(a, b): pass", ("gcd", "lcm")),
        ("from math import gcd\ndef lcm(a, b): pass", ("lcm",)),
        ("gcd = lambda a, b: 4\ndef lcm(a, b): pass", ("gcd", "lcm")),
        (
            "def gcd(a, b): pass\ndef lcm(a, b): pass\ndef len(x): pass",
            ("gcd", "lcm", "len"),
        ),
        ("def lcm(a, b): pass\ndef isclose(a, b): pass", ("isclose", "lcm")),
        ("The answer is 4.", ("gcd", "lcm")),
    ],
)
def test_a_reference_says_which_names_are_the_solutions(
    reference: str, names: tuple[str, ...]
) -> None:
    tests = [GCD, LCM, "assert isclose(lcm(1, 1), 1) and len([lcm(1, 2)]) == 1"]
    suite = suite_from_row({"tests": tests}, reference=reference)
    assert isinstance(suite, CallSuite)
    assert sorted(suite.names) == sorted(names)


def test_what_a_prompt_defines_is_the_tests_own_also_if_the_reference_repeats_it() -> None:
    prompt = "def gcd(a, b):\n    return 4\n\ndef lcm(a, b):\n"
    row = {"tests": [GCD, LCM], "entry_point": "lcm"}
    suite = suite_from_row(row, prompt, reference="    return a * b // gcd(a, b)\n")
    assert isinstance(suite, CallSuite)
    assert suite.names == ("lcm",)
    assert "return 4" in suite.setup


def test_each_string_of_a_list_is_a_test() -> None:
    suite = call_suite({"tests": ["assert add(1, 2) == 3", "x = add(0, 0)\nassert x == 0"]})
    assert suite == CallSuite(
        tests=("assert add(1, 2) == 3", "x = add(0, 0)\nassert x == 0"), names=("add",)
    )
    assert run(suite, "def add(a, b): return a + b or 1") == ["passed", "AssertionError"]


def test_strings_that_only_define_are_setup_and_lone_comparisons_are_asserted() -> None:
    suite = call_suite(
        {
            "tests": [
                "import math",
                "def twice(x): return 2 * x",
                "f(2) == twice(2)  # so",
                "not f(0)",
            ]
        }
    )
    assert suite.tests == ("assert (f(2) == twice(2)  # so\n)", "assert (not f(0)\n)")
    assert run(suite, "def f(x): return x + 1") == ["AssertionError", "AssertionError"]


def test_test_functions_in_a_list_are_run_and_not_only_defined() -> None:
    suite = call_suite(
        {
            "tests": [
                "def test_a():\n    assert f(1) == 1",
                "def test_b():\n    assert f(2) == 1",
            ]
        }
    )
    assert run(suite, "def f(x): return 1") == ["passed", "passed"]
    assert run(suite, "def f(x): return x") == ["passed", "AssertionError"]


def test_mbpp_rows_have_setup_code_and_imports() -> None:
    row = {
        "test_list": ("assert math.floor(area(2)) == PI_TIMES_4",),
        "test_setup_code": "PI_TIMES_4 = 12",
        "test_imports": ["import math"],
        "challenge_test_list": ["assert False"],
    }
    suite = call_suite(row)
    assert suite.setup == "import math\nPI_TIMES_4 = 12" and suite.names == ("area",)


def test_setup_that_needs_the_solution_runs_in_front_of_each_test() -> None:
    row = {
        "test_list": ["assert total(root) == 3", "assert root.left.value == 2"],
        "test_setup_code": "import math\nroot = Node(1)\nroot.left = Node(2)\nsize = 2",
    }
    suite = call_suite(row)
    assert suite.setup == "import math\nsize = 2" and suite.names == ("Node", "total")
    assert suite.tests[0] == "root = Node(1)\nroot.left = Node(2)\nassert total(root) == 3"
    assert run(suite, "raise_later = 1\ndef total(n): return 3") == [
        "NameError",
        "NameError",
    ]


def test_numpy_arrays_and_json_are_read_like_lists() -> None:
    import numpy as np

    expected = call_suite({"tests": ["assert f(1)", "assert f(2)"]})
    assert (
        suite_from_row({"tests": np.array(["assert f(1)", "assert f(2)"], dtype=object)})
        == expected
    )
    assert suite_from_row({"tests": '["assert f(1)", "assert f(2)"]'}) == expected
    assert (
        suite_from_row({"tests": float("nan"), "test_list": ["assert f(1)", "assert f(2)"]})
        == expected
    )


def test_a_definition_in_the_tests_counts_before_an_import_from_the_solution() -> None:
    source = "from solution import f, ok\ndef ok(x):\n    return x == 1\ndef test_f():\n    assert ok(f())"
    suite = call_suite({"tests": source})
    assert suite.names == ("f",) and run(
        suite, "def ok(x): return True\ndef f(): return 2"
    ) == ["AssertionError"]


def test_lines_of_one_test_that_a_list_keeps_apart_are_one_test() -> None:
    for tests in (
        ["s = Stack([])", "s.push(1)", "assert s.items == [1]"],
        ["s = Stack([])\nassert s.items == []", "s.push(1)\nassert s.items == [1]"],
    ):
        suite = call_suite({"tests": tests})
        assert (
            len(suite.tests) == 1
            and suite.names == ("Stack",)
            and run(suite, STACK) == ["passed"]
        )


@pytest.mark.parametrize(
    ("tests", "right", "wrong"),
    [
        (
            ["s = Stack([])", "s.push(1)", "s.push(2)", "top = s.items[-1]", "assert top == 2"],
            STACK,
            STACK.replace("append(item)", "insert(0, item)"),
        ),
        (
            ["s = Stack([])", "s.push(1)", "s.push(1)", "assert len(s.items) == 2"],
            STACK,
            STACK.replace("self.items.append(item)", "self.items = [item]"),
        ),
        (
            ["calls = []", "@memo\ndef f(x):\n    calls.append(x)", "f(2)", "f(2)", "n = len(calls)", "assert n == 1"],
            "from functools import cache as memo",
            "def memo(f): return f",
        ),
        (
            ["rows = [2, 1]", "put_in_order(rows)", "first = rows[0]", "assert first == 1"],
            "def put_in_order(xs): xs.sort()",
            "def put_in_order(xs): return sorted(xs)",
        ),
        (
            ["x = [2]", "assert f(x) == 2", "x = [3]", "assert f(x) == 3"],
            "def f(x): return x[0]",
            "def f(x): return 3",
        ),
    ],
)  # fmt: skip
def test_strings_that_assign_between_tests_run_in_their_order(
    tests: list[str], right: str, wrong: str
) -> None:
    suite = call_suite({"tests": tests})
    assert run(suite, right) == ["passed"]
    assert run(suite, wrong) == ["AssertionError"]


def test_constants_between_tests_leave_each_a_test() -> None:
    tests = ["x = [1]", "assert f(x) == 1", "y = [2]", "assert f(y) == 2"]
    assert run(call_suite({"tests": tests}), "def f(x): return 1") == [
        "passed",
        "AssertionError",
    ]


def test_a_solution_cannot_take_the_place_of_the_checker() -> None:
    pairs = {"inputs": [[1]], "outputs": [2], "fn_name": "same"}
    assert call_suite({"input_output": pairs}).names == ()
    assert reason_of({"test": CHECK, "entry_point": "check"}, STUB) == "tests_empty"


def test_a_check_without_the_name_of_its_function_is_told_from_tests_that_are_empty() -> (
    None
):
    assert reason_of({"test": CHECK}, STUB) == "entry_point_missing"
    assert reason_of({"test": CHECK, "entry_point": ""}) == "entry_point_missing"
    assert "unit" in call_suite({"test": f"{CHECK}check(unit)"}).names


CHECK = "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert abs(norm(candidate([3, 4])) - 1) < 1e-9\n\n"


def test_a_humaneval_row_takes_its_helpers_from_the_prompt_and_nothing_else_from_the_solution() -> (
    None
):
    suite = call_suite({"test": CHECK, "entry_point": "unit"}, STUB)
    assert suite.tests == ("check(unit)",) and suite.names == ("unit",)
    assert (
        "def norm" in suite.setup
        and "def unit" not in suite.setup
        and "LIMIT" not in suite.setup
    )
    assert run(suite, "def norm(xs): return 1\ndef unit(xs): return xs") == [
        "AssertionError"
    ]
    assert run(suite, "def unit(xs): return [x / 5 for x in xs]") == ["passed"]


@pytest.mark.parametrize("entry_point", ["Solution().unit", "Solution.unit"])
def test_an_entry_point_may_be_a_method(entry_point: str) -> None:
    prompt = "class Solution:\n    def unit(self, xs):\n        "
    row = {
        "test": "def check(candidate):\n    assert candidate([2]) == [1]",
        "entry_point": entry_point,
    }
    suite = call_suite(row, prompt)
    assert suite.tests == ("check(Solution().unit)",) and suite.names == ("Solution",)
    code = prompt_code(prompt, "Solution")
    assert run(suite, complete_program("        return [1]\n", code, "Solution")) == [
        "passed"
    ]


def test_a_call_of_check_at_the_end_is_not_run_twice() -> None:
    suite = call_suite({"test": CHECK + "check(unit)\n", "entry_point": "unit"}, STUB)
    assert suite.tests == ("check(unit)",)


def test_a_reference_under_the_solutions_name_does_not_hide_the_solution() -> None:
    suite = call_suite(
        {"tests": "def f(x):\n    return 1\nassert f(1) == 1", "entry_point": "f"}
    )
    assert run(suite, "def f(x): return 2") == ["AssertionError"]


def test_without_an_entry_point_nothing_comes_from_the_prompt() -> None:
    assert call_suite(
        {"tests": ["assert f(1) == 1"]}, "def f(x):\n    return 1\n"
    ).names == ("f",)


def test_pairs_of_text_are_a_program_to_run() -> None:
    expected = StdioSuite(tests=(StdioCase(stdin="1 2\n3", stdout="6"),))
    info = {"language": "python", "test_cases": [
        {"type": "stdin_stdout", "input": "1 2\n3", "output": "6", "fn_name": None}
    ]}  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"tests": [{"input": "1 2\n3", "output": "6"}]},
        {"tests": [{"stdin": ["1 2", "3"], "stdout": "6"}]},
        {"tests": '[{"input": "1 2\\n3", "output": "6"}]'},
        {"verification_info": info},
        {"verification_info": json.dumps(info)},
        {"input_output": {"inputs": ["1 2\n3"], "outputs": [["6"]]}},
        {"input_output": '{"inputs": [["1 2", "3"]], "outputs": ["6"]}', "tests": None},
    ]
    assert [suite_from_row(row) for row in rows] == [expected] * len(rows)


@pytest.mark.parametrize(
    ("pairs", "right"),
    [
        ({"inputs": [[1, [2, 3]]], "outputs": [[3, 4]], "fn_name": "shift"}, True),
        ({"inputs": [[1, [2, 3]]], "outputs": [[[3, 4]]], "fn_name": "shift"}, True),
        (
            {
                "inputs": [[1, [2, 3]]],
                "outputs": [[3, 4.0000001]],
                "fn_name": "Solution.shift",
            },
            True,
        ),
        ({"inputs": ["1\n[2, 3]"], "outputs": ["[3, 4]"], "fn_name": "shift"}, True),
        ({"inputs": [[1, [2, 3]]], "outputs": [[4, 3]], "fn_name": "shift"}, False),
        (
            {
                "inputs": [[1, [2]], [1, []]],
                "outputs": [[[3]], [[], []]],
                "fn_name": "shift",
            },
            False,
        ),
    ],
)
def test_a_function_or_a_method_of_solution_is_called_with_the_inputs(
    pairs: dict[str, Any], right: bool
) -> None:
    suite = call_suite({"input_output": json.dumps(pairs)})
    function = "def shift(by, xs): return tuple(x + by for x in xs)"
    method = "class Solution:\n    def shift(self, by, xs): return [x + by for x in xs]"
    expected = "passed" if right else "AssertionError"
    assert run(suite, function)[0] == run(suite, method)[0] == expected
    assert set(run(suite, "x = 1")) == {"AttributeError"}


class Agreeable:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("expected", "got", "equal"),
    [
        ([1, [2]], (1, (2,)), True),
        ({"1": 2}, {1: 2}, True),
        ({"1": 2}, {1: 2, "1": 2}, False),
        (0.3, 0.1 + 0.2, True),
        (1.0, 10**400, False),
        (1.5, float("nan"), False),
        (float("inf"), float("inf"), True),
        (1, 1.0, True),
        (3, Agreeable(), False),
        ([3], [Agreeable()], False),
        (0.5, Agreeable(), False),
        (None, None, True),
        ("a", ["a"], False),
    ],
)
def test_results_are_compared_as_plain_data(expected: Any, got: Any, equal: bool) -> None:
    assert same(expected, got) is equal


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "tests_missing"),
        ({"tests": None, "solution": "x"}, "tests_missing"),
        ({"tests": []}, "tests_empty"),
        ({"tests": ""}, "tests_empty"),
        ({"tests": "[]"}, "tests_empty"),
        ({"tests": "import math\nx = 1"}, "tests_empty"),
        ({"tests": ["import math"]}, "tests_empty"),
        (
            {"tests": "import pytest\n@pytest.mark.skip\ndef test_a(): assert f()"},
            "tests_all_skipped",
        ),
        ({"tests": ["assert f(1"]}, "tests_do_not_parse"),
        ({"tests": ["return f(1)"]}, "tests_do_not_parse"),
        ({"tests": ["assert f('\0')"]}, "tests_do_not_parse"),
        ({"tests": "This is text."}, "tests_do_not_parse"),
        ({"tests": "[1, 2"}, "tests_not_json"),
        ({"tests": [1, 2]}, "tests_not_text"),
        ({"tests": 5}, "tests_not_text"),
        ({"tests": b"assert f()"}, "tests_not_text"),
        ({"tests": [{"input": "1"}]}, "tests_unknown_form"),
        ({"tests": [{"input": 1, "output": "1"}]}, "tests_not_text"),
        ({"tests": ["assert sum([1, 2]) == 3"]}, "tests_call_nothing"),
        ({"tests": ["assert math.isclose(1, 1)"]}, "tests_call_nothing"),
        (
            {"tests": ["assert sum([1, 2]) == 3"], "entry_point": "add"},
            "tests_call_nothing",
        ),
        ({"tests": ["assert f()"], "entry_point": "not a name"}, "entry_point_invalid"),
        ({"tests": ["assert f()"], "entry_point": "a.b.c"}, "entry_point_invalid"),
        ({"tests": ["assert f()"], "entry_point": 5}, "entry_point_invalid"),
        ({"input_output": "{"}, "tests_not_json"),
        ({"input_output": ""}, "tests_empty"),
        ({"input_output": "[1]"}, "tests_not_text"),
        ({"input_output": '{"a": 1}'}, "tests_unknown_form"),
        ({"input_output": {"inputs": ["1"], "outputs": []}}, "tests_unequal"),
        ({"input_output": {"inputs": [], "outputs": []}}, "tests_empty"),
        (
            {"input_output": {"inputs": [5], "outputs": [5], "fn_name": "f"}},
            "tests_not_arguments",
        ),
        (
            {"input_output": {"inputs": [[5]], "outputs": [5], "fn_name": "f g"}},
            "entry_point_invalid",
        ),
        (
            {"verification_info": {"language": "rust", "test_cases": []}},
            "language_not_python",
        ),
        ({"verification_info": {"language": "python", "test_cases": []}}, "tests_empty"),
        ({"verification_info": {"language": "python"}}, "tests_unknown_form"),
    ],
)
def test_rows_that_cannot_judge_say_why(row: dict[str, Any], reason: str) -> None:
    assert reason_of(row) == reason


def test_an_entry_point_makes_a_builtins_name_the_solutions() -> None:
    suite = call_suite({"tests": ["assert sum(10, 15) == 6"], "entry_point": "sum"})
    assert run(suite, "def sum(a, b): return 6") == ["passed"]


HELPER = "def check_equal(got, expected):\n    assert all([got == expected])\n"


def test_a_builtins_name_is_the_solutions_where_a_helper_of_the_tests_gets_what_it_returns() -> (
    None
):
    """MBPP+ has tests of a function `sum` that take nothing else from the solution."""
    loop = (
        "for pair, expected in zip([(10, 15)], [6]):\n    check_equal(sum(*pair), expected)"
    )
    suite = call_suite({"test": HELPER + loop})
    assert suite.names == ("sum",)
    assert run(suite, "def sum(a, b): return 6") == ["passed"]
    assert run(suite, "def sum(a, b): return 7") == ["AssertionError"]
    assert run(suite, "def zip(a, b): return []") != ["passed"]


@pytest.mark.parametrize(
    "test",
    [
        "check_equal(set([1]), {1})",  # a class only converts
        "check_equal(sum([1]), 1)\ncheck_equal(max([1]), 1)",  # which of the two?
        "print(sum([1]))\ncheck_equal(1, 1)",
    ],
)
def test_without_such_a_name_tests_with_helpers_call_nothing(test: str) -> None:
    assert reason_of({"test": HELPER + test}) == "tests_call_nothing"


def test_what_a_helper_calls_is_the_solutions_however_the_tests_reach_it() -> None:
    for test in (
        "def run(x):\n    return double(x)\ndef test_two():\n    assert run(1) == 2",
        "run = lambda x: double(x)\nassert run(1) == 2",
        "import importlib\ndef run(x):\n    return importlib.import_module('solution').double(x)\nassert run(1) == 2",
    ):
        suite = call_suite({"tests": test})
        assert run(suite, "def double(x): return 2 * x") == ["passed"]
        assert run(suite, "def double(x): return x") == ["AssertionError"]


def test_importing_the_solution_as_a_module_is_enough() -> None:
    suite = call_suite({"tests": ["import solution\nassert solution.sum([1]) == 1"]})
    assert suite.names == () and run(suite, "x = 1") == ["AttributeError"]


def test_every_column_reads_every_form() -> None:
    for column in Columns().alternatives:
        for value in (["assert f() == 1"], "assert f() == 1", '["assert f() == 1"]'):
            assert call_suite({column: value}).names == ("f",)
        for value in (
            [{"input": "1", "output": "2"}],
            {"test_cases": [{"input": "1", "output": "2"}]},
        ):
            assert isinstance(suite_from_row({column: value}), StdioSuite)
    suite = call_suite({"test_list": "assert f() == g", "test_setup_code": "g = 1"})
    assert run(suite, "def f(): return 1") == ["passed"]


def test_columns_may_have_other_names() -> None:
    columns = Columns(tests="asserts")
    suite = suite_from_row(
        {"asserts": ["assert f()"], "tests": ["assert g()"]}, columns=columns
    )
    assert isinstance(suite, CallSuite) and suite.names == ("f",)
    assert columns.alternatives == (
        "asserts",
        "test_list",
        "test",
        "verification_info",
        "input_output",
    )


def test_bad_tests_travel_between_processes() -> None:
    error = pickle.loads(pickle.dumps(BadTests("tests_empty", [])))
    assert (error.reason, error.value, error.advice) == (
        "tests_empty",
        "[]",
        ADVICE["tests_empty"],
    )


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=20)
        | st.binary(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    st.sampled_from(Columns().alternatives),
)
@example([{"inputs": None, "outputs": b"", "fn_name": "f"}], "tests")
def test_any_value_in_a_column_is_a_suite_or_bad_tests(value: Any, column: str) -> None:
    try:
        suite = suite_from_row({column: value, "entry_point": "f"}, "def f(x):\n")
    except BadTests as error:
        assert error.reason in ADVICE
    else:
        assert suite.tests


def test_a_deleted_name_keeps_its_place_in_a_script() -> None:
    script = "a = S()\ntmp = S()\na.push(1)\ndel tmp\nassert a.items == [1]\nassert 'tmp' not in globals()"
    program = "class S:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)"
    assert run(call_suite({"tests": script}), program) == ["passed"]


@pytest.mark.parametrize("column", Columns().alternatives)
def test_each_column_of_tests_has_its_row_in_the_docs(column: str) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "unit_tests.md"
    assert f"\n| `{column}` | " in page.read_text(encoding="utf-8"), (
        f"Add a row `{column}` to {page.name}."
    )
