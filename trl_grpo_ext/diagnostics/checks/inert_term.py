"""Check `inert_term`: a term with weight that gives a group one value, has no rows, or passes every completion.

A term may give one value for good reasons, which each part excuses: nearly all completions pass (`_is_saturated`), a
penalty has nothing to punish (`_is_idle`), and groups differed in it until it was learned (`_has_been_learned`).
"""

from __future__ import annotations

import itertools

from trl_grpo_ext.diagnostics.batches import (
    is_one_answer,
    mostly,
    names,
    other_terms,
    percent,
    repeated_share,
)
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.progress import has_risen, is_stuck, steps_so_far
from trl_grpo_ext.diagnostics.term_totals import TermTotals
from trl_grpo_ext.diagnostics.window import (
    LEAST_GROUPS,
    LEAST_SAMPLES,
    Check,
    CheckResult,
    Window,
)
from trl_grpo_ext.support.estimate import NOTHING, Estimate
from trl_grpo_ext.verdict import Status

# Ours, tried in test_fault_injection.py (inert_term) and test_healthy_runs.py (a penalty with nothing to
# punish, scores that no group differs in once they are learned).
# Of the groups.
FLAT = 0.95
# Of the groups differ in scores, and not in values.
FLATTENED = 0.3
# Of the verdicts: if the gate sets more, the gate has flattened the term, not the verifier.
GATED = 0.5
# Of the groups: a shadow that tells more than half of them apart.
TELLING = 0.5
# Of the completions repeat a sibling: with fewer, most differ.
DIFFERENT = 0.9
# Of the completions: with so many, hardly any answer was given.
MOST_CUT = 0.5
# Groups without a row for a term: of one row in twenty, chance leaves 0.1 % of runs without any.
UNMATCHED = 128
# Of the completions get None, beside siblings with a value. Ours.
SELECTIVE = 0.05
# Of the verdicts: the gate never opens.
CLOSED = 0.95
# Optimizer steps. Ours, set by benchmarks/false_alarms.py; less than for a stuck score, since this is information only.
PATIENCE = 64
# Of the verdicts; rlprobe's ceiling.
PASSED = 0.98


def flat(window: Window) -> CheckResult:
    """Find a term in force with equal values within groups, unless another finding explains it."""
    if is_one_answer(window):
        return None
    for term in window.in_force:
        found = window.of_term(term)
        if not _is_flat(found) or _is_saturated(found):
            continue
        if not _is_idle(window, term) and not _has_been_learned(window, term):
            return _flat_term(window, term)
    return None


def flattened(window: Window) -> CheckResult:
    """Find a shape that flattens a term: scores differ within groups, values do not."""
    for term in window.in_force:
        found = window.of_term(term)
        flattened = found.flattened_share
        if found.groups < LEAST_GROUPS or flattened < FLATTENED or found.flat_share < FLAT:
            continue
        return Finding(
            severity=Severity.WARNING,
            terms=(term,),
            sentence=(
                f"The shape of `{term}` makes its scores equal: in {percent(flattened)} of the groups scores "
                f"differ and values do not, so it teaches nothing."
            ),
            numbers={"flattened": flattened, "groups": found.groups},
            action=f"Mend the shape of `{term}`: compare its bounds with the scores that the verifier gives.",
        )
    return None


def _is_flat(term: TermTotals) -> bool:
    """Test whether a term's own verdicts, not its gate, give nearly every group one value."""
    if term.groups < LEAST_GROUPS or term.values.count < LEAST_SAMPLES:
        return False
    return term.flat_share >= FLAT and term.gated_share <= GATED


def _has_been_learned(window: Window, term: str) -> bool:
    """Test whether a term told completions apart at first: completions of a converged policy do not differ.

    A primary term with marks counts as learned if the score has risen. Groups of right and wrong answers that are all
    right or all wrong are findings of their own. Another term counts as learned for the rest of the run.
    """
    if term not in window.primary_terms:
        return TermTotals.of(term, window.opening).flat_share < FLAT
    between = window.of_term(term).status_share(Status.PARTIAL, Status.SCORED)
    return between <= 0.5 or has_risen(window)


def _is_idle(window: Window, term: str) -> bool:
    """Test for a penalty with nothing to punish, or a comparison of equal completions.

    Both give nearly every completion 0. They differ from a reward that no completion earns: their verdicts pass,
    their weight is negative, or they have taken something away before.
    """
    found = window.of_term(term)
    if not FLAT - 1 <= found.mean / window.value_scale(term).span <= 0:
        return False
    has_punished = any(
        batch.values.numbers.total < 0
        for batch in TermTotals.of(term, window.opening).batches
    )
    passes = found.status_share(Status.CORRECT) > 0.5
    return passes or found.weight < 0 or has_punished or found.mean < 0


def _flat_term(window: Window, term: str) -> Finding:
    found = window.of_term(term)
    return Finding(
        # Of another term, there is something to learn all the same.
        severity=Severity.WARNING if term in window.primary_terms else Severity.INFO,
        terms=(term,),
        sentence=(
            f"`{term}` gives every completion of a group the same value in {percent(found.flat_share)} of the "
            f"groups (mean {found.mean:.3g}{mostly(found.reasons)}), so it teaches nothing{_told_apart(window, term)}."
        ),
        numbers={"flat": found.flat_share, "groups": found.groups, "mean": found.mean},
        action=_how_to_differ(window, term),
    )


def _telling_shadow(window: Window, term: str) -> str:
    """Return a shadow whose verdicts differ within groups of equal primary values; empty without one."""
    if term not in window.primary_terms:
        return ""
    for shadow in window.terms:
        found = window.of_term(shadow)
        if (
            shadow not in window.trained_on
            and found.has_answers
            and found.flat_share <= TELLING
        ):
            return shadow
    return ""


def _told_apart(window: Window, term: str) -> str:
    shadow = _telling_shadow(window, term)
    if not shadow:
        return ""
    passed = window.of_term(shadow).status_share(Status.CORRECT)
    return (
        f"; `{shadow}`, which has no weight, tells them apart, and passes {percent(passed)}"
    )


def _how_to_differ(window: Window, term: str) -> str:
    """Advise on a term that gives equal values: name the likely bug of its verifier."""
    shadow = _telling_shadow(window, term)
    if shadow:
        return f"`{term}` gives right and wrong answers the same: make it as strict as `{shadow}`, or give that weight."
    if not window.of_term(term).mean:
        return (
            "Read a few of its verdicts: always 0 is a bug, or more than any completion does; of a penalty it is as it "
            "should be."
        )
    if term in window.primary_terms and repeated_share(window.batches) < DIFFERENT:
        return _of_different_completions(window, term)
    return "Read a few of its verdicts: always the same is a bug, or a comparison of completions that do not differ."


def _of_different_completions(window: Window, term: str) -> str:
    """Advise on a primary term that gives equal values to completions that differ."""
    values = window.seen[term].values
    if values.low == values.high:
        return (
            f"The completions differ, and `{term}` gives each of them the same: a verifier that reads no answer, or "
            f"catches its own error, does so. Test it on an answer that you know to be right."
        )
    if values.at_low >= FLAT * values.numbers.count:
        told = f"Nearly all have the lowest value, {values.low:g}, and the best has {values.high:g}: "
        cut = Estimate.together(batch.primary.cut_share for batch in window.batches)
        if cut.count and cut.mean >= MOST_CUT:
            return (
                f"{told}read a prompt as the model gets it, and a completion, since {percent(cut.mean)} are cut. If "
                f"they are no text that the model knows, tokenizer or chat template are not the model's."
            )
        return (
            f"{told}the task is too hard for this model. Judge a right answer with `{term}`; if it passes, take easier "
            f"data, or a better model."
        )
    return (
        f"The completions of a group differ, and `{term}` gives them the same value, another one in other groups: it "
        f"may judge the prompt, or keep its marks by prompt (a cache). Test it on two answers to one prompt."
    )


def closed_gate(window: Window) -> CheckResult:
    """Find a gate of a primary term that stays closed."""
    for term in _gated(window):
        if term in window.primary_terms:
            return _never_opens(window, term, Severity.CRITICAL)
    return None


def closed_lesser_gate(window: Window) -> CheckResult:
    """Find a gate of a lesser term that stays closed although primary scores are not hopeless."""
    if not window.scale.unit(window.score).mean > 1 - CLOSED:
        return None
    for term in _gated(window):
        if term not in window.primary_terms:
            return _never_opens(window, term, Severity.WARNING)
    return None


def gated_answers(window: Window) -> CheckResult:
    """Find a closed gate before a term that reads answers, where the primary terms read none: no answer is paid."""
    if any(window.of_term(term).has_answers for term in window.primary_terms):
        return None
    for term in _gated(window):
        if window.of_term(term).has_answers:
            return _never_opens(window, term, Severity.CRITICAL)
    return None


def _gated(window: Window) -> list[str]:
    """List the terms in force whose gate is closed for nearly all of their verdicts."""
    found = [window.of_term(term) for term in window.in_force]
    closed = [
        term.verdicts >= LEAST_SAMPLES and term.gated_share > CLOSED for term in found
    ]
    return list(itertools.compress(window.in_force, closed))


def _never_opens(window: Window, term: str, severity: Severity) -> Finding:
    found = window.of_term(term)
    return Finding(
        severity=severity,
        terms=(term,),
        sentence=(
            f"The gate of `{term}`{_gated_by(window, term)} never opens: it is closed for "
            f"{percent(found.gated_share)} of the completions, so what `{term}` says of them does not count."
        ),
        numbers={"closed": found.gated_share, "verdicts": found.verdicts},
        action=f"Read the verdicts of the term that gates `{term}`, and lower the gate's at_least, or take it out.",
    )


def selective(window: Window) -> CheckResult:
    """Find a function whose None depends on the completion, since it scores another completion of the same prompt."""
    for term in window.in_force:
        found = window.of_term(term)
        left_out = found.left_out_of_groups
        share = left_out / max(1, left_out + found.verdicts)
        if left_out < LEAST_SAMPLES or share < SELECTIVE:
            continue
        return Finding(
            severity=Severity.WARNING if term in window.primary_terms else Severity.INFO,
            terms=(term,),
            sentence=(
                f"`{term}` returns None for {percent(share)} of the completions, and a score for others of the same "
                f"group: None says that it does not apply to the row, so nothing is learned from it there."
            ),
            numbers={"left_out": share, "completions": left_out},
            action=f"Let `{term}` return its lowest score for a wrong completion, and NaN for what it cannot judge.",
        )
    return None


def unmatched(window: Window) -> CheckResult:
    """Find a weighted term that applied to no completion of the whole run."""
    groups = sum(part.scores.count for part in window.history)
    for term in window.in_force:
        # Without a condition, the term was asked about every row.
        if groups < (UNMATCHED if _has_condition(window, term) else LEAST_GROUPS):
            continue
        judged_before = any(
            part.levels.values.get(term, NOTHING).count for part in window.history
        )
        if judged_before or window.of_term(term).verdicts:
            continue
        return Finding(
            severity=Severity.WARNING,
            terms=(term,),
            sentence=(
                f"`{term}` has weight, and applied to no completion of the run: its `when` has matched no row, or "
                f"its function has returned None each time."
            ),
            numbers={"groups": groups},
            action=(
                f"Compare the `when` of `{term}` with the values of that column, or what its function returns, or "
                f"take the term out."
            ),
        )
    return None


def _has_condition(window: Window, term: str) -> bool:
    """Check the settings for a `when` of a term; True without settings of the term."""
    for described in window.settings.get("rewards") or ():
        if described["name"] == term:
            return "when" in described
    return True


def _gated_by(window: Window, term: str) -> str:
    """Name the gating term if only one candidate exists: run settings do not tell."""
    others = [other for other in window.terms if other != term]
    if len(others) != 1:
        return ""
    return f", by `{others[0]}`,"


def _is_saturated(term: TermTotals) -> bool:
    """Test whether nearly all verdicts are correct and earn something.

    A clean penalty earns nothing, and a comparison of equal completions does not either.
    """
    return term.status_share(Status.CORRECT) >= PASSED and term.values.total > 0


def saturated(window: Window) -> CheckResult:
    """Find a lesser term that nearly every completion passes, while the primary score is flat."""
    level = window.score
    if level.count < LEAST_SAMPLES or window.is_solved:
        return None
    term = _saturated_term(window)
    if not term:
        return None
    if not is_stuck(window, PATIENCE):
        seen = steps_so_far(window)
        if seen >= PATIENCE:
            return None
        return NotChecked(
            f"{PATIENCE} optimizer steps, to tell a slow rise from none; {seen:.0f} so far"
        )
    share = window.of_term(term).status_share(Status.CORRECT)
    return Finding(
        severity=Severity.INFO,
        terms=(term,),
        sentence=(
            f"`{term}` passes {percent(share)} of the completions and has nothing more to teach, while "
            f"the score of {names(window.primary_terms)} stays at {level.mean:.2f}."
        ),
        numbers={"passed": share, "primary_score": level.mean},
        action=f"Fade the weight of `{term}` out, or gate it by {names(window.primary_terms, 'or')}.",
    )


def _saturated_term(window: Window) -> str:
    for term in other_terms(window):
        if _is_saturated(window.of_term(term)):
            return term
    return ""


# Terms that tell no completion of a group from another: other checks name or hide them together.
FLAT_TERMS: tuple[Check, ...] = (flat,)
