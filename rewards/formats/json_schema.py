"""Parse JSON strictly, and validate it by JSON Schema without network access.

Parsing takes linear time, and limits the nesting depth to protect the stack. Validation can hang on a completion (by
`pattern`), so it runs inside a worker, with a limit on processor time.
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

ROOTS: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "any": (object,),
}
CONTAINER = (dict, list)
MAX_SCHEMA_DEPTH = 100
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
PROCESSOR_SHARE = 0.1
"""The limit on processor time of one validation, as a share of `timeout`; honest validations take milliseconds.

Even a worker that gets only a twentieth of a busy core reaches this limit before `timeout` has passed twice, so the
limit blames the answer, not a busy machine."""
# The recursion limit of a validation: far more Python calls than an honest schema nests at any allowed depth.
_FRAMES = 6_000
# Values of `format` that are checked on every machine: the library checks more where other packages are installed.
FORMATS = ("date", "email", "ipv4", "ipv6", "regex", "uuid")
# One value of each JSON type, to test that a validation ends.
_PROBES: tuple[Any, ...] = (None, True, 0, "", [], {})
# The most digits of a number: so a number is parsed in linear time, and is finite as a float.
MAX_DIGITS = 300
# An unclosed string matches up to the end of the text, so that no character is scanned twice.
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def read_json(text: str, *, max_depth: int) -> Any:
    """Parse a JSON text to a Python value.

    The parser is stricter than `json.loads`: no duplicate key, no NaN or infinity, at most `max_depth` nested lists
    and objects, at most `MAX_DIGITS` digits in a number.

    Raises:
        FormatFaultError: if the text breaks JSON's syntax or one of these limits.

    Examples:
        >>> read_json('{"a": [1, 2]}', max_depth=2)
        {'a': [1, 2]}
        >>> read_json('{"a": 1, "a": 2}', max_depth=2)
        Traceback (most recent call last):
            ...
        trl_grpo_ext.rewards.formats.answer_part.FormatFaultError: duplicate_key
    """
    # Deep nesting would exhaust the stack of Python's parser.
    _check_depth(text, max_depth)
    try:
        return json.loads(
            text,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_constant,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        reason = "text_after_json" if error.msg == "Extra data" else "not_json"
        raise FormatFaultError(
            reason, f"{error.msg}, line {error.lineno} column {error.colno}"
        ) from None


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
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise FormatFaultError("duplicate_key", key[:100])
        members[key] = value
    return members


def schema_problem(schema: str, root: str | None) -> tuple[str, str]:
    """Return a reason code and an explanation for an invalid schema or an unknown root type; else two empty texts.

    Examples:
        >>> schema_problem('{"type": "objekt"}', None)[0], schema_problem('{"type": "object"}', None)
        ('schema_bad', ('', ''))
    """
    found = _read_schema(schema)
    if isinstance(found, str):
        return "schema_bad", found
    problem = _root_problem(found, root)
    if problem:
        return "schema_root_unknown", problem
    return "", ""


def check_here(schema: str, root: str | None) -> dict[str, Any]:
    """Check a schema inside a worker: a CORRECT record for a usable schema, SKIPPED for any other schema."""
    reason, problem = schema_problem(schema, root)
    if reason:
        record = skipped(reason).to_record()
        return {**record, "details": {"schema": problem[:300]}}
    return right().to_record()


def _root_problem(validator: Any, root: str | None) -> str:
    """Explain the fault of a schema without a root type; empty if the schema or `root` gives the type.

    A keyword constrains only values of its own type: `{"required": ["name"]}` accepts `[]` and every number. A schema
    that accepts both `null` and `true` has no root type, since only type-related keywords reject these values.
    """
    if root is not None:
        return ""
    accepts_any_type = validator.is_valid(None) and validator.is_valid(True)
    if not accepts_any_type:
        return ""
    return "it does not say what it wants, and accepts null and true; give it a type, or say root='object'"


def judge_here(
    text: str,
    schema: str,
    root: str | None,
    max_depth: int,
    timeout: float,
) -> dict[str, Any]:
    """Judge a text by a usable schema inside a worker, whose main thread has a large stack."""
    # Fill the cache first, so that reading the schema does not count as the answer's processor time.
    _read_schema(schema)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        with processor_seconds(PROCESSOR_SHARE * timeout):
            return judge_json(text, schema, root, max_depth).to_record()
    finally:
        sys.setrecursionlimit(before)


def judge_json(text: str, schema: str | None, root: str | None, max_depth: int) -> Verdict:
    """Judge a JSON text by depth, root type and schema; in linear time without a schema."""
    try:
        value = read_json(text, max_depth=max_depth)
    except FormatFaultError as fault:
        return unreadable(fault.reason, answer=text, details={"json": fault.detail})
    validator = None
    if schema is not None:
        validator = _read_schema(schema)
    if isinstance(validator, str):
        return skipped("schema_bad")
    if not isinstance(value, _allowed_types(root, has_schema=schema is not None)):
        return wrong("wrong_root", answer=text, details={"root": type(value).__name__})
    if validator is not None:
        return _held_against(validator, value, text)
    # An empty object or list is JSON that says nothing, and would be paid for any prompt.
    if isinstance(value, CONTAINER) and not value:
        return wrong("empty_json", answer=text)
    return right(text)


def _allowed_types(root: str | None, *, has_schema: bool) -> tuple[type, ...]:
    if root is not None:
        return ROOTS[root]
    # A schema without `root` names the type of the whole value itself.
    if has_schema:
        return ROOTS["any"]
    return CONTAINER


def _held_against(validator: Any, value: Any, text: str) -> Verdict:
    from referencing.exceptions import Unresolvable

    try:
        error = next(validator.iter_errors(value), None)
    except RecursionError:
        # The schema passed its probes, so the value is too deep for the schema.
        return unreadable("too_deep", answer=text)
    except Unresolvable:
        return skipped("schema_bad", answer=text[:SHOWN_CHARS])
    if error is None:
        return right(text)
    if error.validator == "type" and not error.path:
        return wrong("wrong_root", answer=text, details={"root": type(value).__name__})
    where = {
        "path": str(error.json_path)[:200],
        "keyword": str(error.validator),
    }
    return wrong("schema_mismatch", answer=text, details=where)


@lru_cache(maxsize=64)
def _read_schema(schema: str) -> Any:
    """Build the validator of a schema text; for an unusable schema, return a text that explains the fault."""
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
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import extend, validator_for
    from jsonschema_specifications import REGISTRY

    dialect = None
    if isinstance(schema, dict):
        dialect = schema.get("$schema")
    known = {uri.rstrip("#") for uri in REGISTRY}
    is_known = isinstance(dialect, str) and dialect.rstrip("#") in known
    if dialect is not None and not is_known:
        raise SchemaError(f"the dialect {dialect!r} is not known", path=["$schema"])
    standard: Any = validator_for(schema, default=Draft202012Validator)
    # The format checker makes invalid regular expressions in the schema errors.
    standard.check_schema(schema, format_checker=standard.FORMAT_CHECKER)
    replaced = {"uniqueItems": _unique}
    for keyword in _REFERENCES:
        if keyword in standard.VALIDATORS:
            replaced[keyword] = _ending(standard.VALIDATORS[keyword])
    hardened = extend(standard, replaced)
    # An explicit registry, because the default registry fetches unknown references.
    formats = FormatChecker(FORMATS)
    validator = hardened(schema, registry=REGISTRY, format_checker=formats)
    for part in _parts(standard, schema):
        validator_of_part = validator.evolve(schema=part)
        for probe in _PROBES:
            # A RecursionError here reveals an endless self-reference in the schema.
            next(validator_of_part.iter_errors(probe), None)
    return validator


def _unique(
    _validator: Any,
    wanted: object,
    instance: object,
    _schema: object,
) -> Iterator[Any]:
    """Validate `uniqueItems` in linear time; jsonschema's own check compares all pairs of objects."""
    from jsonschema.exceptions import ValidationError

    if not wanted or not isinstance(instance, list):
        return
    distinct = {_hashable(item) for item in instance}
    if len(distinct) < len(instance):
        yield ValidationError("it has an item twice")


def _hashable(value: Any) -> Any:
    """Make a hashable key, equal for exactly the values that JSON Schema calls equal: 1 and 1.0, but not true."""
    if isinstance(value, dict):
        return dict, frozenset((key, _hashable(member)) for key, member in value.items())
    if isinstance(value, list):
        return list, *map(_hashable, value)
    # For Python, True equals 1.
    if isinstance(value, bool):
        return bool, value
    return value


def _ending(follow: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Raise RecursionError on an endless self-reference; Python's own error could panic the compiled registry."""
    followed: set[tuple[int, int, int]] = set()

    def follow_once(
        validator: Any,
        reference: object,
        instance: object,
        schema: object,
    ) -> Iterator[Any]:
        # Validators are cached, and several threads may use one at once.
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
    """Yield the schema and all subschemas, after looking up their references without fetching anything."""
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    specification = specification_with(dialect.META_SCHEMA.get("$schema"))
    whole = specification.create_resource(schema)
    pending = [(whole, REGISTRY.resolver_with_root(whole))]
    while pending:
        part, resolver = pending.pop()
        if isinstance(part.contents, dict):
            for keyword in ("$ref", "$dynamicRef"):
                reference = part.contents.get(keyword)
                if isinstance(reference, str):
                    resolver.lookup(reference)
        yield part.contents
        for inner in part.subresources():
            pending.append((inner, resolver.in_subresource(inner)))


class BadSchemaError(Exception):
    """Raised for an unusable schema, neither an object nor JSON text; the message names the fault."""


def patterns_of(schema: Any) -> Iterator[str]:
    """Yield the regular expressions of a schema, at any depth."""
    if isinstance(schema, list):
        for part in schema:
            yield from patterns_of(part)
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        if key == "pattern" and isinstance(value, str):
            yield value
        if key == "patternProperties" and isinstance(value, dict):
            yield from value
        yield from patterns_of(value)


def schema_text(schema: object) -> str:
    """Convert a schema to JSON text; a text is returned unchanged.

    Raises:
        BadSchemaError: if the schema is neither a text nor an object that JSON can express.
    """
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, Mapping | bool):
        raise BadSchemaError(
            f"a schema is an object or its JSON text, not {type(schema).__name__}"
        )
    # json.dumps writes a dict, but no other Mapping.
    plain = schema if isinstance(schema, bool) else dict(schema)
    try:
        return json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadSchemaError(f"it is not JSON: {error}") from None
