"""Compare printed output with expected output, outside the sandbox and without running code.

Output is compared line by line. White space at line ends, blank lines at the end and the kind of line ending do not
count. Everything else must match, including white space at line starts and the case of letters, with a single
exception: if an expected word is a number with a decimal point or an exponent, a number within `FLOAT_TOLERANCE`
matches, however many digits it has. The graders of LiveCodeBench and APPS compare values too. A number printed as an
integer must equal the expected number exactly.
"""

from __future__ import annotations

import math
import re
from itertools import zip_longest

# Absolute, or relative to the larger of both numbers.
FLOAT_TOLERANCE = 1e-6
# Longer words must match exactly.
MAX_NUMBER_CHARS = 1_000
SHOWN_CHARS = 70

_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?", re.ASCII
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_SPACE = re.compile(r"([ \t\v\f]+)")
_BLANK = " \t\v\f\r"


def first_difference(printed: bytes, expected: str) -> str:
    r"""Describe the first difference between printed and expected output in a short line; empty if there is none.

    Bytes that are not UTF-8 match no text. The time is linear in the length of both outputs.

    | printed | expected | same |
    |---|---|---|
    | `"1 2 \r\n\n"` | `"1 2"` | yes |
    | `"0.3333333333"` | `"0.33333333"` | yes |
    | `"2"` | `"2.0"` | yes |
    | `"1.1"` | `"1.10"` | yes |
    | `"12345678"` | `"12345679.0"` | no: an integer is printed |
    | `"2.0"` | `"2"` | no: an integer is expected |
    | `" 1"`, `"1  2"` | `"1"`, `"1 2"` | no |
    | `"yes"` | `"YES"` | no |
    | `"nan"` | `"1.5"` | no |

    Examples:
        >>> first_difference(b"1 0.5000001\n", "1 0.5")
        ''
        >>> first_difference(b"1\n3\n", "1\n2\n")
        "line 2: got '3', expected '2'"
    """
    try:
        text = printed.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte {error.start} of the output is no UTF-8"
    for number, (got, wanted) in enumerate(
        zip_longest(_lines(text), _lines(expected)), start=1
    ):
        if got is None or wanted is None or not _same_line(got, wanted):
            return (
                f"line {number}: got {_shown(got, wanted)}, expected {_shown(wanted, got)}"
            )
    return ""


def _lines(text: str) -> list[str]:
    lines = [line.rstrip(_BLANK) for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_line(got: str, wanted: str) -> bool:
    if got == wanted:
        return True
    # The group in the pattern keeps white space among the parts, so that it has to match too.
    words, expected = _SPACE.split(got), _SPACE.split(wanted)
    if len(words) != len(expected):
        return False
    return all(
        one == other or _is_close(one, other)
        for one, other in zip(words, expected, strict=True)
    )


def _is_close(got: str, wanted: str) -> bool:
    # `int` raises ValueError for more than 4,300 digits, and takes quadratic time for fewer.
    if len(got) > MAX_NUMBER_CHARS or len(wanted) > MAX_NUMBER_CHARS:
        return False
    if not _DECIMAL.fullmatch(wanted) or not _NUMBER.fullmatch(got):
        return False
    one, other = float(got), float(wanted)
    if _INTEGER.fullmatch(got):
        # A program that prints an integer means its exact value.
        return math.isfinite(other) and int(got) == other
    if not math.isfinite(one) or not math.isfinite(other):
        # A word such as 1e999 reads as infinity.
        return False
    return math.isclose(one, other, rel_tol=FLOAT_TOLERANCE, abs_tol=FLOAT_TOLERANCE)


def _shown(line: str | None, other: str | None) -> str:
    """Quote a line; of a long line, only a part that begins shortly before it differs from `other`."""
    if line is None:
        return "the end"
    start = 0
    if len(line) > SHOWN_CHARS:
        start = max(0, _first_difference(line, other or "") - SHOWN_CHARS // 2)
    part = line[start : start + SHOWN_CHARS]
    shown = repr(part) if part.isprintable() else ascii(part)
    if len(shown) > SHOWN_CHARS + 2:
        shown = shown[:SHOWN_CHARS] + "'"
    if start:
        shown = f"...{shown}"
    if start + SHOWN_CHARS < len(line):
        shown = f"{shown}..."
    return shown


def _first_difference(one: str, other: str) -> int:
    """Return the index of the first different character; 0 if none differs."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return 0
