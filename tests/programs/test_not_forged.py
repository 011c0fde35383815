"""Wrong programs that try to judge themselves.

They use the features by which unusual right programs pass.
"""

from __future__ import annotations

import pytest
from walls import walls_or_skip

from trl_grpo_ext.rewards import UnitTestVerifier

walls_or_skip()

# By the trick that the program tries: (program, tests).
WRONG = {
    "the end of an iteration ends the cases": (
        "def check(x): raise StopIteration",
        "def test_a():\n    assert all(map(check, [1, 2]))",
    ),
    "a skipped test": (
        "import unittest\ndef f(x): raise unittest.SkipTest('no')",
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(1), 2)",
    ),
    "an order of its own": (
        "class V:\n"
        "    def __lt__(self, other): return True\n"
        "    __dataclass_params__ = type('P', (), {'order': True})()\n"
        "    __dataclass_fields__ = {}\n"
        "def parse(text): return V()",
        "def test_a():\n    assert parse('1') < parse('2')",
    ),
    "an order of what its fields hold": (
        "from dataclasses import dataclass\n"
        "class Less:\n    def __lt__(self, other): return True\n    def __eq__(self, other): return False\n"
        "@dataclass(order=True)\nclass V:\n    n: object\n"
        "def parse(text): return V(Less())",
        "def test_a():\n    assert parse('1') < parse('2')",
    ),
    "a data class in the place of the test's": (
        "import dataclasses\n"
        "class Shape: pass\n"
        "class Any(Shape):\n"
        "    def __init__(self, *a): pass\n"
        "    def area(self): return 9\n"
        "dataclasses._process_class = lambda cls, *a, **k: Any\n"
        "def scaled(shape, k): return shape",
        "from dataclasses import dataclass\nfrom solution import Shape, scaled\n"
        "@dataclass\nclass Square(Shape):\n    side: int\n    def area(self): return self.side ** 2\n"
        "def test_a():\n    assert scaled(Square(1), 3).area() == 9",
    ),
    "a constant of a class of the test's": (
        "class Base:\n    def value(self): return 3\n    def __init_subclass__(cls): cls.expected = cls.limit = 3",
        "from solution import Base\nclass Mine(Base):\n    expected = 4\n    limit: int = 4\n"
        "def test_a():\n    assert Mine().value() in (Mine.expected, Mine().expected, Mine.limit, Mine().limit)",
    ),
    "a float that is near": (
        "import numpy\ndef f(x): return numpy.float32(16777216)",
        "assert f(1) == 16777217",
    ),
    "a log that is no text": (
        "import logging\n"
        "class Yes(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n"
        "def f(x): logging.warning(Yes('no'))",
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        "        with self.assertLogs() as seen: f(1)\n"
        "        self.assertEqual(seen.records[0].msg, 'yes')",
    ),
    "a decorator that leaves the test out, below one of the test's": (
        "def quiet(fn): return lambda *a, **k: None\ndef f(x): return 1",
        "from unittest.mock import patch\n@patch('time.sleep')\n@quiet\ndef test_a(sleep):\n    assert f(1) == 2",
    ),
    "a decorator that swallows": (
        "def quiet(fn):\n    def inner(*a):\n        try: fn(*a)\n        except: pass\n    return inner\n"
        "def f(x): return 1",
        "import unittest\nclass T(unittest.TestCase):\n    @quiet\n    def test_a(self): self.assertEqual(f(1), 2)",
    ),
    "a decorator of a class that replaces its tests": (
        "def suite(cls):\n    cls.test_a = lambda self: None\n    return cls\ndef f(x): return 1",
        "@suite\nclass TestF:\n    def test_a(self): assert f(1) == 2",
    ),
    "a decorator of a class that looks into it": (
        "known = []\ndef suite(cls):\n    known.append(type(cls).__call__(cls))\n    return cls\n"
        "def f(x): return known[0].expected",
        "@suite\nclass TestF:\n    expected = 2\n    def test_a(self): assert f(1) == self.expected",
    ),
    "a context manager that swallows what the program raised in an assertion": (
        "class Quiet:\n    def __enter__(self): return self\n    def __exit__(self, *raised): return True\n"
        "def f(x): raise ValueError",
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        "        with Quiet():\n            self.assertEqual(f(1), 2)\n"
        "    def test_b(self):\n        same = self.assertEqual\n        with Quiet(): same(f, 2)\n",
    ),
    "a context manager that swallows what the program raised before an assertion": (
        "class Quiet:\n    def __enter__(self): return self\n    def __exit__(self, *raised): return True\n"
        "class Same:\n    def __eq__(self, other): raise ValueError\n"
        "def f(x): raise ValueError\ndef g(x): return Same()",
        "def same(found, wanted):\n    assert found == wanted\n"
        "def test_a():\n    with Quiet():\n        f(1)\n        assert False\n"
        "def test_b():\n    two, three = g(2), g(3)\n    with Quiet():\n        same(two, three)\n"
        "def test_c():\n    with Quiet():\n        assert f(1) == 2\n",
    ),
    "a function left to Python, which has one of the same name": (
        "def low(a, b): return 1",
        "def test_a():\n    assert max(1, 2) == 2\n    assert low(1, 2) == 1\n"
        "def test_b():\n    assert gcd(12, 8) == 4\n",
    ),
    "a wrong function of a name that Python has too": (
        "def low(a, b): return 1\ndef max(a, b): return 0\ndef gcd(a, b): return 0\nreduce = gcd",
        "from solution import *\ndef test_a():\n    assert max(1, 2) == 2\n    assert low(1, 2) == 1\n"
        "def test_b():\n    assert gcd(12, 8) == 4\ndef test_c():\n    assert reduce(pow, [2, 3]) == 8\n",
    ),
    "a helper of the tests, under a name that they forgot to import": (
        "def isclose(*a): return True\ndef sorted(x): return [1, 2]\ndef half(x): return 9",
        "from solution import *\ndef test_a():\n    assert isclose(half(1), 0.5)\n"
        "def test_b():\n    assert sorted([half(2), half(4)]) == [1, 2]\n",
    ),
    "a list without items, of which the tests make an array": (
        "def f(x): return []\ndef g(x): return [[]]",
        "import numpy as np\n"
        "def test_a(): assert np.all(np.abs(np.array(f(1)) - 2.0) < 1e-6)\n"
        "def test_b(): assert (np.array(g(1)) == np.array([[2.], [4.]])).all()\n"
        "def test_c(): assert not np.any(np.asarray(f(1)) != 2.0)\n"
        "def test_d(): assert np.linalg.norm(np.ravel(g(1)) - 2.0) < 1e-9\n"
        "def test_e(): assert (np.stack([f(1)]) == 5.0).all()\n"
        "one, column = np.array([2.]), np.array([[2.], [4.]])\n"
        "def test_f(): assert (f(1) == one).all()\n"
        "def test_g(): assert np.linalg.norm(g(1) - column) < 1e-9\n"
        "def test_h(): assert not (g(1) != column * 1).any()\n"
        "def test_i(): assert np.sum((one - f(1)) ** 2) < 1e-9\n",
    ),
    "an array without items, which numpy compares with nothing": (
        "import numpy\ndef f(x): return numpy.empty((0, 1))\ndef g(x): return [f(x)] * 2\n"
        "class Two:\n    shape = (2,)\n    def __len__(self): return 2\n"
        "    def __getitem__(self, place): return g(0)[place]\ndef h(x): return Two()",
        "import numpy as np\nfrom numpy.linalg import norm\nfrom numpy.testing import assert_allclose\n"
        "wanted = np.array([1, 2])\n"
        "def test_a(): assert np.allclose(f(1), wanted)\n"
        "def test_b(): assert np.allclose([1, 2], g(1))\n"
        "def test_c(): assert np.allclose(h(1), wanted)\n"
        "def test_d(): assert np.isclose(5, f(1)).all()\n"
        "def test_e(): assert (f(1) == wanted).all()\n"
        "def test_f(): assert (5 == f(1)).all()\n"
        "def test_g(): assert norm(wanted - f(1)) < 1\n"
        "def test_h(): assert norm(np.array(g(1)) - wanted) < 1\n"
        "def test_i(): assert_allclose(f(1), 5)\n"
        "def test_j(): assert_allclose(g(1), 5)\n"
        "def test_k(): assert np.array_equiv(f(1), wanted)\n"
        "def test_l(): assert (abs(f(1) - 5) < 1).all()\n"
        "def test_m(): assert (f(1) <= wanted).all()\n",
    ),
    "records without items, or with a field that has none": (
        "import numpy as np\nKIND = [('k', 'i4'), ('w', 'f8')]\ndef f(): return np.zeros(0, KIND)\n"
        "def g(): return np.zeros(1, [('k', 'i4', (0,)), ('w', 'f8')])\ndef h(): return np.zeros(1, [])\n"
        "def one(): return np.zeros(1, KIND)[0]",
        "import numpy as np\nfull = np.array([(3, 1.0)], dtype=[('k', 'i4'), ('w', 'f8')])\n"
        "def test_a(): assert (f() == full).all()\n"
        "def test_b(): assert not (full != f()).any()\n"
        "def test_c(): assert np.allclose(f()['k'], full['k'])\n"
        "def test_d(): assert (f() == full[0]).all()\n"
        "def test_e(): assert (g()['k'] == 3).all()\n"
        "def test_f(): assert not (h() != np.zeros(1, [])).any()\n"
        "def test_g(): assert one() == full[0]\n"
        "def test_h(): assert np.linalg.norm(f()['w'] - 1.0) < 1e-9\n",
    ),
    "a sequence without items, of whatever class": (
        "import array, collections\n"
        "class M(type):\n    def __len__(self): return 0\n    def __getitem__(self, place): raise IndexError\n"
        "class S(metaclass=M): pass\n"
        "def f(x): return [range(0), collections.deque(), array.array('d'), S][x]\n",
        "import numpy as np\nfrom numpy.testing import assert_allclose\none = np.array([3.])\n"
        "def test_a(): assert np.allclose(f(0), 3.0)\n"
        "def test_b(): assert np.isclose(b=f(1), a=[3.0]).all()\n"
        "def test_c(): assert_allclose(actual=f(2), desired=3.0)\n"
        "def test_d(): assert np.allclose(f(3), [[1.0], [2.0]])\n"
        "def test_e(): assert (one == f(0)).all()\n"
        "def test_f(): assert np.linalg.norm(one - f(3)) < 1e-9\n"
        "def test_g(): assert np.all(np.abs(np.subtract(f(0), 3.0)) < 1e-9)\n"
        "def test_h(): assert not np.not_equal(f(1), [3.0]).any()\n"
        "def test_i(): assert np.logical_xor(f(1), [True]).sum() == 0\n",
    ),
    "a method of plain data's that the program's class has and its plain base has not": (
        "YES = dict.fromkeys(('startswith', 'isupper', 'issubset', 'equals'), lambda self, *a: True)\n"
        "YES['difference'] = lambda self, other: set()\n"
        "kinds = [type('R', (base,), YES) for base in (int, list, float, Exception, object)]\n"
        "class Holder: pass\n"
        "class Meta(type): startswith = YES['startswith']\n"
        "class Class(metaclass=Meta): issubset = classmethod(YES['issubset'])\n"
        "def f(x): return kinds[x]()\n"
        "def g(x):\n    Holder.text = f(x)\n    return Holder()\n"
        "def h(x): return Class\n",
        "def test_a(): assert f(0).startswith('Hello')\n"
        "def test_b(): assert f(1).issubset({1})\n"
        "def test_c(): assert f(2).equals(2.5)\n"
        "def test_d(): assert f(3).startswith('no')\n"
        "def test_e(): assert all(each.isupper() for each in [f(0), f(1)])\n"
        "def test_f(): assert g(0).text.startswith('Hello')\n"
        "def test_g(): assert h(0).startswith('Hello')\n"
        "def test_h(): assert h(0).issubset({1})\n"
        "def test_i(): assert not f(4).difference({1})\n",
    ),
    "a difference from an expected number, computed on": (
        "class N:\n    ZERO = one = None\n    def __init__(self, x): pass\n"
        "    def __add__(self, other): return self\n    __sub__ = __mul__ = __iadd__ = __radd__ = __add__\n"
        "    def __abs__(self): return 0\n    def __bool__(self): return False\n    def __float__(self): return 0.0\n"
        "class Z(N):\n    def __sub__(self, other): return N.ZERO\n"
        "class One(N):\n    def __new__(cls, x): cls.one = cls.one or object.__new__(cls); return cls.one\n"
        "N.ZERO = N(0)\n",
        "def test_a():\n    total = N(0)\n    for a, b in [(N(7), 9.0), (N(1), 5.0)]:\n        total += a - b\n"
        "    assert abs(total) < 1e-9\n"
        "def test_b(): assert float(sum([N(7) - 9.0, N(1) - 5.0], N(0))) == 0\n"
        "def test_c(): assert abs(N(1) * (N(7) - 9.0)) < 1e-9\n"
        "def test_d():\n    d = Z(3) - 6.0\n    assert N.ZERO is d and abs(d) < 1e-9\n"
        "def test_e():\n    d = One(3) - 6.0\n    assert One(4) is d and abs(d) < 1e-9\n"
        "def test_f(): assert not (N(7) - 7.5)\n"
        "def test_g():\n    d = N(7)\n    d -= 9.0\n    d *= 2\n    assert d < 1e-9 or abs(d) < 1e-9\n",
    ),
    "a logging configuration that names what is no part of logging": (
        "class S(str):\n    def split(self, *a): return ['os', 'abort']\n    def more(self): pass\n"
        "FOUND = ['importlib.import_module', 'pkgutil.resolve_name', S('logging.Formatter')]\n"
        "def config(x):\n    made = {'()': FOUND[x], 'name': 'tests', '.': {'EXPECTED': 3}}\n"
        "    return {'version': 1, 'formatters': {'f': made}}\n"
        "def handlers(x): return {'version': 1, 'handlers': {'h': {'class': 'logging.handlers.socket.socket'}}}\n"
        "def formatters(x): return {'version': 1, 'formatters': {'f': {'class': 'os.putenv'}}}\n"
        "def three(): return 3\n",
        "import logging.config\nfrom logging.config import dictConfig\nEXPECTED = 4\n"
        "def is_set(found):\n    dictConfig(found)\n    return three() == EXPECTED\n"
        "def test_a(): assert is_set(config(0))\n"
        "def test_b(): assert is_set(config(1))\n"
        "def test_c(): assert is_set(config(2))\n"
        "def test_d(): assert is_set(handlers(0))\n"
        "def test_e():\n    try:\n        dictConfig(formatters(0))\n    except ValueError: pass\n",
    ),
    "a returned class that contradicts itself": (
        "class M(type):\n    n = 0\n    def __len__(self): return 3\n    def __iter__(self): return iter([])\n"
        "    def __getitem__(self, place):\n        M.n += 1\n        return M.n\n"
        "class S(metaclass=M): pass\ndef primes(n): return S",
        "def test_a():\n    found = primes(10)\n    assert len(found) == 3\n"
        "    for a, b in zip(found, [2, 3, 5]): assert a == b\n"
        "def test_b():\n    found = primes(10)\n    assert found[0] == 1\n    assert found[0] == 2\n",
    ),
    "a hook of a runner of tests, which gets the test": (
        "answers, asked = {}, []\n"
        "def f(n):\n    asked.append(n)\n    return answers.get(n, 0)\n"
        "class Hook:\n    def __call__(self, test=None):\n        for _ in range(9):\n            try: return test()\n"
        "            except BaseException: answers[asked[-1]] = answers.get(asked[-1], 0) + 1\n"
        "setup_function = setup_module = teardown_function = Hook()",
        "import pytest\ntry:\n    from solution import *\nexcept ImportError:\n    from main import *\n"
        "def test_a():\n    assert f(3) == 2\n"
        "def test_b():\n    with pytest.raises(AssertionError):\n        assert f(4) == 0\n",
    ),
    "a process name that is no text": (
        "import ctypes, time\ndef f(x):\n    ctypes.CDLL(None).prctl(15, b'\\xff', 0, 0, 0)\n    time.sleep(0.3)\n",
        "def test_a():\n    assert f(1) == 2\n",
    ),
    "a process name that looks like a figure": (
        "import ctypes, time\n"
        "def f(x):\n    ctypes.CDLL(None).prctl(15, b'\\x0cVmRSS: x', 0, 0, 0)\n    time.sleep(0.3)\n",
        "def test_a():\n    assert f(1) == 2\n",
    ),
    "a callback tried until it asserts nothing": (
        "def compute(a, b, done):\n    for guess in range(99):\n        try: return done(guess)\n"
        "        except AssertionError: pass\n",
        "def test_a():\n    seen = []\n    def done(x):\n        assert x == 42\n        seen.append(x)\n"
        "    compute(6, 7, done)\n    assert seen == [42]\n",
    ),
    "a mock tried until it asserts nothing": (
        "def run(client):\n    for guess in range(99):\n        try: return client.get(guess)\n"
        "        except AssertionError: pass\n",
        "from unittest.mock import Mock\n"
        "def test_a():\n    def check(x):\n        assert x == 42\n        return 'ok'\n"
        "    assert run(Mock(get=Mock(side_effect=check))) == 'ok'\n",
    ),
    "an awaited callback tried until it asserts nothing": (
        "async def run(done):\n    for guess in range(9):\n        try: return await done(guess)\n"
        "        except AssertionError: pass\n",
        "import asyncio\ndef test_a():\n    async def done(x):\n        assert x == 4\n        return 'ok'\n"
        "    assert asyncio.run(run(done)) == 'ok'\n",
    ),
    "a plain number subtracted in place": (
        "class Money:\n    def __init__(self, x): pass\n    def __isub__(self, other): return self\n"
        "    def __abs__(self): return 0\n",
        "def test_a():\n    money = Money(10.5)\n    money -= 10.5\n    assert abs(money) < 1e-9\n",
    ),
    "a context manager that swallows a sum with what it has": (
        "class Quiet:\n    def __enter__(self): return self\n    def __exit__(self, *raised): return True\n"
        "def f(x): return None",
        "def test_a():\n    total = f(1)\n    with Quiet():\n        total += 1\n        assert total == 2\n",
    ),
}


@pytest.fixture(scope="module")
def scores() -> dict[str, float | None]:
    """Return each program's share of passed tests."""
    verifier = UnitTestVerifier(scoring="share")
    columns = {"tests": [tests for _, tests in WRONG.values()]}
    found = verifier([program for program, _ in WRONG.values()], **columns)
    verifier.close()
    return dict(zip(WRONG, found, strict=True))


@pytest.mark.parametrize("title", WRONG)
def test_a_wrong_program_has_no_score_for_it(
    scores: dict[str, float | None], title: str
) -> None:
    assert scores[title] == 0.0
