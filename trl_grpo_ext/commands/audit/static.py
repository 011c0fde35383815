"""The static audit: write every probe for every task, and compare the reward's scores with the expected decisions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from trl_grpo_ext.commands.audit.probes import FORMS, OTHER, PROBES, Probe, Said
from trl_grpo_ext.commands.audit.task import Kind, Task
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.support.estimate import Grouped, Interval
from trl_grpo_ext.support.progress_bar import Progress, without_warnings
from trl_grpo_ext.verdict import Blame, Verdict

# Number of tasks on which the answer forms are compared.
TRIED = 12
# Number of bad cases kept per probe.
WORST = 2
WHAT_TO_DO = (
    "Give it rows that it can judge (--data), and name the column of their right answers (--gold). If it is a penalty "
    "or a term of format, audit the sum that it is part of (--config)."
)


class NotAuditedError(ValueError):
    """The reward cannot be audited on these rows; the message gives the reason and a remedy."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A completion with its score; `reason` comes from the verifier or explains a missing score."""

    prompt: Any
    gold: str
    completion: str
    score: float | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """A reward's decisions on a probe's completions, over all tasks."""

    # The probe's name.
    name: str
    # True if the reward must pay these completions, False if it must refuse them.
    pays: bool
    # Number of completions with a score.
    completions: int
    # Share of paid completions with its 95 % interval over tasks; None without a scored completion.
    paid: Interval | None
    # Mean score of the completions; NaN without a scored completion.
    score: float
    # Number of completions with the wrong decision: paid instead of refused, or refused instead of paid.
    bad: int
    # Number of times the reward broke, by reason.
    failures: dict[str, int]
    # The `WORST` bad completions with the most extreme scores, then the first failure.
    worst: tuple[Case, ...]

    @property
    def outcome(self) -> str:
        """Name the fault: "BROKE", "REFUSED" or "HOLE"; empty if the probe passed."""
        if self.failures:
            return "BROKE"
        if not self.bad:
            return ""
        return "REFUSED" if self.pays else "HOLE"


@dataclass(frozen=True, kw_only=True)
class StaticAudit:
    """Probe results of a reward, with the rows and the answer form behind them."""

    # A description of the probed rows, for messages.
    data: str
    # The kind of task: final answers or programs.
    kind: Kind
    # Number of probed rows.
    tasks: int
    # The name of the form in which right answers earn most.
    form: str
    # The mean score of the gold in this form.
    gold_score: float
    # Each probe's result; a hole is a paid wrong answer, a refusal an unpaid right answer.
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
    def best_wrong(self) -> ProbeResult | None:
        """The wrong answers with the highest mean score; None if no wrong answer has a score."""
        wrong = [probe for probe in self.probes if not probe.pays and probe.completions]
        return max(wrong, key=lambda probe: probe.score, default=None)

    @property
    def is_clean(self) -> bool:
        return not any(probe.outcome for probe in self.probes)

    @property
    def ignores_the_gold(self) -> bool:
        """Say whether the reward always pays another row's gold: it then ignores its own row's gold."""
        others = [probe for probe in self.probes if probe.name == OTHER]
        # A probe without a completion has paid nothing.
        return any(probe.bad == probe.completions > 0 for probe in others)

    def to_record(self) -> dict[str, Any]:
        return {"clean": self.is_clean, **asdict(self)}


def is_paid(score: float, gold_score: float) -> bool:
    """Say whether a score counts as paid: more than half of the gold's score.

    GRPO reinforces completions that score above their group. Above half of the gold's score, a completion is nearer to
    a right answer than to an empty one. A gold score of 0 or less has no useful half: then any score of at least the
    gold's counts as paid.

    Examples:
        >>> is_paid(0.6, 1.0), is_paid(0.1, 1.0), is_paid(0.0, 0.0)
        (True, False, True)
    """
    if gold_score > 0:
        return score > gold_score / 2
    return score >= gold_score


def audit_reward(
    reward: Verifier,
    tasks: Sequence[Task],
    data: str = "the data",
    *,
    skip: Collection[str] = (),
) -> StaticAudit:
    """Probe a reward with tasks of one kind; stderr shows progress after a second.

    `skip` names probes to leave out; `data` describes the rows in messages.

    Raises:
        NotAuditedError: if the reward cannot judge the golds, or pays them nothing and no more than an empty text.
    """
    kind = tasks[0].kind
    probes = [probe for probe in PROBES[kind] if probe.name not in skip]
    try:
        paid = paid_gold(reward, tasks, data)
        # With a gold that earns something, an empty text that earns as much is a hole, which a probe finds.
        if not paid.gold > 0:
            paid.check(reward.__name__, data)
    except NotAuditedError as error:
        raise NotAuditedError(f"{error}; so nothing was audited. {WHAT_TO_DO}") from None
    said = [Said(task, paid.form) for task in tasks]
    results = []
    progress = Progress("probing", len(probes), "kinds of completions")
    for probe in probes:
        results.append(_probe(reward, probe, said, paid))
        progress.show(len(results))
    return StaticAudit(
        data=data,
        kind=kind,
        tasks=len(tasks),
        form=paid.form,
        gold_score=paid.gold,
        probes=tuple(results),
    )


class Paid(NamedTuple):
    """A reward's mean scores: right answers in their best form (the first of equal forms), and an empty text."""

    form: str
    gold: float
    # NaN if the reward cannot judge an empty text.
    empty: float

    def is_paid(self, verdict: Verdict) -> bool:
        """Say whether a verdict has a score that counts as paid."""
        return verdict.score is not None and is_paid(verdict.score, self.gold)

    def check(self, name: str, data: str) -> None:
        """Raise a NotAuditedError, without its final period, if right answers earn no more than an empty text."""
        empty = 0.0 if math.isnan(self.empty) else self.empty
        if self.gold <= empty:
            raise NotAuditedError(
                f"{name} pays {self.gold:.3g} for a right answer of {data}, in any form, and {self.empty:.3g} for an "
                f"empty text"
            )


def paid_gold(reward: Verifier, tasks: Sequence[Task], data: str) -> Paid:
    """Choose the form in which right answers earn most on a few tasks, then compute its mean score on all tasks.

    Raises:
        NotAuditedError: if the reward can judge no right answer in this form.
    """
    few = tasks[:TRIED]
    with without_warnings():
        earned = {}
        for form in FORMS[few[0].kind]:
            score = _mean_score(_judged_golds(reward, few, form))
            # Rounded, so that the first of equal forms wins.
            earned[form] = -math.inf if math.isnan(score) else round(score, 9)
        form = max(earned, key=earned.__getitem__)
        verdicts = _judged_golds(reward, tasks, form)
        empty_texts = [task.sample("") for task in few]
        empty = _mean_score(reward.judge_samples(empty_texts))
    gold = _mean_score(verdicts)
    if math.isnan(gold):
        why = verdicts[0].details.get("error") or verdicts[0].reason
        raise NotAuditedError(
            f"{reward.__name__} fails on every right answer of {data}: {why}"
        )
    return Paid(form, gold, empty)


def _judged_golds(reward: Verifier, tasks: Sequence[Task], form: str) -> Sequence[Verdict]:
    """Judge the tasks' right answers, written in one form."""
    samples = [task.sample(Said(task, form).right) for task in tasks]
    return reward.judge_samples(samples)


def _probe(reward: Verifier, probe: Probe, said: Sequence[Said], pays: Paid) -> ProbeResult:
    written = _written(probe, said)
    samples = [task.sample(text) for task, text in written]
    # All at once, since a verifier in workers judges many completions at a time.
    verdicts = reward.judge_samples(samples)
    scored = []
    bad = []
    failed = []
    failures: Counter[str] = Counter()
    for (task, text), verdict in zip(written, verdicts, strict=True):
        why = verdict.details.get("error") or verdict.reason
        case = Case(
            prompt=task.prompt,
            gold=task.gold,
            completion=text,
            score=verdict.score,
            reason=why,
        )
        if verdict.score is not None:
            paid = pays.is_paid(verdict)
            # A task holds mappings and has no hash; tasks live as long as this loop.
            scored.append((id(task), paid))
            if paid is not probe.pays:
                bad.append(case)
        # Other blame means the reward does not apply to this row, which is no fault.
        elif verdict.blame is Blame.GRADER:
            failed.append(case)
            failures[verdict.reason] += 1
    # The worst case first: the best paid wrong answer, or the least paid right one.
    bad.sort(key=lambda case: case.score or 0.0, reverse=not probe.pays)
    return ProbeResult(
        name=probe.name,
        pays=probe.pays,
        completions=len(scored),
        paid=share(scored),
        score=_mean_score(verdicts),
        bad=len(bad),
        failures=dict(failures),
        worst=tuple(bad[:WORST] + failed[:1]),
    )


def _written(probe: Probe, said: Sequence[Said]) -> list[tuple[Task, str]]:
    """List a probe's texts, each beside the task that it is written for."""
    written = []
    for one in said:
        # A probe may write a text twice, for a short gold.
        distinct = dict.fromkeys(probe.write(one))
        written += [(one.task, text) for text in distinct]
    return written


def share(counted: Sequence[tuple[Hashable, bool]]) -> Interval | None:
    """Return the share of counted completions with a 95 % interval; None without completions.

    Each entry is a task (or group) and True if its completion counts. Completions of a task are alike, so the
    interval's sample size is the number of tasks.
    """
    tasks = {task for task, _ in counted}
    count = sum(counts for _, counts in counted)
    return Grouped.share(count, len(counted), len(tasks)).interval


def _mean_score(verdicts: Sequence[Verdict]) -> float:
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    if not scores:
        return math.nan
    return math.fsum(scores) / len(scores)
