"""Leave out the last statement of a program that the end of its answer cuts, as `print(f(1` behind a function.

This runs in the program's jail, before the program, and only if Python refuses it.
"""

from __future__ import annotations

import re
import tokenize
from io import StringIO

# A longer text would take a good part of the program's time.
_MOST_CHARS = 100_000
_NO_CODE = frozenset(
    {
        tokenize.NL,
        tokenize.COMMENT,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)
# A function or class at the top
_DEFINITION = re.compile(r"^(?:def|class|async[ \t]+def)\b", re.MULTILINE)


def without_cut_end(source: str) -> str:
    r"""Return a program without its last statement at the top; an empty text if Python refuses more than that.

    Args:
        source: The program, which Python refuses.

    Examples:
        >>> without_cut_end("def f(x): return x\nprint(f(1, \n2")
        'def f(x): return x\n'
    """
    if len(source) > _MOST_CHARS:
        return ""
    lines = source.split("\n")
    start = _last_start(source, lines)
    cut = [line for line in lines[start:] if not line.startswith("@")]
    # An open bracket or string further up would take the definitions below it along.
    if start == 0 or _DEFINITION.search("\n".join(cut[1:])):
        return ""
    return "\n".join([*lines[:start], ""])


def _last_start(source: str, lines: list[str]) -> int:
    """Return the number of lines before the last statement at the top, with its decorators."""
    start = 0
    is_decorated = False
    is_new = True
    try:
        for token in tokenize.generate_tokens(StringIO(source).readline):
            if token.type == tokenize.NEWLINE:
                is_new = True
            elif token.type not in _NO_CODE:
                if is_new and token.start[1] == 0:
                    if not is_decorated:
                        start = token.start[0] - 1
                    is_decorated = token.string == "@"
                is_new = False
    except tokenize.TokenError as error:
        # A string without its end is no token; the error says where it begins.
        first = error.args[1][0] - 1
        if is_new and lines[first : first + 1] and not lines[first].startswith((" ", "\t")):
            start = first
    except SyntaxError:
        # The last statement ends in lines that no statement could have.
        pass
    return start
