"""Separate a completion's answer from its thinking."""

from __future__ import annotations


def after_thinking(text: str) -> str | None:
    """Return the text after the last think block; the whole text without a block; None for an unclosed block.

    Examples:
        >>> after_thinking("<think>2+2</think> 4"), after_thinking("2+2</think> 4"), after_thinking("<think>2+2")
        (' 4', ' 4', None)
    """
    opened, closed = text.rfind("<think>"), text.rfind("</think>")
    if opened > closed:
        return None
    return text[closed + len("</think>") :] if closed >= 0 else text
