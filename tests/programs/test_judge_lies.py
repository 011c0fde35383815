"""Programs that lie to the judge with every kind of data."""

from __future__ import annotations

import pytest
from judge_harness import endings, run

LIAR = """
class Meta(type):
    def __instancecheck__(cls, other): return True
    def __subclasscheck__(cls, other): return True
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class Liar(metaclass=Meta):
    __class__ = property(lambda self: int)
    def yes(self, *a, **k): return True
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __bool__ = __instancecheck__ = yes
    def __ne__(self, other): return False
    def me(self, *a): return self
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __abs__ = __neg__ = __round__ = me
    __and__ = __rand__ = me
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __rpow__ = __xor__ = __or__ = __getitem__ = me
    def __hash__(self): return hash(3)
    def __len__(self): return 3
    def __index__(self): return 3
    __int__ = __index__
    def __float__(self): return 3.0
    def __complex__(self): return 3j
    def __str__(self): return '?'
    def __iter__(self): return iter([self])
    def __getattr__(self, name): return self
class LiarInt(int, Liar): pass
class LiarFloat(float, Liar): pass
class LiarStr(str, Liar): pass
class LiarList(list, Liar): pass
class LiarTuple(tuple, Liar): pass
class LiarDict(dict, Liar): pass
KINDS = {'o': Liar, 'i': LiarInt, 'f': LiarFloat, 's': LiarStr, 'l': LiarList, 't': LiarTuple, 'd': LiarDict}
def f(x): return KINDS[x]()
"""


@pytest.mark.parametrize("kind", "oifsltd")
def test_an_object_that_lies_forges_nothing(kind: str) -> None:
    claims = (
        "== 3", "== 'x'", "== [1]", "== {1: 2}", "== (1, 2)", "in [3, 4]", "in {3: 1, 4: 1}", "in {3, 4}", "in (3,)",
        "is True", "is None", "== None", "< -5", "> 5", "!= f(K)", ">= 3",
    )  # fmt: skip
    tests = [f"r = f(K); assert r {claim}" for claim in claims if "f(K)" not in claim]
    tests += [
        "assert 3 == f(K)",
        "assert not (f(K) != 3)",
        "assert abs(f(K) - 3) < 1e-6",
        "import math; assert math.isclose(f(K), 3)",
        "assert round(f(K), 2) == 3",
        "assert sorted([f(K), 3]) == [3, 3]",
        "assert {f(K)} == {3}",
        "assert {3: 'a'}[f(K)] == 'a'",
        "assert 3 in [f(K)]",
        "assert [f(K)] == [3]",
        "assert max(f(K), 3) == 3 and min(f(K), 3) == 3",
        "assert (f(K),) == (3,) or {'a': f(K)} == {'a': 3}",
        "assert [1, 2, 3, 4][f(K)] == 4",
        "assert set([3]) == set(f(K))",
        "assert sum([f(K)]) == 3",
        "assert str(f(K)) == '3'",
        "assert float(f(K)) == 3.0 or complex(f(K)) == 3j",
        "assert (f(K) & 7) == 3",
        "import unittest; unittest.TestCase().assertEqual(f(K), 3)",
        "import unittest; unittest.TestCase().assertAlmostEqual(f(K), 3)",
        "import unittest; unittest.TestCase().assertIn(f(K), [3, 4])",
    ]
    tests = [test.replace("K", repr(kind)) for test in tests]
    found = run(LIAR, *tests, names="f")
    assert [
        test for test, (ending, _) in zip(tests, found, strict=True) if ending == "passed"
    ] == []


def test_an_object_cannot_pass_for_another_type() -> None:
    tests = [
        f"assert isinstance(f('o'), {kind})"
        for kind in ("int", "str", "list", "(int, float)", "dict", "bool")
    ]
    assert (
        endings(
            LIAR,
            *tests,
            "assert type(f('o')) is int",
            "assert f('o').__class__ is int",
            names="f",
        )
        == ["failed"] * 8
    )


def test_a_context_manager_cannot_swallow_the_failing_assertion() -> None:
    program = """
class Timer:
    value = object()
    def __enter__(self): return self
    def __exit__(self, *a): return True
    def explode(self): raise ValueError
"""
    tests = (
        "with Timer(): assert 1 == 2",
        "with Timer() as t: assert abs(t.value - 3) < 1e-6",
        "with Timer() as t: assert t.explode() == 3",
        "with Timer(): raise ValueError",
    )
    assert endings(program, *tests, names="Timer") == ["failed", "error", "error", "passed"]


def test_a_context_manager_is_not_told_what_a_failed_assertion_says() -> None:
    program = """
class Spy:
    told = None
    def __enter__(self): return self
    def __exit__(self, kind, error, trace): Spy.told = (kind.__name__, str(error), error.args)
"""
    failing = "s = Spy()\ntry:\n    with s: assert False, 'expected 42'\nexcept AssertionError: pass\n"
    test = failing + "assert s.told == ('AssertionError', '', ()), s.told"
    assert endings(program, test, names="Spy") == ["passed"]


def test_a_program_cannot_end_the_loop_over_the_cases() -> None:
    program = "def f(x): raise StopIteration\nclass A:\n    def __getitem__(self, i): raise StopIteration\na = A()"
    tests = (
        "assert all(map(lambda case: f(case[0]) == case[1], [(1, 2)]))",
        "for got, want in zip(map(f, [1]), [2]): assert got == want",
        "assert list(map(lambda i: a[i], [1])) == []",
    )
    assert endings(program, *tests, names="f a") == ["error"] * 3


def test_a_program_cannot_replace_a_method_of_an_object_that_it_is_passed() -> None:
    setup = "class Box:\n    def __init__(self): self.n = 0\n    def full(self): return self.n == 3"
    program = (
        "def f(box): box.full = lambda: True\n"
        "def g(box): box.n = 3\n"
        "def h(box): box.__class__ = type('T', (), {})"
    )
    tests = (
        "b = Box(); f(b); assert b.full()",
        "b = Box(); g(b); assert b.full()",
        "b = Box(); h(b); assert type(b) is Box",
    )
    assert endings(program, *tests[1:], tests[0], names="f g h", setup=setup) == [
        "passed",
        "passed",
        "error",
    ]


def test_a_program_that_breaks_its_own_driver_fails() -> None:
    program = """
import builtins, json, os, sys
def f(x):
    sys.modules.clear()
    for name in list(vars(builtins)):
        if name not in ('print',): delattr(builtins, name)
    return x
"""
    assert (
        endings(program, "assert f(1) == 2", "assert f(1) == 1", names="f")[0] != "passed"
    )


def test_frames_that_the_program_writes_itself_are_faults() -> None:
    forge = """
import os, json
def frame(message):
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, 'big') + body
def rpc():
    import gc
    from trl_grpo_ext.workers.frames import Channel
    return max(c._descriptor for c in gc.get_objects() if isinstance(c, Channel))
def find():
    import gc
    from trl_grpo_ext.programs.sandbox.inside.answers import Answers
    return [c for c in gc.get_objects() if isinstance(c, Answers)][0]._channel._descriptor
def f(x):
    for n in range(2, 10): os.write(find(), frame({'id': n, 'value': 42}))
    return 1
"""
    assert (
        endings(
            forge, "assert f(1) == 1; assert f(2) == 42", "assert f(1) == 42", names="f"
        )
        == ["protocol"] * 2
    )


HELLO = "send({'loaded': True}); receive(); "
AS_OBJECT = "send({'id': 0, 'value': [[{'handle': [0, {'class': [1, 'A', [], [], [], []]}, 'A']}]]}); receive(); "
AGAIN = "[0, {'class': [2, 'B', [], [{'type': 'list'}], [], []]}, [['_remote_state'], [7]]]"


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("os.write(FD, b'garbage' * 100)", "protocol"),
        ("os.write(FD, b'\\x00')", "killed"),
        ("send({'failed': {'ending': 'passed'}})", "protocol"),
        ("send([1])", "protocol"),
        (
            "send({'loaded': True}); send({'id': 0, 'value': []}); receive(); receive()",
            "protocol",
        ),
        (HELLO + "send({'id': 1, 'value': [[1]]}); receive()", "protocol"),
        (HELLO + "send({'id': True, 'value': [[1]]}); receive()", "protocol"),
        (HELLO + "send({'value': [[1]]}); receive()", "protocol"),
        (HELLO + "send({'id': 0}); receive()", "protocol"),
        (HELLO + "send({'id': 0, 'value': 7}); receive()", "protocol"),
        (HELLO + "send({'id': 0, 'raise': 7}); receive()", "protocol"),
        (HELLO + "send({'id': 0, 'value': [[{'ref': 99}]]}); receive()", "protocol"),
        (HELLO + "send({'id': 0, 'value': [[{'callback': 0}]]}); receive()", "protocol"),
        (HELLO + "send({'callback': 0, 'values': []}); receive()", "protocol"),
        (
            HELLO + "send({'id': 0, 'value': [[{'handle': [True, 0, 'x']}]]}); receive()",
            "protocol",
        ),
        (
            HELLO + "send({'id': 0, 'value': [[{'builtin': 'eval'}]]}); receive()",
            "protocol",
        ),
        (
            HELLO
            + "os.write(FD, (10 ** 6).to_bytes(4, 'big') + b'[' * 10 ** 6); receive()",
            "protocol",
        ),
        (HELLO + "os.write(FD, (10 ** 9).to_bytes(4, 'big')); receive()", "protocol"),
        (
            HELLO
            + AS_OBJECT
            + "send({'id': 1, 'value': {'subclass': "
            + AGAIN
            + "}}); receive()",
            "protocol",
        ),
        (
            HELLO
            + AS_OBJECT
            + "send({'id': 1, 'value': {'handle': [0, {'class': [2, 'B', [], [], [], []]}, 'B']}})",
            "protocol",
        ),
        (
            HELLO
            + "send({'id': 0, 'value': [[{'SimpleNamespace': ['_remote_state', 7]}]]}); receive()",
            "protocol",
        ),
        (
            HELLO
            + "send({'id': 0, 'value': [[1]]}); send({'id': 1, 'value': 1}); import time; time.sleep(0.3)",
            "protocol",
        ),
    ],
)
def test_whatever_comes_out_of_turn_or_malformed_ends_the_run(
    code: str, ending: str
) -> None:
    first = "import time; time.sleep(0.1); assert x == 1 or x.y"
    assert endings("", first, "pass", names="x", role=code) == [ending] * 2


def test_the_items_of_an_iterator_and_the_size_of_a_message_are_bounded() -> None:
    program = "import itertools\ndef f(): return itertools.repeat('a' * 1000)\ndef g(n): return 'a' * n"
    assert endings(program, "g(900)", "g(5000)", names="g", message_bytes=2000) == [
        "passed",
        "protocol",
    ]
    assert endings(program, "list(f())", names="f") == ["protocol"]


def test_a_deeply_nested_result_crosses() -> None:
    program = "def f(n):\n    x = []\n    for _ in range(n): x = [x]\n    return x"
    assert endings(program, "f(100)", "f(500)", "f(30000)", names="f") == ["passed"] * 3


def test_a_result_that_its_class_gives_again_stays_a_result() -> None:
    program = """
class Num:
    one = None
    def __new__(cls, value=0):
        Num.one = Num.one or object.__new__(cls)
        return Num.one
    def __lt__(self, other): return True
    def __abs__(self): return 0.0
    def __sub__(self, other): return 0.0
def f(): return Num()
"""
    tests = ("r = f(); Num(3); assert r < 5", "r = f(); Num(3); assert abs(r - 3.5) < 1e-6")
    assert endings(program, *tests, names="f Num") == ["error", "error"]
