"""Select training rows by their success rate in an earlier run or a probe."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from trl_grpo_ext.protocol import is_number
from trl_grpo_ext.runs.successes import read_successes
from trl_grpo_ext.sample import prompt_key

logger = logging.getLogger(__name__)


def check_rate(bounds: object, source: str | None) -> None:
    """Raise a ValueError if `rate` is no pair of bounds in [0, 1], or if no `rows_from` names the rates.

    Examples:
        >>> check_rate([0.05, 0.95], "runs/gsm8k-probe/rates.jsonl")
    """
    if bounds is None:
        return
    is_pair = isinstance(bounds, list | tuple) and len(bounds) == 2 and all(map(is_number, bounds))
    if not is_pair or not 0 <= bounds[0] <= bounds[1] <= 1:  # type: ignore[index]  # a pair
        raise ValueError(f"`rate` is two bounds between 0 and 1, such as [0.05, 0.95]; got {bounds!r}.")
    if source is None:
        raise ValueError("`rate` needs rows_from: an earlier run's folder, or the rates.jsonl of trl-grpo-ext probe.")


def with_rates(rows: Any, bounds: Sequence[float], source: str) -> Any:
    """Leave out the rows whose rate is known and outside the bounds; rows without a known rate stay.

    Raises:
        ValueError: for a source without rates, and if no row would be left.
    """
    low, high = bounds
    found = read_successes(source)
    rates = {key: one.rate for key, one in found.items() if one.rate is not None}
    kept = rows.filter(lambda row: low <= rates.get(prompt_key(row["prompt"]), low) <= high)
    if hasattr(rows, "__len__"):
        if not len(kept):
            raise ValueError(f"No row has a rate between {low:g} and {high:g} (rate), by {source!r} (rows_from).")
        logger.warning("rate leaves out %d of %d rows, by %s.", len(rows) - len(kept), len(rows), source)
    return kept
