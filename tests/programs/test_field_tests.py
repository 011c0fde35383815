"""Tests in the style of HumanEval+ and MBPP+ work in the sandbox: numpy, and values of many megabytes."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from walls import level_or_skip, walls_or_skip

from trl_grpo_ext.doctor import LEVELS
from trl_grpo_ext.programs.sandbox import packages
from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job, Limits
from trl_grpo_ext.programs.sandbox.local import LocalSandbox

walls_or_skip()

CLOSE = """
import numpy as np

def assertion(out, exp):
    if not out == exp:
        assert np.allclose(out, exp, rtol=1e-07, atol=1e-06)
"""
THIRDS = CallSuite(
    setup=CLOSE, tests=("assertion(thirds(2), [1 / 3, 2 / 3])",), names=("thirds",)
)
RIGHT = "def thirds(n): return [k / 3 + 1e-9 for k in range(1, n + 1)]\n"
WRONG = "def thirds(n): return [k / 2 for k in range(1, n + 1)]\n"

MINE = "import numpy as np\ndef thirds(n): return np.arange(1, n + 1) / 3\n"
LONG = Limits(wall_seconds=30.0, cpu_seconds=30.0)


def endings(
    sandbox: LocalSandbox, suite: CallSuite, *programs: str, limits: Limits = LONG
) -> list[Ending]:
    jobs = [Job(program=program, suite=suite, limits=limits) for program in programs]
    return [outcome.ending for outcome in sandbox.run(jobs)]


def calls(*tests: str, names: str, setup: str = "") -> CallSuite:
    return CallSuite(setup=setup, tests=tests, names=tuple(names.split()))


@pytest.mark.parametrize("isolation", LEVELS, ids=lambda isolation: isolation.name.lower())
def test_tests_and_programs_may_import_numpy_behind_all_walls(isolation: Isolation) -> None:
    level_or_skip(isolation)
    sandbox = LocalSandbox(1, isolation=isolation)
    try:
        found = endings(sandbox, THIRDS, RIGHT, WRONG, MINE, RIGHT + "pass\n")
    finally:
        sandbox.close()
    # An array has no truth value, as outside the sandbox.
    assert found == [Ending.PASSED, Ending.FAILED, Ending.ERROR, Ending.PASSED]


def test_a_seed_of_numpy_is_set_at_both_ends(sandbox: LocalSandbox) -> None:
    test = (
        "import numpy as np\nnp.random.seed(0)\na = draw()\nnp.random.seed(0)\nassert np.allclose(a, draw())\n"
        "np.random.seed(0)\nassert np.allclose(a, np.random.rand(3))"
    )
    program = "import numpy\ndef draw(): return numpy.random.rand(3)"
    unseeded = "import numpy\ndef draw(): return numpy.random.default_rng().random(3)"
    assert endings(sandbox, calls(test, names="draw"), program, unseeded) == [
        Ending.PASSED,
        Ending.FAILED,
    ]


USES_NUMPY = """
import numpy as np
def kinds(x): return np.unique(x).tolist()
def signs(x): return np.where(np.array(x) > 0, 1, 0).tolist()
def middle(x): return float(np.percentile(x, 50))
def draw(): return np.random.rand(2).tolist()
def pick(seed): return int(np.random.default_rng(seed).choice([3, 5]))
"""
PATCHES = (
    "from unittest.mock import patch",
    "import sys\nsys.argv = ['solution.py', '3']",
    "import solution\nsetattr(solution, 'LIMIT', 3)",
    "import solution\nsolution.LIMIT = 3",
)


@pytest.mark.parametrize("patches", PATCHES)
def test_tests_that_use_numpy_and_patch_leave_the_programs_numpy_as_it_is(
    sandbox: LocalSandbox, patches: str
) -> None:
    tests = (
        "assert kinds([2, 1, 2]) == [1, 2] and signs([1, -1]) == [1, 0]",
        "assert middle([1, 2, 3]) == 2 and len(draw()) == 2 and pick(1) in (3, 5)",
    )
    wrong = USES_NUMPY.replace("> 0", ">= 0").replace("50", "60").replace("unique", "sort")
    suite = calls(
        *tests, names="kinds signs middle draw pick", setup=f"import numpy as np\n{patches}"
    )
    assert endings(sandbox, suite, USES_NUMPY, wrong) == [Ending.PASSED, Ending.FAILED]


def test_a_function_of_numpy_that_the_tests_patch_is_patched_until_the_patch_ends(
    sandbox: LocalSandbox,
) -> None:
    tests = (
        "with patch('numpy.random.rand') as rand:\n    rand.return_value = np.array([.5, 2])\n"
        "    assert draw() == [.5, 2]\nrand.assert_called_once_with(2)\nassert draw() != [.5, 2]",
        "with patch.object(np, 'unique', return_value=np.array([7])): assert kinds([2]) == [7]\n"
        "assert kinds([2]) == [2]",
        # A function that the judge has guarded against arrays without items.
        "with patch('numpy.array', return_value=np.ones(1)): assert signs([-1]) == [1]\nassert signs([-1]) == [0]",
    )
    wrong = USES_NUMPY.replace("np.random.rand(2)", "np.random.random(2)")
    suite = calls(
        *tests,
        names="kinds signs draw",
        setup="import numpy as np\nfrom unittest.mock import patch",
    )
    assert endings(sandbox, suite, USES_NUMPY, wrong) == [Ending.PASSED, Ending.FAILED]


OF_NUMPY = """
import numpy as np
class Mine(np.linalg.LinAlgError): pass
def invert(x): return np.linalg.inv(np.array(x)).tolist()
def total(): return np.sum(np.ones(3), axis=3)
def mine(): raise Mine('own')
def wrapped():
    try: invert([[0.0]])
    except np.linalg.LinAlgError as error: raise OSError('wrapped') from error
def tried(f):
    try: return f()
    except np.linalg.LinAlgError as error: return str(error)
"""


@pytest.mark.parametrize(
    "patch",
    [
        "with patch('numpy.random.rand', return_value=[.5, 2]) as rand:",
        "with patch.object(importlib.import_module('numpy.random'), 'rand', return_value=[.5, 2]) as rand:",
    ],
)
def test_a_package_that_only_a_patch_names_is_patched_until_the_patch_ends(
    sandbox: LocalSandbox, patch: str
) -> None:
    program = "import numpy\ndef draw(): return list(numpy.random.rand(2))"
    wrong = program.replace("rand(2)", "random(2)")
    test = f"{patch}\n    assert draw() == [.5, 2]\nrand.assert_called_once_with(2)\nassert draw() != [.5, 2]"
    setup = "import importlib\nfrom unittest.mock import patch"
    suite = calls(test, names="draw", setup=setup)
    assert endings(sandbox, suite, program, wrong) == [Ending.PASSED, Ending.FAILED]


RAISES = "import unittest\nimport numpy as np\nraises = unittest.TestCase().assertRaises"
EXPECTS = (
    "with raises(np.linalg.LinAlgError) as e: invert([[0.0]])\n"
    "assert type(e.exception) is np.linalg.LinAlgError and e.exception.args == ('Singular matrix',)",
    "try: invert([[0.0]])\nexcept np.linalg.LinAlgError as error: assert str(error) == 'Singular matrix'\n"
    "else: assert False",
    "with raises(np.linalg.LinAlgError): mine()",
    "with raises(OSError) as e: wrapped()\nassert isinstance(e.exception.__cause__, np.linalg.LinAlgError)",
    # The text of this class is made of an attribute that does not cross.
    "with raises(np.exceptions.AxisError) as e: total()\nassert 'axis 3 is out of bounds' in str(e.exception)\n"
    "assert (e.exception.axis, e.exception.ndim) == (3, 1) and isinstance(e.exception, ValueError)",
    "def fail(): raise np.linalg.LinAlgError('of the tests')\nassert tried(fail) == 'of the tests'",
)


def test_an_exception_of_a_package_is_of_its_class_where_the_tests_name_that(
    sandbox: LocalSandbox,
) -> None:
    suite = calls(
        *EXPECTS,
        names="invert total mine wrapped tried",
        setup=RAISES,
    )
    (result,) = sandbox.run([Job(program=OF_NUMPY, suite=suite, limits=LONG)])
    assert [test.detail for test in result.tests] == [""] * len(EXPECTS)


def test_a_class_of_the_program_is_no_exception_of_a_package_whatever_it_calls_itself(
    sandbox: LocalSandbox,
) -> None:
    test = "with raises(np.linalg.LinAlgError): invert(0)"
    suite = calls(test, names="invert", setup=RAISES)
    own = "class LinAlgError(ValueError): __module__ = 'numpy.linalg'\n"
    wrongs = [
        f"{own}def invert(x): raise LinAlgError('Singular matrix')",
        "def invert(x): raise ValueError('Singular matrix')",
        "import numpy\ndef invert(x): return numpy.linalg.LinAlgError('Singular matrix')",
    ]
    assert endings(sandbox, suite, *wrongs) == [Ending.ERROR, Ending.ERROR, Ending.FAILED]


def test_the_judge_imports_no_package_because_the_program_raises_its_exception(
    sandbox: LocalSandbox,
) -> None:
    test = (
        "import sys\ntry: invert([[0.0]])\nexcept Exception as error: assert type(error).__name__ == 'LinAlgError'\n"
        "assert 'num' 'py' not in sys.modules"
    )
    assert endings(sandbox, calls(test, names="invert"), OF_NUMPY) == [Ending.PASSED]


def test_nothing_else_of_the_folder_that_numpy_lies_in_can_be_read(
    sandbox: LocalSandbox,
) -> None:
    spec = importlib.util.find_spec("pytest")
    assert spec is not None and spec.origin is not None
    site = Path(spec.origin).parents[1]
    program = f"""
import os
def seen():
    try: return [n for n in os.listdir({str(site)!r}) if n not in ('numpy', 'numpy.libs')]
    except OSError: return []
def read():
    try: return open({spec.origin!r}).read()
    except OSError: return ''
"""
    suite = calls("assert seen() == []", "assert read() == ''", names="seen read")
    assert endings(sandbox, suite, program) == [Ending.PASSED]
    assert endings(
        sandbox, calls("import pyarrow\nassert f()", names="f"), "def f(): return 1"
    ) == [Ending.ERROR]
    needs = replace(calls("import pyarrow\nassert f()", names="f"), imports=("pyarrow",))
    assert endings(sandbox, needs, "def f(): return 1") == [Ending.BAD_TESTS]


def test_where_numpy_is_not_installed_tests_that_import_it_are_the_datas_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packages, "ALWAYS", "no_such_package")
    packages._shown.cache_clear()
    sandbox = LocalSandbox(1)
    try:
        assert endings(sandbox, THIRDS, RIGHT) == [Ending.BAD_TESTS]
    finally:
        sandbox.close()
        packages._shown.cache_clear()


@pytest.mark.parametrize(
    "members",
    [
        "def __array__(self, *a, **k): return np.array([1 / 3, 2 / 3])",
        "def __array_ufunc__(self, *a, **k): return np.array([True, True])",
        "def __array_function__(self, *a, **k): return True",
        "__array_interface__ = np.array([1 / 3, 2 / 3]).__array_interface__",
        "__array_priority__ = 1e9\n    __rsub__ = __sub__ = __abs__ = lambda *a: 0\n    __float__ = lambda self: 0.0",
        "__eq__ = __le__ = __ge__ = __lt__ = __gt__ = lambda *a: True\n    __hash__ = object.__hash__",
    ],
)
def test_an_object_that_numpy_would_ask_passes_nothing(
    sandbox: LocalSandbox, members: str
) -> None:
    program = (
        f"import numpy as np\nclass Yes:\n    {members}\ndef thirds(n): return Yes()\n"
    )
    assert endings(sandbox, THIRDS, program)[0] not in (Ending.PASSED, Ending.BAD_TESTS)


def test_a_scalar_of_numpy_is_a_number(sandbox: LocalSandbox) -> None:
    program = "import numpy as np\ndef f(): return [np.int64(5), np.float32(0.5), np.bool_(True), np.str_('a')]"
    tests = "r = f(); assert r == [5, 0.5, True, 'a'] and [type(x) for x in r] == [int, float, bool, str]"
    assert endings(sandbox, calls(tests, names="f"), program) == [Ending.PASSED]


def test_an_empty_array_of_the_tests_is_numpys_own_in_the_program(
    sandbox: LocalSandbox,
) -> None:
    """The judge guards its own empty arrays only."""
    program = (
        "import numpy as np\ndef less(x): return (x - 1.5).tolist()\n"
        "def is_one(x): return bool((x == np.array([1.0])).all())\n"
        "def is_own(x): return type(x) is np.ndarray\n"
    )
    suite = calls(
        "assert less(np.array([])) == []",
        "assert is_one(np.array([])) is True",
        "assert is_own(np.array([])) is True",
        names="less is_one is_own",
        setup="import numpy as np",
    )
    (result,) = sandbox.run([Job(program=program, suite=suite, limits=LONG)])
    assert result.ending is Ending.PASSED, result.detail


def test_arrays_of_the_tests_reach_the_program_and_its_own_stay_there(
    sandbox: LocalSandbox,
) -> None:
    program = """
import numpy as np
def double(x): return x * 2
def kind(x): return [type(x).__name__, str(x.dtype), x.shape]
"""
    tests = (
        "r = double(np.array([[1, 2], [3, 4]])); assert np.array_equal(r, [[2, 4], [6, 8]]) and r.shape == (2, 2)",
        "assert np.allclose(double(np.array([0.5, np.inf])), [1.0, np.inf])",
        "assert (double(np.arange(3)) == np.array([0, 2, 4])).all()",
        "assert not np.array_equal(double(np.arange(3)), [0, 2, 5])",
        "assert kind(np.zeros((0, 3), dtype='float32')) == ['ndarray', 'float32', (0, 3)]",
        "assert kind(np.array(['a', None], dtype=object)) == ['ndarray', 'object', (2,)]",
        "assert double(np.int64(4)) == 8 and double(np.float32(0.5)) == 1.0 and double(np.bool_(True)) == 2",
    )
    suite = calls(*tests, names="double kind", setup="import numpy as np")
    (result,) = sandbox.run(
        [Job(program=program, suite=suite, limits=LONG, stop_at_first=False)]
    )
    assert [test.detail for test in result.tests] == [""] * len(tests)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (
            "' '.join(map(str, range(400_000)))",
            "' '.join(map(str, range(400_000))) + ' '",
        ),
        ("list(range(400_000))", "[*range(400_000 - 1), 0]"),
        pytest.param(
            "18 * 10 ** 3_000_000", "18 * 10 ** 3_000_000 + 1", marks=pytest.mark.slow
        ),
        ("[(k, str(k)) for k in range(60_000)]", "[(k, str(-k)) for k in range(60_000)]"),
    ],
    ids=["text", "list", "integer", "tuples"],
)
def test_a_value_of_megabytes_has_a_verdict(
    sandbox: LocalSandbox, right: str, wrong: str
) -> None:
    suite = calls(f"assert f() == {right}", names="f")
    programs = [f"def f(): return {value}" for value in (right, wrong)]
    assert endings(sandbox, suite, *programs) == [Ending.PASSED, Ending.FAILED]


def test_a_value_that_the_programs_memory_has_no_room_for_is_refused(
    sandbox: LocalSandbox,
) -> None:
    suite = calls("assert len(f()) == 9_000_000", names="f")
    found = endings(
        sandbox, suite, "def f(): return 'x' * 9_000_000", limits=Limits(memory_mb=64)
    )
    assert found == [Ending.PROTOCOL]


HOSTILE = {
    "lists": "b'[' + b'[],' * 19_000_000 + b'1]'",
    "digits": "b'9' * 60_000_000",
    "depth": "b'[' * 60_000_000",
    "text": "b'\"' + b'x' * 60_000_000 + b'\"'",
    "hex": "b'{\"int\":\"0x' + b'f' * 60_000_000 + b'\"}'",
}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=kind, marks=[] if kind == "text" else pytest.mark.slow)
        for kind, value in HOSTILE.items()
    ],
)
def test_a_hostile_message_of_the_longest_kind_passes_nothing_and_harms_no_other(
    sandbox: LocalSandbox, value: str
) -> None:
    program = f"""
import gc, os
from trl_grpo_ext.programs.sandbox.inside.answers import Answers
def f():
    found = [each for each in gc.get_objects() if isinstance(each, Answers)][0]._channel
    body = b'{{"id":1,"value":' + {value} + b'}}'
    frame = memoryview(len(body).to_bytes(4, 'big') + body)
    while frame:
        frame = frame[os.write(found._descriptor, frame[:1 << 20]):]
"""
    limits = Limits(wall_seconds=5.0, cpu_seconds=5.0)
    suite = calls("assert f() == 1", names="f")
    (ending,) = endings(sandbox, suite, program, limits=limits)
    assert ending in (
        Ending.FAILED,
        Ending.PROTOCOL,
        Ending.MEMORY,
        Ending.TIMEOUT,
        Ending.ERROR,
    )
    assert endings(sandbox, suite, "def f(): return 1", limits=limits) == [Ending.PASSED]


OF_RECORDS = """
import numpy as np
KIND = [('name', 'U10'), ('size', 'i4'), ('at', 'f8', (2,)), ('more', [('x', 'i4'), ('y', 'O')])]
def made(): return np.array([('a', 3, (0, 1), (5, [1])), ('b', 2, (2, 3), (6, None))], dtype=KIND)
def names(table): return [str(record['name']) for record in table] + [str(table[0]['name'])]
def ordered(table): return np.sort(table[['name', 'size']], order='size')
def largest(table): return max(table, key=lambda record: record['size'])
def size(record): return int(record['size'])
def grow(table): table['size'] += 1
def lists():
    found = np.empty(2, dtype=object)
    found[0], found[1] = [1, 2], [3, 4]
    return found
"""
RECORDS = (
    "assert names(table) == ['b', 'a', 'b'] and names(made()) == ['a', 'b', 'a']",
    "assert [r['size'] for r in made()] == [3, 2] and made()[0]['name'] == 'a' and made()['at'].shape == (2, 2)",
    "assert made()['more']['x'].tolist() == [5, 6] and made()[0]['more']['y'] == [1]",
    "r = ordered(made()); assert r.dtype.names == ('name', 'size') and r['name'].tolist() == ['b', 'a']",
    "assert (ordered(table) == table).all() and not (ordered(table)[::-1] == table).any()",
    "r = largest(table); assert r == table[1] and r['size'] == 3 and r[0] == 'a' and len(r) == 2 and r != table[0]",
    "assert size(table[1]) == 3",
    "kept = table.copy(); grow(kept); assert kept['size'].tolist() == [3, 4]",
    "assert lists()[0] == [1, 2] and lists().shape == (2,)",
)


def test_records_of_numpy_arrive_with_their_fields(sandbox: LocalSandbox) -> None:
    setup = "import numpy as np\ntable = np.array([('b', 2), ('a', 3)], dtype=[('name', 'U10'), ('size', 'i4')])"
    suite = calls(*RECORDS, names="made names ordered largest size grow lists", setup=setup)
    (result,) = sandbox.run([Job(program=OF_RECORDS, suite=suite, limits=LONG)])
    assert [test.detail for test in result.tests] == [""] * len(RECORDS)
    wrong = OF_RECORDS.replace("max(", "min(").replace("order='size'", "order='name'")
    job = Job(program=wrong, suite=suite, limits=LONG, stop_at_first=False)
    (result,) = sandbox.run([job])
    failed = [n for n, test in enumerate(result.tests) if test.ending == Ending.FAILED]
    assert failed == [3, 4, 5]


def test_arrays_of_the_tests_are_used_and_changed_as_numpys(sandbox: LocalSandbox) -> None:
    setup = "import numpy as np\nwanted = np.array([1.0, 2.0])\nempty = np.array([])"
    program = "def f(x): return x * 2\ndef g(x): return list(x)\ndef h(): return []"
    tests = (
        "assert (f(wanted) == wanted * 2).all() and np.allclose(g(wanted), wanted)",
        "kept = wanted.copy()\nalias = kept\nalias += 1\nassert kept is alias and kept.tolist() == [2.0, 3.0]",
        "assert wanted.mean() == 1.5 and wanted.sum() == 3 and wanted[:1].shape == (1,) and wanted.max() > 1",
        "assert repr(wanted) == 'array([1., 2.])' and isinstance(wanted, np.ndarray)",
        "assert np.array_equal(h(), empty) and np.allclose(h(), empty) and len(np.array(h())) == 0",
        "assert np.concatenate([empty, g(wanted)]).tolist() == [1.0, 2.0] and (np.array(h()) > 0).all()",
        "total = np.zeros(2)\nnp.add.at(total, [0, 0, 1], 1)\nassert total.tolist() == [2.0, 1.0]",
        "out = np.empty(2)\nassert np.add(wanted, 1, out=out) is out and out.tolist() == [2.0, 3.0]",
    )
    suite = calls(*tests, names="f g h", setup=setup)
    (result,) = sandbox.run([Job(program=program, suite=suite, limits=LONG)])
    assert [test.ending for test in result.tests] == [Ending.PASSED] * len(tests), result
