"""The judge's questions about objects that a test has made or passed, with attacks on each question."""

from __future__ import annotations

import pytest
from judge_harness import assert_all_pass, endings, run

LIAR = """
class Liar:
    def yes(self, *a): return True
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = yes
    def zero(self, *a): return 0.0
    __sub__ = __rsub__ = __abs__ = __float__ = __round__ = __neg__ = zero
    def me(self, *a): return self
    __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = me
    def __eq__(self, other): return True
    __hash__ = object.__hash__
    def __init__(self, *a): pass
"""


def failing(program: str, *tests: str, **options: str) -> list[str]:
    """Return tests that pass wrongly."""
    return [
        test
        for test, (end, _) in zip(tests, run(program, *tests, **options), strict=True)
        if end == "passed"
    ]


def test_a_class_where_the_tests_call_a_function_returns_results() -> None:
    tests = (
        "assert add(1, 2) < -5",
        "assert abs(add(1, 2) - 3) < 1e-6",
        "assert 3 in add(1, 2)",
        "assert float(add(1, 2)) == 0.0",
        "import math; assert math.isclose(add(1, 2), 0.0)",
        "assert add(1, 2) + 1 < 5",
        "assert round(add(1, 2)) == 0",
        "assert add(1, 2) == 3",
        "import solution; assert solution.add(1, 2) < -5",
        "from solution import add; assert add(1, 2) < -5",
    )
    assert failing(LIAR + "add = Liar", *tests, names="add") == []
    assert failing(LIAR + "Add = add = Liar", *tests, names="add Add") == []


def test_a_class_method_that_the_tests_read_of_its_class_is_a_constructor_and_nothing_else_is() -> (
    None
):
    program = """
class Version:
    def __init__(self, parts): self.parts = parts
    @classmethod
    def parse(cls, text): return cls([*map(int, text.split("."))])
    def bumped(self): return Version([*self.parts[:-1], self.parts[-1] + 1])
    def __lt__(self, other): return self.parts < other.parts
    def __contains__(self, part): return True
def parsed(text): return Version.parse(text)
"""
    assert_all_pass(
        program, "assert Version.parse('1.2') < Version.parse('1.10')", names="Version"
    )
    tests = (
        "assert 7 in Version.parse('1.2')",
        "assert Version.parse('1.2') < 3",
        "assert parsed('1.2') < parsed('1.10')",
        "assert Version.parse('1.2').bumped() < Version.parse('1.10').bumped()",
    )
    assert failing(program, *tests, names="Version parsed") == []
    liar = LIAR + "Liar.make = staticmethod(lambda made=Liar(): made)\nmake = Liar.make"
    tests = (
        "assert Liar.make() < Liar.make()",
        "assert Liar.make() + 1 == 2",
        "assert make() < make()",
    )
    assert failing(liar, *tests, names="Liar make") == []


def test_what_a_result_says_of_itself_counts_for_nothing_also_beside_what_the_test_has_made() -> (
    None
):
    program = (
        LIAR
        + """
class Money:
    def __init__(self, n): self.n = n
    def __eq__(self, o): return isinstance(o, Money) and self.n == o.n
    def __lt__(self, o): return self.n < o.n
    def __gt__(self, o): return self.n > o.n
    def __add__(self, o): return Liar()
class Sub(Money, Liar):
    __lt__ = __gt__ = Liar.yes
def f(): return Liar()
def g(): return Sub(3)
"""
    )
    tests = (
        "assert f() < Money(7)",
        "assert Money(7) > f()",
        "assert g() > Money(7)",
        "assert Money(7) < g()",
        "assert max(f(), Money(1)) == Money(1)",
        "assert abs(Money(1) + Money(2) - 3) < 1e-6",
        "assert (Money(1) + Money(2)) - 3 == 0.0",
        "assert Money(1) + Money(2) < 4",
        "assert 3 in Money(1) + Money(2)",
        "assert Money(1) == 1",
        "assert sorted([f(), f()]) == [1, 2]",
    )
    assert failing(program, *tests, names="Money f g") == []
    assert_all_pass(
        program, "assert Money(1) < Money(2) and Money(3) > Money(2)", names="Money"
    )


def test_what_operators_give_may_be_computed_on_again_and_again() -> None:
    program = """
class Pipe:
    def __init__(self, *steps): self.steps = steps
    def __or__(self, step): return Pipe(*self.steps, step)
    __add__ = __or__
    def __call__(self, x):
        for step in self.steps: x = step(x)
        return x
class Money:
    def __init__(self, n): self.n = n
    def __mul__(self, k): return Money(self.n * k)
    def __float__(self): return float(self.n)
    def __eq__(self, other): return self.n == other.n
    def __lt__(self, other): return self.n < other.n
class Path:
    def __init__(self, text): self.text = text
    def __truediv__(self, text): return Path(self.text + "/" + text)
    def __add__(self, text): return Path(self.text + text)
class Log:
    def __init__(self): self.lines = []
    def __lshift__(self, line):
        self.lines.append(line)
        return self
"""
    tests = (
        "f = lambda x: x + 1\nassert (Pipe() | f | f | f | f)(1) == (Pipe() + f + f + f + f)(1) == 5",
        "assert Money(1) * 2 * 3 * 4 == Money(24) and float(Money(1) * 2 * 3 * 4) == 24",
        "m = Money(1)\nfor _ in range(9): m *= 2\nassert m.n == 512 and m < Money(513)",
        "assert (Path('a') / 'b' / 'c' / 'd').text == 'a/b/c/d' and (Path('a') + 'b' + 'c' + 'd').text == 'abcd'",
        "log = Log()\nlog << 'a' << 1 << 'b' << 2\nassert log.lines == ['a', 1, 'b', 2]",
    )
    assert_all_pass(program, *tests, names="Pipe Money Path Log")


def test_what_was_computed_does_not_judge_itself_after_a_sum_or_difference_with_plain_data() -> (
    None
):
    tests = (
        "assert abs(Liar() * 2 * 3 - 6) < 1e-9",
        "assert abs(6 - Liar() * 2 * 3) < 1e-9",
        "assert abs((Liar() * 2 * 3 + -6) * 1 * 1) < 1e-9",
        "assert abs(Liar() * 2 / 6 - 1) < 1e-9",
        "assert abs(Liar() + [6]) < 1e-9",
        "assert abs(Liar() - '6') < 1e-9",
        "class E(int):\n    def __call__(self): return 6\nassert abs(Liar() * 2 * 3 - E(6)) < 1e-9",
        "x = Liar() * 2 * 3\nx -= 6\nassert abs(x) < 1e-9",
        "assert abs(nothing() - Liar()) < 1e-9",
        "assert abs(Liar() - nothing()) < 1e-9",
        "import unittest\nunittest.TestCase().assertAlmostEqual(Liar() * 2 * 3, 0)",
        "assert Liar() * 2 * 3 == 6",
        "assert Liar() * 2 * 3 < 7",
        "assert 6 in Liar() * 2 * 3",
        "assert (Liar() + 1) * 2 < Liar() * 2 * 3",
    )
    zero = "def nothing(): return 0\n"
    program = (
        LIAR.replace("__sub__ = __rsub__ = __abs__", "__abs__")
        + "    __sub__ = __rsub__ = __add__\n"
    )
    assert failing(LIAR + zero, *tests, names="Liar nothing") == []
    assert failing(program + zero, *tests, names="Liar nothing") == []
    assert_all_pass(LIAR, "assert float(sum([Liar(), Liar()])) == 0", names="Liar")


def test_what_the_test_has_made_is_a_result_once_the_program_has_returned_it() -> None:
    program = """
class Point:
    def __init__(self, *a): self.a = a
    def __sub__(self, other): return 0.0
    def __lt__(self, other): return True
    __gt__ = __contains__ = lambda self, other: True
    def __enter__(self): return self
    def __exit__(self, *a): pass
    def __iadd__(self, other): return self
    def distance_to(self, other): return self
    def __getitem__(self, i): return self
    length = property(lambda self: self)
def distance(a, b): return a
def nearest(points): return points
def put(out, p): out[0] = p
def call(f, p): return f(p)
def store(box, p): box.x = p
def wrap(p):
    from types import SimpleNamespace
    return SimpleNamespace(x=p)
"""
    tests = (
        "assert wrap(Point(0, 0)).x < 5",
        "assert abs(distance(Point(0, 0), Point(3, 4)) - 5) < 1e-9",
        "p = Point(0, 0)\nassert abs(p.distance_to(Point(3, 4)) - 5) < 1e-9",
        "p = Point(0, 0)\nassert abs(p.length - 5) < 1e-9",
        "assert abs(Point(0, 0)[0] - 5) < 1e-9",
        "assert abs(nearest([Point(0, 0)])[0] - 5) < 1e-9",
        "p = Point()\nd = distance(p, p)\nassert d < 5",
        "p = Point()\nd = distance(p, p)\nassert d > -5 and 3 in d",
        "ps = [Point()]\nassert nearest(ps)[0] < 3",
        "out = [0.0]\nput(out, Point())\nassert abs(out[0] - 5) < 1e-9",
        "def check(x): assert abs(x - 5) < 1e-9\ncall(check, Point())",
        "class Box: pass\nb = Box()\nstore(b, Point())\nassert abs(b.x - 5) < 1e-9",
        "from types import SimpleNamespace\nb = SimpleNamespace()\nstore(b, Point())\nassert abs(b.x - 5) < 1e-9",
        "from unittest.mock import Mock\nb = Mock()\nstore(b, Point())\nassert abs(b.x - 5) < 1e-9",
        "seen = []\np = Point()\ndef f(x): seen.append(x)\nseen.append(p.distance_to(f))\nassert seen[0] - 5 == 0.0",
    )
    assert (
        failing(program, *tests, names="Point distance nearest put call store wrap") == []
    )
    kept = (
        "p = Point()\np += 1\nassert p - p == 0.0",
        "with Point() as p: assert p - p == 0.0",
    )
    assert_all_pass(program, *kept, names="Point")


def test_a_constant_of_a_class_is_not_compared_with_plain_data_by_the_program() -> None:
    program = """
from enum import Flag
class Circle:
    def __sub__(self, other): return 0.0
    def __lt__(self, other): return True
    __gt__ = __contains__ = __lt__
Circle.PI = Circle()
class Perm(Flag):
    R = 1
    W = 2
class Size:
    def __init__(self, n): self.n = n
    def __lt__(self, other): return self.n < other.n
Size.S, Size.L = Size(1), Size(2)
"""
    tests = (
        "assert abs(Circle.PI - 3.14) < 0.01",
        "assert Circle.PI < 4",
        "assert Circle.PI > 3",
        "assert 3 in Circle.PI",
    )
    assert failing(program, *tests, names="Circle") == []
    kept = (
        "assert (Perm.R | Perm.W).value == 3",
        "assert Size.S < Size.L and not Size.L < Size.S",
    )
    assert_all_pass(program, *kept, names="Perm Size")


def test_a_list_of_the_program_is_what_it_holds_whoever_made_it() -> None:
    program = (
        LIAR
        + """
class Stack(list, Liar):
    def peek(self): return self[-1]
    def __getitem__(self, i): return 9
    def __len__(self): return 7
def f(): return Stack([1, 2])
"""
    )
    tests = (
        "assert f() == [9]", "assert Stack([1]) == [9]", "assert f() == [1, 2, 3]", "assert len(f()) == 7",
        "assert f()[0] == 9", "assert 5 in f()", "assert sorted(f()) == [9]", "assert f() < [0]",
        "assert not f() != [3]",
    )  # fmt: skip
    assert failing(program, *tests, names="Stack f") == []
    assert_all_pass(
        program,
        "assert f() == [1, 2] and len(f()) == 2 and f() + [3] == [1, 2, 3]",
        names="f",
    )


OF_NO_MODULE = """
from enum import Enum
class L(list, Enum):
    __module__ = "library"
    A = []
    def __next__(self): raise StopIteration
    def __iter__(self): return self
def f():
    list.__init__(L.A, [0, 0, 0])
    return L.A
"""
OF_TWO_MODULES = """
import sys
class M(type):
    @property
    def __module__(cls): return "library" if sys._getframe(1).f_code.co_name == "_flags" else "solution"
class L(list, metaclass=M):
    def __next__(self): raise StopIteration
    def __iter__(self): return self
    def more(self): return 1
def f(): return L([0, 0, 0])
"""


@pytest.mark.parametrize("program", [OF_NO_MODULE, OF_TWO_MODULES])
def test_a_list_that_says_it_is_a_class_of_the_library_is_what_it_holds(
    program: str,
) -> None:
    tests = (
        "r = f()\nassert len(r) == 3 and all(a == b for a, b in zip(r, [2, 4, 6]))",
        "r = f()\nassert len(r) == 3\nfor a, b in zip(r, [2, 4, 6]): assert a == b",
    )
    assert failing(program, *tests, names="f") == []
    assert_all_pass(
        program, "r = f()\nassert len(r) == 3 and list(r) == r == [0, 0, 0]", names="f"
    )


OF_PLAIN_DATA = """
from enum import IntFlag
from typing import NamedTuple
class P(NamedTuple):
    x: int
    y: int
    def __add__(self, o): return P(self.x + o.x, self.y + o.y)
    def scale(self, k): return P(self.x * k, self.y * k)
class Mod(int):
    def __add__(self, o): return Mod((int(self) + int(o)) % 7)
    __radd__ = __add__
    def twice(self): return Mod(int(self) * 2 % 7)
class Vec(list):
    def __add__(self, o): return Vec(a + b for a, b in zip(self, o))
    def __mul__(self, k): return Vec(a * k for a in self)
    __rmul__ = __mul__
    def doubled(self): return Vec(a * 2 for a in self)
class Bag(dict):
    def __or__(self, o): return Bag({k: self.get(k, 0) + o.get(k, 0) for k in [*self, *o]})
    def taken(self): return Bag(self)
class Slug(str):
    def __add__(self, o): return Slug(str(self) + "-" + str(o))
    def big(self): return Slug(self.upper())
class Perm(IntFlag):
    R = 4
    W = 2
def both(): return Perm.R | Perm.W
"""


def test_a_class_of_plain_data_is_asked_for_its_own_operators_as_any_class_is() -> None:
    tests = (
        "assert P(1, 2) + P(3, 4) + P(1, 1) == P(5, 7) and P(1, 2).scale(2) + P(1, 1) == P(3, 5)",
        "assert sum([P(1, 2), P(3, 4).scale(1)], P(0, 0)) == P(4, 6)",
        "p = P(1, 2)\nfor _ in range(3): p += P(1, 1)\nassert p == (4, 5)",
        "assert Mod(5) + Mod(4) + Mod(6) == 1 and Mod(5).twice() + Mod(6) == Mod(2) and Mod(5).twice() * 2 == 6",
        "assert Vec([1, 2]) + Vec([3, 4]) + Vec([1, 1]) == [5, 7] and 2 * (Vec([1]) + Vec([3])) == [8]",
        "assert Bag(a=1) | Bag(a=2) | Bag(a=3) == {'a': 6} and (Bag(a=1) | {'a': 2}) | {'a': 3} == {'a': 6}",
        "assert Slug('a') + 'b' + 'c' == 'a-b-c' and Slug('a').big() + Slug('b') == 'A-b'",
        "assert both() | 1 == 7 and both() & Perm.W and both() & 4 == 4 and ~both() & 6 == 0",
    )
    assert_all_pass(OF_PLAIN_DATA, *tests, names="P Mod Vec Bag Slug Perm both")


ONLY_OPERATORS = """
from collections.abc import MutableSet
from enum import IntFlag
class Money(int):
    def __add__(self, o): return Money(int(self) + int(o))
    def __str__(self): return f"${int(self)}"
    def __format__(self, spec): return str(self)
class Mod(int):
    def __mul__(self, o): return Mod(int(self) * int(o) % 7)
class L(list):
    def __add__(self, o): return L([*self, 0, *o])
class Pair:
    def __add__(self, o): return V(a + b for a, b in zip(self, o))
class V(Pair, list): pass
class S(set, MutableSet): pass
class Perm(IntFlag):
    R = 4
    W = 2
    def __add__(self, o): return Perm.W
class Bare(list):
    def __init__(self, *a): list.__init__(self, a)
    __mul__ = list.__mul__
def money(): return Money(5)
def l(): return L([1])
def v(): return V([1])
def s(): return S([1])
def perm(): return Perm.R
def bare(): return Bare(1)
"""


def test_a_class_of_plain_data_needs_no_methods_to_be_asked_for_its_operators() -> None:
    tests = (
        "assert isinstance(money(), Money) and str(money()) == f'{money()}' == '$5' and money() == 5",
        "assert isinstance(Money(1) + Money(2), Money) and sum([Money(1), Money(2)], Money(0)) == Money(3)",
        "assert Mod(5) * Mod(2) * Mod(3) == 2 and L([1]) + L([2]) + L([3]) == [1, 0, 2, 0, 3]",
        "assert V([1, 2]) + V([3, 4]) + V([1, 1]) == [5, 7] and type(V([1]) + V([1])) is V",
        "assert s() | {2} == {1, 2} and perm() | Perm.W == 6 and perm() & 4 == 4",
        "assert bare() + [2] == [1, 2] and bare() * 2 == [1, 1] and bare() < [2] and isinstance(bare(), Bare)",
    )
    assert_all_pass(
        ONLY_OPERATORS, *tests, names="Money Mod L V Perm Bare money s perm bare"
    )


@pytest.mark.parametrize("test", ["money() + 1", "l() + [1]", "v() + [1]", "perm() + 1"])
def test_an_operator_of_a_returned_result_is_not_replaced_though_its_class_has_no_methods(
    test: str,
) -> None:
    ((ending, detail),) = run(ONLY_OPERATORS, f"assert {test}", names="money l v perm")
    assert ending == "error"
    assert detail.startswith("__add__ is not asked of a returned")


@pytest.mark.parametrize(
    ("test", "operator", "kind"),
    [
        ("P(1, 2).scale(2) + P(1, 1).scale(2)", "__add__", "P"),
        ("Mod(5).twice() + 6", "__add__", "Mod"),
        ("6 + Mod(5).twice()", "__radd__", "Mod"),
        ("Vec([1]).doubled() + [3]", "__add__", "Vec"),
        ("3 * Vec([1]).doubled()", "__rmul__", "Vec"),
        ("Bag(a=1).taken() | {'a': 3}", "__or__", "Bag"),
        ("Slug('a').big() + 'b'", "__add__", "Slug"),
    ],
)
def test_pythons_operator_does_not_run_in_place_of_the_one_that_is_not_asked(
    test: str, operator: str, kind: str
) -> None:
    found = run(OF_PLAIN_DATA, f"assert {test}", names="P Mod Vec Bag Slug")
    assert found == [("error", f"{operator} is not asked of a returned {kind!r} object")]


REFUSED = """
class Money:
    def __init__(self, v): self.v = v
    def __add__(self, o): return 0
    __lt__ = __contains__ = __float__ = __add__
class Cents(int):
    def __add__(self, o): return Cents(0)
    def same(self): return Cents(self)
class Zeros(dict):
    def __missing__(self, k): return 0
    def same(self): return Zeros(self)
def money(): return Money(5)
"""


@pytest.mark.parametrize(
    ("expression", "error", "question"),
    [
        (
            "Money(5) + 'x'",
            "TypeError",
            "__add__ of a 'Money' object and plain or returned data gives plain data",
        ),
        (
            "Cents(5) + 'x'",
            "TypeError",
            "__add__ of a 'Cents' object and plain or returned data gives plain data",
        ),
        ("money() + 'x'", "TypeError", "__add__ is not asked of a returned 'Money' object"),
        (
            "Cents(5).same() + 'x'",
            "TypeError",
            "__add__ is not asked of a returned 'Cents' object",
        ),
        ("money() < 'x'", "TypeError", "__lt__ is not asked of a returned 'Money' object"),
        (
            "'x' in money()",
            "TypeError",
            "__contains__ is not asked of a returned 'Money' object",
        ),
        (
            "float(money())",
            "TypeError",
            "__float__ is not asked of a returned 'Money' object",
        ),
        (
            "Zeros().same()['x']",
            "KeyError, TypeError",
            "__missing__ is not asked of a returned 'Zeros' object",
        ),
    ],
)
def test_a_refusal_fails_the_test_that_swallows_it_and_no_other(
    expression: str, error: str, question: str
) -> None:
    tests = (
        f"try: {expression}\nexcept ({error}): pass\nelse: assert False",
        f"import contextlib\nwith contextlib.suppress({error}): {expression}",
        "assert Money(5).v == 5",
    )
    found = run(REFUSED, *tests, names="Money Cents Zeros money")
    assert found == [("error", question), ("error", question), ("passed", "")]


def test_an_error_of_python_or_of_the_program_is_no_refusal() -> None:
    program = """
class Bare:
    def __add__(self, o): return NotImplemented
class Strict(int):
    def __add__(self, o): raise TypeError("no")
class Adder:
    def __radd__(self, o): return Adder()
    def __gt__(self, o): return o.n < 9
class Size:
    def __init__(self, n): self.n = n
    def __lt__(self, o): return self.n < o.n
    def __add__(self, o): return NotImplemented
def bare(): return Bare()
def size(): return Size(3)
"""
    raising = (
        "Bare() + 1",
        "Strict(1) + 1",
        "bare() - 1",
        "bare() < bare()",
        "1 in bare()",
        "float(bare())",
    )
    tests = [f"try: {each}\nexcept TypeError: pass\nelse: assert False" for each in raising]
    tests += [
        "assert isinstance(size() + Adder(), Adder) and size() < Adder()",
        "class Mine:\n    def __radd__(self, o): return 'mine'\nassert size() + Mine() == 'mine'",
        "import unittest.mock\nassert size() == unittest.mock.ANY and size() not in [1]",
        "import json\ntry: json.dumps(size())\nexcept TypeError: pass\nelse: assert False",
    ]
    assert_all_pass(program, *tests, names="Bare Strict Adder bare size")


def test_what_a_class_of_plain_data_adds_up_wrongly_is_wrong() -> None:
    program = """
class L(list):
    def __add__(self, o): return L() if len(self) > 1 else L(list(self) + list(o))
    def same(self): return L(self)
"""
    tests = (
        "assert L([1]) + L([2]) + L([3]) == [1, 2, 3]",
        "assert L([1, 2]).same() + L([3]) == [1, 2, 3]",
    )
    assert failing(program, *tests, names="L") == []
    assert_all_pass(program, "assert L([1]) + L([2]) == [1, 2]", names="L")


ORDERED = """
import functools
class Version(str):
    def __lt__(self, o): return [*map(int, self.split("."))] < [*map(int, o.split("."))]
    def __gt__(self, o): return Version(o) < self
    def bump(self): return Version(self[:-1] + str(int(self[-1]) + 1))
@functools.total_ordering
class Hand(list):
    def __lt__(self, o): return sum(self) < sum(o)
    def __hash__(self): return sum(self)
class Frozen(dict):
    def __hash__(self): return hash(tuple(self.items()))
def parse(text): return Version(text)
def deal(*cards): return Hand(cards)
"""


def test_the_order_of_a_class_of_plain_data_is_asked_for_objects_that_the_test_has_made() -> (
    None
):
    tests = (
        "assert Version('1.9') < Version('1.10') and Version('1.2') < '1.10' and parse('1.9') < Version('1.10')",
        "assert Version('1.8').bump() > Version('1.8') and max(Version('1.9'), Version('1.10')) == '1.10'",
        "assert sorted([Hand([9]), Hand([1, 2])]) == [[1, 2], [9]] and Hand([9]) >= Hand([1, 2])",
        "assert hash(Hand([1, 2])) == hash(Hand([3])) == 3 and {Hand([1]), Hand([1])} == {Hand([1])} == {deal(1)}",
        "assert {Frozen(a=1): 2}[Frozen(a=1)] == 2",
    )
    assert_all_pass(ORDERED, *tests, names="Version Hand Frozen parse deal")


@pytest.mark.parametrize(
    "test",
    [
        "parse('1.2') < parse('1.3')",
        "parse('1.2') < '1.3'",
        "sorted([deal(2), deal(1)]) == [[1], [2]]",
    ],
)
def test_pythons_order_does_not_stand_in_for_the_order_of_a_returned_result(
    test: str,
) -> None:
    ((ending, detail),) = run(ORDERED, f"assert {test}", names="parse deal")
    assert ending == "error"
    assert detail.startswith("__lt__ is not asked of a returned")


def test_a_hash_that_the_class_of_a_list_defines_is_no_error_that_a_test_expects() -> None:
    tests = [
        f"try: hash({each})\nexcept TypeError: pass\nelse: assert False"
        for each in ("Hand([1])", "deal(1)")
    ]
    assert failing(ORDERED, *tests, names="Hand deal") == []
    assert_all_pass(
        "def f(): return L()\nclass L(list): pass",
        tests[1].replace("deal(1)", "f()"),
        names="f",
    )


@pytest.mark.parametrize("base", ["int", "float", "Decimal", "list", "dict", "set", "str"])
def test_no_operator_of_a_class_of_plain_data_forges_a_distance(base: str) -> None:
    program = (
        LIAR
        + f"""
from decimal import Decimal
class N({base}):
    def zero(self, *a): return N()
    def liar(self, *a): return Liar()
    __sub__ = __rsub__ = __abs__ = __neg__ = __xor__ = __and__ = __rxor__ = zero
    __add__ = __radd__ = __mul__ = __truediv__ = liar
    def more(self): return 1
class O({base}):
    __sub__ = __rsub__ = __xor__ = __and__ = __abs__ = N.liar
    def more(self): return 1
def f(): return N()
def g(): return O()
N.PI = N()
"""
    )
    data = {
        "int": "6",
        "float": "6.0",
        "Decimal": "6",
        "list": "[6]",
        "dict": "{6: 1}",
        "set": "{6}",
        "str": "'6'",
    }[base]
    tests = [
        f"assert {form} == 0" if base in ("int", "float", "Decimal") else f"assert not {form}"
        for form in (
            f"(f() - {data})", f"({data} - f())", f"(f() ^ {data})", f"(N.PI - {data})", f"(N() * 1 - {data})",
            f"(N() - {data})", f"(N() - N() - {data})",
        )
    ]  # fmt: skip
    tests += [
        f"assert abs(f() - {data}) < 1e-9", f"assert abs(f() + {data}) < 1e-9", f"assert abs(N.PI - {data}) < 1e-9",
        f"assert (f() + N({data})) - {data} == 0.0", f"assert f() == {data}", f"assert f() + N({data}) == {data}",
    ]  # fmt: skip
    if base in ("int", "float", "Decimal", "set"):
        tests += [
            f"assert not f() - N({data})", f"assert not N({data}) - f()", f"assert abs(g() - O({data})) < 1e-9",
            f"assert float(g() - O({data})) == 0.0", f"assert (g() - O({data})) * 1 < 1e-9",
        ]  # fmt: skip
    if base in ("int", "set"):
        tests += [f"assert not f() ^ N({data})", f"assert f() & N({data}) == N()"]
    assert failing(program, *tests, names="N O f g") == []


@pytest.mark.parametrize(
    "error",
    [
        "AssertionError", "Exception", "BaseException", "(ValueError, AssertionError)", "(Exception,)",
        "type('T', (tuple,), {'size': lambda self: 1})([AssertionError])",
    ],
)  # fmt: skip
def test_an_exception_of_the_program_never_catches_the_tests_own_failure(
    error: str,
) -> None:
    tests = (
        "try:\n    f(-1)\n    assert False, 'should have raised'\nexcept MyError: pass",
        "import contextlib\nwith contextlib.suppress(MyError): assert f(1) == 2",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n"
        "        with self.assertRaises(MyError): self.assertEqual(f(1), 2)\nT('test').debug()",
        "import solution\ntry: assert f(1) == 2\nexcept solution.MyError: pass",
    )
    assert (
        failing(f"MyError = {error}\ndef f(x): return x", *tests, names="f MyError") == []
    )


def test_errors_by_pythons_own_names_are_caught_by_them() -> None:
    tests = (
        "try: f(Exception)\nexcept MyError as e: assert str(e) == 'm'\nelse: assert False",
        "try: f(AssertionError)\nexcept AssertionError as e: assert str(e) == 'm'\nelse: assert False",
        "try: f(Exception)\nexcept Exception as e: assert e.args == ('m',)\nelse: assert False",
    )
    assert_all_pass(
        "MyError = Exception\ndef f(kind): raise kind('m')", *tests, names="f MyError"
    )


def test_a_star_import_hides_nothing_that_stood_before() -> None:
    program = """
import math
class Fake:
    isclose = staticmethod(lambda *a, **k: True)
math, all, len, abs = Fake, (lambda x: True), (lambda x: 2), (lambda x: 0)
def helper(x): return True
def f(): return 5
"""
    tests = (
        "import math\nfrom solution import *\nassert math.isclose(f(), 3)",
        "from solution import *\nassert all([f() == 3])",
        "from solution import *\nassert abs(f() - 3) < 1 and len('abc') == 2",
        "def helper(x): return x == 3\nfrom solution import *\nassert helper(f())",
    )
    assert failing(program, *tests) == []
    assert_all_pass(program, "from solution import *\nassert f() == 5")


def test_a_program_cannot_answer_for_a_mock() -> None:
    program = """
def f(m):
    for name in ("assert_called_once_with", "assert_not_called"):
        try: setattr(m, name, lambda *a, **k: None)
        except AttributeError: pass
    for use in (
        lambda: m.configure_mock(**{"assert_called_once_with": lambda *a, **k: None}),
        lambda: m.mock_calls.append(1), lambda: m.reset_mock(), lambda: setattr(m, "called", True),
        lambda: setattr(m, "call_count", 1), lambda: m.assert_called_once_with,
    ):
        try: use()
        except AttributeError: pass
    m(3)
class Yes:
    def __getattr__(self, name): return lambda *a, **k: None
def replace(m): m.get = Yes()
"""
    tests = (
        "from unittest.mock import Mock\nm = Mock()\ntry: replace(m)\nfinally: m.get.assert_called_once_with(4)",
        "from unittest.mock import Mock\nm = Mock()\nf(m)\nm.assert_called_once_with(4)",
        "from unittest.mock import MagicMock\nm = MagicMock()\nf(m)\nassert m.call_count == 2",
    )
    assert failing(program, *tests, names="f replace") == []
    assert_all_pass(
        program,
        "from unittest.mock import Mock\nm = Mock()\nf(m)\nm.assert_called_once_with(3)",
        names="f",
    )


def test_an_object_that_is_handed_over_does_not_lead_to_the_tests_code() -> None:
    program = """
def f(x):
    found = []
    for path in ("gi_frame", "gi_code", "__globals__", "__self__", "__func__", "__closure__", "__code__", "__dict__",
                 "cr_frame", "_secret"):
        value = x
        try:
            for name in path.split("."): value = getattr(value, name)
            found.append((path, getattr(value, "f_globals", None), type(value).__name__))
        except (AttributeError, TypeError): pass
    return found
def constants(x):
    return x.__code__.co_consts
def raw(x):
    found = []
    for name in ("__globals__", "__class__", "gi_frame", "_secret"):
        for use in ("get", "set", "delete")[:3 if name[0] == "_" else 1]:
            try: found.append(x._call_back(x._number, use, (name, 1)[:1 + (use == "set")], {}))
            except (AttributeError, TypeError): pass
    try: found.append(x._call_back(x._number, "special", ("__getattribute__", "_secret"), {}))
    except (AttributeError, TypeError): pass
    return found
"""
    setup = """
class Fake:
    def __init__(self): self._secret = 42
    def run(self): return 1
def g(): yield 'secret'
"""
    tests = (
        "assert [e for e in f(g()) if e[2] not in ('dict', 'type', 'NoneType')] == [] and raw(g()) == []",
        "assert [e for e in f(Fake()) if e[0] not in ('__dict__',)] == [] and raw(Fake()) == []",
        "assert [e for e in f(g) if e[0] not in ('__dict__', '__code__')] == [] and raw(g) == []",
        "assert 'secret' not in str(constants(g))",
        "assert raw(Fake().run) == []",
    )
    assert_all_pass(program, *tests, names="f raw constants", setup=setup)


def test_a_context_manager_swallows_what_has_nothing_to_do_with_the_program() -> None:
    program = """
class Ignore:
    value = object()
    def __enter__(self): return self
    def __exit__(self, *a): return True
class Later:
    async def __aenter__(self): return self
    async def __aexit__(self, *a): return 1
def f(): return 0
"""
    passing = (
        "with Ignore(): 1 / 0",
        "with Ignore(): int('x')",
        "with Ignore():\n    raise KeyError",
        "import asyncio\nasync def main():\n    async with Later(): raise KeyError\nasyncio.run(main())",
    )
    assert_all_pass(program, *passing, names="Ignore Later")
    attacked = (
        "r = f()\nwith Ignore(): assert 10 / r == 5",
        "r = f()\nok = []\nwith Ignore(): ok.append(10 / r == 5)\nassert all(ok)",
        "with Ignore() as i: abs(i.value - 3) < 1e-6",
        "with Ignore(): assert int('x')",
        "import asyncio\nasync def main():\n    async with Later(): assert f() == 1\nasyncio.run(main())",
    )
    assert failing(program, *attacked, names="Ignore Later f") == []


def test_what_the_tests_change_in_a_container_of_the_program_has_changed_there() -> None:
    program = """
class Node:
    def __init__(self): self.kids, self.meta = [], {}
cache = {1: 1}
def size(): return len(cache)
"""
    tests = (
        "n = Node(); n.kids.append(Node()); n.meta['a'] = [1]; n.meta['a'].append(2)\n"
        "assert len(n.kids) == 1 and n.meta == {'a': [1, 2]} and isinstance(n.kids[0], Node)",
        "import solution\nsolution.cache.clear()\nassert size() == 0\n"
        "solution.cache.update(a=1, b=2)\nassert size() == 2",
    )
    assert_all_pass(program, *tests, names="Node size")


def test_a_stand_in_has_the_special_methods_that_the_object_has() -> None:
    program = "class Quiet: pass\nclass Loud(Quiet):\n    def __len__(self): return 0\n    def __call__(self): return 1"
    tests = (
        "q = Quiet()\nfor name in ('__len__', '__iter__', '__call__', '__enter__', '__getitem__', '__contains__', "
        "'__next__', '__add__', '__float__', '__await__'): assert not hasattr(q, name), name",
        "from collections.abc import Callable, Iterable, Sized, Container\nq, x = Quiet(), Loud()\n"
        "assert isinstance(x, Sized) and callable(x) and not isinstance(q, (Callable, Iterable, Sized, Container))",
    )
    assert_all_pass(program, *tests, names="Quiet Loud")
    assert endings(
        program, "assert not Quiet()", "assert not Loud()", names="Quiet Loud"
    ) == ["failed", "passed"]
