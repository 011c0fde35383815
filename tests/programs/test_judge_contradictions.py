"""A returned object may not contradict what it has said of its contents; see `inside/iteration.py`."""

from __future__ import annotations

import pytest
from judge_harness import assert_all_pass, endings

LENGTH_WITHOUT_ITEMS = """
class R:
    def __len__(self): return 3
    def __iter__(self): return iter(())
"""
LENGTH_ONCE = """
class R:
    asked = 0
    def __len__(self):
        self.asked += 1
        return 3 if self.asked == 1 else 0
    def __getitem__(self, index): raise IndexError
"""
ENDLESS = """
import itertools
class R:
    def __len__(self): return 3
    def __iter__(self): return itertools.count()
"""
EMPTY_VIEWS = """
class R:
    def __len__(self): return 2
    def items(self): return []
    def keys(self): return {'a': 2, 'b': 1}.keys()
"""
EMPTY_ITEMS = """
class R:
    def keys(self): return ['a', 'b']
    def __iter__(self): return iter(['a', 'b'])
    def items(self): return []
"""
OTHER_ITEMS = """
class R:
    asked = 0
    def __iter__(self):
        self.asked += 1
        return iter([84] if self.asked == 1 else [2])
"""
TRUE_ONCE = """
class R:
    asked = 0
    def __bool__(self):
        self.asked += 1
        return self.asked == 1
    def pop(self): return 0
"""
TWO_TEXTS = """
class R:
    asked = 0
    def __str__(self):
        self.asked += 1
        return '3/4' if self.asked == 2 else '0.75'
"""
ITSELF = """
class R:
    def __len__(self): return 3
    def __iter__(self): return self
    __reversed__ = __iter__
    def __next__(self): raise StopIteration
"""
BY_OTHER = (
    ITSELF.replace("class R", "class Other").replace("(self): return 3", "(self): return 0")
    + """
class R:
    def __len__(self): return 3
    def __iter__(self): return Other()
"""
)
OF_LIBRARY = ITSELF.replace("class R:", "class R:\n    __module__ = 'library'")
BACKWARDS = """
class R:
    def __len__(self): return 3
    def __reversed__(self): return iter([])
"""
ITERATED_VIEWS = """
class R:
    def __len__(self): return 2
    def __getattr__(self, name):
        if name in ("values", "items"): return lambda: iter([])
        raise AttributeError(name)
    def keys(self): return iter(['a', 'b'])
"""
SLICED = """
class R:
    def __len__(self): return 3
    def __getitem__(self, index): return []
"""
LIES = [
    (
        SLICED,
        "r = f()\nassert len(r) == 3\nfor a, b in zip(r[:], [1, 2, 3]): assert a == b",
    ),
    (
        SLICED,
        "r = f()\nfor a, b in zip(r[:], [1, 2, 3]): assert a == b\nassert len(r) == 3",
    ),
    (ITSELF, "r = f()\nassert len(r) == 3\nfor a, b in zip(r, [1, 2, 3]): assert a == b"),
    (ITSELF, "r = f()\nfor a, b in zip(r, [1, 2, 3]): assert a == b\nassert len(r) == 3"),
    (
        ITSELF,
        "r = f()\nassert len(r) == 3\nfor a, b in zip(reversed(r), [1, 2, 3]): assert a == b",
    ),
    (
        BY_OTHER,
        "r = f()\nassert len(r) == 3\nfor a, b in zip(iter(r), [1, 2, 3]): assert a == b",
    ),
    (
        OF_LIBRARY,
        "r = f()\nassert len(r) == 3\nfor a, b in zip(r, [1, 2, 3]): assert a == b",
    ),
    (
        BACKWARDS,
        "r = f()\nassert len(r) == 3\nfor a, b in zip(reversed(r), [1, 2, 3]): assert a == b",
    ),
    (
        BACKWARDS,
        "r = f()\nfor a, b in zip(reversed(r), [1, 2, 3]): assert a == b\nassert len(r) == 3",
    ),
    (
        ITERATED_VIEWS,
        "r = f()\nassert len(r) == 2\nfor key, value in r.items(): assert {'a': 2, 'b': 1}[key] == value",
    ),
    (
        ITERATED_VIEWS,
        "r = f()\nassert sorted(r.keys()) == ['a', 'b']\nassert all(v == 1 for v in r.values())",
    ),
    (
        LENGTH_WITHOUT_ITEMS,
        "r = f()\nfor a, b in zip(r, [1, 2, 3]): assert a == b\nassert len(r) == 3",
    ),
    (
        LENGTH_WITHOUT_ITEMS,
        "r = f()\nassert len(r) == 3\nfor a, b in zip(r, [1, 2, 3]): assert a == b",
    ),
    (LENGTH_ONCE, "r = f()\nassert len(r) == 3\nfor i in range(len(r)): assert r[i] == i"),
    (
        LENGTH_ONCE,
        "r = f()\nassert len(r) == 3\nfor a, b in zip(r, [1, 2, 3]): assert a == b",
    ),
    (
        LENGTH_ONCE,
        "r = f()\nfor a, b in zip(r, [1, 2, 3]): assert a == b\nassert len(r) == 3",
    ),
    (ENDLESS, "r = f()\nassert len(r) == 3\nassert 1 in r\nassert 2 in r\nassert 7 in r"),
    (
        EMPTY_VIEWS,
        "r = f()\nassert len(r) == 2\nfor key, value in r.items(): assert {'a': 2, 'b': 1}[key] == value",
    ),
    (
        EMPTY_VIEWS,
        "r = f()\nassert r.keys() == {'a', 'b'}\nfor key, value in r.items(): assert False",
    ),
    (
        EMPTY_ITEMS,
        "r = f()\nassert set(r.keys()) == {'a', 'b'}\nfor key, value in r.items(): assert False",
    ),
    (
        EMPTY_ITEMS,
        "r = f()\nfor key, value in r.items(): assert False\nassert r.keys() == ['a', 'b']",
    ),
    (
        EMPTY_ITEMS,
        "r = f()\nassert sorted(r) == ['a', 'b']\nassert all(value == 1 for _, value in r.items())",
    ),
    (
        OTHER_ITEMS,
        "import math\nr = f()\nassert math.prod(r) == 84\nfor p in r: assert all(p % d for d in range(2, p))",
    ),
    (TRUE_ONCE, "r = f()\nassert r\nwhile r: assert r.pop() == 7"),
    (TWO_TEXTS, "r = f()\nassert str(r) == '0.75' and str(r) == '3/4'"),
]
HONEST = """
class R:
    def __init__(self): self.items_ = [1, 2, 3]
    def __len__(self): return len(self.items_)
    def __iter__(self): return iter(self.items_)
    def __getitem__(self, index): return self.items_[index]
    def __setitem__(self, index, value): self.items_[index] = value
    def __delitem__(self, index): del self.items_[index]
    def __bool__(self): return bool(self.items_)
    def __str__(self): return str(self.items_)
    def push(self, item): self.items_.append(item)
    def pop(self): return self.items_.pop()
class D(R):
    def __init__(self): self.items_ = {'a': 2, 'b': 1}
    def items(self): return self.items_.items()
    def keys(self): return list(self.items_)
class Several:
    def keys(self): return {'a', 'b'}
    def items(self): return [('a', 1), ('a', 2), ('b', 3)]
class Drained(R):
    def __iter__(self):
        while self.items_: yield self.items_.pop(0)
class Counted(R):
    def __init__(self): self.items_ = {}
    def __getitem__(self, key): return self.items_.setdefault(key, 0)
class Itself(R):
    def __iter__(self): return self
    def __next__(self):
        if not self.items_: raise StopIteration
        return self.items_.pop(0)
    def __reversed__(self): return iter(self.items_[::-1])
class Lazy(D):
    def __iter__(self): return iter(self.items_)
    def items(self): yield from self.items_.items()
    def values(self): yield from self.items_.values()
def itself(): return Itself()
def lazy(): return Lazy()
def f(): return R()
def d(): return D()
def several(): return Several()
def drained(): return Drained()
def counted(): return Counted()
"""


@pytest.mark.parametrize(("program", "test"), LIES)
def test_an_object_that_contradicts_itself_forges_nothing(program: str, test: str) -> None:
    assert endings(program + "def f(): return R()", test, names="f") != ["passed"]


def test_an_honest_container_may_be_asked_anything_and_changed_by_the_test() -> None:
    assert_all_pass(
        HONEST,
        "r = f()\nassert len(r) == 3 and list(r) == [1, 2, 3] and [r[i] for i in range(len(r))] == [1, 2, 3]",
        "r = f()\nassert 2 in r and 7 not in r and r[-1] == 3 and r[:2] == [1, 2] and r and str(r) == '[1, 2, 3]'",
        "r = f()\nassert r[:] == [1, 2, 3] and len(r) == 3 and r[1:] == [2, 3] and r[:] == [1, 2, 3] and r[5:] == []",
        "r = f()\nr.push(4)\nassert len(r) == 4 and list(r) == [1, 2, 3, 4] and str(r) == '[1, 2, 3, 4]'",
        "r = f()\nassert len(r) == 3\nr[0] = 9\nassert list(r) == [9, 2, 3]\ndel r[0]\nassert len(r) == 2",
        "r = f()\nassert len(r) == 3\nfor item in r: assert r.pop()\nassert len(r) == 1",
        "r = f()\nassert len(r) == 3\nwhile r: r.pop()\nassert len(r) == 0 and not r and list(r) == []",
        "r = d()\nassert len(r) == 2 and dict(r.items()) == {'a': 2, 'b': 1} and r.keys() == ['a', 'b']",
        "r = drained()\nassert len(r) == 3 and list(r) == [1, 2, 3] and len(r) == 0",
        "r = counted()\nassert len(r) == 0 and r['x'] == 0 and len(r) == 1",
        "r = several()\nassert r.keys() == {'a', 'b'} and len(r.items()) == 3 and r.keys() == {'a', 'b'}",
        "r = itself()\nassert len(r) == 3 and list(reversed(r)) == [3, 2, 1] and list(r) == [1, 2, 3] and len(r) == 0",
        "r = itself()\nassert len(r) == 3 and next(r) == 1 and len(r) == 2 and list(r) == [2, 3] and list(r) == []",
        "r = itself()\nassert len(r) == 3\nfor x in r: break\nassert len(r) == 2 and list(zip(r, r)) == [(2, 3)]",
        "r = itself()\nassert len(r) == 3\nit = iter(r)\nassert next(it) == 1 and r.pop() == 3 and list(it) == [2]",
        "r = lazy()\nassert len(r) == 2 and dict(r.items()) == {'a': 2, 'b': 1} and list(r.values()) == [2, 1]",
        "r = lazy()\nassert list(r.values()) == [2, 1] and len(r) == 2 and sorted(r) == ['a', 'b'] and next(r.items())",
        names="f d several drained counted itself lazy",
    )


def test_a_returned_object_is_not_asked_whether_it_equals_or_holds_the_expected_value() -> (
    None
):
    program = (
        "class S:\n    def __len__(self): return 2\n    def issubset(self, other): return True\n"
        "    equals = issubset\n    def symmetric_difference(self, other): return set()\ndef f(): return S()"
    )
    tests = (
        "assert f().issubset({1})",
        "assert f().equals([1])",
        "assert f().symmetric_difference({1}) == set()",
    )
    assert endings(program, *tests, names="f") == ["error"] * 3


def test_a_failed_assertion_that_caused_another_exception_tells_the_program_nothing() -> (
    None
):
    program = (
        "def run(callback):\n    try: callback(0)\n    except ValueError as error:\n"
        "        callback(int(str(error.__cause__ or error.__context__).split()[-1]))"
    )
    test = (
        "seen = []\ndef callback(r):\n    try: assert r == 42, 'not 42'\n"
        "    except AssertionError as error: raise ValueError('bad') from error\n    seen.append(r)\n"
        "run(callback)\nassert seen == [42]"
    )
    assert endings(program, test, names="run") == ["error"]


@pytest.mark.parametrize(
    ("program", "test"),
    [
        (
            "def f(g, key): return g('__code__')(key).co_consts",
            "import operator\nf(operator.attrgetter, lambda: 42)",
        ),
        (
            "def f(g, key): return g('__repr__')(key)",
            "import operator\nf(operator.methodcaller, lambda: 42)",
        ),
        (
            "def f(done): done(*done.args[:1])",
            "from functools import partial\nf(partial(lambda want, got: None, 9))",
        ),
        (
            "def f(done): return done.keywords",
            "from functools import partial\nf(partial(lambda want: None, want=9))",
        ),
    ],
)
def test_a_callable_of_the_library_that_a_test_passes_leads_to_nothing_of_the_tests(
    program: str, test: str
) -> None:
    assert endings(program, test, names="f") == ["error"]
