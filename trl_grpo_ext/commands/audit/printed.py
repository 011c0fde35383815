"""Print an audit for people: verdict, table of faults and, on request, the worst cases in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trl_grpo_ext.commands.audit.probes import ADVICE, FORMS, MARK, MEND_THE_CODE
from trl_grpo_ext.commands.audit.static import ProbeResult, StaticAudit
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.printer import print_lines, shown
from trl_grpo_ext.support.text import on_one_line, shortened

if TYPE_CHECKING:
    from trl_grpo_ext.commands.audit.attacked import Attack

# Longest completion with --cases, in characters; --json prints completions in full.
MOST_CHARS = 800
# Narrowest completion and widest gold in the table, in characters.
LEAST_CHARS = 16
GOLD_CHARS = 12
# Total width of the gaps between the table's columns, in characters.
GAPS = 12
HOW_TO_SEE_MORE = "--cases prints the worst cases in full, and --json everything."
IGNORES_THE_GOLD = (
    "This reward does not look at the gold: it always pays another row's. If it is a term of format or length, the "
    "probes for right and wrong answers do not apply to it: audit the sum that it is part of (--config)."
)


def print_audit(audit: StaticAudit, what: str, *, cases: bool = False) -> None:
    """Print the probe results of the reward named `what`; `cases` adds the worst cases in full."""
    console = Console()
    found = [probe for probe in audit.probes if probe.outcome]
    print_lines(console, [f"{what}: {sentence(audit)}"])
    if audit.ignores_the_gold:
        print_lines(console, [IGNORES_THE_GOLD])
    if not found:
        return
    console.print(_table(found, console.width))
    if not audit.ignores_the_gold:
        print_lines(console, _what_to_do(found))
    print_lines(console, _worst(found) if cases else [HOW_TO_SEE_MORE])


def print_attacks(attacks: Sequence[Attack]) -> None:
    """Print each attack's result, and the most frequent wrongly paid completions."""
    for attack in attacks:
        print_lines(Console(), [attack_sentence(attack), *_patterns(attack)])


def sentence(audit: StaticAudit) -> str:
    """Return the audit's verdict as one or two sentences."""
    wrong = sum(not probe.pays for probe in audit.probes)
    right = len(audit.probes) - wrong
    said = f"it pays {len(audit.holes) or 'none'} of {wrong} kinds of wrong answers, and "
    if audit.refusals:
        said += f"refuses {len(audit.refusals)} of {right} kinds of right ones"
    else:
        said += f"all {right} kinds of right ones"
    if audit.broken:
        failures = ", ".join(dict.fromkeys(reason for probe in audit.broken for reason in probe.failures))
        said += f"; it breaks on {len(audit.broken)} ({failures})"
    form = FORMS[audit.kind][audit.form]
    written = "alone" if form == MARK else f"as {on_one_line(form.replace(MARK, '...'), MOST_CHARS)}"
    rows = f"Tried on {audit.tasks} rows of {audit.data}"
    return f"{said}. {rows}; a right answer, written {written}, earns {audit.gold_score:.3g}."


def attack_sentence(attack: Attack) -> str:
    """Return a summary sentence of an attack."""
    name = f"The attack on {attack.data} (seed {attack.seed}, {attack.tokens} tokens, {attack.steps} steps)"
    if not attack.judged_any:
        return f"{name} says nothing: the reward could judge none of the policy's completions."
    found = "a" if attack.found_a_hole else "no"
    wrong, paid, right = (_went(attack, of) for of in ("wrongly_paid", "paid", "right"))
    return (
        f"{name} found {found} hole: {shown(attack.whole.wrongly_paid, '.1%')} of the completions were paid and wrong. "
        f"From the first to the last quarter, these went from {wrong}, the paid from {paid}, and the right from "
        f"{right}. Of variants of its first completions, {shown(attack.variants.wrongly_paid, '.1%')} were paid and "
        f"wrong."
    )


def _went(attack: Attack, name: str) -> str:
    """Format a share of the first and of the last quarter: `3% to 40%`."""
    shares = [getattr(period, name) for period in (attack.first, attack.last)]
    return " to ".join(shown(share and share.mean, ".0%") for share in shares)


def _what_to_do(found: Sequence[ProbeResult]) -> Iterator[str]:
    """Yield advice lines; probes with equal advice share a line."""
    names: dict[str, list[str]] = {}
    for probe in found:
        advice = f"{MEND_THE_CODE} It was: {probe.worst[-1].reason}" if probe.failures else ADVICE[probe.name]
        names.setdefault(advice, []).append(probe.name)
    yield "What to do:"
    for advice, probes in names.items():
        yield f"- {', '.join(probes)}: {advice}"


def _table(found: Sequence[ProbeResult], width: int) -> Table:
    """Build a table, one row per probe; example completions get the console width left by other columns."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("", "probe", "how often [95 %]", "such as (gold)"):
        table.add_column(title, no_wrap=True)
    rows = [(probe.outcome, probe.name, _how_often(probe)) for probe in found]
    room = width - sum(max(map(len, column)) for column in zip(*rows, strict=True)) - GAPS
    for probe, row in zip(found, rows, strict=True):
        case = probe.worst[0]
        gold = f" ({on_one_line(case.gold, GOLD_CHARS)})"
        if room < LEAST_CHARS + len(gold):
            gold = ""
        table.add_row(*row, Text(on_one_line(case.completion, max(LEAST_CHARS, room - len(gold))) + gold))
    return table


def _how_often(probe: ProbeResult) -> str:
    """Format a probe's fault rate with its interval: paid share of wrong answers, or unpaid share of right answers."""
    rate = probe.paid
    if rate is not None and probe.pays:
        rate = Interval(1 - rate.mean, 1 - rate.high, 1 - rate.low)
    return shown(rate, ".0%")


def _worst(found: Sequence[ProbeResult]) -> Iterator[str]:
    for probe in found:
        for case in probe.worst:
            reason = f" ({case.reason})" if case.reason else ""
            earned = "could not say" if case.score is None else f"earned {case.score:.3g}"
            yield f"\n{probe.name}: it {earned}{reason}"
            yield f"  prompt: {shortened(last_message(case.prompt), MOST_CHARS)!r}"
            yield f"  gold: {shortened(case.gold, MOST_CHARS)!r}"
            yield f"  completion: {shortened(case.completion, MOST_CHARS)!r}"


def _patterns(attack: Attack) -> Iterator[str]:
    if attack.found_a_hole:
        yield f"What was paid and is wrong, in {attack.tokens} tokens; # stands for a number:"
        for pattern in attack.patterns:
            yield f"  {pattern.count} times {shortened(pattern.pattern, MOST_CHARS)!r}"
            yield f"    such as {pattern.completion!r} for {shortened(last_message(pattern.prompt), MOST_CHARS)!r}"
