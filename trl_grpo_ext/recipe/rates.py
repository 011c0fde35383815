"""Select training rows by their success rate in an earlier run or a probe."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from trl_grpo_ext.runs.successes import read_successes
from trl_grpo_ext.sample import prompt_key
from trl_grpo_ext.support.setting_checks import is_number

logger = logging.getLogger(__name__)


def check_rate(bounds: object, source: str | None) -> None:
    """Check `rate`, a pair of bounds in [0, 1], and `rows_from`, the source of the rates.

    Raises:
        ValueError: for other bounds, and without a source.

    Examples:
        >>> check_rate([0.05, 0.95], "runs/gsm8k-probe/rates.jsonl")
    """
    if bounds is None:
        return
    if not _are_bounds(bounds):
        raise ValueError(
            f"`rate` is two bounds between 0 and 1, such as [0.05, 0.95]; got {bounds!r}."
        )
    if source is None:
        raise ValueError(
            "`rate` needs rows_from: an earlier run's folder, or the rates.jsonl of trl-grpo-ext probe."
        )


def _are_bounds(bounds: object) -> bool:
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        return False
    low, high = bounds
    return is_number(low) and is_number(high) and 0 <= low <= high <= 1


def with_rates(rows: Any, bounds: Sequence[float], source: str) -> Any:
    """Leave out the rows whose rate is known and outside the bounds; rows without a known rate stay.

    Raises:
        ValueError: for a source without rates, and if no row would be left.
    """
    low, high = bounds
    successes = read_successes(source)

    def is_wanted(row: Mapping[str, Any]) -> bool:
        # Rates belong to prompts, not to row numbers: the earlier run may have had other rows in another order.
        of_row = successes.get(prompt_key(row["prompt"]))
        if of_row is None or of_row.rate is None:
            return True
        return low <= of_row.rate <= high

    kept = rows.filter(is_wanted)
    if hasattr(rows, "__len__"):
        if not len(kept):
            raise ValueError(
                f"No row has a rate between {low:g} and {high:g} (rate), by {source!r} (rows_from)."
            )
        logger.warning(
            "rate leaves out %d of %d rows, by %s.",
            len(rows) - len(kept),
            len(rows),
            source,
        )
    return kept
