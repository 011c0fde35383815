"""Verdicts into TRL's own logs, by what TRL passes to a reward function: `log_extra` and `log_metric`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trl_grpo_ext.verdict import Status, Verdict

LogExtra = Callable[[str, list[Any]], None]
LogMetric = Callable[[str, float], None]


def log_columns(name: str, verdicts: Sequence[Verdict | None], log_extra: LogExtra | None) -> None:
    """Log verdicts as columns of TRL's completions table, by its `log_extra`, if it passed one.

    Every column is logged on every call, in one order, because TRL matches them up over ranks and steps.

    Args:
        name: The verifier's or term's.
        verdicts: One a completion; None where the term does not apply.
        log_extra: TRL's.
    """
    if log_extra is not None:
        log_extra(f"{name}/status", [str(verdict.status) if verdict else None for verdict in verdicts])
        log_extra(f"{name}/answer", [verdict.answer if verdict else None for verdict in verdicts])
        log_extra(f"{name}/reason", [verdict.reason if verdict else None for verdict in verdicts])
        log_extra(f"{name}/details", [_shown(verdict.details) if verdict else None for verdict in verdicts])


def log_figures(figures: Mapping[str, float], log_metric: LogMetric | None) -> None:
    """Log figures by TRL's `log_metric`, if it passed one; the same names in the same order on every call."""
    if log_metric is not None:
        for name, value in figures.items():
            log_metric(name, value)


def _shown(details: Mapping[str, str]) -> str:
    return "; ".join(f"{key}: {value}" for key, value in details.items())


def status_shares(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The share of each status among the verdicts; all of them 0 if there are none."""
    statuses = [verdict.status for verdict in verdicts]
    return {str(status): statuses.count(status) / max(len(statuses), 1) for status in Status}
