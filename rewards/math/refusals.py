"""Answers that equal the gold and still do not answer: the kinds that are refused, each with a switch.

math-verify does the problem for the model where it can: it evaluates a sum that only repeats the question, keeps the
last side of a false equation, drops text as if it were a unit. Each function here says whether an answer is of such a
kind; they are asked only when the values are equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from trl_grpo_ext.rewards.answers.latex import WORDS, standard, text_in, without_commands, without_text_commands
from trl_grpo_ext.rewards.answers.numbers import number, unit

SWITCHES = (
    "accept_unevaluated",
    "accept_stray_text",
    "accept_other_units",
    "accept_other_case",
    "accept_false_equations",
)

_OPERATORS = {
    "sum": r"\\sum(?![A-Za-z])",
    "product": r"\\prod(?![A-Za-z])",
    "integral": r"\\i*int(?![A-Za-z])",
    "limit": r"\\lim(?![A-Za-z])",
    "common divisor": r"\\?(?:gcd|lcm)(?![A-Za-z])",
    "determinant": r"\\det(?![A-Za-z])|\\begin\{vmatrix\}",
    "derivative": r"\\frac\s*\{\s*d[^{}]*\}\s*\{\s*d[^{}]*\}",
    "binomial": r"\\[dt]?binom(?![A-Za-z])",
    "remainder": r"\\[bp]?mod(?![A-Za-z])",
}
_OPERATOR = {name: re.compile(pattern) for name, pattern in _OPERATORS.items()}
_VARIABLE = re.compile(r"\s*\\?[A-Za-z](?:_\{?\w+\}?)?(?:\([a-z]\))?\s*")
_COMMAND = re.compile(r"\\(?:times|cdot|div|frac|pm|%|,)")
_LETTER = re.compile(r"[A-Za-z,]")
_STRAY = frozenset(
    """not isn't wrong incorrect false or maybe perhaps possibly either neither if but unless unknown
    negative minus half twice double triple squared cubed factorial hundred thousand million billion trillion dozen
    least most more less rejected excluded extraneous discarded
    except instead no never nor cannot can't guess undecided""".split()  # noqa: SIM905  # readable as prose
)
_KINDS = (  # in this order
    ("other", re.compile(r"=|\\(?:text|mathrm|mbox|pm|mp|circ|gcd|lcm|max|min)(?![A-Za-z])|[%:|]|[A-Za-z]{2,}\s*$")),
    ("other", re.compile(r"\b(?:or|and)\b|\\neq?(?![A-Za-z])")),
    ("relation", re.compile(r"[<>]|\\(?:in|le|ge|leq|geq|lt|gt)(?![A-Za-z])")),
    ("matrix", re.compile(r"^\\begin\{[pb]?matrix\}.*(?:&|\\\\).*\\end\{[pb]?matrix\}$")),
    ("other", re.compile(r"\\begin")),
    ("complex", re.compile(r"^-?\d+\s*[+-]\s*\d*\s*i$")),
)
_ANY_COMMAND = re.compile(r"\\[A-Za-z]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_VARIABLES = re.compile(r"(?<![A-Za-z])[a-cf-hj-zA-Z](?![A-Za-z])")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z']{2,}")
_MORE_ANSWERS = re.compile(r"\d|[,;?]")
_NEGATED = re.compile(r"\\(?:neq?|not)(?![A-Za-z])")


def is_unevaluated(gold: str, answer: str) -> bool:
    r"""Whether the answer leaves the work to the grader: `17 \times 23`, `\sum_{k=1}^{100} k`, `\frac{d}{dx} x^2`.

    For a gold that is a plain number, an answer must be one as well: an integer, a decimal, a fraction, a mixed or
    a scientific number. Any other gold allows the operators that it has itself.
    """
    answer = re.split(r"=|\\approx", answer)[-1]  # 2 + 3 = 5 and f(2) = 5 say what the value is
    if any(pattern.search(answer) and not pattern.search(gold) for pattern in _OPERATOR.values()):
        return True
    return number(bare_value(gold)) is not None and number(bare_value(answer).strip("() ")) is None


def bare_value(text: str) -> str:
    r"""An answer without what it is assigned to, its unit and its percent or degree sign.

    Example:
        >>> [bare_value(text) for text in ("x = 5", "2 + 3 = 5", r"5 \text{ cm}^2", "12 km/h", r"90^\circ", "2y")]
        ['5', '5', '5', '12', '90', '2y']
    """
    text = standard(text)
    *left, right = re.split(r"=|\\approx", text)
    if all(_VARIABLE.fullmatch(side) or not _LETTER.search(_COMMAND.sub("", side)) for side in left):
        text = right
    text = re.sub(rf"\\(?:{WORDS})\s*\{{[^{{}}]*\}}\s*(?:\^\s*\{{?\d\}}?)?", " ", text)
    text = re.sub(r"\\%|%|\^\s*\{?\s*\\circ\s*\}?|\\\$|\$|\\approx", " ", text)
    text = re.sub(r"(?<=[\d\s}])[A-Za-z]{2,}(?:(?:\s+|/)[A-Za-z]+)*\s*(?:\^\s*\{?\d\}?)?\s*$", "", text)
    text = re.sub(r"(?<=\d)\s*[A-Za-z]+(?:\s*/\s*[A-Za-z]+)+\s*(?:\^\s*\{?-?\d\}?)?\s*$", "", text)
    return " ".join(text.split()).strip("~ ")


def kind(text: str) -> str:
    r"""What an answer is by its looks, or `other` where that is not sure. Answers of `UNLIKE` kinds are never equal.

    Example:
        >>> [kind(text) for text in ("1,234", "x^2+1", "(1, 2)", "3-4i", "x > 3")]
        ['number', 'variables', 'collection', 'complex', 'relation']
        >>> [kind(text) for text in ("2\\sqrt{5}", "x = 5", r"5 \text{ cm}", r"1 \pm 2")]
        ['other', 'other', 'number', 'other']
    """
    text = standard(text)
    if number(bare_value(text)) is not None and not re.search("[=<>]", text):
        return "number"
    for name, form in _KINDS:
        if form.search(text):
            return name
    if "," in _THOUSANDS.sub("", text):
        return "collection"
    return "variables" if _VARIABLES.search(_ANY_COMMAND.sub(" ", text)) else "other"


UNLIKE = (
    *({"number", other} for other in ("variables", "collection", "complex", "relation", "matrix")),
    {"collection", "variables"},
    {"matrix", "variables"},
)


def has_stray_text(gold: str, answer: str) -> bool:
    r"""Whether words take the answer back or leave it open: `5 \text{ is wrong}`, `\text{not } 5`."""
    said = {word.casefold() for word in _WORD.findall(without_text_commands(answer))}
    expected = {word.casefold() for word in _WORD.findall(without_text_commands(gold))}
    stray = (said - expected) & _STRAY
    if unit(answer) is not None:
        stray -= {"squared", "cubed"}
    if any(_MORE_ANSWERS.search(text) and text not in gold for text in text_in(standard(answer))):
        return True
    if kind(gold) == "collection":  # 1, 2 may be said as "1 or 2"
        stray.discard("or")
    return bool(stray)


def is_negated(gold: str, answer: str) -> bool:
    r"""Whether the answer says what the value is not: `\neq 5`."""
    return bool(_NEGATED.search(answer)) and not _NEGATED.search(standard(gold))


def has_other_case(gold: str, answer: str) -> bool:
    """Whether a variable of the gold stands in the answer in the other case: `X` for `x`."""
    asked, given = _variables(gold), _variables(answer)
    return any(letter.swapcase() in asked for letter in given - asked)


def _variables(text: str) -> set[str]:
    text = without_commands(standard(text))
    return set(re.findall(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])", text))


def has_other_unit(gold: str, answer: str) -> bool:
    r"""Whether both have a unit that is known, and not the same: `5 \text{ m}` for `5 \text{ km}`."""
    asked, given = unit(gold), unit(answer)
    if asked is not None and given is not None:
        return asked != given or _is_rate(gold) != _is_rate(answer)
    words = [_unit_words(text) for text in (gold, answer)]
    return bool(words[0] and words[1]) and not words[0] & words[1]


def _is_rate(text: str) -> bool:
    return re.search(r"[A-Za-z]\s*/\s*[A-Za-z]|(?<![A-Za-z])per(?![A-Za-z])", without_text_commands(text)) is not None


def _unit_words(text: str) -> set[str]:
    """The words beside a number, in the singular; empty for what is no number."""
    if number(bare_value(text)) is None:
        return set()
    return {word.casefold().rstrip("s.") for word in _WORD.findall(" ".join(text_in(standard(text))))}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kind of answer that is turned down though its value is right.

    Attributes:
        switch: The argument of `MathVerifier` that allows it.
        reason: The verdict's reason code.
        applies: Whether an answer to a gold is of this kind, both as text.
    """

    switch: str
    reason: str
    applies: Callable[[str, str], bool]


REFUSALS = (
    Refusal("accept_stray_text", "stray_text", has_stray_text),
    Refusal("accept_stray_text", "negated", is_negated),
    Refusal("accept_other_units", "other_unit", has_other_unit),
    Refusal("accept_other_case", "other_symbols", has_other_case),
    Refusal("accept_unevaluated", "unevaluated", is_unevaluated),
)


def violation(gold: str, answer: str, accepted: frozenset[str]) -> str:
    """The reason code of the first refusal that applies to this answer; empty if none does."""
    for refusal in REFUSALS:
        if refusal.switch not in accepted and refusal.applies(gold, answer):
            return refusal.reason
    return ""
