"""Print a replay as tables for people; plain tables if the output is not a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trl_grpo_ext.figures.advantages import AdvantageSettings
from trl_grpo_ext.replay.changes import Comparison, Side, mean_of
from trl_grpo_ext.replay.completion_changes import TermChanges
from trl_grpo_ext.replay.replayed_run import ReplayedRun
from trl_grpo_ext.support.estimate import NOTHING
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
    _say(
        console,
        f"{replayed.folder} under the rewards of {recipe}: {comparison.batches} batches, "
        f"{comparison.old.completions} completions{steps}; {replayed.seconds:.1f} s",
    )
    for table in (_terms(replayed), *_kinds(comparison), _groups(comparison)):
        console.print(table)
    for sentence in _sentences(comparison):
        _say(console, sentence)
    for note in replayed.notes:
        _say(console, f"note: {note}")
    for example in _examples(comparison):
        _say(console, example)


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


def _terms(replayed: ReplayedRun) -> Table:
    table = _table("term", "weight", "share of\nadvantages", "mean value", "verdicts")
    old, new = replayed.comparison.old, replayed.comparison.new
    old_shares, new_shares = old.shares, new.shares
    for name, term in replayed.comparison.verdicts.terms.items():
        table.add_row(
            name,
            _both(_weight(old, name), _weight(new, name)),
            _both(_percent(old_shares.get(name)), _percent(new_shares.get(name))),
            _both(_value(old, name), _value(new, name)),
            f"{term.changed} differ" if term.changed else replayed.sources.get(name, "gone"),
        )
    others = [_percent(mean_of(side.other_drivers)) for side in (old, new)]
    if not {"0%", "-"}.issuperset(others):
        table.add_row("(beside the mix)", "", _both(*others), "", "as recorded")
    table.add_section()
    means = [_number(mean_of(side.rewards)) for side in (old, new)]
    table.add_row("total", "", "", _both(*means), f"{replayed.comparison.changed} differ")
    if old.void or new.void:
        table.add_row("void completions", "", "", _both(str(old.void), str(new.void)), "")
    return table


def _kinds(comparison: Comparison) -> Iterator[Table]:
    """Yield a table of verdict changes, most frequent kind first; nothing without changes."""
    kinds: Counter[tuple[str, str, str]] = Counter()
    for name, term in comparison.verdicts.terms.items():
        for (before, after), count in term.kinds.items():
            kinds[name, before, after] = count
    if not kinds:
        return
    table = _table("verdicts that change", "from", "to", "completions")
    shown = kinds.most_common(MAX_KINDS)
    for (name, before, after), count in shown:
        table.add_row(name, before, after, str(count))
    if len(kinds) > MAX_KINDS:
        rest = kinds.total() - sum(count for _, count in shown)
        table.add_row("...", "", "", str(rest))
    yield table


def _groups(comparison: Comparison) -> Table:
    table = _table("groups", "before", "after")
    for kind, (before, after) in comparison.groups.shares().items():
        if before or after:
            table.add_row(kind.replace("_", " "), _share(before), _share(after))
    return table


def _sentences(comparison: Comparison) -> Iterator[str]:
    groups, advantages = comparison.groups, comparison.advantages
    yield f"{groups.come_alive} of {groups.groups} groups come alive, {groups.die} die."
    share = advantages.sign_changes / advantages.completions
    yield (
        f"The advantages of {advantages.sign_changes} of {advantages.completions} completions ({share:.1%}) "
        f"change their sign."
    )
    correlation = "not known" if advantages.correlation is None else _number(advantages.correlation)
    changes = "".join(_setting_changes(*comparison.settings))
    yield f"The correlation of old and new advantages is {correlation}{changes}."


def _setting_changes(old: AdvantageSettings, new: AdvantageSettings) -> Iterator[str]:
    for setting in ("scale_rewards", "multi_objective_aggregation"):
        before, after = getattr(old, setting), getattr(new, setting)
        if before != after:
            yield f"; {setting}: {before} -> {after}"


def _examples(comparison: Comparison) -> Iterator[str]:
    for example in comparison.advantages.examples:
        yield (
            f"\n{_where(example)}: advantage {example['old_advantage']:+.3f} -> {example['new_advantage']:+.3f}\n"
            f"  total:  {_made_up(example, 'old')} -> {_made_up(example, 'new')}"
            f"{_what_was_said(example)}"
        )
    for term in comparison.verdicts.terms.values():
        yield from _verdict_examples(term)


def _verdict_examples(term: TermChanges) -> Iterator[str]:
    for kind, _ in term.kinds.most_common(MAX_KINDS):
        for example in term.examples[kind]:
            before = _verdict(example["from"])
            after = _verdict(example["to"])
            yield f"\n{_where(example)}: {example['term']} {before} -> {after}{_what_was_said(example)}"


def _made_up(example: Mapping[str, Any], side: str) -> str:
    """Format a total reward with its terms."""
    total = _number(example[f"{side}_total"])
    parts = ", ".join(f"{term} {part:+.3g}" for term, part in example[f"{side}_parts"].items())
    return f"{total} ({parts})" if parts else total


def _where(example: Mapping[str, Any]) -> str:
    return f"step {example['step']}, group {example['group']}, sample {example['sample']} of the batch"


def _what_was_said(example: Mapping[str, Any]) -> str:
    return (
        f"\n  prompt: {on_one_line(example['prompt'], MAX_CHARS)}\n  text:   {on_one_line(example['text'], MAX_CHARS)}"
    )


def _verdict(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "no verdict"
    score = told["score"]
    details = [f"the {told['blame']}'s fault" if score is None else f"{score:.3g}"]
    for name in ("reason", "answer"):
        if told[name]:
            details.append(on_one_line(told[name], MAX_CHARS))
    return f"{told['status']} ({', '.join(details)})"


def _table(title: str, *columns: str) -> Table:
    table = Table(title_justify="left")
    table.add_column(title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _weight(side: Side, term: str) -> str:
    weights = side.weights.get(term)
    if not weights:
        return "-"
    if side.weight_moves(term):
        return f"{weights[0]:.3g}..{weights[-1]:.3g}"
    return f"{weights[0]:.3g}"


def _value(side: Side, term: str) -> str:
    return _number(mean_of(side.values.get(term, NOTHING)))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}".replace("-0%", "0%")
