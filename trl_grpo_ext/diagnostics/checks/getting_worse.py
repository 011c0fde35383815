"""Check `getting_worse`: a score below its best, and changes since then."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from trl_grpo_ext.diagnostics.batches import is_penalty, names, percent
from trl_grpo_ext.diagnostics.decline import (
    LEAST_FALL,
    Decline,
    evaluation_decline,
    training_decline,
)
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.levels import gain, term_level
from trl_grpo_ext.diagnostics.progress import LEAST_GAIN
from trl_grpo_ext.diagnostics.window import CheckResult, Window
from trl_grpo_ext.runs.resumed import describe_changes
from trl_grpo_ext.support.estimate import NOTHING, Estimate

# Ours, tried in test_diagnosis_cases.py.
# Of the scale: the least fall below the opening, which is short.
EARLY_FALL = 0.3
# Of the best score's height on the scale: with less left, going on is a waste.
HALVED = 0.5
# Of the largest weight: a smaller change of one is none.
OTHER_WEIGHT = 0.1
# Of the completions.
MORE_CUT, MORE_VOID = 0.1, 0.05
# Times as long; rlprobe's level for length.
LONGER = 1.4
# Times the gradient norm; rlprobe's level.
SPIKE = 10.0
# Of the entropy.
LOST_ENTROPY = 0.5
# Of the tokens.
MORE_CLIPPED = 0.1
MOST_TOLD = 3


class Fall(NamedTuple):
    """A fall of a term's level, and the batches of the latter level in words."""

    best: Estimate
    now: Estimate
    now_at: str


class Change(NamedTuple):
    """A change while a score fell, and the advice that completes `Go back ..., with`."""

    told: str
    advice: str


def fallen(window: Window) -> CheckResult:
    """Find a training score, evaluation score or term score far below its best."""
    fall = training_decline(window)
    if fall is not None and window.of_term(window.in_force[0]).weight < 0:
        return _as_asked(window, fall)
    if fall is not None:
        return _finding(
            window, fall, "The score has fallen", beside=_harder_data(window, fall)
        )
    fall = evaluation_decline(window)
    if fall is not None:
        return _finding(window, fall, "The evaluation has fallen")
    primary = window.primary_terms
    for term in primary if len(primary) > 1 else ():
        fall = training_decline(window, term)
        if fall is not None:
            return _finding(window, fall, f"The score of `{term}` has fallen")
    return _unlearned(window)


def _as_asked(window: Window, fall: Decline) -> Finding:
    """Report a fall that a weight below 0 asks for: right for a cost, and wrong for a mark."""
    term = window.in_force[0]
    weight = window.of_term(term).weight
    return Finding(
        severity=Severity.WARNING,
        terms=(term,),
        sentence=(
            f"The weight of `{term}` is {weight:.2g}, so its low scores are rewarded, and it has fallen from "
            f"{fall.best.mean:z.2f} to {fall.now.mean:z.2f} {fall.now_at}."
        ),
        numbers={"weight": weight, "best": fall.best.mean, "now": fall.now.mean},
        action=(
            f"If a high score of `{term}` is good, give it the weight {-weight:.2g}; for a cost it is as it should be."
        ),
    )


def harder_data(window: Window) -> CheckResult:
    """Find a fallen training score for which harder data speaks: rows in their order, or an evaluation that holds."""
    fall = training_decline(window)
    beside = "" if fall is None else _harder_data(window, fall)
    if fall is None or not beside:
        return None
    return _finding(window, fall, "The score has fallen", beside=beside)


def _unlearned(window: Window) -> Finding | None:
    """Find a fallen score of a term without weight that knows right answers where the terms with weight do not."""
    for term in window.terms:
        if term in window.in_force or not _knows_better(window, term):
            continue
        fall = _fall_of(window, term)
        # The seen scale of a score without a known range may be narrow: 0.48 to 0.50.
        if fall is None or fall.best.mean - fall.now.mean < LEAST_FALL * abs(
            fall.best.mean
        ):
            continue
        named = names(window.primary_terms) or "the reward"
        kept = f"Keep some weight on `{term}`."
        turned = f"Look at what {named} pays for: turn its sign, or give `{term}` weight."
        return Finding(
            severity=Severity.CRITICAL,
            terms=(term, *window.primary_terms),
            sentence=(
                f"What is rewarded is not what is right: `{term}`, which has no weight, fell from "
                f"{fall.best.mean:z.2f} to {fall.now.mean:z.2f} {fall.now_at}, while the policy learns {named}."
            ),
            numbers={"best": fall.best.mean, "now": fall.now.mean},
            action=kept if term in window.trained_on else turned,
        )
    return None


def _fall_of(window: Window, term: str) -> Fall | None:
    """Find a term's fall below its best part, or below the opening, which shows a fall early; None if unsure."""
    decline = training_decline(window, term)
    if decline is not None:
        return Fall(decline.best, decline.now, decline.now_at)
    level = partial(term_level, term=term)
    lost = gain(window.later, window.opening, level)
    if not lost.is_sure or window.value_scale(term).part(lost).mean < EARLY_FALL:
        return None
    now_at = f"in the last {len(window.later)} batches"
    return Fall(level(window.opening), level(window.later), now_at)


def _knows_better(window: Window, term: str) -> bool:
    """Test whether a term without weight tells right answers where the primary term may not.

    Such a term reads answers, and the primary term reads none; or it had weight before. A faded term that reads no
    answers is a helper, unless it came before a primary term that reads none either.
    """
    primary = window.in_force[0] if window.in_force else None
    primary_reads = primary is not None and window.has_read_answers(primary)
    had_weight = term in window.trained_on
    if window.has_read_answers(term):
        return had_weight or not primary_reads
    order = list(window.terms)
    came_first = primary is None or order.index(term) < order.index(primary)
    return had_weight and came_first and not primary_reads


def _harder_data(window: Window, fall: Decline) -> str:
    """Say what speaks for harder data, and not for a worse policy; empty if nothing does."""
    known = window.evaluated_steps
    before = [level for step, level in known if step <= fall.steps[1]]
    if before and len(known) > len(before):
        has_fallen = known[-1][1].mean < before[-1].mean
        return (
            ""
            if has_fallen
            else "The evaluation has not fallen: the data may have become harder. "
        )
    if not window.is_shuffled:
        return "The rows are not shuffled, and no evaluation tells whether they have become harder. "
    return ""


def _unknown_reason(window: Window, fall: Decline) -> str:
    """Say that the rows may be harder, where no evaluation tells a worse policy from harder data."""
    known = [step for step, _ in window.evaluated_steps]
    if known and min(known) <= fall.steps[1] < max(known):
        return ""
    return " No evaluation tells whether the policy is worse or the rows are harder."


def _finding(window: Window, fall: Decline, what: str, *, beside: str = "") -> Finding:
    changes = list(_changes(window, fall))
    told = ", ".join(change.told for change in changes[:MOST_TOLD])
    meanwhile = (
        f"Meanwhile {told}." if told else "Nothing else that is recorded changed with it."
    )
    middle = sum(fall.steps) / 2
    lost = fall.size.interval
    is_halved = fall.scale.unit(fall.now).mean <= HALVED * fall.scale.unit(fall.best).mean
    if beside:
        # The policy may be as good as before.
        severity = Severity.INFO
        reason = ""
        action = _look_at_data(window)
    else:
        severity = Severity.critical_if(is_halved)
        reason = _unknown_reason(window, fall)
        action = _action(window, fall, changes)
    return Finding(
        severity=severity,
        sentence=(
            f"{what}: {fall.best.mean:z.2f} around step {middle:.0f}, {fall.now.mean:z.2f} {fall.now_at}, lower by "
            f"{lost.mean:.2f} (95 % interval {lost.low:z.2f} to {lost.high:.2f}). {beside}{meanwhile}{reason}"
        ),
        numbers={
            "best": fall.best.mean,
            "best_step": middle,
            "now": fall.now.mean,
            "lost": lost.mean,
        },
        action=action,
    )


def _look_at_data(window: Window) -> str:
    if not window.is_shuffled:
        return "Shuffle the rows (shuffle_dataset: true), and evaluate: then a fall is the policy's."
    return "Judge a few of the latest completions by hand."


def _action(window: Window, fall: Decline, changes: list[Change]) -> str:
    """Go back to the best step; first look at the data, if nothing tells a worse policy from harder data."""
    if changes:
        return f"{_back(window, fall)} {changes[0].advice}."
    back = f"{_back(window, fall)} a lower learning rate, or stop there."
    if not _unknown_reason(window, fall):
        return back
    return f"First compare the rows of the best steps with the latest ones. If they are alike: {back}"


def _back(window: Window, fall: Decline) -> str:
    """Name the checkpoint nearest to the best steps, if one exists."""
    first, last = fall.steps
    middle = (first + last) / 2
    margin = max(1.0, last - first, 0.1 * last)
    near = [step for step in window.checkpoints if abs(step - middle) <= margin]
    if near:
        best = min(near, key=lambda step: abs(step - middle))
        return f"Go back to checkpoint-{best}, with"
    return "No checkpoint of that time is left: start again with save_steps set, and"


def _changes(window: Window, fall: Decline) -> Iterator[Change]:
    """Yield changes since the best time, likeliest cause first."""
    yield from _of_settings(window, fall)
    yield from _of_weights(window, fall)
    yield from _of_other_terms(window, fall)
    yield from _of_completions(fall)
    yield from _of_updates(fall)


def _of_settings(window: Window, fall: Decline) -> Iterator[Change]:
    """Yield settings that a resume of the run has changed since the best time."""
    for resume in window.settings.get("resumed") or ():
        if resume["step"] >= fall.steps[0] and resume["changes"]:
            yield Change(
                f"the run goes on with other settings {describe_changes(resume['step'], resume['changes'])}",
                "the earlier settings",
            )


def _of_weights(window: Window, fall: Decline) -> Iterator[Change]:
    known: dict[str, tuple[float, float]] = {}
    for term in window.terms:
        pair = fall.pair(lambda levels, term=term: levels.weights.get(term, NOTHING))  # type: ignore[misc]
        if pair is not None:
            known[term] = pair
    largest = max((abs(weight) for pair in known.values() for weight in pair), default=0.0)
    for term, (before, now) in known.items():
        if abs(now - before) >= OTHER_WEIGHT * largest:
            yield Change(
                f"the weight of `{term}` went from {before:.2g} to {now:.2g}",
                f"the weight of `{term}` kept at {before:.2g}",
            )


def _of_other_terms(window: Window, fall: Decline) -> Iterator[Change]:
    primary = window.primary_terms
    for term in window.in_force:
        before = fall.before.values.get(term, NOTHING)
        now = fall.after.values.get(term, NOTHING)
        if term in primary or not (before.count and now.count):
            continue
        weight = window.batches[-1].terms[term].weight
        earned = now - before if weight > 0 else before - now
        if not (
            earned.is_sure and window.value_scale(term).part(earned).mean >= LEAST_GAIN
        ):
            continue
        went = f"went from {before.mean:.2f} to {now.mean:.2f}"
        if weight < 0:
            yield Change(
                f"the policy has unlearned `{term}`, whose weight is {weight:.2g}: it {went}",
                f"a smaller penalty on `{term}`, or none: right answers may need it",
            )
        elif is_penalty(window, term):
            yield Change(
                f"the policy avoids the penalty of `{term}` instead, which {went}",
                f"less weight on `{term}`, so that a right answer is worth more than its penalty",
            )
        else:
            yield Change(
                f"the policy has learned `{term}` instead, which {went}",
                f"`{term}` gated by {names(primary, 'or')} or of less weight",
            )


def _of_completions(fall: Decline) -> Iterator[Change]:
    void = fall.pair(lambda levels: levels.void)
    cut = fall.pair(lambda levels: levels.cut)
    tokens = fall.pair(lambda levels: levels.tokens)
    if void is not None and void[1] - void[0] >= MORE_VOID:
        yield Change(
            f"{percent(void[1])} of the completions could not be judged",
            "a grader that works",
        )
    if cut is not None and cut[1] - cut[0] >= MORE_CUT:
        yield Change(
            f"{percent(cut[1])} of the completions are cut, {percent(cut[0])} before",
            "a larger max_completion_length, or a lower learning rate",
        )
    if (
        tokens is not None
        and min(tokens) > 0
        and max(tokens) >= max(LONGER * min(tokens), 1 + min(tokens))
    ):
        yield Change(
            f"completions went from {tokens[0]:.0f} to {tokens[1]:.0f} tokens",
            "a lower learning rate"
            if tokens[1] > tokens[0]
            else "less weight on what pays for short completions",
        )


def _of_updates(fall: Decline) -> Iterator[Change]:
    entropy = fall.pair(lambda levels: levels.logged.get("entropy", NOTHING))
    clipped = fall.pair(lambda levels: levels.logged.get("clip_ratio/region_mean", NOTHING))
    norm = fall.before.logged.get("grad_norm")
    highest = fall.since.get("grad_norm")
    if (
        norm is not None
        and highest is not None
        and norm.mean > 0
        and highest >= SPIKE * norm.mean
    ):
        yield Change(
            f"the gradient norm rose from {norm.mean:.2g} to {highest:.2g}",
            "a lower learning rate and max_grad_norm",
        )
    if (
        entropy is not None
        and min(entropy) > 0
        and min(entropy) <= LOST_ENTROPY * max(entropy)
    ):
        lost = entropy[1] < entropy[0]
        yield Change(
            f"the entropy went from {entropy[0]:.2g} to {entropy[1]:.2g}",
            "a lower learning rate" + (", or a higher epsilon_high" if lost else ""),
        )
    if clipped is not None and clipped[1] - clipped[0] >= MORE_CLIPPED:
        yield Change(
            f"{percent(clipped[1])} of the tokens are clipped", "a lower learning rate"
        )
