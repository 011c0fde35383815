"""Regular expressions in RE2, which takes linear time, where that finds exactly what Python's `re` finds.

A pattern is read by Python's own parser and written anew for RE2, so that nothing hangs on how either reads the syntax.
What RE2 does not have, or has with another meaning, is not translated: the caller then uses `re`, in a worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

MAX_WORK = 5_000_000  # instructions of a program times characters that it may meet: a quarter of a second, at the worst
_KNOWN_FLAGS = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.ASCII | re.UNICODE | re.VERBOSE
_SURROGATES = range(0xD800, 0xE000)

Ranges = tuple[tuple[int, int], ...]

_DIGITS: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = ((0x09, 0x0D), (0x1C, 0x20))
_ASCII_SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))  # what \s is under re.ASCII


class _NotSharedError(Exception):
    """The pattern has a part that the engines do not share."""


@dataclass(frozen=True, slots=True)
class LinearRegex:
    """A pattern for RE2, and the texts for which it finds what the one that it was made of finds.

    Attributes:
        compiled: What `re2.compile` made; it has the methods of `re.Pattern`.
        size: Instructions of its program.
        ascii_only: Whether the texts must be ASCII: the engines know other digits, letters and cases.
        no_last_newline: Whether the texts must not end in a newline, before which `$` matches for Python.
        may_be_empty: Whether it matches an empty text. What follows such a match differs.
    """

    compiled: Any
    size: int
    ascii_only: bool
    no_last_newline: bool
    may_be_empty: bool

    def fits(self, text: str, *, searches: int) -> bool:
        """Whether this may be used on a text, for so many searches of all of it."""
        if self.size * len(text) * searches > MAX_WORK or (self.no_last_newline and text.endswith("\n")):
            return False
        if text.isascii():
            return True
        return not self.ascii_only and _is_utf8(text)


@lru_cache(maxsize=256)
def linear_regex(pattern: str, flags: int) -> LinearRegex | None:
    """The pattern for RE2; None if `google-re2` is not installed, or does not share the pattern's meaning.

    Example:
        >>> linear_regex(r"(a)\\1", 0) is None
        True
    """
    try:
        parsed = import_module("re._parser").parse(pattern, flags)
        writer = _Writer(flags=parsed.state.flags)
        compiled = _compiled(writer.sequence(parsed))
    except (ImportError, _NotSharedError, RecursionError):
        return None
    return LinearRegex(
        compiled,
        size=max(compiled.programsize, compiled.reverseprogramsize),
        ascii_only=writer.ascii_only,
        no_last_newline=writer.no_last_newline,
        may_be_empty=parsed.getwidth()[0] == 0,
    )


def _compiled(pattern: str) -> Any:
    re2 = import_module("re2")
    if not hasattr(re2, "Options"):  # another package of that name
        raise _NotSharedError
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:  # too large, or a count beyond what RE2 takes
        raise _NotSharedError from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Writer:
    """Writes what Python's parser read in RE2's syntax, and notes what texts must be like."""

    def __init__(self, *, flags: int) -> None:
        if flags & ~_KNOWN_FLAGS:
            raise _NotSharedError
        self.ignore_case = bool(flags & re.IGNORECASE)
        self.dotall = bool(flags & re.DOTALL)
        self.multiline = bool(flags & re.MULTILINE)
        self.ascii = bool(flags & re.ASCII)
        self.ascii_only = self.ignore_case
        self.no_last_newline = False
        # Each takes the argument that Python's parser gives for it.
        self._writers: dict[str, Callable[[Any], str]] = {
            "LITERAL": lambda code: self._cased(f"[{self._char(code)}]"),
            "NOT_LITERAL": lambda code: self._cased(f"[^{self._char(code)}]"),
            "ANY": lambda _: "(?s:.)" if self.dotall else r"[^\n]",
            "IN": self._class,
            "AT": self._position,
            "BRANCH": lambda branch: f"(?:{'|'.join(self.sequence(each) for each in branch[1])})",
            "SUBPATTERN": self._group,
            "MAX_REPEAT": lambda repeat: self._repeat(*repeat),
            "MIN_REPEAT": lambda repeat: self._repeat(*repeat) + "?",
        }

    def sequence(self, parsed: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._item(str(kind), argument) for kind, argument in parsed)

    def _item(self, kind: str, argument: Any) -> str:
        if kind not in self._writers:  # look-around, back-references, possessive and atomic parts
            raise _NotSharedError
        return self._writers[kind](argument)

    def _cased(self, written: str) -> str:
        return f"(?i:{written})" if self.ignore_case else written

    def _char(self, code: int) -> str:
        if code in _SURROGATES or (self.ignore_case and code > 0x7F):
            raise _NotSharedError
        return f"\\x{{{code:x}}}"

    def _group(self, group: tuple[Any, int, int, Any]) -> str:
        _, added, removed, content = group
        if added or removed:
            raise _NotSharedError
        return f"(?:{self.sequence(content)})"

    def _repeat(self, least: int, most: Any, content: Any) -> str:
        if content.getwidth()[0] == 0:  # engines differ on when repeating nothing ends
            raise _NotSharedError
        upper = "" if str(most) == "MAXREPEAT" else str(most)
        return f"(?:{self.sequence(content)}){{{least},{upper}}}"

    def _position(self, where: Any) -> str:
        match str(where):
            case "AT_BEGINNING":
                return "(?m:^)" if self.multiline else r"\A"
            case "AT_BEGINNING_STRING":
                return r"\A"
            case "AT_END" if self.multiline:
                return "(?m:$)"
            case "AT_END":
                self.no_last_newline = True
                return r"\z"
            case "AT_END_STRING":
                return r"\z"
            case "AT_BOUNDARY":
                self.ascii_only = self.ascii_only or not self.ascii
                return r"\b"
            case _:  # \B, of which Python's versions differ
                raise _NotSharedError

    def _class(self, items: Sequence[tuple[Any, Any]]) -> str:
        kinds = [(str(kind), argument) for kind, argument in items]
        negated = kinds[0][0] == "NEGATE"
        if negated:
            kinds = kinds[1:]
        categories = {str(argument).removeprefix("CATEGORY_") for kind, argument in kinds if kind == "CATEGORY"}
        if any(f"NOT_{category}" in categories for category in categories):  # [\s\S]
            return r"[^\x{0}-\x{10ffff}]" if negated else "(?s:.)"
        if categories and not self.ascii:
            self.ascii_only = True
        return self._cased(f"[{'^' if negated else ''}{''.join(self._member(*kind) for kind in kinds)}]")

    def _member(self, kind: str, argument: Any) -> str:
        match kind:
            case "LITERAL":
                return self._char(argument)
            case "RANGE":
                return f"{self._char(argument[0])}-{self._char(argument[1])}"
            case "CATEGORY":
                return self._category(str(argument).removeprefix("CATEGORY_"))
            case _:
                raise _NotSharedError

    def _category(self, name: str) -> str:
        spaces = _ASCII_SPACE if self.ascii else _SPACE
        ranges = {"DIGIT": _DIGITS, "WORD": _WORD, "SPACE": spaces}.get(name.removeprefix("NOT_"))
        if ranges is None:
            raise _NotSharedError
        # Beyond ASCII stand letters whose lower case is ASCII: \W must not find `k` by way of the Kelvin sign.
        last = 0x7F if self.ignore_case else 0x10FFFF
        chosen = _complement(ranges, last) if name.startswith("NOT_") else ranges
        return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in chosen)


def _complement(ranges: Ranges, last_of_all: int) -> Ranges:
    firsts = [0, *(last + 1 for _, last in ranges)]
    lasts = [*(first - 1 for first, _ in ranges), last_of_all]
    return tuple(zip(firsts, lasts, strict=True))
