"""An evaluation in numbers, read from the folder that it was recorded in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trl_grpo_ext.evaluation.prompt_figures import FEWEST_VOTES, PromptFigures, prompt_figures
from trl_grpo_ext.figures.pairs import passes
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.score.tally import Tally
from trl_grpo_ext.support.estimate import Estimate, score_interval

FILE = "evaluation.json"
QUANTILES = {"p10": 10, "p50": 50, "p90": 90, "max": 100}


@dataclass(slots=True)
class Evaluated:
    """What one model's completions came to.

    Attributes:
        about: What was evaluated, as `evaluation.json` has it: `model`, `recipe`, `split`, `prompts`, `samples`, ...
        ks: The numbers of completions that pass@k and maj@k are of.
        prompts: Each prompt's figures.
        tally: The verdicts by term.
        unjudged: How many completions the primary term could not judge; they are in no pass@k and no maj@k.
        lengths: The completions' lengths in tokens, as far as they are known.
        cut: Those that were cut at the length limit, and those of which it is known whether they were.
    """

    about: Mapping[str, Any]
    ks: Sequence[int]
    prompts: list[PromptFigures] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    unjudged: int = 0
    lengths: list[float] = field(default_factory=list)
    cut: Estimate = field(default_factory=lambda: Estimate.share(0, 0))

    @property
    def label(self) -> str:
        """What the model is called."""
        return str(self.about["label"])

    def mean(self, name: str) -> dict[str, float] | None:
        """The mean of a figure over the prompts with its 95 % interval, and how many they are; None if none has it."""
        found = [one.values[name] for one in self.prompts if name in one.values]
        estimate = Estimate.of(found)
        interval = score_interval(estimate, estimate, in_unit=all(0 <= value <= 1 for value in found))
        if interval is None:
            return None
        return interval.to_record() | {"prompts": len(found), "left_out": len(self.prompts) - len(found)}

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values; null for what is unknown."""
        return {
            **self.about,
            "completions": self.tally.rows,
            "unjudged": self.unjudged,
            "void": self.tally.void,
            "grader_failed": self.tally.failed,
            **{f"pass@{k}": self.mean(f"pass@{k}") for k in self.ks},
            **{name: self._majority(k) for k in self.ks if k >= FEWEST_VOTES for name in [f"maj@{k}"]},
            "tokens": self._tokens(),
            "cut": self.cut.mean if self.cut.count else None,
            "terms": self.tally.to_record()["terms"],
        }

    def _majority(self, k: int) -> dict[str, float] | None:
        found, tied = self.mean(f"maj@{k}"), self.mean(f"tied@{k}")
        return found and tied and found | {"tied": tied["mean"]}

    def _tokens(self) -> dict[str, float] | None:
        if not self.lengths:
            return None
        quantiles = np.percentile(self.lengths, list(QUANTILES.values())).tolist()
        return {"mean": sum(self.lengths) / len(self.lengths), **dict(zip(QUANTILES, quantiles, strict=True))}


def is_evaluation(folder: str) -> bool:
    """Whether this is the folder of an evaluation."""
    return (Path(folder) / FILE).is_file()


def check_ks(ks: Sequence[int] | None, samples: int) -> None:
    """Raise a ValueError for a k that is more than the completions a prompt."""
    if ks and max(ks) > samples:
        raise ValueError(f"pass@{max(ks)} needs as many completions a prompt (--samples), and there are {samples}.")


def read_evaluation(folder: Path, label: str, ks: Sequence[int] | None = None) -> Evaluated:
    """The figures of a recorded evaluation.

    Args:
        folder: Where it was recorded.
        label: What the model is called.
        ks: The numbers of completions that pass@k and maj@k are of; by default 1, and all of a prompt.

    Raises:
        ValueError: if a part of it was not recorded, or for a k that is more than the completions a prompt.
    """
    about = {"label": label, **json.loads((folder / FILE).read_text(encoding="utf-8"))}
    check_ks(ks, about["samples"])
    found = Evaluated(about, ks or sorted({1, about["samples"]}))
    # On several ranks, prompts are repeated to fill up the last batch; these come last.
    left = wanted = about["prompts"] * about["samples"]
    for recorded in RecordedRun(folder).cards("eval"):
        card = recorded.first(left)
        left -= len(card)
        found.tally.add(card)
        found.prompts += prompt_figures(card, found.ks)
        found.unjudged += sum(passes(verdict) is None for verdict in card.primary)
        found.lengths += card.tokens[np.isfinite(card.tokens)].tolist()
        known = [sample.truncated for sample in card.samples if sample.truncated is not None]
        found.cut += Estimate.share(sum(known), len(known))
    if left:
        raise ValueError(f"{folder} has {wanted - left} of the {wanted} completions of its evaluation; make it again.")
    return found
