"""Check `wrong_driver`: advantages from other terms than the primary term."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from trl_grpo_ext.diagnostics.batches import (
    agreeing_share,
    compare_with_gold,
    groups_of,
    is_penalty,
    names,
    other_terms,
    percent,
)
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.progress import HARDLY, is_learning, steps_so_far
from trl_grpo_ext.diagnostics.window import LEAST_GROUPS, LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.figures.gold import are_paid
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.support.estimate import mean_of_known

# Ours, tried in test_fault_injection.py (wrong_driver) and test_healthy_runs.py (a form that weighs as much
# as the answer).
# The primary term's share: of two equal weights it has 0.4 and more.
WARN, CRITICAL = 1 / 3, 0.25
# Another single term's share, so that three equal terms are no finding.
OTHER = 0.5
LEAST_BATCHES = 4
# Ours, tried in test_diagnosis_cases.py (terms that cancel, a penalty that outweighs the answer).
# Of what the primary term gives: if another takes so much back, they work against each other.
OPPOSED = 0.5
# Of the live groups.
CANCELLED = 0.3
# Of the live groups, and of the sum of absolute advantages. Ours, tried in test_fault_injection.py
# (secondary_only) and test_healthy_runs.py (a form that is learned first, a tie-break among right answers).
SECONDARY_WARN = 0.3
# Optimizer steps in which a form may be learned first. Ours, tried in test_diagnosis_cases.py.
PATIENCE = 48
# Of the advantages: with less, a term decides nothing. Ours.
DECIDES = 0.05


def secondary_only(window: Window) -> CheckResult:
    """Find live groups decided by lesser terms alone, while the score stays flat."""
    others = other_terms(window)
    if not others:
        return _needs_another(window) if window.batches else None
    live = groups_of(window.batches, GroupOutcome.LIVE)
    of_advantages = mean_of_known(batch.secondary_share for batch in window.batches)
    if live < LEAST_GROUPS:
        return NotChecked(f"{LEAST_GROUPS} live groups in recent batches; {live} so far")
    if of_advantages is None:
        return NotChecked("advantages")
    secondary = sum(batch.secondary_groups for batch in window.batches) / live
    if min(secondary, of_advantages) < SECONDARY_WARN:
        return None
    # A tie-break among right answers is as it should be.
    if is_learning(window) or window.is_solved:
        return None
    # A form may be learned before the answers are.
    if window.scale.unit(window.score).mean > HARDLY and steps_so_far(window) < PATIENCE:
        return None
    deciding = _deciding(window)
    is_over = not set(deciding).intersection(others)
    return Finding(
        severity=Severity.INFO if is_over else Severity.WARNING,
        terms=(*deciding, *window.primary_terms),
        sentence=(
            f"In {percent(secondary)} of the live groups {names(window.primary_terms, 'or')} does not differ, and "
            f"{names(deciding, 'or')} alone decides who is better: {percent(of_advantages)} of the advantages"
            f"{', until its weight was taken' if is_over else ''}."
        ),
        numbers={"share_of_live_groups": secondary, "share_of_advantages": of_advantages},
        action=_action(window),
    )


def _deciding(window: Window) -> list[str]:
    """List the terms with advantages beside the primary terms, those of a faded weight too.

    All other terms in force, where no share is known.
    """
    found = []
    for term in window.terms:
        share = mean_of_known(batch.driver_share for batch in window.of_term(term).batches)
        if term not in window.primary_terms and share is not None and share >= DECIDES:
            found.append(term)
    return found or other_terms(window)


def _needs_another(window: Window) -> NotChecked:
    """Name the missing second term; several primary terms get an explanation."""
    needed = "two terms with weight for the same rows"
    if len(window.primary_terms) > 1:
        needed += (
            f"; each of {names(window.primary_terms)} is the first with weight in some rows, as where `when` or a "
            f"plain function's None takes a row out of a term"
        )
    return NotChecked(needed)


def _action(window: Window) -> str:
    """Choose the action: gate or lower heavy terms, gate or stop scaling light terms."""
    primary = window.primary_terms
    named = names(primary, "or")
    least = min(abs(window.of_term(term).weight) for term in primary)
    heavy = _heavy_term(window, least)
    if all(window.seen[term].values.high <= 0 for term in primary):
        advice = (
            f"Look at {named} first, which has never been above 0: read a few of its verdicts, since always 0 is a "
            f"bug, or more than any completion does. A gate by it would shut out every completion."
        )
    elif not heavy:
        advice = f"Gate the small terms by {named}"
        is_scaled = window.settings.get("scale_rewards") in ("group", True, None)
        advice += ', or set scale_rewards: "none".' if is_scaled else "."
    elif is_penalty(window, heavy):
        advice = f"Lower the weight of `{heavy}`: a right answer must be worth more than its penalty."
    else:
        advice = f"Gate `{heavy}` by {named}, or lower its weight below that of {named}."
    compare = compare_with_gold(agreeing_share(window.batches))
    if compare:
        return f"{compare} {advice}"
    return advice


def _heavy_term(window: Window, least: float) -> str:
    """Return the first lesser term whose weight reaches `least`; empty without such a term."""
    for term in other_terms(window):
        if abs(window.of_term(term).weight) >= least:
            return term
    return ""


def cancelled(window: Window) -> CheckResult:
    """Find live groups whose terms differ and whose totals do not."""
    live = groups_of(window.batches, GroupOutcome.LIVE)
    count = sum(batch.cancelled_groups for batch in window.batches)
    if live < LEAST_GROUPS or count < CANCELLED * live or not other_terms(window):
        return None
    others = names(other_terms(window))
    return Finding(
        severity=Severity.CRITICAL,
        terms=window.in_force,
        sentence=(
            f"{names(window.in_force)} cancel each other: in {percent(count / live)} of the groups that they tell "
            f"apart all completions get the same total, so nothing is learned."
        ),
        numbers={"cancelled": count / live},
        # Where the gate is open, the terms cancel still. Measured: half of the weight mends, the gate hardly does.
        action=f"Halve the weight of {others}; if it pays what it should punish, turn its sign.",
    )


def outweighed(window: Window) -> CheckResult:
    """Find a lesser term with more advantage than the primary term, where the primary term differs."""
    primary = window.primary_terms
    others = other_terms(window)
    if not others:
        return _needs_another(window) if window.batches else None
    shares = {term: _known_shares(window, term) for term in window.in_force}
    known = min(len(found) for found in shares.values())
    if known < LEAST_BATCHES:
        return NotChecked(
            f"{LEAST_BATCHES} recent batches with live groups in which the primary term differs; {known} so far"
        )
    means = {term: fmean(found) for term, found in shares.items()}
    own = sum(means[term] for term in primary)
    driver = max(others, key=lambda term: means[term])
    against = min(others, key=lambda term: means[term])
    if own > 0 and means[against] <= -OPPOSED * own:
        return _opposed(window, against, -means[against] / own)
    if own >= WARN or means[driver] < OTHER:
        return None
    if own < 0:
        return _opposed(window, driver, 1.0)
    named = names(primary, "or")
    return Finding(
        severity=Severity.critical_if(own < CRITICAL),
        terms=(driver, *primary),
        sentence=(
            f"{_part(means[driver])} of the advantage comes from `{driver}` and {percent(own)} from "
            f"{names(primary)}, even where {named} has something to say."
        ),
        numbers={"driver": means[driver], "primary": own},
        action=(
            f"Lower the weight of `{driver}`{_or_gate(window, driver)}; if {named} is not what you want "
            f"taught, put the right term first."
        ),
    )


def _or_gate(window: Window, term: str) -> str:
    """Advise a gate; none for a penalty, which a closed gate would spare wrong answers."""
    if is_penalty(window, term):
        return ""
    return f", or gate it by {names(window.primary_terms, 'or')}"


def _known_shares(window: Window, term: str) -> list[float]:
    """List a term's shares of the advantage, a batch each, over groups in which the primary term differs."""
    shares = [batch.driver_where_primary_differs for batch in window.of_term(term).batches]
    return [share for share in shares if share is not None]


def wrong_sign(window: Window) -> CheckResult:
    """A penalty, never above 0, with a weight below 0: it pays what it should punish."""
    for term in other_terms(window):
        values = window.seen[term].values
        weight = window.of_term(term).weight
        if (
            weight >= 0
            or values.high > 0
            or values.low >= 0
            or values.numbers.count < LEAST_SAMPLES
        ):
            continue
        return Finding(
            severity=Severity.CRITICAL,
            terms=(term,),
            sentence=(
                f"`{term}` pays what it should punish: it gives {values.numbers.mean:.2g} on average and never more "
                f"than {values.high:.2g}, and its weight is {weight:.2g}."
            ),
            numbers={"mean": values.numbers.mean, "weight": weight},
            action=f"Give `{term}` the weight {-weight:.2g}, or have it return positive numbers for what is bad.",
        )
    return None


def punished(window: Window) -> CheckResult:
    """Find a term that reads answers and has a weight below 0: right answers are punished."""
    for term in window.in_force:
        found = window.of_term(term)
        values = window.seen[term].values
        # A penalty reads no answer, or is never above 0.
        if found.weight >= 0 or not found.has_answers or values.high <= 0 or values.low < 0:
            continue
        if values.numbers.count < LEAST_SAMPLES:
            continue
        return Finding(
            severity=Severity.CRITICAL,
            terms=(term,),
            sentence=f"Right answers are punished: `{term}` judges answers, and its weight is {found.weight:.2g}.",
            numbers={"weight": found.weight},
            action=f"Give `{term}` the weight {-found.weight:.2g}.",
        )
    return None


def not_yet(window: Window) -> CheckResult:
    """Find a term that reads answers and waits for its weight, while the terms in force read none, or for ever."""
    if not window.in_force:
        return None
    in_force_reads = window.of_term(window.in_force[0]).has_answers
    for reward in window.settings.get("rewards") or ():
        term = reward.get("name")
        is_waiting = term in window.terms and term not in window.trained_on
        if not (is_waiting and reward.get("schedule") and window.of_term(term).has_answers):
            continue
        too_late = _begins_too_late(window, reward["schedule"])
        if in_force_reads and not too_late:
            continue
        named = names(window.in_force)
        return Finding(
            severity=Severity.WARNING if _most_is_over(window) else Severity.INFO,
            terms=(term, *window.in_force),
            sentence=(
                f"`{term}` judges the answers and has had no weight until now{too_late}: {named} alone is learned."
            ),
            numbers={"steps": steps_so_far(window)},
            action=f"Let the schedule of `{term}` begin earlier, or with some weight.",
        )
    return None


def faded(window: Window) -> CheckResult:
    """Find a first term that reads answers and has lost its weight, while no term in force pays right answers."""
    lost = window.faded
    if lost is None or not window.in_force or not window.has_read_answers(lost.term):
        return None
    # A plain function tells no answers, and may pay them all the same.
    if any(map(window.has_read_answers, window.in_force)) or are_paid(
        [batch.gold_endings for batch in window.kept_batches]
    ):
        return None
    named = names(window.in_force)
    when = "" if lost.step is None else f" since step {lost.step}"
    return Finding(
        severity=Severity.CRITICAL,
        terms=(lost.term, *window.in_force),
        sentence=(
            f"`{lost.term}` judges the answers and has no weight{when}: {named} alone is learned."
        ),
        numbers={"steps": steps_so_far(window)},
        action=f"Let the schedule of `{lost.term}` end above 0.",
    )


def _begins_too_late(window: Window, schedule: Any) -> str:
    """Name the step at which a schedule begins, if the run ends before it; empty otherwise."""
    begins = _first_step_with_weight(schedule)
    most = window.number("max_steps") or 0
    if begins is None or not 0 < most <= begins:
        return ""
    return f", since its schedule begins at step {begins:g} and the run has {most:g}"


def _first_step_with_weight(schedule: Any) -> float | None:
    """Return the step after which a schedule over steps leaves 0; None for any other schedule."""
    if not isinstance(schedule, Mapping) or schedule.get("unit") != "step":
        return None
    before = None
    for when, weight in schedule["points"]:
        if weight:
            return before
        before = float(when)
    return None


def _most_is_over(window: Window) -> bool:
    """Test for half of the optimizer steps; False without a known number of steps."""
    most = window.number("max_steps")
    if most is None or most <= 0:
        return False
    return steps_so_far(window) >= most / 2


def _part(share: float) -> str:
    """Format a share that exceeds 1 because another term's share is negative."""
    if share > 1:
        return "More than all"
    return percent(share)


def _opposed(window: Window, term: str, part: float) -> Finding:
    """Report a term that opposes the primary term."""
    named = names(window.primary_terms, "or")
    taken = "more than all" if part >= 1 else percent(part)
    action = f"Gate `{term}` by {named}, so that only right answers are told apart by it, or lower its weight."
    if is_penalty(window, term):
        action = f"Lower the weight of `{term}`."
    return Finding(
        severity=Severity.critical_if(part >= 1),
        terms=(term, *window.primary_terms),
        sentence=(
            f"`{term}` works against {named}: within groups it takes back {taken} of the advantage that {named} gives."
        ),
        numbers={"taken_back": part},
        action=action,
    )
