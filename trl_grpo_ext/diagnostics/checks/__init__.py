"""Table of checks in order of cause. Codes are stable: files and scripts hold them.

A new check is a file with a pure function of a `Window`, and a line in `CHECKS`. A code may have several parts: then
`_most_severe` tells the most severe one, and the first of equals. If what a part finds is only what another cause does,
name it in `HIDES` under that cause.
"""

from __future__ import annotations

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
    mixed_groups,
    noisy_verifier,
    odd_sampling,
    reward_hacking,
    unread,
    way_out,
    wrong_driver,
    zero_updates,
)
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.window import Check, CheckResult, Window, finds

# Groups that nobody solves, and groups of which too few are live.
DEAD_GROUPS: tuple[Check, ...] = (dead_groups.all_wrong, dead_groups.of_both_kinds, dead_groups.never_right)

# A cause hides these checks: what they find is what the cause does.
HIDES: dict[Check, tuple[Check, ...]] = {
    grader_trouble.failures: (grader_trouble.slow,),
    grader_trouble.starved: (grader_trouble.slow,),
    bad_data.one_prompt: (
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
        entropy_collapse.collapsed,
    ),
    reward_hacking.hacking: (noisy_verifier.disputed,),
    kl_blowup.broken: (
        getting_worse.fallen,
        unread.cut,
        unread.unparseable,
        *DEAD_GROUPS,
        kl_blowup.far_and_no_better,
        entropy_collapse.collapsed,
        length_explosion.length,
        length_explosion.repetition,
        length_explosion.language,
    ),
    kl_blowup.far_and_no_better: (entropy_collapse.collapsed,),
    wrong_driver.punished: (
        getting_worse.fallen,
        unread.unparseable,
        kl_blowup.broken,
        kl_blowup.far_and_no_better,
        *DEAD_GROUPS,
        entropy_collapse.collapsed,
    ),
    # Of a policy that is as good as before: of rows that are too hard for it, a lesser term alone tells answers apart.
    getting_worse.harder_data: (
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
        wrong_driver.secondary_only,
        length_explosion.length,
    ),
    wrong_driver.wrong_sign: (wrong_driver.outweighed,),
    zero_updates.rounded: (dead_groups.of_both_kinds,),
    bad_data.doubtful_gold: (dead_groups.never_right,),
    odd_sampling.distorted: (
        unread.cut,
        unread.unparseable,
        *DEAD_GROUPS,
        length_explosion.repetition,
        length_explosion.language,
    ),
    entropy_collapse.never_explored: (
        bad_data.doubtful_gold,
        kl_blowup.far_and_no_better,
        *DEAD_GROUPS,
        entropy_collapse.collapsed,
    ),
}


def _most_severe(code: str, *parts: Check) -> tuple[str, Check]:
    """Combine parts into one check that returns the most severe finding, first among equals."""

    def check(window: Window) -> CheckResult:
        results = [_unless_hidden(part, window) for part in parts]
        found = [one for one in results if isinstance(one, Finding)]
        if found:
            return replace(max(found, key=lambda one: one.severity.rank), code=code, step=window.step)
        needs = dict.fromkeys(one.needs for one in results if isinstance(one, NotChecked))
        return NotChecked("; ".join(needs), in_part=None in results) if needs else None

    return code, check


def _unless_hidden(part: Check, window: Window) -> CheckResult:
    found = part(window)
    if not isinstance(found, Finding):
        return found
    causes = [cause for cause, hidden in HIDES.items() if part in hidden]
    return None if finds(window, *causes) else found


# In the order of cause: what comes first makes what comes after meaningless, and is named first.
CHECKS: dict[str, Check] = dict(
    [
        _most_severe("nonfinite_updates", zero_updates.nonfinite),
        _most_severe("mixed_groups", mixed_groups.mixed),
        _most_severe("way_out", way_out.escaped),
        _most_severe(
            "grader_trouble",
            grader_trouble.failures,
            grader_trouble.starved,
            grader_trouble.timeouts_of_the_policy,
            grader_trouble.hidden_imports,
            grader_trouble.failing_tools,
            grader_trouble.slow,
        ),
        _most_severe("bad_data", bad_data.unjudged, bad_data.one_prompt, bad_data.doubtful_gold),
        _most_severe(
            "noisy_verifier",
            noisy_verifier.inconsistent,
            noisy_verifier.measured,
            noisy_verifier.disputed,
        ),
        _most_severe("reward_hacking", reward_hacking.hacking),
        _most_severe("getting_worse", getting_worse.fallen),
        _most_severe("odd_sampling", odd_sampling.distorted),
        _most_severe("truncation", unread.cut, unread.shortened),
        _most_severe("unparseable_flood", unread.unparseable),
        _most_severe("zero_updates", zero_updates.zero, zero_updates.rounded, zero_updates.warming_up),
        _most_severe("kl_blowup", kl_blowup.broken, kl_blowup.far_and_no_better, kl_blowup.unstable),
        _most_severe(
            "dead_groups",
            dead_groups.all_wrong,
            dead_groups.all_right,
            dead_groups.of_both_kinds,
            dead_groups.never_right,
        ),
        _most_severe(
            "inert_term",
            inert_term.closed_gate,
            inert_term.unmatched,
            inert_term.flattened,
            inert_term.flat,
            inert_term.saturated,
        ),
        _most_severe(
            "wrong_driver",
            wrong_driver.punished,
            wrong_driver.wrong_sign,
            wrong_driver.not_yet,
            wrong_driver.secondary_only,
            wrong_driver.cancelled,
            wrong_driver.outweighed,
        ),
        _most_severe("entropy_collapse", entropy_collapse.never_explored, entropy_collapse.collapsed),
        _most_severe("length_explosion", length_explosion.length),
        _most_severe("repetition", length_explosion.repetition),
        _most_severe("label_hacks", reward_hacking.label_hacks),
        _most_severe("language_mixing", length_explosion.language),
    ]
)
