"""All logged figures of a run, compared with pandas on the run's parquet, under TRL's four modes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted import MODE_NAMES, MODES
from statistics_mix import TIMES, logged, run

from trl_grpo_ext import Blame, Status

Make = Callable[..., Any]


class Parquet:
    """A batch's parquet files, read by pandas."""

    def __init__(self, folder: Path, number: int) -> None:
        self.samples = pd.read_parquet(
            folder / "scorecards" / f"samples-{number:08d}.parquet"
        ).set_index("sample")
        self.verdicts = pd.read_parquet(
            folder / "scorecards" / f"verdicts-{number:08d}.parquet"
        )
        self.terms = list(dict.fromkeys(self.verdicts["term"]))
        self.weights = self.verdicts.groupby("term")["weight"].first()
        self.values = self.wide("value").where(~self.samples["void"])
        in_force = self.verdicts[self.verdicts["weight"] != 0]
        self.primary = (
            in_force.groupby("sample").first(skipna=False).reindex(self.samples.index)
        )
        self.answers = self.primary["answer"].where(self.primary["status"] != "unparseable")

    def wide(self, column: str) -> pd.DataFrame:
        wide = self.verdicts.pivot(index="sample", columns="term", values=column)
        return wide.reindex(index=self.samples.index, columns=self.terms)

    def groups(self, column: pd.Series) -> Any:
        return column.groupby(self.samples["group"])


def expected_parts(batch: Parquet, aggregation: str, scale: str) -> pd.DataFrame:
    """Compute each term's part of each sample's advantage, group by group; void samples are NaN."""
    kept = ~batch.samples["void"]
    parts = (
        batch.values.copy()
        if aggregation == "normalize_then_sum"
        else batch.values.fillna(0.0).where(kept)
    )
    for _, members in batch.samples.groupby("group").groups.items():
        own = parts.loc[members]
        centred = own - own.mean()
        if aggregation == "normalize_then_sum":
            centred = (centred / (own.std() + 1e-4)).fillna(0.0).where(kept.loc[members])
        centred = centred * batch.weights[batch.terms]
        spread = centred.sum(axis=1, min_count=1).std() if scale == "group" else 0.0
        if aggregation == "sum_then_normalize" and scale == "group":
            centred = centred / ((0.0 if math.isnan(spread) else spread) + 1e-4)
        parts.loc[members] = centred
    totals = (batch.values.fillna(0.0) * batch.weights[batch.terms]).sum(axis=1).where(kept)
    if aggregation == "sum_then_normalize":
        return parts / (totals.std() + 1e-4) if scale == "batch" else parts
    return parts / (parts.sum(axis=1, min_count=1).std() + 1e-4)


def expected_shares(batch: Parquet, aggregation: str, scale: str) -> pd.Series:
    """Compute driver shares by brute force from TRL's advantages."""
    parts = expected_parts(batch, aggregation, scale).fillna(0.0)
    advantages = batch.samples["advantage"]
    assert parts.sum(axis=1).to_numpy() == pytest.approx(advantages.to_numpy(), abs=2e-5)
    return parts.mul(advantages, axis=0).sum() / (advantages**2).sum()


def outcome_of(values: pd.DataFrame, primary: pd.DataFrame, weights: pd.Series) -> str:
    """Compute a group's outcome from its members that are not void."""
    if values.empty:
        return "void"
    if (values.loc[:, weights[values.columns] != 0].fillna(0.0).nunique() > 1).any():
        return "live"
    if (primary["status"] == "correct").all():
        return "all_right"
    return (
        "all_wrong"
        if ((primary["status"] != "correct") & (primary["score"] <= 0)).all()
        else "tied"
    )


def expected_by_term(batch: Parquet, shares: pd.Series) -> dict[str, float]:
    figures: dict[str, float] = {}
    for term in batch.terms:
        own = batch.verdicts[batch.verdicts["term"] == term].set_index("sample")
        figures |= {
            f"verified/{term}/{kind}": (own["status"] == str(kind)).mean()
            for kind in Status
        }
        figures[f"verified/{term}/score"] = own["score"].mean()
        figures[f"verified/{term}/coverage"] = own["value"].notna().sum() / len(
            batch.samples
        )
        figures[f"verified/{term}/gated"] = own["gated"].mean()
        figures[f"verified/{term}/weight"] = own["weight"].iloc[0]
        figures[f"verified/{term}/driver_share"] = shares[term]
        figures[f"verified/{term}/seconds_p50"] = own["seconds"].quantile(0.5)
        figures[f"verified/{term}/seconds_p95"] = own["seconds"].quantile(0.95)
        both = batch.primary.join(own[["status", "score"]].add_suffix("_shadow")).dropna(
            subset=["score", "score_shadow"]
        )
        passes, shadow = both["status"] == "correct", both["status_shadow"] == "correct"
        chance = passes.mean() * shadow.mean() + (1 - passes.mean()) * (1 - shadow.mean())
        is_shadow = own["weight"].iloc[0] == 0
        figures[f"verified/{term}/fails_where_primary_passes"] = (
            (~shadow[passes]).mean() if is_shadow else math.nan
        )
        figures[f"verified/{term}/kappa"] = (
            ((passes == shadow).mean() - chance) / (1 - chance) if is_shadow else math.nan
        )
    return figures


def expected_by_group(batch: Parquet, size: int) -> dict[str, float]:
    kinds, secondary = [], []
    for _, members in batch.samples.groupby("group").groups.items():
        kept = members[~batch.samples.loc[members, "void"]]
        kinds.append(
            outcome_of(batch.values.loc[kept], batch.primary.loc[kept], batch.weights)
        )
        if kinds[-1] == "live":
            values = [batch.values.loc[row, batch.primary.loc[row, "term"]] for row in kept]
            secondary.append(pd.Series(values).nunique() <= 1)
    live = (
        pd.Series(kinds, index=batch.samples["group"].unique())[
            batch.samples["group"]
        ].to_numpy()
        == "live"
    )
    figures = {f"verified/groups/{kind}": kinds.count(kind) / len(kinds) for kind in
               ("live", "all_right", "all_wrong", "tied", "void")}  # fmt: skip
    ranks = pd.DataFrame(
        {"tokens": batch.samples["tokens"], "total": batch.samples["total"]}
    ).dropna()
    by_group = [pair.corr("spearman").iloc[0, 1] for _, pair in ranks.groupby(batch.samples["group"])
                if (pair.nunique() > 1).all()]  # fmt: skip
    distinct = batch.groups(batch.answers).nunique()
    figures |= {
        "verified/groups/secondary_only": pd.Series(secondary, dtype=float).mean(),
        "verified/effective_completions": (
            live & (batch.samples["advantage"].abs() > 1e-6)
        ).mean(),
        "verified/length/correlation": pd.Series(by_group, dtype=float).mean(),
        "verified/answers/distinct": distinct[distinct > 0].mean(),
    }
    judged = batch.primary["status"].eq("correct").where(batch.primary["score"].notna())
    for k in sorted({1, 2} | {size}) if size > 1 else [1]:
        rates = [
            np.mean([any(chosen) for chosen in itertools.combinations(group.dropna(), k)])
            for _, group in batch.groups(judged)
            if group.notna().sum() >= k
        ]
        figures[f"verified/pass_at_{k}"] = float(np.mean(rates)) if rates else math.nan
    return figures


def expected_figures(
    batch: Parquet, aggregation: str, scale: str, size: int
) -> dict[str, float]:
    """Compute every figure of docs/metrics_reference.md from the parquet files alone."""
    in_force = batch.verdicts[batch.verdicts["weight"] != 0]
    tokens, status = batch.samples["tokens"], batch.primary["status"]
    kinds = ("correct", "incorrect", "unparseable")
    return (
        expected_by_term(batch, expected_shares(batch, aggregation, scale))
        | expected_by_group(batch, size)
        | {
            f"verified/blame/{blame}": (in_force["blame"] == str(blame)).mean()
            for blame in Blame
        }
        | {f"verified/length/mean_{kind}": tokens[status == kind].mean() for kind in kinds}
        | {
            "verified/length/mean_truncated": tokens[
                batch.samples["truncated"].astype(bool)
            ].mean(),
            "verified/void": batch.samples["void"].mean(),
            "verified/drivers/others": 0.0,
            "verified/answers/given": batch.answers.notna().sum()
            / batch.primary["status"].notna().sum(),
            "verified/grader/latency_p50": batch.verdicts["seconds"].quantile(0.5),
            "verified/grader/latency_p95": batch.verdicts["seconds"].quantile(0.95),
        }
    )


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, id=name, marks=[pytest.mark.slow] if place else [])
        for place, (mode, name) in enumerate(zip(MODES, MODE_NAMES, strict=True))
    ],
)
def test_what_is_logged_is_what_pandas_computes_from_the_parquet(
    one_layer: str, sums: Any, config: Make, mode: dict[str, Any]
) -> None:
    args = config(
        max_steps=4,
        per_device_train_batch_size=12,
        num_generations_eval=2,
        temperature=1.3,
        **mode,
    )
    entries = logged(run(one_layer, sums, args))
    assert len(entries) == 5
    for number, entry in enumerate(entries):
        batch = Parquet(Path(args.output_dir), number)
        size = 4 if number < 4 else 2
        wanted = expected_figures(
            batch, args.multi_objective_aggregation, args.scale_rewards, size
        )
        assert set(entry) - TIMES == set(wanted)
        for name, value in wanted.items():
            seen = math.nan if entry[name] is None else entry[name]
            assert seen == pytest.approx(value, abs=2e-5, nan_ok=True), (number, name)
    shares = [
        [entry[f"verified/{term}/driver_share"] for term in ("right", "small", "form")]
        for entry in entries
    ]
    assert [sum(share) for share in shares] == pytest.approx([1.0] * 5)
    assert all(entry["verified/strict/driver_share"] == 0 for entry in entries)
    assert max(entry["verified/groups/secondary_only"] or 0 for entry in entries) > 0
    assert max(entry["verified/void"] for entry in entries) > 0
