r"""Tell repeated roots once: `x = 3 (double root)`, `x = 3, 3` and `x = 3 or x = 3` are `x = 3`."""

from __future__ import annotations

import re

from trl_grpo_ext.answers.read.signal_words import contains_any

# Characters at a completion's end that are read.
_MAX_CHARS = 1_000
# Characters of a list's name and first root.
_MAX_LEAD = 80
_TIMES = r"(?:double|triple|repeated|twice|(?:of |with )?multiplicity (?:\d|two|three))"
_REMARK = rf"\((?:an? )?{_TIMES}(?:,? (?:real )?(?:root|solution|zero))?\)"
# x = 3 (double root), x = 3 \text{ (double root)}
_BESIDE = re.compile(
    rf"(?<=[\w$*}}])\s?(?:\\[,;: ]|\\quad)?\s?(?:\\text\s?\{{\s?{_REMARK}\s?\}}|{_REMARK})",
    re.IGNORECASE,
)
_WORDS = ("double", "triple", "repeated", "twice", "multiplicity")
_ROOT = r"[-−]?(?:\d{1,20}(?:[./]\d{1,20})?|\\[dt]?frac\{\d{1,9}\}\{\d{1,9}\})"
_END = r"(?!\s?[\w^*/(+=\\-]|[.,]\d)"
_NAME = r"[A-Za-z](?:_\{?\d\}?)?\s?=\s?"
_JOINT = r"(?:,(?:\s|\\[,;: ])?|,?\s(?:and|or)\s|\$?,?\s(?:and|or)\s\$)"
# x = 3, 3; x = 1, 1, -2; the roots are 3 and 3
_ROOTS = re.compile(
    # A word or a variable's name begins here; this cheap test avoids the rest.
    r"\b(?=[A-Za-z])"
    rf"((?<![\w\\]){_NAME}|\b(?:root|solution|zero)s\s(?:are|is)\s\$?)({_ROOT}(?:{_JOINT}(?:{_NAME})?{_ROOT}{_END}){{1,9}})"
)
# The first two roots of a list; this cheap test avoids the slow expression.
_JOINED = re.compile(rf"(?:=\s?|s\s(?:are|is)\s\$?){_ROOT}{_JOINT}(?:{_NAME})?[-−\d\\]")
_ITEM = re.compile(rf"(?:{_NAME})?{_ROOT}")


def with_roots_once(golds: tuple[str, ...], completion: str) -> tuple[tuple[str, ...], str]:
    """Tell each root in golds and in a completion's end once, unless a gold repeats a root itself.

    Examples:
        >>> with_roots_once(("3",), "So x = 3 (double root).")
        (('3',), 'So x = 3.')
        >>> with_roots_once(("1, -2",), "x = 1, 1, -2"), with_roots_once(("1, 1, -2",), "x = 1, 1, -2")[1]
        ((('1, -2',), 'x = 1, -2'), 'x = 1, 1, -2')
    """
    end = completion[-_MAX_CHARS:]
    written = tuple(map(_without_remark, golds))
    told = _without_remark(end)
    joined = _JOINED.search(told)
    if joined and not any(map(_repeats, written)):
        # A list begins in the words before its first joint.
        begin = told.rfind(" ", 0, max(joined.start() - _MAX_LEAD, 0)) + 1
        told = told[:begin] + _ROOTS.sub(_once, told[begin:])
    return written, completion[:-_MAX_CHARS] + told


def _without_remark(text: str) -> str:
    return _BESIDE.sub("", text) if contains_any(text, _WORDS) else text


def _repeats(gold: str) -> bool:
    """Check whether a gold has a root twice."""
    roots = _ITEM.findall(gold)
    return len(set(roots)) < len(roots)


def _once(roots: re.Match[str]) -> str:
    """Return a list of roots without its repeated roots; unchanged if several letters have them."""
    items = _ITEM.findall(roots[2])
    letters = {item[0] for item in items if "=" in item}
    if letters and letters != {roots[1][0]}:
        return roots[0]
    values = [item.rpartition("=")[2].strip() for item in items]
    once = list(dict.fromkeys(values))
    return roots[0] if len(once) == len(values) else roots[1] + ", ".join(once)
