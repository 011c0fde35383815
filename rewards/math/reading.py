"""What `MathVerifier` takes for the answer in what the finder has found: of a sentence the value, not its words."""

from __future__ import annotations

import re
from typing import Literal, get_args

from trl_grpo_ext.rewards.answers.finder import AnswerFrom, FinalAnswer, final_answer
from trl_grpo_ext.rewards.answers.latex import without_commands

Mode = Literal["auto", "boxed", "boxed_only", "answer_tag", "final_answer_phrase", "last_number"]
MODES: tuple[str, ...] = get_args(Mode)
_RULES: dict[Mode, AnswerFrom] = {
    "auto": "marked",
    "boxed": "boxed",
    "boxed_only": "boxed_only",
    "answer_tag": "answer_tag",
    "final_answer_phrase": "phrase",
    "last_number": "last_number",
}

MAX_TAIL_CHARS = 1_000  # of what follows the thinking, from its end, where nothing marks the answer
MAX_ANSWER_CHARS = 2_000  # no honest final answer is longer
MAX_FORMULA_CHARS = 300

_SENTENCE_STOP = re.compile(r"(?<=[^\s.])\.(?:\s|$)|[!?](?:\s|$)")
_CLAUSE = re.compile(r"(?<=\S)(?:,\s+(?!or\b)(?=[a-z]{2,})|\s+\(?(?=(?:because|since|which|as|where|not|so)\b)|;\s)")
_IS = re.compile(r"\b(?:is|are)\b")
_DELIMITED = re.compile(r"[A-Za-z ]{0,20}?(\${1,2}|\\\(|\\\[)(.+?)(\1|\\\)|\\\])")
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)
_LEAD = re.compile(r"^(?:[A-Za-z]\s*:|=>|->|→|=)\s*")
_LONG_WORD = re.compile(
    r"(?<![A-Za-z])(?!(?:sin|cos|tan|ln|log|sqrt|exp|and|or|pi|mod|gcd)(?![A-Za-z]))[^\W\d_]{2,}|[\u3040-\u9fff]"
)
_FEW_WORDS = re.compile(r"[\s$().]*(?:[^\W\d_]+\s*){1,3}[\s$().]*")


def math_answer(completion: str, *, prefill: str | None = None, mode: Mode = "auto") -> FinalAnswer:
    r"""The final answer of a completion, its white space collapsed.

    Its marks are those of the finder, but for an answer that nothing marks: that is `whole_text` if the text is one
    formula, else `last_expression`, a text in which the answer still has to be found.

    Args:
        completion: Its text.
        prefill: What the prompt put before it, such as `<think>`, if that is known.
        mode: The rule; `auto` is the finder's `marked`, `final_answer_phrase` its `phrase`.

    Example:
        >>> math_answer(r"<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.").answers
        ('\\frac{1}{2}',)
        >>> math_answer("The answer is $7$, as asked.").answers, math_answer("So I would say 7").marks
        (('7',), ('last_expression',))
    """
    found = final_answer(completion, prefill=prefill, answer_from=_RULES[mode])
    read = dict(_read(answer, mark) for answer, mark in zip(found.answers, found.marks, strict=True))
    if found.problem:
        return found
    if not all(read):
        return FinalAnswer(problem="no_answer" if "text" in found.marks else "empty_answer")
    if any(len(answer) > MAX_ANSWER_CHARS for answer in read):
        return FinalAnswer(problem="answer_too_long")
    return FinalAnswer(tuple(read), tuple(read.values()))


def _read(answer: str, mark: str) -> tuple[str, str]:
    if mark == "text":
        plain = answer[-MAX_TAIL_CHARS:].replace("**", "").strip()
        answer = _LEAD.sub("", _FENCE.sub(r"\1", plain))
        mark = "whole_text" if is_formula(answer.strip()) else "last_expression"
    elif mark == "phrase":
        answer = _value_said(answer)
    return " ".join(answer.split()), mark


def _value_said(sentence: str) -> str:
    """The value that a sentence ends with: what stands in dollars, or all of it up to the first clause's end."""
    sentence = _CLAUSE.split(_SENTENCE_STOP.split(sentence, maxsplit=1)[0], maxsplit=1)[0]
    *before, last = _IS.split(sentence)
    if before and not re.search(r"\d", "".join(before)) and len(" ".join(before).split()) > 1:
        sentence = last  # "The volume of the box is 120": what comes before names it, and is no answer itself
    sentence = sentence.strip(" *_`:,")
    formula = _DELIMITED.match(sentence)
    return formula[2] if formula else sentence


def is_formula(text: str) -> bool:
    r"""Whether a text is one piece of mathematics, or a word or two, with no sentence around it.

    Example:
        >>> is_formula(r"$\frac{1}{2}$"), is_formula("$odd$"), is_formula("I would say 5")
        (True, True, False)
    """
    if len(text) > MAX_FORMULA_CHARS or "\n" in text.strip("$ \n"):
        return False
    plain = without_commands(text)
    return not _LONG_WORD.search(plain) or _FEW_WORDS.fullmatch(plain) is not None
