"""Tests that patch: what they replace for a while, in the program and in Python's library."""

from __future__ import annotations

from judge_harness import assert_all_pass, endings

PROGRAM = """
class A:
    k = 3
    def x(self): return 1
    @staticmethod
    def s(a): return a + 1
    @classmethod
    def c(cls, a): return cls.__name__, a
    @property
    def p(self): return 5
    def __len__(self): return 2
    async def wait(self): return 1
class B(A):
    def y(self): return self.x()
def use(): return A().x()
"""
NAMES = "A B use"
MOCK = "from unittest.mock import AsyncMock, PropertyMock, patch\n"


def test_a_patched_method_of_the_program_is_there_again_afterwards() -> None:
    tests = (
        "with patch.object(A, 'x', return_value=9) as m:\n    assert A().x() == use() == 9\nassert m.call_count == 2\n"
        "assert A().x() == use() == 1",
        "@patch('solution.A.x', return_value=9)\ndef t(m): assert use() == 9\nt()\nassert use() == 1",
        "with patch.object(A, 's', return_value=9): assert A.s(1) == 9\nassert A.s(1) == A().s(1) == 2",
        "with patch.object(A, 'c', return_value=9): assert A.c(1) == 9\nassert A.c(1) == A().c(1) == ('A', 1)",
        "with patch.object(A, 'k', 9): assert A.k == A().k == 9\nassert A.k == A().k == 3",
        "with patch.object(A, '__len__', return_value=9): assert len(A()) == 9\nassert len(A()) == 2",
        "with patch.object(B, 'x', return_value=9):\n    assert B().y() == 9 and A().x() == 1\nassert B().y() == 1",
        "with patch.object(A, 'x', return_value=8):\n    with patch.object(A, 'x', return_value=9): assert use() == 9\n"
        "    assert use() == 8\nassert use() == 1",
        "old = vars(A)['s']\nA.s = lambda a: 9\nA.s = old\nassert A.s(1) == A().s(1) == 2",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES, setup=MOCK)


def test_a_program_that_does_not_use_the_patched_method_fails() -> None:
    program = PROGRAM.replace("def use(): return A().x()", "def use(): return 1")
    test = "with patch.object(A, 'x', return_value=9): assert use() == 9"
    assert endings(program, test, names=NAMES, setup=MOCK) == ["failed"]


def test_a_mock_that_is_made_like_a_method_of_the_program_binds_and_awaits_as_the_method_does() -> None:
    tests = (
        "with patch.object(A, 'x', autospec=True) as m:\n    m.return_value = 9\n    a = A()\n    assert a.x() == 9\n"
        "    m.assert_called_once_with(a)\nassert A().x() == 1",
        "import asyncio\nwith patch.object(A, 'wait', return_value=9) as m:\n    assert asyncio.run(A().wait()) == 9\n"
        "    m.assert_awaited_once()\nassert asyncio.run(A().wait()) == 1",
        "import inspect\nassert inspect.isfunction(vars(A)['x']) and not inspect.isfunction(vars(A)['s'])",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES, setup=MOCK)
    wrong = "with patch.object(A, 'x', autospec=True) as m:\n    A().x(1)"
    assert endings(PROGRAM, wrong, names=NAMES, setup=MOCK) == ["error"]


def test_a_descriptor_of_the_tests_in_a_class_of_the_program_is_asked() -> None:
    own = (
        "class D:\n    def __get__(self, one, kind=None): return 9\n    def __set__(self, one, value): one.k = value\n"
    )
    tests = (
        "with patch.object(A, 'p', new_callable=PropertyMock, return_value=9): assert A().p == 9\nassert A().p == 5",
        f"{own}A.q = D()\na = A()\nassert a.q == 9\na.q = 4\nassert a.k == 4",
        "A.p = property(lambda self: self.k * 3)\nassert A().p == 9",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES, setup=MOCK)


def test_a_descriptor_of_the_tests_is_bound_to_no_object_of_the_tests() -> None:
    program = "def peek(descriptor, case): return type(descriptor).__get__(descriptor, case)"
    setup = (
        "class Hidden:\n    def __get__(self, one, kind=None): return self if one is None else one._want\n"
        "class Case:\n    def __init__(self): self._want = 9\n"
    )
    assert endings(program, "assert peek(Hidden(), Case()) == 9", names="peek", setup=setup) == ["error"]
