"""Groups that teach nothing, some all right and some all wrong: the data is of two kinds, and neither is in reach."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.checks import all_right_groups, all_wrong_groups, inert_term
from trl_grpo_ext.diagnostics.evidence.distinct_answers import is_one_answer
from trl_grpo_ext.diagnostics.evidence.figures import group_count, groups_of, judged, percent
from trl_grpo_ext.diagnostics.evidence.level import score_level
from trl_grpo_ext.diagnostics.evidence.progress import FLAT_BATCHES, has_risen, is_stuck
from trl_grpo_ext.diagnostics.evidence.window import CEILING, LEAST_GROUPS, LEAST_SAMPLES, Outcome, Window
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.group_outcome import GroupOutcome

LEAST_LIVE, CRITICAL = 0.3, 0.05  # of the groups; ours


def check(window: Window) -> Outcome:
    """Few live groups while the score is flat, for no reason that another finding gives.

    That the score is surely flat is not asked: where prompts are always right or always wrong, chance alone moves it.
    """
    live = live_share(window)
    if live is None or judged(window.batches) < LEAST_SAMPLES or not _is_stuck(window, live):
        return None
    groups = group_count(window.batches)
    if groups < LEAST_GROUPS or live + _misread(window) >= LEAST_LIVE or _is_told(window):
        return None
    wrong, right = _share(window, GroupOutcome.ALL_WRONG), _share(window, GroupOutcome.ALL_RIGHT)
    return Finding(
        code="dead_groups",
        step=window.step,
        severity=Severity.CRITICAL if live < CRITICAL else Severity.WARNING,
        sentence=f"Most groups teach nothing: {group_mix(window)}.",
        numbers={"all_wrong": wrong, "all_right": right, "live": live, "groups": groups},
        action="First judge a few completions of both kinds by hand; if the verifier is right, drop the prompts that "
        "are always right and take easier ones for those that are always wrong, or more num_generations.",
    )


def live_share(window: Window) -> float | None:
    """The share of the groups that are live; None where no group could be judged."""
    return _share(window, GroupOutcome.LIVE) if any(batch.groups for batch in window.batches) else None


def group_mix(window: Window) -> str:
    """What the groups are, in words: `50 % all wrong, 50 % all right, 0 % live`."""
    kinds = {
        "all wrong": GroupOutcome.ALL_WRONG,
        "all right": GroupOutcome.ALL_RIGHT,
        "tied": GroupOutcome.TIED,
        "live": GroupOutcome.LIVE,
    }
    shares = {name: _share(window, kind) for name, kind in kinds.items()}
    return ", ".join(
        f"{percent(share) if share else '0 %'} {name}" for name, share in shares.items() if share or name == "live"
    )


def _is_stuck(window: Window, live: float) -> bool:
    """Whether the score is flat, and not where learning has brought it.

    Next to no live groups is proof enough, where nothing speaks for a rise: nothing is left to learn from.
    """
    level = score_level(window.batches)
    if level is None or level.mean >= CEILING or is_one_answer(window.batches, window.opening) or has_risen(window):
        return False
    return is_stuck(window) or (live < CRITICAL and len(window.batches) >= FLAT_BATCHES)


def _is_told(window: Window) -> bool:
    """Whether one kind of dead group prevails, which is for the check of that kind to judge."""
    wrong, right = _share(window, GroupOutcome.ALL_WRONG), _share(window, GroupOutcome.ALL_RIGHT)
    if wrong - _misread(window) >= all_wrong_groups.WARN or right >= all_right_groups.WARN:
        return True
    return _is_tied(window) and isinstance(inert_term.check(window), Finding)


def _misread(window: Window) -> float:
    """The share of the groups of which another finding says that they were cut, or could not be read."""
    return sum(batch.misread_groups for batch in window.batches) / group_count(window.batches)


def _share(window: Window, outcome: GroupOutcome) -> float:
    groups = group_count(window.batches)
    return groups_of(window.batches, outcome) / groups


def _is_tied(window: Window) -> bool:
    """Whether most groups are tied: partly right, and nothing differs."""
    groups = group_count(window.batches)
    tied = groups_of(window.batches, GroupOutcome.TIED)
    return 2 * tied > groups
