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


def test_a_mock_that_is_made_like_a_method_of_the_program_binds_and_awaits_as_the_method_does() -> (
    None
):
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
        "class D:\n"
        "    def __get__(self, one, kind=None): return 9\n"
        "    def __set__(self, one, value): one.k = value\n"
    )
    tests = (
        "with patch.object(A, 'p', new_callable=PropertyMock, return_value=9): assert A().p == 9\nassert A().p == 5",
        f"{own}A.q = D()\na = A()\nassert a.q == 9\na.q = 4\nassert a.k == 4",
        "A.p = property(lambda self: self.k * 3)\nassert A().p == 9",
    )
    assert_all_pass(PROGRAM, *tests, names=NAMES, setup=MOCK)


def test_a_descriptor_of_the_tests_is_bound_to_no_object_of_the_tests() -> None:
    program = (
        "def peek(descriptor, case): return type(descriptor).__get__(descriptor, case)"
    )
    setup = (
        "class Hidden:\n    def __get__(self, one, kind=None): return self if one is None else one._want\n"
        "class Case:\n    def __init__(self): self._want = 9\n"
    )
    assert endings(
        program, "assert peek(Hidden(), Case()) == 9", names="peek", setup=setup
    ) == ["error"]


LIBRARY = """
import json, os, random
from pathlib import Path
def have(p): return os.path.exists(p)
def found(p): return Path(p).exists()
def home(): return str(Path.home())
def dumps(x): return json.dumps(x)
def mail(to):
    import smtplib
    with smtplib.SMTP('localhost', 25) as server: return server.sendmail('me', to, 'hi')
def query(q):
    import sqlite3
    return sqlite3.connect('x.db').execute(q).fetchall()
def start(f):
    import threading
    threading.Thread(target=f).start()
def roll(): return random.random()
def draw():
    import numpy
    return numpy.random.rand(3)
"""
OF_LIBRARY = "have found home dumps mail query start roll draw"
PATCH = (
    "import json, os, pathlib\nfrom pathlib import Path\nfrom unittest.mock import patch\n"
)


def test_what_the_tests_patch_in_a_module_is_patched_in_the_program_until_the_patch_ends() -> (
    None
):
    tests = (
        "with patch('os.path.exists', return_value=True) as m: assert have('/x')\nm.assert_called_once_with('/x')\n"
        "assert not have('/x')",
        "with patch.object(os.path, 'exists', return_value=True): assert have('/x')\nassert not have('/x')",
        "with patch('json.dumps', return_value='z'): assert dumps([1]) == 'z'\nassert dumps([1]) == '[1]'",
        "old = json.dumps\njson.dumps = lambda x: 'z'\nassert dumps([1]) == 'z'\njson.dumps = old\n"
        "assert dumps([1]) == '[1]'",
        "with patch('smtplib.SMTP') as server:\n    mail('you')\n"
        "    server.return_value.__enter__.return_value.sendmail.assert_called_once_with('me', 'you', 'hi')",
        "with patch('sqlite3.connect') as c:\n    c.return_value.execute.return_value.fetchall.return_value = [(1,)]\n"
        "    assert query('select') == [(1,)]",
        "with patch('threading.Thread') as t: start(print)\nt.return_value.start.assert_called_once()",
    )
    assert_all_pass(LIBRARY, *tests, names=OF_LIBRARY, setup=PATCH)


def test_what_the_tests_patch_in_a_class_of_the_library_is_patched_in_the_program_until_the_patch_ends() -> (
    None
):
    tests = (
        "with patch.object(Path, 'exists', return_value=True): assert found('/x')\nassert not found('/x')",
        "@patch('pathlib.Path.exists', return_value=True)\ndef t(m): assert found('/x')\nt()\nassert not found('/x')",
        "with patch.object(Path, 'exists', autospec=True, return_value=True) as m: assert found('/x')\n"
        "m.assert_called_once_with(Path('/x'))",
        "with patch.object(Path, 'home', return_value=Path('/h')): assert home() == '/h'\nassert home() != '/h'",
        "setattr(pathlib.Path, 'exists', lambda self: True)\nassert found('/x')",
    )
    assert_all_pass(LIBRARY, *tests, names=OF_LIBRARY, setup=PATCH)


def test_a_program_that_does_not_use_what_is_patched_fails() -> None:
    program = "def have(p): return False\ndef found(p): return False"
    tests = (
        "with patch('os.path.exists', return_value=True): assert have('/x')",
        "with patch.object(Path, 'exists', return_value=True): assert found('/x')",
    )
    assert endings(program, *tests, names="have found", setup=PATCH) == ["failed", "failed"]


def test_generators_of_random_numbers_are_seeded_and_set_back_at_both_ends() -> None:
    tests = (
        "import random\nstate = random.getstate()\na = roll()\nrandom.setstate(state)\nassert roll() != a\n"
        "random.setstate(state)\nb = roll()\nrandom.setstate(state)\nassert roll() == b == random.random()",
        "import random\nrandom.seed(3)\na = roll()\nrandom.seed(3)\nassert roll() == a == random.Random(3).random()",
    )
    assert_all_pass(LIBRARY, *tests, names=OF_LIBRARY)
    unseeded = "import random\ndef roll(): return random.SystemRandom().random()"
    assert endings(unseeded, tests[1], names="roll") == ["failed"]


def test_mocks_take_the_form_of_a_class_of_the_program_that_has_an_init() -> None:
    program = (
        "class Client:\n    def __init__(self, url, retries=1): self.url = url\n"
        "    def get(self, path): raise OSError\n"
        "def load(client): return client.get('x')"
    )
    imports = "from unittest.mock import MagicMock, Mock, create_autospec"
    assert_all_pass(
        program,
        "mock = Mock(spec=Client)\nmock.get.return_value = 3\nassert load(mock) == 3",
        "mock = MagicMock(spec=Client)\nmock.get.return_value = 3\nassert load(mock) == 3 and not hasattr(mock, 'put')",
        "mock = create_autospec(Client)\nmock.return_value.get.return_value = 3\nassert load(mock('u')) == 3",
        names="Client load",
        setup=imports,
    )


def test_what_a_module_sets_in_itself_for_the_tests_stays_in_the_judge() -> None:
    program = (
        "import warnings\ndef warn(): warnings.warn('old', DeprecationWarning); return 3\n"
        "def caught():\n    with warnings.catch_warnings(record=True) as found:\n"
        "        warnings.simplefilter('always')\n        warnings.warn('mine')\n    return len(found)"
    )
    setup = f"{PATCH}import warnings"
    test = (
        "with warnings.catch_warnings(record=True) as found:\n    warnings.simplefilter('always')\n"
        "    assert warn() == 3\nassert len(found) == 1 and caught() == 1"
    )
    assert_all_pass(program, test, names="warn caught", setup=setup)
    silent = program.replace("warnings.warn('old', DeprecationWarning); ", "")
    assert endings(silent, test, names="warn caught", setup=setup) == ["failed"]


def test_a_module_that_is_imported_after_a_patch_is_a_module_of_its_own() -> None:
    """Python makes each module that it imports by `type(sys)`, and `sys` is watched."""
    tests = (
        "import sys, types\nassert type(sys)('new').__class__ is types.ModuleType",
        "from importlib import import_module\nlate = import_module('colorsys')\n"
        "assert type(late).__name__ == 'module'\nlate.value = 3\nassert not added()\n"
        "with patch.object(late, 'rgb_to_hsv', return_value=3): assert hsv() == 3\nassert hsv() != 3",
        "import types\nown = types.ModuleType('own_module')\nsys.modules['own_module'] = own\n"
        "setattr(own, 'value', 3)\nwith patch('own_module.value', 4): assert own.value == 4",
    )
    program = (
        "import colorsys, sys\ndef hsv(): return colorsys.rgb_to_hsv(1, 1, 1)\n"
        "def added(): return hasattr(sys, 'value')"
    )
    assert_all_pass(program, *tests, names="hsv added", setup=f"{PATCH}import sys")
