"""Take a gold in words that is all a sentence adds to the question: "Bees make honey." to "What do bees make?"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trl_grpo_ext.answers.find.asked import question_of
from trl_grpo_ext.answers.find.asked_values import stems
from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.last_sentence import (
    MAX_SAID,
    answer_of,
    ending,
    without_bold,
)
from trl_grpo_ext.answers.find.yes_no import YES_AND_NO
from trl_grpo_ext.answers.read.moments import WHEN
from trl_grpo_ext.answers.read.signal_words import (
    CONTRAST,
    DENIAL,
    SEVERAL,
    TURN,
    UNSETTLING,
    WRONG,
    any_of,
)
from trl_grpo_ext.answers.read.spelling import without_text_commands

# A longer sentence or gold is prose.
_MAX_SENTENCE = 300
_MAX_GOLD_WORDS = 5
_GOLD = re.compile(rf"[^\W\d_]+(?:[ '’.-]{{1,2}}[^\W\d_]+){{0,{_MAX_GOLD_WORDS - 1}}}\.?")
_CHANGED = any_of(UNSETTLING, "except|than")
_REASON = re.compile(r",?\s+(?:because|since)\b.*", re.IGNORECASE | re.DOTALL)
# What adds no other answer: "(CO2)", "(126 > 120)", "in 1813".
_ADJUNCT = re.compile(rf"\(\w+\)|\([^()A-Za-z]{{1,40}}\)|{WHEN}", re.IGNORECASE)
# "Ria's box is 120 and Tom's is 126, so Tom's box is larger"
_SO = re.compile(r".*,\s(?:so|thus|hence|therefore)\s", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"\w+")
# A word, or a short name: Al
_HAS_WORD = re.compile(r"[^\W\d_]{3}|\b[A-Z][a-z]\b")
_SIGN = re.compile(r"[+/^=<>\\≤≥≠√](?=[\s$(]*\w)")
_SENTENCE = re.compile(r"\n|(?<=[.!])\s")
# "It is located between Sydney and Melbourne." tells more of the answer before it; a short sentence may replace it.
_ELABORATES = re.compile(
    rf"(?!.*\b(?:{TURN}|{WRONG}|{CONTRAST}|{DENIAL}|{SEVERAL}|answer|mistake|really|correct)\b)"
    r"\W*(?:it|this|they|these|he|she)\b.{30}",
    re.IGNORECASE,
)
_MAX_SENTENCES = 3
_PLAIN = frozenset(
    """a an the is are was were be been being am it its it's they them we us our you say he she his her this that these
    those who which what there here one people in on at by of to from for with during into as has have had do does
    did can held located found situated also called known named so therefore thus hence final correct answer
    my s""".split()  # noqa: SIM905
)


def with_asked_words(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str
) -> FinalAnswer:
    """Take the gold if the concluding sentence consists of the gold, words of the question and plain words.

    Examples:
        >>> asked = "What do bees make?"
        >>> with_asked_words(FinalAnswer(problem="no_answer"), ["honey"], "Bees make honey.", asked).answers
        ('honey',)
        >>> with_asked_words(FinalAnswer(problem="no_answer"), ["honey"], "Bees make milk and honey.", asked).problem
        'no_answer'
    """
    question = question_of(prompt) or prompt[-_MAX_SENTENCE:]
    if not question or len(found.answers) > 1 or found.problem not in ("", "no_answer"):
        return found
    if {*found.marks} <= {"text", "whole_text", "last_expression"}:
        sentences = [_SO.sub("", one) for one in _concluding(ending(completion))]
    else:
        sentences = [without_text_commands(found.answers[0])]
    for sentence in sentences:
        if (
            len(sentence) > _MAX_SENTENCE
            or is_hedged(sentence)
            or _CHANGED.search(sentence)
        ):
            continue
        for gold in golds:
            if _adds_only(sentence, gold, question):
                return answer_of(gold)
    return found


def _concluding(text: str) -> list[str]:
    """Return a text's last sentence, and those before it as long as sentences that only elaborate follow."""
    found: list[str] = []
    for sentence in reversed(_SENTENCE.split(without_bold(text[-MAX_SAID:]))):
        if not sentence.strip():
            continue
        found.append(sentence.strip())
        if len(found) == _MAX_SENTENCES or not _ELABORATES.match(sentence):
            break
    return found


def _adds_only(sentence: str, gold: str, question: str) -> bool:
    """Check whether a gold in words is all that a sentence adds to the question."""
    if not _GOLD.fullmatch(gold) or gold.casefold() in YES_AND_NO:
        return False
    written = re.compile(rf"\b{re.escape(gold.rstrip('.'))}\b", re.IGNORECASE)
    if len(written.findall(sentence)) != 1 or written.search(question):
        return False
    # The gold itself may be a time: "Halloween is in October."
    plain = _ADJUNCT.sub(
        lambda adjunct: adjunct[0] if written.search(adjunct[0]) else "", sentence
    )
    rest = _REASON.sub("", written.sub(" ", plain))
    # A letter or a name beside a sign is a formula: "a/4"
    if not _HAS_WORD.search(gold) or _SIGN.search(rest):
        return False
    asked = stems(question)
    words = {word.casefold() for word in _WORD.findall(rest)} - _PLAIN
    return all(
        stems(word) <= asked and (stems(word) or word in question.casefold())
        for word in words
    )
