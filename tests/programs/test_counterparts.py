"""Objects, functions and classes of the tests in the program."""

from __future__ import annotations

import pytest
from judge_harness import assert_all_pass, endings, run

RIGHT = {
    "isinstance": (
        "only",
        """
def only(xs, t): return [x for x in xs if isinstance(x, t)]
""",
        """
class P:
    def m(self): return 1
def test():
    p = P()
    assert only([1, p, 'a'], P) == [p]
test()
""",
    ),
    "subclass": (
        "only sub",
        """
def only(xs, t): return [x for x in xs if isinstance(x, t)]
def sub(a, b): return issubclass(a, b)
""",
        """
class A:
    def m(self): return 1
class B(A):
    def m(self): return 2
def test():
    a, b = A(), B()
    assert only([1, a, b], A) == [a, b]
    assert only([1, a, b], B) == [b]
    assert sub(B, A) and not sub(A, B)
test()
""",
    ),
    "type is": (
        "same kind name",
        """
def same(a, b): return type(a) is type(b)
def kind(a): return type(a)
def name(a): return type(a).__name__
""",
        """
class A:
    def m(self): return 1
class B(A):
    def m(self): return 2
def test():
    assert same(A(), A()) and not same(A(), B())
    assert name(A()) == 'A'
    assert kind(B()) is B
test()
""",
    ),
    "clone": (
        "clone",
        """
def clone(o): return type(o)(o.v)
""",
        """
class A:
    def __init__(self, v): self.v = v
    def m(self): return 1
def test():
    assert clone(A(3)).v == 3
test()
""",
    ),
    "deepcopy": (
        "clone shallow",
        """
import copy
def clone(o):
    return copy.deepcopy(o)
def shallow(o): return copy.copy(o)
""",
        """
class A:
    def __init__(self, v): self.v = v
    def m(self): return self.v
def test():
    a = A([3])
    b = clone(a)
    assert b is not a and b.v == [3] and b.v is not a.v
    c = shallow(a)
    assert c is not a and c.v is a.v and c.m() == [3]
test()
""",
    ),
    "annotations": (
        "enforce notes",
        """
import functools, typing
def enforce(f):
    hints = typing.get_type_hints(f)
    @functools.wraps(f)
    def w(*args):
        for a, (n, t) in zip(args, hints.items()):
            if not isinstance(a, t): raise TypeError(n)
        return f(*args)
    return w
def notes(f): return f.__annotations__
""",
        """
@enforce
def add(a: int, b: int): return a + b
def test():
    assert add(1, 2) == 3
    try: add(1, 'a')
    except TypeError: pass
    else: assert False
    def g(x: int) -> str: return ''
    assert notes(g) == {'x': int, 'return': str}
test()
""",
    ),
    "di container": (
        "Container",
        """
class Container:
    def __init__(self): self.made = {}
    def get(self, cls):
        if cls not in self.made:
            hints = dict(cls.__init__.__annotations__) if '__init__' in vars(cls) else {}
            self.made[cls] = cls(**{k: self.get(v) for k, v in hints.items()})
        return self.made[cls]
""",
        """
class Db:
    def q(self): return 1
class Svc:
    def __init__(self, db: Db): self.db = db
    def run(self): return self.db.q()
def test():
    c = Container()
    assert c.get(Svc).run() == 1
    assert c.get(Svc) is c.get(Svc)
    assert c.get(Svc).db is c.get(Db)
test()
""",
    ),
    "auto repr": (
        "auto_repr",
        """
def auto_repr(cls):
    def __repr__(self):
        return cls.__name__ + '(' + ', '.join(f'{k}={v!r}' for k, v in vars(self).items()) + ')'
    cls.__repr__ = __repr__
    return cls
""",
        """
@auto_repr
class P:
    def __init__(self, x): self.x = x
    def m(self): return 1
def test():
    assert repr(P(3)) == 'P(x=3)'
test()
""",
    ),
    "total": (
        "ordered",
        """
def ordered(cls):
    cls.__le__ = lambda a, b: a < b or a == b
    cls.__gt__ = lambda a, b: b < a
    cls.__ge__ = lambda a, b: not a < b
    return cls
""",
        """
@ordered
class V:
    def __init__(self, x): self.x = x
    def __eq__(self, o): return self.x == o.x
    def __lt__(self, o): return self.x < o.x
def test():
    assert V(1) <= V(2) and V(2) >= V(2) and V(3) > V(2)
    assert not V(3) <= V(2)
test()
""",
    ),
    "log methods": (
        "calls logged",
        """
import functools
calls = []
def logged(cls):
    for name, attr in list(vars(cls).items()):
        if callable(attr) and not name.startswith('_'):
            def make(attr, name):
                @functools.wraps(attr)
                def w(*a, **k):
                    calls.append(name)
                    return attr(*a, **k)
                return w
            setattr(cls, name, make(attr, name))
    return cls
""",
        """
@logged
class P:
    def __init__(self, x): self.x = x
    def m(self): return self.x
def test():
    assert P(3).m() == 3
    assert calls == ['m']
test()
""",
    ),
    "singledispatch": (
        "show",
        """
from functools import singledispatch
@singledispatch
def show(x): return 'other'
""",
        """
class A:
    def m(self): return 1
@show.register(A)
def _(x): return 'A'
@show.register(int)
def _(x): return 'int'
def test():
    assert show(A()) == 'A' and show(3) == 'int' and show('') == 'other'
test()
""",
    ),
    "registry": (
        "registry register create",
        """
registry = {}
def register(cls):
    registry[cls.__name__] = cls
    return cls
def create(name, *a): return registry[name](*a)
""",
        """
@register
class A:
    def __init__(self, v): self.v = v
    def m(self): return self.v
def test():
    assert create('A', 3).m() == 3
    assert isinstance(create('A', 3), A)
    assert registry == {'A': A}
test()
""",
    ),
    "singleton": (
        "singleton",
        """
def singleton(cls):
    made = {}
    def get(*a, **k):
        if cls not in made: made[cls] = cls(*a, **k)
        return made[cls]
    return get
""",
        """
@singleton
class A:
    def __init__(self): self.v = 0
    def m(self): return self.v
def test():
    assert A() is A()
test()
""",
    ),
    "protocol": (
        "Drawable Base",
        """
from typing import Protocol, runtime_checkable
from abc import ABC, abstractmethod
@runtime_checkable
class Drawable(Protocol):
    def draw(self): ...
class Base(ABC):
    @abstractmethod
    def go(self): ...
    @classmethod
    def __subclasshook__(cls, c): return any('go' in k.__dict__ for k in c.__mro__)
""",
        """
class C:
    def draw(self): return 1
class D:
    def go(self): return 1
def test():
    assert isinstance(C(), Drawable) and not isinstance(D(), Drawable)
    assert isinstance(D(), Base)
    assert not isinstance(C(), Base)
test()
""",
    ),
    "abc register": (
        "Base",
        """
from abc import ABC
class Base(ABC): pass
""",
        """
class D:
    def go(self): return 1
def test():
    Base.register(D)
    assert isinstance(D(), Base) and issubclass(D, Base)
test()
""",
    ),
    "generator function": (
        "is_gen defaults",
        """
import inspect, functools
def is_gen(f): return inspect.isgeneratorfunction(f)
def defaults(f): return inspect.signature(f).parameters['a'].default is not inspect.Parameter.empty
""",
        """
def g():
    yield 1
def h(a=3): return a
def test():
    assert is_gen(g) and not is_gen(h)
    assert defaults(h)
test()
""",
    ),
    "fields of class": (
        "from_dict",
        """
def from_dict(cls, d):
    return cls(**{k: d[k] for k in cls.__annotations__})
""",
        """
from dataclasses import dataclass
@dataclass
class P:
    x: int
    y: int
def test():
    assert from_dict(P, {'x': 1, 'y': 2, 'z': 3}) == P(1, 2)
test()
""",
    ),
    "data class fields": (
        "from_dict to_dict same",
        """
import dataclasses
def from_dict(cls, d):
    return cls(**{f.name: d[f.name] for f in dataclasses.fields(cls)})
def to_dict(o): return dataclasses.asdict(o)
def same(o, cls): return type(o) is cls, isinstance(o, cls)
""",
        """
from dataclasses import dataclass
@dataclass
class P:
    x: int
    y: int
def test():
    assert from_dict(P, {'x': 1, 'y': 2, 'z': 3}) == P(1, 2)
    assert to_dict(P(1, 2)) == {'x': 1, 'y': 2}
    assert same(P(1, 2), P) == (True, True)
test()
""",
    ),
    "dict key": (
        "Bus",
        """
class Bus:
    def __init__(self): self.h = {}
    def on(self, kind, f): self.h.setdefault(kind, []).append(f)
    def emit(self, e):
        for f in self.h.get(type(e), []): f(e)
""",
        """
class E:
    def __init__(self, v): self.v = v
class F: pass
def test():
    bus, seen = Bus(), []
    bus.on(E, lambda e: seen.append(e.v))
    bus.emit(E(3)); bus.emit(F())
    assert seen == [3]
test()
""",
    ),
    "data vars": (
        "attrs",
        """
def attrs(o): return dict(vars(o))
""",
        """
class A:
    def __init__(self): self.v = 1; self._w = 2
    def m(self): return 1
def test():
    assert attrs(A())['v'] == 1
test()
""",
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_program_uses_classes_of_the_tests_as_classes(case: str) -> None:
    names, program, test = RIGHT[case]
    assert_all_pass(program, test, names=names)


def test_a_program_changes_a_class_only_while_it_decorates_it() -> None:
    program = """
def change(cls, name):
    try: setattr(cls, name, lambda *args: 5)
    except AttributeError as error: return str(error)
def deface(cls): return [change(cls, name) for name in ("go", "__eq__", "__len__")]
def five(): return 5
"""
    setup = """
class P:
    def __init__(self, x): self.x = x
    def go(self): return self.x
    def __len__(self): return 1
"""
    tests = (
        "assert None not in deface(P)\np = P(1)\nassert (p.go(), len(p), p == five()) == (1, 1, False)",
        "p = P(1)\ntype(p)\nassert None not in deface(type(p)) and p.go() == 1",
    )
    assert_all_pass(program, *tests, names="deface five", setup=setup)


def test_an_equality_that_a_decorator_adds_does_not_compare_results() -> None:
    program = """
def equal(cls):
    cls.__eq__ = lambda one, other: True
    return cls
def f(): return 1
"""
    setup = "@equal\nclass E:\n    def go(self): return 1\n"
    assert endings(
        program, "assert E() == E()", "assert f() == E()", names="equal f", setup=setup
    ) == [
        "passed",
        "failed",
    ]


def test_a_decorator_changes_nothing_of_a_class_that_has_tests() -> None:
    program = """
def spoil(cls):
    for name in ("assertEqual", "test_it", "run"):
        try: setattr(cls, name, lambda *args: None)
        except (AttributeError, TypeError): pass
    return cls
def f(): return 4
"""
    test = """
import unittest
@spoil
class Case(unittest.TestCase):
    def test_it(self): self.assertEqual(f(), 5)
Case("test_it").test_it()
"""
    assert endings(program, test, names="spoil f") == ["failed"]


def test_a_program_creates_no_objects_of_a_class_of_the_library_that_it_was_not_given() -> (
    None
):
    program = "def read(file): return type(file)('/etc/hostname').read()\n"
    found = run(program, "import io\nread(io.FileIO('/dev/null'))", names="read")
    assert found == [
        ("error", "TypeError: the tests have not passed the class 'FileIO' to the program")
    ]


def test_a_program_creates_no_object_of_a_test_class_without_its_constructor() -> None:
    program = "def blank(one): return object.__new__(type(one))\n"
    setup = "class Anything:\n    def __eq__(self, other): return True\n"
    assert endings(
        program, "assert blank(Anything()) == 3", names="blank", setup=setup
    ) == ["failed"]


def test_a_program_inherits_from_no_class_of_the_tests() -> None:
    program = "def wrap(cls):\n    class W(cls): pass\n    return W\n"
    setup = "class A:\n    def go(self): return 1\n"
    found = run(program, "wrap(A)", names="wrap", setup=setup)
    assert found == [
        ("error", "TypeError: the program cannot inherit from 'A', a class of the tests")
    ]


def test_no_class_of_the_program_catches_an_exception_class_of_the_tests() -> None:
    program = """
class Meta(type):
    def __instancecheck__(cls, one): return True
    def __subclasscheck__(cls, one): return True
class MyError(Exception, metaclass=Meta): pass
"""
    test = """
import unittest
class Unexpected(Exception): pass
with unittest.TestCase().assertRaises(MyError):
    raise Unexpected("a failure")
"""
    assert endings(program, test, names="MyError") == ["error"]


def test_a_copy_of_a_mock_is_refused() -> None:
    program = "import copy\ndef f(mock): return copy.copy(mock)\n"
    found = run(program, "from unittest.mock import Mock\nf(Mock())", names="f")
    assert found == [("error", "TypeError: a copy of a 'Mock' object of the tests")]


@pytest.mark.parametrize(
    "made", ["Mock(return_value=3)", "MagicMock(return_value=3)", "[1, 2, 3].__getitem__"]
)
def test_a_decorator_that_copies_attributes_wraps_any_callable_of_the_tests(
    made: str,
) -> None:
    program = """
import functools
def logged(f):
    @functools.wraps(f)
    def call(*args): return f(*args)
    return call
"""
    test = f"from unittest.mock import MagicMock, Mock\nassert logged({made})(2) == 3"
    assert endings(program, test, names="logged") == ["passed"]
    assert endings(
        program.replace("return f(*args)", "return 4"), test, names="logged"
    ) == ["failed"]
