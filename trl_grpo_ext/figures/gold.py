"""Read golds from rows, where no verdict tells the gold."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from trl_grpo_ext.answers.find.final_answer import final_answer
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.verdict import Status

# Columns, the usual first.
GOLD = ("solution", "answer", "gold", "target", "label", "tests", "test_list", "test")
# Texts of a batch that are read, of whole groups; ours, since this runs during training.
MOST_TEXTS = 64
# Of the completions that end on their gold, more than of the others: a form, which all may have, is no answer. Ours.
PAID = 0.5
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


class GoldEndings(NamedTuple):
    """Counts of completions that end on their gold, all and refused, with text and gold of the last refused."""

    ended: int = 0
    refused: int = 0
    example: tuple[str, str] | None = None


def gold_endings(card: Scorecard) -> GoldEndings:
    """Count completions whose text ends on the gold, and among them the completions that no term pays.

    Cut completions, and those that a verifier could not read, are left out.
    """
    scored = list(_scored_endings(card))
    worst = min((score for _, score, _ in scored), default=0.0)
    # A penalty gives 0 to the best: not a score that completions with another end have too.
    pays_nobody = worst <= 0 and any(score == worst and gold is None for _, score, gold in scored)
    is_paid = _is_paid(card, scored)
    count = 0
    refused: list[tuple[int, str]] = []
    for row, score, gold in scored:
        if gold is None:
            continue
        count += 1
        status = _status(card, row)
        is_worst = status is Status.SCORED and score == worst and pays_nobody
        if (status is Status.INCORRECT or is_worst) and not is_paid:
            refused.append((row, gold))
    if not refused:
        return GoldEndings(count)
    row, gold = refused[-1]
    text = on_one_line(card.samples[row].text[-MOST_NUMBER:], MOST_NUMBER)
    return GoldEndings(count, len(refused), (text, gold))


def tool_answers(card: Scorecard) -> Counter[tuple[str, bool]]:
    """Count completions that end on a tool's last result, by the tool's name and whether the verdict is correct."""
    found: Counter[tuple[str, bool]] = Counter()
    for row, sample in enumerate(card.samples):
        results = [message for message in sample.messages or () if message.get("role") == "tool"]
        if not results or _score(card, row) is None:
            continue
        last = results[-1]
        if ends_on(sample.text[-MOST_END:], str(last.get("content")).strip()):
            found[str(last.get("name", "")), _status(card, row) is Status.CORRECT] += 1
    return found


def _scored_endings(card: Scorecard) -> Iterator[tuple[int, float, str | None]]:
    """Yield whole completions of the first groups: row, primary score, and the gold if the text ends on it."""
    most = MOST_TEXTS * len(card.members) // max(1, len(card))
    for row in itertools.chain.from_iterable(card.members[: max(1, most)]):
        verdict = card.primary[row]
        sample = card.samples[row]
        if verdict is None or verdict.score is None or verdict.status is Status.UNPARSEABLE:
            continue
        # A program was run, and its error is the reason.
        if sample.truncated is True or "why" in verdict.details:
            continue
        score = verdict.score
        column = gold_column(sample.row)
        gold = "" if column is None else str(sample.row[column])
        yield row, score, gold if ends_on(sample.text[-MOST_END:], gold) else None


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


def _is_paid(card: Scorecard, scored: Sequence[tuple[int, float, str | None]]) -> bool:
    """Test whether a term in force finds completions right that end on their gold, and others far less often."""
    for term in card.in_force:
        found: dict[bool, list[bool]] = {True: [], False: []}
        for row, _, gold in scored:
            verdict = card.verdicts[term][row]
            found[gold is not None].append(verdict is not None and verdict.status is Status.CORRECT)
        right, others = (sum(column) / max(1, len(column)) for column in found.values())
        if right - others >= PAID:
            return True
    return False


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
    scores = [verdict.score for verdict in card.primary if verdict is not None and verdict.score is not None]
    pairs: Counter[tuple[str, str]] = Counter()
    best: set[tuple[str, str]] = set()
    most = MOST_TEXTS * len(card.members) // max(1, len(card))
    for rows in card.members[: max(1, most)]:
        found = [(row, _pair(card, row)) for row in rows]
        counts = Counter(pair for _, pair in found if pair is not None)
        for pair, count in counts.items():
            pairs[pair] = max(count, pairs[pair])
        best |= {pair for row, pair in found if pair is not None and _score(card, row) == max(scores, default=None)}
    for pair, _ in itertools.islice(pairs.most_common(), 1):
        if pair not in best and number(pair[0]) != number(pair[1]):
            return pair
    return None


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
