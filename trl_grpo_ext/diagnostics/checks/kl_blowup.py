"""Check `kl_blowup`: oversized updates, seen as a far policy, a collapsed score or gradient spikes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from trl_grpo_ext.diagnostics.batches import group_share, other_terms, percent
from trl_grpo_ext.diagnostics.checks import wrong_driver
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.levels import (
    OPENING_BATCHES,
    gain,
    level_of,
    reward_level,
    score_level,
)
from trl_grpo_ext.diagnostics.progress import (
    FLAT_BATCHES,
    HARDLY,
    LEAST_GAIN,
    has_risen,
    is_flat,
)
from trl_grpo_ext.diagnostics.term_totals import TermTotals
from trl_grpo_ext.diagnostics.window import (
    LEAST_GROUPS,
    LEAST_SAMPLES,
    NO_LOGS,
    CheckResult,
    Window,
    finds,
)
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.group_outcome import GroupOutcome
from trl_grpo_ext.runs.resumed import describe_changes
from trl_grpo_ext.support.estimate import SURE, Estimate

# Ours, tried in test_fault_injection.py (a learning rate that breaks the policy) and test_healthy_runs.py.
# Of the scale: a score below this is as good as the worst.
GONE = 0.02
# Of the best score's height on the scale: less is as good as nothing.
LEFT = 0.1
# Of the completions are cut: seldom at first, and mostly now.
RARE, MOST = 0.15, 0.5
# Nats a token of KL from the reference; rl-doctor and rlprobe.
FAR, CRITICAL = 0.5, 2.0
# Ours, tried in test_fault_injection.py (kl_blowup) and test_healthy_runs.py (a tenth of the gold is wrong).
# Of the first entropy, lost almost at once.
CLIFF = 0.5
# Of the groups are all right: the policy has leapt to where it should be.
MOSTLY_RIGHT = 0.75
# Ours, tried in test_diagnosis_cases.py (gradient spikes, half of the tokens clipped).
# Times the usual norm: a few prompts may give ten times; and how often.
SPIKE, LEAST_SPIKES = 100.0, 3
# Of the norm: of a policy that has converged, the usual one is next to 0.
LEAST_SPIKE = 10.0
# Logs that show what is usual.
LEAST_LOGS = 8
# Ours, a quarter of TRL's default.
NARROW = 0.05
# Of the tokens; rlprobe's level.
MUCH_CLIPPED = 0.3
# Below any usual epsilon, GSPO's 3e-4 included: there a clipped token in twenty is one too many. Ours.
TINY, SOME_CLIPPED = 1e-4, 0.05
# Logs: with such an epsilon, fewer do.
FEW_LOGS = 3

AGAIN = "Start again with a tenth of the learning rate."


def broken(window: Window) -> CheckResult:
    """Find a score that collapsed through the policy, as far as logs show.

    None for a run whose reward has risen, or a heavy lesser term's earnings: its policy does what it is paid for.
    """
    recent = window.later[-FLAT_BATCHES:] or window.batches[1:]
    now = score_level(recent)
    paid = gain(window.opening, recent, reward_level)
    if now.count < LEAST_SAMPLES or paid.is_sure or _obeys_heavy_term(window):
        return None
    levels = _levels(window)
    best = max(levels, key=lambda level: level.mean, default=now)
    height = window.scale.unit(best).mean
    left = window.scale.unit(now)
    if height < LEAST_GAIN or left.mean > max(GONE, LEFT * height):
        return None
    fallen = f"score has fallen to {now.mean:z.2f} in the last {len(recent)} batches after {best.mean:.2f}"
    numbers = {"best": best.mean, "now": now.mean}
    kl = window.median_logged("kl")
    is_endless = _has_come_to_be_cut(window)
    if kl is None:
        earlier = [window.scale.unit(level) for level in levels]
        is_of_policy = _is_surely_lower(left, earlier) or is_endless
        effect = f"the {fallen}"
    else:
        is_of_policy = kl >= FAR
        effect = f"{_far(kl)}, and its {fallen}"
        numbers["kl"] = kl
    if not is_of_policy:
        return None
    sentence, action = _told_broken(window, effect, is_endless=is_endless)
    return Finding(
        severity=Severity.critical_if(kl is None or kl >= CRITICAL),
        sentence=sentence,
        numbers=numbers,
        action=action,
    )


def _obeys_heavy_term(window: Window) -> bool:
    """Test whether a lesser term that weighs at least as much as a primary term has earned more since the start."""
    least = min(
        (abs(window.of_term(term).weight) for term in window.primary_terms), default=0.0
    )
    for term in other_terms(window):
        is_heavy = abs(window.of_term(term).weight) >= least
        if is_heavy and earned(window, term) >= LEAST_GAIN:
            return True
    return False


def _told_broken(window: Window, effect: str, *, is_endless: bool) -> tuple[str, str]:
    """Return sentence and action for a broken policy, by the likeliest cause."""
    for resume in reversed(window.settings.get("resumed") or ()):
        if resume["changes"]:
            since = describe_changes(resume["step"], resume["changes"])
            sentence = f"The run was resumed with other settings {since}. Now {effect}."
            return (
                sentence,
                "Go on from the checkpoint of that resume with the earlier settings.",
            )
    # A verifier or data that broke leave the completions as they were.
    if is_endless:
        return (
            f"The updates are too large: {effect}; most completions no longer come to an end.",
            AGAIN,
        )
    return (
        f"The updates are too large, or the verifier or the data broke: {effect}.",
        "First judge a few of the latest completions by hand. If they are as bad as that: start again with a tenth of "
        "the learning rate.",
    )


def _levels(window: Window) -> list[Estimate]:
    """Collect score levels: first batch, periods of the run, evaluations."""
    scores = [period.scores for period in window.history]
    levels = [level_of(batch.primary.scores.groups for batch in window.opening[:1])]
    for start in range(0, len(scores), OPENING_BATCHES):
        levels.append(level_of(scores[start : start + OPENING_BATCHES]))
    known = [level for level in levels if level.count]
    return known + [each.score for each in window.evaluations]


def _is_surely_lower(now: Estimate, levels: Sequence[Estimate]) -> bool:
    """Test whether a fall exceeds the noise of a few groups."""
    surely = max(
        (level.at_least for level in levels if 2 * level.count >= LEAST_GROUPS), default=0.0
    )
    return surely > max(HARDLY, now.mean + SURE * now.error)


def _has_come_to_be_cut(window: Window) -> bool:
    """Test whether most completions are cut now, though few were before the first update."""
    latest = window.batches[1:][-OPENING_BATCHES:]
    before = Estimate.together(batch.primary.cut_share for batch in window.opening[:1])
    now = Estimate.together(batch.primary.cut_share for batch in latest)
    return before.mean < RARE and now.mean >= MOST


def far_and_no_better(window: Window) -> CheckResult:
    """Find a high KL divergence without a gain of reward, or after a leap of the entropy.

    A policy with dropout that is far in the first log already is not far by its updates.
    """
    level = window.median_logged("kl")
    if level is None:
        return _without_kl(window)
    if level < FAR:
        return None
    effect = _effect(window)
    if not effect:
        return None
    numbers = {"kl": level}
    if window.entropy_cliff is not None:
        numbers["entropy_cliff"] = window.entropy_cliff
    sentence = f"The updates are too large: {_far(level)}, and {effect}."
    action = AGAIN
    dropout = window.settings.get("dropout")
    first = window.first_logged("kl")
    if dropout and first is not None and first >= FAR:
        names = " and ".join(dropout)
        sentence = (
            f"Dropout, not the updates: {_far(level)}, as it was in the first log ({first:.2g}), with {names} in the "
            f"model's config, and {effect}."
        )
        action = f"Set {names} to 0 (model_init_kwargs, or the model's config.json): dropout is on while TRL samples."
    return Finding(
        severity=Severity.critical_if(level >= CRITICAL),
        sentence=sentence,
        numbers=numbers,
        action=action,
    )


def _without_kl(window: Window) -> CheckResult:
    if not window.batches:
        return None
    if not window.logs:
        return NO_LOGS
    return NotChecked("beta above 0: without it TRL measures no KL divergence")


def _far(level: float) -> str:
    return f"the policy is {level:.2g} nats of KL from its reference"


def _effect(window: Window) -> str:
    """Explain why a large KL is harmful here; empty if the reward rose."""
    if obeys_other_terms(window):
        return ""
    paid = window.reward_scale.part(gain(window.opening, window.later, reward_level))
    if paid.is_surely_below(LEAST_GAIN) and not has_risen(window):
        return "its reward is no better than at the start"
    if _has_leapt(window):
        return f"it lost {percent(min(1.0, window.entropy_cliff or 0.0))} of its entropy almost at once"
    return ""


def obeys_other_terms(window: Window) -> bool:
    """Test whether lesser terms lead the policy, however small their weight."""
    if finds(
        window, wrong_driver.secondary_only, wrong_driver.cancelled, wrong_driver.outweighed
    ):
        return True
    return any(earned(window, term) >= LEAST_GAIN for term in other_terms(window))


def earned(window: Window, term: str) -> float:
    """Gain of a term's earnings since the start, as part of its scale; NaN if unknown."""

    def value_level(batches: Sequence[BatchFigures]) -> Estimate:
        found = TermTotals.of(term, batches)
        return level_of(batch.values.numbers for batch in found.batches)

    risen = gain(window.opening, window.later, value_level)
    part = window.value_scale(term).part(risen).mean
    return part if window.of_term(term).weight > 0 else -part


def _has_leapt(window: Window) -> bool:
    """Test for a sudden loss of entropy while the score stays flat below its ceiling.

    False where nearly all groups are all right: then a few prompts are missing, such as prompts with a wrong gold.
    """
    if window.entropy_cliff is None or window.entropy_cliff < CLIFF or window.is_solved:
        return False
    has_arrived = group_share(window.batches, GroupOutcome.ALL_RIGHT) >= MOSTLY_RIGHT
    return not has_arrived and is_flat(window)


def unstable(window: Window) -> CheckResult:
    """Find gradient norms far above the usual norm, or updates with many clipped tokens, for long."""
    if not window.logs:
        return NO_LOGS if window.batches else None
    norms = []
    for part in window.log_history:
        norm = part.levels.logged.get("grad_norm")
        if norm is not None:
            norms.append(norm.mean)
    usual = median(norms) if norms else 0.0
    spikes = [
        norm for norm in norms if usual > 0 and norm >= max(LEAST_SPIKE, SPIKE * usual)
    ]
    least, logs = _least_clipped(window)
    clipped = window.median_logged("clip_ratio/region_mean", latest=LEAST_LOGS, least=logs)
    numbers: dict[str, float]
    if len(norms) >= LEAST_LOGS and len(spikes) >= LEAST_SPIKES:
        said = f"the gradient norm has risen to {max(spikes):.2g} {len(spikes)} times, where {usual:.2g} is usual"
        action = "Lower max_grad_norm."
        numbers = {"spikes": len(spikes), "largest": max(spikes), "usual": usual}
    elif clipped is not None and clipped >= least:
        said = f"{percent(clipped)} of the tokens are clipped in most updates, and teach nothing"
        action = "Lower the learning rate, or num_iterations and steps_per_generation."
        numbers = {"clipped": clipped}
        epsilon = window.number("epsilon")
        if epsilon is not None and epsilon < NARROW:
            said += f", at an epsilon of {epsilon:g}"
            action = "Set epsilon to 0.2, TRL's default."
    else:
        return None
    return Finding(
        severity=Severity.WARNING,
        sentence=f"The updates are unstable: {said}.",
        numbers=numbers,
        action=action,
    )


def _least_clipped(window: Window) -> tuple[float, int]:
    """Return the alarming share of clipped tokens and the needed number of logs; a tiny epsilon lowers both."""
    epsilon = window.number("epsilon")
    if epsilon is not None and epsilon < TINY:
        return SOME_CLIPPED, FEW_LOGS
    return MUCH_CLIPPED, LEAST_LOGS
