"""Reads Python values from JSON that may be hostile; see `values` for the form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trl_grpo_ext.sandbox.inside.crossing.containers import CONTAINERS, refill
from trl_grpo_ext.sandbox.inside.crossing.kinds import BY_TAG, Kind
from trl_grpo_ext.sandbox.inside.crossing.values import (
    MAX_DEPTH,
    Json,
    MalformedError,
    Shared,
    attributes,
    checked,
    is_attribute,
    set_attributes,
)

_NESTED = frozenset({list, dict})


class Decoder:
    """Reads the values of one message.

    Args:
        shared: What both ends know by number.
        other: Reads the other tags.
        blank: Makes an object without attributes of the class of a name; None where no objects come by value.
    """

    __slots__ = ("_blank", "_depth", "_other", "_queue", "shared")

    def __init__(
        self,
        shared: Shared,
        other: Callable[[Decoder, str, Json], Any],
        blank: Callable[[str], Any] | None = None,
    ) -> None:
        self.shared = shared
        self._other = other
        self._blank = blank
        self._depth = 0
        self._queue: list[Any] = []

    def decode(self, data: Json) -> Any:
        """The value that `data` stands for.

        Raises:
            MalformedError: if it stands for none.
        """
        kind = type(data)
        if kind is list:
            new = self.enter([])
            new.extend(self.decode_all(data))
            return new
        if kind is not dict:
            return data
        if len(data) != 1:
            raise MalformedError("a tag is missing")
        ((tag, payload),) = data.items()
        if (of_parts := BY_TAG.get(tag)) is not None:
            return _made(of_parts, self.decode_all(payload))
        if tag in CONTAINERS:
            head, content = payload
            new = self.enter(CONTAINERS[tag].empty(head))
            refill(self, new, content)
            return new
        if tag == "ref":
            return self.reference(self.shared.containers.objects, payload)
        if tag == "later":
            return self._announced(*payload)
        return self.instance(payload) if tag == "instance" else self._other(self, tag, payload)

    def decode_all(self, data: Json) -> list[Any]:
        """The values of a list."""
        if type(data) is not list:
            raise MalformedError("a list is missing")
        if _NESTED.isdisjoint(map(type, data)):
            return data
        if self._depth >= MAX_DEPTH:
            raise MalformedError("nested too deeply")
        self._depth += 1
        try:
            return [self.decode(each) for each in data]
        finally:
            self._depth -= 1

    def enter(self, container: Any) -> Any:
        """Give a new container its number, which it must have before what it holds."""
        self.shared.containers.add(container)
        return container

    def _announced(self, tag: Json, head: Json) -> Any:
        """A container that holds nothing yet: its contents follow in the rest of the message."""
        new = self.enter(CONTAINERS[tag].empty(head))
        self._queue.append(new)
        return new

    def instance(self, data: Json) -> Any:
        """An object by value: known by its number, or new, with attributes in the rest of the message."""
        if type(data) is not list:
            return self.reference(self.shared.instances.objects, data)
        number, name = data
        if self._blank is None or number != len(self.shared.instances.objects):
            raise MalformedError("no such object")
        new = self._blank(name)
        self.shared.instances.add(new)
        self._queue.append(new)
        return new

    def reference(self, table: list[Any], number: Json) -> Any:
        """The object of that number."""
        if type(number) is not int or not 0 <= number < len(table):
            raise MalformedError("no such object")
        return table[number]

    def finish(self, message: dict[str, Json]) -> list[Any]:
        """Read the rest of a message, whose values have been read, and change what the other end has changed.

        Returns:
            The changed objects.
        """
        changed = [self._change(*each) for each in checked(message.get("changed", []), list)]
        self.fill(message.get("rest", []))
        self.shared.remember(changed)
        self.shared.settle()
        return changed

    def _change(self, kind: Json, number: Json, content: Json) -> Any:
        if kind == "container":
            value = self.reference(self.shared.containers.objects, number)
            refill(self, value, content)
            return value
        value = self.reference(self.shared.instances.objects, number)
        state = self.state(content)
        if any(callable(getattr(type(value), name, None)) for name in state.keys() - attributes(value).keys()):
            raise MalformedError("a method that was replaced")
        set_attributes(value, state)
        return value

    def fill(self, rest: Json) -> None:
        """Fill what was only announced."""
        contents = iter(checked(rest, list))
        for value in self._queue:  # grows meanwhile
            content = next(contents, None)
            if content is None:
                raise MalformedError("the rest is missing")
            if self.shared.instances.number(value) is not None:
                set_attributes(value, self.state(content))
            else:
                refill(self, value, content)

    def state(self, data: Json) -> dict[str, Any]:
        """Attributes and what they hold."""
        names, values = data
        if not all(type(name) is str and is_attribute(name) for name in checked(names, list)):
            raise MalformedError("no name of an attribute")
        return dict(zip(names, self.decode_all(values), strict=True))


def _made(kind: Kind, parts: list[Any]) -> Any:
    if kind.types is not None:
        for part, each in zip(parts, kind.types, strict=True):
            checked(part, each)
    return kind.make(*parts)
