"""Cut prose and special tokens of a model behind a program without a fence, by lines that no Python has."""

from __future__ import annotations

import keyword
import re

from trl_grpo_ext.programs.suites.blocks import begins_with_code, open_quotes

# `<|im_end|>`, the same with DeepSeek's wide bars, `</s>`, `<eos>`, `<end_of_turn>`
_TOKEN = re.compile(r"<(?:\|[\w-]{1,40}\||｜[\w▁-]{1,40}｜|/s|eos|end_of_turn)>\Z")
_TOKEN_CHARS = 50
_MOST_TOKENS = 8
_SOFT_KEYWORDS = ("match", "case", "type")
_NO_NAME = "|".join((*keyword.kwlist, *_SOFT_KEYWORDS))
# Two names beside each other, as in "This adds one"
_TWO_NAMES = re.compile(rf"\b(?!(?:{_NO_NAME})\b)[A-Za-z]\w* +(?!(?:{_NO_NAME})\b)[A-Za-z]")
# A string's prefix in front of its quotes: `x: u'...'` is Python
_PREFIX = r"(?i:[rbuft]|rb|br|fr|rf|tr|rt)'"
# "Explanation:", "Done." and "It's", but no `else:` and no `r'...'`
_ONE_NAME = re.compile(
    rf"(?!(?:{_NO_NAME})\b)(?!{_PREFIX})[A-Za-z]\w*(?:[:.!?]\s*\Z|'[a-z])"
)
# "Note: It's done", "Output: [2]." and "Time complexity: O(n)!": a label, and behind it an apostrophe in a word, or an
# end of a sentence; `x: 'a'` and `x: 5.` are Python
_LABEL = re.compile(
    rf"(?!(?:{_NO_NAME})\b)[A-Za-z][\w -]{{0,40}}:[ \t]+(?:"
    rf"\(?(?!{_PREFIX}|(?:{_NO_NAME})')[A-Za-z]\w{{0,40}}'[a-z ]|[^\"'#\n]{{0,1000}}(?:[A-Za-z_)\]]\.|[!?])\s*\Z)"
)
# Within brackets, names may end a line in any way.
_CONTINUED = re.compile(r"[\[({,\\]\s*\Z")
_CODE = re.compile(r"[^\"'#]*")


def without_tokens(text: str) -> str:
    r"""Drop the special tokens by which a model ends its answer.

    Examples:
        >>> without_tokens("return x<|im_end|>\n</s>")
        'return x'
    """
    for _ in range(_MOST_TOKENS):
        kept = text.rstrip()
        found = _TOKEN.search(kept[-_TOKEN_CHARS:]) if kept.endswith(">") else None
        if found is None:
            break
        text = kept[: -len(found[0])]
    return text


def without_prose(program: str) -> str:
    r"""Cut a text that begins with code at its first line of prose, if that line is not indented.

    Python refuses such a line, so no program that runs is cut.

    Examples:
        >>> without_prose("    return x + 1\n\nThis adds one to x.\n")
        '    return x + 1\n\n'
        >>> without_prose("    return x + 1\n\ndef g(y): return y\n")
        '    return x + 1\n\ndef g(y): return y\n'
    """
    if not begins_with_code(program):
        return program
    lines = program.split("\n")
    quotes = ""
    for place, line in enumerate(lines):
        # The first line is code.
        is_statement = place > 0 and not quotes
        if is_statement and _is_prose(line) and not _CONTINUED.search(lines[place - 1]):
            return "\n".join([*lines[:place], ""])
        quotes = open_quotes(line, quotes)
    return program


def _is_prose(line: str) -> bool:
    """Recognize an unindented line of prose, which Python refuses: `This adds one`, `Note: It's done`.

    Examples:
        >>> [_is_prose(line) for line in ("1. It adds one.", "It's done", "x in xs and y", "print('It adds one')")]
        [True, True, False, False]
    """
    if not line or line[0] in " \t#":
        return False
    if line[0] in "`•" or line.startswith("<|"):
        return True
    code = _CODE.match(line)
    before = code[0] if code else ""
    if _TWO_NAMES.search(before):
        return True
    return any(pattern.match(line) for pattern in (_ONE_NAME, _LABEL))
