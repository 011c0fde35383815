"""Read golds from rows, where no verdict tells the gold."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from trl_grpo_ext.answers.find.final_answer import final_answer
from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import Status

# Columns, the usual first.
GOLD = ("solution", "answer", "gold", "target", "label", "tests", "test_list", "test")
# Texts of a batch that are read, of whole groups; ours, since this runs during training.
MOST_TEXTS = 64
# Of the completions that end on their gold, more than of the others: a form, which all may have, is no answer. Ours.
PAID = 0.5
# Of the completions that a term finds right, the most that lack their gold: a policy that is right where it thinks has
# the form `<think>` beside some wrong answers too, 0.1 of them. Ours, from runs of the quickstart.
SLIPS = 0.02
# Of the gold: a number that differs by less is the gold, rounded. Ours.
CLOSE = 0.05
# Of a batch's completions, more than have the best score. Ours.
LEAST_BEST = 1 / 16
# Whole numbers, and numbers without a sign.
_WHOLE = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)")
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")
# Characters at a text's end that are read, and of a number.
MOST_END, MOST_NUMBER = 256, 60


def gold_column(row: Mapping[str, Any]) -> str | None:
    """Find the usual gold or test column of this row; None without one.

    Examples:
        >>> gold_column({"level": 5, "answer": "42"})
        'answer'
    """
    for name in GOLD:
        if row.get(name):
            return name
    return None


def void_golds(card: Scorecard) -> Counter[str]:
    """Count the groups without a judged member by the text of their gold; a row without a gold column counts as ``."""
    found: Counter[str] = Counter()
    for rows in card.members:
        if not all(card.void[row] for row in rows):
            continue
        row = card.samples[rows[0]].row or {}
        gold = next((row[name] for name in GOLD if name in row), "")
        found[on_one_line(str(gold), MOST_NUMBER)] += 1
    return found


class Paid(NamedTuple):
    """Counts of completions that one term finds right.

    Attributes:
        ended: Completions whose text ends on the gold.
        others: Completions with another end.
        slips: Those of `others` in whose end the gold does not stand at all.
        has_golds: Whether the term's verdicts tell the gold, so that it compares answers, and judges no form.
    """

    ended: int
    others: int
    slips: int
    has_golds: bool


class GoldEndings(NamedTuple):
    """Counts of completions that end on their gold, and of answers that a verifier finds right.

    Attributes:
        ended: Completions whose text ends on the gold.
        others: Completions with another end.
        paid: Completions that each term in force finds right.
        refused: Those of `ended` that the primary verifier finds wrong, or gives the batch's lowest score.
        example: Text and gold of the last refused completion.
        lowest: Those of `ended` that have the batch's lowest score, while all completions with another end have more.
        correct: Answers that the primary verifier has read as numbers and found right. Of a function that tells no
            answers: completions beside a whole number as gold with the batch's best score, above 0.
        other: Those of `correct` that are another number than the gold.
        wrong: All answers, right or not for the verifier, that are another number than the gold.
        other_example: Answer and gold of the last such answer.
    """

    ended: int = 0
    others: int = 0
    paid: Mapping[str, Paid] = MappingProxyType({})
    refused: int = 0
    example: tuple[str, str] | None = None
    lowest: int = 0
    correct: int = 0
    other: int = 0
    wrong: int = 0
    other_example: tuple[str, str] | None = None


class _Scored(NamedTuple):
    """A whole completion with a primary score: its row in the batch, its gold, and whether its text ends on the gold.

    `gold` is the value that the gold column gives, without the solution around it; empty without a gold.
    """

    row: int
    score: float
    gold: str
    ends: bool


def gold_endings(card: Scorecard) -> GoldEndings:
    """Count completions whose text ends on the gold, and answers that are paid though they are not the gold.

    Cut completions, and those that a verifier could not read, are left out.
    """
    scored = list(_scored(card))
    ended = [each for each in scored if each.ends]
    refused = _refused(card, scored)
    others = [each.score for each in scored if not each.ends]
    paid = {term: _paid(card, term, scored) for term in card.in_force}
    counts = GoldEndings(ended=len(ended), others=len(others), paid=paid)
    highest = max((each.score for each in ended), default=math.inf)
    has_lowest = bool(others) and highest < min(others) and _weight(card) > 0
    correct, other, wrong = _paid_answers(card, scored, is_paid=are_paid([counts]))
    return counts._replace(
        refused=len(refused),
        example=_told(card, refused[-1]) if refused else None,
        lowest=len(ended) if has_lowest else 0,
        correct=len(correct),
        other=len(other),
        wrong=len(wrong),
        other_example=_answer_told(card, other[-1]) if other else None,
    )


def _refused(card: Scorecard, scored: Sequence[_Scored]) -> list[_Scored]:
    """List completions that end on their gold, and that the primary verifier does not pay."""
    worst = min((each.score for each in scored), default=0.0)
    # A penalty gives 0 to the best: not a score that completions with another end have too.
    pays_nobody = worst <= 0 and any(
        each.score == worst and not each.ends for each in scored
    )
    refused = []
    for each in scored:
        status = _status(card, each.row)
        is_worst = status is Status.SCORED and each.score == worst and pays_nobody
        if each.ends and (status is Status.INCORRECT or is_worst):
            refused.append(each)
    return refused


def _told(card: Scorecard, scored: _Scored) -> tuple[str, str]:
    """Return the ends of a completion and of its gold column's text."""
    sample = card.samples[scored.row]
    gold = str(sample.row[gold_column(sample.row) or ""])
    return on_one_line(sample.text[-MOST_NUMBER:], MOST_NUMBER), on_one_line(
        gold[-MOST_NUMBER:], MOST_NUMBER
    )


def _answer_told(card: Scorecard, scored: _Scored) -> tuple[str, str]:
    answer = _answer(card, scored) or _last_number(_end(card, scored)) or ""
    return on_one_line(answer, MOST_NUMBER), on_one_line(scored.gold, MOST_NUMBER)


def _answer(card: Scorecard, scored: _Scored) -> str:
    """Return the answer that the primary verifier has read; empty if it tells none."""
    verdict = card.primary[scored.row]
    return "" if verdict is None else verdict.answer or ""


def _paid_answers(
    card: Scorecard, scored: Sequence[_Scored], *, is_paid: bool
) -> tuple[list[_Scored], list[_Scored], list[_Scored]]:
    """Return the paid answers, the paid answers other than their golds, and all answers other than their golds."""
    if _reads_answers(card) or is_paid:
        numbers = [each for each in scored if _has_numbers(card, each)]
        wrong = [each for each in numbers if _is_other(_answer(card, each), each.gold)]
        correct = [each for each in numbers if _status(card, each.row) is Status.CORRECT]
    else:
        wrong = [each for each in scored if not _has_gold(card, each)]
        correct = _best_paid(card, scored)
    others = {each.row for each in wrong}
    return correct, [each for each in correct if each.row in others], wrong


def _has_numbers(card: Scorecard, scored: _Scored) -> bool:
    """Test whether gold and answer are numbers."""
    return number(scored.gold) is not None and number(_answer(card, scored)) is not None


def _is_other(answer: str, gold: str) -> bool:
    """Test whether a number differs from the gold by more than rounding does; answer and gold are numbers."""
    given, wanted = number(answer) or 0.0, number(gold) or 0.0
    return abs(given - wanted) > CLOSE * abs(wanted)


def _reads_answers(card: Scorecard) -> bool:
    """Test whether a term, with or without weight, tells an answer that it has read."""
    verdicts = itertools.chain.from_iterable(card.verdicts.values())
    return any(verdict is not None and verdict.answer for verdict in verdicts)


def _best_paid(card: Scorecard, scored: Sequence[_Scored]) -> list[_Scored]:
    """List completions beside a whole number as gold that a function without answers gives its best score, above 0.

    Scores of which hardly any two are equal, as a reward model's, find nothing right.
    """
    best = max((each.score for each in scored), default=0.0)
    found = []
    for each in scored:
        is_best = _status(card, each.row) is Status.SCORED and each.score == best > 0
        has_number = _last_number(_end(card, each)) is not None
        if is_best and has_number and _WHOLE.fullmatch(each.gold.strip()):
            found.append(each)
    return found if len(found) > max(1, len(scored) * LEAST_BEST) else []


def _has_gold(card: Scorecard, scored: _Scored) -> bool:
    """Test whether a number of the completion's end is the gold."""
    numbers = _NUMBERS.findall(
        re.sub(r"(?<=\d)(?:,|\{,\}|\\,)(?=\d{3})", "", _end(card, scored))
    )
    wanted = abs(number(scored.gold) or 0.0)
    return any(number(each) == wanted for each in numbers)


def _end(card: Scorecard, scored: _Scored) -> str:
    return card.samples[scored.row].text[-MOST_END:]


def _weight(card: Scorecard) -> float:
    """Return the weight of the first term in force; 0 without one."""
    return next((card.weights[term] for term in card.in_force), 0.0)


def tool_answers(card: Scorecard) -> Counter[tuple[str, bool]]:
    """Count completions that end on a tool's last result, by the tool's name and whether the verdict is correct.

    Of scores without a range, the best one is right if the batch has only it and 0; of other scores none is known.
    """
    found: Counter[tuple[str, bool]] = Counter()
    marks = set(_scores(card))
    best = max(marks, default=0.0)
    for row, sample in enumerate(card.samples):
        results = [
            message for message in sample.messages or () if message.get("role") == "tool"
        ]
        if not results or _score(card, row) is None:
            continue
        last = results[-1]
        if ends_on(sample.text[-MOST_END:], str(last.get("content")).strip()):
            is_right = _status(card, row) is Status.CORRECT
            if _status(card, row) is Status.SCORED:
                if not marks <= {0.0, best}:
                    continue
                is_right = _score(card, row) == best > 0
            found[str(last.get("name", "")), is_right] += 1
    return found


def _scored(card: Scorecard) -> Iterator[_Scored]:
    """Yield the whole completions of the first groups."""
    most = MOST_TEXTS * len(card.members) // max(1, len(card))
    for row in itertools.chain.from_iterable(card.members[: max(1, most)]):
        verdict = card.primary[row]
        sample = card.samples[row]
        if verdict is None or verdict.score is None or verdict.status is Status.UNPARSEABLE:
            continue
        # A program was run, and its error is the reason.
        if sample.truncated is True or "why" in verdict.details:
            continue
        gold = _gold_of(sample.row)
        yield _Scored(row, verdict.score, gold, ends_on(sample.text[-MOST_END:], gold))


def _gold_of(row: Mapping[str, Any]) -> str:
    """Return the value of a row's gold column, `44` of `15 + 29 = 44 #### 44`; empty without a gold, or for several."""
    column = gold_column(row)
    golds = () if column is None else gold_texts(row[column])
    return golds[0] if len(golds) == 1 else ""


def ends_on(text: str, gold: str) -> bool:
    """Test whether a text's last number, or its last words, are a gold; case, marks and braces behind it do not count.

    Examples:
        >>> ends_on("so it is 1,250.", "1250"), ends_on("<b>Yes</b>", "yes"), ends_on("I know", "no"), ends_on("7", "")
        (True, True, False, False)
    """
    wanted = number(gold)
    if wanted is not None:
        answer = _last_number(text)
        return answer is not None and number(answer) == wanted
    if not 0 < len(gold) <= MOST_NUMBER:
        return False
    before, found, behind = text.casefold().rpartition(gold.strip().casefold())
    is_last = not re.search(r"\w", re.sub(r"</\w+>", "", behind))
    return bool(found) and is_last and not before[-1:].isalnum()


def _status(card: Scorecard, row: int) -> Status | None:
    verdict = card.primary[row]
    return None if verdict is None else verdict.status


def _paid(card: Scorecard, term: str, scored: Sequence[_Scored]) -> Paid:
    """Count the completions that a term finds right, by whether their text ends on the gold."""
    verdicts = card.verdicts[term]
    found: list[_Scored] = []
    has_golds = False
    for each in scored:
        verdict = verdicts[each.row]
        if verdict is None:
            continue
        has_golds = has_golds or "gold" in verdict.details
        if verdict.status is Status.CORRECT:
            found.append(each)
    others = [each for each in found if not each.ends]
    slips = [each for each in others if _lacks_gold(card, each)]
    return Paid(
        ended=len(found) - len(others),
        others=len(others),
        slips=len(slips),
        has_golds=has_golds,
    )


def _lacks_gold(card: Scorecard, scored: _Scored) -> bool:
    """Test whether a completion's end lacks the gold, as a number or as words."""
    if number(scored.gold) is None:
        return scored.gold.strip().casefold() not in _end(card, scored).casefold()
    return not _has_gold(card, scored)


def are_paid(endings: Sequence[GoldEndings]) -> bool:
    """Test whether a term in force pays completions that end on their gold, and others far less often.

    A form does so too, where the policy is right if it has the form. It differs in that it also pays wrong answers.
    """
    ended = max(1, sum(each.ended for each in endings))
    others = max(1, sum(each.others for each in endings))
    for term in {term for each in endings for term in each.paid}:
        counts = [each.paid[term] for each in endings if term in each.paid]
        right = sum(paid.ended for paid in counts)
        wrong = sum(paid.others for paid in counts)
        slips = sum(paid.slips for paid in counts)
        has_golds = any(paid.has_golds for paid in counts)
        is_answer = has_golds or slips <= SLIPS * (right + wrong)
        if is_answer and right / ended - wrong / others >= PAID:
            return True
    return False


# A batch has few numbers, and each is compared with many.
@lru_cache(maxsize=4 * MOST_TEXTS)
def number(text: str) -> float | None:
    """Convert a number's text, commas left out, to a float; None for other texts.

    Examples:
        >>> number("1,250"), number("12 apples")
        (1250.0, None)
    """
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def number_beside_gold(card: Scorecard) -> tuple[str, str] | None:
    """Return the commonest last number of a group's completions with its gold, for verifiers that tell no answers.

    None where that number is the gold, where it has the batch's best score, and where golds are no numbers. So a
    dataset whose golds are mostly right, or a verifier that converts them, gives none.
    """
    highest = max(_scores(card), default=None)
    pairs: Counter[tuple[str, str]] = Counter()
    best: set[tuple[str, str]] = set()
    most = MOST_TEXTS * len(card.members) // max(1, len(card))
    for rows in card.members[: max(1, most)]:
        counts: Counter[tuple[str, str]] = Counter()
        for row in rows:
            pair = _pair(card, row)
            if pair is None:
                continue
            counts[pair] += 1
            if _score(card, row) == highest:
                best.add(pair)
        for pair, count in counts.items():
            pairs[pair] = max(count, pairs[pair])
    for pair, _ in itertools.islice(pairs.most_common(), 1):
        if pair not in best and number(pair[0]) != number(pair[1]):
            return pair
    return None


def _scores(card: Scorecard) -> list[float]:
    """List the known scores of the primary verdicts."""
    scores = [_score(card, row) for row in range(len(card))]
    return [score for score in scores if score is not None]


def _score(card: Scorecard, row: int) -> float | None:
    verdict = card.primary[row]
    return None if verdict is None else verdict.score


def _pair(card: Scorecard, row: int) -> tuple[str, str] | None:
    """Return a text's last number and its row's gold; None if either is no number."""
    sample = card.samples[row]
    column = gold_column(sample.row)
    gold = "" if column is None else str(sample.row[column])[:MOST_NUMBER]
    if number(gold) is None:
        return None
    answer = _last_number(sample.text[-MOST_END:])
    if answer is None or number(answer) is None:
        return None
    return answer[:MOST_NUMBER], gold


# Of a batch, two figures read the same ends.
@lru_cache(maxsize=2 * MOST_TEXTS)
def _last_number(text: str) -> str | None:
    """Return the last number of a text's end; None without a number, or with an end that leaves it open."""
    answers = final_answer(text, answer_from="last_number").answers
    return answers[0] if answers else None
