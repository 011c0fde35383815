r"""Test inputs for math verifiers: correct answers rewritten in equivalent forms, and golds that surely differ.

Every rewriting is a form that `docs/math.md` calls equivalent. The list is not complete: a verifier that rejects a
rewriting here also rejects it in a run, and may reject further equivalent forms.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache

from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.answers.verdicts import SHOWN_CHARS
from trl_grpo_ext.rewards.numeric import NumericVerifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status

_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+")
_SLASH = re.compile(r"(-?)(\d+)/(\d+)")
_FRACTION = re.compile(r"(-?)\\[dt]?frac\{(\d+)\}\{(\d+)\}")
_NUMBERS = (_INTEGER, _DECIMAL, _SLASH, _FRACTION)
_WORD = re.compile(r"[A-Za-z]{3,}(?: [A-Za-z]{2,})*|[A-Z]")
# Text that dollars may enclose: numbers, single letters and signs, or text with a LaTeX command. A verifier may refuse
# dollars around an IP address such as 10.0.0.7, a date, or a number with a unit.
_IN_MATHEMATICS = re.compile(
    r"(?!\d+-\d+-\d+\Z)(?:\d*\.?\d++(?!\.?\d)|(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[-+*/^_=<>()\[\]{},|!%\s])++"
)
_COMMAND = re.compile(r"\\(?!text)[A-Za-z]{2,}")
_BLANKS = re.compile(r"\s+|\\left(?![a-z])|\\right(?![a-z])|[$]|\\[,;!]")


def _is_number(answer: str) -> bool:
    return any(form.fullmatch(answer) for form in _NUMBERS)


def _with_thousands(answer: str) -> str:
    if not _INTEGER.fullmatch(answer) or len(answer) >= 20:
        return answer
    return f"{int(answer):,}"


def _without_zero(answer: str) -> str:
    if not _DECIMAL.fullmatch(answer):
        return answer
    return re.sub(r"\A(-?)0\.", r"\1.", answer)


def _swapped_fraction(answer: str) -> str:
    slash = _SLASH.fullmatch(answer)
    if slash:
        return rf"{slash[1]}\frac{{{slash[2]}}}{{{slash[3]}}}"
    return _FRACTION.sub(r"\1\2/\3", answer)


def _with_dollars(answer: str) -> str:
    if "$" in answer:
        return answer
    return _in_dollars(answer)


# Form name -> rewriting of an answer. A rewriting returns the answer unchanged if the form does not apply.
VALUES: dict[str, Callable[[str], str]] = {
    "point_zero": lambda said: f"{said}.0" if _INTEGER.fullmatch(said) else said,
    "thousands": _with_thousands,
    "last_zero": lambda said: f"{said}0" if _DECIMAL.fullmatch(said) else said,
    "no_zero": _without_zero,
    "fraction": _swapped_fraction,
    "dfrac": lambda said: re.sub(r"\\frac(?![a-z])", r"\\dfrac", said),
    "label": lambda said: f"x = {said}" if _is_number(said) else said,
    "left_right": lambda said: re.sub(
        r"\A\(([^()]*,[^()]*)\)\Z", r"\\left(\1\\right)", said
    ),
}
# Rewritings inside `\boxed{}` only.
IN_BOXES: dict[str, Callable[[str], str]] = {
    "blanks": lambda said: f" {said} ",
    "dollars": _with_dollars,
    "text": lambda said: rf"\text{{{said}}}" if _WORD.fullmatch(said) else said,
}
# Form name -> a concluding sentence with the answer; empty if the form does not apply.
CONCLUSIONS: dict[str, Callable[[str], str]] = {
    "phrase": lambda said: f"The final answer is {_in_dollars(said)}.",
    "heading": lambda said: f"**Answer:** {_in_dollars(said)}",
    "tag": lambda said: f"<answer>{said}</answer>",
    "box": lambda said: rf"Therefore, the answer is $\boxed{{{said}}}$.",
    "alone": lambda said: f"${said}$" if _is_mathematics(said) else "",
}


def _in_dollars(said: str) -> str:
    if not _is_mathematics(said):
        return said
    return f"${said}$"


def _is_mathematics(said: str) -> bool:
    if not re.search(r"\d", said):
        return False
    return _COMMAND.search(said) is not None or _IN_MATHEMATICS.fullmatch(said) is not None


_BOX = "\\boxed{"
# No mark before an answer is longer.
MARK_CHARS = 60
_OPENED = re.compile(
    r"(?:\\boxed\{|<answer>|####\s*|answer(?:\s+is|:)\**\s*\$?)\s*\Z", re.IGNORECASE
)
_CLOSED = re.compile(r"\s*+(?:\}|</answer>|\$?[.*]*\s*\Z)", re.IGNORECASE)
# A further mark in the text may state another answer.
_MARK = re.compile(r"boxed|answer|####|</think>", re.IGNORECASE)
_BEGUN = re.compile(r"(?:\\\[|\$\$?|\\\(|\*\*)\s*\Z")


def restyled(
    text: str, answer: str, *, concludes: bool = True
) -> Iterator[tuple[str, str]]:
    r"""Yield the form's name and the completion with its answer rewritten in this form; nothing for an unmarked answer.

    The time is linear in the length of the text, since the function runs in the trainer's process.

    Args:
        text: A completion.
        answer: The answer that a verifier found in the completion.
        concludes: Also rewrite the concluding sentence; if False, the mark of the answer stays.

    Examples:
        >>> [text for _, text in restyled(r"So \boxed{5}", "5")][:3]
        ['So \\boxed{5.0}', 'So \\boxed{x = 5}', 'So \\boxed{ 5 }']
    """
    # A verdict cuts a long answer, and an empty answer stands everywhere.
    if not 0 < len(answer) < SHOWN_CHARS:
        return
    # The last place: the work before it often has the answer, too.
    head, found, tail = text.rpartition(answer)
    opened = _OPENED.search(head, max(0, len(head) - MARK_CHARS))
    closed = _CLOSED.match(tail)
    if not (found and opened and closed) or _MARK.search(tail, closed.end()):
        return
    for name, said in _rewritten(answer, in_box=head.endswith(_BOX)):
        yield name, f"{head}{said}{tail}"
    if concludes:
        yield from _concluded(head[: opened.start()], answer)


def _rewritten(answer: str, *, in_box: bool) -> Iterator[tuple[str, str]]:
    forms = VALUES | IN_BOXES if in_box else VALUES
    for name, form in forms.items():
        said = form(answer)
        if said != answer:
            yield name, said


def _concluded(head: str, answer: str) -> Iterator[tuple[str, str]]:
    """Yield form names and completions: the text before the answer's mark, with a new concluding sentence."""
    thinking, end, said = head.rpartition("</think>")
    # The line of the mark is the old conclusion.
    lines_before = said[: said.rfind("\n") + 1].rstrip()
    before = _BEGUN.sub("", lines_before)
    if _MARK.search(before) or _is_open(before):
        return
    for name, form in CONCLUSIONS.items():
        conclusion = form(answer)
        if conclusion:
            yield name, f"{thinking}{end}{before}\n{conclusion}".lstrip("\n")


def _is_open(text: str) -> bool:
    """Detect an unclosed formula: an odd number of dollars, or unequal numbers of opening and closing marks."""
    if text.count("$") % 2 == 1:
        return True
    pairs = (("\\[", "\\]"), ("\\(", "\\)"), ("\\begin", "\\end"))
    return any(text.count(opening) != text.count(closing) for opening, closing in pairs)


def is_surely(answer: str, gold: object) -> bool:
    """Compare answer and gold texts, up to blanks, dollars, bracket sizes and a final full stop."""
    return _plain(answer) in map(_plain, gold_texts(gold))


def surely_differ(
    one: object,
    other: object,
    absolute: float = 0.0,
    relative: float = 0.0,
) -> bool:
    r"""Test that two gold cells share no gold: every pair of golds differs, as numbers or as texts.

    Two texts differ if neither contains the other.

    Args:
        one: The gold cell of the first row.
        other: The gold cell of the second row.
        absolute: The largest difference of equal numbers.
        relative: The largest difference of equal numbers as a share of the second number; at least 0.001 is used.

    Examples:
        >>> surely_differ("5", "6"), surely_differ(r"\frac{1}{2}", "0.5"), surely_differ("B", "(B) Rome")
        (True, False, False)
    """
    pairs = list(itertools.product(gold_texts(one), gold_texts(other)))
    if not pairs:
        return False
    compared = _compared(absolute, max(relative, 1e-3))
    return all(_differ(compared, first, second) for first, second in pairs)


@cache
def _compared(absolute: float, relative: float) -> NumericVerifier:
    return NumericVerifier(
        absolute=absolute,
        relative=relative,
        percent="either",
        units="any",
        answer_from="text",
        column="gold",
    )


def _differ(compared: NumericVerifier, one: str, other: str) -> bool:
    sample = Sample(text=one, row={"gold": other})
    status = compared.verify(sample).status
    if status is Status.INCORRECT:
        return True
    if status is Status.CORRECT:
        return False
    # At least one of the two is no number.
    first = _letters_and_digits(one)
    second = _letters_and_digits(other)
    return first not in second and second not in first


def _letters_and_digits(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _plain(text: str) -> str:
    text = _BLANKS.sub("", text)
    text = re.sub(r"\\[dt]frac(?![a-z])", r"\\frac", text)
    return text.rstrip(".")
