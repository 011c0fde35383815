"""A run as the page shows it, gathered batch by batch, in any order and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trl_grpo_ext.report.agreement import TermAgreement
from trl_grpo_ext.report.group_record import GroupView
from trl_grpo_ext.report.judged_batch import JudgedBatch
from trl_grpo_ext.report.kept_groups import KeptGroups
from trl_grpo_ext.report.log_columns import log_columns
from trl_grpo_ext.report.plain_values import plain
from trl_grpo_ext.report.prompts import Prompts
from trl_grpo_ext.report.reported_findings import ReportedFindings
from trl_grpo_ext.report.tally import tally
from trl_grpo_ext.report.timeline import Timeline
from trl_grpo_ext.scorecard import Scorecard

MODES = ("train", "eval")


class ReportedRun:
    """What the page shows of one run.

    Args:
        name: What the run is called in the page.
        settings: Its settings, as `RecordedRun.settings` has them.
        findings: What the checks have found.
        kept: Takes the groups whose completions can be read in the page.
        weights: Those in force in each batch of the run, in order, whether it will be added or not. They tell the
            terms, and which of them have been trained on.

    Example:
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
        self._agreements = {mode: TermAgreement() for mode in MODES}
        self._prompts = {mode: Prompts() for mode in MODES}
        for in_force in weights:
            self._note(in_force)

    def _note(self, weights: Mapping[str, float]) -> None:
        """Take the terms of a batch in."""
        self._terms |= dict.fromkeys(weights)
        self._trained_on |= {term for term, weight in weights.items() if weight != 0}

    def add(self, card: Scorecard, number: int | None = None) -> None:
        """Take a batch in. One without samples or terms says nothing.

        Args:
            card: The batch.
            number: Its place in the run; by default after those that have been added.
        """
        if not len(card) or not card.terms:
            return
        number = self.batches if number is None else number
        step = number if card.step is None else card.step
        self.batches += 1
        self._note(card.weights)
        batch = JudgedBatch(card, self._trained_on)
        self._timelines[card.mode].add(step, tally(batch, self.settings))
        self._agreements[card.mode].add(batch)
        self._prompts[card.mode].add(batch, step)
        for place in range(len(batch.groups)):
            self.kept.add(GroupView(batch, place, step, number))

    def page_data(self, logs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """What the page is made of: plain values, without NaN.

        Args:
            logs: The run's, as `RecordedRun.logs` has them.
        """
        mode = "train" if len(self._timelines["train"]) else "eval"
        kept = self.kept.records()
        prompt_texts = {record["prompt"]: record["messages"] for record in kept}
        places = {key: place for place, key in enumerate(prompt_texts)}
        return {
            "name": self.name,
            "terms": list(self._terms),
            "settings": plain(self.settings),
            "sentence": self.findings.sentence,
            "findings": list(self.findings.findings),
            "not_checked": [[code, needs] for code, needs in self.findings.not_checked.items()],
            "main_mode": mode,
            "train": self._timelines["train"].columns(),
            "eval": self._timelines["eval"].columns(),
            "logs": log_columns(logs),
            "shadows": [found for found in self._agreements[mode].shadows() if found["term"] not in self._trained_on],
            "correlations": self._agreements[mode].correlations(),
            "prompts": self._prompts[mode].table({key: places[key] for key in _prompts_of(kept, mode)}),
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


def _prompts_of(records: Iterable[Mapping[str, Any]], mode: str) -> set[int]:
    """The keys of the prompts of a mode's groups."""
    return {record["prompt"] for record in records if record["mode"] == mode}
