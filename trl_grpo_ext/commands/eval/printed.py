"""Print evaluations as tables for people; plain tables if the output is not a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console

from trl_grpo_ext.commands.eval.evaluated import (
    FEWEST_VOTES,
    QUANTILES,
    Evaluated,
    keep_figures,
)
from trl_grpo_ext.commands.eval.paired_evaluations import (
    Difference,
    compare,
    others_told,
    sentence,
)
from trl_grpo_ext.commands.tally import told_range, told_reasons, told_verdicts
from trl_grpo_ext.report.write import write_report
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.printer import WholeTable, format_number, print_json, print_lines
from trl_grpo_ext.verdict import Status

# Line width of a model's label, in characters: as wide as an interval without signs.
LABEL_CHARS = 20
# Smallest line width of a figure's name: 80 columns leave this much beside two models and their difference.
LEAST_NAME_CHARS = 9
# Characters of an interval whose three numbers have a sign, as those of a difference may.
SIGNED_CHARS = 23
# Characters between two columns, and at both edges of the table together.
GAP, EDGES = 2, 2
# Formats of a figure, the most decimals first.
SCORE_FORMATS = ("z.3f", "z.2f", "z.1f")
TOKEN_FORMATS = ("z.1f", "z.0f")


def show_evaluations(
    found: Sequence[Evaluated], folders: Sequence[Path], *, report: bool, as_json: bool
) -> None:
    """Write the figures of evaluations, one or two, with an optional report; print the figures."""
    differences: Mapping[str, Difference] = {}
    told = None
    # The comparison's page; None for a single evaluation.
    both = None
    if len(found) == 2:
        differences = compare(*found)
        both = folders[0].parent / f"{found[0].label}-vs-{found[1].label}.html"
    if "pass@1" in differences:
        told = sentence(found[0].label, found[1].label, differences["pass@1"])
    models = [one.to_record() for one in found]
    for model, folder in zip(models, folders, strict=True):
        keep_figures(folder, model)
    pages = []
    if report:
        pages = [str(write_report([folder])) for folder in folders]
    page = next(iter(pages), None)
    if report and both is not None:
        page = str(
            write_report(folders, both, ahead=told and f"{told}{others_told(differences)}")
        )
    record = {
        "sentence": told,
        "models": models,
        "differences": {name: one.to_record() for name, one in differences.items()},
        "report": page,
    }
    if both is not None:
        write_json(both.with_suffix(".json"), record)
    if as_json:
        print_json(record)
        return
    if told:
        print(told)
    print_evaluations(found, differences)
    if page:
        print(f"The figures are in {page}")
        print(f"The completions are in {' and '.join(pages)}")


def print_evaluations(
    found: Sequence[Evaluated],
    differences: Mapping[str, Difference],
    console: Console | None = None,
) -> None:
    """Print one or two evaluations, one row per figure; then each model's verdicts by term."""
    console = console or Console()
    records = [one.to_record() for one in found]
    print_lines(console, [_title(records[0])])
    console.print(_table(found, records, differences, console.width))
    for record in records:
        print_lines(console, _lines(record))


def _table(
    found: Sequence[Evaluated],
    records: Sequence[Mapping[str, Any]],
    differences: Mapping[str, Any],
    width: int,
) -> WholeTable:
    # Two models and their difference fit into 80 columns.
    table = WholeTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    labels = [one.label for one in found]
    if differences:
        labels.append("difference")
    for label in labels:
        # An interval is never broken.
        table.add_column(_in_lines(label, LABEL_CHARS), justify="right", no_wrap=True)
    # A single model leaves the names room enough beside signs.
    most_chars = LABEL_CHARS if differences else SIGNED_CHARS
    room = width - EDGES - len(found) * (most_chars + GAP)
    if differences:
        room -= SIGNED_CHARS + GAP
    room = max(LEAST_NAME_CHARS, room)
    for name in _figures(found):
        intervals = [one.interval(name) for one in found]
        spec = _spec(name, intervals, most_chars)
        cells = [format_number(interval, spec) for interval in intervals]
        if differences:
            difference = differences.get(name)
            cells.append(format_number(difference and difference.interval, spec))
        table.add_row(_in_lines(name.removeprefix("score/"), room), *cells)
    for name in QUANTILES:
        cells = [
            format_number(record["tokens"] and record["tokens"][name], ".0f")
            for record in records
        ]
        table.add_row(f"  {name}", *cells)
    # Without decimals, since 100.0% [87.5%, 100.0%] would take room from the names.
    cells = [format_number(record["cut"], ".0%") for record in records]
    table.add_row("cut", *cells)
    return table


def _spec(name: str, intervals: Sequence[Interval | None], most_chars: int) -> str:
    """Choose a figure's format, with fewer decimals if its intervals would take room from the names."""
    formats = TOKEN_FORMATS if name == "tokens" else SCORE_FORMATS
    for spec in formats:
        widest = max(len(format_number(interval, spec)) for interval in intervals)
        if widest <= most_chars:
            return spec
    return formats[-1]


def _in_lines(text: str, width: int) -> str:
    """Break text into lines of at most `width` characters, after `_`, `/` or `-` if possible.

    Examples:
        >>> _in_lines("language_consistency", 14).splitlines()
        ['language_', 'consistency']
    """
    lines = re.findall(rf".{{1,{width}}}(?:(?<=[_/-])|$)|.{{{width}}}", text)
    # A dot matches no line break, so a text of line breaks alone is in no line.
    return "\n".join(lines) or text


def _has_scores_only(term: Mapping[str, Any]) -> bool:
    scored = term["statuses"][str(Status.SCORED)]
    return bool(scored) and scored == term["verdicts"]


def _title(record: Mapping[str, Any]) -> str:
    drawn = "greedy"
    if record["temperature"]:
        drawn = f"at temperature {record['temperature']:g}"
    each = "1 completion each"
    if record["samples"] > 1:
        each = f"{record['samples']} completions each"
    data = ""
    if record["dataset"] is not None:
        data = f" of {record['dataset']}"
    return f"{record['prompts']:,} prompts{data} ({record['split']}), {each}, {drawn}"


def _figures(found: Sequence[Evaluated]) -> list[str]:
    """Return figure names in row order."""
    # A dict keeps the order and drops names that both evaluations have.
    ks: dict[int, None] = {}
    terms: dict[str, None] = {}
    for one in found:
        ks |= dict.fromkeys(one.ks)
        terms |= dict.fromkeys(one.tally.terms)
    return [
        *(f"pass@{k}" for k in ks),
        *(f"maj@{k}" for k in ks if k >= FEWEST_VOTES),
        *(f"score/{term}" for term in terms),
        "tokens",
    ]


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"{record['label']} ({record['model']}):"
    for name, term in record["terms"].items():
        reasons = ""
        if term["reasons"]:
            reasons = f" ({told_reasons(term)})"
        yield f"  {name}: {told_verdicts(term)}{reasons}"
    primary = next((name for name, term in record["terms"].items() if term["weight"]), "")
    if primary and _has_scores_only(record["terms"][primary]):
        yield f"  {told_range(primary)}"
    judge = f" by {primary}" if primary else ""
    yield f"  {record['completions']:,} completions; {record['unjudged']:,} of them could not be judged{judge}."
    for name, figure in record.items():
        if name.startswith("pass@") and figure and figure["left_out"]:
            yield f"  {figure['left_out']:,} prompts have too few judged completions for {name}, and are not in it."
        if name.startswith("maj@") and figure and figure["tied"]:
            tied = "several answers are the most frequent, and share it"
            yield f"  In {figure['tied']:.1%} of the votes of {name}, {tied}."
