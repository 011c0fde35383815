r"""Write divisions of polynomials with a remainder in one form, `quotient x + 3, remainder 1`, in golds and answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from trl_grpo_ext.answers.compare.polynomials import degree, is_rational
from trl_grpo_ext.answers.read.answer import read
from trl_grpo_ext.answers.read.tree import Apply, Node, symbols, walk

# Characters at the end of a text that are rewritten.
_MAX_CHARS = 1_000
# Longer formulas are not split.
_MAX_FORMULA = 200
_MARKUP = re.compile(
    r"\*\*|\$|\\[()\[\]]|\\q?quad(?![A-Za-z])|\\[,;: ]|~|\\left(?![a-z])|\\right(?![a-z])"
)
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|textrm)\s?\{([^{}]*)\}")
_SPACES = re.compile(r"[ \t]+")
_BOX = re.compile(r"\\boxed\s?\{((?:[^{}]|\{[^{}]*\}){1,200})\}")
_PIECE = (
    r"(?:\d+(?!\d)|(?<![A-Za-z\\])(?!a\s(?:remainder|quotient))[a-z](?![A-Za-z])|\^\{[^{}]{1,9}\}|[-−+*/^().²³⁴⁵⁶⁷⁸⁹·]"
    r"|\\[dt]?frac\{[^{}]{1,30}\}\{[^{}]{1,30}\}|\\cdot(?![A-Za-z]))"
)
# A formula begins behind no sign, so that it is whole.
_FORMULA = rf"(?<![\w\\^+*/−-])(?<![+*/−-]\s)({_PIECE}(?:[ ]?{_PIECE}){{0,60}})"
_IS = r"(?:\s?[:=]|\s(?:is|of|was)\b)?\s?"
_QUOTIENT = rf"(?:(?:\b(?:[Tt]he|an?)\s)?\b[Qq]uotient\b{_IS})"
_REMAINDER = (
    rf"(?:(?:\b(?:[Tt]he|an?)\s)?\b[Rr]emainder\b{_IS}|\bR\b{_IS}|\br\b(?=\s?[-−\d]){_IS})"
)
_JOINT = r"\s?[,;.(]?\s?(?:[-*•]\s)?(?:(?:and|with|leaving)\s)?"
_END = r"(?!\s?[-−+*/^=]|\w)"
_TOLD = re.compile(
    rf"(?:=\s?)?{_QUOTIENT}?{_FORMULA}{_JOINT}{_REMAINDER}{_FORMULA}{_END}"
    rf"|{_REMAINDER}{_FORMULA}{_JOINT}{_QUOTIENT}{_FORMULA}{_END}"
)
_OR_BEFORE, _OR_BEHIND = re.compile(r"\bor\s\Z"), re.compile(r"\s?,?\s?\(?or\b")
# "x + 3 + 1/(x + 2)": the last term alone has a divisor with a letter.
_SUM = re.compile(
    r"(.+?)([-−+])(?:\\[dt]?frac\{([^{}]+)\}\{([^{}]+)\}|(\d+|[a-z]|\([^()]+\))/([a-z]|\([^()]+\)))"
)
# Words or an equation before a sum.
_LEAD = re.compile(r".*(?:=|(?<![\\A-Za-z])[A-Za-z]{2,}\s|:\s)", re.DOTALL)


def with_divisions(golds: tuple[str, ...], completion: str) -> tuple[tuple[str, ...], str]:
    """Write the divisions that golds and a completion's end tell in one form; both unchanged without such a gold.

    A gold that is a sum is accepted in both forms.

    Examples:
        >>> with_divisions(("x + 3 R 1",), "The quotient is $x + 3$ and the remainder is $1$.")
        (('quotient x + 3, remainder 1',), 'quotient x + 3, remainder 1 .')
        >>> with_divisions(("x + 3 + 1/(x + 2)",), "So it is 5.")
        (('x + 3 + 1/(x + 2)', 'quotient x+3, remainder 1'), 'So it is 5.')
    """
    known = _golds(golds)
    if not any(map(_TOLD.fullmatch, known)):
        return golds, completion
    plain = _plain(completion[-_MAX_CHARS:])
    written = _TOLD.sub(_rewritten, plain)
    return known, completion if written == plain else completion[:-_MAX_CHARS] + written


@lru_cache(maxsize=1024)
def _golds(golds: tuple[str, ...]) -> tuple[str, ...]:
    """Return golds with the divisions of polynomials in one form."""
    known: list[str] = []
    for gold in golds:
        told = _TOLD.fullmatch(_plain(gold[:_MAX_CHARS]).strip(" ."))
        summed = _split(gold)
        if told and _has_letter(told):
            known.append(_named(told))
        elif summed:
            quotient, rest, _ = summed
            known += [gold, f"quotient {quotient}, remainder {rest}"]
        else:
            known.append(gold)
    return tuple(known)


def as_division(answer: str, golds: Sequence[str], prompt: str) -> str:
    r"""Write a sum as quotient and remainder, if a gold gives both and the prompt contains the divisor.

    Examples:
        >>> of = lambda answer: as_division(answer, ["quotient x + 3, remainder 1"], "Divide x^2 + 5x + 7 by x + 2.")
        >>> of(r"x + 3 + \frac{1}{x + 2}"), of(r"x + 3 + \frac{1}{x + 5}")
        ('(x+3, 1)', 'x + 3 + \\frac{1}{x + 5}')
    """
    # Sums are compared as they are.
    if not any(map(_TOLD.fullmatch, golds)) or any(map(_split, golds)):
        return answer
    summed = _split(_LEAD.sub("", answer[-_MAX_CHARS:]))
    if summed is None or read(answer).stray:
        return answer
    quotient, rest, divisor = summed
    spaced = r"\s?".join(map(re.escape, divisor))
    is_asked = re.search(
        rf"(?<![-−+*^\w)])(?<![-−+*^]\s){spaced}(?!\s?[-−+*^(]|\w)",
        _plain(prompt[-_MAX_CHARS:]),
    )
    return f"({quotient}, {rest})" if is_asked else answer


def _split(text: str) -> tuple[str, str, str] | None:
    """Split "x + 3 + 1/(x + 2)" into quotient, remainder and divisor; None for other texts."""
    if "/" not in text and "frac" not in text:
        return None
    found = _SUM.fullmatch(_squeezed(text[:_MAX_FORMULA]))
    if found is None or len(text) > _MAX_FORMULA:
        return None
    quotient, sign, *terms = found.groups()
    rest, divisor = (term.strip("()") for term in terms if term)
    nodes = [read(part).node for part in (quotient, rest, divisor)]
    if not all(map(_is_polynomial, nodes)) or degree(nodes[1]) >= degree(nodes[2]):
        return None
    negative = f"-{rest}" if rest.isalnum() else f"-({rest})"
    return quotient, rest if sign == "+" else negative, divisor


def _is_polynomial(node: Node) -> bool:
    """Check that a value consists of numbers and letters, without a letter in a denominator."""
    are_whole = not any(
        isinstance(one, Apply) and one.name == "/" and symbols(one.arguments[1])
        for one in walk(node)
    )
    return are_whole and is_rational(node)


def _has_letter(told: re.Match[str]) -> bool:
    return any(part and symbols(read(part).node) for part in told.groups())


def _rewritten(told: re.Match[str]) -> str:
    """Write a division that a text tells with both names; unchanged if "or" leaves it open."""
    text = told.string
    if _OR_BEFORE.search(text[: told.start()][-5:]) or _OR_BEHIND.match(text, told.end()):
        return told[0]
    return f": {_named(told)}" if told[0].startswith("=") else _named(told)


def _named(told: re.Match[str]) -> str:
    """Write a division with both names, the quotient first."""
    quotient, rest, second, first = told.groups()
    quotient, rest = quotient or first, rest or second
    # "x + 3 (remainder 1)"
    if rest.count(")") > rest.count("("):
        quotient, rest = quotient.rstrip("( "), rest.rstrip(") ")
    return f"quotient {quotient}, remainder {rest}"


def _plain(text: str) -> str:
    """Return a text without bold letters, delimiters and text commands, and without boxes if there are several."""
    plain = _SPACES.sub(" ", _MARKUP.sub(" ", _TEXT.sub(r" \1 ", text)))
    return _BOX.sub(r"\1", plain) if plain.count("\\boxed") > 1 else plain


def _squeezed(text: str) -> str:
    return _plain(text).replace(" ", "")
