"""The headline: what a run looks like in one sentence, and the same figures that the rest of its page shows.

Every score in it is one of `Ends`, and says where it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from trl_grpo_ext.diagnostics.batches import group_share, judged, names, percent, primary_terms
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.checks.dead_groups import LEAST_LIVE, group_mix, live_share
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.levels import fitted_rise
from trl_grpo_ext.diagnostics.progress import (
    FLAT_BATCHES,
    LEAST_GAIN,
    Ends,
    evaluation_ends,
    has_risen,
    is_known_flat,
    steps_so_far,
    training_ends,
)
from trl_grpo_ext.diagnostics.window import Window
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.support.text import sentence

# What the user should know of a run that does well, and what does not hold it back.
ASIDE = frozenset(("label_hacks", "repetition"))

# What is information only if it is of a grader whose verdicts do not count: it holds no reward back.
OF_GRADERS = frozenset(("grader_trouble", "noisy_verifier"))

FINE = "All is well:"
EARLY = "It is too early to tell:"
SOLVED = ", and this data has little left to teach: for more, take harder data"
JUDGE = "judge a few completions by hand"
TAKE = f"{JUDGE}, then take data that the model gets right now and then"
# Of the groups. Ours, from a run of the recipe smollm2 on harder sums: 70 % all wrong and 17 % live at a score of 0.2.
MANY_WRONG = 0.25
ROUNDED = 0.005  # of a score: what two digits after the point do not tell


def rank(cause: Finding) -> int:
    """What makes going on a waste is before what does not, then what is information only."""
    if cause.severity is Severity.CRITICAL and cause.code not in ASIDE:
        return 0
    return 2 if cause.severity is Severity.INFO else 1


def headline(causes: Sequence[Finding], findings: Sequence[Finding], window: Window) -> str:
    """The answer to a run.

    The causes hold at its end, the first cause first; findings are told as they began, oldest first.
    """
    if not window.batches:
        return causes[0].sentence if causes else _without_batches(window)
    if causes and _is_beside(causes[0], does_well=_does_well(window)):
        return f"{_sound(window)} Beside it: {causes[0].sentence}"
    if causes:
        return causes[0].sentence
    order = {code: place for place, code in enumerate(CHECKS)}
    earlier = sorted(
        (finding for finding in findings if finding.severity is not Severity.INFO),
        key=lambda finding: (rank(finding), order.get(finding.code, len(order))),
    )
    told = f" Earlier, at step {earlier[0].step}: {earlier[0].sentence}" if earlier else ""
    return _sound(window) + told


def _does_well(window: Window) -> bool:
    evaluation = evaluation_ends(window)
    return window.is_solved or has_risen(window) or (evaluation is not None and evaluation.moves == "risen")


def _is_beside(cause: Finding, *, does_well: bool) -> bool:
    """Whether a cause should be told, but does not hold the reward back."""
    is_information = cause.severity is Severity.INFO
    if does_well:
        return is_information or cause.code in ASIDE
    return is_information and cause.code in OF_GRADERS


def _without_batches(window: Window) -> str:
    evaluation = evaluation_ends(window)
    if evaluation is None and window.settings.get("reward_functions") and not window.settings.get("verifiers"):
        return (
            "There is nothing to go by: the rewards are plain functions, which give no verdicts, so no completion was "
            "recorded. Make each one a verifier by `@verifier`, or train with verifiers of trl_grpo_ext.rewards."
        )
    if evaluation is None:
        return "There is nothing to go by: no completion was recorded."
    return f"Nothing was trained: there are evaluations only, the last with a score of {evaluation.shown[1]}."


def _sound(window: Window) -> str:
    """What there is to say of a run where no finding says why its score is as it is."""
    training, evaluation = training_ends(window), evaluation_ends(window)
    if not training.end.count:
        size = sum(batch.size for batch in window.batches)
        if judged(window.batches):
            return f"The scores of the last {size} completions are too large to compare."
        return f"None of the last {size} completions could be judged: no term with weight is for their rows."
    score = f"the score of {names(primary_terms(window))}"
    if evaluation is None or not evaluation.start.count:
        return _of_training(window, training, score)
    moves, is_learned = evaluation.moves, window.is_solved or has_risen(window)
    held_out = f"the evaluation has {moves} {evaluation.change}" if moves else f"the evaluation is {evaluation}"
    is_early = len(window.batches) < FLAT_BATCHES
    if moves == "risen" and is_early:
        return f"{sentence(held_out)}; in training, it is too early to tell: {score} is {training}."
    if moves == "risen" and not is_learned:
        return f"{FINE} {held_out}; in training, {score} is {training}."
    if moves == "fallen" and is_learned and not is_early:
        return f"What is learned may not carry over: {held_out}; in training, {score} is {training}."
    return f"{_of_training(window, training, score)} {sentence(held_out)}."


def _of_training(window: Window, ends: Ends, score: str) -> str:
    start, end = ends.shown
    if len(window.batches) < FLAT_BATCHES:  # which cannot show a trend
        return f"{EARLY} {score} is {ends}."
    live = live_share(window)
    is_scarce = live is not None and live < LEAST_LIVE and not window.is_solved
    few = f"few groups have anything to teach ({group_mix(window)})"
    if has_risen(window) and start != end:
        if (ends.end - ends.start).mean < LEAST_GAIN and not window.is_solved:
            return f"{sentence(score)} rises slowly: {ends}, over {steps_so_far(window):.0f} steps."
        if is_scarce and group_share(window.batches, GroupOutcome.ALL_WRONG) >= MANY_WRONG:
            return f"{sentence(score)} has risen {ends.change}. Now {few}: {TAKE}."
        return f"{FINE} {score} has risen {ends.change}{SOLVED if window.is_solved else ''}."
    if window.is_solved:
        return f"{FINE} {score} is {ends}{SOLVED}."
    if is_scarce:
        return f"{sentence(few)}, and {score} is {ends}: {TAKE}."
    return _does_not_rise(window, ends, score, live) if is_known_flat(window) else _may_rise(window, ends, score)


def _may_rise(window: Window, ends: Ends, score: str) -> str:
    """The interval of the trend has room for a rise as for none, or the run is so short that a slow one looks flat."""
    trend = fitted_rise(window.history)
    if trend is None or trend.error < ROUNDED:
        return f"{EARLY} {score} is {ends}."
    low, high = trend.interval.low, trend.interval.high
    said = f"over {steps_so_far(window):.0f} steps is between {low:+z.2f} and {high:+z.2f} (95 % interval)"
    if trend.is_sure:
        return f"The trend of {score} {said}, though its ends do not show it: {ends}."
    return f"{EARLY} {score} is {ends}; its trend {said}."


def _does_not_rise(window: Window, ends: Ends, score: str, live: float | None) -> str:
    share = "groups are not known" if live is None else f"{percent(live)} of the groups are live"
    kl = window.logged("kl")
    moved = f", {kl[-1]:.1g} nats of KL from the reference" if kl else ""
    return (
        f"Signal and update look sound ({share}{moved}), and {score} does not rise, with {ends}: {JUDGE}, since a "
        f"verifier that guesses or gold answers of other rows look the same; if they are judged right, raise the "
        f"learning rate, or wait."
    )
