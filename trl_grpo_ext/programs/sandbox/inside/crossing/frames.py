"""Describe frames, series and indexes of pandas by plain data, and rebuild them by its public constructors.

A description is JSON, except for the items of object columns, which cross beside it as the items of a list do. Whatever
has no description, such as a subclass of DataFrame or a column of long doubles, stays where it was made.
"""

from __future__ import annotations

import importlib
import json
import marshal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, timedelta, timezone
from itertools import islice
from math import isfinite
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    LARGEST,
    SMALLEST,
    SNAPSHOTS,
    Json,
    MalformedError,
    checked,
    of_module,
)

_FRAMES = frozenset({"DataFrame", "Series"})
_INDEXES = frozenset(
    {
        "Index",
        "RangeIndex",
        "MultiIndex",
        "CategoricalIndex",
        "DatetimeIndex",
        "TimedeltaIndex",
        "PeriodIndex",
        "IntervalIndex",
    }
)
_NUMBERS = frozenset("biufcmM")
_TEXTS = ("str", "string")
_MASKED = {
    "i": "IntegerArray",
    "u": "IntegerArray",
    "f": "FloatingArray",
    "b": "BooleanArray",
}
# Items that would arrive as another type, and so change what a column says of itself.
_CHANGING = ("Timestamp", "Timedelta", "Period", "Interval", "NaT", "NA")
_OF_NUMPY = ("NumpyExtensionArray", "DatetimeArray", "TimedeltaArray")
_MOST_BYTES = {"f": 8, "c": 16}
_DEEPEST = 8
_LONGEST = 10_000_000
"""Length of the longest range that is rebuilt: a few bytes would stand for more memory than there is."""


class _NoDescriptionError(TypeError):
    """Raised for a pandas object without a description; it stays on the side that made it."""


def tag_of_frame(value: Any) -> str | None:
    """Return the tag of a frame or series that crosses by contents; None for other objects."""
    tag = _kind_of(value, _FRAMES)
    return None if tag is None or described(value) is None else tag


def is_frame(value: Any) -> bool:
    """Return whether an object is a frame or series of pandas' own class."""
    return _kind_of(value, _FRAMES) is not None


def text_of_index(value: Any) -> str | None:
    """Return an index's description as text; None for other objects, and for an index without a description."""
    if _kind_of(value, _INDEXES) is None:
        return None
    try:
        return json.dumps(written(_index(value)))
    except _NoDescriptionError:
        return None


def index_of(text: str) -> Any:
    """Rebuild an index of its description."""
    return _index_of(json.loads(text))


def text_of_dtype(value: Any) -> str | None:
    """Return the name of a dtype of numbers, times, objects or texts; None for others, and for other objects."""
    if isinstance(value, of_module("numpy", "dtype")):
        return str(value.str) if value.kind in _NUMBERS or value.kind == "O" else None
    is_text = type(value) is of_module("pandas", "StringDtype") and _is_default(value)
    return str(value) if is_text else None


def dtype_of(text: str) -> Any:
    """Return the dtype of a name.

    Raises:
        MalformedError: for a name that `text_of_dtype` does not give.
    """
    if text in _TEXTS:
        return importlib.import_module("pandas").api.types.pandas_dtype(text)
    dtype = importlib.import_module("numpy").dtype(text)
    if text_of_dtype(dtype) is None:
        raise MalformedError("no dtype")
    return dtype


def _is_default(dtype: Any) -> bool:
    """Return whether a text dtype's name alone rebuilds the dtype on the other side."""
    name = str(dtype)
    pandas = sys.modules["pandas"]
    return name in _TEXTS and bool(pandas.api.types.pandas_dtype(name) == dtype)


def described(value: Any) -> tuple[Json, list[Any]] | None:
    """Return a frame's or series' description, and the items of object columns; None if it does not cross.

    The description holds numbers as bytes; see `written`.
    """
    try:
        return _described(value, _index, _label, _array)
    except _NoDescriptionError:
        return None


def described_anyhow(value: Any) -> tuple[Json, list[Any]]:
    """Return a frame's description, with substitutes for parts without a description: object columns, class names.

    A program may put such a part into the test's frame. Without substitutes, the test would see an unchanged frame.
    """
    return _described(value, _near_index, _near_label, _near_array)


def _described(
    value: Any,
    to_index: Callable[[Any], Json],
    to_label: Callable[[Any], Json],
    to_array: Callable[[Any, list[Any]], list[Json]],
) -> tuple[Json, list[Any]]:
    # Each column that is taken of a frame would copy its `attrs`, and so call methods of the objects in them.
    value = type(value)(value) if value.attrs else value
    items: list[Any] = []
    index = to_index(value.index)
    if value.ndim == 1:
        arrays = [to_array(value.array, items)]
        return {"index": index, "name": to_label(value.name), "arrays": arrays}, items
    arrays = []
    for place in range(value.shape[1]):
        column = value.iloc[:, place]
        arrays.append(to_array(column.array, items))
    return {"index": index, "columns": to_index(value.columns), "arrays": arrays}, items


def _near_index(index: Any) -> Json:
    try:
        return _index(index)
    except _NoDescriptionError:
        labels = [_near_label(each) for each in index]
        found = {"labels": labels, "length": len(labels), "freq": None, "names": [None]}
        return {"array": ["objects"], **found}


def _near_label(value: Any) -> Json:
    try:
        return _label(value)
    except _NoDescriptionError:
        return type(value).__name__


def _near_array(array: Any, items: list[Any]) -> list[Json]:
    try:
        return _array(array, items)
    except _NoDescriptionError:
        items += list(array)
        return ["objects"]


def snapshot(value: Any) -> list[Any]:
    """List items and description, so that each change changes the list."""
    description, items = described_anyhow(value)
    # In a version that tells no shared objects; `json` would take much longer for large columns.
    return [*items, marshal.dumps(description, 2)]


def called_by_label(value: Any, items: list[Any]) -> dict[str, Any]:
    """Map a frame's text labels to a callable item, if it has one: tests could call the item by `series.label()`."""
    found = next((each for each in items if callable(each)), None)
    if found is None:
        return {}
    labels = [*value.index, *(value.columns if value.ndim > 1 else ())]
    texts: dict[str, Any] = {}
    for label in labels:
        parts = label if type(label) is tuple else (label,)
        for part in parts:
            if type(part) is str:
                texts[part] = found
    return texts


def written(description: Any) -> Json:
    """Return a description with its bytes as text, as JSON can carry it."""
    if type(description) is bytes:
        return description.hex()
    if type(description) is list:
        return [written(each) for each in description]
    if type(description) is dict:
        return {key: written(each) for key, each in description.items()}
    return description


SNAPSHOTS.update(dict.fromkeys(_FRAMES, snapshot))


def refill_frame(value: Any, data: Json, items: list[Any]) -> None:
    """Replace the index, columns, names and values of a frame or series; `attrs` stay.

    Raises:
        MalformedError: if the lengths of columns differ, or an item is left over.
    """
    pandas = importlib.import_module("pandas")
    index, rest = _index_of(data["index"]), iter(items)
    arrays = [_array_of(each, len(index), rest) for each in checked(data["arrays"], list)]
    if next(rest, rest) is not rest:
        raise MalformedError("an item without a place")
    columns = [pandas.Series(each, index=index, dtype=each.dtype) for each in arrays]
    if isinstance(value, pandas.Series):
        (made,) = columns
        made.name = _label_of(data["name"])
    else:
        names = _index_of(data["columns"])
        if len(names) != len(columns):
            raise MalformedError("a column without a name")
        made = pandas.DataFrame(dict(enumerate(columns)), index=index)
        made.columns = names
    attrs = value.attrs
    type(value).__init__(value, made)
    value.attrs = attrs


def _kind_of(value: Any, names: frozenset[str]) -> str | None:
    """Return the class name of an object of pandas' own class among `names`; None for subclasses and other objects."""
    kind = type(value)
    is_own = kind.__name__ in names and kind is of_module("pandas", kind.__name__)
    return kind.__name__ if is_own else None


def _label(value: Any) -> Json:
    """Describe a label of an index, a tuple as a list."""
    if type(value) is tuple:
        return [_label(each) for each in value]
    if isinstance(value, of_module("numpy", "generic")):
        value = value.item()
    if value is None or type(value) is bool:
        return value
    if type(value) is of_module("pandas", "Timestamp") and value.tzinfo is None:
        return {"time": int(value.asm8.view("i8")), "unit": value.unit}
    if type(value) is date:
        return {"date": value.isoformat()}
    if type(value) is int and SMALLEST <= value <= LARGEST:
        return value
    if type(value) is float:
        return value if isfinite(value) else {"float": repr(value)}
    if type(value) is str and _is_text(value):
        return value
    raise _NoDescriptionError(type(value).__name__)


def _label_of(data: Json, depth: int = 0) -> Any:
    if type(data) is list:
        if depth == _DEEPEST:
            raise MalformedError("nested too deeply")
        return tuple(_label_of(each, depth + 1) for each in data)
    if type(data) is dict and "date" in data:
        return date.fromisoformat(checked(data["date"], str))
    if type(data) is dict and "time" in data:
        if data["unit"] not in ("s", "ms", "us", "ns"):
            raise MalformedError("no unit of a time")
        moment = importlib.import_module("numpy").datetime64
        pandas = importlib.import_module("pandas")
        return pandas.Timestamp(moment(checked(data["time"], int), data["unit"]))
    if type(data) is dict:
        return float(checked(data["float"], str))
    return data


def _is_text(value: str) -> bool:
    # JSON carries all texts but lone surrogates.
    return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)


def _index(index: Any) -> Json:
    """Describe an index: bounds of a range, levels and codes, or its values."""
    names = [_label(each) for each in index.names]
    kind = _kind_of(index, _INDEXES)
    if kind is None:
        raise _NoDescriptionError(type(index).__name__)
    if kind == "RangeIndex":
        return {"range": [index.start, index.stop, index.step], "names": names}
    if kind == "MultiIndex":
        levels = [_index(each) for each in index.levels]
        codes = [each.astype("int64").tobytes() for each in index.codes]
        return {"levels": levels, "codes": codes, "names": names}
    labels: list[Any] = []
    array = _array(index.array, labels)
    return {
        "array": array,
        "labels": [_label(each) for each in labels],
        "length": len(index),
        "freq": getattr(index, "freqstr", None),
        "names": names,
    }


def _index_of(data: Json, depth: int = 0) -> Any:
    pandas = importlib.import_module("pandas")
    if depth == _DEEPEST:
        raise MalformedError("nested too deeply")
    names = [_label_of(each) for each in checked(data["names"], list)]
    if "levels" in data:
        levels = [_index_of(each, depth + 1) for each in data["levels"]]
        codes = [_plain_of("<i8", each) for each in data["codes"]]
        return pandas.MultiIndex(levels=levels, codes=codes, names=names)
    (name,) = names
    if "range" in data:
        bounds = range(*(checked(each, int) for each in data["range"]))
        if len(bounds) > _LONGEST:
            raise MalformedError("an index that is too long")
        return pandas.RangeIndex(bounds, name=name)
    labels = iter([_label_of(each) for each in checked(data["labels"], list)])
    array = _array_of(data["array"], checked(data["length"], int), labels, depth)
    if next(labels, labels) is not labels:
        raise MalformedError("a label without a place")
    index = pandas.Index(array, dtype=array.dtype, name=name)
    if data["freq"] is not None:
        return type(index)(index, freq=checked(data["freq"], str), name=name)
    return index


def _array(array: Any, items: list[Any]) -> list[Json]:
    """Describe the values of a column or index; those of an object array are added to `items`."""
    pandas, dtype = sys.modules["pandas"], array.dtype
    if isinstance(dtype, pandas.DatetimeTZDtype):
        values = array.tz_convert(None).to_numpy()
        return ["zone", _zone(dtype.tz), values.dtype.str, values.tobytes()]
    if type(array).__name__ in _OF_NUMPY:
        return _of_numpy(array.to_numpy(), items)
    if isinstance(dtype, pandas.CategoricalDtype):
        codes = array.codes.astype("int64").tobytes()
        return ["category", _index(array.categories), bool(array.ordered), codes]
    if isinstance(dtype, pandas.PeriodDtype):
        return ["period", array.freqstr, array.asi8.tobytes()]
    if isinstance(dtype, pandas.IntervalDtype):
        return ["interval", array.closed, _index(array.left), _index(array.right)]
    name = str(dtype)
    if _is_default(dtype):
        return ["text", name, _texts(array)]
    kind = _MASKED.get(dtype.kind)
    # Sparse arrays, arrays of pyarrow and others.
    if kind is None or type(array) is not getattr(pandas.arrays, kind):
        raise _NoDescriptionError(name)
    values = array.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
    return ["masked", *_of_numpy(values, items)[1:], array.isna().tobytes()]


def _of_numpy(values: Any, items: list[Any]) -> list[Json]:
    kind = values.dtype.kind
    if kind == "O":
        pandas = sys.modules["pandas"]
        missing = (type(pandas.NaT), type(pandas.NA))
        changing = {getattr(pandas, name) for name in _CHANGING[:4]}.union(missing)
        if not changing.isdisjoint(map(type, values)):
            raise _NoDescriptionError("object")
        items += values.tolist()
        return ["objects"]
    if kind not in _NUMBERS or values.itemsize > _MOST_BYTES.get(kind, 8):
        raise _NoDescriptionError(str(values.dtype))
    return ["numbers", values.dtype.str, values.tobytes()]


def _texts(array: Any) -> list[str | None]:
    texts: list[str | None] = []
    for text, is_missing in zip(array, array.isna().tolist(), strict=True):
        if is_missing:
            texts.append(None)
        elif type(text) is str and _is_text(text):
            texts.append(text)
        else:
            raise _NoDescriptionError("str")
    return texts


def _zone(zone: Any) -> Json:
    if type(zone) is timezone:
        return zone.utcoffset(None).total_seconds()
    if type(zone) is of_module("zoneinfo", "ZoneInfo") and type(zone.key) is str:
        return zone.key
    raise _NoDescriptionError(type(zone).__name__)


def _array_of(data: Json, length: int, items: Iterator[Any], depth: int = 0) -> Any:
    """Rebuild values, as many as the index is long."""
    kind, *parts = checked(data, list)
    array = (
        _MAKERS[kind](*parts, depth) if kind != "objects" else _objects_of(length, items)
    )
    if len(array) != length:
        raise MalformedError("a column of another length")
    return array


def _objects_of(length: int, items: Iterator[Any]) -> Any:
    numpy = importlib.import_module("numpy")
    held = list(islice(items, length))
    array = numpy.empty(len(held), object)
    for place, each in enumerate(held):
        array[place] = each
    return array


def _plain_of(dtype: Json, data: Json) -> Any:
    numpy = importlib.import_module("numpy")
    kind = numpy.dtype(checked(dtype, str))
    if kind.kind not in _NUMBERS or kind.itemsize > _MOST_BYTES.get(kind.kind, 8):
        raise MalformedError("no array")
    held = bytes.fromhex(checked(data, str))
    # A bool with another byte than 0 and 1 would equal neither True nor False.
    if kind.kind == "b":
        return numpy.frombuffer(held, "u1").astype(bool)
    return numpy.frombuffer(held, kind).copy()


def _numbers_of(dtype: Json, data: Json, depth: int) -> Any:
    return _plain_of(dtype, data)


def _zoned_of(zone: Json, dtype: Json, data: Json, depth: int) -> Any:
    pandas = importlib.import_module("pandas")
    is_offset = type(zone) in (int, float)
    if is_offset:
        known: Any = timezone(timedelta(seconds=zone))
    else:
        # An import before the forks would slow every child.
        known = importlib.import_module("zoneinfo").ZoneInfo(checked(zone, str))
    if zone == 0:
        known = UTC
    return pandas.DatetimeIndex(_plain_of(dtype, data), tz="UTC").tz_convert(known).array


def _texts_of(name: Json, texts: Json, depth: int) -> Any:
    if name not in _TEXTS:
        raise MalformedError("no texts")
    if not all(each is None or type(each) is str for each in checked(texts, list)):
        raise MalformedError("no text")
    return importlib.import_module("pandas").array(texts, dtype=name)


def _masked_of(dtype: Json, data: Json, mask: Json, depth: int) -> Any:
    values = _plain_of(dtype, data)
    kind = getattr(importlib.import_module("pandas").arrays, _MASKED[values.dtype.kind])
    return kind(values, _plain_of("|b1", mask))


def _categories_of(categories: Json, ordered: Json, codes: Json, depth: int) -> Any:
    pandas = importlib.import_module("pandas")
    known = _index_of(categories, depth + 1)
    return pandas.Categorical.from_codes(
        _plain_of("<i8", codes), categories=known, ordered=checked(ordered, bool)
    )


def _periods_of(freq: Json, data: Json, depth: int) -> Any:
    pandas = importlib.import_module("pandas")
    dtype = pandas.PeriodDtype(checked(freq, str))
    return pandas.arrays.PeriodArray(_plain_of("<i8", data), dtype=dtype)


def _intervals_of(closed: Json, left: Json, right: Json, depth: int) -> Any:
    bounds = [_index_of(each, depth + 1) for each in (left, right)]
    arrays = importlib.import_module("pandas").arrays
    return arrays.IntervalArray.from_arrays(*bounds, closed=checked(closed, str))


_MAKERS: dict[str, Callable[..., Any]] = {
    "period": _periods_of,
    "interval": _intervals_of,
    "numbers": _numbers_of,
    "zone": _zoned_of,
    "text": _texts_of,
    "masked": _masked_of,
    "category": _categories_of,
}
