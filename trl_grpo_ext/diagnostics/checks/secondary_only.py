"""Groups in which only the other terms speak, and speak as loudly as a right answer."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.check import Outcome, Window, percent
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

LEAST_GROUPS = 8  # live ones; ours
WARN = 0.3  # of the live groups, and of the sum of absolute advantages; ours


def check(window: Window) -> Outcome:
    """Many live groups in which the primary term does not differ, and much of the advantages come from them."""
    if window.batches and len(window.in_force) < 2:
        return NotChecked("two terms with weight")
    live = sum(batch.outcomes.get(GroupOutcome.LIVE, 0) for batch in window.batches)
    secondary = sum(batch.secondary_groups for batch in window.batches)
    shares = [batch.secondary_share for batch in window.batches if batch.secondary_share is not None]
    if live < LEAST_GROUPS:
        return NotChecked("live groups") if window.batches else None
    if not shares:
        return NotChecked("advantages")
    of_advantages = sum(shares) / len(shares)
    if secondary < WARN * live or of_advantages < WARN:
        return None
    primary, others = window.in_force[0], ", ".join(f"`{term}`" for term in window.in_force[1:])
    return Finding(
        code="secondary_only",
        step=window.step,
        severity=Severity.WARNING,
        sentence=(
            f"In {percent(secondary / live)} of the live groups `{primary}` does not differ, and {others} alone "
            f"decides who is better: {percent(of_advantages)} of the advantages."
        ),
        numbers={"share_of_live_groups": secondary / live, "share_of_advantages": of_advantages},
        action=_action(window),
    )


def _action(window: Window) -> str:
    """What to do; to leave rewards as large as they are helps only where the others weigh less."""
    primary, weights = window.in_force[0], {name: abs(facts.weight) for name, facts in window.batches[-1].terms.items()}
    heavy = next((term for term in window.in_force[1:] if weights[term] >= weights[primary]), None)
    if heavy is not None:
        return f"Gate `{heavy}` by `{primary}`, or lower its weight below that of `{primary}`."
    scaled = window.settings.get("scale_rewards") in ("group", True, None)
    return f"Gate the small terms by `{primary}`" + (', or set scale_rewards: "none".' if scaled else ".")
