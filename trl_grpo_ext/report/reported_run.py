"""A run for the page: figures collected batch by batch, in any order and in bounded memory, and findings."""

from __future__ import annotations

import itertools
import logging
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trl_grpo_ext.diagnostics.diagnosis import diagnose
from trl_grpo_ext.diagnostics.finding import Finding, read_findings
from trl_grpo_ext.diagnostics.progress import Ends
from trl_grpo_ext.figures.arrays import centred
from trl_grpo_ext.figures.primary import Agreement
from trl_grpo_ext.figures.reduction import BatchFigures, reduce_card
from trl_grpo_ext.report.group_record import groups_of
from trl_grpo_ext.report.kept_groups import KeptGroups
from trl_grpo_ext.report.page import DIGITS, rounded
from trl_grpo_ext.report.prompts import Prompts
from trl_grpo_ext.report.series import (
    Timeline,
    key_figures,
    log_columns,
    reward_margins,
    series_figures,
)
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.documentation import read_docs
from trl_grpo_ext.support.files import plain

logger = logging.getLogger(__name__)

MODES = ("train", "eval")
# Largest sum of squares that rounding can produce for values constant within each group.
FLAT = 1e-12


class ReportedRun:
    """The page's data for a run, collected batch by batch.

    `kept` chooses the completions of the page; None for a page of figures only. `weights` holds each batch's weights by
    term, in run order, also for batches that will not be added: they tell the run's terms, and the terms with training
    weight.

    Examples:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> run = ReportedRun("a run")
        >>> run.add(mix.score([Sample(text="42", step=0), Sample(text="many", step=0)]))
        >>> run.page_data()["train"]["figures"]["reward"]
        [0.5]
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        findings: ReportedFindings | None = None,
        kept: KeptGroups | None = None,
        weights: Iterable[Mapping[str, float]] = (),
    ) -> None:
        self.name = name
        self.settings = dict(settings or {})
        self.findings = findings or ReportedFindings()
        self.kept = kept
        self.batches = 0
        self._completions: Counter[str] = Counter()
        self._terms: dict[str, None] = {}
        self._trained_on: frozenset[str] = frozenset()
        self._timelines = {mode: Timeline() for mode in MODES}
        self._agreements = {mode: _TermAgreement() for mode in MODES}
        self._prompts = {mode: Prompts() for mode in MODES}
        for in_force in weights:
            self._note(in_force)

    def _note(self, weights: Mapping[str, float]) -> None:
        """Record a batch's terms, and its terms with training weight."""
        # A dict instead of a set keeps the terms in the order of the mix.
        self._terms.update(dict.fromkeys(weights))
        self._trained_on |= {term for term, weight in weights.items() if weight != 0}

    def add(self, card: Scorecard, number: int | None = None) -> None:
        """Add a batch; an empty batch is ignored.

        `number` is its position in the run; by default it follows the batches added so far.
        """
        if not len(card) or not card.terms:
            return
        if number is None:
            number = self.batches
        step = card.step
        # A batch of unknown step stands at its place in the run.
        if step is None:
            step = number
        self.batches += 1
        self._note(card.weights)
        figures = reduce_card(card, self.settings)
        self._timelines[card.mode].add(step, series_figures(figures))
        self._agreements[card.mode].add(card, figures)
        self._completions[card.mode] += len(card)
        if self.kept is not None:
            self._add_groups(card, self.kept, number=number, step=step)

    def _add_groups(
        self, card: Scorecard, kept: KeptGroups, *, number: int, step: int
    ) -> None:
        shadows: list[str] = []
        # Without a term in force there is no primary verdict to compare a shadow with.
        if card.in_force:
            shadows = [term for term in card.terms if term not in self._trained_on]
        for group in groups_of(card, number=number, step=step, shadows=shadows):
            passed = group.passes
            prompt = card.samples[group.members[0]].prompt
            self._prompts[card.mode].add(
                prompt,
                step,
                passed=sum(passed),
                judged=len(passed),
            )
            kept.add(group)

    def _series(self, mode: str) -> dict[str, Any]:
        """Return chart columns; only shadow terms that never had weight are compared with the primary term."""
        columns = self._timelines[mode].columns()
        fooled = columns["figures"].get("fooled", {})
        for term in self._trained_on & set(fooled):
            del fooled[term]
        return columns

    def page_data(self, logs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Return the page's data: plain values, without NaN.

        `logs` are the run's, as in `RecordedRun.logs`.
        """
        mode = "train" if len(self._timelines["train"]) else "eval"
        records = [] if self.kept is None else self.kept.records()
        prompts = _PagePrompts(records)
        evaluation = self._series("eval")
        evaluation["margins"] = reward_margins(self._timelines["eval"])
        return {
            "name": self.name,
            "terms": list(self._terms),
            "settings": plain(self.settings, DIGITS),
            "sentence": self.findings.sentence,
            "key_figures": key_figures(self.findings.score, self._timelines[mode], mode),
            "findings": list(self.findings.findings),
            "not_checked": [
                [code, needs] for code, needs in self.findings.not_checked.items()
            ],
            "main_mode": mode,
            "train": self._series("train"),
            "eval": evaluation,
            "logs": log_columns(logs),
            "shadows": self._agreements[mode].shadows(without=self._trained_on),
            "correlations": self._agreements[mode].correlations(),
            "prompts": self._prompts[mode].table(prompts.places_in(mode)),
            "prompt_texts": prompts.texts,
            "groups": [prompts.with_place(record) for record in records],
            "completions": {
                "kept": sum(len(record["members"]) for record in records),
                "all": self._completions.total(),
                "evaluated": self._completions["eval"],
            },
            "batches": self.batches,
        }


class _PagePrompts:
    """The prompts of a page's groups, each once, since many groups share a prompt.

    A record of a group has its prompt's key as `prompt`, and the prompt's text as `messages`.
    """

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.records = records
        self.texts: list[Any] = []
        # A prompt's place in `texts`, by its key.
        self._places: dict[int, int] = {}
        for record in records:
            if record["prompt"] not in self._places:
                self._places[record["prompt"]] = len(self.texts)
                self.texts.append(record["messages"])

    def places_in(self, mode: str) -> dict[int, int]:
        """Return places of a mode's prompts, by prompt key."""
        places = {}
        for record in self.records:
            if record["mode"] == mode:
                key = record["prompt"]
                places[key] = self._places[key]
        return places

    def with_place(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Replace a record's prompt by its place."""
        group = dict(record)
        del group["messages"]
        group["prompt"] = self._places[record["prompt"]]
        return group


@dataclass(frozen=True, slots=True)
class _Products:
    """Sums of squares and products of two terms' values minus their group's mean; sums of several batches add up."""

    xx: float = 0.0
    yy: float = 0.0
    xy: float = 0.0

    def __add__(self, other: _Products) -> _Products:
        return _Products(
            xx=self.xx + other.xx,
            yy=self.yy + other.yy,
            xy=self.xy + other.xy,
        )

    @property
    def correlation(self) -> float | None:
        """Correlation within groups, in [-1, 1]; None for a term with constant values in all groups."""
        if min(self.xx, self.yy) <= FLAT:
            return None
        return self.xy / math.sqrt(self.xx * self.yy)


# Values too large to be squared overflow, and their correlation stays unknown.
@np.errstate(all="ignore")
def _value_products(card: Scorecard) -> dict[tuple[str, str], _Products]:
    """Compute `_Products` for each pair of terms in a batch."""
    columns = {}
    for term, column in zip(card.terms, card.value_matrix.T, strict=True):
        columns[term] = centred(card.by_group(column)).ravel()
    products = {}
    for first, second in itertools.combinations(card.terms, 2):
        x = columns[first]
        y = columns[second]
        # Only completions with a value of both terms tell of the pair.
        both = np.isfinite(x) & np.isfinite(y)
        x = x[both]
        y = y[both]
        products[first, second] = _Products(
            xx=float(x @ x), yy=float(y @ y), xy=float(x @ y)
        )
    return products


class _TermAgreement:
    """Agreement between terms over batches: pass counts against the primary term, and correlations within groups."""

    def __init__(self) -> None:
        self._shadows: dict[str, Agreement] = {}
        self._products: dict[tuple[str, str], _Products] = {}

    def add(self, card: Scorecard, figures: BatchFigures) -> None:
        for term, found in figures.agreements.items():
            self._shadows[term] = self._shadows.get(term, Agreement()) + found
        for pair, products in _value_products(card).items():
            so_far = self._products.get(pair, _Products())
            self._products[pair] = so_far + products

    def shadows(self, without: Collection[str]) -> list[dict[str, Any]]:
        """Return a dict per shadow term: `term`, `table` and `kappa`.

        `table` counts completions in the order [both pass, only the primary term, only the shadow, neither]. `kappa` is
        Cohen's kappa; None if undefined.
        """
        shadows = []
        for term, found in self._shadows.items():
            if not found.size or term in without:
                continue
            shadow = {
                "term": term,
                "table": [found.both, found.primary_only, found.shadow_only, found.neither],
                "kappa": rounded(found.kappa),
            }
            shadows.append(shadow)
        return shadows

    def correlations(self) -> list[dict[str, Any]]:
        """Return a dict per pair of terms: `first`, `second` and `correlation`, as `_Products.correlation`."""
        pairs = []
        for (first, second), products in self._products.items():
            pair = {
                "first": first,
                "second": second,
                "correlation": rounded(products.correlation),
            }
            pairs.append(pair)
        return pairs


@dataclass(frozen=True, slots=True)
class ReportedFindings:
    """Diagnosis and findings of a run."""

    # The diagnosis in a sentence; None if the diagnosis failed.
    sentence: str | None = None
    # Scores behind the diagnosis, as in `Diagnosis.score`.
    score: Mapping[str, Ends] = field(default_factory=dict)
    # Dicts of `Finding.to_record`, in order of steps, with two more keys: `holds` is True if the finding holds at the
    # end of the run, and `about` lists the documentation's paragraphs.
    findings: tuple[dict[str, Any], ...] = ()
    # By code of a skipped check: the data that it lacked.
    not_checked: Mapping[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> frozenset[int]:
        steps = [found["step"] for found in self.findings]
        return frozenset(step for step in steps if isinstance(step, int))


def findings_of(run: RecordedRun, *, seconds: float = math.inf) -> ReportedFindings:
    """Diagnose a run, and return the diagnosis with all findings.

    The diagnosis takes about `seconds`. If it fails, only findings recorded during the run are returned.
    """
    try:
        found = diagnose(run, most_examples=0, seconds=seconds)
    # The rest of the page is useful without a diagnosis.
    except Exception as error:
        logger.warning("No diagnosis for %s: %s", run.folder, error)
        return ReportedFindings(findings=_in_order(read_findings(run.folder), frozenset()))
    holding = frozenset(cause.code for cause in found.causes)
    begun = {finding.code for finding in found.findings}
    # A short run may have causes even though no finding had the steps to begin.
    at_once = [finding for finding in found.causes if finding.code not in begun]
    return ReportedFindings(
        sentence=found.sentence,
        score=found.score,
        findings=_in_order([*found.findings, *at_once], holding),
        not_checked=found.not_checked,
    )


def _in_order(
    findings: Sequence[Finding], holding: frozenset[str]
) -> tuple[dict[str, Any], ...]:
    # A finding of unknown step comes first.
    ordered = sorted(findings, key=lambda found: -1 if found.step is None else found.step)
    # Of several findings of one code, only the last can still hold.
    last = {found.code: found for found in ordered}
    records = []
    for found in ordered:
        record = plain(found.to_record(), DIGITS)
        is_last = last[found.code] is found
        record["holds"] = is_last and found.code in holding
        record["about"] = _about(found.code)
        records.append(record)
    return tuple(records)


def _about(code: str) -> list[str]:
    """Quote the documentation's paragraphs on a finding; an empty list for a code of another version.

    Readers of the page may not have the documentation.
    """
    try:
        _, _, text = read_docs(f"findings#{code}").partition("\n")
    except (OSError, ValueError):
        return []
    # Keep a link's words only.
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    paragraphs = text.strip().split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph]
