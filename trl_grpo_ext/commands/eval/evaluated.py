"""Figures of a recorded evaluation, per prompt and overall."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trl_grpo_ext.commands.tally import Tally
from trl_grpo_ext.figures.primary import pass_at_k, passes, read_answer
from trl_grpo_ext.runs.recorded_run import EVALUATION, FIGURES, RecordedRun
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate, Grouped, Interval
from trl_grpo_ext.support.files import write_json
from trl_grpo_ext.support.text import text_for_json

# Two answers either agree or share the vote equally, so maj@2 would equal pass@1.
FEWEST_VOTES = 3
QUANTILES = {"p10": 10, "p50": 50, "p90": 90, "max": 100}


@dataclass(slots=True)
class Evaluated:
    """Figures of a model's completions from an evaluation."""

    # Keys of `evaluation.json` (`model`, `recipe`, `split`, `prompts`, `samples`, ...) and the model's `label`.
    about: Mapping[str, Any]
    # Values of k for pass@k and maj@k.
    ks: Sequence[int]
    prompts: list[PromptFigures] = field(default_factory=list)
    # Verdicts counted by term.
    tally: Tally = field(default_factory=Tally)
    # Completions without a verdict of the primary term, or of failed rollouts; pass@k and maj@k leave them out.
    unjudged: int = 0
    # Completion lengths in tokens; unknown lengths are missing.
    lengths: list[float] = field(default_factory=list)
    # The share of completions truncated at the length limit, among completions whose end is known.
    cut: Estimate = field(default_factory=lambda: Estimate.share(0, 0))

    @property
    def label(self) -> str:
        return str(self.about["label"])

    def interval(self, name: str) -> Interval | None:
        """Average a figure over prompts, with its 95 % interval; None if no prompt has it."""
        return Grouped.alone(self._of_prompts(name)).interval

    def mean(self, name: str) -> dict[str, float] | None:
        """Return `interval` as a record, with counts: prompts with the figure, and prompts left out."""
        interval = self.interval(name)
        if interval is None:
            return None
        count = len(self._of_prompts(name))
        return {
            **interval.to_record(),
            "prompts": count,
            "left_out": len(self.prompts) - count,
        }

    def _of_prompts(self, name: str) -> list[float]:
        return [one.values[name] for one in self.prompts if name in one.values]

    def to_record(self) -> dict[str, Any]:
        record = {
            **self.about,
            "completions": self.tally.rows,
            "unjudged": self.unjudged,
            "void": self.tally.void,
            "grader_failed": self.tally.failed,
        }
        for k in self.ks:
            record[f"pass@{k}"] = self.mean(f"pass@{k}")
        for k in self.ks:
            if k >= FEWEST_VOTES:
                record[f"maj@{k}"] = self._majority(k)
        record["tokens"] = self._tokens()
        record["cut"] = self.cut.known_mean
        record["terms"] = self.tally.to_record()["terms"]
        return record

    def _majority(self, k: int) -> dict[str, float] | None:
        found = self.mean(f"maj@{k}")
        tied = self.mean(f"tied@{k}")
        if found is None or tied is None:
            return None
        return found | {"tied": tied["mean"]}

    def _tokens(self) -> dict[str, float] | None:
        if not self.lengths:
            return None
        record = {"mean": sum(self.lengths) / len(self.lengths)}
        for name, percent in QUANTILES.items():
            record[name] = float(np.percentile(self.lengths, percent))
        return record


def keep_figures(folder: Path, record: Mapping[str, Any]) -> None:
    """Add an evaluation's figures, from `Evaluated.to_record`, to `evaluation.json` in its folder."""
    kept = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    figures = {}
    for name, value in record.items():
        # The label is of this command, and the rest of `about` stands there already.
        if name != "label" and name not in kept:
            figures[name] = value
    kept[FIGURES] = figures
    write_json(folder / EVALUATION, kept)


def check_ks(ks: Sequence[int] | None, samples: int) -> None:
    """Raise a ValueError if k exceeds the number of completions per prompt."""
    if ks and max(ks) > samples:
        raise ValueError(
            f"pass@{max(ks)} needs as many completions a prompt (--samples), and there are {samples}."
        )


def read_evaluation(folder: Path, label: str, ks: Sequence[int] | None = None) -> Evaluated:
    """Read a recorded evaluation and compute its figures.

    `label` names the model in tables. `ks` holds the k of pass@k and maj@k; by default 1 and the number of completions
    per prompt.

    Raises:
        ValueError: if completions are missing from the record, or k exceeds the number of completions per prompt.
    """
    kept = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    # An earlier reading has left its figures there.
    kept.pop(FIGURES, None)
    about = {"label": label, **kept}
    check_ks(ks, about["samples"])
    found = Evaluated(about, ks or sorted({1, about["samples"]}))
    for card in RecordedRun(folder).cards("eval"):
        _add(found, card)
    wanted = about["prompts"] * about["samples"]
    if found.tally.rows != wanted:
        raise ValueError(
            f"{folder} has {found.tally.rows} of the {wanted} completions of its evaluation; make it again."
        )
    return found


def _add(found: Evaluated, card: Scorecard) -> None:
    found.tally.add(card)
    found.prompts += prompt_figures(card, found.ks)
    for row, verdict in enumerate(card.primary):
        if verdict is None or verdict.score is None or _has_failed(card, row):
            found.unjudged += 1
    found.lengths += card.tokens[np.isfinite(card.tokens)].tolist()
    known = [sample.truncated for sample in card.samples if sample.truncated is not None]
    found.cut += Estimate.share(sum(known), len(known))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFigures:
    """Figures of a prompt, averaged over its completions."""

    # A hash of prompt and dataset row, which pairs prompts of two evaluations.
    key: str
    # Figures by name: `pass@k`, `maj@k`, `tied@k`, `tokens`, and each term's mean score as `score/<term>`. Unknown
    # figures are missing.
    values: Mapping[str, float]


def prompt_figures(card: Scorecard, ks: Sequence[int]) -> Iterator[PromptFigures]:
    """Yield the figures of each prompt in a batch, with pass@k and maj@k for each k in `ks`."""
    for rows in card.members:
        first = card.samples[rows[0]]
        # Sorted, since two evaluations may have the columns in another order.
        identity = json.dumps(
            [first.prompt, dict(first.row)], sort_keys=True, default=text_for_json
        )
        key = hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest()
        values = {**_outcomes(card, rows, ks), **_term_scores(card, rows)}
        tokens = card.tokens[list(rows)]
        if np.isfinite(tokens).any():
            values["tokens"] = float(np.nanmean(tokens))
        yield PromptFigures(key=key, values=values)


def _outcomes(card: Scorecard, rows: Sequence[int], ks: Sequence[int]) -> dict[str, float]:
    """Compute pass@k, maj@k and tied@k from primary verdicts.

    Completions without a verdict, and those of failed rollouts, are left out. maj@k averages over disjoint votes of k
    completions each, so the mean is unbiased.
    """
    judged = []
    for row in rows:
        passed = passes(card.primary[row])
        if passed is not None and not _has_failed(card, row):
            judged.append((read_answer(card.primary[row]), passed))
    values: dict[str, float] = {}
    for k in ks:
        if len(judged) < k:
            continue
        right = sum(passed for _, passed in judged)
        values[f"pass@{k}"] = pass_at_k(len(judged), right, k)
        if k < FEWEST_VOTES:
            continue
        # Completions that are left over at the end are too few for another vote.
        starts = range(0, len(judged) - k + 1, k)
        votes = [majority(judged[start : start + k]) for start in starts]
        values[f"maj@{k}"] = sum(vote.right for vote in votes) / len(votes)
        values[f"tied@{k}"] = sum(vote.is_tied for vote in votes) / len(votes)
    return values


def _has_failed(card: Scorecard, row: int) -> bool:
    """Test for a void row of a failed environment; such a row counts as unjudged, not as a wrong answer."""
    outcome = card.samples[row].outcome
    return card.void[row] and outcome is not None and bool(outcome.error)


class Vote(NamedTuple):
    """A majority vote's result: the chosen answer's correctness in [0, 1], and a flag for tied answers."""

    right: float
    is_tied: bool


def majority(attempts: Sequence[tuple[str | None, bool]]) -> Vote:
    """Score a majority vote among attempts.

    An attempt is a completion's answer (None without an answer) and True if it is right. Tied answers contribute their
    mean correctness, the expected value of a random choice among them. An attempt without an answer casts no vote;
    without votes the score is 0.

    Examples:
        >>> majority([("4", True), ("5", False), ("4", True), (None, False)])
        Vote(right=1.0, is_tied=False)
        >>> majority([("4", True), ("5", False)])
        Vote(right=0.5, is_tied=True)
    """
    by_answer: dict[str, list[bool]] = defaultdict(list)
    for answer, right in attempts:
        if answer is not None:
            by_answer[answer].append(right)
    if not by_answer:
        return Vote(0.0, is_tied=False)
    most = max(map(len, by_answer.values()))
    shares = [sum(found) / most for found in by_answer.values() if len(found) == most]
    return Vote(sum(shares) / len(shares), is_tied=len(shares) > 1)


def _term_scores(card: Scorecard, rows: Sequence[int]) -> dict[str, float]:
    """Average raw scores per term over completions with a score from this term; terms without scores are missing."""
    means = {}
    for term in card.terms:
        scores = []
        for row in rows:
            verdict = card.verdicts[term][row]
            if verdict is None or verdict.score is None or verdict.left_out:
                continue
            scores.append(verdict.score)
        if scores:
            means[f"score/{term}"] = sum(scores) / len(scores)
    return means
