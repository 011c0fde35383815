r"""Right answers in another form that means the same, and answers that surely differ: what a verifier is tested with.

Only forms that `docs/math.md` calls the same are made. It is not a list of all that are the same: what a verifier
turns down here, it turns down in a run, and it may turn down more.
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

_INTEGER, _DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)"), re.compile(r"-?(?:0|[1-9]\d*)\.\d+")
_SLASH, _FRACTION = re.compile(r"(-?)(\d+)/(\d+)"), re.compile(r"(-?)\\[dt]?frac\{(\d+)\}\{(\d+)\}")
_NUMBERS = (_INTEGER, _DECIMAL, _SLASH, _FRACTION)
_WORD = re.compile(r"[A-Za-z]{3,}(?: [A-Za-z]{2,})*|[A-Z]")
# What dollars may enclose: numbers, letters by themselves and signs, or what has a LaTeX command. They mean nothing
# around an address such as 10.0.0.7, a date, or a number with its unit, so a verifier may refuse them there.
_IN_MATHEMATICS = re.compile(
    r"(?!\d+-\d+-\d+\Z)(?:\d*\.?\d++(?!\.?\d)|(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[-+*/^_=<>()\[\]{},|!%\s])++"
)
_COMMAND = re.compile(r"\\(?!text)[A-Za-z]{2,}")
_BLANKS = re.compile(r"\s+|\\left(?![a-z])|\\right(?![a-z])|[$]|\\[,;!]")


def _is_number(answer: str) -> bool:
    return any(form.fullmatch(answer) for form in _NUMBERS)


def _swapped_fraction(answer: str) -> str:
    slash = _SLASH.fullmatch(answer)
    return rf"{slash[1]}\frac{{{slash[2]}}}{{{slash[3]}}}" if slash else _FRACTION.sub(r"\1\2/\3", answer)


# A form by its name: what becomes of an answer, which is the same answer where the form does not apply.
VALUES: dict[str, Callable[[str], str]] = {
    "point_zero": lambda said: f"{said}.0" if _INTEGER.fullmatch(said) else said,
    "thousands": lambda said: f"{int(said):,}" if _INTEGER.fullmatch(said) and len(said) < 20 else said,
    "last_zero": lambda said: f"{said}0" if _DECIMAL.fullmatch(said) else said,
    "no_zero": lambda said: re.sub(r"\A(-?)0\.", r"\1.", said) if _DECIMAL.fullmatch(said) else said,
    "fraction": _swapped_fraction,
    "dfrac": lambda said: re.sub(r"\\frac(?![a-z])", r"\\dfrac", said),
    "label": lambda said: f"x = {said}" if _is_number(said) else said,
    "left_right": lambda said: re.sub(r"\A\(([^()]*,[^()]*)\)\Z", r"\\left(\1\\right)", said),
}
IN_BOXES: dict[str, Callable[[str], str]] = {
    "blanks": lambda said: f" {said} ",
    "dollars": lambda said: f"${said}$" if _is_mathematics(said) and "$" not in said else said,
    "text": lambda said: rf"\text{{{said}}}" if _WORD.fullmatch(said) else said,
}
CONCLUSIONS: dict[str, Callable[[str], str]] = {
    "phrase": lambda said: f"The final answer is {_in_dollars(said)}.",
    "heading": lambda said: f"**Answer:** {_in_dollars(said)}",
    "tag": lambda said: f"<answer>{said}</answer>",
    "box": lambda said: rf"Therefore, the answer is $\boxed{{{said}}}$.",
    "alone": lambda said: f"${said}$" if _is_mathematics(said) else "",
}


def _in_dollars(said: str) -> str:
    return f"${said}$" if _is_mathematics(said) else said


def _is_mathematics(said: str) -> bool:
    return bool(re.search(r"\d", said)) and bool(_COMMAND.search(said) or _IN_MATHEMATICS.fullmatch(said))


_BOX = "\\boxed{"
MARK_CHARS = 60  # no mark before an answer is longer
_OPENED = re.compile(r"(?:\\boxed\{|<answer>|####\s*|answer(?:\s+is|:)\**\s*\$?)\s*\Z", re.IGNORECASE)
_CLOSED = re.compile(r"\s*+(?:\}|</answer>|\$?[.*]*\s*\Z)", re.IGNORECASE)
_MARK = re.compile(r"boxed|answer|####|</think>", re.IGNORECASE)  # which may say something else
_BEGUN = re.compile(r"(?:\\\[|\$\$?|\\\(|\*\*)\s*\Z")


def restyled(text: str, answer: str, *, concludes: bool = True) -> Iterator[tuple[str, str]]:
    r"""Completions that give an answer in another form, each with the form's name; none where the answer is not marked.

    It takes time linear in the length of the text, which runs in the trainer's process.

    Args:
        text: A completion.
        answer: What a verifier has found there.
        concludes: Whether the conclusion, too, may take another form; otherwise its mark stays.

    Examples:
        >>> [text for _, text in restyled(r"So \boxed{5}", "5")][:3]
        ['So \\boxed{5.0}', 'So \\boxed{x = 5}', 'So \\boxed{ 5 }']
    """
    head, found, tail = text.rpartition(answer)
    opened, closed = _OPENED.search(head, max(0, len(head) - MARK_CHARS)), _CLOSED.match(tail)
    if not (0 < len(answer) < SHOWN_CHARS and found and opened and closed) or _MARK.search(tail, closed.end()):
        return
    for name, form in (VALUES | IN_BOXES if head.endswith(_BOX) else VALUES).items():
        if (said := form(answer)) != answer:
            yield name, f"{head}{said}{tail}"
    thinking, end, said_before = head[: opened.start()].rpartition("</think>")
    before = _BEGUN.sub("", said_before[: said_before.rfind("\n") + 1].rstrip())
    if concludes and not (_MARK.search(before) or _is_open(before)):
        for name, form in CONCLUSIONS.items():
            if said := form(answer):
                yield name, f"{thinking}{end}{before}\n{said}".lstrip("\n")


def _is_open(text: str) -> bool:
    """Whether mathematics has begun and not ended."""
    pairs = (("\\[", "\\]"), ("\\(", "\\)"), ("\\begin", "\\end"))
    return text.count("$") % 2 == 1 or any(text.count(one) != text.count(other) for one, other in pairs)


def is_surely(answer: str, gold: object) -> bool:
    """Whether an answer is what the gold has, but for blanks and sizes: no verifier is needed to say so."""
    return _plain(answer) in map(_plain, gold_texts(gold))


def surely_differ(one: object, other: object, absolute: float = 0.0, relative: float = 0.0) -> bool:
    r"""Whether no gold of one row is a gold of another: other numbers, or texts of which none holds the other.

    Args:
        one: A cell with golds.
        other: Another.
        absolute: How far apart numbers may be that are still the same.
        relative: The same as a share of them; a thousandth at least.

    Examples:
        >>> surely_differ("5", "6"), surely_differ(r"\frac{1}{2}", "0.5"), surely_differ("B", "(B) Rome")
        (True, False, False)
    """
    pairs = list(itertools.product(gold_texts(one), gold_texts(other)))
    compared = _compared(absolute, max(relative, 1e-3))
    return bool(pairs) and all(_differ(compared, *pair) for pair in pairs)


@cache
def _compared(absolute: float, relative: float) -> NumericVerifier:
    return NumericVerifier(
        absolute=absolute, relative=relative, percent="either", units="any", answer_from="text", column="gold"
    )


def _differ(compared: NumericVerifier, one: str, other: str) -> bool:
    status = compared.verify(Sample(text=one, row={"gold": other})).status
    if status in (Status.CORRECT, Status.INCORRECT):
        return status is Status.INCORRECT
    said = [re.sub(r"[\W_]+", "", text).casefold() for text in (one, other)]
    return said[0] not in said[1] and said[1] not in said[0]


def _plain(text: str) -> str:
    return re.sub(r"\\[dt]frac(?![a-z])", r"\\frac", _BLANKS.sub("", text)).rstrip(".")
