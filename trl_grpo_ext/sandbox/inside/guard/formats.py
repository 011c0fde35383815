"""Formats that a program wrote, as in `template().format(user=user)`: they read no name that begins with an underscore.

`{user.__init__.__globals__[expected]}` would read what the tests expect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from string import Formatter
from types import SimpleNamespace
from typing import Any, NoReturn

_ITEM = re.compile(r"\[[^\]]*\]")
_ATTRIBUTE = re.compile(r"\.([^.\[]*)")


class FormatCheck:
    """Looks at texts before tests format them.

    Args:
        refuse: Ends the judge. It is told what would have been read.
    """

    def __init__(self, refuse: Callable[[str], NoReturn]) -> None:
        self._refuse = refuse

    def install(self) -> None:
        """Look at the texts of `string.Formatter` too, whoever has made it."""
        own = Formatter.vformat

        def vformat(formatter: Formatter, text: str, args: Any, kwargs: Any) -> str:
            return own(formatter, self.formatted(text), args, kwargs)

        Formatter.vformat = vformat  # type: ignore[method-assign, assignment]

    def formatted(self, value: Any) -> Any:
        """Return an object whose `format` a test takes, if it is no text that reads hidden names.

        For `str` itself, as in `str.format(text, user)`, an object with the same methods that look at the text.
        """
        if value is str:
            return SimpleNamespace(
                format=lambda text, *args, **kwargs: str.format(self.formatted(text), *args, **kwargs),
                format_map=lambda text, mapping: str.format_map(self.formatted(text), mapping),
            )
        hidden = next(_hidden_names(value), None) if isinstance(value, str) else None
        if hidden is not None:
            self._refuse(f"format of {hidden[:60]}")
        return value


def _hidden_names(text: str) -> Iterator[str]:
    """The names with an underscore that the fields of a format read, those in its specifications included."""
    try:
        fields = [(name, spec) for _, name, spec, _ in Formatter().parse(str.__str__(text)) if name is not None]
    except ValueError:  # no format, which the test will find out
        return
    for name, spec in fields:
        yield from (part for part in _ATTRIBUTE.findall(_ITEM.sub("", name)) if part.startswith("_"))
        yield from _hidden_names(spec or "")
