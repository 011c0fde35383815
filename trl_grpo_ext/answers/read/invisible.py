"""Remove characters that a reader cannot see."""

from __future__ import annotations

import re

# Unicode's Default_Ignorable_Code_Point, control characters, and the blank Braille pattern. White space is visible
# between two letters, so it is kept.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)


def visible(text: str) -> str:
    r"""Remove invisible characters, such as zero-width spaces, and surrounding white space.

    Use the result to test for content and to measure it, not to compare texts: some scripts depend on joiners.

    Examples:
        >>> visible(" \u200bfour\u00a0eggs \ufeff"), visible("\u200b\u2060 \u3164")
        ('four\xa0eggs', '')
    """
    return without_invisible(text).strip()


def without_invisible(text: str) -> str:
    r"""Remove invisible characters from a text; white space is kept.

    Examples:
        >>> without_invisible(" 1\u200b0 ")
        ' 10 '
    """
    return _INVISIBLE.sub("", text)
