"""Detect answers that only repeat a formula of the prompt."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from trl_grpo_ext.answers.find.values import FORMULA
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.spelling import spelled
from trl_grpo_ext.answers.read.tree import Number

# How much of the prompt's formula an answer copies: nothing, a part, or the whole formula.
Echo = Literal["", "part", "whole"]
_SPACING = re.compile(r"[\s{}$]|\\[,;:! ]|\\(?:left|right)")
# Words of a prompt that asks to rewrite a number in another form.
_OTHER_FORM = re.compile(
    r"\b(?:simplif(?:y|ied)|simplest|lowest terms|reduced?|rationali[sz]e|rounded?|nearest|convert(?:ed)?|mixed number"
    r"|(?:scientific|standard) (?:notation|form)|(?:decimal|significant) (?:places|figures|digits)"
    r"|(?:as|in|into|to) an? (?:\w+ )?(?:fraction|decimal|percent(?:age)?))\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def unspaced(text: str) -> str:
    """Remove white space, braces, dollars and sizing commands from a text.

    The result is cached, because each completion of a prompt needs the prompt without spacing.
    """
    return _SPACING.sub("", spelled(text))


@lru_cache(maxsize=256)
def _formulas(prompt: str) -> frozenset[str]:
    """Return a prompt's formulas and the sides of its equations, without spacing."""
    found = [next(filter(None, formula.groups())) for formula in FORMULA.finditer(prompt)]
    return frozenset(unspaced(side) for formula in found for side in (formula, *formula.split("=")))


def echo(answer: str, gold: str, prompt: str) -> Echo:
    """Say how much of a prompt's formula an answer copies; spacing is ignored.

    The result is `whole` if the answer equals a formula of the prompt, unless the gold, or a side of the gold, equals a
    formula too. A number counts as a copy only if the prompt asks for another form of the number and the gold has other
    digits. Any other answer whose text occurs in the prompt is a `part`.

    Examples:
        >>> echo("2^{10}", "1024", "What is 2^{10}?"), echo("2^{10}", "1024", "How many subsets has a set of ten?")
        ('part', '')
        >>> echo("x(x+1)", "x^2 + x", "Expand $x(x + 1)$."), echo("x+1", "y = x+1", "If $y=x+1$, what is $y$?")
        ('whole', 'part')
        >>> echo("15/20", "3/4", "Simplify 15/20."), echo("1/2", r"\\frac{1}{2}", "Convert 1/2 of 1 to a fraction.")
        ('whole', '')
    """
    said = unspaced(answer)
    if not said or said not in unspaced(prompt):
        return ""
    if isinstance(read(answer).node, Number):
        is_other = _digits(answer) != _digits(gold) and _OTHER_FORM.search(prompt) is not None
        return "whole" if is_other and _stands_alone(said, unspaced(prompt)) else ""
    asked = _formulas(prompt)
    repeats = said in asked and not any(unspaced(side) in asked for side in (gold, *gold.split("=")))
    return "whole" if repeats else "part"


def _digits(text: str) -> str:
    """Return the digits of a written number, without signs and points."""
    return "".join(filter(str.isdigit, spelled(text)))


def _stands_alone(number: str, text: str) -> bool:
    """Check that a text contains a number as a whole, not inside a longer number: `5` in `x=5`, not in `15`."""
    return re.search(rf"(?<![\d.,/]){re.escape(number)}(?![\d/]|[.,]\d)", text) is not None
