"""The static part of an audit: every probe is written for every task, and the reward says what it pays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trl_grpo_ext.audit.probes import FORMS, OTHER, PROBES, Probe, Said
from trl_grpo_ext.audit.task import Task
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.estimate import Estimate, Interval, score_interval
from trl_grpo_ext.verdict import Blame

TRIED = 12  # tasks that show in which form the reward wants its answers
WORST = 2  # cases that are kept of each probe


@dataclass(frozen=True, kw_only=True)
class Case:
    """A completion, and what it earned; `reason` is the verifier's, or why there is no score."""

    prompt: Any
    gold: str
    completion: str
    score: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What came of a probe."""

    name: str  # the probe's
    pays: bool  # whether it must be paid
    completions: int  # how many were scored
    paid: Interval | None  # the share that was paid, with its interval over the tasks; None if none was scored
    bad: int  # how many were paid that must not be, or the other way round
    failures: dict[str, int]  # how often the reward broke, by the reason
    worst: tuple[Case, ...]  # of the bad, those furthest off; of failures the first one

    @property
    def outcome(self) -> str:
        """What is wrong, in a word; empty if nothing is."""
        return "BROKE" if self.failures else ("REFUSED" if self.pays else "HOLE") if self.bad else ""


@dataclass(frozen=True, kw_only=True)
class StaticAudit:
    """What all probes came to."""

    kind: str  # whether answers or programs were asked for
    tasks: int  # how many rows were probed
    form: str  # the form of a right answer that earns most
    gold_score: float  # what the gold earns in that form, on average; NaN if nothing could be scored
    # The results: of holes, those that were paid and must not be, of refusals, those that must be paid and were not
    # always.
    probes: tuple[ProbeResult, ...]

    @property
    def holes(self) -> list[ProbeResult]:
        return [probe for probe in self.probes if probe.bad and not probe.pays]

    @property
    def refusals(self) -> list[ProbeResult]:
        return [probe for probe in self.probes if probe.bad and probe.pays]

    @property
    def breaks_on_gold(self) -> bool:
        """Whether it failed on the gold of every row, so that nothing is known of it."""
        return math.isnan(self.gold_score) and bool(self.broken)

    @property
    def broken(self) -> list[ProbeResult]:
        return [probe for probe in self.probes if probe.failures]

    @property
    def is_clean(self) -> bool:
        return not any(probe.outcome for probe in self.probes)

    @property
    def ignores_the_gold(self) -> bool:
        """Whether what is right for another row is always paid."""
        return any(probe.name == OTHER and probe.bad == probe.completions > 0 for probe in self.probes)

    def to_record(self) -> dict[str, Any]:
        return {"clean": self.is_clean, **asdict(self)}


def is_paid(score: float, gold_score: float) -> bool:
    """Whether a score counts as paid: more than half of what the gold earns.

    GRPO pushes towards whatever beats its siblings. Half of the gold's is where a completion stands nearer to a right
    one than to nothing. A reward that gives the gold nothing, such as a penalty, pays what earns no less.

    Examples:
        >>> is_paid(0.6, 1.0), is_paid(0.1, 1.0), is_paid(0.0, 0.0)
        (True, False, True)
    """
    return score > gold_score / 2 if gold_score > 0 else score >= gold_score


def audit_reward(reward: Verifier, tasks: Sequence[Task]) -> StaticAudit:
    """Probe a reward on tasks of one kind."""
    kind = tasks[0].kind
    form, _ = best_form(reward, tasks)
    said = [Said(task, form) for task in tasks]
    gold_score = _mean_score(reward, [one.task.sample(one.right) for one in said])
    results = tuple(_probe(reward, probe, said, gold_score) for probe in PROBES[kind])
    return StaticAudit(kind=kind, tasks=len(tasks), form=form, gold_score=gold_score, probes=results)


def best_form(reward: Verifier, tasks: Sequence[Task]) -> tuple[str, float]:
    """The form in which the gold earns most, the first of equals, and what it earns in that; of a few tasks."""
    earned = {
        form: _mean_score(reward, [task.sample(Said(task, form).right) for task in tasks[:TRIED]])
        for form in FORMS[tasks[0].kind]
    }
    form = max(earned, key=lambda form: -math.inf if math.isnan(earned[form]) else round(earned[form], 9))
    return form, earned[form]


def _probe(reward: Verifier, probe: Probe, said: Sequence[Said], gold_score: float) -> ProbeResult:
    written = [(one, text) for one in said for text in dict.fromkeys(probe.write(one))]
    verdicts = reward.judge_samples([one.task.sample(text) for one, text in written])
    scored, bad, failed = [], [], []
    for (one, text), verdict in zip(written, verdicts, strict=True):
        case = Case(
            prompt=one.task.prompt, gold=one.task.gold, completion=text, score=verdict.score, reason=verdict.reason
        )
        if verdict.score is not None:
            paid = is_paid(verdict.score, gold_score)
            scored.append((id(one), paid))
            if paid is not probe.pays:
                bad.append(case)
        elif verdict.blame is Blame.GRADER:  # the reward broke, rather than said that it does not apply
            failed.append(case)
    bad.sort(key=lambda case: case.score or 0.0, reverse=not probe.pays)
    return ProbeResult(
        name=probe.name,
        pays=probe.pays,
        completions=len(scored),
        paid=share(scored),
        bad=len(bad),
        failures=dict(Counter(case.reason for case in failed)),
        worst=tuple(bad[:WORST] + failed[:1]),
    )


def share(counted: Sequence[tuple[Hashable, bool]]) -> Interval | None:
    """The share of completions that count; each comes with its task, since completions of one task are alike."""
    tasks = Estimate(0.0, 0.0, len({task for task, _ in counted}))
    return score_interval(Estimate.share(sum(counts for _, counts in counted), len(counted)), tasks, in_unit=True)


def _mean_score(reward: Verifier, samples: Sequence[Sample]) -> float:
    scores = [verdict.score for verdict in reward.judge_samples(samples) if verdict.score is not None]
    return math.fsum(scores) / len(scores) if scores else math.nan
