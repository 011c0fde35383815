"""Whether an answer only repeats the question."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from trl_grpo_ext.answers.find.values import FORMULA
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.spelling import spelled
from trl_grpo_ext.answers.read.tree import Number

Echo = Literal["", "part", "whole"]  # of a formula of the prompt
_SPACING = re.compile(r"[\s{}$]|\\[,;:! ]|\\(?:left|right)")
# In a prompt that asks for another form of a number.
_OTHER_FORM = re.compile(
    r"\b(?:simplif(?:y|ied)|simplest|lowest terms|reduced?|rationali[sz]e|rounded?|nearest|convert(?:ed)?|mixed number"
    r"|(?:scientific|standard) (?:notation|form)|(?:decimal|significant) (?:places|figures|digits)"
    r"|(?:as|in|into|to) an? (?:\w+ )?(?:fraction|decimal|percent(?:age)?))\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def unspaced(text: str) -> str:
    """The text without what only spaces it; a prompt's is needed for each of its completions."""
    return _SPACING.sub("", spelled(text))


@lru_cache(maxsize=256)
def _formulas(prompt: str) -> frozenset[str]:
    """The formulas of a prompt, and the sides of its equations, unspaced."""
    found = [next(filter(None, formula.groups())) for formula in FORMULA.finditer(prompt)]
    return frozenset(unspaced(side) for formula in found for side in (formula, *formula.split("=")))


def echo(answer: str, gold: str, prompt: str) -> Echo:
    """How much of the prompt an answer is, however it is spaced.

    An answer that is a formula of the prompt is a `whole`, unless the gold, or a side of it, is one too. A number only
    repeats the question where that asks for another form of it, and the gold is written in other digits.

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
    """The digits of a number as it is written."""
    return "".join(filter(str.isdigit, spelled(text)))


def _stands_alone(number: str, text: str) -> bool:
    """Whether a number stands in a text, and not only as digits of another one."""
    return re.search(rf"(?<![\d.,/]){re.escape(number)}(?![\d/]|[.,]\d)", text) is not None
