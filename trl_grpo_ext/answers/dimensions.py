"""Write dimensions that a question asks for as a list, the larger one first: "5 cm by 8 cm" as "8 cm and 5 cm"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.tree import Number, Quantity

# Characters at the end of a text that are read.
_MAX_CHARS = 1_000
_ASKED = re.compile(r"\b(?:dimensions|measurements)\b", re.IGNORECASE)
_BY = r"(?:\s(?:by|x)\s|\s?(?:×|\\times)\s?)"
_SIZE = r"\d+(?:[./]\d+)?(?:\s?\\?,?\s?\\text\s?\{\s?[a-z]+\s?\}|[\s~-]?(?!(?:by|x)\b)[a-z]++)?+"
# No factors, as in "Area = 8 x 5 = 40"
_SIZES = re.compile(
    rf"(?<![\w.=+*/×÷−-])(?<![=+*/×÷−-]\s)({_SIZE}){_BY}({_SIZE})(?:{_BY}({_SIZE}))?(?![\w]|\s?[=+*/×÷^²³−-]|\s(?:by|is)\b)",
    re.IGNORECASE,
)


def with_dimensions(
    golds: tuple[str, ...], completion: str, prompt: str
) -> tuple[tuple[str, ...], str]:
    """Write the dimensions in golds and in a completion's end as a list, if a question asks for them.

    Examples:
        >>> asked = "What are its dimensions?"
        >>> with_dimensions(("8 cm x 5 cm",), "It is 5 cm by 8 cm.", asked)
        (('8 cm and 5 cm',), 'It is 8 cm and 5 cm.')
        >>> with_dimensions(("8 by 5",), "8 x 5 = 40", asked)[1]
        '8 x 5 = 40'
    """
    if not _ASKED.search(prompt[-_MAX_CHARS:]):
        return golds, completion
    written = tuple(_SIZES.sub(_as_list, gold) for gold in golds)
    if written == golds:
        return golds, completion
    end = completion[-_MAX_CHARS:]
    return written, completion[:-_MAX_CHARS] + _SIZES.sub(_as_list, end)


def _as_list(found: re.Match[str]) -> str:
    """Join dimensions by "and", the larger one first; leave those of different units in their order."""
    told = [each for each in found.groups() if each]
    return " and ".join(_in_order(told))


def _in_order(told: Sequence[str]) -> Sequence[str]:
    sizes = []
    for each in told:
        match read(each).node:
            case Quantity(Number(size), unit):
                sizes.append(size * unit.factor)
            case Number(size):
                sizes.append(size)
            case _:
                return told
    order = sorted(range(len(told)), key=sizes.__getitem__, reverse=True)
    return [told[place] for place in order]
