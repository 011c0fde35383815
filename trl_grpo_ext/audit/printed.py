"""An audit as text for people: the verdict, what was found as a table, and on demand the cases in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trl_grpo_ext.audit.static import ProbeResult, StaticAudit
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.text import on_one_line, shortened

if TYPE_CHECKING:
    from trl_grpo_ext.audit.attack import Attack

MOST_CHARS = 800  # of a completion; JSON has all
LEAST_CHARS = 16  # of a completion in the table
GAPS = 12  # between the columns of the table


def print_audit(audit: StaticAudit, attacks: Sequence[Attack], what: str, *, cases: bool = False) -> None:
    """Print an audit of the reward that `what` names, with the worst cases in full if `cases`."""
    console = Console()
    found = [probe for probe in audit.probes if probe.outcome and not audit.breaks_on_gold]
    for line in (f"{what}: {sentence(audit)}", *map(attack_sentence, attacks), *_hints(audit)):
        console.print(Text(line), soft_wrap=True)
    if found:
        console.print(_table(found, console.width))
    for line in (*(_worst(found) if cases else ()), *(line for attack in attacks for line in _patterns(attack))):
        console.print(Text(line), soft_wrap=True)
    if found and not cases:
        console.print(Text("--cases prints the worst cases in full, and --json everything."), soft_wrap=True)


def sentence(audit: StaticAudit) -> str:
    """The verdict in a sentence or two."""
    failures = ", ".join(dict.fromkeys(reason for probe in audit.broken for reason in probe.failures))
    if audit.breaks_on_gold:
        return (
            f"it failed on the gold of each of {audit.tasks} rows ({failures}), so it was not audited. Mend that "
            f"first: the error stands above. It is given the columns of the rows (--data), and --gold names the gold's."
        )
    unpaid = sum(not probe.pays for probe in audit.probes)
    said = f"{len(audit.holes) or 'none'} of {unpaid} probes that must not be paid were; "
    said += f"{len(audit.refusals) or 'none'} of {len(audit.probes) - unpaid} that must be paid were refused"
    if audit.broken:
        said += f"; it broke on {len(audit.broken)} ({failures})"
    return f"{said}. {audit.tasks} rows; the gold earns {audit.gold_score:.3g}, in the form {audit.form!r}."


def attack_sentence(attack: Attack) -> str:
    """What a training against the reward came to."""
    first, last = attack.first, attack.last
    found = "found a hole" if attack.found_a_hole else "found no hole"
    return (
        f"The attack (seed {attack.seed}, {attack.tokens} tokens, {attack.steps} steps) {found}: "
        f"{_share(attack.whole.wrongly_paid)} of the completions were paid and wrong. From the first to the last "
        f"quarter, these went from {_mean(first.wrongly_paid)} to {_mean(last.wrongly_paid)}, the paid from "
        f"{_mean(first.paid)} to {_mean(last.paid)}, and the right from {_mean(first.right)} to {_mean(last.right)}."
    )


def _hints(audit: StaticAudit) -> Iterator[str]:
    """What to know before the table is believed."""
    if audit.breaks_on_gold:
        return
    if not audit.gold_score > 0:
        yield (
            "THIS REWARD DOES NOT PAY THE GOLD. The rest means little, unless the reward is a penalty: what earns no "
            "less than the gold counts as paid. Is it the right column (--gold), and the right data (--data)?"
        )
    elif audit.ignores_the_gold:
        yield (
            "This reward does not look at the gold: it always pays another row's. If it is a term of format or length, "
            "the probes for right and wrong answers do not apply to it: audit the sum that it is part of (--config)."
        )


def _mean(share: Interval | None) -> str:
    return "-" if share is None else f"{share.mean:.0%}"


def _share(share: Interval | None) -> str:
    return "-" if share is None else f"{share.mean:.1%} [{share.low:.1%}, {share.high:.1%}]"


def _table(found: Sequence[ProbeResult], width: int) -> Table:
    """A line a probe, as wide as the console: completions get the room that the rest leaves."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("", "probe", "paid [95 %]", "such as"):
        table.add_column(title, no_wrap=True)
    others = (max(map(len, column)) for column in zip(*((one.outcome, one.name) for one in found), strict=True))
    room = width - sum(others) - len("100% [93%, 100%]") - GAPS
    for probe in found:
        paid = "-" if probe.paid is None else f"{probe.paid.mean:.0%} [{probe.paid.low:.0%}, {probe.paid.high:.0%}]"
        said = on_one_line(probe.worst[0].completion, max(LEAST_CHARS, room))
        table.add_row(probe.outcome, probe.name, paid, Text(said))
    return table


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
        yield f"\nWhat was paid and is wrong, in {attack.tokens} tokens; # stands for a number:"
        for pattern in attack.patterns:
            yield f"  {pattern.count} times {shortened(pattern.pattern, MOST_CHARS)!r}"
            yield f"    such as {pattern.completion!r} for {shortened(last_message(pattern.prompt), MOST_CHARS)!r}"
