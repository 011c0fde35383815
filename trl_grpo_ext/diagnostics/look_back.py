"""Looking back: a recorded run is shown to the checks as it would have been while it went on."""

from __future__ import annotations

from itertools import chain

from trl_grpo_ext.diagnostics.evidence.window import OPENING_BATCHES
from trl_grpo_ext.diagnostics.finding import Finding
from trl_grpo_ext.diagnostics.hysteresis import Onsets
from trl_grpo_ext.diagnostics.recorded_run import RecordedRun
from trl_grpo_ext.diagnostics.run_view import RunView

MOST_BATCHES = 512  # that are read: of a longer run the first few and the last


def look_back(
    run: RecordedRun, view: RunView, onsets: Onsets, *, before: int | None = None
) -> tuple[list[Finding], int]:
    """Show a run's batches and logs to the checks, in the order in which they were made.

    Args:
        run: The run.
        view: Takes the batches and logs in.
        onsets: Looks at the view after each training batch.
        before: Only what was made before this optimizer step; None for all.

    Returns:
        The findings as they began, and the number of training batches.
    """
    findings: list[Finding] = []
    batches = 0
    # A log of step n is written at its end, before the batch that is generated after n steps.
    logs = (entry for entry in run.iterate_logs() if before is None or entry["step"] <= before)
    entry = next(logs, None)
    for number in _numbers(run, before):
        card = run.readable(number)
        if card is None:
            continue
        while entry is not None and card.step is not None and entry["step"] <= card.step:
            view.add_logs(entry["step"], entry)
            entry = next(logs, None)
        if view.add_card(card):
            batches += 1
            findings += onsets.look(view.window)
    for rest in chain(() if entry is None else (entry,), logs):
        view.add_logs(rest["step"], rest)
    return findings, batches


def _numbers(run: RecordedRun, before: int | None) -> list[int]:
    """The numbers of the batches to read."""
    parts = run.parts()
    numbers = [number for number, about in parts if before is None or about.step is None or about.step < before]
    return numbers if len(numbers) <= MOST_BATCHES else [*numbers[:OPENING_BATCHES], *numbers[-MOST_BATCHES:]]
