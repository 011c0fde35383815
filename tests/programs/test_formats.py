"""Format texts written by a program read no hidden names."""

from __future__ import annotations

from typing import NoReturn

import pytest

from trl_grpo_ext.programs.sandbox.inside.guard.formats import FormatCheck


class RefusedError(Exception):
    pass


def refuse(what: str) -> NoReturn:
    raise RefusedError(what)


FORMATTED = FormatCheck(refuse).formatted


@pytest.mark.parametrize(
    "text",
    [
        "{0.__class__}",
        "{a.b.__init__.__globals__[x]}",
        "{a[0].__dict__}",
        "{a[.]._x}",
        "{!r} {a._b!s:>3}",
        "{x:{y.__doc__}}",
        "{x:{y:{z._a}}}",
    ],
)
def test_a_format_that_reads_a_name_with_an_underscore_is_refused(text: str) -> None:
    for use in (
        lambda: FORMATTED(text),
        lambda: FORMATTED(str).format(text),
        lambda: FORMATTED(str).format_map(text, {}),
    ):
        with pytest.raises(RefusedError):
            use()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{0} {name:>3} {a.b[_c]!r:{width}.2f}",
        "{_x} {{a._b}} _",
        "{",
        "}",
        "{a",
        "{0!x}",
        "def _f(x): {}",
    ],
)
def test_other_texts_are_left_as_they_are(text: str) -> None:
    assert FORMATTED(text) is text


def test_what_is_no_text_is_left_as_it_is() -> None:
    assert FORMATTED(3) == 3
    assert FORMATTED(str).format("{}-{a}", 1, a=2) == "1-2"
    assert FORMATTED(str).format_map("{a}", {"a": 2}) == "2"
