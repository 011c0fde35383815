"""A run as the page shows it: figures, gathered batch by batch in any order and in bounded memory, and findings."""

from __future__ import annotations

import itertools
import logging
import math
import re
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
from trl_grpo_ext.report.series import Timeline, key_figures, log_columns, reward_margins, series_figures
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.documentation import read_docs
from trl_grpo_ext.support.files import plain

logger = logging.getLogger(__name__)

MODES = ("train", "eval")
FLAT = 1e-12  # a sum of squares of values that never differ within a group, but for rounding


class ReportedRun:
    """What the page shows of one run.

    `weights` are those in force in each batch of the run, in order, whether it will be added or not: they tell the
    terms, and which of them have been trained on.

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
        self.kept = kept or KeptGroups(cited=self.findings.steps)
        self.batches = 0
        self._terms: dict[str, None] = {}
        self._trained_on: frozenset[str] = frozenset()
        self._timelines = {mode: Timeline() for mode in MODES}
        self._agreements = {mode: _TermAgreement() for mode in MODES}
        self._prompts = {mode: Prompts() for mode in MODES}
        for in_force in weights:
            self._note(in_force)

    def _note(self, weights: Mapping[str, float]) -> None:
        """Take the terms of a batch in."""
        self._terms |= dict.fromkeys(weights)
        self._trained_on |= {term for term, weight in weights.items() if weight != 0}

    def add(self, card: Scorecard, number: int | None = None) -> None:
        """Take a batch in. One without samples or terms says nothing.

        `number` is its place in the run; by default after those that have been added.
        """
        if not len(card) or not card.terms:
            return
        number = self.batches if number is None else number
        step = number if card.step is None else card.step
        self.batches += 1
        self._note(card.weights)
        figures = reduce_card(card, self.settings)
        self._timelines[card.mode].add(step, series_figures(figures))
        self._agreements[card.mode].add(card, figures)
        shadows = [term for term in card.terms if term not in self._trained_on] if card.in_force else []
        for group in groups_of(card, number=number, step=step, shadows=shadows):
            passed = group.passes
            prompt = card.samples[group.members[0]].prompt
            self._prompts[card.mode].add(prompt, step, passed=sum(passed), judged=len(passed))
            self.kept.add(group)

    def _series(self, mode: str) -> dict[str, Any]:
        """The charts' columns; what is set against the primary term are shadows that were never trained on."""
        columns = self._timelines[mode].columns()
        fooled = columns["figures"].get("fooled", {})
        for term in self._trained_on & set(fooled):
            del fooled[term]
        return columns

    def page_data(self, logs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """What the page is made of: plain values, without NaN.

        Logs are the run's, as `RecordedRun.logs` has them.
        """
        mode = "train" if len(self._timelines["train"]) else "eval"
        kept = self.kept.records()
        prompt_texts = {record["prompt"]: record["messages"] for record in kept}
        places = {key: place for place, key in enumerate(prompt_texts)}
        of_mode = {record["prompt"] for record in kept if record["mode"] == mode}
        return {
            "name": self.name,
            "terms": list(self._terms),
            "settings": plain(self.settings, DIGITS),
            "sentence": self.findings.sentence,
            "key_figures": key_figures(self.findings.score, self._timelines[mode], mode),
            "findings": list(self.findings.findings),
            "not_checked": [[code, needs] for code, needs in self.findings.not_checked.items()],
            "main_mode": mode,
            "train": self._series("train"),
            "eval": self._series("eval") | {"margins": reward_margins(self._timelines["eval"])},
            "logs": log_columns(logs),
            "shadows": self._agreements[mode].shadows(without=self._trained_on),
            "correlations": self._agreements[mode].correlations(),
            "prompts": self._prompts[mode].table({key: places[key] for key in of_mode}),
            "prompt_texts": list(prompt_texts.values()),
            "groups": [
                {name: value for name, value in record.items() if name != "messages"}
                | {"prompt": places[record["prompt"]]}
                for record in kept
            ],
            "completions": {
                "kept": sum(len(record["members"]) for record in kept),
                "all": self.kept.completions_met,
            },
            "batches": self.batches,
        }


@np.errstate(all="ignore")  # of values too large to be squared nothing can be told
def _value_products(card: Scorecard) -> dict[tuple[str, str], tuple[float, ...]]:
    """For each pair of terms, `(xx, yy, xy)`: sums of squares and products of their values less their groups' means.

    Those of several batches add up, and xy / sqrt(xx yy) is the correlation within groups.
    """
    grouped = [centred(card.by_group(column)).ravel() for column in card.value_matrix.T]
    columns = dict(zip(card.terms, grouped, strict=True))
    products: dict[tuple[str, str], tuple[float, ...]] = {}
    for pair in itertools.combinations(card.terms, 2):
        x, y = (columns[term] for term in pair)
        both = np.isfinite(x) & np.isfinite(y)
        x, y = x[both], y[both]
        products[pair] = (float(x @ x), float(y @ y), float(x @ y))
    return products


class _TermAgreement:
    """How the terms go together, added up over batches: whom shadows pass, and how values move within a group."""

    def __init__(self) -> None:
        self._shadows: dict[str, Agreement] = {}
        self._products: dict[tuple[str, str], tuple[float, ...]] = {}

    def add(self, card: Scorecard, figures: BatchFigures) -> None:
        for term, found in figures.agreements.items():
            self._shadows[term] = self._shadows.get(term, Agreement()) + found
        for pair, products in _value_products(card).items():
            so_far = self._products.get(pair, (0.0, 0.0, 0.0))
            self._products[pair] = tuple(map(sum, zip(so_far, products, strict=True)))

    def shadows(self, without: Collection[str]) -> list[dict[str, Any]]:
        """One dict a shadow: `term`, `table` and `kappa`.

        `table` has the completions that [both pass, only the primary term, only the shadow, neither]; `kappa` is
        Cohen's, None where it is not defined.
        """
        return [
            {
                "term": term,
                "table": [found.both, found.primary_only, found.shadow_only, found.neither],
                "kappa": rounded(found.kappa),
            }
            for term, found in self._shadows.items()
            if found.size and term not in without
        ]

    def correlations(self) -> list[dict[str, Any]]:
        """One dict a pair of terms: `first, second, correlation`.

        The correlation is that of their values less their groups' means, in [-1, 1]; None where one of them never
        differs within a group.
        """
        return [
            {
                "first": first,
                "second": second,
                "correlation": rounded(xy / math.sqrt(xx * yy)) if min(xx, yy) > FLAT else None,
            }
            for (first, second), (xx, yy, xy) in self._products.items()
        ]


@dataclass(frozen=True, slots=True)
class ReportedFindings:
    """What the checks have found."""

    sentence: str | None = None  # what holds the reward back; None if the diagnosis failed
    score: Mapping[str, Ends] = field(default_factory=dict)  # the scores that it goes by, as `Diagnosis.score`
    # Plain dicts as `Finding.to_record` makes them, in order of their steps. `holds` is True for those that hold at
    # the end; `about` is what the documentation says of them, by paragraphs.
    findings: tuple[dict[str, Any], ...] = ()
    not_checked: Mapping[str, str] = field(default_factory=dict)  # what each check lacked, by its code

    @property
    def steps(self) -> frozenset[int]:
        return frozenset(found["step"] for found in self.findings if isinstance(found["step"], int))


def findings_of(run: RecordedRun, *, seconds: float = math.inf) -> ReportedFindings:
    """The answer for a run, and all findings; without an answer those that were told while it went on.

    Looking for the answer takes `seconds`, about.
    """
    try:
        found = diagnose(run, most_examples=0, seconds=seconds)
    except Exception as error:  # the rest of the page is still useful
        logger.warning("No diagnosis for %s: %s", run.folder, error)
        return ReportedFindings(findings=_in_order(read_findings(run.folder), frozenset()))
    holding, begun = (frozenset(one.code for one in some) for some in (found.causes, found.findings))
    # A run that is too short for a finding to begin may have causes all the same.
    at_once = [one for one in found.causes if one.code not in begun]
    findings = _in_order([*found.findings, *at_once], holding)
    return ReportedFindings(found.sentence, found.score, findings, found.not_checked)


def _in_order(findings: Sequence[Finding], holding: frozenset[str]) -> tuple[dict[str, Any], ...]:
    ordered = sorted(findings, key=lambda found: -1 if found.step is None else found.step)
    last = {found.code: found for found in ordered}
    return tuple(
        {name: plain(value, DIGITS) for name, value in found.to_record().items()}
        | {"holds": found.code in holding and last[found.code] is found, "about": _about(found.code)}
        for found in ordered
    )


def _about(code: str) -> list[str]:
    """The section of the documentation, whose readers may be without it; nothing for a code of another version."""
    try:
        _, _, text = read_docs(f"findings#{code}").partition("\n")
    except (OSError, ValueError):
        return []
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)  # the words of a link
    return [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n") if paragraph]
