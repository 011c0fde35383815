"""Print a replay as tables for people; plain tables if the output is not a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from trl_grpo_ext.commands.replay.changes import Comparison, TermChanges
from trl_grpo_ext.commands.replay.replayed_run import ReplayedRun
from trl_grpo_ext.figures.advantages import AdvantageSettings
from trl_grpo_ext.figures.batch_totals import BatchTotals
from trl_grpo_ext.support.printer import WholeTable, format_number, print_lines
from trl_grpo_ext.support.text import on_one_line

# Longest prompt or completion, in characters.
MAX_CHARS = 240
# Largest number of kinds of verdict changes.
MAX_KINDS = 12


def print_replay(replayed: ReplayedRun, recipe: str) -> None:
    """Print a replay's tables, sentences, notes and examples."""
    console = Console()
    comparison = replayed.comparison
    steps = "" if replayed.steps is None else ", steps {} to {}".format(*replayed.steps)
    title = (
        f"{replayed.folder} under the rewards of {recipe}: {comparison.batches} batches, "
        f"{comparison.old.completions} completions{steps}; {replayed.seconds:.1f} s"
    )
    print_lines(console, [title])
    for table in (_terms(replayed), *_kinds(comparison), _groups(comparison)):
        console.print(table)
    print_lines(console, _sentences(comparison))
    print_lines(console, [f"note: {note}" for note in replayed.notes])
    print_lines(console, _examples(comparison))


def _terms(replayed: ReplayedRun) -> WholeTable:
    table = _table("term", "weight", "share of\nadvantages", "mean value", "verdicts")
    comparison = replayed.comparison
    sides = (comparison.old, comparison.new)
    shares = [side.shares for side in sides]
    for name, term in comparison.terms.items():
        weights = [_weight(side, name) for side in sides]
        of_advantages = [_percent(share.get(name)) for share in shares]
        values = [format_number(side.value(name), ".3f") for side in sides]
        source = replayed.sources.get(name, "gone")
        if term.changed:
            source = f"{term.changed} differ"
        table.add_row(name, _both(*weights), _both(*of_advantages), _both(*values), source)
    others = [_percent(side.others_share) for side in sides]
    # A share that rounds to 0 needs no line.
    if not {"0%", "-"}.issuperset(others):
        table.add_row("(beside the mix)", "", _both(*others), "", "as recorded")
    table.add_section()
    means = [format_number(side.reward, ".3f") for side in sides]
    table.add_row("total", "", "", _both(*means), f"{comparison.changed} differ")
    if any(side.void for side in sides):
        counts = [str(side.void) for side in sides]
        table.add_row("void completions", "", "", _both(*counts), "")
    return table


def _kinds(comparison: Comparison) -> Iterator[WholeTable]:
    """Yield a table of verdict changes, most frequent kind first; nothing without changes."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for name, term in comparison.terms.items():
        for (before, after), count in term.kinds.items():
            counts[name, before, after] = count
    if not counts:
        return
    table = _table("verdicts that change", "from", "to", "completions")
    shown_kinds = counts.most_common(MAX_KINDS)
    for kind, count in shown_kinds:
        table.add_row(*kind, str(count))
    if len(counts) > MAX_KINDS:
        left = counts.total() - sum(count for _, count in shown_kinds)
        table.add_row("...", "", "", str(left))
    yield table


def _groups(comparison: Comparison) -> WholeTable:
    table = _table("groups", "before", "after")
    for kind, (before, after) in comparison.groups.shares().items():
        if before or after:
            table.add_row(
                kind.replace("_", " "),
                format_number(before, ".1%"),
                format_number(after, ".1%"),
            )
    return table


def _sentences(comparison: Comparison) -> Iterator[str]:
    groups = comparison.groups
    advantages = comparison.advantages
    yield f"{groups.come_alive} of {groups.groups} groups come alive, {groups.die} die."
    share = advantages.sign_changes / advantages.completions
    yield (
        f"The advantages of {advantages.sign_changes} of {advantages.completions} completions ({share:.1%}) "
        f"change their sign."
    )
    correlation = "not known"
    if advantages.correlation is not None:
        correlation = f"{advantages.correlation:.3f}"
    changes = "".join(_setting_changes(*comparison.settings))
    yield f"The correlation of old and new advantages is {correlation}{changes}."
    if comparison.void:
        yield f"{comparison.void} completions are void before and after, and no change."


def _setting_changes(old: AdvantageSettings, new: AdvantageSettings) -> Iterator[str]:
    for setting in ("scale_rewards", "multi_objective_aggregation"):
        before = getattr(old, setting)
        after = getattr(new, setting)
        if before != after:
            yield f"; {setting}: {before} -> {after}"


def _examples(comparison: Comparison) -> Iterator[str]:
    for example in comparison.advantages.examples:
        yield (
            f"\n{_where(example)}: advantage {example['old_advantage']:+.3f} -> {example['new_advantage']:+.3f}\n"
            f"  total:  {_made_up(example, 'old')} -> {_made_up(example, 'new')}"
            f"{_what_was_said(example)}"
        )
    for term in comparison.terms.values():
        yield from _verdict_examples(term)


def _verdict_examples(term: TermChanges) -> Iterator[str]:
    for kind, _ in term.kinds.most_common(MAX_KINDS):
        for example in term.examples[kind]:
            before = _verdict(example["from"])
            after = _verdict(example["to"])
            yield f"\n{_where(example)}: {example['term']} {before} -> {after}{_what_was_said(example)}"


def _made_up(example: Mapping[str, Any], side: str) -> str:
    """Format a total reward with its terms."""
    total = format_number(example[f"{side}_total"], ".3f")
    parts = [f"{term} {part:+.3g}" for term, part in example[f"{side}_parts"].items()]
    if not parts:
        return total
    return f"{total} ({', '.join(parts)})"


def _where(example: Mapping[str, Any]) -> str:
    return f"step {example['step']}, group {example['group']}, sample {example['sample']} of the batch"


def _what_was_said(example: Mapping[str, Any]) -> str:
    prompt = on_one_line(example["prompt"], MAX_CHARS)
    text = on_one_line(example["text"], MAX_CHARS)
    return f"\n  prompt: {prompt}\n  text:   {text}"


def _verdict(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "no verdict"
    score = f"the {told['blame']}'s fault"
    if told["score"] is not None:
        score = f"{told['score']:.3g}"
    details = [score]
    for name in ("reason", "answer"):
        if told[name]:
            details.append(on_one_line(told[name], MAX_CHARS))
    return f"{told['status']} ({', '.join(details)})"


def _table(title: str, *columns: str) -> WholeTable:
    table = WholeTable(title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _both(before: str, after: str) -> str:
    if before == after:
        return before
    return f"{before} -> {after}"


def _weight(side: BatchTotals, term: str) -> str:
    weights = side.weights(term)
    # A schedule moves the weight.
    if len(set(weights)) > 1:
        return f"{weights[0]:.3g}..{weights[-1]:.3g}"
    return format_number(next(iter(weights), None), ".3g")


def _percent(value: float | None) -> str:
    # A small negative share is rounded to -0%.
    return format_number(value, ".0%").replace("-0%", "0%")
