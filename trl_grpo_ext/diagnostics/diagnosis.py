"""The answer: what holds a run's reward back, in order of cause, in one sentence and in figures."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from trl_grpo_ext.diagnostics.checks import CHECKS
from trl_grpo_ext.diagnostics.checks.dead_groups import LEAST_LIVE, group_mix, live_share
from trl_grpo_ext.diagnostics.example import Example, examples
from trl_grpo_ext.diagnostics.finding import Finding, Severity, read_findings
from trl_grpo_ext.diagnostics.groups import judged, percent
from trl_grpo_ext.diagnostics.levels import score_level
from trl_grpo_ext.diagnostics.progress import LEAST_GAIN, has_risen, steps_so_far
from trl_grpo_ext.diagnostics.terms import names, primary_terms
from trl_grpo_ext.diagnostics.watch import HOLD, Onsets, look_back
from trl_grpo_ext.diagnostics.window import RunView, Window
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.recorder import OPENING_BATCHES
from trl_grpo_ext.support.estimate import Estimate

MOST_SEARCHED = 8  # of the last batches, for examples

# What still matters where the score is at its ceiling: whether it can be believed, and what it costs.
BEYOND_CEILING = frozenset(
    (
        *("nonfinite_updates", "grader_trouble", "bad_data", "noisy_verifier", "reward_hacking", "dead_groups"),
        "label_hacks",
    )
)

# What the user should know of a run that does well, and what does not hold it back.
ASIDE = frozenset(("label_hacks", "repetition"))

# What is information only if it is of a grader whose verdicts do not count: it holds no reward back.
OF_GRADERS = frozenset(("grader_trouble", "noisy_verifier"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a run's reward is as it is.

    Attributes:
        sentence: The answer.
        causes: The findings that hold at the end of the run, the first cause first.
        findings: All findings as they began, oldest first.
        not_checked: What each check lacked at the end, by its code.
        examples: A few completions that show the first cause.
        step: The last step that was recorded; None if it is unknown.
        batches: The training batches that were read.
    """

    sentence: str
    causes: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    not_checked: Mapping[str, str]
    examples: tuple[Example, ...]
    step: int | None
    batches: int

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values."""
        return {
            "sentence": self.sentence,
            "causes": [finding.to_record() for finding in self.causes],
            "findings": [finding.to_record() for finding in self.findings],
            "not_checked": dict(self.not_checked),
            "examples": [example.to_record() for example in self.examples],
            "step": self.step,
            "batches": self.batches,
        }


def diagnose(run: RecordedRun, *, most_examples: int = 3, seconds: float = math.inf) -> Diagnosis:
    """Look at a run much as it was looked at while it went on, and say what holds its reward back.

    The run may still go on, may have been killed, and may hold evaluations only. Batches that cannot be read are
    passed over.

    Args:
        run: The run.
        most_examples: The most completions that are quoted.
        seconds: How long looking may take, about: of a run that takes longer, fewer batches are looked at.
    """
    view, onsets = RunView(run.settings, run.folder), Onsets(dict(CHECKS))
    findings, batches = look_back(run, view, onsets, seconds=seconds)
    if batches:
        findings += onsets.look(view.window)  # with the logs that came after the last batch
    found = conclude(view.window, onsets, _with_those_told(findings, run), batches)
    if not found.causes or not most_examples:
        return found
    return replace(found, examples=_examples(run, found.causes[0], most_examples))


def conclude(window: Window, onsets: Onsets, findings: Sequence[Finding], batches: int) -> Diagnosis:
    """The answer to what a run looks like at its end, without examples.

    Args:
        window: The run at its end.
        onsets: What has looked at it, batch by batch.
        findings: What began, oldest first.
        batches: The training batches that were looked at.
    """
    causes = _causes(_at_the_end(window, onsets) if batches >= HOLD else _at_once(window), window)
    return Diagnosis(
        sentence=_sentence(causes, findings, window),
        causes=causes,
        findings=tuple(findings),
        not_checked={code: onsets.not_checked[code] for code in CHECKS if code in onsets.not_checked},
        examples=(),
        step=window.step,
        batches=batches,
    )


def _examples(run: RecordedRun, cause: Finding, most: int) -> tuple[Example, ...]:
    """A few completions of the last batches that show a cause."""
    searched = (run.readable(number) for number, _ in run.parts()[::-1][:MOST_SEARCHED])
    return tuple(examples((card for card in searched if card is not None), cause, most))


def _with_those_told(found: Sequence[Finding], run: RecordedRun) -> list[Finding]:
    """The findings, those that were told while the run went on first: it saw batches that may be on disk no more."""
    told = read_findings(run.folder)
    codes = {finding.code for finding in told}
    together = [*told, *(finding for finding in found if finding.code not in codes)]
    return sorted(together, key=lambda finding: -1 if finding.step is None else finding.step)


def _at_the_end(window: Window, onsets: Onsets) -> dict[str, Finding]:
    """What has held until the end, and a fall that only the last evaluation shows: it had no batches left to hold."""
    fall = CHECKS["getting_worse"](window)
    return onsets.active | ({fall.code: fall} if isinstance(fall, Finding) else {})


def _at_once(window: Window) -> dict[str, Finding]:
    """What the checks say of a run that is too short for anything to have held."""
    found = {code: check(window) for code, check in CHECKS.items()}
    return {code: finding for code, finding in found.items() if isinstance(finding, Finding)}


def _causes(active: Mapping[str, Finding], window: Window) -> tuple[Finding, ...]:
    held = [active[code] for code in CHECKS if code in active and (not window.is_solved or code in BEYOND_CEILING)]
    return tuple(sorted(held, key=_rank))


def _rank(cause: Finding) -> int:
    """What makes going on a waste is before what does not, then what is information only."""
    if cause.severity is Severity.CRITICAL and cause.code not in ASIDE:
        return 0
    return 2 if cause.severity is Severity.INFO else 1


def _sentence(causes: Sequence[Finding], findings: Sequence[Finding], window: Window) -> str:
    if not window.batches:
        return causes[0].sentence if causes else _without_batches(window)
    does_well = window.is_solved or has_risen(window)
    if causes and _is_beside(causes[0], does_well=does_well):
        return f"{_sound(window)} Beside it: {causes[0].sentence}"
    if causes:
        return causes[0].sentence
    order = {code: place for place, code in enumerate(CHECKS)}
    earlier = sorted(
        (finding for finding in findings if finding.severity is not Severity.INFO),
        key=lambda finding: (_rank(finding), order.get(finding.code, len(order))),
    )
    told = f" Earlier, at step {earlier[0].step}: {earlier[0].sentence}" if earlier else ""
    return _sound(window) + told


def _is_beside(cause: Finding, *, does_well: bool) -> bool:
    """Whether a cause should be told, but does not hold the reward back."""
    is_information = cause.severity is Severity.INFO
    if does_well:
        return is_information or cause.code in ASIDE
    return is_information and cause.code in OF_GRADERS


def _without_batches(window: Window) -> str:
    if not window.evaluations:
        return "There is nothing to go by: no completion was recorded."
    return f"Nothing was trained: there are evaluations only, the last with a score of {_last(window).mean:.2f}."


def _last(window: Window) -> Estimate:
    return window.evaluations[-1][1]


def _sound(window: Window) -> str:
    level = window.score
    if not level.count:
        size = sum(batch.size for batch in window.batches)
        if judged(window.batches):
            return f"The scores of the last {size} completions are too large to compare."
        return f"None of the last {size} completions could be judged: no term with weight is for their rows."
    score = _score(window)
    if window.is_solved:
        return f"Nothing holds the reward back: {score} is {level.mean:.2f}."
    if has_risen(window):
        before = score_level(window.opening)
        if level.mean - before.mean < LEAST_GAIN:
            steps, named = steps_so_far(window), names(primary_terms(window))
            return (
                f"The score of {named} rises slowly, from {before.mean:.2f} to {level.mean:.2f} in {steps:.0f} steps."
            )
        return f"Nothing holds the reward back: {score} has risen from {before.mean:.2f} to {level.mean:.2f}."
    if len(window.batches) < 2 * OPENING_BATCHES:
        count = f"{len(window.batches)} batch" + ("es" if len(window.batches) > 1 else "")
        return f"It is too early to tell: {count} so far, and {score} is {level.mean:.2f}."
    return _stays(level, window)


def _stays(level: Estimate, window: Window) -> str:
    """What there is to say of a score that does not rise, where no finding says why."""
    live, score = live_share(window), _score(window)
    if live is not None and live < LEAST_LIVE:
        return (
            f"Few groups have anything to teach ({group_mix(window)}), and {score} stays at {level.mean:.2f}: "
            f"judge a few completions by hand, then take data that the model gets right now and then."
        )
    share = "groups are not known" if live is None else f"{percent(live)} of the groups are live"
    kl = window.logged("kl")
    moved = f", {kl[-1]:.1g} nats of KL from the reference" if kl else ""
    return (
        f"Signal and update look sound ({share}{moved}), and {score} stays at {level.mean:.2f}: judge a few "
        f"completions by hand, since a verifier that guesses or gold answers of other rows look the same; if they are "
        f"judged right, raise the learning rate, or wait."
    )


def _score(window: Window) -> str:
    return f"the score of {names(primary_terms(window))}"


RECENT = 16  # logs, as many as checks look at batches

_SHARE = re.compile(r"verified/(?:(?P<term>.+)/driver_share|drivers/others)")
OTHERS = "other reward functions"


def recent_drivers(logs: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The mean driver share of each term over the latest logs that know it, the largest first; the shares sum to 1.

    Shadows and what has no share are left out; empty if nothing is known, as for a run that had no live group.

    Args:
        logs: TRL's logs, oldest first, as `RecordedRun.iterate_logs` gives them.

    Examples:
        >>> recent_drivers([{"verified/short/driver_share": 0.25, "verified/accuracy/driver_share": 0.75}])
        {'accuracy': 0.75, 'short': 0.25}
    """
    known = deque((shares for entry in logs if (shares := _shares(entry))), maxlen=RECENT)
    terms = {term for shares in known for term in shares}
    means = {term: fmean(shares.get(term, 0.0) for shares in known) for term in terms}
    return dict(sorted(((term, mean) for term, mean in means.items() if mean), key=lambda item: (-item[1], item[0])))


def _shares(entry: Mapping[str, Any]) -> dict[str, float]:
    shares = {}
    for name, value in entry.items():
        found = _SHARE.fullmatch(name)
        if found and isinstance(value, int | float) and math.isfinite(value):
            shares[found["term"] or OTHERS] = float(value)
    return shares
