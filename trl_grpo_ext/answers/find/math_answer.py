"""Turn a completion's found answers into mathematical answers: the value of a sentence, not its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from trl_grpo_ext.answers.find.asked import question_of, task_of
from trl_grpo_ext.answers.find.final_answer import (
    AnswerFrom,
    FinalAnswer,
    after_thinking,
    final_answer,
)
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.opening import is_overruled, without_working
from trl_grpo_ext.answers.find.remarks import without_additions, without_bound
from trl_grpo_ext.answers.find.sentences import (
    is_paragraph,
    is_sentence,
    last_sentence_value,
    list_value,
    said_unmarked,
    value_said,
)
from trl_grpo_ext.answers.read.answer import MAX_CHARS, read
from trl_grpo_ext.answers.read.choices import split_label
from trl_grpo_ext.answers.read.spelling import restored, strip_delimiters
from trl_grpo_ext.answers.read.tree import Apply, Node, Number, Opaque, Quantity, walk
from trl_grpo_ext.answers.read.units import is_unit
from trl_grpo_ext.answers.steps import last_step, with_bullets
from trl_grpo_ext.answers.told_twice import (
    box_told_once,
    told_once,
    without_gloss,
    without_other_unit,
)
from trl_grpo_ext.support.setting_checks import check_choice

Mode = Literal[
    "auto", "boxed", "boxed_only", "answer_tag", "final_answer_phrase", "last_number"
]
MODES: tuple[str, ...] = get_args(Mode)
RULES: dict[Mode, AnswerFrom] = {
    "auto": "marked",
    "boxed": "boxed",
    "boxed_only": "boxed_only",
    "answer_tag": "answer_tag",
    "final_answer_phrase": "phrase",
    "last_number": "last_number",
}

# A unit after a box has at least four letters, because "in" is usually a word, or is that of a rate: "km per hour".
_UNIT_BEHIND = re.compile(
    r"\}\s?\$?\$?\s?\\?(?P<unit>[A-Za-z]{4,20}\b|%|[A-Za-z]{1,3}(?=/|\sper\b))"
    r"(?P<rate>\s?(?:/|\b(?:per|an?|each|every)\b)\s?[a-z]{1,20}\b)?"
)
# The answer field of a JSON object. A JSON parser would refuse LaTeX with single backslashes.
_KEYED = re.compile(r'"answer":\s*(?:"((?:[^"\\\n]|\\.){1,500})"|(-?\d[\d.]*))(?=\s*[,}])')
# The full stop of a month's short name ends no sentence: "Oct. 5".
_MONTH = re.compile(
    r"\.(?=\s\d)(?:(?<=\b(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\.)|(?<=\bSept\.))"
)
_COMMAND = re.compile(r"\\[A-Za-z]+")


def check_mode(mode: object) -> None:
    """Raise a ValueError unless `mode` is in `MODES`."""
    check_choice("mode", mode, MODES)


def math_answer(
    completion: str, *, prefill: str | None = None, mode: Mode = "auto", prompt: str = ""
) -> FinalAnswer:
    r"""Find a completion's final answer, with white space collapsed.

    Marks are named as in `final_answer`. An answer without a mark gets `whole_text` if the whole text is a value, else
    `last_expression`: the last formula or number of the last line.

    Args:
        completion: The completion's text.
        prefill: Text that the prompt put before the completion, such as `<think>`; None if unknown.
        mode: The rule; `auto` is `marked` of `final_answer`, and `final_answer_phrase` is `phrase`.
        prompt: The question. Words at the end of the last sentence that repeat it, such as "in 4 weeks", are ignored.

    Examples:
        >>> math_answer(r"<think>\boxed{1}?</think>It is \boxed{\frac{1}{2}}.").answers
        ('\\frac{1}{2}',)
        >>> math_answer("The answer is $7$, as asked.").answers, math_answer("So I would say 7").marks
        (('7',), ('last_expression',))
    """
    text = _MONTH.sub("", restored(completion))
    if mode == "auto":
        text = with_bullets(text)
    if mode == "auto" and '"answer"' in text:
        text = _KEYED.sub(_tagged, text)
    if mode == "auto" and "\\boxed" in text:
        text = box_told_once(text)
    found = final_answer(text, prefill=prefill, answer_from=RULES[mode])
    if found.problem:
        return found
    if mode == "auto" and _is_overruled(found, text, prompt):
        return FinalAnswer(problem="taken_back")
    read_as: dict[str, str] = {}
    for answer, mark in zip(found.answers, found.marks, strict=True):
        with_unit = _with_unit(answer, completion) if mark == "boxed" else answer
        value, value_mark, problem = _taken(with_unit, mark, prompt)
        if problem:
            return FinalAnswer(problem=problem)
        read_as[_on_one_line(value)] = value_mark
    if not all(map(_says_something, read_as)):
        return FinalAnswer(problem="no_answer" if "text" in found.marks else "empty_answer")
    if any(len(answer) > MAX_CHARS for answer in read_as):
        return FinalAnswer(problem="answer_too_long")
    return FinalAnswer(tuple(read_as), tuple(read_as.values()))


def _is_overruled(found: FinalAnswer, text: str, prompt: str) -> bool:
    """Check whether working below a completion's only marked answer concludes with another value."""
    if len(found.answers) != 1 or "text" in found.marks:
        return False
    whole = (after_thinking(text) or "")[-MAX_CHARS:]
    return is_overruled(whole, found.answers[0], prompt)


def _tagged(key: re.Match[str]) -> str:
    r"""Rewrite a JSON object's answer field as an `<answer>` tag with single backslashes."""
    answer = key[1] or key[2]
    return "<answer>" + answer.replace(r"\\", "\\") + "</answer>"


def _with_unit(answer: str, completion: str) -> str:
    r"""Append a unit after a box to the number inside the box: `\boxed{60}$ radians`."""
    at = completion.rfind(answer + "}")
    if at < 0:
        return answer
    behind = _UNIT_BEHIND.match(completion, at + len(answer))
    if behind is None or not (is_unit(behind["unit"]) or behind["unit"] == "%"):
        return answer
    is_number = isinstance(read(answer).node, Number)
    return f"{answer} {behind['unit']}{behind['rate'] or ''}" if is_number else answer


def _on_one_line(answer: str) -> str:
    """Join an answer's lines: with `; ` if each line is an equation, else with single spaces.

    A line that begins with `=` goes on with the equation above it. Of lines that tell one value of one letter in steps,
    `t = 240/16` above `t = 15`, the last is left.
    """
    lines: list[str] = []
    for line in filter(None, map(str.strip, answer.splitlines())):
        plain = " ".join(line.split())
        if lines and plain.startswith("$="):
            lines[-1] = f"{lines[-1].removesuffix('$')} {plain[1:]}"
        elif lines and plain.startswith("="):
            lines[-1] += f" {plain}"
        else:
            lines.append(plain)
    are_equations = all("=" in line for line in lines)
    if are_equations and _tell_one_value(lines):
        return lines[-1]
    return "; ".join(lines) if are_equations else " ".join(lines)


def _tell_one_value(lines: Sequence[str]) -> bool:
    """Check whether lines are calculations of one letter, of which all numbers equal the last."""
    sides = [line.strip("$").partition("=") for line in lines]
    if len({name.strip() for name, _, _ in sides}) != 1 or len(lines) < 2:
        return False
    *steps, last = [read(side.rpartition("=")[2] or side).node for _, _, side in sides]
    if isinstance(last, Quantity):
        last = last.amount
    return isinstance(last, Number) and all(_is_step(step, last) for step in steps)


def _is_step(step: Node, value: Number) -> bool:
    """Check whether a step is a calculation without `±`, or a number equal to the value."""
    if isinstance(step, Number):
        return step.value == value.value
    signs = {node.name for node in walk(step) if isinstance(node, Apply)}
    return isinstance(step, Apply) and "+-" not in signs


def _taken(answer: str, mark: str, prompt: str) -> tuple[str, str, str]:
    """Return an answer's value, its mark, and the reason code if the answer does not count."""
    # "Is it 5?" leaves the answer open, with or without a mark.
    if answer.rstrip(" .*}$").endswith("?"):
        return "", mark, "taken_back"
    # The steps below take more than linear time.
    if mark in ("phrase", "answer_tag") and len(answer) > MAX_CHARS:
        return "", mark, "answer_too_long"
    if mark == "phrase":
        answer = without_bound(answer, question_of(prompt))
    is_stressed_sentence = mark == "emphasised" and (
        is_sentence(answer) or (not answer.isascii() and bool(read(answer).stray))
    )
    if is_stressed_sentence:
        value, _, problem = said_unmarked(answer, prompt)
        return (value, mark, problem) if value else (answer, mark, "")
    is_tagged_sentence = (
        mark == "answer_tag" and answer.endswith(".") and is_sentence(answer)
    )
    if (mark == "phrase" or is_tagged_sentence) and not split_label(answer):
        answer = told_once(without_gloss(answer, question_of(prompt) or task_of(prompt)))
        answer = without_additions(answer)
        value = (
            list_value(answer) or last_step(answer) or strip_delimiters(value_said(answer))
        )
        return value, mark, "hedged" if is_hedged(answer) else ""
    if mark != "text" and not is_paragraph(answer):
        # **100°C (212°F)**
        step = last_step(answer) if mark == "emphasised" else ""
        return step or without_other_unit(answer), mark, ""
    if mark != "text":
        answer = answer[-MAX_CHARS:]
        return last_sentence_value(answer), mark, ""
    value, mark, problem = said_unmarked(
        without_working(answer[-MAX_CHARS:].strip(), prompt), prompt
    )
    is_stressed = f"**{value}**" in answer
    is_taken_back = is_stressed and not problem and is_overruled(answer, value, prompt)
    return value, mark, "hedged" if is_taken_back else problem


def _says_something(answer: str) -> bool:
    r"""Check for content besides commands and signs in an answer; `\frac{}{}` has none."""
    return any(map(str.isalnum, _COMMAND.sub("", answer))) or not isinstance(
        read(answer).node, Opaque
    )
