"""Descriptors of the program in classes of the tests."""

from __future__ import annotations

from judge_harness import assert_all_pass, endings

PROGRAM = """
import functools
class Positive:
    def __set_name__(self, owner, name): self.name = '_' + name
    def __get__(self, one, owner=None): return self if one is None else getattr(one, self.name)
    def __set__(self, one, value):
        if value <= 0: raise ValueError('must be positive')
        setattr(one, self.name, value)
class Typed:
    def __init__(self, kind): self.kind = kind
    def __set_name__(self, owner, name): self.name = name; self.where = owner.__name__
    def __get__(self, one, owner): return self if one is None else one.__dict__[self.name]
    def __set__(self, one, value):
        if not isinstance(value, self.kind): raise TypeError(f'{self.where}.{self.name}')
        one.__dict__[self.name] = value
    def __delete__(self, one): del one.__dict__[self.name]
class lazy:
    def __init__(self, f): self.f = f
    def __get__(self, one, owner=None):
        if one is None: return self
        value = one.__dict__[self.f.__name__] = self.f(one)
        return value
class classproperty:
    def __init__(self, f): self.f = f
    def __get__(self, one, owner): return self.f(owner)
class memo:
    def __init__(self, f): self.f = f; self.cache = {}
    def __call__(self, *args):
        if args not in self.cache: self.cache[args] = self.f(*args)
        return self.cache[args]
    def __get__(self, one, owner): return functools.partial(self, one)
def cached(f): return functools.lru_cache(f)
class Solver:
    def __get__(self, one, owner=None):
        self.one, self.owner = one, owner
        return self
    def read(self): return self.one.want
    def read_class(self): return self.owner.want
    def read_inside(self): return vars(self.one)['want']
    def overwrite(self):
        self.one.want = 1
        return 1
"""
NAMES = "Positive Typed lazy classproperty memo cached Solver"


def test_a_descriptor_of_the_program_governs_the_attributes_of_a_class_of_the_tests() -> (
    None
):
    item = (
        "class Item:\n    price = Positive()\n    def __init__(self, p): self.price = p\n"
    )
    tests = (
        f"{item}i, j = Item(3), Item(4)\nassert (i.price, j.price) == (3, 4) and isinstance(Item.price, Positive)\n"
        "try: i.price = -1\nexcept ValueError: assert i.price == 3\nelse: assert False",
        "class P:\n    name = Typed(str)\np = P()\np.name = 'a'\nassert p.name == 'a'\n"
        "try: p.name = 3\nexcept TypeError as e: assert str(e) == 'P.name'\nelse: assert False\n"
        "del p.name\ntry: p.name\nexcept KeyError: pass\nelse: assert False",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES)
    wrong = PROGRAM.replace("if value <= 0", "if value < -9")
    assert endings(wrong, tests[0], names=NAMES) == ["failed"]


def test_a_descriptor_of_the_program_binds_functions_of_the_tests() -> None:
    tests = (
        "n = []\nclass C:\n    def __init__(self): self.k = 4\n    @lazy\n    def v(self):\n        n.append(1)\n"
        "        return self.k * 2\nc = C()\nassert c.v == c.v == 8 and n == [1] and C().v == 8 and n == [1, 1]",
        "class C:\n    k = 3\n    @classproperty\n    def v(cls): return cls.k * 2\nassert C.v == C().v == 6",
        "n = []\nclass C:\n    k = 2\n    @memo\n    def f(self, x):\n        n.append(x)\n        return x * self.k\n"
        "c = C()\nassert c.f(3) == c.f(3) == 6 and n == [3] and C().f(3) == 6 and n == [3, 3]",
        "n = []\nclass C:\n    @cached\n    def f(self, x):\n        n.append(x)\n        return x\n"
        "c = C()\nassert c.f(3) == c.f(3) == 3 and n == [3]",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES)
    wrong = PROGRAM.replace("if args not in self.cache: ", "")
    assert endings(wrong, tests[2], names=NAMES) == ["failed"]


def test_a_descriptor_of_the_program_neither_reads_nor_changes_what_it_is_bound_to() -> (
    None
):
    case = "class Case:\n    solver = Solver()\n    def __init__(self): self.want = 42\n"
    of_class = "class Case:\n    solver = Solver()\n    want = 42\n"
    tests = (
        f"{case}c = Case()\nassert c.solver.read() == c.want",
        f"{of_class}c = Case()\nassert c.solver.read_class() == c.want",
        f"{case}c = Case()\nassert c.solver.read_inside() == c.want",
        f"{case}c = Case()\nassert c.solver.overwrite() == c.want",
    )
    assert endings(PROGRAM, *tests, names=NAMES) == ["error", "error", "error", "failed"]


def test_a_descriptor_of_the_program_is_not_bound_to_a_class_that_has_tests() -> None:
    case = (
        "import unittest\nclass T(unittest.TestCase):\n    solver = Solver()\n    def setUp(self): self.want = 42\n"
        "    def test_a(self): self.assertEqual(self.solver.read(), self.want)\n"
        "found = unittest.TestResult()\nT('test_a').run(found)\nassert not found.errors and not found.failures"
    )
    assert endings(PROGRAM, case, names=NAMES) == ["failed"]


def test_a_function_of_the_library_gets_nothing_of_what_a_descriptor_is_bound_to() -> None:
    program = """
class Watched:
    def __init__(self, tell): self.tell = tell
    def __get__(self, one, owner=None): return self.tell(one)
"""
    case = (
        "from dataclasses import asdict, dataclass\n{}\n@dataclass\nclass Case:\n    look = Watched({})\n"
        "    want: int = 42\nc = Case()\n"
    )
    tests = (
        case.format("seen = []", "seen.append") + "c.look\nassert c in seen",
        case.format("def own(one): return one and one.want", "own") + "assert c.look == 42",
        case.format("", "lambda one: one and asdict(one)")
        + "assert c.look == {'want': 42}",
        case.format("from unittest.mock import Mock\nm = Mock(return_value=3)", "m")
        + "assert c.look == 3\nm.assert_called_with(c)",
    )
    assert_all_pass(program, *tests, names="Watched")
    told = case.format("", "asdict") + "assert c.look == {'want': 42}"
    assert endings(program, told, names="Watched") == ["error"]
