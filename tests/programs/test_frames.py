"""Frames of pandas cross between judge and program by contents, as numpy's arrays do."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from walls import walls_or_skip

from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import Encoder
from trl_grpo_ext.programs.sandbox.inside.crossing.frames import described, written
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    MalformedError,
    Shared,
    reading,
)
from trl_grpo_ext.programs.sandbox.job import CallSuite, Ending, Job, Limits
from trl_grpo_ext.programs.sandbox.local import LocalSandbox

if importlib.util.find_spec("pandas") is None:
    pytest.skip("needs pandas", allow_module_level=True)
walls_or_skip()

LONG = Limits(wall_seconds=60.0, cpu_seconds=60.0)
SETUP = """
import numpy as np
import pandas as pd
from pandas.testing import assert_frame_equal, assert_index_equal, assert_series_equal
"""


@pytest.fixture(scope="module")
def pandas_sandbox() -> Iterator[LocalSandbox]:
    with closing(LocalSandbox(1, packages=["pandas"])) as sandbox:
        yield sandbox


def details(sandbox: LocalSandbox, program: str, names: str, *tests: str) -> list[str]:
    """Run each test and return what failed of it, nothing for a test that passed."""
    suite = CallSuite(setup=SETUP, tests=tests, names=tuple(names.split()))
    text = f"import io\nimport numpy as np\nimport pandas as pd\n{program}"
    (result,) = sandbox.run(
        [Job(program=text, suite=suite, limits=LONG, stop_at_first=False)]
    )
    if not result.tests:
        return [result.detail]
    return [
        "" if test.ending is Ending.PASSED else test.detail or "?" for test in result.tests
    ]


FUNCTIONS = """
def days(df): return int((pd.to_datetime(df["d"]).max() - pd.to_datetime(df["d"]).min()).days)
def numbers(df): return pd.to_numeric(df["n"], errors="coerce").fillna(0).tolist()
def joined(a, b): return pd.merge(a, b, on="k")
def stacked(a, b): return pd.concat([a, b], ignore_index=True)
def dummies(df): return pd.get_dummies(df)
def pivoted(df): return pd.pivot_table(df, index="r", columns="c", values="v", aggfunc="sum", fill_value=0)
def signs(df): return np.where(df["x"] > 0, "up", "down").tolist()
def mean(df): return np.mean(df["x"])
"""
OF_FUNCTIONS = (
    "assert days(pd.DataFrame({'d': ['2024-01-01', '2024-01-05']})) == 4",
    "assert numbers(pd.DataFrame({'n': ['1', 'x']})) == [1, 0]",
    "a, b = pd.DataFrame({'k': [1, 2], 'a': [3, 4]}), pd.DataFrame({'k': [2], 'b': [5]})\n"
    "assert joined(a, b).values.tolist() == [[2, 4, 5]]",
    "df = pd.DataFrame({'x': [1, 2]}); assert stacked(df, df)['x'].tolist() == [1, 2, 1, 2]",
    "wanted = pd.DataFrame({'c_a': [True, False], 'c_b': [False, True]})\n"
    "assert_frame_equal(dummies(pd.DataFrame({'c': ['a', 'b']})), wanted)",
    "assert pivoted(pd.DataFrame({'r': ['x', 'x', 'y'], 'c': ['a', 'b', 'a'], 'v': [1, 2, 3]})).loc['x', 'b'] == 2",
    "assert signs(pd.DataFrame({'x': [1, -1]})) == ['up', 'down']",
    "assert mean(pd.DataFrame({'x': [1, 2]})) == 1.5",
)

MADE = """
def made(): return pd.DataFrame({"x": [1, 2], "s": ["a", None]})
def read(): return pd.read_csv(io.StringIO("k,v\\na,1\\na,2\\nb,5\\n"))
def grouped(df): return df.groupby("k")["v"].agg(["sum", "mean"])
def summed(df): return df.groupby("k")["v"].sum()
def labels(df): return df.columns
def in_dict(df): return {"head": df.head(1), "rows": [df["v"]]}
def kinds(df): return df.dtypes
def by_day(df): return df.groupby(df["d"].dt.date)["v"].sum()
def types(s): return s.apply(type)
def kind(df, column): return df[column].dtype
def nothing(df): return df[df["v"] > 100]
def rows(df): return [row.to_dict() for _, row in df.iterrows()]
"""
FRAME = "pd.DataFrame({'k': ['a', 'a', 'b'], 'v': [1, 2, 5]})"
OF_MADE = (
    "r = made(); assert isinstance(r, pd.DataFrame) and list(r.columns) == ['x', 's'] and len(r) == 2",
    "r = made(); assert r['x'].sum() == 3 and r['s'].isna().tolist() == [False, True]",
    "assert made().equals(pd.DataFrame({'x': [1, 2], 's': ['a', None]}))",
    f"assert_frame_equal(read(), {FRAME})",
    "wanted = pd.DataFrame({'sum': [3, 5], 'mean': [1.5, 5.0]}, index=pd.Index(['a', 'b'], name='k'))\n"
    f"assert_frame_equal(grouped({FRAME}), wanted)",
    f"assert_series_equal(summed({FRAME}), pd.Series([3, 5], index=pd.Index(['a', 'b'], name='k'), name='v'))",
    f"assert_index_equal(labels({FRAME}), pd.Index(['k', 'v']))",
    f"r = in_dict({FRAME}); assert r['head'].shape == (1, 2) and r['rows'][0].tolist() == [1, 2, 5]",
    f"r = nothing({FRAME}); assert isinstance(r, pd.DataFrame) and r.empty and len(r) == 0",
    f"assert_frame_equal(nothing({FRAME}), {FRAME}.head(0))",
    f"assert rows({FRAME})[2] == {{'k': 'b', 'v': 5}}",
    "assert grouped(read()).loc['a', 'sum'] == 3",
    f"assert kinds({FRAME})['v'] == 'int64'; assert_series_equal(kinds({FRAME}), {FRAME}.dtypes)",
    "df = pd.DataFrame({'d': pd.to_datetime(['2024-01-01', '2024-01-01']), 'v': [1, 2]})\n"
    "assert_series_equal(by_day(df), df.groupby(df['d'].dt.date)['v'].sum())",
    "assert (types(pd.Series([1, 'a'], dtype=object)) == pd.Series([int, str])).all()",
    f"assert kind({FRAME}, 'v') == np.int64 and kind({FRAME}, 'k') == {FRAME}['k'].dtype != 'int64'",
)

CHANGED = """
def same(df): return df
def add(df): df["n"] = df["v"] * 2; return df
def shorter(df): df.drop(0, inplace=True)
def ordered(df): df.sort_values("v", ascending=False, inplace=True)
def renamed(df): df.columns = ["a", "b"]
def indexed(df): df.set_index("k", inplace=True)
def filled(s): s.iloc[0] = 9
def emptied(df): df.drop(df.index, inplace=True)
def kept(df): return df.assign(n=1)
def sparse(df): df["p"] = pd.arrays.SparseArray([0] * len(df)); return len(df)
class Table:
    def __init__(self): self.df = pd.DataFrame({"x": [1]})
    def grow(self): self.df.loc[len(self.df)] = [5]
"""
OF_CHANGED = (
    f"df = {FRAME}; assert same(df) is df and add(df) is df and df['n'].tolist() == [2, 4, 10]",
    f"df = {FRAME}; shorter(df); assert df.index.tolist() == [1, 2]",
    f"df = {FRAME}; ordered(df); assert df['v'].tolist() == [5, 2, 1] and df.index.tolist() == [2, 1, 0]",
    f"df = {FRAME}; renamed(df); assert df.columns.tolist() == ['a', 'b']",
    f"df = {FRAME}; indexed(df); assert df.index.name == 'k' and df.loc['b', 'v'] == 5",
    "s = pd.Series([1, 2]); filled(s); assert s.tolist() == [9, 2]",
    f"df = {FRAME}; emptied(df); assert len(df) == 0",
    f"df = {FRAME}; r = kept(df); assert_frame_equal(df, {FRAME}); assert r['n'].tolist() == [1, 1, 1]",
    f"df = {FRAME}; df['v'] = 7; assert kept(df)['v'].tolist() == [7, 7, 7]",
    f"df = {FRAME}; df.attrs['table'] = Table(); assert add(df) is df and add(df) is df",
    f"df = {FRAME}; df.attrs['unit'] = 'm'; add(df); assert df.attrs == {{'unit': 'm'}}",
    f"df = {FRAME}; assert sparse(df) == 3 and df['p'].tolist() == [0, 0, 0]; assert add(df) is df and sparse(df) == 3",
    "t = Table(); r = t.df; t.grow(); assert t.df['x'].tolist() == [1, 5] and r is t.df",
)


@pytest.mark.parametrize(
    ("program", "names", "tests"),
    [
        (FUNCTIONS, "days numbers joined stacked dummies pivoted signs mean", OF_FUNCTIONS),
        (
            MADE,
            "made read grouped summed labels in_dict kinds by_day types kind nothing rows",
            OF_MADE,
        ),
        (
            CHANGED,
            "same add shorter ordered renamed indexed filled emptied kept sparse Table",
            OF_CHANGED,
        ),
    ],
    ids=["functions of pandas", "frames of the program", "changes in place"],
)
def test_right_programs_that_use_frames_are_paid(
    pandas_sandbox: LocalSandbox, program: str, names: str, tests: tuple[str, ...]
) -> None:
    assert details(pandas_sandbox, program, names, *tests) == [""] * len(tests)


KEPT = (
    "pd.DataFrame({'x': np.array([1, 2], 'int32'), 'y': np.array([1, 2], 'float32'), 'z': np.array([1, 2], 'uint8')})",
    "pd.DataFrame({'f': [1.5, np.nan], 'o': pd.Series([None, [1]], dtype=object), 'b': [True, False]})",
    "pd.DataFrame({'d': pd.to_datetime(['2024-01-01', None]), 't': pd.to_timedelta(['1h', None])})",
    "pd.DataFrame({'d': pd.date_range('2024-03-30', periods=3, freq='D', tz='Europe/Berlin')})",
    "pd.Series(pd.to_datetime(['2024-01-01T00:00+02:00']), name='offset')",
    "pd.Series(range(3), index=pd.date_range('2024-01-31', periods=3, freq='ME', name='end'))",
    "pd.Series(pd.Categorical(['a', None, 'b'], categories=['b', 'a'], ordered=True))",
    "pd.DataFrame({'i': pd.array([1, None], dtype='Int64'), 's': pd.array(['ü', None], dtype='string')})",
    "pd.DataFrame({'f': pd.array([1, None], dtype='Float64'), 'b': pd.array([True, None], dtype='boolean')})",
    "pd.DataFrame({'a': [1, 1], 'b': ['x', 'y'], 'v': [1, 2]}).set_index(['a', 'b'])",
    "pd.DataFrame([[1, 2], [3, 4]], columns=['a', 'a'], index=['r', 'r'])",
    "pd.DataFrame({('a', 'x'): [1], ('a', 'y'): [2]})",
    "pd.Series(['a', 'b'], dtype=object, name=('a', 1))",
    "pd.Series([1, 2], index=['a', np.nan])",
    "pd.DataFrame({'p': pd.period_range('2024-01', periods=2, freq='M'), 'c': pd.cut([1, 2], 2)})",
    "pd.Series([1, 2], index=pd.cut([1, 2], [0, 1, 2]))",
    "pd.Series([1, 2], index=pd.period_range('2024-01', periods=2, freq='Q'))",
    "pd.DataFrame({'v': [1]}, index=pd.to_datetime(['2024-01-01'])).iloc[0]",
    "pd.DataFrame(columns=['a', 'b'])",
    "pd.DataFrame(index=[1, 2])",
)


def test_a_frame_comes_back_with_all_its_types_names_and_missing_values(
    pandas_sandbox: LocalSandbox,
) -> None:
    tests = []
    for each in KEPT:
        kind = (
            "series"
            if each.startswith("pd.Series") or each.endswith(".iloc[0]")
            else "frame"
        )
        tests.append(
            f"v = {each}; r = again(v); assert r is not v; assert_{kind}_equal(r, v); assert facts(v) == facts(r)"
        )
    program = (
        "def again(v): return v.copy()\n"
        "def facts(v): return [repr(v), str(v.index), str(getattr(v, 'dtypes', 0))]"
    )
    assert details(pandas_sandbox, program, "again facts", *tests) == [""] * len(tests)


RIGHT = "pd.DataFrame({'x': [1, 2], 's': ['a', 'b']})"
EQUALS_ALL = """
class Frame(pd.DataFrame):
    equals = __eq__ = lambda *_: True
class Yes:
    shape = (2, 2)
    equals = __eq__ = lambda *_: True
    __hash__ = object.__hash__
"""
WRONG = {
    "another value": RIGHT.replace("2", "3"),
    "another dtype": RIGHT.replace("[1, 2]", "np.array([1, 2], 'int32')"),
    "another order of columns": f"{RIGHT}[['s', 'x']]",
    "another order of rows": f"{RIGHT}[::-1]",
    "a missing row": f"{RIGHT}.head(1)",
    "no row": f"{RIGHT}.head(0)",
    "another index": f"{RIGHT}.set_index(pd.Index([0, 5]))",
    "another name of the index": f"{RIGHT}.rename_axis('n')",
    "a missing value": RIGHT.replace("'b'", "None"),
    "a subclass that equals all": f"Frame({RIGHT})",
    "an object that equals all": "Yes()",
    "objects that equal all": "pd.DataFrame({'x': [1, 2], 's': [Yes(), Yes()]})",
    "a column that shadows a method": f"{RIGHT}.assign(equals=1)",
}


def test_another_frame_than_the_expected_one_passes_no_test(
    pandas_sandbox: LocalSandbox,
) -> None:
    tests = (
        f"assert_frame_equal(f(name), {RIGHT})",
        f"assert_frame_equal({RIGHT}, f(name))",
        f"r = f(name); assert r.equals({RIGHT}) and {RIGHT}.equals(r) and r.index.name is None",
    )
    made = {"right": RIGHT, **WRONG}
    rows = [f"    {name!r}: lambda: {frame}," for name, frame in made.items()]
    program = "\n".join(
        [EQUALS_ALL, "MADE = {", *rows, "}", "def f(name): return MADE[name]()"]
    )
    of_all = [f"name = {name!r}; {test}" for name in made for test in tests]
    found = details(pandas_sandbox, program, "f", *of_all)
    passed = [test for test, detail in zip(of_all, found, strict=True) if not detail]
    assert passed == [f"name = 'right'; {test}" for test in tests]


LEAVES = {
    "a sparse column": "df['x'] = pd.arrays.SparseArray([0] * len(df))",
    "a time among objects": "df['x'] = pd.Series([pd.Timestamp(0), 1], dtype=object)",
    "a missing time among objects": "df.loc[0, 's'] = pd.NaT",
    "labels of rows without a description": "df.index = [pd.Interval(0, 1), 2]",
    "a label of a column without a description": "df[pd.Interval(0, 1)] = 1",
    "a second change": "df['p'] = pd.arrays.SparseArray([0] * len(df)); df['x'] = 0",
}


def test_a_program_that_changes_its_argument_does_not_seem_to_leave_it(
    pandas_sandbox: LocalSandbox,
) -> None:
    program = "def leaves(df): return len(df)\n"
    tests = []
    for number, change in enumerate(LEAVES.values()):
        program += f"def f{number}(df):\n    {change}\n    return len(df)\n"
        tests.append(
            f"df = {RIGHT}; assert f{number}(df) == 2; assert_frame_equal(df, {RIGHT})"
        )
    tests.append(f"df = {RIGHT}; assert leaves(df) == 2; assert_frame_equal(df, {RIGHT})")
    names = [f"f{number}" for number in range(len(LEAVES))]
    *of_changes, of_leaves = details(
        pandas_sandbox, program, " ".join(["leaves", *names]), *tests
    )
    assert of_leaves == ""
    assert [
        name for name, detail in zip(LEAVES, of_changes, strict=True) if not detail
    ] == []


CALLED = {
    "a type": "pd.Series({'startswith': bool})",
    "a function": "pd.Series({'startswith': lambda text: True})",
    "a row": "pd.DataFrame([[bool]], columns=['startswith']).iloc[0]",
    "a frame": "pd.DataFrame([[bool]], columns=['startswith'])",
    "a level": "pd.Series({('a', 'startswith'): bool})",
}


def test_a_frame_has_no_label_that_answers_in_the_place_of_a_method(
    pandas_sandbox: LocalSandbox,
) -> None:
    rows = [f"    {name!r}: lambda: {made}," for name, made in CALLED.items()]
    program = "\n".join(["MADE = {", *rows, "}", "def f(name): return MADE[name]()"])
    tests = [
        f"r = f({name!r})\nif isinstance(r, pd.DataFrame): r = r.iloc[0]\n"
        "if isinstance(r.index, pd.MultiIndex): r = r.a\nassert r.startswith('he')"
        for name in CALLED
    ]
    found = details(pandas_sandbox, program, "f", *tests)
    assert ["judges" in detail for detail in found] == [True] * len(CALLED)


def test_a_frame_without_items_equals_nothing_that_has_items(
    pandas_sandbox: LocalSandbox,
) -> None:
    tests = (
        "assert (f()['x'] == 1).all()",
        "assert f().eq(1).all().all()",
        "assert (f() == [1]).all().all()",
        "assert (f().values == wanted.values).all()",
        "assert (f().to_numpy() == wanted.to_numpy()).all()",
        "assert (wanted['x'].values == f()['x'].values).all()",
        "assert (f() - wanted).abs().sum().sum() < 1e-9",
        "assert (wanted - f()).abs().sum().sum() < 1e-9",
        "assert not (f()['x'] != 1).any()",
        "assert np.allclose(f(), wanted)",
        "assert np.allclose(wanted, f()['x'])",
        "assert (f().index.values == wanted.index.values).all()",
        "assert (np.asarray(f()) == wanted.values).all()",
        "spare = pd.DataFrame({'x': [1]}); g(spare); assert (spare.values == wanted.values).all()",
    )
    program = "def f(): return pd.DataFrame({'x': []})\ndef g(df): df.drop(0, inplace=True)"
    wanted = [f"wanted = pd.DataFrame({{'x': [1]}}); {test}" for test in tests]
    found = details(pandas_sandbox, program, "f g", *wanted)
    passed = [each for each in found if not each]
    assert passed == [], list(zip(tests, found, strict=True))


def test_a_frame_without_items_may_be_compared_with_its_like(
    pandas_sandbox: LocalSandbox,
) -> None:
    tests = (
        "assert (f()['x'] == f()['x']).all() and (f()['x'] > 0).all() and f().values.tolist() == []",
        "assert (f() == pd.DataFrame({'x': []})).all().all() and len(f()['x']) == 0",
    )
    program = "def f(): return pd.DataFrame({'x': []})"
    assert details(pandas_sandbox, program, "f", *tests) == ["", ""]


def _message(change: Any) -> Any:
    """Return the description of a frame with one change."""
    import pandas

    frame = pandas.DataFrame({"x": [1, 2], "o": pandas.Series([[], None], dtype=object)})
    description, items = described(frame) or ({}, [])
    description = json.loads(json.dumps(written(description)))
    change(description, items)
    return {"DataFrame": [description, items]}


HOSTILE = {
    "a shorter column": lambda d, i: d["arrays"][0].__setitem__(2, "00" * 8),
    "a longer column": lambda d, i: d["arrays"][0].__setitem__(2, "00" * 24),
    "half an item": lambda d, i: d["arrays"][0].__setitem__(2, "00" * 15),
    "objects by their address": lambda d, i: d["arrays"][0].__setitem__(1, "|O"),
    "raw bytes": lambda d, i: d["arrays"][0].__setitem__(1, "|V8"),
    "records": lambda d, i: d["arrays"][0].__setitem__(1, "i4,i4"),
    "no dtype": lambda d, i: d["arrays"][0].__setitem__(1, "no_dtype"),
    "a dtype that is a list": lambda d, i: d["arrays"][0].__setitem__(1, [["a", "i8"]]),
    "no kind of array": lambda d, i: d["arrays"][0].__setitem__(0, "pickle"),
    "an item too few": lambda d, i: i.pop(),
    "an item too many": lambda d, i: i.append(None),
    "a column too few": lambda d, i: d["arrays"].pop(),
    "a huge index": lambda d, i: d["index"].__setitem__("range", [0, 1 << 60, 1]),
    "an index that is no range": lambda d, i: d["index"].__setitem__("range", [0, 2, 0]),
    "an index of texts": lambda d, i: d["index"].__setitem__("range", ["0", 2, 1]),
    "a missing index": lambda d, i: d.pop("index"),
    "a column's name that is an object": lambda d, i: d["columns"].__setitem__(
        "array", ["objects"]
    ),
    "a nested name": lambda d, i: d["columns"].__setitem__("names", [{"list": []}]),
    "codes beyond the categories": lambda d, i: d["arrays"].__setitem__(
        0, ["category", d["columns"], False, "09" + "00" * 15]
    ),
    "a zone outside the zones": lambda d, i: d["arrays"].__setitem__(
        0, ["zone", "../../etc/passwd", "<M8[ns]", "00" * 16]
    ),
    "a text that is a number": lambda d, i: d["arrays"].__setitem__(
        0, ["text", "str", [1, 2]]
    ),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_frame_that_no_encoder_would_send_is_malformed(change: Any) -> None:
    def refuse(*_: Any) -> Any:
        raise MalformedError("no tag")

    message = _message(change)
    with pytest.raises(MalformedError):
        reading(Decoder(Shared(), refuse).decode, message)


def test_a_bool_of_another_byte_than_0_and_1_is_true_or_false() -> None:
    change = lambda d, i: d["arrays"].__setitem__(0, ["numbers", "|b1", "0002"])  # noqa: E731
    frame = reading(Decoder(Shared(), lambda *_: None).decode, _message(change))
    assert frame["x"].to_numpy().tobytes() == b"\x00\x01"


def test_objects_without_a_description_stay_where_they_are() -> None:
    import pandas

    class Own(pandas.DataFrame):
        """A class of the program."""

    stays = (
        Own({"x": [1]}),
        pandas.Series(pandas.arrays.SparseArray([0, 1])),
        pandas.Series([pandas.NaT, 1], dtype=object),
        pandas.Series([pandas.Timestamp(0), 1], dtype=object),
    )
    encoder = Encoder(Shared(), lambda _, value: "stays")
    assert [encoder.encode(each) for each in stays] == ["stays"] * len(stays)
