"""What of a completion counts: the text that follows its thinking."""

from __future__ import annotations


def after_thinking(text: str) -> str | None:
    """What follows the last think block; all of the text if there is none; None if the block is not closed.

    Examples:
        >>> after_thinking("<think>2+2</think> 4"), after_thinking("2+2</think> 4"), after_thinking("<think>2+2")
        (' 4', ' 4', None)
    """
    opened, closed = text.rfind("<think>"), text.rfind("</think>")
    if opened > closed:
        return None
    return text[closed + len("</think>") :] if closed >= 0 else text
