"""Recorded runs of planted batches, for tests of what is read back from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Sample, Status, Verdict, Verifier
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import Recorder
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import as_verdict


class Planted(Verifier):
    """Reads its verdicts from the column `score`: a score, or a blame."""

    def verify(self, sample: Sample) -> Verdict:
        found = sample.row["score"]
        if isinstance(found, Verdict):
            return found
        if isinstance(found, Blame):
            return Verdict(status=Status.ERROR, score=None, blame=found, reason="planted")
        return as_verdict(found)


def recorded(folder: Path, cards: Sequence[Scorecard]) -> RecordedRun:
    recorder = Recorder(folder)
    (folder / "scorecards").mkdir(parents=True, exist_ok=True)
    for card in cards:
        recorder.on_batch(card)
    return RecordedRun(folder)


def card(*scores: Any, step: int = 0, mode: Any = "train", text: str = "x", weight: float = 1.0) -> Scorecard:
    """A batch of one group whose verdicts are planted; without advantages."""
    samples = [
        Sample(text=f"{text} {index}", row={"score": score}, group=step, step=step)
        for index, score in enumerate(scores)
    ]
    mix = RewardMix([RewardTerm(name="answer", verifier=Planted(), weight=weight)])
    return mix.score(samples, mode=mode)
