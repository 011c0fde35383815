"""Build a page: an HTML file that opens offline, and runs only our own scripts, whatever its data hold."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup, escape

from trl_grpo_ext.support.text import cut

ASSETS = files("trl_grpo_ext.report") / "assets"

# JSON has these characters only inside strings, where an escape is equivalent. Without them, an HTML parser finds no
# tag, comment or entity in the data, so no data can close its script element.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def standalone_page(
    *,
    title: str,
    data: Any,
    scripts: Sequence[str],
    styles: Sequence[str],
) -> str:
    """Build a self-contained HTML page.

    The Content-Security-Policy allows the given scripts and styles by hash, and nothing else: no inline handler, no
    network, no form. `require-trusted-types-for` makes the browser refuse text where markup is expected, so scripts
    must build the page by `textContent`. `scripts` and `styles` are names of assets, in order. Scripts read the data by
    `readData()` of `theme.js`.

    Returns:
        The page, in ASCII.

    Raises:
        ValueError: if the data contain NaN or an infinite number, or an asset is not ASCII.

    Examples:
        >>> page = standalone_page(title="A", data={"text": "</script>"}, scripts=["theme.js"], styles=["theme.css"])
        >>> page.count("</script>")  # that of the data, and that of the script
        2
    """
    script = _joined(scripts)
    style = _joined(styles)
    # A misspelled name in the template is an error, not an empty place.
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    # The page shows texts that a model wrote: none of them may run as a script or fetch anything.
    policy = [
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    template = environment.from_string(asset("page.html.j2"))
    return template.render(
        title=_ascii(title),
        policy="; ".join(policy),
        script=script,
        style=style,
        data=script_json(data),
    )


def script_json(data: Any) -> str:
    r"""Encode data as JSON for a script element; ASCII, so line separators and lone surrogates are escaped, too.

    Examples:
        >>> print(script_json("<!-- &\u2028"))
        "\u003c!-- \u0026\u2028"
    """
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def asset(name: str) -> str:
    """Return an asset's text."""
    return (ASSETS / name).read_text(encoding="utf-8")


def _joined(names: Sequence[str]) -> str:
    text = "\n".join(asset(name) for name in names)
    # The hash covers bytes, so the page's encoding must not change them.
    if not text.isascii():
        raise ValueError(f"One of {list(names)} is not ASCII; write \\u escapes.")
    return text


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _ascii(text: str) -> Markup:
    escaped = escape(text).encode("ascii", "xmlcharrefreplace")
    return Markup(escaped.decode("ascii"))


# Significant digits of numbers in a page; charts show three.
DIGITS = 6
# Longest text in a page, in characters. A longer text loses its middle, since its end matters more.
LONGEST_TEXT = 300_000
_END = 50_000


def rounded(value: float | None) -> float | None:
    """Round to `DIGITS` significant digits; None for None, NaN and infinity.

    Examples:
        >>> rounded(1 / 3), rounded(float("nan")), rounded(None)
        (0.333333, None, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def bounded(text: str, limit: int) -> str:
    """Shorten a text of more than `limit` characters: replace its middle by a note.

    Examples:
        >>> bounded("abcdefghij", limit=4)
        'abc\\n[... 6 characters left out ...]\\nj'
    """
    end = min(_END, limit // 4)
    note = f"\n[... {len(text) - limit} characters left out ...]\n"
    return cut(text, limit - end, end, note)
