"""How the terms of a run go together: whom a shadow passes, and how values move within a group."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from trl_grpo_ext.figures.shadows import Agreement, shadow_agreements
from trl_grpo_ext.report.judged_batch import JudgedBatch
from trl_grpo_ext.report.plain_values import rounded

FloatArray = npt.NDArray[np.float64]
COUNTS = ("both", "primary_only", "shadow_only", "neither")


class TermAgreement:
    """Adds up over batches."""

    def __init__(self) -> None:
        self._shadows: dict[str, Counter[str]] = {}
        self._moments: dict[tuple[str, str], FloatArray] = {}

    def add(self, batch: JudgedBatch) -> None:
        """Count a batch."""
        agreements = shadow_agreements(batch.arrays) if batch.shadows else {}
        for term in batch.shadows:
            counts = self._shadows.setdefault(term, Counter())
            counts.update({name: getattr(agreements[term], name) for name in COUNTS})
        values = {term: _centred(batch, term) for term in batch.card.terms}
        for pair in combinations(batch.card.terms, 2):
            x, y = (values[term] for term in pair)
            both = ~(np.isnan(x) | np.isnan(y))
            moments = self._moments.setdefault(pair, np.zeros(3))
            moments += [x[both] @ x[both], y[both] @ y[both], x[both] @ y[both]]

    def shadows(self) -> list[dict[str, Any]]:
        """One dict a shadow: `term`; `table`, the completions that [both pass, only the primary term, only the shadow,
        neither]; and `kappa`, Cohen's, None where it is not defined."""
        tables = {term: Agreement(**{name: counts[name] for name in COUNTS}) for term, counts in self._shadows.items()}
        return [
            {"term": term, "table": [getattr(table, name) for name in COUNTS], "kappa": rounded(table.kappa)}
            for term, table in tables.items()
            if table.size
        ]

    def correlations(self) -> list[dict[str, Any]]:
        """One dict a pair of terms: `first, second, correlation`, that of their values less their groups' means, in
        [-1, 1]; None where one of them never differs within a group."""
        return [
            {"first": first, "second": second, "correlation": rounded(_correlation(moments))}
            for (first, second), moments in self._moments.items()
        ]


def _centred(batch: JudgedBatch, term: str) -> FloatArray:
    """(n,) values less their group's mean; NaN where there is none."""
    values = np.array([np.nan if value is None else value for value in batch.card.values[term]], dtype=float)
    for group in batch.groups:
        members = values[list(group)]
        known = ~np.isnan(members)
        if known.any():
            values[list(group)] = members - members[known].mean()
    return values


def _correlation(moments: FloatArray) -> float | None:
    xx, yy, xy = moments
    return float(xy / np.sqrt(xx * yy)) if xx > 1e-12 and yy > 1e-12 else None
