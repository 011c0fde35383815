"""JSON Schema by `jsonschema`, without the network: what is wrong with a schema, and with a value.

What runs here on a completion may take for ever (`pattern`, `uniqueItems`), so it is called inside a worker.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trl_grpo_ext.rewards.answers.verifier import SHOWN_CHARS, right, unreadable, wrong
from trl_grpo_ext.rewards.formats.json_text import JsonFaultError, read_json
from trl_grpo_ext.rewards.formats.schema_cycles import CycleFinder
from trl_grpo_ext.rewards.formats.schema_root import TYPES, root_types
from trl_grpo_ext.verdict import Status, Verdict, skipped

ROOTS: Mapping[str, tuple[type, ...]] = {"object": (dict,), "array": (list,), "any": (object,)}
CONTAINER = (dict, list)
MAX_SCHEMA_DEPTH = 100
_FRAMES = 6_000  # Python calls that a validation may nest: far more than an honest schema needs at any allowed depth
_PROBES: tuple[Any, ...] = (None, True, 0, "", [], {})


class BadSchemaError(Exception):
    """The schema is none, or cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class _Schema:
    """A schema that can be used: its validator, and the types that it wants the value to have, if it says so."""

    validator: Any
    types: frozenset[str] | None


def check_schema(schema: str, root: str | None) -> None:
    """Raise a BadSchemaError unless this text is a schema that any value can be held against, of a root that is known.

    Example:
        >>> check_schema('{"type": "objekt"}', None)
        Traceback (most recent call last):
            ...
        trl_grpo_ext.rewards.formats.json_schema.BadSchemaError: at $.type: 'objekt' is not valid under any of ...
    """
    found = _read_schema(schema)
    problem = found if isinstance(found, str) else _root_problem(found, root)
    if problem:
        raise BadSchemaError(problem)


def check_here(schema: str, root: str | None) -> dict[str, Any]:
    """CORRECT for a schema that can be used, SKIPPED for any other. Called inside a worker."""
    with _more_frames():
        found = _read_schema(schema)
        unknown = "" if isinstance(found, str) else _root_problem(found, root)
    if isinstance(found, str):
        return {**skipped("schema_bad").to_record(), "details": {"schema": found[:300]}}
    if unknown:
        return {**skipped("schema_root_unknown").to_record(), "details": {"schema": unknown}}
    return Verdict(status=Status.CORRECT, score=1.0).to_record()


def _root_problem(schema: _Schema, root: str | None) -> str:
    """Why the value's type is not known; empty if it is."""
    if root is not None or schema.types:
        return ""
    if schema.types is not None:
        return "it accepts nothing"
    passed = [shown for shown, value in (("[]", []), ("{}", {})) if schema.validator.is_valid(value)]
    accepts = f", and accepts {' and '.join(passed)}" if passed else ""
    return f"it does not say whether it wants an object or an array{accepts}; give it a type, or say root='object'"


def judge_here(text: str, schema: str, root: str | None, max_depth: int) -> dict[str, Any]:
    """Judge a text by a schema that `check_schema` has passed. Called inside a worker."""
    with _more_frames():
        return judge_json(text, schema, root, max_depth).to_record()


def judge_json(text: str, schema: str | None, root: str | None, max_depth: int) -> Verdict:
    """The verdict on a JSON text; without a schema in linear time."""
    try:
        value = read_json(text, max_depth=max_depth)
    except JsonFaultError as fault:
        return unreadable(fault.reason, answer=text, details={"json": fault.detail})
    found = _read_schema(schema) if schema is not None else None
    if isinstance(found, str):
        return skipped("schema_bad")
    if not isinstance(value, _allowed(root, found)):
        return wrong("wrong_root", answer=text, details={"root": type(value).__name__})
    if found is None:
        return right(text) if value or not isinstance(value, CONTAINER) else wrong("empty_json", answer=text)
    return _held_against(found.validator, value, text)


def _held_against(validator: Any, value: Any, text: str) -> Verdict:
    from referencing.exceptions import Unresolvable

    try:
        error = next(validator.iter_errors(value), None)
    except RecursionError:  # the schema has an end, so it is the value that is too deep for it
        return unreadable("too_deep", answer=text)
    except Unresolvable:
        return skipped("schema_bad", answer=text[:SHOWN_CHARS])
    if error is None:
        return right(text)
    where = {"path": str(error.json_path)[:200], "keyword": str(error.validator)}
    return wrong("schema_mismatch", answer=text, details=where)


def _allowed(root: str | None, schema: _Schema | None) -> tuple[type, ...]:
    """The types that the value may have before the schema is asked, whose keywords bind only values of their type."""
    if root is not None:
        return ROOTS[root]
    if schema is None:
        return CONTAINER
    return tuple(kind for name in schema.types or () for kind in TYPES[name])


@lru_cache(maxsize=64)
def _read_schema(schema: str) -> _Schema | str:
    """The schema of a text; what is wrong with it, if it cannot be used."""
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        return _usable(read_json(schema, max_depth=MAX_SCHEMA_DEPTH))
    except JsonFaultError as fault:
        return f"it is not JSON: {fault.reason} {fault.detail}".strip()
    except SchemaError as error:
        return f"at {error.json_path}: {error.message[:200]}"
    except Unresolvable as error:
        return f"the reference {error.ref!r} leads nowhere inside the schema, and nothing is fetched"
    except RecursionError:
        return "it refers to itself without an end"


def _usable(schema: Any) -> _Schema:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    found: Any = validator_for(schema, default=Draft202012Validator) if _is_known(dialect) else None
    if found is None:
        raise SchemaError(f"the dialect {dialect!r} is not known", path=["$schema"])
    found.check_schema(schema, format_checker=found.FORMAT_CHECKER)  # which also compiles its patterns
    # A registry of our own: the default one fetches what it does not know.
    validator = found(schema, registry=REGISTRY)
    specification, resolver = _resolution(found, schema)
    parts = list(_parts(specification.create_resource(schema), resolver))
    cycles = CycleFinder(specification)
    if any(cycles.is_endless(*part) for part in parts):
        raise RecursionError("found before it happens: the validator's own is not always one that can be caught")
    for part, _ in parts:
        for probe in _PROBES:
            next(validator.evolve(schema=part.contents).iter_errors(probe), None)
    return _Schema(validator, root_types(schema, specification, resolver))


def _is_known(dialect: object) -> bool:
    from jsonschema_specifications import REGISTRY

    return dialect is None or (
        isinstance(dialect, str) and dialect.rstrip("#") in {uri.rstrip("#") for uri in REGISTRY}
    )


def _parts(schema: Any, resolver: Any) -> Iterator[tuple[Any, Any]]:
    """The schema and every schema in it, with what resolves its references, after each was found to lead somewhere."""
    pending = [(schema, resolver)]
    while pending:
        part, resolver = pending.pop()
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(part.contents, dict) and isinstance(part.contents.get(keyword), str):
                resolver.lookup(part.contents[keyword])
        yield part, resolver
        pending += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]


def _resolution(dialect: Any, schema: Any) -> tuple[Any, Any]:
    """The specification of a dialect, and what looks references of such a schema up; neither fetches anything."""
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    specification = specification_with(dialect.META_SCHEMA.get("$schema"))
    return specification, REGISTRY.resolver_with_root(specification.create_resource(schema))


@contextmanager
def _more_frames() -> Iterator[None]:
    """Let calls nest more deeply for a while; only for a process of its own, whose main thread has a large stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def schema_text(schema: object) -> str:
    """A schema, given as an object or as its JSON text, as JSON text.

    Raises:
        BadSchemaError: if it is neither.
    """
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, Mapping | bool):
        raise BadSchemaError(f"a schema is an object or its JSON text, not {type(schema).__name__}")
    try:
        return json.dumps(schema if isinstance(schema, bool) else dict(schema), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadSchemaError(f"it is not JSON: {error}") from None
