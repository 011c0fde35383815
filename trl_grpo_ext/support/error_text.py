"""An exception as text that any file takes: in a line, or with its traceback."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

MAX_CHARS = 300
_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"


def error_text(error: BaseException) -> str:
    """The type, the message and the place of an exception, in at most `MAX_CHARS` characters that any file takes.

    The place is the innermost line that belongs to no library: of a function that hands `json.loads` what is no JSON,
    the line that does so.

    Example:
        >>> error_text(KeyError("colour"))
        "KeyError: 'colour'"
    """
    try:
        said = " ".join(str(error).split())
    except Exception:  # a message is the user's code too
        said = ""
    place = _place(error)
    kind = type(error).__name__
    room = max(0, MAX_CHARS - len(kind) - len(place) - 2)
    text = f"{kind}: {said[:room]}{place}" if said else f"{kind}{place}"
    return _encodable(text)


def traceback_text(error: BaseException) -> str:
    """The traceback of an exception, in characters that any file takes."""
    return _encodable("".join(traceback.format_exception(error)).rstrip())


def _encodable(text: str) -> str:
    """The text with half surrogates, which no file takes, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _place(error: BaseException) -> str:
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    own = [frame for frame in frames if not _is_library(frame.filename)] or list(frames)
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def _is_library(filename: str) -> bool:
    return filename.startswith(("<", _LIBRARY)) or "site-packages" in filename or "dist-packages" in filename
