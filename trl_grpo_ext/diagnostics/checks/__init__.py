"""Table of checks in order of cause. Codes are stable: files and scripts hold them.

A check is a file named by its code. The file holds one or several parts, each a pure function of a `Window`; the check
tells the most severe finding of its parts, and the first of equals. If what a part finds is only what another cause
does, name it in `HIDES` under that cause.
"""

from __future__ import annotations

from dataclasses import replace

from trl_grpo_ext.diagnostics.batches import of_template
from trl_grpo_ext.diagnostics.checks import (
    bad_data,
    dead_groups,
    entropy_collapse,
    getting_worse,
    grader_trouble,
    inert_term,
    kl_blowup,
    label_hacks,
    mixed_groups,
    noisy_verifier,
    nonfinite_updates,
    odd_sampling,
    odd_settings,
    reward_hacking,
    way_out,
    wrong_driver,
    zero_updates,
)
from trl_grpo_ext.diagnostics.checks.completions import (
    language_mixing,
    length_explosion,
    repetition,
    truncation,
    unparseable_flood,
)
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.window import Check, CheckResult, Window, finds

# In the order of cause: what comes first makes what comes after meaningless, and is named first.
PARTS: dict[str, tuple[Check, ...]] = {
    "nonfinite_updates": (nonfinite_updates.nonfinite,),
    "mixed_groups": (mixed_groups.mixed,),
    "way_out": (way_out.escaped,),
    "grader_trouble": (
        grader_trouble.failures,
        grader_trouble.not_finite,
        grader_trouble.shortened,
        grader_trouble.starved,
        grader_trouble.timeouts_of_the_policy,
        grader_trouble.hidden_imports,
        grader_trouble.unasked_operators,
        grader_trouble.failing_tools,
        grader_trouble.unreached_tools,
        grader_trouble.silent_tools,
        grader_trouble.telling_tools,
        grader_trouble.wrong_tools,
        grader_trouble.slow,
    ),
    "bad_data": (
        bad_data.unjudged,
        bad_data.unmatched_rows,
        bad_data.one_prompt,
        bad_data.cut_prompts,
        bad_data.related_gold,
        bad_data.doubtful_gold,
        bad_data.evaluation_gold,
    ),
    "noisy_verifier": (
        noisy_verifier.turned_around,
        noisy_verifier.inconsistent,
        noisy_verifier.refused,
        noisy_verifier.other_answers,
        noisy_verifier.measured,
        noisy_verifier.disputed,
    ),
    "reward_hacking": (reward_hacking.hacking,),
    "getting_worse": (getting_worse.fallen,),
    "odd_sampling": (odd_sampling.distorted,),
    "truncation": (truncation.cut, truncation.shortened),
    "unparseable_flood": (unparseable_flood.calls, unparseable_flood.unparseable),
    "zero_updates": (zero_updates.zero, zero_updates.rounded, zero_updates.warming_up),
    "odd_settings": (odd_settings.unusual,),
    "kl_blowup": (kl_blowup.broken, kl_blowup.far_and_no_better, kl_blowup.unstable),
    "dead_groups": (
        dead_groups.all_wrong,
        dead_groups.all_right,
        dead_groups.of_both_kinds,
        dead_groups.never_right,
    ),
    "inert_term": (
        inert_term.gated_answers,
        inert_term.closed_gate,
        inert_term.closed_lesser_gate,
        inert_term.unmatched,
        inert_term.selective,
        inert_term.flattened,
        inert_term.flat,
        inert_term.saturated,
    ),
    "wrong_driver": (
        wrong_driver.punished,
        wrong_driver.wrong_sign,
        wrong_driver.not_yet,
        wrong_driver.faded,
        wrong_driver.secondary_only,
        wrong_driver.cancelled,
        wrong_driver.outweighed,
    ),
    "entropy_collapse": (entropy_collapse.never_explored, entropy_collapse.collapsed),
    "length_explosion": (length_explosion.length,),
    "repetition": (repetition.repeated,),
    "label_hacks": (label_hacks.fooled,),
    "language_mixing": (language_mixing.foreign,),
}

# Groups that nobody solves, and groups of which too few are live.
DEAD_GROUPS: tuple[Check, ...] = (
    dead_groups.all_wrong,
    dead_groups.of_both_kinds,
    dead_groups.never_right,
)

# A cause hides these parts: what they find is what the cause does.
HIDES: dict[Check, tuple[Check, ...]] = {
    grader_trouble.failures: (grader_trouble.slow,),
    grader_trouble.starved: (grader_trouble.slow,),
    bad_data.one_prompt: (
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
        entropy_collapse.collapsed,
    ),
    bad_data.cut_prompts: (bad_data.doubtful_gold, bad_data.related_gold),
    bad_data.evaluation_gold: (reward_hacking.hacking,),
    # Where right answers are not paid, a lesser term alone tells answers apart, and a gate would shut it out too.
    bad_data.related_gold: (
        noisy_verifier.refused,
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
        wrong_driver.secondary_only,
    ),
    noisy_verifier.turned_around: (
        bad_data.related_gold,
        noisy_verifier.refused,
        reward_hacking.hacking,
        *DEAD_GROUPS,
        wrong_driver.secondary_only,
    ),
    reward_hacking.hacking: (noisy_verifier.disputed,),
    kl_blowup.broken: (
        getting_worse.fallen,
        truncation.cut,
        unparseable_flood.calls,
        unparseable_flood.unparseable,
        *DEAD_GROUPS,
        kl_blowup.far_and_no_better,
        entropy_collapse.collapsed,
        length_explosion.length,
        repetition.repeated,
        language_mixing.foreign,
    ),
    kl_blowup.far_and_no_better: (entropy_collapse.collapsed,),
    wrong_driver.punished: (
        getting_worse.fallen,
        unparseable_flood.unparseable,
        kl_blowup.broken,
        kl_blowup.far_and_no_better,
        *DEAD_GROUPS,
        entropy_collapse.collapsed,
    ),
    wrong_driver.faded: (
        noisy_verifier.turned_around,
        noisy_verifier.refused,
        *inert_term.FLAT_TERMS,
        inert_term.saturated,
    ),
    # The policy is as good as before. Where rows are too hard for it, a lesser term alone tells answers apart.
    getting_worse.harder_data: (
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
        wrong_driver.secondary_only,
        length_explosion.length,
    ),
    wrong_driver.wrong_sign: (wrong_driver.outweighed,),
    zero_updates.rounded: (dead_groups.of_both_kinds,),
    bad_data.doubtful_gold: (dead_groups.never_right,),
    grader_trouble.silent_tools: DEAD_GROUPS,
    grader_trouble.telling_tools: (
        bad_data.related_gold,
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
    ),
    grader_trouble.wrong_tools: (
        bad_data.related_gold,
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
    ),
    # Larger updates would teach other terms than the one behind the gate.
    inert_term.gated_answers: (zero_updates.zero, *DEAD_GROUPS),
    inert_term.closed_gate: (zero_updates.zero,),
    inert_term.selective: (
        *inert_term.FLAT_TERMS,
        *DEAD_GROUPS,
    ),
    noisy_verifier.refused: (
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
        *inert_term.FLAT_TERMS,
        truncation.shortened,
        wrong_driver.secondary_only,
    ),
    unparseable_flood.calls: (
        bad_data.related_gold,
        bad_data.doubtful_gold,
        *DEAD_GROUPS,
        entropy_collapse.never_explored,
    ),
    odd_sampling.distorted: (
        truncation.cut,
        unparseable_flood.calls,
        unparseable_flood.unparseable,
        *DEAD_GROUPS,
        repetition.repeated,
        language_mixing.foreign,
    ),
    odd_settings.unusual: (getting_worse.fallen, entropy_collapse.collapsed),
    entropy_collapse.never_explored: (
        bad_data.doubtful_gold,
        kl_blowup.far_and_no_better,
        *DEAD_GROUPS,
        entropy_collapse.collapsed,
    ),
}


def _unless_hidden(part: Check, window: Window) -> CheckResult:
    """Run a part; return None for a finding that a cause hides."""
    result = part(window)
    if not isinstance(result, Finding):
        return result
    causes = [cause for cause, hidden in HIDES.items() if part in hidden]
    if finds(window, *causes):
        return None
    return result


def _naming_template(finding: Finding, window: Window) -> str:
    """Return a finding's sentence, led by the unused chat template if its action begins with that."""
    advice = of_template(window)
    told = finding.sentence
    if not advice or not finding.action.startswith(advice):
        return told
    return f"Prompts are plain text, and the tokenizer has a chat template: {told[:1].lower()}{told[1:]}"


def _check(code: str, parts: tuple[Check, ...]) -> Check:
    """Combine parts into one check that returns the most severe finding, first among equals."""

    def check(window: Window) -> CheckResult:
        findings: list[Finding] = []
        needs: list[str] = []
        has_passed = False
        for part in parts:
            result = _unless_hidden(part, window)
            if result is None:
                has_passed = True
            elif isinstance(result, Finding):
                findings.append(result)
            elif result.needs not in needs:
                needs.append(result.needs)
        if findings:
            worst = max(findings, key=lambda finding: finding.severity.rank)
            told = _naming_template(worst, window)
            return replace(worst, code=code, step=window.step, sentence=told)
        if needs:
            return NotChecked("; ".join(needs), in_part=has_passed)
        return None

    return check


# The checks by code, in the order of cause.
CHECKS: dict[str, Check] = {code: _check(code, parts) for code, parts in PARTS.items()}
