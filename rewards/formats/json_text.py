"""Reading JSON strictly and within bounds: in linear time, and at no depth that could exhaust the stack."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

MAX_DIGITS = 300  # of a number: every such number is finite as a float, too, and is read in linear time

# The last alternatives take what is never closed to its end, so that no text is looked at twice.
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


class JsonFaultError(Exception):
    """The text is not JSON as asked.

    Attributes:
        reason: The verdict's reason code.
        detail: Where and what, in a few words.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def read_json(text: str, *, max_depth: int) -> Any:
    """The value that a JSON text denotes.

    Stricter than Python's reader: every key once, no NaN or infinity, nothing deeper than `max_depth` lists or
    objects, no number of more than `MAX_DIGITS` digits.

    Raises:
        JsonFaultError: for any other text.

    Example:
        >>> read_json('{"a": [1, 2]}', max_depth=2)
        {'a': [1, 2]}
        >>> read_json('{"a": 1, "a": 2}', max_depth=2)
        Traceback (most recent call last):
            ...
        trl_grpo_ext.rewards.formats.json_text.JsonFaultError: duplicate_key
    """
    _check_depth(text, max_depth)
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_real, parse_constant=_constant, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        reason = "text_after_json" if error.msg == "Extra data" else "not_json"
        raise JsonFaultError(reason, f"{error.msg}, line {error.lineno} column {error.colno}") from None


def _check_depth(text: str, max_depth: int) -> None:
    depth = 0
    for found in _STRUCTURE.finditer(text):
        token = found[0]
        if token in ("[", "{"):
            depth += 1
            if depth > max_depth:
                raise JsonFaultError("too_deep", f"more than {max_depth} levels")
        elif token in ("]", "}"):
            depth -= 1


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonFaultError("number_too_long", f"{len(digits)} digits")
    return int(digits)


def _real(written: str) -> float:
    if len(written) > MAX_DIGITS:
        raise JsonFaultError("number_too_long", f"{len(written)} characters")
    number = float(written)
    if not math.isfinite(number):
        raise JsonFaultError("not_finite", written[:20])
    return number


def _constant(name: str) -> NoReturn:
    raise JsonFaultError("not_finite", name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonFaultError("duplicate_key", double[:100])
    return members
