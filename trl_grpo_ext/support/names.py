"""Names that a user may have mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(wrong: str, valid: Iterable[str]) -> str:
    """A sentence that offers the nearest valid name, or a few of them if none is near.

    Example:
        >>> did_you_mean("learning_rat", ["learning_rate", "seed"])
        'Did you mean `learning_rate`?'
    """
    names = sorted(set(valid))
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean `{near[0]}`?"
    shown = ", ".join(f"`{name}`" for name in names[:12])
    return f"Valid are: {shown}{', ...' if len(names) > 12 else ''}."
