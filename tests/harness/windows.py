"""Make planted batches, windows and recorded runs, and diagnose them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status, Verdict
from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.diagnosis import Diagnosis, conclude
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked
from trl_grpo_ext.diagnostics.watch import Onsets
from trl_grpo_ext.diagnostics.window import RunView, Window
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.protocol import BatchVerifier
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import Recorder
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import UNIT, as_verdict

Outcomes = Mapping[str, Sequence[object]]


class Planted(BatchVerifier):
    """A verifier that reads its verdict from a column: a `Blame`, or any value that `as_verdict` accepts."""

    def __init__(self, column: str) -> None:
        self.column = column

    # Whole batches at once: tests plant a million verdicts, whose seconds nobody needs to measure.
    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return [_planted(sample.row[self.column]) for sample in samples]


def _planted(value: object) -> Verdict:
    if isinstance(value, Blame):
        return Verdict(status=Status.ERROR, score=None, blame=value, reason="planted")
    return value if isinstance(value, Verdict) else as_verdict(value, UNIT)


def batch(
    outcomes: Outcomes,
    *,
    step: int = 0,
    size: int = 8,
    weights: Mapping[str, float] | None = None,
    advantages: Sequence[float] | None = None,
    **sample: Any,
) -> Scorecard:
    """Make a batch with planted verdicts per term, in groups of `size`; `sample` holds fields common to all samples.

    Each text ends with a distinct number, since equal texts must not get different scores.
    """
    columns = zip(*outcomes.values(), strict=True)
    samples = [
        Sample(
            row=dict(zip(outcomes, row, strict=True)),
            group=step * 1000 + index // size,
            step=step,
            **sample | {"text": f"{sample.get('text', 'x')} {index}"},
        )
        for index, row in enumerate(columns)
    ]
    terms = [
        RewardTerm(name=n, verifier=Planted(n), weight=(weights or {}).get(n, 1.0))
        for n in outcomes
    ]
    card = RewardMix(terms).score(samples)
    return card if advantages is None else card.with_advantages(advantages)


def card(
    *scores: Any, step: int = 0, mode: Any = "train", text: str = "x", weight: float = 1.0
) -> Scorecard:
    """Make a batch of one group, judged by the term `answer`, without advantages."""
    planted = batch(
        {"answer": scores},
        step=step,
        size=max(1, len(scores)),
        weights={"answer": weight},
        text=text,
    )
    return replace(planted, mode=mode)


def recorded(folder: Path, cards: Sequence[Scorecard]) -> RecordedRun:
    """Write a run folder with these batches."""
    recorder = Recorder(folder)
    (folder / "scorecards").mkdir(parents=True, exist_ok=True)
    for one in cards:
        recorder.on_batch(one)
    return RecordedRun(folder)


def diagnosis_of(
    events: Iterable[Scorecard | tuple[int, Mapping[str, Any]]], settings: Mapping[str, Any]
) -> Diagnosis:
    """Diagnose scorecards and (step, logs) pairs in a trainer's order, without a disk."""
    view, onsets, batches = RunView(settings), Onsets(dict(CHECKS)), 0
    findings: list[Finding] = []
    for event in events:
        if not isinstance(event, Scorecard):
            view.add_logs(*event)
        elif view.add(reduce_card(event, view.settings)):
            batches += 1
            findings += onsets.look(view.window)
    if batches:
        findings += onsets.look(view.window)
    return conclude(view.window, onsets, findings, batches)


def window_of(
    cards: Sequence[Scorecard],
    logs: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | None = None,
) -> Window:
    """Make the window after these batches and logs; the logs are those of steps 1, 2, ..."""
    view = RunView(settings or {})
    for card in cards:
        view.add(reduce_card(card, view.settings))
    for step, entry in enumerate(logs, start=1):
        view.add_logs(step, {"loss": 0.0, **entry})
    return view.window


def tell(listener: RunListener, *cards: Scorecard) -> None:
    """Send batches to a listener, like a trainer."""
    for card in cards:
        listener.on_batch(card, reduce_card(card, {}))


def codes(window: Window) -> list[str]:
    """Run all checks on a window, and list the codes of their findings."""
    return [code for code, check in CHECKS.items() if isinstance(check(window), Finding)]


def needs(window: Window, code: str) -> str:
    """Run a check that must refuse, and return its missing input."""
    found = CHECKS[code](window)
    assert isinstance(found, NotChecked)
    return found.needs
