"""Golds beside wrong answers: the relation in which they stand, and answers that are told with their gold."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from trl_grpo_ext.figures.gold import number
from trl_grpo_ext.figures.reduction import BatchFigures


def told_gold(batches: Sequence[BatchFigures]) -> str:
    """An answer of the latest group that nobody has solved, beside its gold; empty where no verdict tells the gold."""
    for batch in reversed(batches):
        if batch.wrong_answer:
            return told_pair(batch.wrong_answer)
    return ""


def told_pair(pair: tuple[str, str] | None) -> str:
    """Quote a wrong answer with its gold, as a sentence after another; empty for None."""
    if pair is None:
        return ""
    answer, gold = pair
    return f" For example, a completion answered `{answer}`, and the gold is `{gold}`{_unit_told(answer, gold)}."


def _quoted_pairs(batches: Sequence[BatchFigures]) -> list[tuple[str, str]]:
    """List the quoted wrong answer of each batch, with its gold; batches without one are left out."""
    return [batch.wrong_answer for batch in batches if batch.wrong_answer]


def _stands_in(gold: str, answer: str) -> bool:
    """Test whether an answer contains a gold as a word or number, beside other text.

    Examples:
        >>> _stands_in("82", "so it is 82!"), _stands_in("82", "182"), _stands_in("82", "82.5"), _stands_in("82", "82")
        (True, False, False, False)
    """
    whole = rf"(?<![\w.]){re.escape(gold)}(?![\w]|\.\w)"
    return bool(gold) and gold != answer and re.search(whole, answer) is not None


# Of the first batches: by chance, one number in a hundred is another's in some unit. Ours.
LEAST_RELATED = 3
# Quoted wrong answers, and prompts; and times as many different answers as golds. Ours.
LEAST_FEW, FEW = 8, 2
# Times as large, or as small. Ours, from a run whose sums were too hard: 56 in place of 2719.
FAR = 3.0
# Of the wrong answers that stand for a batch; of fewer batches nothing is told.
NEARLY_ALL, LEAST_PAIRS = 0.9, 4


def are_far_from_gold(batches: Sequence[BatchFigures]) -> bool:
    """Test for wrong answers much smaller than their golds, or much larger, unit factors aside.

    Golds of other rows, and random ones, are as large as answers. Golds of another column, such as a level, a count or
    a label, take few values, whatever the questions are.
    """
    pairs = _quoted_pairs(batches)
    if FEW * len({gold for _, gold in pairs}) <= len({answer for answer, _ in pairs}):
        return False
    smaller = larger = 0
    for answer, gold in pairs:
        given, wanted = number(answer), number(gold)
        if given is None or wanted is None or _unit_told(answer, gold):
            continue
        if FAR * abs(given) < abs(wanted):
            smaller += 1
        if abs(given) > FAR * abs(wanted):
            larger += 1
    return len(pairs) >= LEAST_PAIRS and max(smaller, larger) >= NEARLY_ALL * len(pairs)


def same_answer(batches: Sequence[BatchFigures]) -> str:
    """Return the answer that stands for most batches though their golds differ; empty if there is none."""
    pairs = _quoted_pairs(batches)
    if len(pairs) < LEAST_PAIRS or len({gold for _, gold in pairs}) < LEAST_PAIRS:
        return ""
    [(answer, count)] = Counter(answer for answer, _ in pairs).most_common(1)
    return answer if 2 * count > len(pairs) else ""


def other_kind(batches: Sequence[BatchFigures]) -> str:
    """Tell of wrong answers that are numbers where all golds are words, or the other way round; else empty."""
    pairs = _quoted_pairs(batches)
    if len(pairs) < LEAST_PAIRS:
        return ""
    answers = [number(answer) is not None for answer, _ in pairs]
    golds = [number(gold) is not None for _, gold in pairs]
    if all(golds) and not any(answers):
        return "the golds are numbers and the answers are not"
    if all(answers) and not any(golds):
        return "the answers are numbers and the golds are not"
    return ""


# Quotients of units: cents, thousandths, minutes and hours, dozens.
UNITS = (100, 1000, 60, 3600, 24, 12)


def _unit_told(answer: str, gold: str) -> str:
    """Name the unit factor between gold and answer; empty without a factor.

    Examples:
        >>> _unit_told("89", "8900"), _unit_told("2.5", "2,500"), _unit_told("7", "8")
        (': 100 times as much, as in another unit', ': 1000 times as much, as in another unit', '')
    """
    given = number(answer)
    wanted = number(gold)
    if given is None or wanted is None:
        return ""
    for unit in UNITS:
        if given and math.isclose(wanted, given * unit):
            return f": {unit} times as much, as in another unit"
        if wanted and math.isclose(given, wanted * unit):
            return f": a {unit}th of it, as in another unit"
    return ""


def _is_same(answer: str, gold: str) -> bool:
    """Test for equal numbers, or for texts that differ in case or white space only."""
    wanted = number(gold)
    if wanted is not None:
        return number(answer) == wanted
    return bool(gold.split()) and answer.casefold().split() == gold.casefold().split()


def _is_negated(answer: str, gold: str) -> bool:
    given, wanted = number(answer), number(gold)
    return bool(wanted) and given is not None and given == -(wanted or 0)


def is_in_other_unit(answer: str, gold: str) -> bool:
    """Test whether an answer is its gold in another unit: `250` for `2.5`."""
    return bool(_unit_told(answer, gold))


def _contains_gold(answer: str, gold: str) -> bool:
    return _stands_in(gold, answer)


def _stands_in_gold(answer: str, gold: str) -> bool:
    return _stands_in(answer, gold)


def _differs_by_rounding(answer: str, gold: str) -> bool:
    return _is_rounded(answer, gold) or _is_rounded(gold, answer)


def _is_rounded(exact: str, rounded: str) -> bool:
    """Test whether rounding the exact number to units, tens or hundreds gives the rounded number.

    Examples:
        >>> _is_rounded("78", "80"), _is_rounded("2.7", "3"), _is_rounded("78", "90"), _is_rounded("8", "0")
        (True, True, False, False)
    """
    given, wanted = number(exact), number(rounded)
    if given is None or not wanted or given == wanted or not math.isfinite(given):
        return False
    return any(round(given, digits) == wanted for digits in (0, -1, -2))


class Relation(NamedTuple):
    """Relation of a wrong answer and its gold, which shows a cause: its test, a sentence and an action."""

    holds: Callable[[str, str], bool]
    sentence: str
    action: str


READ_AS_WRITTEN = "Take a verifier that compares numbers, such as `math`, or write the golds as answers are written."
CONVERT = "Compare a few golds with their prompts, and convert the column, or name the unit in the prompt."
# The first that holds counts. `{term}` is the primary term.
RELATIONS = (
    Relation(
        _is_same,
        "{term} compares texts, not numbers or words: most wrong answers are the gold, written otherwise",
        READ_AS_WRITTEN,
    ),
    Relation(
        is_in_other_unit,
        "The golds are in another unit than the answers",
        CONVERT,
    ),
    Relation(
        _is_negated,
        "The golds may have another sign than the answers",
        "Compare a few golds with their prompts, and mend their sign.",
    ),
    Relation(
        _contains_gold,
        "{term} may be too strict: most wrong answers contain the gold, and more than it",
        "Let {term} read the answer alone (answer_from), or say in the prompt that nothing else may stand there.",
    ),
    Relation(
        _stands_in_gold,
        "The golds hold more than the answer: most wrong answers stand in their gold, beside other text",
        "Leave only the answer in the golds, or take a verifier that reads it there.",
    ),
    Relation(
        _differs_by_rounding,
        "The golds may be rounded, or the answers: most wrong answers are the gold but for their last digits",
        "Say in the prompt how to round, mend the golds, or give the verifier a tolerance.",
    ),
)


def relation(batches: Sequence[BatchFigures]) -> Relation | None:
    """Find the relation in which most quoted wrong answers stand to their golds; None without a common one."""
    pairs = _quoted_pairs(batches)
    found = Counter(_place(*pair) for pair in pairs)
    for place, count in found.most_common(1):
        if place is not None and count >= LEAST_RELATED and 2 * count > len(pairs):
            return RELATIONS[place]
    return None


def told_related(batches: Sequence[BatchFigures], related: Relation) -> str:
    """Tell the first quoted wrong answer that stands in a relation to its gold."""
    for answer, gold in _quoted_pairs(batches):
        if related.holds(answer, gold):
            return told_pair((answer, gold))
    return ""


def _place(answer: str, gold: str) -> int | None:
    """Return the place of the first relation that holds; None without one."""
    return next(
        (place for place, each in enumerate(RELATIONS) if each.holds(answer, gold)), None
    )


def few_golds(batches: Sequence[BatchFigures]) -> tuple[str, ...]:
    """Return the golds beside many different wrong answers, if these golds take few values; else nothing.

    Golds of words may well be few, as labels are. A single one, beside several prompts, is none of a question.
    """
    pairs = _quoted_pairs(batches)
    prompts = frozenset[int]().union(*(batch.prompts for batch in batches))
    golds = tuple(dict.fromkeys(gold for _, gold in pairs))
    answers = {answer for answer, _ in pairs}
    if min(len(pairs), len(prompts)) < LEAST_FEW or FEW * len(golds) > len(answers):
        return ()
    are_numbers = all(number(gold) is not None for gold in golds)
    return golds if are_numbers or len(golds) == 1 else ()
