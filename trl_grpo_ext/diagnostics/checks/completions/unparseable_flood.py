"""Check `unparseable_flood`: completions that end normally and hold no answer, or call tools that are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trl_grpo_ext.diagnostics.batches import judged, mostly, of_template, percent
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.progress import has_risen, is_learning
from trl_grpo_ext.diagnostics.term_totals import added
from trl_grpo_ext.diagnostics.window import LEAST_SAMPLES, CheckResult, Window
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.support.estimate import Estimate

# Ours, tried in test_fault_injection.py (answers that nobody can read) and test_healthy_runs.py (a form
# that some answers lack at first).
# Of the primary verdicts.
UNREAD_WARN, UNREAD_CRITICAL = 0.3, 0.6
# Of the primary verdicts: enough right ones to learn the form from.
SOME_RIGHT = 0.05
# Of the share in the earlier half: if less is left in the later half, the model is learning the form.
FALLING = 0.8
# Of the completions, in the first batches as in the last. Ours, from a run that lacked its tools: 0.3 and more.
CALLS = 0.15
OFFER = (
    "Pass the tools that the model calls (tools= or environment_factory=), or read what the chat template tells it of "
    "tools."
)
NAME_THE_FORM = "Say in the prompt which form the answer must have, or choose a verifier that reads the form it has."


def calls(window: Window) -> CheckResult:
    """Find completions that are a tool call, in a run without tools, from the first batch on.

    Chat templates often write a call with special tokens, which decoding leaves out, so that no text is left.
    """
    if window.settings.get("tools") != [] or window.is_solved or has_risen(window):
        return None
    silent = [
        _share(batches, lambda batch: batch.silent)
        for batches in (window.opening, window.batches)
    ]
    written = [_share(batches, _calls_in) for batches in (window.opening, window.batches)]
    share = max(silent[-1], written[-1])
    if judged(window.batches) < LEAST_SAMPLES or max(min(silent), min(written)) < CALLS:
        return None
    if silent[-1] >= written[-1]:
        sentence = (
            f"{percent(share)} of the completions hold no text, only special tokens, which decoding leaves out: as a "
            f"model writes that calls tools, and the run offers none."
        )
        action = f"{OFFER} Decode their completion_ids with skip_special_tokens=False to see what they say."
    else:
        [(call, _)] = added(batch.written_calls for batch in window.batches).most_common(1)
        sentence = f"{percent(share)} of the completions call a tool, such as `{call}`, and the run offers none."
        action = OFFER
    return Finding(
        severity=Severity.CRITICAL,
        terms=tuple(window.primary_terms),
        sentence=sentence,
        numbers={"share": share},
        action=action,
    )


def _calls_in(batch: BatchFigures) -> int:
    return sum(batch.written_calls.values())


def _share(batches: Sequence[BatchFigures], count: Callable[[BatchFigures], int]) -> float:
    """Share of the completions that `count` counts; 0 without completions."""
    return sum(map(count, batches)) / max(1, sum(batch.size for batch in batches))


def unparseable(window: Window) -> CheckResult:
    """Find unparseable, uncut completions whose share does not fall.

    A model that does not know the form yet, and is right now and then, learns it.
    """
    count = judged(window.batches)
    if count < LEAST_SAMPLES:
        return None
    unread = sum(batch.primary.unread_ended for batch in window.batches)
    right = sum(batch.primary.right for batch in window.batches)
    if unread < UNREAD_WARN * count or _is_falling(window):
        return None
    # A model that is right now and then learns the form.
    if right >= SOME_RIGHT * count and is_learning(window):
        return None
    numbers: dict[str, float] = {"share": unread / count, "unparseable": unread}
    read = count - unread
    rest = ""
    if read:
        numbers["right_of_others"] = right / read
        rest = f"; of the others {percent(right / read)} are right"
    reason = mostly(added(window.of_term(term).unread for term in window.primary_terms))
    sentence = (
        f"The model answers but the verifier cannot read it: {percent(unread / count)} of the completions hold no "
        f"answer that it knows{reason}{rest}."
    )
    action = of_template(window) + NAME_THE_FORM
    tokens = Estimate.together(batch.tokens.numbers for batch in window.batches)
    # A single token ends the completion.
    if tokens.count and tokens.mean <= 1:
        sentence = "The model says nothing: it ends every completion at once, so there is no answer to read."
        action = "Read a prompt as the model gets it: does it already end with the token that ends a turn?"
    return Finding(
        severity=Severity.critical_if(unread >= UNREAD_CRITICAL * count),
        terms=tuple(window.primary_terms),
        sentence=sentence,
        numbers=numbers,
        action=action,
    )


def _is_falling(window: Window) -> bool:
    """Test whether the later half of the batches has a smaller share of unread completions."""
    half = len(window.batches) // 2
    before = _unread_share(window.batches[:half])
    now = _unread_share(window.batches[half:])
    if before is None or now is None:
        return False
    return now < FALLING * before


def _unread_share(batches: Sequence[BatchFigures]) -> float | None:
    count = judged(batches)
    if not count:
        return None
    return sum(batch.primary.unread_ended for batch in batches) / count
