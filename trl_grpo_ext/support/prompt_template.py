"""A recipe's `prompt_template`: text with placeholders for columns. It inserts data only and evaluates nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.support.text import did_you_mean

_PIECE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]|[^{}]+")
_PLACE = re.compile(r"\{([^{}\[\].!:]+)((?:\[[^{}\[\]]+\])*)\}")
_STEP = re.compile(r"\[([^\]]+)\]")
_LIKE = "a place is `{column}`, `{column[0]}` of a list or `{column[key]}` of a mapping, and a brace itself is `{{`"


@dataclass(frozen=True, slots=True)
class Place:
    """A placeholder, `{column[key][0]}`: a column name, then keys or indices into the column's value."""

    column: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        steps = "".join(f"[{step}]" for step in self.steps)
        return f"{{{self.column}{steps}}}"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A parsed template: texts and placeholders, in order.

    Inserted data is not parsed again, so braces in the data stay. A text is inserted unchanged, a list as one line per
    item, None as an empty text, and any other value but a mapping as `str(value)`.

    Examples:
        >>> template = PromptTemplate.parse("{text}\\n\\nIt must pass:\\n{test_list[0]}")
        >>> template.fill({"text": "Return {x}.", "test_list": ["assert f(1) == {1}", "assert f(2) == {2}"]})
        'Return {x}.\\n\\nIt must pass:\\nassert f(1) == {1}'
    """

    pieces: tuple[str | Place, ...]

    @classmethod
    def parse(cls, template: str) -> PromptTemplate:
        """Parse a template.

        Raises:
            ValueError: for a brace outside of a placeholder, for a format such as `{x:.2f}`, and for a template without
                placeholders.
        """
        pieces = tuple(_piece(match[0]) for match in _PIECE.finditer(template))
        if not any(isinstance(piece, Place) for piece in pieces):
            raise ValueError(
                f"`prompt_template` has no place for a column, so that every prompt is the same: {_LIKE}."
            )
        return cls(pieces)

    @property
    def columns(self) -> list[str]:
        places = [piece for piece in self.pieces if isinstance(piece, Place)]
        # Each column once, in order.
        return list(dict.fromkeys(place.column for place in places))

    def check(self, columns: Collection[str]) -> None:
        """Raise a ValueError if the dataset lacks a column of the template; the message suggests a similar column."""
        for column in self.columns:
            if column not in columns:
                near = did_you_mean(column, columns)
                raise ValueError(
                    f"The dataset has no column `{column}` to make prompts from (prompt_template). {near}"
                )

    def fill(self, row: Mapping[str, Any]) -> str:
        """Fill the template with a row; return the prompt.

        Raises:
            KeyError: if the row lacks a column of the template.
            ValueError: if a placeholder leads to no value, or to a mapping.
        """
        texts = []
        for piece in self.pieces:
            text = piece if isinstance(piece, str) else _value(piece, row)
            texts.append(text)
        return "".join(texts)


def _piece(text: str) -> str | Place:
    if text in ("{{", "}}"):
        return text[0]
    if text[0] not in "{}":
        return text
    place = _PLACE.fullmatch(text)
    column = place[1].strip() if place else ""
    if place is None or not column:
        raise ValueError(f"`prompt_template` cannot have {text!r}: {_LIKE}.")
    return Place(column=column, steps=tuple(_STEP.findall(place[2])))


def _value(place: Place, row: Mapping[str, Any]) -> str:
    found: Any = row[place.column]
    for step in place.steps:
        try:
            found = _part(found, step)
        except LookupError:
            shown = f"{row[place.column]!r:.100}"
            raise ValueError(
                f"A row has nothing at `{place}` (prompt_template): `{place.column}` is {shown}."
            ) from None
    return _text(found, place)


def _part(value: Any, step: str) -> Any:
    """Look up a list's item by number, or a mapping's by key.

    Raises:
        LookupError: for a missing item, for texts, and for attributes.
    """
    if isinstance(value, list) and step.isdecimal():
        return value[int(step)]
    if isinstance(value, Mapping):
        return value[step]
    raise LookupError(step)


def _text(value: Any, place: Place) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(_text(item, place) for item in value)
    if isinstance(value, Mapping):
        keys = ", ".join(map(str, value))
        key = next(iter(value), "key")
        raise ValueError(
            f"`{place}` (prompt_template) is not text; it has the keys {keys}: name one of them, "
            f"as in `{{{place.column}[{key}]}}`."
        )
    return str(value)
