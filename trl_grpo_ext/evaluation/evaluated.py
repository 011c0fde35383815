"""An evaluation in numbers, prompt by prompt and as a whole, read from the folder that it was recorded in."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trl_grpo_ext.figures.primary import pass_at_k, passes, read_answer
from trl_grpo_ext.runs.recorded_run import EVALUATION, FIGURES, RecordedRun
from trl_grpo_ext.score.tally import Tally
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate, Grouped
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.text import told

FEWEST_VOTES = 3  # of two, either they agree or each has half of the vote: that is pass@1 again
QUANTILES = {"p10": 10, "p50": 50, "p90": 90, "max": 100}


@dataclass(slots=True)
class Evaluated:
    """What one model's completions came to."""

    # What was evaluated, as `evaluation.json` has it: `model`, `recipe`, `split`, `prompts`, `samples`, ...
    about: Mapping[str, Any]
    ks: Sequence[int]  # the numbers of completions that pass@k and maj@k are of
    prompts: list[PromptFigures] = field(default_factory=list)  # each prompt's figures
    tally: Tally = field(default_factory=Tally)  # the verdicts by term
    unjudged: int = 0  # how many completions the primary term could not judge; they are in no pass@k and no maj@k
    lengths: list[float] = field(default_factory=list)  # the completions' lengths in tokens, as far as they are known
    # Those that were cut at the length limit, and those of which it is known whether they were.
    cut: Estimate = field(default_factory=lambda: Estimate.share(0, 0))

    @property
    def label(self) -> str:
        return str(self.about["label"])

    def mean(self, name: str) -> dict[str, float] | None:
        """The mean of a figure over the prompts with its 95 % interval, and how many they are; None if none has it."""
        found = [one.values[name] for one in self.prompts if name in one.values]
        estimate = Estimate.of(found)
        low, high = min(found, default=math.inf), max(found, default=-math.inf)
        interval = Grouped(estimate, estimate, low, high).interval
        if interval is None:
            return None
        return interval.to_record() | {"prompts": len(found), "left_out": len(self.prompts) - len(found)}

    def to_record(self) -> dict[str, Any]:
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


def keep_figures(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the figures of an evaluation, as `Evaluated.to_record` has them, beside what was evaluated."""
    kept = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    kept[FIGURES] = {name: value for name, value in record.items() if name != "label" and name not in kept}
    write_json(folder / EVALUATION, kept)


def is_evaluation(folder: str) -> bool:
    """Whether this is the folder of an evaluation."""
    return (Path(folder) / EVALUATION).is_file()


def check_ks(ks: Sequence[int] | None, samples: int) -> None:
    """Raise a ValueError for a k that is more than the completions a prompt."""
    if ks and max(ks) > samples:
        raise ValueError(f"pass@{max(ks)} needs as many completions a prompt (--samples), and there are {samples}.")


def read_evaluation(folder: Path, label: str, ks: Sequence[int] | None = None) -> Evaluated:
    """The figures of a recorded evaluation.

    `label` is what the model is called, and `ks` the numbers of completions that pass@k and maj@k are of; by default 1,
    and all of a prompt.

    Raises:
        ValueError: if a part of it was not recorded, or for a k that is more than the completions a prompt.
    """
    kept = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    about = {"label": label, **{name: value for name, value in kept.items() if name != FIGURES}}
    check_ks(ks, about["samples"])
    found = Evaluated(about, ks or sorted({1, about["samples"]}))
    left = wanted = about["prompts"] * about["samples"]
    for card in RecordedRun(folder).cards("eval"):
        left -= len(card)
        found.tally.add(card)
        found.prompts += prompt_figures(card, found.ks)
        found.unjudged += sum(verdict is None or verdict.score is None for verdict in card.primary)
        found.lengths += card.tokens[np.isfinite(card.tokens)].tolist()
        known = [sample.truncated for sample in card.samples if sample.truncated is not None]
        found.cut += Estimate.share(sum(known), len(known))
    if left:
        raise ValueError(f"{folder} has {wanted - left} of the {wanted} completions of its evaluation; make it again.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFigures:
    """One prompt in numbers."""

    key: str  # the same for the same prompt and dataset row
    # By name: `pass@k`, `maj@k`, `tied@k`, `tokens`, and each term's mean as `score/<term>`. What is unknown is
    # missing.
    values: Mapping[str, float]


def prompt_figures(card: Scorecard, ks: Sequence[int]) -> Iterator[PromptFigures]:
    """The figures of each prompt of a batch, for these numbers of completions."""
    for rows in card.members:
        first = card.samples[rows[0]]
        said = json.dumps([first.prompt, dict(first.row)], sort_keys=True, default=told)
        values = {**_outcomes(card, rows, ks), **_term_scores(card, rows)}
        tokens = card.tokens[list(rows)]
        if np.isfinite(tokens).any():
            values["tokens"] = float(np.nanmean(tokens))
        yield PromptFigures(key=hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest(), values=values)


def _outcomes(card: Scorecard, rows: Sequence[int], ks: Sequence[int]) -> dict[str, float]:
    """pass@k, maj@k and tied@k by the primary verdicts; completions that these could not judge are left out.

    The votes of maj@k are of k completions each, and no completion is in two, so that their mean is unbiased.
    """
    verdicts = [card.primary[row] for row in rows]
    judged = [(read_answer(one), passed) for one in verdicts if (passed := passes(one)) is not None]
    values: dict[str, float] = {}
    for k in ks:
        if len(judged) < k:
            continue
        values[f"pass@{k}"] = pass_at_k(len(judged), sum(passed for _, passed in judged), k)
        if k >= FEWEST_VOTES:
            votes = [majority(judged[start : start + k]) for start in range(0, len(judged) - k + 1, k)]
            values[f"maj@{k}"] = sum(right for right, _ in votes) / len(votes)
            values[f"tied@{k}"] = sum(tied for _, tied in votes) / len(votes)
    return values


def majority(attempts: Sequence[tuple[str | None, bool]]) -> tuple[float, bool]:
    """How right the most frequent answer is, in [0, 1], and whether several are the most frequent.

    Several share the vote, which is what drawing one of them comes to. No answer is no vote; without votes it is 0. An
    attempt is the answer of a completion, None for none, and whether it is right.

    Examples:
        >>> majority([("4", True), ("5", False), ("4", True), (None, False)])
        (1.0, False)
        >>> majority([("4", True), ("5", False)])
        (0.5, True)
    """
    by_answer: dict[str, list[bool]] = defaultdict(list)
    for answer, right in attempts:
        if answer is not None:
            by_answer[answer].append(right)
    votes = Counter({answer: len(found) for answer, found in by_answer.items()})
    most = max(votes.values(), default=0)
    winners = [by_answer[answer] for answer, count in votes.items() if count == most]
    shares = [sum(found) / len(found) for found in winners]
    return (sum(shares) / len(shares) if shares else 0.0), len(winners) > 1


def _term_scores(card: Scorecard, rows: Sequence[int]) -> dict[str, float]:
    """The mean raw score of each term that has judged any of these completions."""
    means = {}
    for term in card.terms:
        verdicts = (card.verdicts[term][row] for row in rows)
        scores = [one.score for one in verdicts if one is not None and one.score is not None and not one.left_out]
        if scores:
            means[f"score/{term}"] = sum(scores) / len(scores)
    return means
