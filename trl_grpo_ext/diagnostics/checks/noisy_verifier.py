"""Check `noisy_verifier`: contradictions, verdicts against the gold, the noise meter, or a second opinion."""

from __future__ import annotations

from typing import NamedTuple

from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.diagnostics.batches import (
    agreement,
    names,
    no_second_opinion,
    percent,
    second_opinions,
)
from trl_grpo_ext.diagnostics.example import safe_reason
from trl_grpo_ext.diagnostics.finding import Finding, NotChecked, Severity
from trl_grpo_ext.diagnostics.golds import is_in_other_unit
from trl_grpo_ext.diagnostics.progress import has_risen
from trl_grpo_ext.diagnostics.scale import common_scale, declared_ranges
from trl_grpo_ext.diagnostics.window import CheckResult, Window
from trl_grpo_ext.figures.gold import are_paid
from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS
from trl_grpo_ext.figures.primary import Agreement

# Ours, tried in test_fault_injection.py (a verifier that judges by chance). A coin contradicts itself in half.
# Of a term's verdicts.
LEAST_REPEATS = 16
# Of the scale: scores closer than that are the same, since a model that judges is not exact.
SAME_SCORE = 0.15
# Of the repeats.
CONTRADICTS, MOSTLY_CONTRADICTS = 0.1, 0.3
# Of the answers, the least that the 95 % interval allows. Ours, tried in test_noise_meter.py.
WARN, CRITICAL = 0.02, 0.10
# 0.8 is the usual bound of good agreement. The others are ours: kappa is harsh where nearly all are right, or wrong.
KAPPA = 0.8
# Completions that they disagree on.
LEAST_APART = 10
# Of all completions.
LEAST_SHARE_APART = 0.05
# Ours, tried in test_diagnosis_cases.py (a verifier that is too strict).
# Of all completions are accepted by the second opinion alone.
STRICT = 0.15
# Of these: the most that the primary term accepts alone.
ONE_WAY = 0.2

# Of the completions that end on their gold, and how many of them. Ours, from verifiers that took the first number or
# the whole text for the answer: 0.6 and more; of a verifier that reads them, hardly any.
REFUSED, LEAST_ENDINGS = 0.5, 32
# Completions that end on their gold, and the share of them with the lowest score; of distances and costs, all.
LEAST_RIGHT, LOWEST = 16, 0.9
# Of the answers found right, or of the wrong ones, and how many are found right: a tolerance that pays so many is too
# wide. Ours; from a tolerance of 10 for sums around 70: 0.4 of the answers found right, 0.9 of the wrong ones.
OTHER, SOME_OTHER, LEAST_CORRECT = 0.5, 0.2, 32

SAYS = {
    FALSE_ACCEPTS: "accepts {rate} of the answers that are right for another prompt only",
    FALSE_REJECTS: "turns down {rate} of right answers that are written in another form",
}


def inconsistent(window: Window) -> CheckResult:
    """Find identical completions of a group with different scores."""
    # Shadows last.
    for term in sorted(window.terms, key=lambda term: term not in window.in_force):
        repeats = window.of_term(term).repeats
        contradictions = _contradictions(window, term)
        if repeats < LEAST_REPEATS or contradictions < CONTRADICTS * repeats:
            continue
        severity = Severity.critical_if(contradictions >= MOSTLY_CONTRADICTS * repeats)
        return Finding(
            severity=severity if term in window.in_force else Severity.INFO,
            terms=(term,),
            sentence=(
                f"`{term}` contradicts itself: of {repeats} completions that a sibling has given word for word, it "
                f"scored {percent(contradictions / repeats)} differently."
            ),
            numbers={"share": contradictions / repeats, "repeats": repeats},
            action=f"Make `{term}` give the same text the same score: what it decides by chance cannot be learned.",
        )
    return None


def refused(window: Window) -> CheckResult:
    """Find a verifier that turns down completions whose text ends on the gold, and that no other term pays."""
    endings = [batch.gold_endings for batch in window.kept_batches]
    count = sum(each.ended for each in endings)
    turned_down = sum(each.refused for each in endings)
    if count < LEAST_ENDINGS or turned_down < REFUSED * count or window.is_solved:
        return None
    if are_paid(endings):
        return None
    text, gold = next(each.example for each in reversed(endings) if each.example)
    term = names(window.primary_terms)
    return Finding(
        severity=Severity.INFO if has_risen(window) else Severity.CRITICAL,
        terms=tuple(window.primary_terms),
        sentence=(
            f"The verifier, not the model: {term} turns down {percent(turned_down / count)} of the {count} completions "
            f"that end on their gold, such as `{safe_reason(text)}` with the gold `{safe_reason(gold)}`."
        ),
        numbers={"refused": turned_down / count, "endings": count},
        action=_of_refusal(term, gold),
    )


def turned_around(window: Window) -> CheckResult:
    """Find a reward that gives right answers its lowest score, as a distance without a minus does."""
    endings = [batch.gold_endings for batch in window.kept_batches]
    ended = sum(each.ended for each in endings)
    lowest = sum(each.lowest for each in endings)
    if ended < LEAST_RIGHT or lowest < LOWEST * ended:
        return None
    term = names(window.primary_terms)
    return Finding(
        severity=Severity.CRITICAL,
        terms=tuple(window.primary_terms),
        sentence=(
            f"The reward is turned around: of {ended} completions that end on their gold, {percent(lowest / ended)} "
            f"have the lowest score that {term} gives, and every other completion has more."
        ),
        numbers={"endings": ended, "lowest": lowest / ended},
        action=f"Give {term} a negative weight, or let it return the negative: of a distance, less is better.",
    )


def other_answers(window: Window) -> CheckResult:
    """Find a verifier whose paid answers mostly differ from the gold, or which pays most wrong numbers."""
    endings = [batch.gold_endings for batch in window.batches]
    correct = sum(each.correct for each in endings)
    other = sum(each.other for each in endings)
    wrong = sum(each.wrong for each in endings)
    examples = [each.other_example for each in endings if each.other_example]
    pays_most = other >= OTHER * correct or (
        other >= SOME_OTHER * correct and other >= OTHER * wrong
    )
    if other < LEAST_CORRECT * SOME_OTHER or correct < LEAST_CORRECT or not pays_most:
        return None
    if is_in_other_unit(*examples[-1]):
        return None
    answer, gold = examples[-1]
    term = names(window.primary_terms)
    return Finding(
        severity=Severity.CRITICAL,
        terms=tuple(window.primary_terms),
        sentence=(
            f"The reward is not to be trusted: of {correct} answers that {term} finds right, "
            f"{percent(other / correct)} are another number than the gold, such as `{safe_reason(answer)}` for the "
            f"gold `{safe_reason(gold)}`."
        ),
        numbers={"correct": correct, "other": other / correct},
        action=(
            f"Judge such an answer with {term} by hand: see how wide its tolerance is, and whether it compares with "
            f"the gold at all."
        ),
    )


def _of_refusal(term: str, gold: str) -> str:
    """Advise to judge a refused right answer by hand, with an eye on a gold that holds its solution."""
    compares = "compares text with number, or minds case and spaces"
    if gold_texts(gold) != (gold,):
        compares = "compares with the whole gold, which holds more than the answer (`math` reads it there)"
    return (
        f"Judge such a completion with {term} by hand: see where it looks for the answer (a tag, a box, the first "
        f"number, the whole text), and whether it {compares}."
    )


def _contradictions(window: Window, term: str) -> int:
    """Count repeated completions whose score differs by more than `SAME_SCORE` of the term's scale."""
    scale = common_scale(window.seen, [term], declared_ranges(window.settings))
    least = SAME_SCORE * scale.span
    count = 0
    for batch in window.of_term(term).batches:
        count += sum(difference > least for difference in batch.contradictions)
    return count


def measured(window: Window) -> CheckResult:
    """Report the worse rate of the noise meter: false accepts or false rejects."""
    rates = _rates(window)
    if not rates:
        needs = "a right answer whose verifier compares it with a gold (measure_noise), and a log after it"
        return NotChecked(needs) if window.batches else None
    worst = max(rates, key=lambda name: rates[name].low)
    low, rate, high = rates[worst]
    if low < WARN:
        return None
    numbers = {name.rpartition("/")[2]: rates[name].rate for name in rates}
    said = f"{percent(rate)} ({percent(low)} to {percent(high)})"
    return Finding(
        severity=Severity.critical_if(low >= CRITICAL),
        terms=tuple(window.primary_terms),
        sentence=f"The verifier, not the model: {names(window.primary_terms)} {SAYS[worst].format(rate=said)}.",
        numbers=numbers | {"low": low, "high": high},
        action="Read in noise.jsonl what the verifier got wrong; then mend it, or take another.",
    )


class _Rate(NamedTuple):
    """An error rate of the noise meter with its 95 % interval, shares in [0, 1]."""

    low: float
    rate: float
    high: float


def _rates(window: Window) -> dict[str, _Rate]:
    """Read the latest rates of the noise meter, by the name of TRL's logs; rates without an interval are left out."""
    rates = {}
    for name in SAYS:
        low = window.last_logged(f"{name}_low")
        rate = window.last_logged(name)
        high = window.last_logged(f"{name}_high")
        if low is not None and rate is not None and high is not None:
            rates[name] = _Rate(low, rate, high)
    return rates


def disputed(window: Window) -> CheckResult:
    """Find a second opinion that disagrees with the primary verdicts, by Cohen's kappa."""
    shadows = second_opinions(window)
    if window.batches and not shadows:
        return no_second_opinion(window)
    for shadow in shadows:
        found = agreement(window.batches, shadow)
        apart = found.primary_only + found.shadow_only
        if (
            apart >= max(LEAST_APART, LEAST_SHARE_APART * found.size)
            and found.kappa < KAPPA
        ):
            primary = window.in_force[0]
            if _is_too_strict(found) and not has_risen(window):
                return _too_strict(primary, shadow, found)
            return _apart(primary, shadow, found)
    return None


def _is_too_strict(found: Agreement) -> bool:
    """Test for a second opinion that accepts many completions alone, and refuses few alone."""
    return (
        found.shadow_only >= STRICT * found.size
        and found.primary_only <= ONE_WAY * found.shadow_only
    )


def _too_strict(primary: str, shadow: str, found: Agreement) -> Finding:
    down = found.shadow_only + found.neither
    return Finding(
        severity=Severity.WARNING,
        terms=(primary, shadow),
        sentence=(
            f"`{primary}` may be too strict: `{shadow}` accepts {percent(found.shadow_only / down)} of the completions "
            f"that it turns down, {percent(found.shadow_only / found.size)} of all, and the score does not rise."
        ),
        numbers=_numbers(found),
        action=f"Read ten completions that `{shadow}` accepts alone: if they are right, mend `{primary}`, since right "
        f"answers that it turns down are unlearned.",
    )


def _apart(primary: str, shadow: str, found: Agreement) -> Finding:
    share = (found.primary_only + found.shadow_only) / found.size
    return Finding(
        severity=Severity.INFO,
        terms=(primary, shadow),
        sentence=(
            f"`{primary}` and `{shadow}` disagree on {percent(share)} of the completions (kappa {found.kappa:.2f}): "
            f"{found.primary_only} right by `{primary}` only, {found.shadow_only} by `{shadow}` only."
        ),
        numbers=_numbers(found),
        action="Read ten completions of each kind, and mend the verifier that is wrong; prefer the one that passes "
        "no wrong answer.",
    )


def _numbers(found: Agreement) -> dict[str, float]:
    return {
        "kappa": found.kappa,
        "primary_only": found.primary_only,
        "shadow_only": found.shadow_only,
    }
