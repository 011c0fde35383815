"""Check format texts of a program, as in `template().format(user=user)`: they may read no hidden attributes.

`{user.__init__.__globals__[expected]}` would reveal expected values.
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
    """A check of texts before tests format them.

    Args:
        refuse: Ends the judge; its argument names the hidden attribute.
    """

    def __init__(self, refuse: Callable[[str], NoReturn]) -> None:
        self._refuse = refuse

    def install(self) -> None:
        """Check texts of every `string.Formatter` too."""
        own = Formatter.vformat

        def vformat(formatter: Formatter, text: str, args: Any, kwargs: Any) -> str:
            return own(formatter, self.formatted(text), args, kwargs)

        Formatter.vformat = vformat  # type: ignore[method-assign, assignment]

    def formatted(self, value: Any) -> Any:
        """Check a value before a test calls its `format`; end the judge if the text reads hidden attributes.

        Returns the value. For `str` itself, as in `str.format(text, user)`, it returns an object whose format methods
        check their text.
        """
        if value is str:
            return SimpleNamespace(
                format=lambda text, *args, **kwargs: str.format(
                    self.formatted(text), *args, **kwargs
                ),
                format_map=lambda text, mapping: str.format_map(
                    self.formatted(text), mapping
                ),
            )
        hidden = next(_hidden_names(value), None) if isinstance(value, str) else None
        if hidden is not None:
            self._refuse(f"format of {hidden[:60]}")
        return value


def _hidden_names(text: str) -> Iterator[str]:
    """Yield attribute names with a leading underscore that a format text reads, including its nested specifications."""
    try:
        fields = [
            (name, spec)
            for _, name, spec, _ in Formatter().parse(str.__str__(text))
            if name is not None
        ]
    except ValueError:
        # The text is not a valid format; the test itself will notice.
        return
    for name, spec in fields:
        # A key in brackets names an item, not an attribute.
        for part in _ATTRIBUTE.findall(_ITEM.sub("", name)):
            if part.startswith("_"):
                yield part
        yield from _hidden_names(spec or "")
