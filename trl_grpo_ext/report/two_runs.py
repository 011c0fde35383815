"""The answer of a report of two runs: which of them is ahead, by how much, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trl_grpo_ext.diagnostics.levels import ends_of, score_level
from trl_grpo_ext.figures.reduction import reduce_card
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Mode
from trl_grpo_ext.support.estimate import SURE, Estimate, Z
from trl_grpo_ext.support.text import shortened

MOST_NAMED = 6  # settings that are named
MOST_CHARS = 80  # of a value
JUDGING = ("name", "verifier", "settings", "weight")  # what else a term's description has are conditions


def comparison(runs: Sequence[RecordedRun], names: Sequence[str]) -> str:
    """Which run is ahead in its last evaluation, or where one has none in its last training, and what differs.

    The score is that which the head of each run's page shows; the interval is of 95 %.
    """
    mode: Mode = "eval" if all(run.parts("eval") for run in runs) else "train"
    first, second = (_last_score(run, mode) for run in runs)
    differs = ", ".join(_differences(runs))
    return f"{_ahead(first, second, names, mode)} {f'They differ in {differs}.' if differs else 'No setting differs.'}"


def _last_score(run: RecordedRun, mode: Mode) -> Estimate:
    """The score of the last evaluation, or of the end of training."""
    parts, settings = run.parts(mode), run.settings
    last = [part for part in parts if part[1].step == parts[-1][1].step] if mode == "eval" else ends_of(parts)[1]
    cards = (run.readable(number) for number, _ in last)
    return score_level([reduce_card(card, settings) for card in cards if card is not None])


def _ahead(first: Estimate, second: Estimate, names: Sequence[str], mode: str) -> str:
    where = "in the last evaluation" if mode == "eval" else "at the end of training"
    if not (first.is_known and second.is_known):
        return f"Which run is ahead {where} is unknown: not both have scores."
    gap = first - second
    ahead, behind = names if gap.mean >= 0 else reversed(names)
    high, low = max(first.mean, second.mean), min(first.mean, second.mean)
    margin, by = Z * gap.error, abs(gap.mean)
    interval = f"{by:.3f} [{by - margin:.3f}, {by + margin:.3f}]"
    if by <= SURE * gap.error or not by:
        return f"{where[0].upper()}{where[1:]} the two are equal as far as can be told: the difference is {interval}."
    return f"{ahead} beats {behind} by {interval} {where}: {high:.3f} against {low:.3f}."


def _differences(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """What differs in the settings, the verifiers and the last weights, with both values."""
    one, other = ({**run.settings, "weight": _last_weights(run)} for run in runs)
    rewards = [{reward["name"]: reward for reward in each.pop("rewards", ())} for each in (one, other)]
    found = [said for name in {**one, **other} for said in _difference(name, one.get(name), other.get(name), rewards)]
    yield from found[:MOST_NAMED]
    if len(found) > MOST_NAMED:
        yield f"{len(found) - MOST_NAMED} more (see Settings)"


def _last_weights(run: RecordedRun) -> Mapping[str, float]:
    parts = run.parts()
    return parts[-1][1].weights if parts else {}


def _difference(name: str, one: Any, other: Any, rewards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        if one != other:
            yield f"{name} ({_shown(one)}, {_shown(other)})"
        return
    for term in {**one, **other}:
        if name == "verifiers" and term in one and term in other:
            has_changed = one[term] != other[term]
            yield from _of_term(term, *(each.get(term, {}) for each in rewards), has_changed=has_changed)
        elif name == "weight" and one.get(term) != other.get(term):
            yield f"the weight of {term} ({_shown(one.get(term))}, {_shown(other.get(term))})"


def _of_term(term: str, one: Mapping[str, Any], other: Mapping[str, Any], *, has_changed: bool) -> Iterator[str]:
    """What differs in two descriptions of a term; runs that an earlier version has recorded have none.

    `has_changed` says whether the verifiers' identities differ. These are digests, which tell a reader nothing.
    """
    if has_changed and one.get("verifier") == other.get("verifier") and one.get("settings") != other.get("settings"):
        yield from _changed(term, one["settings"], other["settings"])
    elif has_changed:
        classes = [each["verifier"].rpartition(".")[2] for each in (one, other) if "verifier" in each]
        yield f"the verifier of {term}" + (f" ({', '.join(classes)})" if len(set(classes)) == 2 else "")
    if one and other:
        conditions = [{key: item for key, item in each.items() if key not in JUDGING} for each in (one, other)]
        yield from _changed(term, *conditions)


def _changed(term: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for key in {**one, **other}:
        if one.get(key) != other.get(key):
            yield f"{key} of {term} ({_shown(one.get(key))}, {_shown(other.get(key))})"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else shortened(str(value), MOST_CHARS)
