"""The policy has left its reference far behind, and is no better for it."""

from __future__ import annotations

import statistics

from trl_grpo_ext.diagnostics.evidence.figures import percent
from trl_grpo_ext.diagnostics.evidence.level import reward_level, score_level
from trl_grpo_ext.diagnostics.evidence.progress import LEAST_GAIN, has_not_gained, has_risen, is_flat
from trl_grpo_ext.diagnostics.evidence.window import CEILING, CLIFF_STEPS, NO_LOGS, OPENING_BATCHES, Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

WARN, CRITICAL = 0.5, 2.0  # nats a token; rl-doctor and rlprobe
CLIFF = 0.5  # of the first entropy, lost within a few steps; ours
LATEST = 5  # logs: the estimate is noisy; ours
MOSTLY_RIGHT = 0.75  # of the groups are all right: it has leapt to where it should be; ours
GONE = 0.02  # a score that is as good as 0; ours


def check(window: Window) -> Outcome:
    """A high KL divergence from the reference: no gain of reward, or a leap that has ended exploration."""
    logged = window.logged("kl")
    if not window.logs:
        return NO_LOGS if window.batches else None
    if not logged:
        return NotChecked("beta above 0: without it TRL measures no KL divergence")
    level = statistics.median(logged[-LATEST:])
    if level < WARN:
        return None
    best = _best_before_nothing(window)
    opinion, action = "The updates are too large", "Start again with a tenth of the learning rate."
    if best is not None:
        opinion = "The updates are too large, or the verifier or the data broke"
        effect = f"its score has gone to nothing after {best:.2f}"
        action = "First judge a few of the latest completions by hand. If they are as bad as that: " + action.lower()
    elif has_not_gained(window, LEAST_GAIN, reward_level) and not has_risen(window):
        effect = "its reward is no better than at the start"
    elif _has_leapt(window):
        effect = f"it lost {percent(window.entropy_cliff or 0.0)} of its entropy within {CLIFF_STEPS} steps"
    else:
        return None
    return Finding(
        code="kl_blowup",
        step=window.step,
        severity=Severity.CRITICAL if level >= CRITICAL else Severity.WARNING,
        sentence=f"{opinion}: the policy is {level:.2g} nats of KL from its reference, and {effect}.",
        numbers={"kl": level} | ({} if window.entropy_cliff is None else {"entropy_cliff": window.entropy_cliff}),
        action=action,
    )


def _has_leapt(window: Window) -> bool:
    """Whether much of the entropy went within a few steps, and the score is flat below its ceiling.

    False where nearly all groups are all right: what is missing then are a few prompts, such as those of wrong gold.
    """
    level = score_level(window.batches)
    if window.entropy_cliff is None or window.entropy_cliff < CLIFF or level is None or level.mean >= CEILING:
        return False
    right = sum(batch.outcomes.get(GroupOutcome.ALL_RIGHT, 0) for batch in window.batches)
    has_arrived = right >= MOSTLY_RIGHT * sum(batch.groups for batch in window.batches)
    return not has_arrived and is_flat(window.batches)


def _best_before_nothing(window: Window) -> float | None:
    """The best score seen, of the opening, the window and the evaluations, if the latest batches have none at all.

    None if the latest have some, or if there never was any to speak of.
    """
    starts = range(0, len(window.later), OPENING_BATCHES)
    stretches = [window.opening, *(window.later[start : start + OPENING_BATCHES] for start in starts)]
    now = score_level(window.later[-OPENING_BATCHES:])
    if now is None or now.mean > GONE:
        return None
    levels = [*map(score_level, stretches), *(level for _, level in window.evaluations)]
    best = max((level.mean for level in levels if level is not None), default=0.0)
    return best if best >= LEAST_GAIN else None
