"""The model answers, and the verifier cannot read the answer."""

from __future__ import annotations

from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.groups import judged, most_common, percent
from trl_grpo_ext.diagnostics.progress import is_learning
from trl_grpo_ext.diagnostics.terms import primary_terms
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window

# Ours, tried in tests/test_fault_injection.py (answers that nobody can read) and test_healthy_runs.py (a form
# that some answers lack at first).
WARN, CRITICAL = 0.3, 0.6  # of the primary verdicts
SOME_RIGHT = 0.05  # of them: enough to learn the form from
FALLING = 0.8  # of the share in the earlier half: if less is left in the later half, the model is learning the form


def check(window: Window) -> CheckResult:
    """Many unparseable completions that were not cut, no fewer as training goes on, and no better answers.

    A model that does not know the form yet, and is right now and then, learns it.
    """
    count = judged(window.batches)
    if count < LEAST_SAMPLES:
        return None
    unread = sum(batch.primary.unread_ended for batch in window.batches)
    right = sum(batch.primary.right for batch in window.batches)
    if unread < WARN * count or _is_falling(window) or (right >= SOME_RIGHT * count and is_learning(window)):
        return None
    reasons = most_common([facts.unread for term in primary_terms(window) for facts in window.of_term(term)])
    reason = f", mostly `{safe_reason(reasons[0][0])}`" if reasons and reasons[0][0] else ""
    read = count - unread
    rest = f"; of the others {percent(right / read)} are right" if read else ""
    return Finding(
        code="unparseable_flood",
        step=window.step,
        severity=Severity.CRITICAL if unread >= CRITICAL * count else Severity.WARNING,
        sentence=(
            f"The model answers but the verifier cannot read it: {percent(unread / count)} of the completions hold no "
            f"answer that it knows{reason}{rest}."
        ),
        numbers={"share": unread / count, "unparseable": unread} | ({"right_of_others": right / read} if read else {}),
        action="Say in the prompt which form the answer must have, or choose a verifier that reads the form it has.",
    )


def _is_falling(window: Window) -> bool:
    half = len(window.batches) // 2
    parts = (window.batches[:half], window.batches[half:])
    unread = [sum(batch.primary.unread_ended for batch in part) for part in parts]
    counts = [judged(part) for part in parts]
    return bool(all(counts)) and unread[1] / counts[1] < FALLING * unread[0] / counts[0]
