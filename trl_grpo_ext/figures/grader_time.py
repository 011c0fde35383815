"""How long verdicts take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Verdict


def verdict_seconds(card: Scorecard, term: str | None = None) -> tuple[float, float]:
    """The median and the 95th percentile of the wall time of a verdict, in seconds; NaN for no verdicts.

    Args:
        card: A scorecard.
        term: One term's verdicts; all terms' if None.
    """
    columns: Iterable[Verdict | None]
    columns = card.verdicts[term] if term is not None else itertools.chain.from_iterable(card.verdicts.values())
    seconds = [verdict.seconds for verdict in columns if verdict is not None]
    if not seconds:
        return math.nan, math.nan
    median, high = np.percentile(seconds, (50, 95)).tolist()
    return median, high
