"""Groups in which only the other terms speak, and speak as loudly as a right answer."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.evidence.figures import groups_of, percent
from trl_grpo_ext.diagnostics.evidence.gold_doubt import agreeing_share, compare_with_gold
from trl_grpo_ext.diagnostics.evidence.level import score_level
from trl_grpo_ext.diagnostics.evidence.primary_terms import names, other_terms, primary_terms
from trl_grpo_ext.diagnostics.evidence.progress import is_learning
from trl_grpo_ext.diagnostics.evidence.window import CEILING, LEAST_GROUPS, Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

WARN = 0.3  # of the live groups, and of the sum of absolute advantages; ours


def check(window: Window) -> Outcome:
    """Many live groups in which the primary term does not differ, much of the advantages, and no better answers."""
    others = other_terms(window)
    if window.batches and not others:
        return NotChecked("two terms with weight for the same rows")
    live = groups_of(window.batches, GroupOutcome.LIVE)
    secondary = sum(batch.secondary_groups for batch in window.batches)
    shares = [batch.secondary_share for batch in window.batches if batch.secondary_share is not None]
    if live < LEAST_GROUPS:
        return NotChecked(f"{LEAST_GROUPS} live groups in recent batches; {live} so far") if window.batches else None
    if not shares:
        return NotChecked("advantages")
    of_advantages = sum(shares) / len(shares)
    if secondary < WARN * live or of_advantages < WARN or _does_well(window):
        return None
    primary = names(primary_terms(window), "or")
    return Finding(
        code="secondary_only",
        step=window.step,
        severity=Severity.WARNING,
        sentence=(
            f"In {percent(secondary / live)} of the live groups {primary} does not differ, and {names(others, 'or')} "
            f"alone decides who is better: {percent(of_advantages)} of the advantages."
        ),
        numbers={"share_of_live_groups": secondary / live, "share_of_advantages": of_advantages},
        action=_action(window),
    )


def _does_well(window: Window) -> bool:
    """Whether answers get better all the same, or have got as good as can be.

    A form that is learned first, and a tie-break among right answers, are as they should be.
    """
    level = score_level(window.batches)
    return is_learning(window) or (level is not None and level.mean >= CEILING)


def _action(window: Window) -> str:
    """What to do; to leave rewards as large as they are helps only where the others weigh less."""
    primary, weights = primary_terms(window), {term: abs(window.of_term(term)[-1].weight) for term in window.in_force}
    named, least = names(primary, "or"), min(weights[term] for term in primary)
    heavy = next((term for term in other_terms(window) if weights[term] >= least), None)
    if heavy is not None:
        advice = f"Gate `{heavy}` by {named}, or lower its weight below that of {named}."
    else:
        scaled = window.settings.get("scale_rewards") in ("group", True, None)
        advice = f"Gate the small terms by {named}" + (', or set scale_rewards: "none".' if scaled else ".")
    return " ".join(filter(None, (compare_with_gold(agreeing_share(window)), advice)))
