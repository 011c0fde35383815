"""The findings of a run and the one sentence that answers why its reward is as it is, for the page."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.diagnostics.diagnosis import Diagnosis, diagnose
from trl_grpo_ext.diagnostics.finding import Finding, read_findings
from trl_grpo_ext.report.plain_values import plain
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.support.documentation import read_docs

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReportedFindings:
    """What the checks have found.

    Attributes:
        sentence: What holds the reward back; None where nobody could say.
        findings: Plain dicts as `Finding.to_record` makes them, in order of their steps. `holds` is True for those
            that hold at the end; `about` is what the documentation says of them, by paragraphs.
        not_checked: By the code of a check, what it lacked.
    """

    sentence: str | None = None
    findings: tuple[dict[str, Any], ...] = ()
    not_checked: Mapping[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> frozenset[int]:
        """The steps at which something was found."""
        return frozenset(found["step"] for found in self.findings if isinstance(found["step"], int))


def findings_of(run: RecordedRun, *, seconds: float = math.inf) -> ReportedFindings:
    """The answer for a run, the findings that were written while it went on, and those that were not.

    Args:
        run: The run.
        seconds: How long looking for the answer may take, about.
    """
    diagnosis = _diagnosis(run, seconds)
    written = read_findings(run.folder)
    if diagnosis is None:
        return ReportedFindings(None, _in_order(written, frozenset()))
    codes = {found.code for found in written}
    unwritten = [found for found in diagnosis.findings if found.code not in codes]
    holding = frozenset(found.code for found in diagnosis.causes)
    # A run that is too short for a finding to begin may have causes all the same.
    begun = codes | {found.code for found in unwritten}
    at_once = [found for found in diagnosis.causes if found.code not in begun]
    findings = _in_order([*written, *unwritten, *at_once], holding)
    return ReportedFindings(diagnosis.sentence, findings, diagnosis.not_checked)


def _in_order(findings: list[Finding], holding: frozenset[str]) -> tuple[dict[str, Any], ...]:
    ordered = sorted(findings, key=lambda found: -1 if found.step is None else found.step)
    last = {found.code: found for found in ordered}
    return tuple(
        {name: plain(value) for name, value in found.to_record().items()}
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


def _diagnosis(run: RecordedRun, seconds: float) -> Diagnosis | None:
    try:
        return diagnose(run, most_examples=0, seconds=seconds)
    except Exception as error:  # the rest of the page is worth having
        logger.warning("No diagnosis for %s: %s", run.folder, error)
        return None
