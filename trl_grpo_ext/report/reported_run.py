"""A run as the page shows it, gathered batch by batch in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
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
    ) -> None:
        self.name = name
        self.settings = dict(settings or {})
        self.findings = findings or ReportedFindings()
        self.kept = kept or KeptGroups(cited=self.findings.steps)
        self.terms: dict[str, float] = {}  # with the weight last in force
        self.batches = 0
        self._trained_on: frozenset[str] = frozenset()
        self._timelines = {mode: Timeline() for mode in MODES}
        self._agreements = {mode: TermAgreement() for mode in MODES}
        self._prompts = Prompts()

    def add(self, card: Scorecard) -> None:
        """Take a batch in. One without samples or terms says nothing."""
        if not len(card) or not card.terms:
            return
        step = card.step if card.step is not None else self.batches
        self.batches += 1
        self.terms |= card.weights
        self._trained_on |= frozenset(card.in_force)
        batch = JudgedBatch(card, self._trained_on)
        self._timelines[card.mode].add(step, tally(batch, self.settings))
        self._agreements[card.mode].add(batch)
        self._prompts.add(batch, step)
        for place in range(len(batch.groups)):
            self.kept.add(GroupView(batch, place, step))

    def page_data(self, logs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """What the page is made of: plain values, without NaN.

        Args:
            logs: The run's, as `RecordedRun.logs` has them.
        """
        mode = "train" if len(self._timelines["train"]) else "eval"
        place: dict[str, int] = {}
        groups = [record | {"prompt": place.setdefault(record["prompt"], len(place))} for record in self.kept.records()]
        prompts = self._prompts.table(mode, place)
        return {
            "name": self.name,
            "terms": list(self.terms),
            "settings": plain(self.settings),
            "sentence": self.findings.sentence,
            "findings": list(self.findings.findings),
            "not_checked": [[code, needs] for code, needs in self.findings.not_checked.items()],
            "main_mode": mode,
            "train": self._timelines["train"].columns(),
            "eval": self._timelines["eval"].columns(),
            "logs": log_columns(logs or []),
            "shadows": [found for found in self._agreements[mode].shadows() if found["term"] not in self._trained_on],
            "correlations": self._agreements[mode].correlations(),
            "prompts": prompts,
            "prompt_texts": self._prompts.texts(place),
            "groups": groups,
            "completions": {
                "kept": sum(len(record["members"]) for record in groups),
                "all": self.kept.completions_met,
            },
            "batches": self.batches,
        }
