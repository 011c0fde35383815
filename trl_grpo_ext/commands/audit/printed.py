"""Print an audit for people: verdict, table of faults and, on request, the worst cases in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.text import Text

from trl_grpo_ext.commands.audit.probes import (
    ADVICE,
    FORMS,
    HOLE_OF_SHIPPED,
    MARK,
    MEND_THE_CODE,
    REFUSAL_OF_SHIPPED,
)
from trl_grpo_ext.commands.audit.static import Case, ProbeResult, StaticAudit
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.printer import WholeTable, format_number, print_lines
from trl_grpo_ext.support.text import listed, on_one_line, shortened

if TYPE_CHECKING:
    from trl_grpo_ext.commands.audit.attacked import Attack
    from trl_grpo_ext.commands.audit.task import Kind

# Longest completion with --cases, in characters; --json prints completions in full.
MOST_CHARS = 800
# Narrowest completion and widest gold in the table, in characters.
LEAST_CHARS = 16
GOLD_CHARS = 12
# Total width of the gaps between the table's columns, in characters.
GAPS = 12
# Probes of one advice by name; the table has all.
MOST_NAMES = 4
# The share of a right answer's score from which wrong answers' scores are told of a sum: half of it is a hole.
LOOSE = 0.25
HOW_TO_SEE_MORE = "--cases prints the worst cases in full, and --json everything."
IGNORES_THE_GOLD = (
    "This reward does not look at the gold: it always pays another row's. If it is a term of format or length, the "
    "probes for right and wrong answers do not apply to it: audit the sum that it is part of (--config)."
)


def print_audit(
    audit: StaticAudit,
    what: str,
    *,
    cases: bool = False,
    is_shipped: bool = False,
    is_sum: bool = False,
) -> None:
    """Print the probe results of the reward named `what`; `cases` adds the worst cases in full.

    `is_shipped` says that only the package's own verifiers judge, `is_sum` that several terms are added.
    """
    console = Console()
    found = [probe for probe in audit.probes if probe.outcome]
    print_lines(console, [f"{what}: {sentence(audit)}"])
    if is_sum:
        print_lines(console, _loose_terms(audit))
    elif audit.ignores_the_gold:
        print_lines(console, [IGNORES_THE_GOLD])
    if not found:
        return
    console.print(_table(found, console.width))
    if not audit.ignores_the_gold:
        print_lines(console, _what_to_do(found, audit.kind, is_shipped))
    print_lines(console, _worst(found) if cases else [HOW_TO_SEE_MORE])


def _loose_terms(audit: StaticAudit) -> Iterator[str]:
    """Say what a sum's terms pay for wrong answers, where that is much of what a right answer earns."""
    best = audit.best_wrong
    if best is None or best.score < LOOSE * audit.gold_score:
        return
    yield (
        f"Wrong answers earn up to {best.score:.3g} of {audit.gold_score:.3g} ({best.name}): a term of the sum pays "
        f"them. Gate that term by the one that judges the answer (`gate: NAME`), or lower its weight."
    )


def print_attacks(attacks: Sequence[Attack]) -> None:
    """Print each attack's result, and the most frequent wrongly paid completions."""
    for attack in attacks:
        print_lines(Console(), [attack_sentence(attack), *_patterns(attack)])


def sentence(audit: StaticAudit) -> str:
    """Return the audit's verdict as one or two sentences."""
    wrong = sum(not probe.pays for probe in audit.probes)
    right = len(audit.probes) - wrong
    said = f"it pays {len(audit.holes) or 'none'} of {wrong} kinds of wrong answers{_at_most(audit.holes)}, and "
    if audit.refusals:
        said += f"refuses {len(audit.refusals)} of {right} kinds of right ones{_at_most(audit.refusals)}"
    else:
        said += f"all {right} kinds of right ones"
    if audit.broken:
        # A dict keeps the order and drops repeated reasons.
        reasons: dict[str, int] = {}
        for probe in audit.broken:
            reasons |= probe.failures
        said += f"; it breaks on {len(audit.broken)} ({', '.join(reasons)})"
    form = FORMS[audit.kind][audit.form]
    written = "alone"
    if form != MARK:
        written = f"as {on_one_line(form.replace(MARK, '...'), MOST_CHARS)}"
    rows = f"Tried on {audit.tasks} rows of {audit.data}"
    return (
        f"{said}. {rows}; a right answer, written {written}, earns {audit.gold_score:.3g}."
    )


def _at_most(faulty: Sequence[ProbeResult]) -> str:
    """Say the largest share of completions with the fault, over kinds: `, up to 13% of a kind`."""
    rates = []
    for probe in faulty:
        rate = _fault_rate(probe)
        if rate is not None:
            rates.append(rate.mean)
    if not rates:
        return ""
    return f", up to {max(rates):.0%} of a kind"


def attack_sentence(attack: Attack) -> str:
    """Return a summary sentence of an attack."""
    name = f"The attack on {attack.data} (seed {attack.seed}, {attack.tokens} tokens, {attack.steps} steps)"
    if not attack.judged_any:
        return (
            f"{name} says nothing: the reward could judge none of the policy's completions."
        )
    found = "a" if attack.found_a_hole else "no"
    wrong = _went(attack, "wrongly_paid")
    paid = _went(attack, "paid")
    right = _went(attack, "right")
    wrongly_paid = format_number(attack.whole.wrongly_paid, ".1%")
    of_variants = format_number(attack.variants.wrongly_paid, ".1%")
    return (
        f"{name} found {found} hole: {wrongly_paid} of the completions were paid and wrong. "
        f"From the first to the last quarter, these went from {wrong}, the paid from {paid}, and the right from "
        f"{right}. Of variants of its first completions, {of_variants} were paid and "
        f"wrong."
    )


def _went(attack: Attack, name: str) -> str:
    """Format a share of the first and of the last quarter: `3% to 40%`."""
    shares = []
    for period in (attack.first, attack.last):
        interval = getattr(period, name)
        shares.append(format_number(interval and interval.mean, ".0%"))
    return " to ".join(shares)


def _what_to_do(
    found: Sequence[ProbeResult], kind: Kind, is_shipped: bool
) -> Iterator[str]:
    """Yield advice lines; probes with equal advice share a line."""
    names: dict[str, list[str]] = {}
    for probe in found:
        advice = _advice(probe, kind, is_shipped)
        names.setdefault(advice, []).append(probe.name)
    yield "What to do:"
    for advice, probes in names.items():
        yield f"- {listed(probes, MOST_NAMES)}: {advice}"


def _advice(probe: ProbeResult, kind: Kind, is_shipped: bool) -> str:
    if probe.failures:
        # The first failure stands last in `worst`.
        return f"{MEND_THE_CODE} It was: {probe.worst[-1].reason}"
    if not is_shipped:
        return ADVICE[probe.name]
    return REFUSAL_OF_SHIPPED[kind] if probe.pays else HOLE_OF_SHIPPED[kind]


def _table(found: Sequence[ProbeResult], width: int) -> WholeTable:
    """Build a table, one row per probe; example completions get the console width left by other columns."""
    table = WholeTable(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    # Only the names are wrapped where there is no room.
    table.add_column("probe")
    table.add_column("how often [95 %]", no_wrap=True)
    table.add_column("such as (gold)", no_wrap=True)
    rows = [(probe.outcome, probe.name, _how_often(probe)) for probe in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = width - sum(widths) - GAPS
    for probe, row in zip(found, rows, strict=True):
        table.add_row(*row, Text(_example(probe.worst[0], room)))
    return table


def _example(case: Case, room: int) -> str:
    """Format a case in `room` characters: completion and gold, or the completion alone in a narrow column."""
    gold = f" ({on_one_line(case.gold, GOLD_CHARS)})"
    if room < LEAST_CHARS + len(gold):
        gold = ""
    completion = on_one_line(case.completion, max(LEAST_CHARS, room - len(gold)))
    return completion + gold


def _how_often(probe: ProbeResult) -> str:
    return format_number(_fault_rate(probe), ".0%")


def _fault_rate(probe: ProbeResult) -> Interval | None:
    """Return a probe's fault rate: the paid share of wrong answers, or the unpaid share of right answers."""
    rate = probe.paid
    if rate is None or not probe.pays:
        return rate
    # The complement of a share swaps its bounds.
    return Interval(1 - rate.mean, 1 - rate.high, 1 - rate.low)


def _worst(found: Sequence[ProbeResult]) -> Iterator[str]:
    for probe in found:
        for case in probe.worst:
            reason = ""
            if case.reason:
                reason = f" ({case.reason})"
            earned = "could not say"
            if case.score is not None:
                earned = f"earned {case.score:.3g}"
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
