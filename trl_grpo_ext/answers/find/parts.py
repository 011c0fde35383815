"""Recover text beside an answer: other boxes for golds of several parts, and words for golds with words.

An answer is the last box alone, and the value of a sentence without its words, so that `8:00 PM` would equal `8:00 AM`.
This module adds the other boxes and the words, and the comparison decides.
"""

from __future__ import annotations

import re
from calendar import month_abbr, month_name
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.marks import box_answers
from trl_grpo_ext.answers.find.thinking import after_thinking
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.spelling import without_text_commands
from trl_grpo_ext.answers.read.tree import Collection

# Distinguishing words of a gold that the reader takes for a time of day or for counted things.
_TELLING = frozenset(("am", "pm", "loss", "losses", "gains", "profits"))
_MONTHS = frozenset(name.casefold() for name in (*month_name, *month_abbr))
_BETWEEN = re.compile(
    r"an?|and|are|as|at|because|but|by|each|every|for|from|if|in|is|it|of|on|or|overall|per|since|so|that|the|this|to"
    r"|total|was|when|where|which|while|with"
)
_WORD = re.compile(r"[^\W\d_]+")
_HALF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?\s?m\b\.?", re.IGNORECASE)
_BEHIND = re.compile(r"[\s*$)}]{0,4}(?<![\w.])((?:[^\W\d_]+\s?){1,3})")
_ENDS_LINE = re.compile(r"[\s$.,;*)\\\]]*(?:\n|$)")
_CORRECTED = re.compile(r"\b(?:wait|no|not|but|actually|instead|rather|sorry|check|correct\w*)\b", re.IGNORECASE)
# A name or a month that does not begin the sentence.
_BEFORE = re.compile(r"(?<=[\w,]\s)([A-Z][a-z]+)\s[*$(]{0,3}$")


def with_parts(found: FinalAnswer, golds: Sequence[str], text: str) -> FinalAnswer:
    r"""Join all boxes that end lines if a gold has equally many parts and no box is corrected.

    Examples:
        >>> said = "The minimum is \\boxed{2}.\nThe maximum is \\boxed{7}."
        >>> with_parts(FinalAnswer(("7",), ("boxed",)), ["2, 7"], said).answers
        ('2, 7',)
    """
    sizes = {len(node.items) for node in (read(gold).node for gold in golds) if isinstance(node, Collection)}
    if not sizes or found.marks != ("boxed",):
        return found
    said = after_thinking(text) or ""
    boxed = box_answers(said)
    if len(boxed) < 2 or len(boxed) not in sizes or _CORRECTED.search(said, boxed[0].end):
        return found
    if not all(_ENDS_LINE.match(said, box.end) for box in boxed):
        return found
    return replace(found, answers=(", ".join(box.content for box in boxed),))


def with_words(found: FinalAnswer, golds: Sequence[str], text: str) -> FinalAnswer:
    """Add the words beside an answer if the gold has distinguishing words that the answer's line lacks.

    Examples:
        >>> with_words(FinalAnswer(("20%",), ("phrase",)), ["20% loss"], "The answer is a 20% profit.").answers
        ('20% profit',)
        >>> with_words(FinalAnswer(("20%",), ("phrase",)), ["20% loss"], "The loss is 20% of it.").answers
        ('20%',)
    """
    own = {gold: words for gold in golds if (words := _own_words(gold))}
    if not own or set(found.marks) & {"boxed", "answer_tag", "whole_text"}:
        return found
    text = _HALF_DAY.sub(r" \1m", text)
    answers = tuple(_with_words(answer, own, text) for answer in found.answers)
    return replace(found, answers=answers) if len({*answers}) == len(answers) else found


def _own_words(gold: str) -> frozenset[str]:
    """Return a gold's distinguishing words: `loss` of `20% loss`; none for `12 apples`."""
    if not any(map(str.isdigit, gold)):
        return frozenset()
    words = _words(_HALF_DAY.sub(r" \1m", without_text_commands(gold)))
    return words & (read(gold).stray | _TELLING | _MONTHS)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


def _with_words(answer: str, own: Mapping[str, frozenset[str]], text: str) -> str:
    at = text.rfind(answer)
    if at < 0:
        return answer
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    line = text[begin : end if end >= 0 else len(text)]
    for gold in own:
        if line.casefold()[: at - begin + len(answer)].endswith(gold.casefold()):
            return gold
    behind, before = _BEHIND.match(text, at + len(answer)), _BEFORE.search(text[begin:at])
    said = behind[1].split() if behind else []
    is_time = bool(said) and said[0].casefold() in ("am", "pm")
    if any(words <= _words(line) for words in own.values()) and not is_time:
        return answer
    if said and not _BETWEEN.fullmatch(said[0].casefold()):
        answer = f"{answer} {said[0] if is_time else ' '.join(said)}"
    return f"{before[1]} {answer}" if before else answer
