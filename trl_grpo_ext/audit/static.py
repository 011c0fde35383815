"""The static part of an audit: every probe is written for every task, and the reward says what it pays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from trl_grpo_ext.audit.probes import FORMS, OTHER, PROBES, Probe, Said
from trl_grpo_ext.audit.task import Kind, Task
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.support.estimate import Estimate, Grouped, Interval
from trl_grpo_ext.support.progress import Progress, without_warnings
from trl_grpo_ext.verdict import Blame, Verdict

TRIED = 12  # tasks that show in which form the reward wants its answers
WORST = 2  # cases that are kept of each probe
WHAT_TO_DO = (
    "Give it rows that it can judge (--data), and name the column of their right answers (--gold). If it is a penalty "
    "or a term of format, audit the sum that it is part of (--config)."
)


class NotAuditedError(ValueError):
    """Nothing can be said of this reward on these rows; the message says why, and what to do."""


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

    data: str  # which rows were probed, in words
    kind: Kind  # whether answers or programs were asked for
    tasks: int  # how many rows were probed
    form: str  # the form of a right answer that earns most
    gold_score: float  # what the gold earns in that form, on average
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
    one than to nothing. Where the gold earns nothing and all else less, what earns no less than the gold is paid.

    Examples:
        >>> is_paid(0.6, 1.0), is_paid(0.1, 1.0), is_paid(0.0, 0.0)
        (True, False, True)
    """
    return score > gold_score / 2 if gold_score > 0 else score >= gold_score


def audit_reward(
    reward: Verifier, tasks: Sequence[Task], data: str = "the data", *, skip: Collection[str] = ()
) -> StaticAudit:
    """Probe a reward on tasks of one kind; what takes longer than a second says on stderr how far it has got.

    `skip` names probes that are left out.

    Raises:
        NotAuditedError: for a reward that cannot judge the golds, or that pays neither them nor an empty text.
    """
    kind = tasks[0].kind
    probes = [probe for probe in PROBES[kind] if probe.name not in skip]
    try:
        paid = paid_gold(reward, tasks, data)
        if not paid.gold > 0 and not paid.beats_nothing:
            raise NotAuditedError(paid.said_of(reward.__name__, data))
    except NotAuditedError as error:
        raise NotAuditedError(f"{error}; so nothing was audited. {WHAT_TO_DO}") from None
    said = [Said(task, paid.form) for task in tasks]
    results, progress = [], Progress("probing", len(probes), "kinds of completions")
    for probe in probes:
        results.append(_probe(reward, probe, said, paid.gold))
        progress.show(len(results))
    return StaticAudit(
        data=data, kind=kind, tasks=len(tasks), form=paid.form, gold_score=paid.gold, probes=tuple(results)
    )


class Paid(NamedTuple):
    """What right answers earn in the form that earns most, the first of equals, and what an empty text earns."""

    form: str
    gold: float
    empty: float  # NaN if it cannot be judged

    @property
    def beats_nothing(self) -> bool:
        """Whether right answers earn more than an empty text."""
        return self.gold > (0.0 if math.isnan(self.empty) else self.empty)

    def said_of(self, name: str, data: str) -> str:
        """Of a reward that pays them no more than an empty text, a sentence without its end."""
        paid, empty = f"{self.gold:.3g}", f"{self.empty:.3g}"
        return f"{name} pays {paid} for a right answer of {data}, in any form, and {empty} for an empty text"


def paid_gold(reward: Verifier, tasks: Sequence[Task], data: str) -> Paid:
    """What a reward pays for the golds of tasks; a few of them show in which form it wants them.

    Raises:
        NotAuditedError: for a reward that can judge none of them.
    """
    few = tasks[:TRIED]
    with without_warnings():
        earned = {
            form: _mean_score(reward.judge_samples([task.sample(Said(task, form).right) for task in few]))
            for form in FORMS[few[0].kind]
        }
        form = max(earned, key=lambda form: -math.inf if math.isnan(earned[form]) else round(earned[form], 9))
        verdicts = reward.judge_samples([task.sample(Said(task, form).right) for task in tasks])
        empty = _mean_score(reward.judge_samples([task.sample("") for task in few]))
    gold = _mean_score(verdicts)
    if math.isnan(gold):
        why = verdicts[0].details.get("error") or verdicts[0].reason
        raise NotAuditedError(f"{reward.__name__} fails on every right answer of {data}: {why}")
    return Paid(form, gold, empty)


def _probe(reward: Verifier, probe: Probe, said: Sequence[Said], gold_score: float) -> ProbeResult:
    written = [(one, text) for one in said for text in dict.fromkeys(probe.write(one))]
    verdicts = reward.judge_samples([one.task.sample(text) for one, text in written])
    scored, bad, failed, failures = [], [], [], Counter[str]()
    for (one, text), verdict in zip(written, verdicts, strict=True):
        why = verdict.details.get("error") or verdict.reason
        case = Case(prompt=one.task.prompt, gold=one.task.gold, completion=text, score=verdict.score, reason=why)
        if verdict.score is not None:
            paid = is_paid(verdict.score, gold_score)
            scored.append((id(one), paid))
            if paid is not probe.pays:
                bad.append(case)
        elif verdict.blame is Blame.GRADER:  # the reward broke, rather than said that it does not apply
            failed.append(case)
            failures[verdict.reason] += 1
    bad.sort(key=lambda case: case.score or 0.0, reverse=not probe.pays)
    return ProbeResult(
        name=probe.name,
        pays=probe.pays,
        completions=len(scored),
        paid=share(scored),
        bad=len(bad),
        failures=dict(failures),
        worst=tuple(bad[:WORST] + failed[:1]),
    )


def share(counted: Sequence[tuple[Hashable, bool]]) -> Interval | None:
    """The share of completions that count; each comes with its task, since completions of one task are alike."""
    tasks = Estimate(0.0, 0.0, len({task for task, _ in counted}))
    return Grouped(Estimate.share(sum(counts for _, counts in counted), len(counted)), tasks).interval


def _mean_score(verdicts: Sequence[Verdict]) -> float:
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return math.fsum(scores) / len(scores) if scores else math.nan
