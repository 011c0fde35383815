"""The checks by their codes, one or one family a file. Codes are stable: files and scripts hold them.

A check looks for one cause of trouble, in one way or in several. A new one is a file with a pure function of a
`Window`, and a line here, at its place in the order of cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.diagnostics.checks import (
    bad_data,
    dead_groups,
    entropy_collapse,
    getting_worse,
    grader_trouble,
    inert_term,
    kl_blowup,
    length_explosion,
    noisy_verifier,
    reward_hacking,
    unread,
    way_out,
    wrong_driver,
    zero_updates,
)
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.window import Check, CheckResult, Window, finds

# In the order of cause: what comes first makes what comes after meaningless, and is named first.
LOOKS: dict[str, tuple[Check, ...]] = {
    "nonfinite_updates": (zero_updates.nonfinite,),
    "way_out": (way_out.escaped,),
    "grader_trouble": (
        grader_trouble.failures,
        grader_trouble.starved,
        grader_trouble.timeouts_of_the_policy,
        grader_trouble.hidden_imports,
        grader_trouble.slow,
    ),
    "bad_data": (bad_data.unjudged, bad_data.doubtful_gold),
    "noisy_verifier": (noisy_verifier.inconsistent, noisy_verifier.measured, noisy_verifier.disputed),
    "reward_hacking": (reward_hacking.hacking,),
    "getting_worse": (getting_worse.fallen,),
    "truncation": (unread.cut,),
    "unparseable_flood": (unread.unparseable,),
    "zero_updates": (zero_updates.zero,),
    "kl_blowup": (kl_blowup.broken, kl_blowup.far_and_no_better, kl_blowup.unstable),
    "dead_groups": (dead_groups.all_wrong, dead_groups.all_right, dead_groups.of_both_kinds),
    "inert_term": (inert_term.closed_gate, inert_term.unmatched, inert_term.flat, inert_term.saturated),
    "wrong_driver": (wrong_driver.secondary_only, wrong_driver.cancelled, wrong_driver.outweighed),
    "entropy_collapse": (entropy_collapse.never_explored, entropy_collapse.collapsed),
    "length_explosion": (length_explosion.length,),
    "repetition": (length_explosion.repetition,),
    "label_hacks": (reward_hacking.label_hacks,),
    "language_mixing": (length_explosion.language,),
}

# What else a cause does: it is not told where the cause is.
EFFECTS: dict[Check, tuple[Check, ...]] = {
    grader_trouble.failures: (grader_trouble.slow,),
    grader_trouble.starved: (grader_trouble.slow,),
    reward_hacking.hacking: (noisy_verifier.disputed,),
    kl_blowup.broken: (
        *(getting_worse.fallen, unread.cut, unread.unparseable, dead_groups.all_wrong, dead_groups.of_both_kinds),
        *(kl_blowup.far_and_no_better, entropy_collapse.collapsed),
        *(length_explosion.length, length_explosion.repetition, length_explosion.language),
    ),
    kl_blowup.far_and_no_better: (entropy_collapse.collapsed,),
    entropy_collapse.never_explored: (
        *(bad_data.doubtful_gold, dead_groups.all_wrong, dead_groups.of_both_kinds, entropy_collapse.collapsed),
    ),
}


def _check(code: str, looks: Sequence[Check]) -> Check:
    """A check that tells the most severe of what several looks find; of equals, the first."""

    def check(window: Window) -> CheckResult:
        results = [_unless_an_effect(look, window) for look in looks]
        found = [one for one in results if isinstance(one, Finding)]
        if found:
            return replace(max(found, key=lambda one: one.severity.rank), code=code, step=window.step)
        needs = dict.fromkeys(one.needs for one in results if isinstance(one, NotChecked))
        return NotChecked("; ".join(needs), in_part=None in results) if needs else None

    return check


def _unless_an_effect(look: Check, window: Window) -> CheckResult:
    found = look(window)
    if not isinstance(found, Finding):
        return found
    causes = [cause for cause, effects in EFFECTS.items() if look in effects]
    return None if finds(window, *causes) else found


CHECKS: dict[str, Check] = {code: _check(code, looks) for code, looks in LOOKS.items()}
