"""Values that a page may hold: JSON without NaN, text without what the page could not show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.support.text import cut

DIGITS = 6  # significant; a chart shows three
LONGEST_TEXT = 300_000  # characters of one text that go into a page; the end counts more than the middle
_END = 50_000


def rounded(value: float | None) -> float | None:
    """The number to a few significant digits; None for what is none.

    Example:
        >>> rounded(1 / 3), rounded(float("nan")), rounded(None)
        (0.333333, None, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def plain(value: Any) -> Any:
    """The value as JSON holds it: null for a number that is not finite, text for what JSON does not know."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    return str(value)


def bounded(text: str, limit: int = LONGEST_TEXT) -> str:
    """The text, its middle left out with a note if it has more than `limit` characters.

    Example:
        >>> bounded("abcdefghij", limit=4)
        'abc\\n[... 6 characters left out ...]\\nj'
    """
    end = min(_END, limit // 4)
    return cut(text, limit - end, end, f"\n[... {len(text) - limit} characters left out ...]\n")
