"""Values that cross from tests to program and back."""

from __future__ import annotations

import pytest
from judge_harness import assert_all_pass, run


def test_plain_values_come_back_as_they_went() -> None:
    values = [
        "None", "True", "1", "-0.0", "1.5", "'a'", "'é\\ud800'", "b'a'", "bytearray(b'a')", "10 ** 4000",
        "1j", "(1, (2,))",
        "[1, 'a', None]", "{1, 2}", "frozenset({1})", "{1: [2], 'a': {3}}", "range(3)", "slice(1, 2)", "float('inf')",
        "Decimal('1.10')", "Fraction(1, 3)", "datetime(2020, 1, 2, tzinfo=timezone.utc)", "date(2020, 1, 2)",
        "timedelta(1, 2, 3)", "deque([1], 3)", "Counter('aab')", "OrderedDict(a=1)", "defaultdict(int, a=1)", "int",
        "ValueError", "...", "P(1, 2)",
    ]  # fmt: skip
    setup = (
        "from collections import *\nfrom datetime import *\n"
        "from decimal import Decimal\nfrom fractions import Fraction\n"
        "P = namedtuple('P', 'x y')"
    )
    tests = [
        f"v = {value}; r = f(v); assert r == v and repr(r) == repr(v), r"
        for value in values
    ]
    assert_all_pass("def f(x): return x", *tests, names="f", setup=setup)


def test_nan_is_nan_and_numbers_compare_as_python_does() -> None:
    assert_all_pass(
        "def f(x): return x",
        "import math\nassert math.isnan(f(float('nan')))",
        "assert f(2) == 2.0 and f(1) == True and type(f(True)) is bool and type(f(1)) is int",
        names="f",
    )


def test_subclasses_of_plain_types_keep_their_class_and_are_equal_to_what_they_hold() -> (
    None
):
    program = """
from collections import namedtuple
from enum import Enum, IntEnum
class I(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
class L(list): pass
class C(IntEnum):
    A = 4
class E(Enum):
    RED = 1
P = namedtuple("P", "x y")
def i(): return I(3)
def l(): return L([1])
def c(): return C.A
def p(): return P(1, [2])
def e(): return E.RED
"""
    tests = (
        "assert type(i()) is I and isinstance(i(), int) and i() == 3",
        "assert i() != 4 and i() + 1 == 4 and i() < 4",
        "assert type(l()) is L and l() == [1] and l() + [2] == [1, 2]",
        "assert c() == 4 and isinstance(c(), int) and type(c()) is C and c().name == 'A'",
        "assert p() == (1, [2]) and p().x == 1 and p().y == [2] and repr(p()) == 'P(x=1, y=[2])'",
        "assert e() is E.RED and e() == E.RED and e() in [E.RED] and E.RED.value == 1",
    )
    assert_all_pass(program, *tests, names="i l c p e I L E C")


def test_classes_over_decimals_dates_and_times_are_what_they_hold() -> None:
    program = """
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
class Money(Decimal):
    def __str__(self): return "$" + format(self, ".2f")
    def __add__(self, o): return Money(Decimal.__add__(self, o))
class Day(date):
    def next(self): return self + timedelta(1)
class Moment(datetime): pass
class Clock(time): pass
class Span(timedelta):
    def __str__(self): return f"{self.days} d"
def money(): return Money("1.5")
def moment(): return Moment(2024, 1, 2, 3, 4, 5, 6, timezone.utc, fold=1)
"""
    tests = (
        "from decimal import Decimal\nassert money() == Money('1.5') == Decimal('1.5') and isinstance(money(), Money)",
        "assert str(Money('1.1') + Money('1')) == '$2.10' and Money('3') > 2 and len({Money('1'), Money('1.0')}) == 1",
        "from datetime import date\nassert Day(2024, 1, 1).next() == Day(2024, 1, 2) == date(2024, 1, 2)",
        "import datetime\nm = moment()\nassert m == datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.timezone.utc)",
        "assert moment().fold == 1 and moment() == moment() and type(moment()) is Moment and Clock(1, 2).minute == 2",
        "assert Span(2) == Span(hours=48) and str(Span(2)) == '2 d' and Span(1) < Span(2)",
    )
    assert_all_pass(program, *tests, names="Money Day Moment Clock Span money moment")
    ((ending, detail),) = run(program, "assert money() + 1 == 2.5", names="money")
    assert (ending, detail) == (
        "error",
        "__add__ is not asked of a returned 'Money' object",
    )


def test_a_class_over_a_builtin_container_keeps_its_methods() -> None:
    program = """
from collections import OrderedDict
class LRU(OrderedDict):
    def __init__(self, size):
        super().__init__()
        self.size = size
    def put(self, k, v):
        self[k] = v
        if len(self) > self.size: self.popitem(last=False)
    def get(self, k): return super().get(k, -1)
"""
    test = "c = LRU(2); c.put(1, 1); c.put(2, 2); c.put(3, 3); assert c.get(1) == -1 and c.get(3) == 3 and len(c) == 2"
    assert_all_pass(program, test, names="LRU")


def test_builtin_functions_and_types_can_be_passed() -> None:
    program = "def f(g, x): return g(x)\ndef t(x): return type(x)"
    assert_all_pass(
        program,
        "assert f(len, 'ab') == 2 and f(str, 1) == '1' and t(1) is int",
        names="f t",
    )


def test_changes_of_arguments_come_back_and_identity_is_kept() -> None:
    program = """
def sort(xs): xs.sort(); return xs
def deep(d): d["a"].append({"b": 1}); d["s"].add(2); d["n"] = d["a"]
def same(a, b): return a is b
def clear(x): x.clear()
def wrap(x): return [x, x]
def cyclic(x): x.append(x)
"""
    tests = (
        "xs = [3, 1, 2]; r = sort(xs); assert r is xs and xs == [1, 2, 3]",
        "a = [1]; d = {'a': a, 's': {1}}; deep(d)\nassert a == [1, {'b': 1}] and d['s'] == {1, 2} and d['n'] is a",
        "x = []; assert same(x, x) and not same([], []) and same(a=x, b=x)",
        "from collections import deque\nx, y, z = deque([1]), bytearray(b'ab'), {1}\n"
        "clear(x); clear(y); clear(z); assert (x, y, z) == (deque(), bytearray(), set())",
        "x = [1]; r = wrap(x); assert r[0] is x and r[1] is x",
        "x = []; cyclic(x); assert x[0] is x",
    )
    assert_all_pass(program, *tests, names="sort deep same clear wrap cyclic")


def test_a_container_within_a_result_keeps_what_it_was_made_with() -> None:
    program = """
from collections import defaultdict, deque
def graph():
    edges = defaultdict(list, a=[1])
    return {"edges": [edges], "last": (deque([1, 2], maxlen=2), deque())}
def nested():
    counts = defaultdict(lambda: defaultdict(int))
    counts["a"]["b"] += 1
    return [counts]
class Item:
    def __lt__(self, other): return True
def items(): return [defaultdict(Item)]
def keeps(d): d["new"].append(1); return d
"""
    tests = (
        "found = graph()['edges'][0]; found['b'].append(2); assert dict(found) == {'a': [1], 'b': [2]}, found",
        "last, free = graph()['last']; last.append(3); free.extend([1, 2, 3])\n"
        "assert list(last) == [2, 3] and last.maxlen == 2 and list(free) == [1, 2, 3] and free.maxlen is None",
        "found = nested()[0]; found['x']['y'] += 2; assert found == {'a': {'b': 1}, 'x': {'y': 2}}, found",
        "from collections import defaultdict, deque\ngiven = [defaultdict(list)]\n"
        "assert keeps(given[0]) is given[0] and given == [{'new': [1]}] and given[0]['other'] == []",
    )
    assert_all_pass(program, *tests, names="graph nested keeps")
    # If a lookup made a program object in the judge, the object would count as made by the test, and could be compared.
    unknown = "Item()\nfound = items()[0]\ntry: found['a']\nexcept KeyError: pass\nelse: assert False"
    assert_all_pass(program, unknown, names="items Item")


TREE = """
class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val, self.left, self.right = val, left, right
class ListNode:
    def __init__(self, val=0, next=None):
        self.val, self.next = val, next
def to_list(items):
    head = None
    for item in reversed(items): head = ListNode(item, head)
    return head
def from_list(node):
    out = []
    while node:
        out.append(node.val)
        node = node.next
    return out
"""


@pytest.mark.parametrize("classes", ["", TREE])
def test_objects_of_the_tests_own_classes_go_by_value(classes: str) -> None:
    program = (
        classes
        + """
def invert(root):
    if root is None: return None
    root.left, root.right = invert(root.right), invert(root.left)
    return root
def reverse(head):
    last = None
    while head: head.next, last, head = last, head, head.next
    return last
def build(head):
    kind = type(head)
    copy = None
    while head:
        node = object.__new__(kind)
        node.val, node.next = head.val, copy
        copy, head = node, head.next
    return copy
"""
    )
    tests = (
        "t = TreeNode(1, TreeNode(2), TreeNode(3)); r = invert(t); assert r is t and t.left.val == 3 and "
        "t.right.val == 2",
        "r = reverse(to_list(range(2000))); assert from_list(r) == list(range(2000))[::-1]",
        "r = build(to_list([1, 2, 3])); assert from_list(r) == [3, 2, 1]",
    )
    assert_all_pass(program, *tests, names="invert reverse build", setup=TREE)


def test_frozen_slotted_and_enum_objects_of_the_tests_cross() -> None:
    setup = """
from dataclasses import dataclass
from enum import Enum
@dataclass(frozen=True, slots=True)
class P:
    x: int
    y: list
class E(Enum):
    A = 1
"""
    program = "def f(p): p.y.append(p.x); return p\ndef e(x): return x"
    assert_all_pass(
        program,
        "p = P(1, []); assert f(p) is p and p == P(1, [1])",
        "assert e(E.A) == 1",
        names="f e",
        setup=setup,
    )


def test_what_no_one_holds_at_one_end_is_followed_again_when_the_other_end_names_it() -> (
    None
):
    program = """
kept = []
def keep(x): kept.append(x)
def give(): return kept[-1]
def seen(): return len(kept[-1])
def look(x): return None
def grow(x): x.update(a=1) if isinstance(x, dict) else x.append(1)
"""
    for empty, more in (("[]", "append(2)"), ("{}", "update(b=2)")):
        assert_all_pass(
            program,
            # The test releases the object and gets it back: the program sees later changes by the test.
            f"keep({empty}); look(0); look(0); r = give(); r.{more}; assert seen() == 1 and give() is r",
            # The program releases the object and gets it back: the test sees later changes by the program.
            f"a = {empty}; look(a); look(0); look(0); grow(a); assert len(a) == 1",
            # The test sees a change made by the last use of the object.
            f"a = {empty}; look(0); grow(a); assert len(a) == 1",
            # The object lies inside another object without references.
            f"a = {empty}; look([a]); look(0); look(0); look([a]); grow(a); assert len(a) == 1",
            names="keep give seen look grow",
        )
