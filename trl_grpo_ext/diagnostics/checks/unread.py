"""Answers that the verifier does not get to see: completions are cut before them, or hold none that it can read."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.batches import judged, mostly, percent, primary_terms
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.progress import is_learning
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.support.estimate import Estimate

CUT_WARN, CUT_CRITICAL = 0.15, 0.5  # of the completions: rl-doctor's upper level, rlprobe's level
# Cut completions are right less than this share as often as the others. Ours, tried in tests/test_fault_injection.py.
COSTLY = 0.5
# Ours, tried in tests/test_fault_injection.py (answers that nobody can read) and test_healthy_runs.py (a form
# that some answers lack at first).
UNREAD_WARN, UNREAD_CRITICAL = 0.3, 0.6  # of the primary verdicts
SOME_RIGHT = 0.05  # of them: enough to learn the form from
FALLING = 0.8  # of the share in the earlier half: if less is left in the later half, the model is learning the form


def cut(window: Window) -> CheckResult:
    """Many cut completions, and being cut costs them the answer."""
    limit = window.settings.get("max_completion_length")
    if limit == 1:
        return NotChecked("completions of more than one token")
    facts = [batch.primary for batch in window.batches]
    cut, ended = sum(one.cut for one in facts), sum(one.ended for one in facts)
    if cut + ended < LEAST_SAMPLES:
        return None if cut + ended or not window.batches else NotChecked("to know which completions were cut")
    share = cut / (cut + ended)
    cut_rate = sum(one.cut_right for one in facts) / cut if cut else 0.0
    ended_rate = sum(one.ended_right for one in facts) / ended if ended else 0.0
    costs = cut_rate < COSTLY * ended_rate or (cut_rate == 0 and share >= CUT_CRITICAL)
    is_other = ended >= LEAST_SAMPLES and ended_rate == 0  # those that come to an end are as wrong
    if share < CUT_WARN or not costs or is_other:
        return None
    where = f" at {limit} tokens" if limit else ""
    rest = f"; those that come to an end are right {percent(ended_rate)} of the time" if ended else ""
    is_masked = window.settings.get("mask_truncated_completions")
    return Finding(
        severity=Severity.critical_if(share >= CUT_CRITICAL),
        sentence=(
            f"{percent(share)} of the completions are cut{where}, and {percent(cut_rate)} of those are right{rest}."
        ),
        numbers={"share": share, "right_of_cut": cut_rate} | ({"right_of_ended": ended_rate} if ended else {}),
        action="Raise max_completion_length"
        + (
            ": cut ones are masked already, so they are not punished and teach nothing."
            if is_masked
            else ", or set mask_truncated_completions so that cut ones are not punished."
        ),
    )


def unparseable(window: Window) -> CheckResult:
    """Many unparseable completions that were not cut, no fewer as training goes on, and no better answers.

    A model that does not know the form yet, and is right now and then, learns it.
    """
    count = judged(window.batches)
    if count < LEAST_SAMPLES:
        return None
    unread = sum(batch.primary.unread_ended for batch in window.batches)
    right = sum(batch.primary.right for batch in window.batches)
    if unread < UNREAD_WARN * count or _is_falling(window) or (right >= SOME_RIGHT * count and is_learning(window)):
        return None
    reason = mostly([facts.unread for term in primary_terms(window) for facts in window.of_term(term)])
    read = count - unread
    rest = f"; of the others {percent(right / read)} are right" if read else ""
    sentence = (
        f"The model answers but the verifier cannot read it: {percent(unread / count)} of the completions hold no "
        f"answer that it knows{reason}{rest}."
    )
    action = "Say in the prompt which form the answer must have, or choose a verifier that reads the form it has."
    tokens = Estimate.together(batch.tokens.numbers for batch in window.batches)
    if tokens.count and tokens.mean <= 1:  # the one that ends it
        sentence = "The model says nothing: it ends every completion at once, so there is no answer to read."
        action = "Read a prompt as the model gets it: does it already end with the token that ends a turn?"
    return Finding(
        severity=Severity.critical_if(unread >= UNREAD_CRITICAL * count),
        sentence=sentence,
        numbers={"share": unread / count, "unparseable": unread} | ({"right_of_others": right / read} if read else {}),
        action=action,
    )


def _is_falling(window: Window) -> bool:
    half = len(window.batches) // 2
    parts = (window.batches[:half], window.batches[half:])
    unread = [sum(batch.primary.unread_ended for batch in part) for part in parts]
    counts = [judged(part) for part in parts]
    return bool(all(counts)) and unread[1] / counts[1] < FALLING * unread[0] / counts[0]
