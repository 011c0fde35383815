"""Recent drivers: which terms the latest advantages of a run come from, by what it logged."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

RECENT = 16  # logs, as many as checks look at batches

_SHARE = re.compile(r"verified/(?:(?P<term>.+)/driver_share|drivers/others)")
OTHERS = "other reward functions"


def recent_drivers(logs: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The mean driver share of each term over the latest logs that know it, the largest first; the shares sum to 1.

    Shadows and what has no share are left out; empty if nothing is known, as for a run that had no live group.

    Args:
        logs: TRL's logs, oldest first, as `RecordedRun.iterate_logs` gives them.

    Example:
        >>> recent_drivers([{"verified/short/driver_share": 0.25, "verified/accuracy/driver_share": 0.75}])
        {'accuracy': 0.75, 'short': 0.25}
    """
    known = deque((shares for entry in logs if (shares := _shares(entry))), maxlen=RECENT)
    terms = {term for shares in known for term in shares}
    means = {term: fmean(shares.get(term, 0.0) for shares in known) for term in terms}
    return dict(sorted(((term, mean) for term, mean in means.items() if mean), key=lambda item: (-item[1], item[0])))


def _shares(entry: Mapping[str, Any]) -> dict[str, float]:
    shares = {}
    for name, value in entry.items():
        found = _SHARE.fullmatch(name)
        if found and isinstance(value, int | float) and math.isfinite(value):
            shares[found["term"] or OTHERS] = float(value)
    return shares
