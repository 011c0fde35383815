"""A replayed run as people read it: plain tables where the output is no terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trl_grpo_ext.replay.advantage_changes import DOWN, NONE, UP, VOID, AdvantageChanges
from trl_grpo_ext.replay.comparison import Comparison
from trl_grpo_ext.replay.replayed_run import ReplayedRun
from trl_grpo_ext.replay.sample_record import shortened
from trl_grpo_ext.replay.verdict_changes import TermChanges

MAX_CHARS = 240  # of a prompt or a completion
MAX_KINDS = 12  # of verdict changes that are shown


def print_replay(replayed: ReplayedRun, recipe: str, console: Console | None = None) -> None:
    """Print what a replay came to."""
    console = console or Console()
    comparison = replayed.comparison
    steps = "" if replayed.steps is None else ", steps {} to {}".format(*replayed.steps)
    _say(
        console,
        f"{replayed.folder} under the rewards of {recipe}: {comparison.batches} batches, "
        f"{comparison.totals.completions} completions{steps}; {replayed.seconds:.1f} s",
    )
    for note in replayed.notes:
        _say(console, f"note: {note}")
    console.print(_terms(replayed))
    for table in (*_kinds(comparison), _groups(comparison), _turns(comparison.advantages)):
        console.print(table)
    for sentence in _sentences(comparison):
        _say(console, sentence)
    for example in _examples(comparison):
        _say(console, example)


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


def _terms(replayed: ReplayedRun) -> Table:
    table = _table("term", "verdicts", "changed", "mean value", "weight")
    for name, term in replayed.comparison.verdicts.terms.items():
        source = replayed.sources.get(name, "gone")
        changed = f"{term.changed} of {term.verdicts}" if term.verdicts else "-"
        old, new = term.old.to_record(), term.new.to_record()
        table.add_row(name, source, changed, _both(_mean(old), _mean(new)), _both(_weight(old), _weight(new)))
    means = [_number(mean) for mean in replayed.comparison.totals.means]
    totals = replayed.comparison.totals
    table.add_section()
    table.add_row("total", "", f"{totals.changed} of {totals.completions}", _both(*means), "")
    table.add_row("void", "", "", _both(str(totals.old_void), str(totals.new_void)), "")
    return table


def _kinds(comparison: Comparison) -> Iterator[Table]:
    """The kinds of verdict changes, the most frequent first; no table if there are none."""
    kinds = [
        (count, name, kind) for name, term in comparison.verdicts.terms.items() for kind, count in term.kinds.items()
    ]
    if not kinds:
        return
    table = _table("verdicts that change", "from", "to", "completions")
    for count, name, (before, after) in sorted(kinds, key=lambda kind: -kind[0])[:MAX_KINDS]:
        table.add_row(name, before, after, str(count))
    if len(kinds) > MAX_KINDS:
        table.add_row("...", "", "", str(sum(count for count, _, _ in sorted(kinds, reverse=True)[MAX_KINDS:])))
    yield table


def _groups(comparison: Comparison) -> Table:
    table = _table("groups", "before", "after")
    for kind, (before, after) in comparison.groups.shares().items():
        if before or after:
            table.add_row(kind.replace("_", " "), _share(before), _share(after))
    return table


def _turns(advantages: AdvantageChanges) -> Table:
    seen = {direction for turn, count in advantages.turns.items() if count for direction in turn}
    directions = [direction for direction in (UP, NONE, DOWN, VOID) if direction in seen]
    table = _table("advantages", *(f"to {direction}" for direction in directions))
    for before in directions:
        table.add_row(f"from {before}", *(str(advantages.turns[before, after]) for after in directions))
    return table


def _sentences(comparison: Comparison) -> Iterator[str]:
    groups, advantages = comparison.groups, comparison.advantages
    old, new = map(str, comparison.settings)
    yield f"{groups.come_alive} of {groups.groups} groups come alive, {groups.die} die."
    share = advantages.turned / advantages.completions
    yield (
        f"{advantages.turned} of {advantages.completions} advantages ({share:.1%}) change their sign, "
        f"{advantages.reversed} of them from one side to the other; the correlation of old and new is "
        f"{_number(advantages.correlation)} ({old if old == new else f'{old} -> {new}'})."
    )


def _examples(comparison: Comparison) -> Iterator[str]:
    for example in comparison.advantages.examples:
        yield (
            f"\n{_where(example)}: pulled {example['from']} -> {example['to']}, "
            f"advantage {example['old_advantage']:+.3f} -> {example['new_advantage']:+.3f}, "
            f"total {_made_up(example, 'old')} -> {_made_up(example, 'new')}"
            f"{_what_was_said(example)}"
        )
    for term in comparison.verdicts.terms.values():
        yield from _verdict_examples(term)


def _verdict_examples(term: TermChanges) -> Iterator[str]:
    for kind, _ in term.kinds.most_common(MAX_KINDS):
        for example in term.examples[kind]:
            before, after = (_verdict(example[side]) for side in ("from", "to"))
            yield f"\n{_where(example)}: {example['term']} {before} -> {after}{_what_was_said(example)}"


def _made_up(example: Mapping[str, Any], side: str) -> str:
    """A total, and what it is the sum of."""
    parts = ", ".join(f"{term} {part:+.3g}" for term, part in example[f"{side}_parts"].items())
    return _number(example[f"{side}_total"]) + (f" ({parts})" if parts else "")


def _where(example: Mapping[str, Any]) -> str:
    return f"step {example['step']}, group {example['group']}, completion {example['sample']}"


def _what_was_said(example: Mapping[str, Any]) -> str:
    return f"\n  prompt: {on_one_line(example['prompt'])}\n  text:   {on_one_line(example['text'])}"


def _verdict(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return "no verdict"
    details = [f"{told['score']:.3g}"] if told["score"] is not None else [f"the {told['blame']}'s fault"]
    details += [on_one_line(told[name]) for name in ("reason", "answer") if told[name]]
    return f"{told['status']} ({', '.join(details)})"


def on_one_line(text: str) -> str:
    r"""Text of anybody's, harmless on a terminal: what is not printable is written as an escape.

    Example:
        >>> print(on_one_line("so\n\x1b[2J 4"))
        so\n\x1b[2J 4
    """
    shown = shortened(text, MAX_CHARS)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in shown)


def _table(title: str, *columns: str) -> Table:
    table = Table(title_justify="left")
    table.add_column(title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _mean(side: Mapping[str, Any] | None) -> str:
    return "-" if side is None else _number(side["mean_value"])


def _weight(side: Mapping[str, Any] | None) -> str:
    if side is None:
        return "-"
    first, last = side["first_weight"], side["last_weight"]
    return f"{first:.3g}" if first == last else f"{first:.3g}..{last:.3g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
