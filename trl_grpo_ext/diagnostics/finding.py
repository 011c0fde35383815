"""Findings: sentence about a run, numbers, one action."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from trl_grpo_ext.support.files import append_lines, read_lines

PAGE = "findings"
FILE = "findings.jsonl"


# Codes that are a part of another one now: a recipe, or a run recorded earlier, may hold them.
MERGED = {
    "starved_grader": "grader_trouble",
    "inconsistent_verifier": "noisy_verifier",
    "verifier_disagreement": "noisy_verifier",
    "unstable_updates": "kl_blowup",
    "all_wrong_groups": "dead_groups",
    "all_right_groups": "dead_groups",
    "saturated_term": "inert_term",
    "secondary_only": "wrong_driver",
}


class Severity(StrEnum):
    """How much it matters."""

    INFO = "info"
    """Worth knowing; the run may be fine."""
    WARNING = "warning"
    """The run learns less than it could, or something else than it should."""
    CRITICAL = "critical"
    """Going on is a waste."""

    @property
    def rank(self) -> int:
        """Rank: 0 information, 1 warning, 2 critical."""
        return list(Severity).index(self)

    @classmethod
    def critical_if(cls, is_waste: bool) -> Severity:
        """Critical, or else a warning."""
        return cls.CRITICAL if is_waste else cls.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Finding of a check.

    Attributes:
        code: Which check; codes are stable, `checks.CHECKS` lists them, and fills code and step in.
        step: The optimizer step of the latest batch that was looked at; None if it is unknown.
        severity: How much it matters.
        sentence: What is wrong, with the figures that say so.
        numbers: The figures, plain finite numbers by name.
        action: One thing to do.
        terms: The reward terms that it is about, the first one foremost; none if it is about the run.

    Raises:
        ValueError: for a number that is not finite.

    Examples:
        >>> Finding(code="bad_data", step=3, severity="warning", sentence="...", action="Mend the rows.").docs
        'trl-grpo-ext docs findings#bad_data'
    """

    code: str = ""
    step: int | None = None
    severity: Severity
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    action: str
    terms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "severity", Severity(self.severity))
        object.__setattr__(self, "terms", tuple(self.terms))
        for name, number in self.numbers.items():
            if not math.isfinite(number):
                raise ValueError(
                    f"The number {name!r} of a finding must be finite, got {number}."
                )

    @property
    def docs(self) -> str:
        """Where the finding is explained: a command, which works wherever the package is installed."""
        return f"trl-grpo-ext docs {PAGE}#{self.code}"

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values, the inverse of `from_record`."""
        return asdict(self) | {"severity": str(self.severity), "docs": self.docs}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Finding:
        """Read a finding from its record; merged codes get their current name."""
        # A run that was recorded before findings named their terms has none.
        found = cls(
            **{
                "terms": (),
                **{
                    each.name: record[each.name]
                    for each in fields(cls)
                    if each.name in record
                },
            }
        )
        return replace(found, code=MERGED.get(found.code, found.code))


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Answer of a check that lacks data."""

    # What is missing, such as `"a shadow term (weight 0)"`
    needs: str
    # Whether the check has found nothing in what it was given.
    in_part: bool = False


def append_finding(run_folder: str | os.PathLike[str], finding: Finding) -> None:
    """Append a line to the run's `findings.jsonl`."""
    append_lines(Path(run_folder) / FILE, [finding.to_record()])


def read_findings(run_folder: str | os.PathLike[str]) -> list[Finding]:
    """Read findings from `findings.jsonl`, in order; skip invalid lines."""
    found = []
    for record in read_lines(Path(run_folder) / FILE):
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            found.append(Finding.from_record(record))
    return found
