"""Count verdicts on a file's completions, batch by batch, and print the counts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console

from trl_grpo_ext.commands.exit_status import FINE, FOUND
from trl_grpo_ext.figures.terms import grouped, term_figures, why_of, without_names
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Grouped, Interval
from trl_grpo_ext.support.printer import WholeTable, format_number, print_lines
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import Blame, Status, Verdict

# Largest share of rows on which the grader may fail without a status of 1.
MOST_FAILED = 0.1
# The maximum number of reasons per term, in the record and on the screen.
MOST_REASONS, SHOWN_REASONS = 10, 5
# The maximum number of line numbers per reason.
MOST_LINES = 5
# The maximum length of a shown reason, in characters.
MAX_CHARS = 80


@dataclass(slots=True)
class TermTally:
    """The counts of one term's verdicts."""

    weight: float = 0.0
    # Verdicts per status, without completions that a gate left out.
    statuses: Counter[Status] = field(default_factory=Counter)
    # Raw scores, before shape, gate and weight.
    scores: Grouped = field(default_factory=Grouped)
    # Verdicts per reason, of verdicts that are not CORRECT.
    reasons: Counter[str] = field(default_factory=Counter)
    # The first line numbers of unscored rows, by reason: the data or the grader is to blame, not the model.
    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, card: Scorecard, term: str, lines: Sequence[int]) -> None:
        figures = term_figures(card, term)
        self.weight = figures.weight
        self.statuses.update(figures.statuses)
        for why, count in figures.causes.items():
            self.reasons[without_names(why)] += count
        self.scores += figures.scores
        # Without a file there are no lines.
        for line, verdict in zip(lines, card.verdicts[term], strict=False):
            # Where a closed gate left a completion out, nobody is at fault.
            if verdict is None or verdict.score is not None or verdict.left_out:
                continue
            at_fault = self.lines.setdefault(without_names(why_of(verdict)), [])
            if len(at_fault) < MOST_LINES:
                at_fault.append(line)

    def to_record(self) -> dict[str, Any]:
        interval = self.scores.interval
        # A verdict may have a status alone: its reason is empty.
        reasons = [(why, count) for why, count in self.reasons.most_common() if why]
        record = {
            "weight": self.weight,
            "verdicts": self.statuses.total(),
            "statuses": {str(status): self.statuses[status] for status in Status},
            "score": interval and interval.to_record(),
            "reasons": dict(reasons[:MOST_REASONS]),
        }
        if self.lines:
            record["lines"] = self.lines
        return record


@dataclass(slots=True)
class Tally:
    """Counts of a mix's verdicts, per term and total."""

    # The number of completions to judge.
    expected: int = 0
    # The number of judged completions.
    rows: int = 0
    # The number of void completions: a term in force could not judge them, or none applies to them.
    void: int = 0
    # The number of completions on which a grader failed, terms of weight 0 included.
    failed: int = 0
    # The totals of completions that are not void.
    totals: Grouped = field(default_factory=Grouped)
    # The counts by term, in the order of the mix.
    terms: dict[str, TermTally] = field(default_factory=dict)

    def add(self, card: Scorecard, lines: Sequence[int] = ()) -> None:
        """Count a batch; `lines` are its line numbers, if the completions come from a file."""
        self.rows += len(card)
        self.void += sum(card.void)
        for verdicts in zip(*card.verdicts.values(), strict=True):
            self.failed += any(map(_is_failure, verdicts))
        self.totals += grouped(card, np.array(card.totals, dtype=float))
        for term in card.terms:
            self.terms.setdefault(term, TermTally()).add(card, term, lines)

    @property
    def failed_share(self) -> float:
        """Grader errors over judged completions, in [0, 1]."""
        return self.failed / max(1, self.rows)

    def __str__(self) -> str:
        parts = [f"{self.rows:,} of {self.expected:,} rows are judged"]
        for name, term in self.terms.items():
            interval = term.scores.interval
            if interval:
                parts.append(f"{name} {interval.mean:.3f}")
        return ", ".join(parts)

    def to_record(self) -> dict[str, Any]:
        """Return a dict of plain JSON values; unknown means are null."""
        total = self.totals.interval
        return {
            "rows": self.rows,
            "void": self.void,
            "grader_failed": self.failed,
            "total": total and total.to_record(),
            "terms": {name: term.to_record() for name, term in self.terms.items()},
        }


def _is_failure(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.blame is Blame.GRADER


def _by(tally: Tally) -> str:
    """Name the terms in force that scored no completion, " by `math`"; empty without such a term."""
    blind = [
        f"`{name}`"
        for name, term in tally.terms.items()
        if term.weight and term.statuses and not term.scores.numbers.count
    ]
    return f" by {' and '.join(blind)}" if blind else ""


def status_of(tally: Tally) -> int:
    """Return `FOUND`, with a message on stderr, if the grader failed too often or on all rows; else `FINE`."""
    # Asked first: unusable golds make every row void without one failure of the grader.
    if tally.rows and tally.void == tally.rows:
        print(f"trl-grpo-ext: no completion could be judged{_by(tally)}.", file=sys.stderr)
        return FOUND
    if tally.failed_share <= MOST_FAILED:
        return FINE
    print(
        f"trl-grpo-ext: the grader failed on {tally.failed_share:.1%} of the completions, more than {MOST_FAILED:.0%}.",
        file=sys.stderr,
    )
    return FOUND


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a table with a line per term, then reasons of verdicts that are not CORRECT, then counts of void rows."""
    console = Console()
    console.print(_terms(summary))
    print_lines(console, _lines(summary))


def _terms(summary: Mapping[str, Any]) -> WholeTable:
    table = WholeTable("term")
    table.add_column("weight", justify="right")
    table.add_column("mean score", justify="right", no_wrap=True)
    table.add_column("verdicts")
    terms = summary["terms"]
    for name, term in terms.items():
        table.add_row(
            name, f"{term['weight']:.3g}", _mean(term["score"]), told_verdicts(term)
        )
    if len(terms) > 1:
        table.add_section()
        table.add_row("total", "", _mean(summary["total"]), "")
    return table


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    for name, term in summary["terms"].items():
        if term["reasons"]:
            yield f"{name}: {told_reasons(term)}"
    rows = summary["rows"]
    void = summary["void"]
    failed = summary["grader_failed"]
    grader = ""
    if failed:
        grader = f"; on {failed:,} the grader failed"
    yield f"{rows:,} rows in {summary['seconds']:.1f} s, {void:,} of them void ({void / rows:.1%}){grader}."
    if summary["output"]:
        yield f"The verdicts are in {summary['output']}"


def told_range(term: str) -> str:
    """Say why no success rate of a term is known, and what makes it known."""
    return (
        f"`{term}` gives numbers, and nothing says which one is right, so no success rate is known: set the worst and "
        f"the best in its entry, such as `score_range: [0, 1]`."
    )


def told_verdicts(term: Mapping[str, Any]) -> str:
    """List the number of verdicts per status, given a record by `TermTally.to_record`."""
    return ", ".join(
        f"{count:,} {status}" for status, count in term["statuses"].items() if count
    )


def told_reasons(term: Mapping[str, Any]) -> str:
    """List the most frequent reasons of wrong or unscored verdicts, each after its count."""
    reasons = []
    for why, count in list(term["reasons"].items())[:SHOWN_REASONS]:
        lines = term.get("lines", {}).get(why, ())
        reasons.append(
            f"{count:,} {on_one_line(why, MAX_CHARS)}{_told_lines(lines, count)}"
        )
    # Reasons may hold numbers and commas.
    return "; ".join(reasons)


def _told_lines(lines: Sequence[int], count: int) -> str:
    """Format the first line numbers of rows that a data or grader fault left unscored: ` (lines 3, 8, ...)`."""
    if not lines:
        return ""
    noun = "line" if count == 1 else "lines"
    more = ", ..." if count > len(lines) else ""
    return f" ({noun} {', '.join(map(str, lines))}{more})"


def _mean(measured: Mapping[str, float] | None) -> str:
    if measured is None:
        return format_number(None)
    return format_number(Interval(**measured))
