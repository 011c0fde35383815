"""Token n-grams, and how many of a completion's repeat themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice


def ngrams(tokens: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Every run of `size` tokens, 1 or more, in order; none of fewer tokens.

    Example:
        >>> list(ngrams([5, 6, 7], 2))
        [(5, 6), (6, 7)]
    """
    return zip(*(islice(tokens, start, None) for start in range(size)), strict=False)


def repeated_share(tokens: Sequence[int], size: int) -> float:
    """The share of n-grams that repeat an earlier one, in [0, 1); 0 for fewer tokens than one n-gram has.

    Args:
        tokens: Token ids.
        size: Tokens in an n-gram, 1 or more.

    Example:
        >>> repeated_share([5, 5, 5, 5, 5], 2)
        0.75
    """
    count = len(tokens) - size + 1
    return 1 - len(set(ngrams(tokens, size))) / count if count > 0 else 0.0
