"""Decode Python values from JSON; see `values` for the format.

In the judge, the JSON comes from the program and may be hostile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from trl_grpo_ext.programs.sandbox.inside.crossing.containers import (
    CONTAINERS,
    PLAIN,
    Container,
    refill,
)
from trl_grpo_ext.programs.sandbox.inside.crossing.frames import is_frame
from trl_grpo_ext.programs.sandbox.inside.crossing.kinds import BY_TAG, NAMEDTUPLE, Kind
from trl_grpo_ext.programs.sandbox.inside.crossing.values import (
    MAX_DEPTH,
    Json,
    MalformedError,
    Shared,
    attributes,
    checked,
)

_NESTED = frozenset({list, dict})


class Decoder:
    """A decoder for a single message.

    Args:
        shared: Objects that both ends know by number.
        other: Decodes tags that are not plain data; for the tag `instance`, creates an object without attributes, given
            its class name.
    """

    __slots__ = ("_depth", "_other", "_queue", "shared")

    # The judge's decoder has other tables.
    containers: ClassVar[Mapping[str, Container]] = CONTAINERS
    kinds: ClassVar[Mapping[str, Kind]] = BY_TAG

    def __init__(self, shared: Shared, other: Callable[[Decoder, str, Json], Any]) -> None:
        self.shared = shared
        self._other = other
        self._depth = 0
        self._queue: list[Any] = []

    def decode(self, data: Json) -> Any:
        """Decode a value.

        Raises:
            MalformedError: if `data` represents no value.
        """
        kind = type(data)
        if kind is list:
            # Numbered before its contents, as in the encoder, so that a list may contain itself.
            new = self.enter([])
            new.extend(self.decode_all(data))
            return new
        if kind is not dict:
            return data
        if len(data) != 1:
            raise MalformedError("a tag is missing")
        ((tag, payload),) = data.items()
        if (of_parts := self.kinds.get(tag)) is not None:
            made = _made(of_parts, self.decode_all(payload))
            if of_parts is NAMEDTUPLE:
                self.check_names(made._asdict())
            return made
        if tag in self.containers:
            has_head = self.containers[tag].head is not None
            head, content = payload if has_head else (None, payload)
            refill(self, new := self._empty(tag, head), content)
            return new
        if tag == "ref":
            known = self.shared.containers.at(payload)
            self.shared.watch(known)
            return known
        if tag == "later":
            self._queue.append(new := self._empty(*payload))
            return new
        return self._other(self, tag, payload)

    def decode_all(self, data: Json) -> list[Any]:
        """Decode the elements of a JSON list."""
        if type(data) is not list:
            raise MalformedError("a list is missing")
        # Scalars stand for themselves, so there is nothing to decode.
        if _NESTED.isdisjoint(map(type, data)):
            return data
        if self._depth >= MAX_DEPTH:
            raise MalformedError("nested too deeply")
        self._depth += 1
        try:
            return [self.decode(each) for each in data]
        finally:
            self._depth -= 1

    def check_names(self, state: dict[str, Any]) -> None:
        """Check the attributes of an object that crosses by its contents; the judge's decoder refuses some."""

    def enter(self, container: Any) -> Any:
        """Number a new container, before its contents are decoded, and return it."""
        self.shared.received.add(self.shared.containers.add(container))
        return container

    def _empty(self, tag: Json, head: Json) -> Any:
        if tag == "instance":
            return self.enter(self._other(self, tag, head))
        kind = self.containers[tag]
        return self.enter(
            kind.empty() if kind.head is None else kind.empty(self.decode(head))
        )

    def finish(self, message: dict[str, Json]) -> list[Any]:
        """Decode a message's remaining contents and return containers changed by the other end.

        Call it after all values of the message are decoded.

        Raises:
            MalformedError: if contents are missing, or a change replaces a method.
        """
        # Changes come before the rest, as in the encoder, because new containers get numbers on the way.
        changed = [
            self._change(*each) for each in checked(message.get("changed", []), list)
        ]
        rest = iter(checked(message.get("rest", []), list))
        # The queue grows during the loop.
        for value in self._queue:
            content = next(rest, None)
            if content is None:
                raise MalformedError("the rest is missing")
            refill(self, value, content)
        self.shared.remember(changed)
        self.shared.settle()
        return changed

    def _change(self, number: Json, content: Json) -> Any:
        value = self.shared.containers.at(number)
        before = _attribute_names(value)
        refill(self, value, content)
        added = _attribute_names(value) - before
        # An attribute that hides a method of the class would answer in the method's place.
        if any(callable(getattr(type(value), name, None)) for name in added):
            raise MalformedError("a method that was replaced")
        return value


def _made(kind: Kind, parts: list[Any]) -> Any:
    if kind.types is not None:
        for part, each in zip(parts, kind.types, strict=True):
            checked(part, each)
    return kind.make(*parts)


def _attribute_names(value: Any) -> set[str]:
    no_names = isinstance(value, PLAIN) or is_frame(value)
    return set() if no_names else {*attributes(value)}
