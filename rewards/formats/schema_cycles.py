"""Whether a JSON Schema refers to itself without ever looking deeper into the value, so that no validation ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# What holds a schema, a list of them or a mapping to them, for the value itself and not for what is in it.
_SCHEMA = ("not", "if", "then", "else")
_LIST = ("allOf", "anyOf", "oneOf")
_MAPPING = ("dependentSchemas", "dependencies")


class CycleFinder:
    """Looks for such circles, at each part of a schema once.

    Args:
        specification: The schema's dialect's, of `referencing`.
    """

    def __init__(self, specification: Any) -> None:
        self.specification = specification
        self.open: set[int] = set()  # the parts on the way to this one
        self.done: set[int] = set()

    def is_endless(self, part: Any, resolver: Any) -> bool:
        """Whether a part of a schema, as a resource, leads back to itself."""
        place = id(part.contents)
        if place in self.done or not isinstance(part.contents, Mapping):
            return False
        if place in self.open:
            return True
        self.open.add(place)
        found = any(self.is_endless(*inner) for inner in self._for_the_same_value(part.contents, resolver))
        self.open.remove(place)
        self.done.add(place)
        return found

    def _for_the_same_value(self, schema: Mapping[str, Any], resolver: Any) -> Iterator[tuple[Any, Any]]:
        for keyword in _REFERENCES:
            if isinstance(schema.get(keyword), str):
                target = resolver.lookup(schema[keyword])
                yield self.specification.create_resource(target.contents), target.resolver
        for part in _held(schema):
            if isinstance(part, Mapping):
                resource = self.specification.create_resource(part)
                yield resource, resolver.in_subresource(resource)


def _held(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from (schema[keyword] for keyword in _SCHEMA if keyword in schema)
    for keyword in _LIST:
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword]
    for keyword in _MAPPING:
        if isinstance(schema.get(keyword), Mapping):
            yield from schema[keyword].values()
