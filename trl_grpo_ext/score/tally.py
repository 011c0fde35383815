"""The tally: the verdicts on a file's completions in numbers, added up batch by batch, and as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trl_grpo_ext.figures.terms import grouped, term_figures, why_of, without_names
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Grouped, Interval
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import Blame, Status

MOST_REASONS, SHOWN_REASONS = 10, 5  # a term
MOST_LINES = 5  # a reason
MAX_CHARS = 80  # of a reason


@dataclass(slots=True)
class TermTally:
    """What a term has found."""

    weight: float = 0.0  # its weight
    # How many verdicts have each status; completions that a gate left out are not among them.
    statuses: Counter[Status] = field(default_factory=Counter)
    scores: Grouped = field(default_factory=Grouped)  # the raw scores, before shape, gate and weight
    reasons: Counter[str] = field(default_factory=Counter)  # how many verdicts that are not right have the same reason
    # The first lines of what could not be judged, by the reason: the data or the grader is to blame, not the model.
    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, card: Scorecard, term: str, lines: Sequence[int]) -> None:
        figures = term_figures(card, term)
        self.weight = figures.weight
        self.statuses.update(figures.statuses)
        for why, count in figures.causes.items():
            self.reasons[without_names(why)] += count
        self.scores += figures.scores
        for line, verdict in zip(lines, card.verdicts[term], strict=False):  # no lines where there is no file
            if verdict is not None and verdict.score is None and not verdict.left_out:
                at_fault = self.lines.setdefault(without_names(why_of(verdict)), [])
                if len(at_fault) < MOST_LINES:
                    at_fault.append(line)

    def to_record(self) -> dict[str, Any]:
        interval = self.scores.interval
        return {
            "weight": self.weight,
            "verdicts": self.statuses.total(),
            "statuses": {str(status): self.statuses[status] for status in Status},
            "score": interval and interval.to_record(),
            "reasons": dict([(why, count) for why, count in self.reasons.most_common() if why][:MOST_REASONS]),
            **({"lines": self.lines} if self.lines else {}),
        }


@dataclass(slots=True)
class Tally:
    """What a mix has found."""

    expected: int = 0  # how many completions there are
    rows: int = 0  # how many of them are judged
    void: int = 0  # those that a term with weight could not judge, or that none applies to
    failed: int = 0  # those on which the grader failed in any term, shadows included
    totals: Grouped = field(default_factory=Grouped)  # the weighted sums of those that are not void
    terms: dict[str, TermTally] = field(default_factory=dict)  # by name, in the order of the mix

    def add(self, card: Scorecard, lines: Sequence[int] = ()) -> None:
        """Count a batch; `lines` are the lines of its completions in their file, if they are of one."""
        self.rows += len(card)
        self.void += sum(card.void)
        columns = zip(*card.verdicts.values(), strict=True)
        self.failed += sum(any(one is not None and one.blame is Blame.GRADER for one in row) for row in columns)
        self.totals += grouped(card, np.array(card.totals, dtype=float))
        for term in card.terms:
            self.terms.setdefault(term, TermTally()).add(card, term, lines)

    @property
    def failed_share(self) -> float:
        """The share of completions on which the grader failed, in [0, 1]."""
        return self.failed / max(1, self.rows)

    def __str__(self) -> str:
        intervals = {name: term.scores.interval for name, term in self.terms.items()}
        means = [f"{name} {interval.mean:.3f}" for name, interval in intervals.items() if interval]
        return ", ".join([f"{self.rows:,} of {self.expected:,} rows are judged", *means])

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values; null for a mean that is not known."""
        total = self.totals.interval
        return {
            "rows": self.rows,
            "void": self.void,
            "grader_failed": self.failed,
            "total": total and total.to_record(),
            "terms": {name: term.to_record() for name, term in self.terms.items()},
        }


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a summary: a line a term, then the reasons of what is not right, then what could not be judged."""
    console = Console()
    console.print(_terms(summary))
    for line in _lines(summary):
        console.print(Text(line), soft_wrap=True)


def _terms(summary: Mapping[str, Any]) -> Table:
    table = Table("term")
    table.add_column("weight", justify="right")
    table.add_column("mean score", justify="right", no_wrap=True)
    table.add_column("verdicts")
    terms = summary["terms"]
    for name, term in terms.items():
        table.add_row(name, f"{term['weight']:.3g}", _shown(term["score"]), told_verdicts(term))
    if len(terms) > 1:
        table.add_section()
        table.add_row("total", "", _shown(summary["total"]), "")
    return table


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    for name, term in summary["terms"].items():
        if term["reasons"]:
            yield f"{name}: {told_reasons(term)}"
    rows, void, failed = (summary[key] for key in ("rows", "void", "grader_failed"))
    grader = f"; on {failed:,} the grader failed" if failed else ""
    yield f"{rows:,} rows in {summary['seconds']:.1f} s, {void:,} of them void ({void / rows:.1%}){grader}."
    if summary["output"]:
        yield f"The verdicts are in {summary['output']}"


def told_verdicts(term: Mapping[str, Any]) -> str:
    """How many verdicts of a term, as `TermTally.to_record` has it, are of each status."""
    return ", ".join(f"{count:,} {status}" for status, count in term["statuses"].items() if count)


def told_reasons(term: Mapping[str, Any]) -> str:
    """The most frequent reasons of what is not right."""
    shown = list(term["reasons"].items())[:SHOWN_REASONS]
    return ", ".join(
        f"{on_one_line(why, MAX_CHARS)} {count:,}{_told_lines(term.get('lines', {}).get(why, ()), count)}"
        for why, count in shown
    )


def _told_lines(lines: Sequence[int], count: int) -> str:
    """Where the first are of what the data or the grader is to blame for."""
    if not lines:
        return ""
    more = ", ..." if count > len(lines) else ""
    return f" ({'line' if count == 1 else 'lines'} {', '.join(map(str, lines))}{more})"


def _shown(measured: Mapping[str, float] | None) -> str:
    return "-" if measured is None else str(Interval(**measured))
