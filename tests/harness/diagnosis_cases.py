"""Diagnosis cases: simulated runs, each with the finding that a practitioner would want.

The author wrote the cases from the issue and the list of codes, without reading the checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import healthy_rewards
import healthy_runs
from diagnosis_simulator import Case, Event, simulate
from faulty_runs import RUNS as FAULTY_RUNS
from windows import diagnosis_of
from wiring_runs import RUNS as WIRING_RUNS
from worse_runs import RUNS as WORSE_RUNS

from trl_grpo_ext.diagnostics.diagnosis import Diagnosis
from trl_grpo_ext.diagnostics.finding import Severity

# Kind of fault -> case name -> case.
FAULTY = WORSE_RUNS | FAULTY_RUNS | WIRING_RUNS
HEALTHY = healthy_runs.RUNS | healthy_rewards.RUNS
CASES: dict[str, Case] = {
    name: case for kind in (*FAULTY.values(), HEALTHY) for name, case in kind.items()
}


@dataclass(frozen=True)
class Said:
    """A case with its diagnosis."""

    name: str
    diagnosis: Diagnosis

    @property
    def case(self) -> Case:
        return CASES[self.name]

    @property
    def is_right(self) -> bool:
        """True if the first cause is as expected, or a healthy run has no finding above information."""
        if not self.case.expected:
            return all(
                finding.severity is Severity.INFO for finding in self.diagnosis.findings
            )
        first = [cause.code for cause in self.diagnosis.causes[:1]]
        return bool(set(first) & set(self.case.expected)) and not self.case.missing(
            self.diagnosis.sentence
        )


def events_of(name: str) -> Iterator[Event]:
    """Yield a case's scorecards (training and evaluation) and (step, logs) pairs in order, deterministically."""
    return simulate(name, CASES[name].run)


def diagnosed(name: str) -> Said:
    """Diagnose a case by name."""
    return Said(name, diagnosis_of(events_of(name), CASES[name].run.settings))
