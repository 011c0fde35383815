r"""Check whether an answer isolates the letter that the gold isolates: `x > 4`, `h = V/(lw)`.

An inequality in one letter must be solved if the gold is. Of an equation or an inequality in several letters, equal
forms are right unless the question asks to solve for the gold's letter: `2x + y = 3` may be the line `y = 3 - 2x`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from trl_grpo_ext.answers.compare.forms import is_label, is_region, named
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Logic,
    Node,
    Relation,
    Symbol,
    symbols,
    walk,
)

_ORDERS = {"<", ">", "<=", ">=", "!="}
_ASKS = re.compile(
    r"\b(?:solve|rearrange|isolate|express|subject|in terms of|as a function of)\b",
    re.IGNORECASE,
)
# Solutions of differential equations may be left implicit.
_DIFFERENTIAL = re.compile(
    r"\bdifferential\b|\bd[a-z]\s*/\s*d[a-z]\b|\\frac\s*\{d|[a-z]'(?![a-z])"
)


def is_unsolved(gold: Node, answer: Node, prompt: str) -> bool:
    """Check whether an answer leaves a letter to isolate that the gold isolates.

    Examples:
        >>> from trl_grpo_ext.answers.read.answer import read
        >>> [is_unsolved(read("x > 4").node, read(said).node, "") for said in ("2x > 8", "4 < x", "(4, oo)")]
        [True, False, False]
        >>> asked = "Solve 3x + 2y = 12 for y."
        >>> [is_unsolved(read("y = 6 - 1.5x").node, read("2y = 12 - 3x").node, prompt) for prompt in (asked, "")]
        [True, False]
    """
    # Of several equal forms, one that is solved is enough.
    if isinstance(answer, Logic) and answer.word == "same":
        return all(is_unsolved(gold, part, prompt) for part in answer.parts)
    letter = _isolated(gold)
    if letter:
        return _is_of_other_letter(answer, letter) and asks_for_letter(prompt, letter)
    if not _is_solved_set(gold):
        return False
    return not all(map(_is_solved, _inequalities(answer)))


def _isolated(node: Node) -> str:
    """Return the letter that a relation in several letters isolates: `y` of `y = 6 - 2x`; else an empty string."""
    if not isinstance(node, Relation) or len(symbols(node)) < 2:
        return ""
    for side in (node.sides[0], node.sides[-1]):
        if isinstance(side, Symbol) and _isolates(node, side.name):
            return side.name
    return ""


def _isolates(relation: Relation, letter: str) -> bool:
    others = [side for side in relation.sides if side != Symbol(letter)]
    return len(others) < len(relation.sides) and not any(
        letter in symbols(side) for side in others
    )


def _is_of_other_letter(node: Node, letter: str) -> bool:
    """Check whether relations with a letter leave it among others: `2y = 12 - 3x` for `y`."""
    found = [one for one in walk(node) if isinstance(one, Relation)]
    found = [one for one in found if letter in symbols(one)]
    return bool(found) and not any(_isolates(one, letter) for one in found)


@lru_cache(maxsize=256)
def asks_for_letter(prompt: str, letter: str) -> bool:
    r"""Check whether a prompt asks to solve for a letter: "Solve 3x + 2y = 12 for y.", "Make r the subject".

    Examples:
        >>> [asks_for_letter("Solve $V = lwh$ for $h$.", letter) for letter in "hw"]
        [True, False]
        >>> asks_for_letter("Write 2x + y = 3 in slope-intercept form.", "y")
        True
    """
    if _DIFFERENTIAL.search(prompt):
        return False
    if letter == "y" and "slope-intercept" in prompt.casefold():
        return True
    name = rf"[\\$(*`]*{re.escape(letter)}\b"
    asks = re.compile(
        rf"(?i:\b(?:for|make|isolate)\s+(?:the\s+)?(?:(?:variable|letter)\s+)?){name}"
        rf"|(?i:\b(?:express|subject)\s+(?:(?:the|is|\w+)\s+){{0,2}}){name}"
        rf"|{name}[)$*`]*\s+(?i:the\s+subject|in\s+terms\s+of|as\s+a\s+function\s+of)\b"
    )
    return _ASKS.search(prompt) is not None and asks.search(prompt) is not None


def _is_solved_set(node: Node) -> bool:
    """Check whether a gold is a number set whose inequalities are solved: an interval, `x > 4`, `x < 1 or x > 2`."""
    match node:
        case Collection("()" | "[]", items):
            return len(items) == 2
    found = _inequalities(node)
    return is_region(node) and all(map(_is_solved, found))


def _inequalities(node: Node) -> list[Relation]:
    return [
        one for one in walk(node) if isinstance(one, Relation) and set(one.signs) & _ORDERS
    ]


def _is_solved(relation: Relation) -> bool:
    """Check whether the only side with letters is a name: `-3 < x < 5`, `|AB| > 2`, not `2x > 8`."""
    with_letters = [side for side in relation.sides if symbols(side)]
    return all(map(_is_name, with_letters)) and len(with_letters) <= 1


def _is_name(side: Node) -> bool:
    if named(side):
        return True
    return isinstance(side, Apply) and side.name in ("*", "abs") and is_label(side)
