"""Texts for people: the nearest known name, errors in one line, pictures in a word, cut texts, warnings shown once."""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
import traceback
import unicodedata
import zlib
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any


def sentence(phrase: str) -> str:
    """The phrase as a sentence begins: its first letter is a capital.

    Examples:
        >>> sentence("the score of `A` is 1.")
        'The score of `A` is 1.'
    """
    return phrase[:1].upper() + phrase[1:]


MOST_NAMES = 40  # all verifiers, but not all flags of TRL


def nearest(wrong: str, valid: Iterable[str], likeness: float = 0.6) -> str | None:
    """The valid name that is most like a wrong one; None if none is as like as that, in [0, 1]."""
    return next(iter(difflib.get_close_matches(wrong, sorted(set(valid)), n=1, cutoff=likeness)), None)


def did_you_mean(wrong: str, valid: Iterable[str]) -> str:
    """A sentence that offers the nearest valid name, or a few of them if none is near.

    Examples:
        >>> did_you_mean("learning_rat", ["learning_rate", "seed"])
        'Did you mean `learning_rate`?'
    """
    names = sorted(set(valid))
    if near := nearest(wrong, names):
        return f"Did you mean `{near}`?"
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    return f"Valid are: {shown}{', ...' if len(names) > MOST_NAMES else ''}."


def cut(text: str, head: int, tail: int, mark: str) -> str:
    """The first `head` and the last `tail` characters of a text with a mark between them; a shorter text as it is.

    Examples:
        >>> cut("0123456789", 2, 2, "...")
        '01...89'
    """
    return text if len(text) <= head + tail else f"{text[:head]}{mark}{text[len(text) - tail :]}"


def shortened(text: str, most: int) -> str:
    """The text with at most `most` characters, 5 or more; its middle is left out, since answers stand at the end.

    Examples:
        >>> shortened("0123456789", 9)
        '01 ... 89'
    """
    if len(text) <= most:
        return text
    tail = (most - 5) // 2
    return cut(text, most - 5 - tail, tail, " ... ")


def on_one_line(text: str, most: int) -> str:
    """A text of at most `most` characters in one line, without what a terminal would obey.

    Examples:
        >>> on_one_line("a\\n\\x1b[31mb", 20)
        'a [31mb'
    """
    text = cut(text, 2 * most, 2 * most, "")  # a text may be long, and what follows is not fast
    line = "".join(char for char in " ".join(text.split()) if not unicodedata.category(char).startswith("C"))
    return shortened(line, most)


def is_picture(value: object) -> bool:
    """Whether it is a picture of PIL, which is not imported for that."""
    pil = sys.modules.get("PIL.Image")
    return pil is not None and isinstance(value, pil.Image)


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+(?=>)")  # in memory, as the text of an object that has none of its own


def told(value: object) -> str:
    """What JSON does not know as a text, the same in every process.

    Pictures and bytes are told by their sizes and by sums over what they hold, so that two that differ can be told
    apart. No text has an address in memory.

    Examples:
        >>> told(b"abc"), told(object()), told(Path("a"))
        ('<3 bytes 352441c2>', '<object object>', 'a')
    """
    if is_picture(value):
        return _picture_text(value)
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes {zlib.crc32(value):08x}>"
    return _ADDRESS.sub("", str(value))


def _picture_text(picture: Any) -> str:
    size = f"{picture.width}x{picture.height}"
    try:
        pixels = picture.tobytes()
    except Exception:  # its file is cut off, or has been closed
        return f"<image {size} unreadable>"
    colours = zlib.crc32(picture.mode.encode() + bytes(picture.getpalette() or ()))
    return f"<image {size} {zlib.crc32(pixels, colours):08x}>"


MAX_CHARS = 300
_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGE = Path(__file__).parents[1]


def error_text(error: BaseException) -> str:
    """The type, the message and the place of an exception, in at most `MAX_CHARS` characters that any file takes.

    The place is the innermost line that belongs to no library. If a function passes bad JSON to `json.loads`, it is
    the line of that call.

    Examples:
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
    return encodable(text)


def traceback_text(error: BaseException) -> str:
    """The traceback of an exception, in characters that any file takes, from the first frame that is not ours on."""
    frame = error.__traceback__
    while frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
        frame = frame.tb_next
    said = traceback.format_exception(type(error), error, frame or error.__traceback__)
    return encodable("".join(said).rstrip())


def encodable(text: str) -> str:
    """The text with half surrogates, which no file takes, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _place(error: BaseException) -> str:
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    own = [frame for frame in frames if not _is_library(frame.filename)] or list(frames)
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def _is_library(filename: str) -> bool:
    if Path(filename).is_relative_to(_PACKAGE):
        return True
    return filename.startswith(("<", _LIBRARY)) or "site-packages" in filename or "dist-packages" in filename


class Once:
    """Shows the first warning about each subject, and drops the others.

    Examples:
        >>> once = Once()
        >>> [once.warn(logging.getLogger("example"), "disk", "The disk is full.") for _ in range(2)]
        [True, False]
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()

    def warn(
        self,
        logger: logging.Logger,
        subject: Hashable,
        message: str,
        *values: object,
        error: BaseException | None = None,
    ) -> bool:
        """Log a warning, with the traceback of `error`; returns whether it was the first about this subject."""
        if subject in self._seen:
            return False
        self._seen.add(subject)
        told = message % values if values else message
        logger.warning("%s This is shown once.%s", told, "" if error is None else f"\n{traceback_text(error)}")
        return True
