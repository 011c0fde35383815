"""The cases of the diagnosis: simulated runs, and what a practitioner would want to be told of each.

They were written from the issue and the list of codes, by someone who had not read the checks.
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

FAULTY = WORSE_RUNS | FAULTY_RUNS | WIRING_RUNS  # by the kind of fault
HEALTHY = healthy_runs.RUNS | healthy_rewards.RUNS
CASES: dict[str, Case] = {name: case for kind in (*FAULTY.values(), HEALTHY) for name, case in kind.items()}


@dataclass(frozen=True)
class Said:
    """A case, and what was said of it."""

    name: str
    diagnosis: Diagnosis

    @property
    def case(self) -> Case:
        return CASES[self.name]

    @property
    def is_right(self) -> bool:
        """Whether a fault is named as expected, or nothing above information was told of a healthy run."""
        if not self.case.expected:
            return all(finding.severity is Severity.INFO for finding in self.diagnosis.findings)
        first = [cause.code for cause in self.diagnosis.causes[:1]]
        return bool(set(first) & set(self.case.expected)) and not self.case.missing(self.diagnosis.sentence)


def events_of(name: str) -> Iterator[Event]:
    """Scorecards, of training and evaluation, and (step, logs), in order; the same every time."""
    return simulate(name, CASES[name].run)


def diagnosed(name: str) -> Said:
    """What is said of a case."""
    return Said(name, diagnosis_of(events_of(name), CASES[name].run.settings))
