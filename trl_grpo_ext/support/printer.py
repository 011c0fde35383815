"""Print what commands find: lines in which nothing is markup, numbers with their intervals, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.files import plain


class WholeTable(Table):
    """A table that wraps what a narrow terminal or a file has no room for, where rich would cut it."""

    def add_column(self, *titles: Any, **options: Any) -> None:
        super().add_column(*titles, **{"overflow": "fold", **options})


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print each line unbroken; its brackets are no markup, since a completion may hold any text."""
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def print_json(record: Any) -> None:
    """Print a record as indented JSON, converted by `plain`."""
    print(json.dumps(plain(record), indent=2, allow_nan=False))


def format_number(value: float | Interval | None, spec: str = "z.3f") -> str:
    """Format a number, or an interval's three; `-` if it is unknown.

    Examples:
        >>> format_number(0.25, ".0%"), format_number(Interval(0.5, 0.25, 0.75)), format_number(None)
        ('25%', '0.500 [0.250, 0.750]', '-')
    """
    return "-" if value is None else format(value, spec)
