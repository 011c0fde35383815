"""What a JSON Schema wants the value as a whole to be: what it says itself, or what its keywords are about.

Keywords bind only values of their own type: `{"required": ["name"]}` accepts every array and every number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from typing import Any

TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_OBJECT = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("required", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"),
    }
)
_ARRAY = frozenset(
    {
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
        *("minContains", "maxContains", "minItems", "maxItems", "uniqueItems"),
    }
)

Names = frozenset[str]  # of TYPES


def root_types(schema: Any, specification: Any, resolver: Any) -> Names | None:
    """The names of the types that the value may have; None if the schema does not say.

    It says so by `type`, `enum` or `const`, its own or those of `$ref`, `allOf`, `anyOf` and `oneOf`. Where it does
    not, keywords that are about objects alone, or about arrays alone, tell one type; two are a guess.

    Args:
        schema: The schema, whose references lead somewhere and do not go in circles.
        specification: Its dialect's, of `referencing`.
        resolver: What its references are looked up in.
    """
    said = _Reader(specification, guess=False).read(schema, resolver)
    if said is not None:
        return said
    guessed = _Reader(specification, guess=True).read(schema, resolver)
    return guessed if guessed is not None and len(guessed) == 1 else None


class _Reader:
    def __init__(self, specification: Any, *, guess: bool) -> None:
        self.specification = specification
        self.guess = guess  # whether keywords count

    def read(self, schema: Any, resolver: Any) -> Names | None:
        if not isinstance(schema, Mapping):
            return None if schema else frozenset()
        said = [_named(schema)]
        if self.guess:
            said.append(_guessed(schema))
        if isinstance(schema.get("$ref"), str):
            target = resolver.lookup(schema["$ref"])
            said.append(self.read(target.contents, target.resolver))
        said += self._each(schema.get("allOf"), resolver)
        said += [_either(self._each(schema.get(keyword), resolver)) for keyword in ("anyOf", "oneOf")]
        told = [names for names in said if names is not None]
        return reduce(_both, told) if told else None

    def _each(self, parts: Any, resolver: Any) -> list[Names | None]:
        if not isinstance(parts, list):
            return []
        resources = [self.specification.create_resource(part) for part in parts]
        return [self.read(part.contents, resolver.in_subresource(part)) for part in resources]


def _both(one: Names, other: Names) -> Names:
    return _with_integers(one) & _with_integers(other)


def _with_integers(names: Names) -> Names:
    return names | {"integer"} if "number" in names else names


def _either(parts: Collection[Names | None]) -> Names | None:
    """The types of any of the parts; None if there is none, or one that accepts all."""
    told = [names for names in parts if names is not None]
    return frozenset[str]().union(*told) if told and len(told) == len(parts) else None


def _named(schema: Mapping[str, Any]) -> Names | None:
    told: list[Names] = []
    if "type" in schema:
        listed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if all(isinstance(name, str) and name in TYPES for name in listed):
            told.append(frozenset(listed))
    if isinstance(schema.get("enum"), list):
        told.append(_types_of(schema["enum"]))
    if "const" in schema:
        told.append(_types_of([schema["const"]]))
    return reduce(_both, told) if told else None


def _types_of(values: Iterable[Any]) -> Names:
    return frozenset(name for value in values for name, types in TYPES.items() if isinstance(value, types))


def _guessed(schema: Mapping[str, Any]) -> Names | None:
    objects, arrays = not _OBJECT.isdisjoint(schema), not _ARRAY.isdisjoint(schema)
    if objects == arrays:
        return None
    return frozenset({"object" if objects else "array"})
