"""Restore the indentation of a body's first line, which decoding or stripping a completion takes away.

Completions are read line by line in linear time, never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# A line that the next line continues
_OPEN_ENDS = (":", "(", "[", "{", ",", "\\")
_RETURN = re.compile(r"return\b")


def with_first_line_indented(program: str, indent: str, entry_point: str) -> str:
    r"""Indent the first line of a body as its other lines; other text is returned unchanged.

    Args:
        program: The text behind a stub.
        indent: The indentation of the stub's body; empty if it has none.
        entry_point: The name of the stub, which a body does not define.

    Examples:
        >>> with_first_line_indented("y = x\n    return y\n", "    ", "f")
        '    y = x\n    return y\n'
    """
    lines = program.split("\n")
    place = _first_code(lines)
    if place is None:
        return program
    first = lines[place].lstrip(" \t")
    own = lines[place][: len(lines[place]) - len(first)]
    behind = [line for line in lines[place + 1 :] if line.strip()]
    body = _until_top(behind)
    indent = indent or _least_indent(body) or "    "
    is_lost = len(own) < len(indent) and all(line.startswith(indent) for line in body)
    is_whole = bool(own) or len(body) == len(behind)
    if not is_lost or not (is_whole or _is_of_body(first, body)):
        return program
    # Last: the search takes longest.
    if _binds(program, entry_point):
        return program
    lines[place] = indent + first
    return "\n".join(lines)


def _first_code(lines: Sequence[str]) -> int | None:
    for place, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            return place
    return None


def _binds(program: str, name: str) -> bool:
    """Test if a text defines or assigns the name, at any depth."""
    name = re.escape(name)
    return bool(re.search(rf"\b(?:def|class)[ \t]+{name}\b|\b{name}\b[ \t]*[:=]", program))


def _until_top(lines: Sequence[str]) -> list[str]:
    """Return the lines before the first line without indentation."""
    body = []
    for line in lines:
        if line[0] not in " \t":
            break
        body.append(line)
    return body


def _least_indent(lines: Sequence[str]) -> str:
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    return min(indents, key=len, default="")


def _is_of_body(first: str, body: Sequence[str]) -> bool:
    """Test if a line without indentation can only be of a body, though code without indentation follows."""
    continues = bool(body) and not first.rstrip().endswith(_OPEN_ENDS)
    return continues or bool(_RETURN.match(first))
