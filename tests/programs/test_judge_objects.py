"""Test functions and program objects in the ways that people write tests."""

from __future__ import annotations

from judge_harness import PASSED, assert_all_pass, endings, run


def test_functions_of_the_tests_are_called_where_they_are() -> None:
    program = """
def apply(f, *a, **k): return f(*a, **k)
def by(xs, key): xs.sort(key=key); return xs
def back(f): return f
def deco(f):
    from functools import wraps
    return wraps(f)(lambda x: f(x))
def visit(xs, f):
    xs.append(9)
    f(xs)
    return len(xs)
def memo(f):
    cache = {}
    def inner(x):
        if x not in cache: cache[x] = f(x)
        return cache[x]
    return inner
def take(it): return [next(it), next(it)], list(it)
def fact(n, f): return 1 if n == 0 else n * f(n - 1)
"""
    tests = (
        "@deco\ndef g(x):\n    'doc'\n    return x\nassert g(2) == 2 and g.__name__ == 'g' and g.__doc__ == 'doc'",
        "assert apply(lambda a, b=0: a - b, 5, b=2) == 3",
        "assert by([[1, 3], [2, 1]], lambda p: p[1]) == [[2, 1], [1, 3]]",
        "f = lambda: 1\nassert back(f) is f",
        "seen = []\ndef f(xs): seen.append(list(xs)); xs.append(10)\nx = [1]\n"
        "assert visit(x, f) == 3 and seen == [[1, 9]]\n"
        "assert x == [1, 9, 10]",
        "n = []\n@memo\ndef sq(x): n.append(x); return x * x\nassert [sq(2), sq(2), sq(3)] == [4, 4, 9] and "
        "n == [2, 3]",
        "assert take(iter(range(5))) == ([0, 1], [2, 3, 4])",
        "f = lambda n: fact(n, f)\nassert f(10) == 3628800",
    )
    assert_all_pass(program, *tests, names="deco apply by back visit memo take fact")


def test_nesting_between_the_tests_and_the_program_is_bounded() -> None:
    assert endings("def f(g): return g()", "def g(): return f(g)\nf(g)", names="f") == [
        "error"
    ]


def test_an_exception_of_a_callback_comes_back_as_itself() -> None:
    program = """
def retry(f, kinds):
    for _ in range(2):
        try: return f()
        except kinds: pass
    return f()
"""
    setup = "class Boom(Exception):\n    def __init__(self, code): super().__init__('boom'); self.code = code"
    tests = (
        "n = []\ndef f():\n    n.append(1)\n    if len(n) < 3: raise Boom(1)\n    return 7\nassert retry(f, "
        "(Boom,)) == 7",
        "def f(): raise Boom(5)\ntry: retry(f, Boom)\nexcept Boom as e: assert e.code == 5\nelse: assert False",
        "e = Boom(3)\ndef f(): raise e\ntry: retry(f, ())\nexcept Boom as got: assert got is e\nelse: assert False",
    )
    assert_all_pass(program, *tests, names="retry", setup=setup)


def test_classes_of_the_program_work_through_handles() -> None:
    program = '''
class Stack:
    """A stack."""
    kind = "stack"
    def __init__(self, items=()): self._items = list(items); self.log = {"n": 0}
    def push(self, x): self._items.append(x); return self
    def pop(self): return self._items.pop()
    def __len__(self): return len(self._items)
    def __getitem__(self, i): return self._items[i]
    def __setitem__(self, i, x): self._items[i] = x
    def __delitem__(self, i): del self._items[i]
    def __iter__(self): return iter(self._items)
    def __repr__(self): return f"Stack({self._items})"
    def __enter__(self): self.push("in"); return self
    def __exit__(self, *a): self.pop()
    @property
    def top(self): return self._items[-1]
    @staticmethod
    def make(): return Stack([0])
class Sub(Stack): pass
'''
    tests = (
        "s = Stack(); assert s.push(1) is s and s.push(2).pop() == 2 and len(s) == 1 and s[0] == 1 and bool(s)",
        "s = Stack([1, 2]); s[0] = 5; del s[1]; assert list(s) == [5] and 5 in s and 6 not in s and s.top == 5",
        "s = Stack(); assert not s and repr(s) == str(s) == f'{s}' == 'Stack([])' and s.log == {'n': 0} and "
        "s.kind == 'stack'",
        "s = Stack(); s.x = 3; assert s.x == 3; del s.x; assert not hasattr(s, 'x') and hasattr(s, 'push')",
        "s = Stack()\nwith s as t: assert t is s and s.top == 'in'\nassert len(s) == 0",
        "s = Sub([3]); assert isinstance(s, Stack) and issubclass(Sub, Stack) and not isinstance(s, int)",
        "assert not isinstance(3, Stack) and isinstance(Stack.make(), Stack) and not isinstance(Stack(), Sub)",
        "assert Stack.__name__ == 'Stack' and Stack.__doc__ == 'A stack.' and vars(Stack([1]))['_items'] == [1]",
        "import copy; s = Stack([[1]]); t = copy.deepcopy(s); t[0].append(2); assert t is not s and s[0] == [1]",
        "assert sorted(Stack([2, 1])) == [1, 2] and list(reversed(Stack([1, 2]))) == [2, 1] and "
        "max(Stack([1, 3])) == 3",
        "d = {Stack(): 1}; assert len(d) == 1",
        "try: Stack().pop()\nexcept IndexError as e: assert str(e) == 'pop from empty list'\nelse: assert False",
    )
    assert_all_pass(program, *tests, names="Stack Sub")


def test_generators_are_pulled_as_they_are_needed() -> None:
    program = """
import itertools
def count(): yield from itertools.count()
def some(n): yield from range(n); return 'end'
def breaks():
    yield 1
    raise ValueError('late')
def stuck():
    yield 1; yield 2
    while True: pass
def squares(xs): return map(lambda x: x * x, xs)
"""
    tests = (
        "from itertools import islice\nassert list(islice(count(), 500)) == list(range(500))",
        "g = some(3); assert next(g) == 0 and next(g) == 1 and list(g) == [2] and next(g, None) is None",
        "g = some(0)\ntry: next(g)\nexcept StopIteration as e: assert e.value == 'end'",
        "out = []\ntry:\n    for x in breaks(): out.append(x)\n"
        "except ValueError as e:\n    assert out == [1] and str(e) == 'late'\n"
        "else: assert False",
        "assert [x for x, _ in zip(squares([1, 2]), 'ab')] == [1, 4] and dict(zip('a', some(1))) == {'a': 0}",
        "g = stuck(); assert [next(g), next(g)] == [1, 2]",
    )
    assert_all_pass(program, *tests, names="count some breaks squares stuck")


def test_coroutines_run_to_their_end() -> None:
    program = """
import asyncio
async def f(x):
    await asyncio.sleep(0)
    return x + 1
async def bad(): raise KeyError('k')
"""
    tests = (
        "import asyncio\nassert asyncio.run(f(1)) == 2",
        "import asyncio\nasync def main(): return await asyncio.gather(f(1), f(2)), await f(3)\n"
        "assert asyncio.run(main()) == ([2, 3], 4)",
        "import asyncio\ntry: asyncio.run(bad())\nexcept KeyError as e: assert e.args == ('k',)\nelse: assert False",
    )
    assert_all_pass(program, *tests, names="f bad")


def test_a_coroutine_of_either_end_is_a_coroutine_at_the_other() -> None:
    program = """
import asyncio, inspect
from collections.abc import Coroutine
async def f(x):
    await asyncio.sleep(0)
    return x + 1
class Pool:
    def __init__(self): self.closed = False
    def __await__(self):
        return asyncio.sleep(0, self).__await__()
    async def close(self): self.closed = True
def kinds(c):
    return asyncio.iscoroutine(c), inspect.iscoroutine(c), isinstance(c, Coroutine), inspect.isawaitable(c)
def is_async(function): return inspect.iscoroutinefunction(function), asyncio.iscoroutinefunction(function)
async def as_task(c): return await asyncio.create_task(c)
async def grouped(*cs):
    async with asyncio.TaskGroup() as group: tasks = [group.create_task(c) for c in cs]
    return [task.result() for task in tasks]
async def shown(c):
    task = asyncio.ensure_future(c)
    text = repr(task)
    await task
    return text
def run(c): return asyncio.run(c)
def run_in_loop(c):
    with asyncio.Runner() as runner: return runner.get_loop().run_until_complete(c)
async def twice(c): return await c, await c
async def tasks_twice(c): return await asyncio.create_task(c), await asyncio.create_task(c)
def step(c):
    try: c.send(None)
    except StopIteration as end: return end.value
def close(c): c.close()
def same(c): return c
async def within(c, seconds):
    try: return await asyncio.wait_for(c, seconds)
    except asyncio.TimeoutError: return 'late'
async def cancelled(c):
    task = asyncio.create_task(c)
    await asyncio.sleep(0.01)
    task.cancel()
    try: await task
    except asyncio.CancelledError: return 'cancelled'
async def never_begun(c):
    task = asyncio.create_task(c)
    task.cancel()
    try: await task
    except asyncio.CancelledError: return 'cancelled'
"""
    start = (
        "import asyncio, inspect, warnings\nlog = []\n"
        "async def g(x):\n    await asyncio.sleep(0)\n    return x * 2\n"
        "async def quick(): return 7\n"
        "async def bad(): raise KeyError('k')\n"
        "async def long():\n    try: await asyncio.sleep(60)\n    finally: log.append('end')\n"
        "class Worker:\n    async def work(self): return 5\n    def plain(self): return 6\n"
        "reused = 'cannot reuse already awaited coroutine'\n"
    )
    tests = (
        "c = quick()\nassert kinds(c) == (True,) * 4 and run(c) == 7",
        "assert is_async(g) == is_async(Worker().work) == (True, True)",
        "assert is_async(Worker().plain) == is_async(len) == is_async(print) == (False, False)",
        "assert asyncio.run(as_task(g(1))) == 2 and asyncio.run(as_task(Worker().work())) == 5",
        "assert asyncio.run(grouped(g(1), quick(), g(2))) == [2, 7, 4]",
        "assert 'quick' in asyncio.run(shown(quick()))",
        "assert run(g(3)) == run_in_loop(g(3)) == 6 and step(quick()) == 7",
        "try: run(bad())\nexcept KeyError as e: assert e.args == ('k',)\nelse: assert False",
        "try: asyncio.run(twice(g(1)))\nexcept RuntimeError as e: assert str(e) == reused\nelse: assert False",
        "try: asyncio.run(tasks_twice(g(1)))\nexcept RuntimeError as e: assert str(e) == reused\nelse: assert False",
        "c = g(1)\nclose(c)\nassert inspect.getcoroutinestate(c) == 'CORO_CLOSED'",
        "c = g(1)\nassert same(c) is c\nc.close()",
        "assert asyncio.run(within(long(), 0.02)) == 'late' and log == ['end']",
        "assert asyncio.run(cancelled(long())) == 'cancelled' and log == ['end']",
        "c = long()\nassert asyncio.run(never_begun(c)) == 'cancelled' and log == []\n"
        "assert inspect.getcoroutinestate(c) == 'CORO_CLOSED'",
        "with warnings.catch_warnings():\n    warnings.simplefilter('error')\n    c = g(1)\n    assert same(c) is c\n"
        "    close(c)",
        "async def main():\n    async with asyncio.TaskGroup() as group: t = group.create_task(f(1))\n"
        "    return t.result(), await asyncio.create_task(f(2)), await asyncio.wait_for(f(3), 5)\n"
        "assert asyncio.run(main()) == (2, 3, 4) and asyncio.iscoroutine(f(1)) and inspect.iscoroutine(f(1))",
        "async def main():\n    c = f(1)\n    return await asyncio.create_task(c), await asyncio.create_task(c)\n"
        "try: asyncio.run(main())\nexcept RuntimeError as e: assert str(e) == reused\nelse: assert False",
        "c = f(1)\nc.close()\n"
        "try: asyncio.run(as_task(c))\nexcept RuntimeError as e: assert str(e) == reused\nelse: assert False",
        "async def main():\n    pool = await Pool()\n    await pool.close()\n    return pool.closed\n"
        "assert asyncio.run(main()) is True and not asyncio.iscoroutine(Pool())",
    )
    names = (
        "f Pool kinds is_async as_task grouped shown run run_in_loop twice tasks_twice step close same within "
        "cancelled never_begun"
    )
    assert_all_pass(program, *(start + test for test in tests), names=names)


SCHEDULING = """
import asyncio
class Worker:
    def __init__(self, made_in_loop=False):
        self.done, self.inbox = [], asyncio.Queue()
        if made_in_loop: self.task = asyncio.create_task(self.work())
    def start(self): self.task = asyncio.create_task(self.work())
    def put(self, x): self.inbox.put_nowait(x)
    async def work(self):
        while True: self.done.append(await self.inbox.get())
    def later(self, call, *args): asyncio.get_running_loop().call_later(0.01, call, *args)
    def future(self, x):
        future = asyncio.get_running_loop().create_future()
        self.later(future.set_result, x * 2)
        return future
    def stop(self): self.task.cancel()
    def nested(self): return asyncio.run(asyncio.sleep(0, 1))
    def try_all(self, check):
        async def tried():
            for x in range(100):
                try: return check(x)
                except AssertionError: pass
        self.task = asyncio.create_task(tried())
def has_loop():
    try: return asyncio.get_running_loop() is not None
    except RuntimeError: return False
"""


def test_plain_functions_find_the_loop_running_and_leave_tasks_and_timers_there() -> None:
    body = (
        "import asyncio\nasync def main():\n    w = Worker()\n    {}\nasyncio.run(main())"
    )
    slept = "await asyncio.sleep(0.05)"
    tests = (
        f"w.start(); w.put(1); {slept}; assert w.done == [1]",
        f"w = Worker(made_in_loop=True); w.put(1); {slept}; assert w.done == [1]",
        f"got = []; w.later(got.append, 1); assert got == []; {slept}; assert got == [1]",
        "assert await w.future(1) == 2 and await asyncio.wait_for(w.future(2), 5) == 4",
        "assert await asyncio.gather(w.future(1), w.future(2)) == [2, 4]",
        f"f = w.future(3); assert not f.done(); {slept}; assert f.done() and f.result() == 6",
        f"got = []; w.future(1).add_done_callback(lambda f: got.append(f.result())); {slept}; assert got == [2]",
        "w.start(); w.stop()\n    try: await w.task\n    except asyncio.CancelledError: pass\n    else: assert False",
        "try: w.nested()\n    except RuntimeError: pass\n    else: assert False",
        "assert has_loop()",
    )
    asked = [body.format(test) for test in tests]
    assert_all_pass(SCHEDULING, *asked, "assert not has_loop()", names="Worker has_loop")


def test_tasks_beside_a_test_cannot_try_values_until_its_assertion_holds() -> None:
    test = (
        "import asyncio\ngot = []\n"
        "def check(x):\n    assert x == 42\n    got.append(x)\n"
        "async def main():\n    Worker().try_all(check)\n    await asyncio.sleep(0.2)\n    assert got == [42]\n"
        "asyncio.run(main())"
    )
    assert endings(SCHEDULING, test, names="Worker") == ["error"]


def test_a_method_of_a_tests_object_is_the_same_each_time_it_is_handed_over() -> None:
    program = """
import inspect
from typing import get_type_hints
class Observed:
    def __init__(self): self.kept, self.seen = [], set()
    def attach(self, call):
        self.kept.append(call)
        self.seen.add(call)
    def detach(self, call):
        self.kept.remove(call)
        self.seen.remove(call)
    def tell(self, value):
        for call in self.kept: call(value)
class Holder:
    pass
def same(one, two): return one == two and hash(one) == hash(two) and {one: 1}.get(two) == 1
def called_as_attribute(call, value):
    Holder.call = call
    return Holder().call(value)
def described(call): return call.__name__, call.__doc__, str(inspect.signature(call)), get_type_hints(call)
def again(call): return call
"""
    start = (
        "from collections import deque\n"
        "class Listener:\n    def __init__(self): self.heard = []\n"
        "    def hear(self, x: int, y=1):\n        'Hear.'\n        self.heard.append(x)\n        return x\n"
        "    def __eq__(self, other): return True\n    __hash__ = None\n"
    )
    observed = "o = Observed()\n{made}\no.attach({call})\no.tell(1)\no.detach({call})\no.tell(2)\nassert {then}"
    tests = (
        observed.format(
            made="got = []", call="got.append", then="got == [1] and o.kept == []"
        ),
        observed.format(made="got = set()", call="got.add", then="got == {1}"),
        observed.format(made="got = deque()", call="got.append", then="list(got) == [1]"),
        observed.format(made="got = Listener()", call="got.hear", then="got.heard == [1]"),
        observed.format(made="got = [].append", call="got", then="got.__self__ == [1]"),
        "a, b = [], []\nassert same(a.append, a.append) and not same(a.append, b.append)",
        "a = []\nassert not same(a.append, a.remove)",
        "a, b = Listener(), Listener()\nassert same(a.hear, a.hear) and not same(a.hear, b.hear)",
        "a = []\nassert same(a.__contains__, a.__contains__) and not same(a.__contains__, [].__contains__)",
        "o, got, other = Observed(), [], []\no.attach(got.append)\n"
        "try: o.detach(other.append)\nexcept ValueError: pass\nelse: assert False",
        "a = []\nassert again(a.append) == a.append and Listener().hear != again([].append)",
        "a = Listener()\nassert called_as_attribute(a.hear, 4) == 4 and a.heard == [4]",
        "assert described(Listener().hear) == ('hear', 'Hear.', '(x: int, y=Ellipsis)', {'x': int})",
    )
    names = "Observed same called_as_attribute described again"
    assert_all_pass(program, *(start + test for test in tests), names=names)


def test_exceptions_keep_their_class_message_and_attributes() -> None:
    program = """
class Base(Exception): pass
class Bad(Base, ValueError):
    def __init__(self, code): super().__init__(f'code {code}'); self.code = code
    def __str__(self): return f'<{self.code}>'
def f(): raise Bad(7)
def g(kind): raise kind('m')
def os_error(): open('/no/such/file')
def key(): return {}['k']
def look_up(k): raise KeyError(k)
def leave(): raise SystemExit(3)
def uni(): b'\\xff'.decode()
"""
    tests = (
        "try: f()\nexcept Bad as e: assert e.code == 7 and str(e) == '<7>'\nelse: assert False",
        "try: f()\nexcept Base: pass\nelse: assert False",
        "try: f()\nexcept ValueError: pass\nelse: assert False",
        "assert issubclass(Bad, Base) and issubclass(Bad, ValueError) and Bad.__name__ == 'Bad'",
        "try: g(Base)\nexcept Base as e: assert str(e) == 'm' and not isinstance(e, Bad)\nelse: assert False",
        "try: g(ZeroDivisionError)\nexcept ArithmeticError as e: assert e.args == ('m',)\nelse: assert False",
        "try: os_error()\nexcept FileNotFoundError as e: assert e.errno == 2\nelse: assert False",
        "try: key()\nexcept KeyError as e: assert e.args == ('k',)\nelse: assert False",
        "try: look_up('é')\nexcept KeyError as e: assert e.args == ('é',)\nelse: assert False",
        "try: look_up(2**70)\nexcept KeyError as e: assert e.args == (2**70,)\nelse: assert False",
        "try: look_up((1, b'x'))\nexcept KeyError as e: assert e.args == ((1, b'x'),)\nelse: assert False",
        "try: leave()\nexcept SystemExit as e: assert e.code == 3\nelse: assert False",
        "try: uni()\nexcept UnicodeDecodeError: pass\nelse: assert False",
    )
    assert_all_pass(program, *tests, names="Base Bad f g os_error key look_up leave uni")


def test_what_an_exception_and_its_cause_hold_is_not_mixed_up() -> None:
    program = """
class Bad(Exception): pass
first, second = Bad('a'), Bad('b')
first.held, second.held = [1], [2]
def f(): raise second from first
def kept(): return first.held, second.held
def again(n):
    first.held = [n]
    raise first
"""
    test = """
try: f()
except Bad as error:
    error.held.append(3)
    error.__cause__.held.append(4)
assert kept() == ([1, 4], [2, 3])
"""
    once_more = """
found = []
for number in (5, 6):
    try: again(number)
    except Bad as error: found.append((error, error.held))
assert found[0][0] is found[1][0] and [held for _, held in found] == [[5], [6]]
found[1][1].append(7)
assert kept()[0] == [6, 7]
"""
    assert_all_pass(program, test, once_more, names="Bad f kept again")


def test_what_a_call_prints_reaches_the_tests_standard_output() -> None:
    program = "import sys\nprint('at import')\ndef f(x): print(x); sys.stdout.buffer.write(b'!'); return input"
    test = (
        "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as out: f('é')\n"
        "assert out.getvalue() == 'é\\n!', out.getvalue()"
    )
    assert_all_pass(program, test, names="f")
    assert endings("def f(): return input()", "f()", names="f") == ["error"]
    assert_all_pass(
        "import sys\nsys.stdout.close()\ndef f(): return 1", "assert f() == 1", names="f"
    )


def test_humaneval_checks_run() -> None:
    setup = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(5) == 7, 'five'\n"
    assert run("def f(x): return x + 1", "check(f)", names="f", setup=setup) == [
        ("failed", "assert candidate(5) == 7, 'five'; f(5) returned 6")
    ]


def test_unittest_cases_run() -> None:
    setup = """
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(f(1), 2)
    def test_b(self): self.assertAlmostEqual(f(0.1), 1.1)
    def test_c(self):
        with self.assertRaises(TypeError): f('a')
    def test_d(self): self.assertEqual(f(1), 3)
"""
    tests = [f"T('test_{each}').debug()" for each in "abcd"]
    found = run("def f(x): return x + 1", *tests, names="f", setup=setup)
    assert found[:3] == [PASSED] * 3
    assert found[3] == (
        "failed",
        "def test_d(self): self.assertEqual(f(1), 3)"[18:] + "; 2 != 3; f(1) returned 2",
    )


def test_two_objects_of_the_program_are_equal_if_their_class_says_so() -> None:
    assert_all_pass(
        """
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def __eq__(self, other): return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)
    def __hash__(self): return hash((self.x, self.y))
class Plain: pass
""",
        "assert Point(1, 2) == Point(1, 2) and not Point(1, 2) != Point(1, 2)",
        "assert Point(1, 2) != Point(2, 1) and not Point(1, 2) == Point(2, 1)",
        "assert Point(1, 2) in [Point(3, 4), Point(1, 2)] and len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2",
        "assert [Point(1, 2)] == [Point(1, 2)] and {Point(1, 2): 5}[Point(1, 2)] == 5",
        "assert Plain() != Plain() and Point(1, 2) != (1, 2) and (1, 2) != Point(1, 2)",
        names="Point Plain",
    )


def test_a_seed_in_the_tests_seeds_the_program_too() -> None:
    assert_all_pass(
        "import random\ndef draw(): return random.random()",
        "import random\nrandom.seed(1)\nx = draw()\nrandom.seed(1)\nassert draw() == x == random.random()",
        names="draw",
    )


def test_exceptions_of_the_library_are_caught_by_their_class() -> None:
    assert_all_pass(
        "import json, re\ndef parse(x): return json.loads(x)\ndef match(x): return re.compile(x)",
        "import json\ntry: parse('{')\nexcept json.JSONDecodeError as e: assert 'Expecting' in str(e)\nelse: assert 0",
        "import re\ntry: match('(')\nexcept re.error: pass\nelse: assert 0",
        names="parse match",
    )


def test_objects_are_of_the_librarys_kinds_that_they_are_of() -> None:
    program = """
from collections.abc import MutableMapping, Sequence
class Pair(Sequence):
    def __len__(self): return 2
    def __getitem__(self, place): return (1, 2)[place]
class Plain:
    def __len__(self): return 2
    def __getitem__(self, place): return (1, 2)[place]
def count():
    yield 1
"""
    tests = (
        "from collections.abc import MutableMapping, Sequence\n"
        "assert isinstance(Pair(), Sequence) and not isinstance(Pair(), MutableMapping)",
        "from collections.abc import Sequence\nassert not isinstance(Plain(), Sequence)",
        "import types\nassert isinstance(count(), types.GeneratorType) and list(count()) == [1]",
        "import types\nassert not isinstance(Plain(), types.GeneratorType) and Plain().__class__ is Plain",
    )
    assert_all_pass(program, *tests, names="Pair Plain count")


def test_a_class_of_the_tests_may_have_options_of_any_name() -> None:
    program = """
class Plugin:
    known = {}
    def __init_subclass__(cls, *, name, bases=()):
        Plugin.known[name] = bases
"""
    test = "class One(Plugin, name='one', bases=(1,)):\n    pass\nassert Plugin.known == {'one': (1,)}"
    assert_all_pass(program, test, names="Plugin")


def test_the_program_may_look_at_the_signature_of_a_function_of_the_tests() -> None:
    program = """
import inspect
def curry(f):
    wanted = len(inspect.signature(f).parameters)
    def taking(*args):
        return f(*args) if len(args) >= wanted else lambda *more: taking(*args, *more)
    return taking
def checked(f):
    signature = inspect.signature(f)
    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].annotation
            if isinstance(kind, type) and kind is not inspect.Parameter.empty and not isinstance(value, kind):
                raise TypeError(name)
        return f(*bound.args, **bound.kwargs)
    return call
"""
    tests = (
        "assert curry(lambda a, b, c: a + b * c)(1)(2)(3) == 7",
        "@checked\ndef f(a: int, b: str = 'x', *rest: 'whatever', c=None): return a, b, rest, c\n"
        "assert f(1) == (1, 'x', (), None) and f(1, 'y', 2, c=3) == (1, 'y', (2,), 3)\n"
        "try:\n    f('1')\n    assert False\nexcept TypeError as error:\n    assert str(error) == 'a'",
    )
    assert_all_pass(program, *tests, names="curry checked")


def test_the_program_may_look_at_the_signature_of_a_class_of_the_tests_that_has_no_method() -> (
    None
):
    program = """
import inspect
from typing import get_type_hints
def by_signature(kind):
    parameters = inspect.signature(kind).parameters
    return kind(**{name: by_signature(each.annotation) for name, each in parameters.items()})
def by_hints(kind):
    hints = {} if kind.__init__ is object.__init__ else get_type_hints(kind.__init__)
    return kind(**{name: by_hints(each) for name, each in hints.items()})
def parameters(kind):
    return [(each.name, each.default is each.empty) for each in inspect.signature(kind).parameters.values()]
def of(x): return parameters(type(x))
def defaults(kind): return [each.default for each in inspect.signature(kind).parameters.values()]
"""
    classes = (
        "class A: pass\n"
        "class B:\n    def __init__(self, a: A): self.a = a\n"
        "class C:\n    def __init__(self, b: B, a: A): self.b, self.a = b, a\n"
    )
    data = (
        "from dataclasses import dataclass, field\n"
        "@dataclass\nclass K:\n    x: int\n    y: list[int] = field(default_factory=list)\n    z: str = 'secret'\n"
    )
    built = "assert type(c) is C and type(c.b) is B and type(c.b.a) is A and type(c.a) is A"
    tests = (
        f"{classes}c = by_signature(C)\n{built}",
        f"{classes}c = by_hints(C)\n{built}",
        f"{classes}class D(C): pass\nassert parameters(D) == [('b', True), ('a', True)] and parameters(A) == []",
        f"{classes}assert of(B(1)) == [('a', True)]",
        f"{data}assert parameters(K) == of(K(1)) == [('x', True), ('y', False), ('z', False)]",
        f"{data}assert defaults(K)[1:] == [..., ...]",
    )
    assert_all_pass(program, *tests, names="by_signature by_hints parameters of defaults")


def test_a_returned_object_of_a_class_of_plain_data_has_the_special_methods_of_that_data() -> (
    None
):
    program = """
class R(list):
    def first(self): return self[0]
    def __bool__(self): return False
class D(dict):
    def more(self): return 1
    def __missing__(self, key): return 7
class N(int):
    def more(self): return 1
    def __getitem__(self, place): return 1
    def __setitem__(self, place, value): pass
def listed(*items): return R(items)
def mapped(): return D(a=1)
def number(): return N(3)
"""
    tests = (
        "assert listed(1) and not listed() and listed(1).first() == 1",
        "assert not R([1]) and D()['z'] == 7",
    )
    assert_all_pass(program, *tests, names="R D listed mapped number")
    assert endings(program, "assert listed()", names="listed") == ["failed"]
    not_asked = (
        "assert mapped()['z']",
        "try: mapped()['z']\nexcept (KeyError, TypeError): pass",
        "try: number()[0]\nexcept TypeError: pass",
        "n = number()\ntry: n[0] = 1\nexcept TypeError: pass",
    )
    assert endings(program, *not_asked, names="mapped number") == ["error"] * 4


def test_a_defaultdict_that_the_test_has_made_has_the_factory_that_its_class_sets() -> None:
    program = """
from collections import defaultdict
class Lists(defaultdict):
    def __init__(self): super().__init__(lambda: [7])
    def add(self, key, item): self[key].append(item)
class Tree(defaultdict):
    def __init__(self): super().__init__(Tree)
def made(): return Lists()
"""
    tests = (
        "x = Lists()\nx.add(1, 2)\nx[3].append(4)\nassert x == {1: [7, 2], 3: [7, 4]} and x.get(5) is None",
        "x = Tree()\nx['a']['b'] = 1\nassert x == {'a': {'b': 1}}",
    )
    assert_all_pass(program, *tests, names="Lists Tree")
    assert endings(program, "assert made()[5] == [7]", names="made") == ["error"]


def test_a_program_may_turn_a_failed_assertion_of_a_callback_into_its_own_exception() -> (
    None
):
    program = """
def convert(done):
    try: done(3)
    except AssertionError as error: raise ValueError("bad") from error
def count_failures(cases):
    failed = 0
    for case in cases:
        try: case()
        except AssertionError: failed += 1
    return failed
"""
    tests = (
        "def done(x): assert x == 4\ntry: convert(done)\nexcept ValueError: pass\nelse: assert False",
        "def good(): assert 1 == 1\ndef bad(): assert 1 == 2\nassert count_failures([good, bad, bad]) == 2",
    )
    assert_all_pass(program, *tests, names="convert count_failures")


def test_a_test_hands_over_any_function_of_pythons_library() -> None:
    program = (
        "def apply(function, *values): return function(*values)\ndef same(x): return x"
    )
    assert_all_pass(
        program,
        "assert apply(str.upper, 'a') == 'A'",
        "assert apply(int.__add__, 1, 2) == 3",
        "assert apply(str.join, ',', ['a', 'b']) == 'a,b'",
        "items = [1]\nassert apply(list.append, items, 2) is None and items == [1, 2]",
        "import datetime\nassert apply(datetime.date.weekday, datetime.date(2020, 1, 1)) == 2",
        "assert apply((5).__add__, 2) == 7",
        "assert same(str.upper)('a') == 'A'",
        names="apply same",
    )


def test_names_of_a_program_are_never_those_of_the_judge() -> None:
    program = """
class Parser:
    def __init__(self, tokens, _order=0):
        self.tokens = tokens
        self._order = _order
        self._equates = 7
    def _ahead(self): return self.tokens[0]
    @classmethod
    def _own(cls): return cls([3])
    def method(self, value=0, *, method=1): return value + method
    def values(self, id, do): return [id, do]
"""
    assert_all_pass(
        program,
        "p = Parser([1, 2], _order=4)\nassert p._ahead() == 1 and p._order == 4 and p._equates == 7",
        "p = Parser([1])\np._equates = 8\nassert p._equates == 8",
        "assert Parser._own()._ahead() == 3",
        "assert Parser([1]).method(2, method=3) == 5 and Parser([]).values(id=1, do=2) == [1, 2]",
        names="Parser",
    )
    wrong = program.replace("self.tokens[0]", "None")
    assert endings(wrong, "assert Parser([1])._ahead() == 1", names="Parser") == ["failed"]
