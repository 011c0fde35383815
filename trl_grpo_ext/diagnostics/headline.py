"""Headline: one sentence about a run, with the figures of its report page.

Every score in it is one of `Ends`, and says where it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trl_grpo_ext.diagnostics.batches import GRADED, group_share, judged, names, percent
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.checks.completions.truncation import NEARLY_ALL
from trl_grpo_ext.diagnostics.checks.dead_groups import (
    LEAST_LIVE,
    group_mix,
    live_share,
    same_prompts,
)
from trl_grpo_ext.diagnostics.checks.reward_hacking import GAP
from trl_grpo_ext.diagnostics.checks.zero_updates import highest_rate, trained_part
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.levels import fitted_rise, gain_within, score_level
from trl_grpo_ext.diagnostics.progress import (
    EARLY,
    FLAT_BATCHES,
    LEAST_GAIN,
    Ends,
    evaluation_ends,
    has_risen,
    is_known_flat,
    score_text,
    steps_so_far,
    training_ends,
)
from trl_grpo_ext.diagnostics.window import CEILING, Window
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.support.estimate import Estimate
from trl_grpo_ext.support.text import sentence
from trl_grpo_ext.verdict import Status

# Codes to know of in a run that does well: they do not hold the reward back.
ASIDE = frozenset(("label_hacks", "repetition"))

# Troubles whose harm stays when they are over, though the score has risen since: lost rows, a false signal, a leak.
LASTING = frozenset(
    (
        "grader_trouble",
        "bad_data",
        "mixed_groups",
        "noisy_verifier",
        "reward_hacking",
        "label_hacks",
        "way_out",
    )
)

# Information of these codes is about a term without weight, which holds no reward back.
OF_GRADERS = frozenset(("grader_trouble", "noisy_verifier"))

# What these find makes a rise worth nothing.
REFUTING = frozenset(("reward_hacking", "getting_worse", "mixed_groups", "way_out"))

FINE = "All is well:"
TOO_EARLY = "It is too early to tell:"
SOLVED = ", and this data has little left to teach: for more, take harder data"
BY_HEART = ": for what carries over, take more prompts"
JUDGE = "judge a few completions by hand"
TAKE = f"{JUDGE}, then take data that the model gets right now and then"
# Of the groups. Ours, from a run of the recipe smollm2 on harder sums: 70 % all wrong and 17 % live at a score of 0.2.
MANY_WRONG = 0.25
# Of the completions are cut, or have no verdict: then a score says little.
MOST = 0.5
# Ours: ten times DeepSeekMath's 0.04, for advantages that are scaled.
HIGH_BETA = 0.4
# Of the scale, as `reward_hacking` has it: an evaluation that is as far below the training.
FAR_BELOW = GAP
# Of what is missing to the best score: a penalty that is small at first can shrink by little.
MUCH_OF_MISSING = 0.4
# Of the evaluation's prompts: as many in training are no accident.
CONTAMINATED = 0.3
# Of the scale. Ours: golds of other rows left 0.4 of it, and runs that learn leave 0.1.
FAR_FROM_BEST = 0.3
# Nats of KL from the reference. Ours: runs that learn have 0.003 and more.
HARDLY_MOVED = 1e-4
# Completions of an evaluation: with fewer, only a large change is seen.
FEW_EVALUATED = 48
# Updates that are made with the completions of one policy; usual are 1 to 4.
MANY_UPDATES = 8
# Of the scale: what two digits after the point do not tell.
ROUNDED = 0.005


class Said(NamedTuple):
    """Part of the headline; `is_well` marks proof of a healthy run."""

    text: str
    is_well: bool


def rank(cause: Finding) -> int:
    """Order causes: first a waste of the run, then what costs something, then information."""
    if cause.severity is Severity.CRITICAL and cause.code not in ASIDE:
        return 0
    if cause.severity is Severity.INFO:
        return 2
    return 1


def headline(causes: Sequence[Finding], findings: Sequence[Finding], window: Window) -> str:
    """Say what a run looks like.

    `causes` hold at the end of the run, the first cause first; `findings` are told as they began, oldest first.
    """
    if not window.batches:
        return _without_batches(causes, window)
    does_well = _does_well(window)
    if causes and not _is_beside(causes[0], window, does_well=does_well):
        return causes[0].sentence
    # A score that has risen since refutes an earlier trouble, unless the run keeps its harm.
    earlier = [
        finding
        for finding in _worst_of(findings)
        if not does_well or finding.code in LASTING
    ]
    is_clean = not any(_contradicts(finding) for finding in (*earlier, *causes))
    sound = _sound(window, is_clean=is_clean)
    if causes:
        return f"{sound} Beside it: {causes[0].sentence}"
    if earlier:
        return f"{sound} Earlier, at step {earlier[0].step}: {earlier[0].sentence}"
    return sound


def _worst_of(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings above information, worst first."""
    order = list(CHECKS)
    told = [finding for finding in findings if finding.severity is not Severity.INFO]

    def place(finding: Finding) -> tuple[int, int]:
        # A code of another version comes last.
        known = order.index(finding.code) if finding.code in order else len(order)
        return rank(finding), known

    return sorted(told, key=place)


def _contradicts(finding: Finding) -> bool:
    """Test whether a finding contradicts "All is well"."""
    if finding.severity is Severity.WARNING:
        return finding.code not in ASIDE
    return finding.severity is Severity.CRITICAL


def _does_well(window: Window) -> bool:
    """Test for a high or risen training score, or a risen evaluation."""
    evaluation = evaluation_ends(window)
    has_evaluation_risen = evaluation is not None and evaluation.moves == "risen"
    return window.is_solved or has_risen(window) or has_evaluation_risen


def _is_beside(cause: Finding, window: Window, *, does_well: bool) -> bool:
    """Test whether a cause is worth telling, but does not hold the reward back.

    A warning stands beside a clear rise, which it has not held back, unless it says why the rise is not to be believed.
    Programs that only a naive grader would pay for hold nothing back, however the score moves.
    """
    is_information = cause.severity is Severity.INFO
    if cause.code == "label_hacks" or (
        does_well and (is_information or cause.code in ASIDE)
    ):
        return True
    if cause.severity is Severity.WARNING and cause.code not in REFUTING:
        return _has_clearly_risen(window)
    return is_information and cause.code in OF_GRADERS


def _has_clearly_risen(window: Window) -> bool:
    """Test for a training score that has risen, neither slowly nor to a stop far below the best."""
    return has_risen(window) and _of_training(window, training_ends(window), "").is_well


def _without_batches(causes: Sequence[Finding], window: Window) -> str:
    if not causes:
        return _nothing_trained(window)
    if causes[0].severity is Severity.INFO:
        return f"{_nothing_trained(window)} Beside it: {causes[0].sentence}"
    return causes[0].sentence


def _nothing_trained(window: Window) -> str:
    evaluation = evaluation_ends(window)
    if evaluation is not None:
        _, last = evaluation.score_texts
        return f"Nothing was trained: there are evaluations only, the last with a score of {last}."
    return "There is nothing to go by: no completion was recorded."


def _sound(window: Window, *, is_clean: bool) -> str:
    """Describe a run without a cause: training, evaluation, caveats.

    "All is well" needs proof of training and evaluation, and no finding above information.
    """
    training = training_ends(window)
    if not training.end.count:
        return _without_scores(window)
    evaluation = evaluation_ends(window)
    score = f"the score of {names(window.primary_terms)}{_changed_weight(window)}"
    trained = _of_training(window, training, score)
    held_out = _of_evaluation(window, evaluation)
    caveats = _caveats(window, held_out)
    solved = _of_solved(window, evaluation, caveats)
    moves = evaluation.moves if evaluation is not None else ""
    in_training = f"in training, {score} is {training}"
    is_well = held_out.is_well and is_clean and not caveats and training.moves != "fallen"
    if len(window.batches) < FLAT_BATCHES and moves == "risen":
        return f"{sentence(held_out.text)}; in training, it is too early to tell: {score} is {training}."
    if trained.is_well and moves == "fallen":
        return f"What is learned may not carry over: {held_out.text}; {in_training}."
    if trained.is_well and is_well:
        return f"{FINE} {trained.text}{solved}. {sentence(held_out.text)}."
    if trained.is_well:
        return (
            f"{sentence(trained.text)}; {', and '.join((held_out.text, *caveats))}{solved}."
        )
    if moves == "risen" and is_well:
        return f"{FINE} {held_out.text}; {in_training}."
    sentences = [trained.text]
    for text in (held_out.text, *caveats):
        if text != NOT_HELD_OUT:
            sentences.append(f"{sentence(text)}.")
    return " ".join(sentences)


def _without_scores(window: Window) -> str:
    size = sum(batch.size for batch in window.batches)
    if judged(window.batches):
        return f"The scores of the last {size} completions are too large to compare."
    return f"None of the last {size} completions could be judged: no term with weight is for their rows."


def _of_solved(window: Window, evaluation: Ends | None, caveats: Sequence[str]) -> str:
    """Say what data to take next, where training has little left to teach; else empty."""
    if evaluation is not None and _is_behind(window, evaluation):
        return "" if caveats else BY_HEART
    if window.is_solved:
        return SOLVED
    return ""


def _changed_weight(window: Window) -> str:
    """Tell of a first term whose schedule began late; else empty."""
    begun = window.begun
    if begun is not None and begun.step:
        return f" (`{begun.term}` has had no weight until step {begun.step}: let its schedule begin earlier)"
    return ""


NOT_HELD_OUT = "nothing is held out"


def _of_evaluation(window: Window, evaluation: Ends | None) -> Said:
    """Describe the evaluation's change, and whether it proves a better model."""
    if evaluation is None:
        empty = window.empty_evaluations
        text = f"in {empty} evaluations nothing could be judged" if empty else NOT_HELD_OUT
        return Said(text, is_well=False)
    if not evaluation.start.count:
        return Said(
            f"the evaluation is {evaluation}, and no other one was made to compare it with",
            is_well=False,
        )
    shared = window.settings.get("evaluation_in_training") or 0.0
    if shared >= CONTAMINATED:
        text = (
            f"the evaluation is not held out, {percent(shared)} of its prompts are in the training data: evaluate on "
            f"others ({evaluation})"
        )
        return Said(text, is_well=False)
    if evaluation.moves:
        text = f"the evaluation has {evaluation.moves} {evaluation.change}"
        if _is_behind(window, evaluation):
            return Said(
                f"{text}, far below training, which may learn its prompts by heart",
                is_well=False,
            )
        return Said(text, is_well=evaluation.moves == "risen")
    was_high = window.scale.unit(evaluation.start).mean >= CEILING
    if window.scale.is_known and was_high:
        return Said(f"the evaluation is {evaluation}, as high as it was", is_well=True)
    return Said(_of_flat_evaluation(window, evaluation), is_well=False)


def _of_flat_evaluation(window: Window, evaluation: Ends) -> str:
    if _does_well(window) and _is_level(window, evaluation):
        _, last = evaluation.score_texts
        return f"the evaluation is {last} {evaluation.end_at}"
    moved = "followed" if _does_well(window) else "moved"
    text = f"the evaluation has not clearly {moved}: {evaluation}{evaluation.gain_told}"
    if evaluation.end.count < FEW_EVALUATED:
        text += f"; {evaluation.end.count:.0f} completions are too few to tell, so take more rows"
    return text + _other_data(window, evaluation)


def _is_level(window: Window, evaluation: Ends) -> bool:
    """Test whether the last evaluation is about as high as training; the first evaluation may follow the rise."""
    missing = window.scale.part(training_ends(window).end - evaluation.end)
    is_known = evaluation.end.count >= FEW_EVALUATED
    return is_known and missing.mean < LEAST_GAIN and not missing.is_sure


def _is_behind(window: Window, evaluation: Ends) -> bool:
    """Test whether the evaluation ends far below a training that has little left to teach."""
    missing = window.scale.part(training_ends(window).end - evaluation.end)
    return window.is_solved and missing.at_least >= FAR_BELOW


def _other_data(window: Window, evaluation: Ends) -> str:
    """Tell of an evaluation at step 0 that was far below the first batch; else empty.

    The same policy wrote the answers of both, so the rows differ, or their golds.
    """
    first = score_level(window.opening[:1])
    missing = window.scale.part(first - evaluation.start)
    is_after_training = bool(window.evaluations[0].step)
    if is_after_training or not first.count or missing.at_least < FAR_BELOW:
        return ""
    return (
        ". Its rows are not like those of training, which began higher with the same policy: compare their golds and "
        "prompts by hand"
    )


def _caveats(window: Window, held_out: Said) -> list[str]:
    """List caveats: few prompts, rows in order, cut completions, a large beta, missing verdicts."""
    found = []
    prompts = same_prompts(window)
    if prompts and not held_out.is_well:
        many = "s" if prompts > 1 else ""
        found.append(
            f"the data has {prompts} prompt{many}: for what carries over, take more"
        )
    if not window.is_shuffled and has_risen(window) and not held_out.is_well:
        found.append(
            "the rows are not shuffled: later ones may be easier, so shuffle (shuffle_dataset: true)"
        )
    cut = _of_cut(window)
    if cut:
        found.append(cut)
    beta = window.settings.get("beta") or 0
    is_scaled = window.settings.get("scale_rewards") not in (None, False, "none")
    if beta >= HIGH_BETA and is_scaled and not window.is_solved:
        found.append(
            f"a beta of {beta:g} holds the policy close to its reference: 0 to 0.1 is usual"
        )
    void = sum(batch.void for batch in window.batches) / sum(
        batch.size for batch in window.batches
    )
    if void >= MOST:
        found.append(f"{percent(void)} of the completions have no verdict")
    return found


def _of_cut(window: Window) -> str:
    """Tell of cut completions, if most are; empty otherwise, and at a length limit of one token."""
    cut = Estimate.together(batch.primary.cut_share for batch in window.batches)
    limit = window.settings.get("max_completion_length")
    if cut.mean < MOST or not cut.count or limit == 1:
        return ""
    text = f"{percent(cut.mean)} of the completions are cut"
    if limit:
        text += f" at {limit} tokens"
    if cut.mean >= NEARLY_ALL:
        text += ": see whether the model has learned to end, and whether its end token is the tokenizer's"
    return text


def _of_training(window: Window, ends: Ends, score: str) -> Said:
    """Describe the training score, and whether it proves that the policy learns."""
    # So few batches cannot show a trend.
    if len(window.batches) < FLAT_BATCHES:
        return Said(f"{TOO_EARLY} {score} is {ends}{_few_batches(window)}.", is_well=False)
    start, end = ends.score_texts
    if has_risen(window) and start != end:
        return _of_rise(window, ends, score)
    if window.is_solved:
        return Said(f"{score} is {ends}", is_well=True)
    if _is_scarce(window):
        return Said(
            f"{sentence(_few(window))}, and {score} is {ends}: {TAKE}.", is_well=False
        )
    if is_known_flat(window):
        return Said(_does_not_rise(window, ends, score), is_well=False)
    return Said(_may_rise(window, ends, score), is_well=False)


def _few_batches(window: Window) -> str:
    """Tell of a batch of completions that serves many updates, so that few batches are generated; else empty."""
    updates = (window.number("steps_per_generation") or 1) / (
        window.number("gradient_accumulation_steps") or 1
    )
    updates *= window.number("num_iterations") or 1
    if updates < MANY_UPDATES:
        return ""
    return (
        f"; {updates:.0f} updates are made with one batch of completions: for fresh ones, lower steps_per_generation "
        f"or num_iterations"
    )


def _of_rise(window: Window, ends: Ends, score: str) -> Said:
    if _is_slow(window, ends):
        steps = steps_so_far(window)
        return Said(
            f"{sentence(score)} rises slowly: {ends}, over {steps:.0f} steps.",
            is_well=False,
        )
    risen = f"{score} has risen {ends.change}"
    if (
        _is_scarce(window)
        and group_share(window.batches, GroupOutcome.ALL_WRONG) >= MANY_WRONG
    ):
        return Said(f"{sentence(risen)}. Now {_few(window)}: {TAKE}.", is_well=False)
    short = _falls_short(window, ends)
    if short:
        return Said(f"{sentence(risen)}{short}.", is_well=False)
    return Said(risen, is_well=True)


def _is_scarce(window: Window) -> bool:
    """Test for few live groups, in a run that has something left to learn."""
    live = live_share(window)
    return live is not None and live < LEAST_LIVE and not window.is_solved


def _few(window: Window) -> str:
    return f"few groups have anything to teach ({group_mix(window)})"


def _is_slow(window: Window, ends: Ends) -> bool:
    """Test for a small rise: most of the distance to the best score, known or seen, is left."""
    risen = ends.end - ends.start
    if window.scale.part(risen).mean >= LEAST_GAIN or window.is_solved:
        return False
    return risen.mean < MUCH_OF_MISSING * (window.best - ends.start.mean)


def _falls_short(window: Window, ends: Ends) -> str:
    """Tell of marks that have stopped rising far below the best; empty for right or wrong, and for scores with tails.

    Scores with tails, such as a reward model's, have a best one far from most.
    """
    for term in window.primary_terms:
        if window.of_term(term).status_share(Status.PARTIAL, Status.SCORED) <= GRADED:
            return ""
    if window.best > window.scale.high or gain_within(window.batches).is_sure:
        return ""
    missing = (window.best - ends.end.mean) / window.scale.span
    if missing < FAR_FROM_BEST:
        return ""
    best = score_text(window.best, ends.digits)
    return (
        f", and rises no more, though the best score is {best}: read a few completions beside prompt and gold, since "
        f"golds of other rows let a score rise so far"
    )


def _may_rise(window: Window, ends: Ends, score: str) -> str:
    """Report a trend whose interval still includes a rise, or a run too short to show one."""
    trend = fitted_rise(window.history)
    if trend is None or window.scale.part(trend).error < ROUNDED:
        return f"{TOO_EARLY} {score} is {ends}."
    interval = trend.interval
    low = f"{interval.low:+z.{ends.digits}f}"
    high = f"{interval.high:+z.{ends.digits}f}"
    said = (
        f"over {steps_so_far(window):.0f} steps is between {low} and {high} (95 % interval)"
    )
    if steps_so_far(window) >= EARLY:
        score += trained_part(window)
    if trend.is_sure:
        return f"The trend of {score} {said}, though its ends do not show it: {ends}."
    return f"{TOO_EARLY} {score} is {ends}; its trend {said}."


def _does_not_rise(window: Window, ends: Ends, score: str) -> str:
    live = live_share(window)
    groups = (
        "groups are not known"
        if live is None
        else f"{percent(live)} of the groups are live"
    )
    signal = f"The signal looks sound ({groups})"
    kl = window.last_logged("kl")
    if kl is not None and abs(kl) < HARDLY_MOVED:
        return (
            f"{signal}, and the policy has hardly moved, with {kl:.1g} nats of KL from the reference"
            f"{trained_part(window)}; {score} does not rise, with {ends}: {_how_to_move(window)}."
        )
    if kl is not None:
        begins = f"{signal}, the policy moves ({kl:.1g} nats of KL from the reference)"
    else:
        full = highest_rate(window)
        rate = "" if full is None else f", the learning rate is {full:.1g}"
        begins = f"{signal}{rate}{trained_part(window)}, no KL tells how far the policy has moved"
    return (
        f"{begins}, and {score} does not rise, with {ends}: {JUDGE}, beside their prompts as the model gets them, "
        f"since a prompt without its question, a verifier that guesses and gold answers of other rows look the same; "
        f"if they are judged right, raise the learning rate, or wait."
    )


def _how_to_move(window: Window) -> str:
    """Advise what lets a policy move: more trained parameters where few are, else a higher learning rate."""
    if trained_part(window):
        return "see which parameters are frozen, and train more of them; an adapter may need a higher learning rate"
    return "raise the learning rate"
