"""Adapt answers to the question: asked unit, remainder, profit or loss, yes or no."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.tree import Apply, Number, Quantity, Remainder
from trl_grpo_ext.answers.read.units import is_unit, unit

# Characters at the end of a prompt that are searched for the question.
MAX_PROMPT = 1_000
_QUESTION = re.compile(r"(?:[^.?!\n]|\.(?=\d))*\?[^?]*\Z")
_UNIT = re.compile(
    r"\b(?:how many|(?:answer|give|express\w*|measured)\b[^.?]{0,30}\bin|,\s+in)\s+([a-z]{2,20})\b", re.I
)
_OF_REST = re.compile(r"\b(?:remainder|remain\w*|left\s?over|left|extra)\b", re.IGNORECASE)
# Pairs of words for changes in opposite directions.
_DIRECTIONS = (
    (r"profit|gain|gained|earned", r"loss|lost|lose[sd]?"),
    (r"increase[sd]?|rises?|rose|grows?|grew|growth|went up", r"decrease[sd]?|drop(?:s|ped)?|declined?|falls?|fell|reduction|went down"),
)
_DIRECTION = re.compile(rf"\b(?:{'|'.join(word for pair in _DIRECTIONS for word in pair)})\b", re.IGNORECASE)
# Pairs of words of opposite comparisons.
_OPPOSITES = (
    *_DIRECTIONS,
    (r"more|most|larger|largest|bigger|biggest|greater|greatest|higher|highest", r"less|least|fewer|fewest|smaller|smallest|lower|lowest"),
    (r"taller|tallest|longer|longest", r"shorter|shortest"),
    (r"farther|farthest|further|furthest", r"nearer|nearest|closer|closest"),
    (r"older|oldest|elder", r"younger|youngest"),
    (r"faster|fastest|quicker|quickest", r"slower|slowest"),
    (r"earlier|earliest|first", r"later|latest|last"),
    (r"heavier|heaviest", r"lighter|lightest"),
    (r"cheaper|cheapest", r"more expensive|most expensive|dearer|dearest"),
    (r"better|best", r"worse|worst"),
    (r"wins?|won|winner", r"loses?|lost|loser"),
)
_ORDER = re.compile(
    r"\b(?:sort|arrange|rank|order(?! an?\b)|(?:least|smallest|lowest|shortest) to|(?:greatest|largest|highest|longest) to"
    r"|ascending|descending)\b",
    re.IGNORECASE,
)


def question_of(prompt: str) -> str:
    """Return a prompt's last question, as a sentence; empty if no question mark is found."""
    found = _QUESTION.search(prompt[-MAX_PROMPT:])
    return found[0].strip() if found else ""


def is_opposed(question: str, clause: str) -> bool:
    """Check whether a clause has the opposite of a word of the question, and not the word: `shorter` for `taller`."""
    for pair in _OPPOSITES:
        for one, other in (pair, pair[::-1]):
            if _has(question, one) and not _has(question, other) and _has(clause, other) and not _has(clause, one):
                return True
    return False


def asks_for_order(prompt: str) -> bool:
    """Check whether a question asks to put things in order."""
    return _ORDER.search(prompt[-MAX_PROMPT:]) is not None


def with_asked_unit(gold: str, answer: str, prompt: str) -> str:
    """Append the question's unit to a unitless gold if the answer uses another unit of equal measure.

    Examples:
        >>> [with_asked_unit("12", said, "How many dollars is that?") for said in ("12 cents", "12", "12 pens")]
        ['12 dollars', '12', '12']
    """
    given = read(answer).node
    if not isinstance(given, Quantity) or not isinstance(read(gold).node, Number):
        return gold
    asked = _UNIT.search(question_of(prompt))
    if asked is None or not is_unit(asked[1]):
        return gold
    wanted = unit(asked[1])
    is_other_unit = wanted.measures == given.unit.measures and wanted != given.unit
    return f"{gold} {asked[1]}" if is_other_unit else gold


def with_asked_part(found: FinalAnswer, golds: Sequence[str], prompt: str) -> FinalAnswer:
    """Reduce `7 remainder 2` to its remainder if the question asks for remainders, else to the quotient.

    Examples:
        >>> said = FinalAnswer(("7, with a remainder of 2",), ("last_expression",))
        >>> [with_asked_part(said, ["2"], asked).answers[0] for asked in ("How many are left over?", "How many bags?")]
        ['2', '7']
    """
    parts = [read(answer).node for answer in found.answers]
    question = question_of(prompt)
    if not question or not any(isinstance(part, Remainder) for part in parts):
        return found
    if not all(isinstance(read(gold).node, Number | Quantity) for gold in golds):
        return found
    asks_for_rest = _OF_REST.search(question) is not None
    answers = []
    for part, answer in zip(parts, found.answers, strict=True):
        if isinstance(part, Remainder):
            number = part.rest if asks_for_rest else part.quotient
            answers.append(str(number.value))
        else:
            answers.append(answer)
    return replace(found, answers=tuple(answers))


def with_asked_direction(found: FinalAnswer, sentence: str, prompt: str) -> FinalAnswer:
    """Negate an answer whose direction contradicts the question: a loss where a profit is asked for.

    Without a question, the words "not a profit" in the sentence tell the asked direction.

    Examples:
        >>> said = FinalAnswer(("$20",), ("last_expression",))
        >>> with_asked_direction(said, "That is a loss of $20.", "How much profit did he make?").answers
        ('-$20',)
        >>> with_asked_direction(said, "That is a loss of $20.", "How much did he lose?").answers
        ('$20',)
    """
    if found.problem or len(found.answers) != 1 or not _DIRECTION.search(sentence):
        return found
    if not isinstance(_amount(found.answers[0]), Number):
        return found
    asked = question_of(prompt) or " ".join(re.findall(r"\bnot an?\s+(\w+)", sentence))
    for pair in _DIRECTIONS:
        for one, other in (pair, pair[::-1]):
            if not _has(asked, one) or _has(asked, other):
                continue
            said = (
                rf"(?:{other})\b(?:\s+(?:of|by|is|was|about|exactly|only|a|an|total))*\s+{re.escape(found.answers[0])}"
            )
            if _has(sentence, said):
                return replace(found, answers=("-" + found.answers[0],))
    return found


def _has(text: str, words: str) -> bool:
    return re.search(rf"\b(?:{words})(?!\w)", text, re.IGNORECASE) is not None


def _amount(text: str) -> object:
    match read(text).node:
        case Quantity(amount) | Apply("%", (amount,)):
            return amount
        case node:
            return node
