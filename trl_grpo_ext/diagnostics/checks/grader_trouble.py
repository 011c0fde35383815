"""Check `grader_trouble`: a grader that fails, lacks a CPU, hides a package or is slow, and tools that fail."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from trl_grpo_ext.diagnostics.batches import (
    VerdictShare,
    failures_in,
    names,
    percent,
    worst_share,
)
from trl_grpo_ext.diagnostics.checks.completions.truncation import made_short
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, Severity
from trl_grpo_ext.diagnostics.levels import length_level
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.term_totals import Failure, TermTotals, added
from trl_grpo_ext.diagnostics.window import CheckResult, Window
from trl_grpo_ext.figures.logged import SHARE_OF_STEP
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.figures.voids import NOT_FINITE, Cause
from trl_grpo_ext.rewards.tool_calls import UNKNOWN_TOOL
from trl_grpo_ext.rewards.unit_tests.scoring import (
    HIDDEN,
    HIDDEN_IMPORT,
    OPERATOR_NOT_ASKED,
    missing_module,
    unasked_operator,
)
from trl_grpo_ext.support.budget import BUDGET_SPENT
from trl_grpo_ext.support.estimate import Estimate
from trl_grpo_ext.support.setting_checks import is_number
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import SHAPE_FAILED, Blame, Status

# Of a term's verdicts. Ours, tried in test_fault_injection.py (timeouts, or failures, for one action).
WARN, CRITICAL = 0.02, 0.10
# Of a term's verdicts: timeouts caused by completions are scored, and cost time only.
POLICY_WARN = 0.05
# Seconds, and of a term's verdicts. Ours, from a limit of 0.005 s: 0.73.
SHORT_LIMIT, MOST_TIMEOUTS = 1.0, 0.5
# Of the timeouts' share at first: what is left of it. Ours, from a limit of 1 s on thinking: 9 % to 3 %.
FEWER = 0.5
# Of a term's verdicts. Ours: a quarter and a half of those above, since each call had its time twice.
STARVED_WARN, STARVED_CRITICAL = 0.005, 0.05

# Ours, tried in test_diagnosis_cases.py (a verifier that takes most of the step).
MOST_OF_STEP = 0.5
LATEST_LOGS = 4
# The cause of a row without a finite reward by a function beside the terms.
OUTSIDE: Cause = ("", NOT_FINITE)
# Of the failures, and how many of them.
ONE_PLACE, LEAST_AT_ONE_PLACE = 0.9, 8
# TRL's share of tool calls that raise. Of the calls: ours; a model that learns to call writes some wrongly.
TOOL_FAILURES = "tools/failure_frequency"
MOST_CALLS = 0.5
# Errors that no argument of a call brings about.
OF_THE_OUTSIDE = (
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "TimeoutError",
    "OSError",
    "PermissionError",
    "ImportError",
    "ModuleNotFoundError",
    "NameError",
    "NotImplementedError",
)
# Of the calls, failures of what a tool calls: such errors take as much of the reward as a grader's timeouts would.
DOWN_WARN = 0.05
# Results of a tool, all of them empty; ours.
LEAST_RESULTS = 16
# Of a tool's results tell an error in words. Ours: more than calls that a learning model writes wrongly.
TELLS = 0.3
# Completions that give a tool's result as their answer, and of these. Ours.
LEAST_ANSWERS, HARDLY_RIGHT = 32, 0.1
NO_RESULT = "do not reach their service, or get no result in time"
_UNREACHED = re.compile(r"\w*(?:Connect|RateLimit|SSL|Timeout)\w*")
# Characters that are told.
MOST_ERROR = 120
# How reasons begin if an environment failed.
OF_ENVIRONMENTS = ("get_reward_", "reset_")
# Packages and tools that are told.
MOST_NAMES = 3


def failures(window: Window) -> CheckResult:
    """Find verdicts missing through grader failures, starved workers aside."""
    found = _worst(window, _is_failure, WARN, CRITICAL)
    if found is None:
        return None
    term = window.of_term(found.term)
    kinds = term.failures(_is_failure)
    kind = "failures of the grader"
    if 2 * _count(kinds, _is_late) > found.count:
        kind = "timeouts"
    error = next((batch.error for batch in term.batches if batch.error), "")
    such_as = f", such as {on_one_line(error, MOST_ERROR)}" if error else ""
    said = (
        f"are {kind}, {_mostly(window, found, kinds)}{such_as}{_where(window, found.term)}."
    )
    action = _how_to_mend(found, kinds)
    return _finding(
        window, found, found.severity(CRITICAL), "The grader, not the model", said, action
    )


def _how_to_mend(found: VerdictShare, kinds: Counter[Failure]) -> str:
    """Choose an action by the commonest kind of failure."""
    most = found.count / 2
    if _count(kinds, _is_over_budget) > most:
        return "Raise judging_budget well above the time that a batch takes."
    if _count(kinds, _is_of_shape) > most:
        return f"Mend the shape of `{found.term}`: it takes a score and its verdict, and returns a finite number."
    if _count(kinds, _is_late) > most:
        return (
            "Give the term a longer timeout or a cheaper verifier, and see what it waits for: read its slowest "
            "completions."
        )
    if _count(kinds, _is_of_environment) > most:
        return "Run `reset` and `get_reward` of the environment by hand, and mend what they stumble over."
    return f"Run the verifier of `{found.term}` by hand on one of these completions, and mend what it stumbles over."


def _count(kinds: Counter[Failure], is_kind: Callable[[Failure], bool]) -> int:
    return sum(count for kind, count in kinds.items() if is_kind(kind))


def _where(window: Window, term: str) -> str:
    """Name the one place in groups that holds nearly all failures: a rank holds fixed places."""
    ranks = window.settings.get("world_size") or 1
    places = window.of_term(term).failed_places
    if ranks == 1 or not places:
        return ""
    place, count = places.most_common(1)[0]
    if count < LEAST_AT_ONE_PLACE or count < ONE_PLACE * places.total():
        return ""
    return f"; nearly all at place {place + 1} of their group, as of one rank"


def not_finite(window: Window) -> CheckResult:
    """Find completions left out since a reward function beside the terms gave NaN or infinity."""
    voids = [batch.voids[OUTSIDE] for batch in window.batches if OUTSIDE in batch.voids]
    found = VerdictShare(
        term="",
        in_force=True,
        count=sum(void.rows for void in voids),
        verdicts=sum(batch.size for batch in window.batches),
        batches=len(voids),
    )
    if not found.is_pattern(WARN, CRITICAL):
        return None
    rewards = window.settings.get("rewards") or ()
    functions = [
        safe_reason(each["name"]) for each in rewards if each["name"] not in window.terms
    ]
    which = names(functions, "or") or "a reward function"
    return Finding(
        severity=found.severity(CRITICAL),
        sentence=(
            f"The grader, not the model: {which} gave NaN or infinity for {percent(found.share)} of the completions; "
            "they are left out of training."
        ),
        numbers={"share": found.share, "failed": found.count},
        action="Run it by hand on one of these completions, and mend what gives no number.",
    )


def starved(window: Window) -> CheckResult:
    """Deadlines that passed while the worker waited for a CPU."""
    found = _worst(window, _is_starved, STARVED_WARN, STARVED_CRITICAL)
    if found is None:
        return None
    return _finding(
        window,
        found,
        found.severity(STARVED_CRITICAL),
        "The machine, not the model",
        "ran out of time while their worker used next to no CPU: it had none, or the verifier waits for something.",
        "See whether the verifier waits, as for a lock or a reply. If not: give the grader fewer workers than there "
        "are free cores.",
    )


def shortened(window: Window) -> CheckResult:
    """Find a verifier's time limit that has taught short completions: long ones ran out of it at first, and scored 0.

    As with a length limit, hardly any runs out of it later, and the score is flat below the best.
    """
    term = next(iter(window.primary_terms), "")
    before = _timeout_share(window.opening, term)
    now = _timeout_share(window.later, term)
    if not window.later or before < POLICY_WARN or now > FEWER * before:
        return None
    late = _length(window.opening, lambda status: status is Status.TIMEOUT)
    others = _length(
        window.opening, lambda status: status not in (Status.TIMEOUT, Status.ERROR)
    )
    shorter = made_short(window)
    if not shorter or not (late - others).is_sure or late.mean <= others.mean:
        return None
    limit = _limit(window, term)
    seconds = "" if math.isinf(limit) else f" ({limit:g} s)"
    return Finding(
        severity=Severity.WARNING,
        terms=(term,),
        sentence=(
            f"The time limit of `{term}`{seconds} has taught the model to be short: {percent(before)} of the first "
            f"completions ran out of it and scored 0, with {late.mean:.0f} tokens where the others had "
            f"{others.mean:.0f}, and {percent(now)} do now; {shorter}."
        ),
        numbers={
            "share_at_the_start": before,
            "share": now,
            "tokens": length_level(window.later).mean,
            "of_the_policy": _count(
                window.of_term(term).failures(_is_policys_timeout), _is_policys_timeout
            ),
        },
        action=(
            f"Raise the timeout of `{term}`, or make it faster, and start again: a completion that takes too long "
            f"scores 0, so the policy learns to avoid it."
        ),
    )


def _timeout_share(batches: Sequence[BatchFigures], term: str) -> float:
    """Share of a term's verdicts that are timeouts caused by the completion; 0 without verdicts."""
    found = TermTotals.of(term, batches)
    return found.failures(_is_policys_timeout).total() / max(1, found.verdicts)


def _length(batches: Sequence[BatchFigures], holds: Callable[[Status], bool]) -> Estimate:
    """Mean length in tokens of the completions whose primary verdict has such a status."""
    lengths = []
    for batch in batches:
        for status, length in batch.primary.lengths.items():
            if holds(status):
                lengths.append(length)
    return Estimate.together(lengths)


def timeouts_of_the_policy(window: Window) -> CheckResult:
    """Find completions that exhaust the grader's time limit; such completions score 0 and can be unlearned.

    Where most of them exhaust a limit below a second, the limit is the cause.
    """
    found = _worst(window, _is_policys_timeout, POLICY_WARN, CRITICAL)
    if found is None:
        return None
    limit = _limit(window, found.term)
    kinds = window.of_term(found.term).failures(_is_policys_timeout)
    severity = found.severity(CRITICAL)
    if limit < SHORT_LIMIT and found.share >= MOST_TIMEOUTS:
        who = "The limit, not the completions"
        said = (
            f"are timeouts, at a timeout of {limit:g} s, so right answers may end late too."
        )
        action = f"Raise the timeout of `{found.term}`, to seconds: a busy machine needs time to start a program."
    else:
        who = "The completions, not the grader"
        mostly = _mostly(window, found, kinds)
        said = f"are timeouts that the completion caused, {mostly}; they are scored, not left out."
        action = (
            "Read what these completions have in common: what never ends is wrong, and more time would not mend it; "
            "only if right answers are among them, say in the prompt how fast they must be."
        )
        severity = Severity.WARNING if severity is Severity.CRITICAL else Severity.INFO
    finding = _finding(window, found, severity, who, said, action)
    return replace(finding, numbers={**finding.numbers, "of_the_policy": found.count})


def _limit(window: Window, term: str) -> float:
    """Return a term's timeout in seconds; infinity if it is unknown."""
    for reward in window.settings.get("rewards") or ():
        limit = reward.get("settings", {}).get("timeout")
        if reward.get("name") == term and is_number(limit):
            return limit
    return math.inf


def hidden_imports(window: Window) -> CheckResult:
    """Find programs failed by hidden packages. They are scored: the policy can avoid imports."""
    found = worst_share(
        window, lambda figures: figures.reasons.get(HIDDEN_IMPORT, 0), WARN, CRITICAL
    )
    if found is None:
        return None
    modules: dict[str, None] = {}
    for why, _ in window.of_term(found.term).causes.most_common():
        name = missing_module(why)
        if HIDDEN in why and name:
            modules[name] = None
    told = ", ".join(list(modules)[:MOST_NAMES])
    finding = _finding(
        window,
        found,
        Severity.WARNING if found.in_force else Severity.INFO,
        "The setting, or the completions",
        f"are wrong since the program imports an installed package that programs are not shown: {told}.",
        f"Add `packages: [{told}]` to the term if programs may use it; if not, say in the prompt what they may import.",
    )
    return replace(finding, numbers={"share": found.share, "failed": found.count})


def unasked_operators(window: Window) -> CheckResult:
    """Find programs failed by tests that need operators of returned objects, which the sandbox refuses."""
    found = worst_share(
        window, lambda figures: figures.reasons.get(OPERATOR_NOT_ASKED, 0), WARN, CRITICAL
    )
    if found is None:
        return None
    operators: dict[str, None] = {}
    for why, _ in window.of_term(found.term).causes.most_common():
        name = unasked_operator(why)
        if name:
            operators[f"`{name}`"] = None
    told = ", ".join(list(operators)[:MOST_NAMES])
    finding = _finding(
        window,
        found,
        Severity.WARNING if found.in_force else Severity.INFO,
        "The tests",
        f"are wrong since a test needs an operator of a returned object, which the sandbox refuses: {told}.",
        "If right programs return such objects, let these tests call methods instead, or leave their rows out.",
    )
    return replace(finding, numbers={"share": found.share, "failed": found.count})


def slow(window: Window) -> CheckResult:
    """Find a grader that takes half of the step time, and name its slowest term."""
    share = window.median_logged(SHARE_OF_STEP, latest=LATEST_LOGS, least=LATEST_LOGS)
    if share is None or share < MOST_OF_STEP or not window.batches:
        return None
    # Else the completions take the time.
    if _worst(window, _is_policys_timeout, WARN, CRITICAL) is not None:
        return None
    slowest = max(window.terms, key=lambda term: _cost(window, term))
    return Finding(
        severity=Severity.WARNING,
        terms=(slowest,),
        sentence=f"The grader takes {percent(min(1.0, share))} of the time of a step, most of it for `{slowest}`.",
        numbers={"share_of_step": share, "seconds_p95": _seconds(window, slowest)},
        action=f"Give `{slowest}` more workers or a shorter timeout, or a cheaper term as its gate.",
    )


def failing_tools(window: Window) -> CheckResult:
    """Find tool calls that mostly fail, while the score does not rise."""
    if _is_worst(window):
        share = window.median_logged(TOOL_FAILURES)
    else:
        share = window.median_logged(TOOL_FAILURES, latest=LATEST_LOGS, least=LATEST_LOGS)
    if share is None or share < MOST_CALLS or not window.batches or has_risen(window):
        return None
    return Finding(
        severity=Severity.CRITICAL,
        sentence=f"The tools, not the answers: {percent(share)} of the tool calls fail{_tool_error(window)}.",
        numbers={"failing_calls": share},
        action=_mend_tools(window),
    )


def unreached_tools(window: Window) -> CheckResult:
    """Find tool calls that fail outside the policy, also while the score rises: such rows may train as 0."""
    share = window.median_logged(TOOL_FAILURES)
    errors = added(batch.tool_errors for batch in window.batches)
    unreached = sum(
        count for (_, error), count in errors.items() if _UNREACHED.match(error)
    )
    if share is None or not unreached:
        return None
    failing = share * unreached / errors.total()
    if failing < DOWN_WARN:
        return None
    return Finding(
        severity=Severity.WARNING,
        sentence=f"{percent(failing)} of the tool calls {NO_RESULT}{_tool_error(window)}.",
        numbers={"failing_calls": failing},
        action=f"{_mend_tools(window)} Until then, a rollout with such a call is scored like any other.",
    )


def silent_tools(window: Window) -> CheckResult:
    """Find a tool with empty results only, in the first and the last batches: such calls cannot help the model."""
    results = added(batch.tool_results for batch in window.kept_batches)
    for (tool, is_empty), count in results.most_common():
        if not is_empty or count < LEAST_RESULTS or results[tool, False]:
            continue
        return Finding(
            severity=Severity.critical_if(_is_worst(window)),
            sentence=f"The tool `{safe_reason(tool)}` returns nothing: all {count} results are empty, or None.",
            numbers={"empty_results": count},
            action=f"Run `{safe_reason(tool)}` by hand, and mend what it returns.",
        )
    return None


def telling_tools(window: Window) -> CheckResult:
    """Find a tool whose results mostly tell an error in words, while the score does not rise."""
    told = added(batch.told_errors for batch in window.kept_batches)
    results = added(batch.tool_results for batch in window.kept_batches)
    by_tool: dict[str, Counter[str]] = {}
    for (tool, text), count in told.items():
        by_tool.setdefault(tool, Counter())[text] += count
    for tool, errors in by_tool.items():
        share = errors.total() / max(1, results[tool, True] + results[tool, False])
        if errors.total() < LEAST_RESULTS or share < TELLS or has_risen(window):
            continue
        [(text, _)] = errors.most_common(1)
        return Finding(
            severity=Severity.critical_if(share >= MOST_CALLS),
            sentence=(
                f"The tools, not the answers: {percent(share)} of the results of `{safe_reason(tool)}` tell an error, "
                f"mostly `{safe_reason(text)}`."
            ),
            numbers={"told_errors": share},
            action=(
                f"Make such a call of `{safe_reason(tool)}` by hand: mend the tool or its service; if the model's "
                f"calls are wrong, say in the prompt how to call it."
            ),
        )
    return None


def wrong_tools(window: Window) -> CheckResult:
    """Find a tool whose results completions give for their answer, and are hardly ever right."""
    answers = added(batch.tool_answers for batch in window.kept_batches)
    for tool in dict.fromkeys(tool for tool, _ in answers):
        right = answers[tool, True]
        count = right + answers[tool, False]
        if count < LEAST_ANSWERS or right >= HARDLY_RIGHT * count or has_risen(window):
            continue
        return Finding(
            severity=Severity.CRITICAL,
            sentence=(
                f"The tool `{safe_reason(tool)}` may return what is wrong, or the golds may be: {count} completions "
                f"give its result as their answer, and {percent(right / count)} of these are right."
            ),
            numbers={"answers": count, "right": right},
            action=f"Run `{safe_reason(tool)}` by hand for a few rows, and compare its results with their golds.",
        )
    return None


def _is_worst(window: Window) -> bool:
    """Test for a score that is the worst possible: nothing is learned without a tool that works."""
    return window.score.count > 0 and window.scale.unit(window.score).mean <= 0


def _tool_error(window: Window) -> str:
    """Quote the commonest error of a tool: `, mostly of `search` with ConnectionError: refused`; empty if unknown."""
    errors = added(batch.tool_errors for batch in window.batches)
    for (tool, error), _ in errors.most_common(1):
        return f", mostly of `{safe_reason(tool)}` with {error.rstrip('.')}"
    return ""


def _mend_tools(window: Window) -> str:
    errors = added(batch.tool_errors for batch in window.batches)
    offered = [safe_reason(name) for name in window.settings.get("tools") or ()]
    for (tool, error), _ in errors.most_common(1):
        if error.partition(":")[0] in OF_THE_OUTSIDE:
            return (
                f"Mend the tool `{safe_reason(tool)}`, or what it calls: the model cannot."
            )
        if error == UNKNOWN_TOOL.format(tool):
            there = (
                f"the run offers {names(offered[:MOST_NAMES])}"
                if offered
                else "no tool has this name"
            )
            return (
                f"The model calls `{safe_reason(tool)}`, and {there}: give the right tool the name that the model "
                f"calls, or say in the prompt how the tools are named."
            )
    return "Read the errors of a few calls: a tool that is down looks the same as calls that the model writes wrongly."


def _cost(window: Window, term: str) -> float:
    """Estimate the seconds that a term's recent verdicts took: their number times a batch's median."""
    return sum(
        batch.verdicts * (batch.seconds[0] or 0.0) for batch in window.of_term(term).batches
    )


def _is_starved(kind: Failure) -> bool:
    _, _, reason = kind
    return reason.endswith("starved")


def _is_late(kind: Failure) -> bool:
    _, status, _ = kind
    return status is Status.TIMEOUT


def _is_over_budget(kind: Failure) -> bool:
    _, _, reason = kind
    return reason == BUDGET_SPENT


def _is_of_shape(kind: Failure) -> bool:
    _, _, reason = kind
    return reason == SHAPE_FAILED


def _is_of_environment(kind: Failure) -> bool:
    _, _, reason = kind
    return reason.startswith(OF_ENVIRONMENTS)


def _is_failure(kind: Failure) -> bool:
    return kind[0] is Blame.GRADER and not _is_starved(kind)


def _is_policys_timeout(kind: Failure) -> bool:
    return kind[0] is Blame.POLICY and kind[1] is Status.TIMEOUT and not _is_starved(kind)


def _worst(
    window: Window, is_kind: Callable[[Failure], bool], warn: float, critical: float
) -> VerdictShare | None:
    return worst_share(
        window, lambda figures: failures_in(figures, is_kind), warn, critical
    )


def _finding(
    window: Window,
    found: VerdictShare,
    severity: Severity,
    who: str,
    said: str,
    action: str,
) -> Finding:
    """Make a finding of failed verdicts. A shadow that fails is information: it does not hold the reward back."""
    sentence = f"{who}: {percent(found.share)} of the `{found.term}` verdicts {said}"
    if not found.in_force:
        sentence += " It has no weight, and holds nothing back."
    return Finding(
        severity=severity,
        terms=(found.term,),
        sentence=sentence,
        numbers={
            "share": found.share,
            "failed": found.count,
            "seconds_p95": _seconds(window, found.term),
        },
        action=action,
    )


def _mostly(window: Window, found: VerdictShare, kinds: Counter[Failure]) -> str:
    """Name the most frequent reason, with verdict time for timeouts."""
    (_, status, reason), _ = kinds.most_common(1)[0]
    text = f"mostly `{safe_reason(reason) or status}`"
    if _count(kinds, _is_late):
        text += f" (95 % of verdicts within {_seconds(window, found.term):.2g} s)"
    return text


def _seconds(window: Window, term: str) -> float:
    """The slowest verdicts' time: the 95th percentile of the slowest batch."""
    return max(
        (batch.seconds[1] or 0.0 for batch in window.of_term(term).batches), default=0.0
    )
