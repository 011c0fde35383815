"""The answer: what holds a run's reward back, in order of cause, in one sentence and in figures."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, TypeVar

from trl_grpo_ext.diagnostics.checks import CHECKS, wrong_driver
from trl_grpo_ext.diagnostics.example import Example, examples
from trl_grpo_ext.diagnostics.finding import Finding, Severity, read_findings
from trl_grpo_ext.diagnostics.headline import headline, rank
from trl_grpo_ext.diagnostics.progress import (
    Ends,
    evaluation_ends,
    has_risen,
    training_ends,
)
from trl_grpo_ext.diagnostics.watch import HOLD, Onsets, look_back
from trl_grpo_ext.diagnostics.window import RunView, Window, finds
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Scorecard

T = TypeVar("T")

# Of the last batches, for examples.
MOST_SEARCHED = 8

# Codes that still matter where the score is at its ceiling: they tell whether to believe the score, and its cost.
BEYOND_CEILING = frozenset(
    (
        "nonfinite_updates",
        "grader_trouble",
        "bad_data",
        "noisy_verifier",
        "reward_hacking",
        "getting_worse",
        "dead_groups",
        "label_hacks",
        "way_out",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Diagnosis of one run: sentence, causes, findings, examples."""

    # The answer.
    sentence: str
    # How high the score was at the start and at the end of `training` and of the `evaluation`; none where nothing was
    # judged.
    score: Mapping[str, Ends]
    # The findings that hold at the end of the run, the first cause first.
    causes: tuple[Finding, ...]
    # All findings as they began, oldest first.
    findings: tuple[Finding, ...]
    # What each check lacked at the end, by its code.
    not_checked: Mapping[str, str]
    # A few completions of the last batches that show the first cause.
    examples: tuple[Example, ...]
    # The last step that was recorded; None if it is unknown.
    step: int | None
    # The training batches that were read.
    batches: int

    def to_record(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "score": {where: ends.to_record() for where, ends in self.score.items()},
            "causes": [finding.to_record() for finding in self.causes],
            "findings": [finding.to_record() for finding in self.findings],
            "not_checked": dict(self.not_checked),
            "examples": [asdict(example) for example in self.examples],
            "step": self.step,
            "batches": self.batches,
        }


def diagnose(
    run: RecordedRun, *, most_examples: int = 3, seconds: float = math.inf
) -> Diagnosis:
    """Replay a recorded run through the checks, and diagnose its reward.

    The run may still go on, may have been killed, and may hold evaluations only. Batches that cannot be read are passed
    over. At most so many completions are quoted. Looking takes `seconds`, about: of a run that takes longer, fewer
    batches are looked at.
    """
    view = RunView(run.settings, run.folder)
    onsets = Onsets(dict(CHECKS))
    findings, batches = look_back(run, view, onsets, seconds=seconds)
    if batches:
        # Look once more, since logs came after the last batch.
        findings += onsets.look(view.window)
    found = conclude(view.window, onsets, _with_those_told(findings, run), batches)
    found = replace(found, sentence=found.sentence + _without_end(run, found))
    if not found.causes or not most_examples:
        return found
    shown = examples(_latest_cards(run), found.causes[0], most_examples)
    return replace(found, examples=tuple(shown))


def _latest_cards(run: RecordedRun) -> Iterator[Scorecard]:
    """Yield the last batches that can be read, the latest first."""
    latest_first = run.parts()[::-1]
    for number, _ in latest_first[:MOST_SEARCHED]:
        card = run.readable(number)
        if card is not None:
            yield card


def conclude(
    window: Window, onsets: Onsets, findings: Sequence[Finding], batches: int
) -> Diagnosis:
    """Diagnose a run from its final window, without examples.

    `onsets` has looked at it batch by batch, at so many training batches, and `findings` are what began, oldest first.
    """
    score = {}
    for where, ends in (
        ("evaluation", evaluation_ends(window)),
        ("training", training_ends(window)),
    ):
        if ends is not None and ends.end.count:
            score[where] = ends
    active = _at_the_end(window, onsets) if batches >= HOLD else _at_once(window)
    # Where the term that judges the answers still waits, another one is solved.
    if window.is_solved and not finds(window, wrong_driver.not_yet):
        # An observed ceiling may be a term's only value.
        told = BEYOND_CEILING if window.scale.is_known else BEYOND_CEILING | {"inert_term"}
        active = {code: finding for code, finding in active.items() if code in told}
    causes = tuple(sorted(_in_order(active).values(), key=rank))
    return Diagnosis(
        sentence=headline(causes, findings, window),
        score=score,
        causes=causes,
        findings=tuple(findings),
        not_checked=_in_order(onsets.not_checked),
        examples=(),
        step=window.step,
        batches=batches,
    )


def _in_order(by_code: Mapping[str, T]) -> dict[str, T]:
    """Sort results of checks by the order of the checks."""
    return {code: by_code[code] for code in CHECKS if code in by_code}


def _without_end(run: RecordedRun, found: Diagnosis) -> str:
    """Tell of a training whose last steps and last log are missing; empty where no logs are recorded."""
    settings = run.settings
    steps = settings.get("max_steps") or 0
    # AsyncGRPO's rollout loop, whose deviation is of the population, records no logs.
    is_async = settings.get("advantage_deviation") == "population"
    if is_async or not found.batches or found.step is None or 0 < steps <= found.step + 1:
        return ""
    logs = run.logs
    has_logs = logs or found.step < (settings.get("logging_steps") or 0)
    # TRL's last log of a training has its time.
    if not has_logs or any(
        "train_runtime" in entry and entry["step"] > found.step for entry in logs
    ):
        return ""
    whole = f" of {steps}" if steps > 0 else ""
    return f" The record stops after step {found.step}{whole}: the run still goes on, or was ended before its time."


def _with_those_told(found: Sequence[Finding], run: RecordedRun) -> list[Finding]:
    """Merge recorded findings with found ones: recorded findings saw batches since deleted."""
    findings = read_findings(run.folder)
    codes = {finding.code for finding in findings}
    findings += [finding for finding in found if finding.code not in codes]
    return sorted(
        findings, key=lambda finding: -1 if finding.step is None else finding.step
    )


def _at_the_end(window: Window, onsets: Onsets) -> dict[str, Finding]:
    """Findings active at the end, plus a fall in the final evaluation, which has no later batch.

    A finding is over after many batches without it. Information that no longer holds in a run whose score has risen is
    left out at once.
    """
    active = {}
    for code, finding in onsets.active.items():
        is_passing = finding.severity is Severity.INFO and has_risen(window)
        if not is_passing or isinstance(CHECKS[code](window), Finding):
            active[code] = finding
    fall = CHECKS["getting_worse"](window)
    if isinstance(fall, Finding):
        active[fall.code] = fall
    return active


def _at_once(window: Window) -> dict[str, Finding]:
    """Run checks once, for a run too short for onsets."""
    active = {}
    for code, check in CHECKS.items():
        found = check(window)
        if isinstance(found, Finding):
            active[code] = found
    return active


# Logs, as many as checks look at batches.
RECENT = 16

_SHARE = re.compile(r"verified/(?:(?P<term>.+)/driver_share|drivers/others)")
OTHERS = "other reward functions"


def recent_drivers(logs: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The mean driver share of each term over the latest logs that know it, the largest first; the shares sum to 1.

    Shadows and what has no share are left out; empty if nothing is known, as for a run that had no live group.

    Examples:
        >>> recent_drivers([{"verified/short/driver_share": 0.25, "verified/accuracy/driver_share": 0.75}])
        {'accuracy': 0.75, 'short': 0.25}
    """
    known = deque(filter(None, map(_shares, logs)), maxlen=RECENT)
    means: dict[str, float] = {}
    for shares in known:
        for term in shares:
            means[term] = fmean(other.get(term, 0.0) for other in known)
    present = [(term, mean) for term, mean in means.items() if mean]
    return dict(sorted(present, key=lambda item: (-item[1], item[0])))


def _shares(entry: Mapping[str, Any]) -> dict[str, float]:
    shares = {}
    for name, value in entry.items():
        found = _SHARE.fullmatch(name)
        if found and isinstance(value, int | float) and math.isfinite(value):
            shares[found["term"] or OTHERS] = float(value)
    return shares
