"""Characters that a reader does not see."""

from __future__ import annotations

import re

# What Unicode tells a renderer to show as nothing (Default_Ignorable_Code_Point), controls, and the blank of Braille
# patterns. White space stays: between two letters it is seen.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)


def visible(text: str) -> str:
    r"""The text without the characters that show nothing, such as zero-width spaces, and without white space around it.

    To ask whether there is anything, and how much; not to compare by, since joiners make a difference in some scripts.

    Examples:
        >>> visible(" \u200bfour\u00a0eggs \ufeff"), visible("\u200b\u2060 \u3164")
        ('four\xa0eggs', '')
    """
    return without_invisible(text).strip()


def without_invisible(text: str) -> str:
    r"""The text without the characters that show nothing; white space stays as it is.

    Examples:
        >>> without_invisible(" 1\u200b0 ")
        ' 10 '
    """
    return _INVISIBLE.sub("", text)
