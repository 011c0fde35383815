"""Encode Python values as JSON; see `values` for the format."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from math import isfinite
from typing import Any

from trl_grpo_ext.programs.sandbox.inside.crossing.containers import (
    CONTAINERS,
    PLAIN,
    tag_of_library,
    write_contents,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.kinds import (
    FLOAT,
    INT,
    KINDS,
    NAMEDTUPLE,
    TEXT,
    TYPE,
    Kind,
    is_namedtuple,
    kind_of_library,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    DEEP,
    LARGEST,
    MAX_DEPTH,
    SMALLEST,
    TYPE_NAMES,
    Json,
    Shared,
    TooDeepError,
)


class Encoder:
    """An encoder for a single message.

    Args:
        shared: Objects that both ends know by number.
        other: Encodes objects that are not plain data; the other end's `other` decodes them.
        first: Called before a subclass instance of a plain type is flattened; returns its JSON, or None to flatten it.

    Attributes:
        depth: Nesting depth of the current value.
        queue: Containers whose contents follow in `rest`.
    """

    __slots__ = ("_first", "_other", "depth", "queue", "shared")

    def __init__(
        self,
        shared: Shared,
        other: Callable[[Encoder, Any], Json],
        first: Callable[[Encoder, Any], Json | None] | None = None,
    ) -> None:
        self.shared = shared
        self._other = other
        self._first = first
        self.depth = 0
        self.queue: list[Any] = []

    def encode(self, value: Any) -> Json:
        """Encode a value; contents of new instances, and of values nested too deeply for JSON, follow in `rest`."""
        writer = _WRITERS.get(type(value))
        if writer is not None:
            return writer(self, value)
        number = self.shared.containers.number(value)
        # A subclass of list and the like goes on to `_first`, which knows whether its class crosses too.
        if number is not None and not isinstance(value, PLAIN):
            return {"ref": number}
        if self._first is not None:
            written = self._first(self, value)
            if written is not None:
                return written
        for kind in type(value).__mro__:
            writer = _WRITERS.get(kind)
            if writer is not None:
                named = kind is tuple and is_namedtuple(value)
                return _of_parts(NAMEDTUPLE, self, value) if named else writer(self, value)
        return self.other(value)

    def other(self, value: Any) -> Json:
        """Encode an object that is not plain data."""
        if (kind := kind_of_library(value)) is not None:
            return _of_parts(kind, self, value)
        tag = tag_of_library(value)
        return (
            self._other(self, value) if tag is None else write_container(tag, self, value)
        )

    def encode_all(self, values: Iterable[Any]) -> list[Json]:
        """Encode values as a list.

        Values of a single plain type are copied without a call per value.

        Raises:
            TooDeepError: if the list is nested too deeply.
        """
        values = list(values)
        if _is_flat(values):
            return values
        if self.depth >= MAX_DEPTH:
            raise TooDeepError("a value that is nested too deeply")
        self.depth += 1
        try:
            return [self.encode(value) for value in values]
        finally:
            self.depth -= 1

    def write(
        self, message: dict[str, Json], key: str, encode: Callable[[Encoder], Json]
    ) -> None:
        """Write encoded values and changed containers into a message.

        If encoding fails, objects numbered during the attempt are forgotten.

        Args:
            message: The message, changed in place.
            key: Key for the encoded values.
            encode: Encodes the values with this encoder.
        """
        mark = len(self.shared.containers.objects)
        try:
            message[key] = encode(self)
            if changed := self.shared.changed():
                message["changed"] = [
                    [self.shared.containers.number(value), write_contents(self, value)]
                    for value in changed
                ]
                self.shared.remember(changed)
            if self.queue:
                # The queue grows during the loop.
                message["rest"] = [write_contents(self, value) for value in self.queue]
        except BaseException:
            self.shared.containers.truncate(mark)
            raise
        self.shared.settle()


def _is_flat(values: list[Any]) -> bool:
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return not kinds
    if int in kinds:
        return bool(min(values) >= SMALLEST and max(values) <= LARGEST)
    if float in kinds:
        return all(map(isfinite, values))
    if str in kinds:
        # JSON carries all texts but lone surrogates; texts in ASCII are quick to tell apart.
        return all(map(str.isascii, values))
    return bool in kinds


def _itself(_: Encoder, value: Any) -> Json:
    return value


def _int(encoder: Encoder, value: int) -> Json:
    # The base's own method, here and below: a subclass may override it, and only the number crosses.
    value = int.__int__(value)
    return value if SMALLEST <= value <= LARGEST else _of_parts(INT, encoder, value)


def _float(encoder: Encoder, value: float) -> Json:
    value = float.__float__(value)
    return value if isfinite(value) else _of_parts(FLOAT, encoder, value)


def _str(encoder: Encoder, value: str) -> Json:
    value = str.__str__(value)
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return _of_parts(TEXT, encoder, value)
    return value


def _type(encoder: Encoder, value: type) -> Json:
    return _of_parts(TYPE, encoder, value) if value in TYPE_NAMES else encoder.other(value)


def write_container(tag: str, encoder: Encoder, value: Any) -> Json:
    """Encode a container, or a reference if the other end already knows its number.

    Attributes of instances, and contents of deeply nested containers, follow later in `rest`.
    """
    known = encoder.shared.containers
    number = known.number(value)
    if number is not None:
        return {"ref": number}
    head_of = CONTAINERS[tag].head
    # Before the container has a number: the decoder reads the head first, too.
    head = None if head_of is None else encoder.encode(head_of(value))
    known.add(value)
    if encoder.depth >= DEEP or tag == "instance":
        encoder.queue.append(value)
        return {"later": [tag, head]}
    held = write_contents(encoder, value)
    if tag == "list":
        return held
    return {tag: held if head_of is None else [head, held]}


def _of_parts(kind: Kind, encoder: Encoder, value: Any) -> Json:
    return {kind.tag: encoder.encode_all(kind.parts(value))}


_WRITERS: dict[type, Callable[[Encoder, Any], Json]] = {
    type(None): _itself,
    bool: _itself,
    int: _int,
    float: _float,
    str: _str,
    type: _type,
    **{kind: partial(_of_parts, found) for kind, found in KINDS.items()},
    **{
        kind: partial(write_container, kind.__name__)
        for kind in (list, dict, OrderedDict, Counter, defaultdict, set, bytearray, deque)
    },
}


def is_plain_type(kind: type) -> bool:
    """Return whether values of exactly this type cross as plain data."""
    return kind in _WRITERS


def write_as(encoder: Encoder, value: Any, kind: type) -> Json:
    """Encode a plain type's subclass instance as that plain type."""
    return _WRITERS[kind](encoder, value)
