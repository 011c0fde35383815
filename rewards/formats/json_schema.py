"""JSON and JSON Schema, read strictly and judged without the network.

Reading takes linear time, and goes to no depth that could exhaust the stack. A schema may take for ever on a completion
(`pattern`), so it is called inside a worker, and with a bound on its processor time.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from threading import get_ident
from typing import Any, NoReturn

from trl_grpo_ext.answers.verdicts import SHOWN_CHARS, right, unreadable, wrong
from trl_grpo_ext.rewards.formats.answer_part import FormatFaultError
from trl_grpo_ext.verdict import Verdict, skipped
from trl_grpo_ext.workers.processor_time import processor_seconds

ROOTS: Mapping[str, tuple[type, ...]] = {"object": (dict,), "array": (list,), "any": (object,)}
CONTAINER = (dict, list)
MAX_SCHEMA_DEPTH = 100
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
PROCESSOR_SHARE = 0.1
"""The part of `timeout` that one answer may take as processor time; honest ones take milliseconds. A worker that gets a
twentieth of a core, because others are busy, has used it before `timeout` has passed twice: the answer is to blame."""
_FRAMES = 6_000  # Python calls that a validation may nest: far more than an honest schema needs at any allowed depth
# A value of each type, to see whether a validation ends.
_PROBES: tuple[Any, ...] = (None, True, 0, "", [], {})
MAX_DIGITS = 300  # of a number. Such a number is read in linear time, and is finite as a float, too.
# The last alternatives take an unclosed text to its end, so that no text is looked at twice.
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def read_json(text: str, *, max_depth: int) -> Any:
    """The value that a JSON text denotes.

    Stricter than Python's reader: every key once, no NaN or infinity, nothing deeper than `max_depth` lists or
    objects, no number of more than `MAX_DIGITS` digits.

    Raises:
        FormatFaultError: for any other text.

    Examples:
        >>> read_json('{"a": [1, 2]}', max_depth=2)
        {'a': [1, 2]}
        >>> read_json('{"a": 1, "a": 2}', max_depth=2)
        Traceback (most recent call last):
            ...
        trl_grpo_ext.rewards.formats.answer_part.FormatFaultError: duplicate_key
    """
    _check_depth(text, max_depth)
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_real, parse_constant=_constant, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        reason = "text_after_json" if error.msg == "Extra data" else "not_json"
        raise FormatFaultError(reason, f"{error.msg}, line {error.lineno} column {error.colno}") from None


def _check_depth(text: str, max_depth: int) -> None:
    depth = 0
    for found in _STRUCTURE.finditer(text):
        token = found[0]
        if token in ("[", "{"):
            depth += 1
            if depth > max_depth:
                raise FormatFaultError("too_deep", f"more than {max_depth} levels")
        elif token in ("]", "}"):
            depth -= 1


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise FormatFaultError("number_too_long", f"{len(digits)} digits")
    return int(digits)


def _real(written: str) -> float:
    if len(written) > MAX_DIGITS:
        raise FormatFaultError("number_too_long", f"{len(written)} characters")
    number = float(written)
    if not math.isfinite(number):
        raise FormatFaultError("not_finite", written[:20])
    return number


def _constant(name: str) -> NoReturn:
    raise FormatFaultError("not_finite", name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FormatFaultError("duplicate_key", double[:100])
    return members


def schema_problem(schema: str, root: str | None) -> tuple[str, str]:
    """The reason code of a text that is no schema, or not of a root that is known, and why; two empty texts else.

    Examples:
        >>> schema_problem('{"type": "objekt"}', None)[0], schema_problem('{"type": "object"}', None)
        ('schema_bad', ('', ''))
    """
    found = _read_schema(schema)
    if isinstance(found, str):
        return "schema_bad", found
    problem = _root_problem(found, root)
    return ("schema_root_unknown", problem) if problem else ("", "")


def check_here(schema: str, root: str | None) -> dict[str, Any]:
    """CORRECT for a schema that can be used, SKIPPED for any other. Called inside a worker."""
    reason, problem = schema_problem(schema, root)
    if reason:
        return {**skipped(reason).to_record(), "details": {"schema": problem[:300]}}
    return right().to_record()


def _root_problem(validator: Any, root: str | None) -> str:
    """What is wrong with a schema that does not say what type it wants; empty if it says so.

    JSON Schema's keywords bind only values of their own type: `{"required": ["name"]}` accepts `[]` and every number.
    Such a schema is found by what it accepts: no keyword but those that tell types refuses `null` or `true`.
    """
    if root is not None or not (validator.is_valid(None) and validator.is_valid(True)):
        return ""
    return "it does not say what it wants, and accepts null and true; give it a type, or say root='object'"


def judge_here(text: str, schema: str, root: str | None, max_depth: int, timeout: float) -> dict[str, Any]:
    """Judge a text by a schema that can be used. Called inside a worker, whose main thread has a large stack."""
    _read_schema(schema)  # which is remembered, and is none of the answer's time
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        with processor_seconds(PROCESSOR_SHARE * timeout):
            return judge_json(text, schema, root, max_depth).to_record()
    finally:
        sys.setrecursionlimit(before)


def judge_json(text: str, schema: str | None, root: str | None, max_depth: int) -> Verdict:
    """The verdict on a JSON text; without a schema in linear time."""
    try:
        value = read_json(text, max_depth=max_depth)
    except FormatFaultError as fault:
        return unreadable(fault.reason, answer=text, details={"json": fault.detail})
    found = _read_schema(schema) if schema is not None else None
    if isinstance(found, str):
        return skipped("schema_bad")
    allowed = ROOTS[root] if root is not None else (object,) if found is not None else CONTAINER
    if not isinstance(value, allowed):
        return wrong("wrong_root", answer=text, details={"root": type(value).__name__})
    if found is None:
        return right(text) if value or not isinstance(value, CONTAINER) else wrong("empty_json", answer=text)
    return _held_against(found, value, text)


def _held_against(validator: Any, value: Any, text: str) -> Verdict:
    from referencing.exceptions import Unresolvable

    try:
        error = next(validator.iter_errors(value), None)
    except RecursionError:  # the schema was tried with other values, so it is this value that is too deep for it
        return unreadable("too_deep", answer=text)
    except Unresolvable:
        return skipped("schema_bad", answer=text[:SHOWN_CHARS])
    if error is None:
        return right(text)
    if error.validator == "type" and not error.path:
        return wrong("wrong_root", answer=text, details={"root": type(value).__name__})
    where = {"path": str(error.json_path)[:200], "keyword": str(error.validator)}
    return wrong("schema_mismatch", answer=text, details=where)


@lru_cache(maxsize=64)
def _read_schema(schema: str) -> Any:
    """The validator of a schema's text; a text that says what is wrong with it, if it cannot be used."""
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        return _validator(read_json(schema, max_depth=MAX_SCHEMA_DEPTH))
    except FormatFaultError as fault:
        return f"it is not JSON: {fault.reason} {fault.detail}".strip()
    except SchemaError as error:
        return f"at {error.json_path}: {error.message[:200]}"
    except Unresolvable as error:
        return f"the reference {error.ref!r} leads nowhere inside the schema, and nothing is fetched"
    except RecursionError:
        return "it refers to itself without an end"


def _validator(schema: Any) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import extend, validator_for
    from jsonschema_specifications import REGISTRY

    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    known = {uri.rstrip("#") for uri in REGISTRY}
    if dialect is not None and not (isinstance(dialect, str) and dialect.rstrip("#") in known):
        raise SchemaError(f"the dialect {dialect!r} is not known", path=["$schema"])
    found: Any = validator_for(schema, default=Draft202012Validator)
    found.check_schema(schema, format_checker=found.FORMAT_CHECKER)  # which also compiles its patterns
    following = {keyword: _ending(follow) for keyword, follow in found.VALIDATORS.items() if keyword in _REFERENCES}
    # A registry of our own: the default one fetches what it does not know.
    validator = extend(found, following | {"uniqueItems": _unique})(schema, registry=REGISTRY)
    for part in _parts(found, schema):
        for probe in _PROBES:  # a RecursionError tells of a schema that refers to itself without an end
            next(validator.evolve(schema=part).iter_errors(probe), None)
    return validator


def _unique(_validator: Any, wanted: object, instance: object, _schema: object) -> Iterator[Any]:
    """The keyword `uniqueItems` in linear time; jsonschema compares each object with all before."""
    from jsonschema.exceptions import ValidationError

    if wanted and isinstance(instance, list) and len({*map(_hashable, instance)}) < len(instance):
        yield ValidationError("it has an item twice")


def _hashable(value: Any) -> Any:
    """A value that equals another's exactly where JSON Schema says that the two are equal: 1 is 1.0, and not true."""
    if isinstance(value, dict):
        return dict, frozenset((key, _hashable(member)) for key, member in value.items())
    if isinstance(value, list):
        return list, *map(_hashable, value)
    return (bool, value) if isinstance(value, bool) else value


def _ending(follow: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A reference, with a RecursionError where it returns to itself; Python's own may panic the compiled registry."""
    followed: set[tuple[int, int, int]] = set()

    def follow_once(validator: Any, reference: object, instance: object, schema: object) -> Iterator[Any]:
        step = (get_ident(), id(schema), id(instance))
        if step in followed:
            raise RecursionError
        followed.add(step)
        try:
            yield from follow(validator, reference, instance, schema)
        finally:
            followed.remove(step)

    return follow_once


def _parts(dialect: Any, schema: Any) -> Iterator[Any]:
    """The schema and every schema in it, after its references were found to lead somewhere; nothing is fetched."""
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    whole = specification_with(dialect.META_SCHEMA.get("$schema")).create_resource(schema)
    pending = [(whole, REGISTRY.resolver_with_root(whole))]
    while pending:
        part, resolver = pending.pop()
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(part.contents, dict) and isinstance(part.contents.get(keyword), str):
                resolver.lookup(part.contents[keyword])
        yield part.contents
        pending += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]


class BadSchemaError(Exception):
    """A schema is neither an object nor JSON text; the message says why."""


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
