"""The cell of a dataset that a gold is read from, before anything is read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOT_TEXT = "gold_not_text"
NOT_TEXT_ADVICE = (
    "The gold is a mapping, such as a message: put the field that holds the answer into a column of its own, as text "
    "or a number, and name that: column=..."
)


def plain_list(cell: Any) -> Any:
    """An array of numpy or torch as the list, or the number, that it holds; anything else as it is."""
    to_list = getattr(cell, "tolist", None)
    return to_list() if callable(to_list) else cell


def holds_mapping(cell: object) -> bool:
    """Whether a cell is a mapping or a list that has one, such as a conversation: no text that could be compared.

    Example:
        >>> [holds_mapping(cell) for cell in ({"answer": "4"}, [{"role": "user", "content": "4"}], ["4", 5])]
        [True, True, False]
    """
    cell = plain_list(cell)
    if isinstance(cell, list | tuple):
        return any(holds_mapping(item) for item in cell)
    return isinstance(cell, Mapping)
