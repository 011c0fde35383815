"""An audit as text for people: the verdict in a sentence, a table, and the worst cases in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trl_grpo_ext.audit.attack import Attack
from trl_grpo_ext.audit.static import Case, ProbeResult, StaticAudit
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.support.estimate import Interval
from trl_grpo_ext.support.text import shortened

MOST_CHARS = 800  # of a completion; JSON has all


def print_audit(audit: StaticAudit, attacks: Sequence[Attack], what: str, console: Console | None = None) -> None:
    """Print an audit of the reward that `what` names."""
    console = console or Console()
    for line in (f"{what}: {sentence(audit)}", *map(attack_sentence, attacks), _scale(audit)):
        console.print(Text(line), soft_wrap=True)
    console.print(_table(audit))
    for line in (*_worst(audit), *(line for attack in attacks for line in _patterns(attack))):
        console.print(Text(line), soft_wrap=True)


def sentence(audit: StaticAudit) -> str:
    """The verdict in a sentence or two."""
    unpaid = sum(not probe.pays for probe in audit.probes)
    paid = len(audit.probes) - unpaid
    said = f"{len(audit.holes) or 'none'} of {unpaid} probes that must not be paid were{_named(audit.holes)}"
    said += f"; {len(audit.refusals) or 'none'} of {paid} that must be paid were refused{_named(audit.refusals)}."
    if audit.broken:
        failures = ", ".join(dict.fromkeys(reason for probe in audit.broken for reason in probe.failures))
        said += f" It broke on {len(audit.broken)} probes: {failures}."
    return said


def _named(probes: Sequence[ProbeResult]) -> str:
    return f" ({', '.join(probe.name for probe in probes)})" if probes else ""


def attack_sentence(attack: Attack) -> str:
    """What a training against the reward came to."""
    first, last = attack.first, attack.last
    found = "found a hole" if attack.found_a_hole else "found no hole"
    return (
        f"The attack (seed {attack.seed}, {attack.tokens} tokens, {attack.steps} steps) {found}: the reward pays "
        f"{_share(last.paid)} of the completions at the end ({_mean(first.paid)} at the start), {_share(last.right)} "
        f"are right by the reference ({_mean(first.right)}), and {_share(last.wrongly_paid)} are paid and wrong "
        f"({_mean(first.wrongly_paid)})."
    )


def _mean(share: Interval | None) -> str:
    return "-" if share is None else f"{share.mean:.1%}"


def _share(share: Interval | None) -> str:
    return "-" if share is None else f"{share.mean:.1%} [{share.low:.1%}, {share.high:.1%}]"


def _table(audit: StaticAudit) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("probe", no_wrap=True)
    table.add_column("completions", justify="right")
    table.add_column("paid [95 %]", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    last_paid = [probe for probe in audit.probes if probe.pays][-1]
    for probe in audit.probes:
        outcome = "BROKE" if probe.failures else ("REFUSED" if probe.pays else "HOLE") if probe.bad else ""
        table.add_row(probe.name, f"{probe.completions:,}", _share(probe.paid), outcome, end_section=probe is last_paid)
    return table


def _scale(audit: StaticAudit) -> str:
    if audit.gold_score <= 0:
        return (
            f"{audit.tasks} rows. THIS REWARD DOES NOT PAY THE GOLD: it earns {audit.gold_score:.3g} in its best form, "
            f"{audit.form!r}. What follows means little, unless the reward is a penalty: what earns no less counts as "
            f"paid. Is it the right column (--gold), and the right data (--data)?"
        )
    bound = f"more than {audit.gold_score / 2:.3g}" if audit.gold_score > 0 else f"{audit.gold_score:.3g} or more"
    return (
        f"{audit.tasks} rows. The gold earns {audit.gold_score:.3g} in the form {audit.form!r}, and what earns {bound} "
        f"counts as paid."
    )


def _worst(audit: StaticAudit) -> Iterator[str]:
    for probe in audit.probes:
        for case in probe.worst:
            yield f"\n{probe.name}: {_outcome(case)}"
            yield f"  prompt: {shortened(last_message(case.prompt), MOST_CHARS)!r}"
            yield f"  gold: {shortened(case.gold, MOST_CHARS)!r}"
            yield f"  completion: {shortened(case.completion, MOST_CHARS)!r}"


def _outcome(case: Case) -> str:
    reason = f" ({case.reason})" if case.reason else ""
    return f"it could not say{reason}" if case.score is None else f"it earned {case.score:.3g}{reason}"


def _patterns(attack: Attack) -> Iterator[str]:
    if not attack.found_a_hole:
        return
    yield f"\nWhat was paid and is wrong at the end, in {attack.tokens} tokens; # stands for a number:"
    for pattern in attack.patterns:
        yield f"  {pattern.count} times {shortened(pattern.pattern, MOST_CHARS)!r}"
        yield f"    such as {pattern.completion!r} for {shortened(last_message(pattern.prompt), MOST_CHARS)!r}"
