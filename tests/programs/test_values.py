"""The codec: values survive a round trip, and hostile data raises only `MalformedError`."""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext.programs.sandbox.inside.crossing.containers import CONTAINERS
from trl_grpo_ext.programs.sandbox.inside.crossing.decoder import Decoder
from trl_grpo_ext.programs.sandbox.inside.crossing.encoder import Encoder
from trl_grpo_ext.programs.sandbox.inside.crossing.exceptions import (
    Exceptions,
    of_library,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.kinds import BY_TAG
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    MalformedError,
    Shared,
    TooDeepError,
    reading,
)
from trl_grpo_ext.programs.sandbox.inside.remote_class import RemoteClass
from trl_grpo_ext.programs.sandbox.inside.translation import Translation
from trl_grpo_ext.workers.frames import Channel, FrameError


def refuse(*_: Any) -> Any:
    raise MalformedError("no plain data")


def round_trip(value: Any) -> Any:
    written = json.dumps(Encoder(Shared(), refuse).encode(value), allow_nan=False)
    return reading(Decoder(Shared(), refuse).decode, json.loads(written))


anything = st.characters(exclude_categories=[])
numbers = (
    st.integers()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.fractions()
)
scalars = (
    st.none() | st.booleans() | numbers | st.text(anything) | st.binary() | st.complex_numbers(allow_nan=False)
    | st.decimals(allow_nan=False) | st.dates() | st.datetimes() | st.times() | st.timedeltas()
)  # fmt: skip
hashables = st.recursive(
    scalars,
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
values = st.recursive(
    hashables,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(hashables, inner) | st.sets(hashables)
    | st.lists(inner).map(deque) | st.dictionaries(hashables, inner).map(OrderedDict) | st.binary().map(bytearray),
    max_leaves=20,
)  # fmt: skip


@given(values)
def test_plain_data_come_back_equal_and_of_the_same_type(value: Any) -> None:
    result = round_trip(value)
    assert result == value
    assert repr(result) == repr(value) or isinstance(
        value, set | frozenset | dict | list | tuple | deque
    )
    assert type(result) is type(value)


@pytest.mark.parametrize(
    "value",
    [0.0, -0.0, math.inf, 1 << 20000, -(1 << 63), 1 << 63, True, [True, 1, 1.0], [1 << 64, 1], ["é", "\ud83d\ude00"],
     Decimal("NaN"), Fraction(1, 3), Counter("aab"), [], (), {}, range(1, 9, 2), ..., int, type(None), [math.inf, 1.0]],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_awkward_values_come_back_the_same(value: Any) -> None:
    result = round_trip(value)
    assert str(type(result)) == str(type(value))
    if not isinstance(value, int):
        assert repr(result) == repr(value)
    else:
        assert result == value


def test_shared_and_cyclic_containers_keep_their_shape() -> None:
    row = [0]
    grid = [row, row, {"row": row}]
    grid.append(grid)
    result = round_trip(grid)
    assert result[0] is result[1] is result[2]["row"] and result[3] is result


def test_a_value_that_is_nested_too_deeply_is_refused_on_both_sides() -> None:
    deep: Any = ()
    for _ in range(300):
        deep = (deep,)
    with pytest.raises(TooDeepError):
        Encoder(Shared(), refuse).encode(deep)
    with pytest.raises(MalformedError):
        reading(Decoder(Shared(), refuse).decode, json.loads("[" * 300 + "]" * 300))


def test_containers_that_are_nested_deeply_come_back_the_same() -> None:
    deep: Any = {1}
    for _ in range(500):
        deep = {"a": [deep, (1,)], "b": deque([deep])}
    message: dict[str, Any] = {}
    Encoder(Shared(), refuse).write(message, "value", lambda encoder: encoder.encode(deep))
    decoder, message = Decoder(Shared(), refuse), json.loads(json.dumps(message))
    result = decoder.decode(message["value"])
    decoder.finish(message)
    for _ in range(500):
        assert result["b"][0] is result["a"][0] and result["a"][1] == (1,)
        result = result["a"][0]
    assert result == {1}


@pytest.mark.parametrize("number", [-1, 2, True, "0", None])
def test_a_reference_to_no_object_is_malformed(number: Any) -> None:
    outer = reading(Decoder(Shared(), refuse).decode, [[], {"ref": 1}])
    assert outer[1] is outer[0]
    with pytest.raises(MalformedError, match="no such object"):
        reading(Decoder(Shared(), refuse).decode, [[], {"ref": number}])


@pytest.mark.parametrize("data", [{}, {"int": ["0x1"], "ref": 0}])
def test_a_value_with_another_number_of_tags_than_one_is_malformed(data: Any) -> None:
    with pytest.raises(MalformedError, match="a tag is missing"):
        reading(Decoder(Shared(), refuse).decode, data)


TAGS = ["ref", "instance", "later", *CONTAINERS, *BY_TAG]
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["0x1", "int", "nan", "dict"])
)
hostile = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(TAGS), inner, max_size=1)
    ),
    max_leaves=12,
)


@given(hostile)
def test_hostile_json_is_read_or_malformed(data: Any) -> None:
    with suppress(MalformedError):
        reading(Decoder(Shared(), refuse).decode, data)


@given(hostile)
def test_a_hostile_exception_is_read_or_malformed(data: Any) -> None:
    exceptions = Exceptions(refuse, refuse)
    try:
        error, _ = reading(exceptions.decode_error, data, Decoder(Shared(), refuse))
    except MalformedError:
        return
    assert isinstance(error, BaseException)


names_of = st.sampled_from(["__eq__", "__add__", "__len__", "__next__", "__await__", "__class__", "x", "a b",
                            "_remote_ahead", "__init__", "__slots__", "__doc__", "__dict__", "mro",
                            "__get__", "__hash__"])  # fmt: skip
classes = st.deferred(
    lambda: st.builds(
        lambda *parts: {"class": list(parts)},
        st.integers(0, 5) | st.just("1"), st.text(max_size=3) | st.none(), st.lists(st.text(max_size=3), max_size=2),
        st.lists(bases, max_size=2), st.lists(names_of, max_size=6),
        st.lists(st.sampled_from(["library", "function", "unhashable", "?"]), max_size=2),
    )
)  # fmt: skip
bases = (
    st.sampled_from(
        [
            {"type": "list"},
            {"type": "int"},
            {"type": "type"},
            {"exception": "ValueError"},
            {"exception": "x"},
        ]
    )
    | st.builds(lambda number: {"class": [number]}, st.integers(0, 5))
    | classes
)
objects = st.builds(
    lambda tag, number, kind, content: {tag: [number, kind, content]},
    st.sampled_from(["handle", "subclass"]), st.integers(0, 5), classes | bases, hostile | st.text(max_size=3),
)  # fmt: skip


@given(st.lists(objects | classes | hostile, max_size=5))
def test_hostile_classes_and_objects_are_read_or_malformed(data: Any) -> None:
    program: Any = Program()
    decoder = Decoder(Shared(), Translation(program, lambda name: False).read)
    with suppress(MalformedError):
        for value in reading(decoder.decode, data):
            assert not isinstance(value, RemoteClass) or issubclass(type(value), type)


class Program:
    """A fake program whose answers always fail."""

    quiet, has_made = True, False

    def request(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no answer")

    get = request


@given(st.binary())
def test_hostile_bytes_are_a_message_or_a_frame_error(data: bytes) -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        channel = Channel(reader, frame_bytes=1000)
        while True:
            channel.receive()
    except (FrameError, EOFError):
        pass
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        # The judge's own, which void a row, and exceptions that control test runners.
        ("trl_grpo_ext.programs.sandbox.inside.compiled", "BadTestsError"),
        ("trl_grpo_ext.programs.sandbox.inside.crossing.values", "MalformedError"),
        ("hypothesis.errors", "UnsatisfiedAssumption"),
        ("_pytest.config.exceptions", "UsageError"),
        ("unittest.case", "SkipTest"),
        # Of this process alone.
        (__name__, "OwnError"),
        # Another module's class, no class, no exception, no module that is imported.
        ("hypothesis", "Unsatisfiable"),
        ("json", "dumps"),
        ("json", "JSONDecoder"),
        ("poplib", "error_proto"),
    ],
)
def test_a_program_names_no_exception_that_the_judge_keeps_for_itself(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "solution", sys.modules[__name__])
    monkeypatch.delitem(sys.modules, "poplib", raising=False)
    monkeypatch.setattr(OwnError, "__module__", "solution")
    assert of_library("solution" if module == __name__ else module, name) is None
    assert of_library("json.decoder", "JSONDecodeError") is json.JSONDecodeError


class OwnError(Exception):
    """An exception of a module that only one end has."""
