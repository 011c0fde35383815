"""Two verifiers of the same thing disagree: one of them is wrong."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.checks import reward_hacking
from trl_grpo_ext.diagnostics.evidence.figures import percent
from trl_grpo_ext.diagnostics.evidence.second_opinion import agreement, no_second_opinion, second_opinions
from trl_grpo_ext.diagnostics.evidence.window import Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, Severity

KAPPA = 0.8  # the usual bound of good agreement; ours for verifiers
LEAST = 10  # completions that they disagree on; ours
LEAST_SHARE = 0.05  # of all: kappa is harsh where nearly all are right, or wrong; ours


def check(window: Window) -> Outcome:
    """Cohen's kappa of a second opinion and the primary verdicts, where the one is not being gamed."""
    shadows = second_opinions(window)
    if window.batches and not shadows:
        return no_second_opinion(window)
    if isinstance(reward_hacking.check(window), Finding):
        return None  # the same disagreement, and its cause
    for shadow in shadows:
        found = agreement(window.batches, shadow)
        apart = found.primary_only + found.shadow_only
        if apart < LEAST or apart < LEAST_SHARE * found.size or not found.kappa < KAPPA:
            continue
        primary = window.in_force[0]
        return Finding(
            code="verifier_disagreement",
            step=window.step,
            severity=Severity.INFO,
            sentence=(
                f"`{primary}` and `{shadow}` disagree on {percent(apart / found.size)} of the completions (kappa "
                f"{found.kappa:.2f}): {found.primary_only} right by `{primary}` only, {found.shadow_only} by "
                f"`{shadow}` only."
            ),
            numbers={
                "kappa": found.kappa,
                "share": apart / found.size,
                "primary_only": found.primary_only,
                "shadow_only": found.shadow_only,
            },
            action="Read ten completions of each kind, and mend the verifier that is wrong; prefer the one that passes "
            "no wrong answer.",
        )
    return None
