"""Format texts for people: similar names, one-line errors, shortened texts, pictures in a word, one-time warnings."""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
import traceback
import unicodedata
import zlib
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

# What a terminal obeys: all control characters but tab and line feed, and those that turn the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def sentence(phrase: str) -> str:
    """Capitalise the first letter of a phrase.

    Examples:
        >>> sentence("the score of `A` is 1.")
        'The score of `A` is 1.'
    """
    return phrase[:1].upper() + phrase[1:]


# Enough to list all verifiers, but not all flags of TRL.
MOST_NAMES = 40


def nearest(wrong: str, valid: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the valid name most similar to a wrong name; None if no similarity reaches `likeness`, in [0, 1]."""
    # Sorted, since the first of equally similar names is taken.
    names = sorted(set(valid))
    matches = difflib.get_close_matches(wrong, names, n=1, cutoff=likeness)
    if not matches:
        return None
    return matches[0]


def did_you_mean(wrong: str, valid: Iterable[str]) -> str:
    """Suggest the most similar valid name, as a sentence; list some valid names if none is similar.

    Examples:
        >>> did_you_mean("learning_rat", ["learning_rate", "seed"])
        'Did you mean `learning_rate`?'
    """
    names = sorted(set(valid))
    near = nearest(wrong, names)
    if near:
        return f"Did you mean `{near}`?"
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        shown += ", ..."
    return f"Valid are: {shown}."


def listed(items: Sequence[Any], most: int = 8) -> str:
    """Join the first `most` items with commas, and count the rest.

    Examples:
        >>> listed(range(10))
        '0, 1, 2, 3, 4, 5, 6, 7 and 2 more'
    """
    shown = ", ".join(map(str, items[:most]))
    if len(items) <= most:
        return shown
    return f"{shown} and {len(items) - most} more"


def cut(text: str, head: int, tail: int, mark: str) -> str:
    """Keep the first `head` and last `tail` characters of a long text, with `mark` between them.

    Examples:
        >>> cut("0123456789", 2, 2, "...")
        '01...89'
    """
    if len(text) <= head + tail:
        return text
    # Not `text[-tail:]`, which is the whole text for 0.
    end = text[len(text) - tail :]
    return f"{text[:head]}{mark}{end}"


def shortened(text: str, most: int) -> str:
    """Shorten a text to `most` characters, 5 or more, by leaving out its middle, since answers stand at the end.

    Examples:
        >>> shortened("0123456789", 9)
        '01 ... 89'
    """
    if len(text) <= most:
        return text
    mark = " ... "
    room = most - len(mark)
    tail = room // 2
    return cut(text, room - tail, tail, mark)


def on_one_line(text: str, most: int) -> str:
    """Shorten a text to one line of at most `most` characters, without control characters.

    Examples:
        >>> on_one_line("a\\n\\x1b[31mb", 20)
        'a [31mb'
    """
    # Cut first, since texts may be long and the next steps are slow.
    text = cut(text, 2 * most, 2 * most, "")
    words = " ".join(text.split())
    line = "".join(char for char in words if not _is_control(char))
    return shortened(line, most)


def _is_control(char: str) -> bool:
    # The categories Cc, Cf, Cs, Co and Cn.
    return unicodedata.category(char).startswith("C")


def is_picture(value: object) -> bool:
    """Return whether a value is a PIL picture, without importing PIL."""
    pil = sys.modules.get("PIL.Image")
    return pil is not None and isinstance(value, pil.Image)


# The memory address in the default text of an object, `<object object at 0x7f...>`.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+(?=>)")


def text_for_json(value: object) -> str:
    """Convert a value that JSON cannot hold to text, without memory addresses.

    Pictures and bytes become their size and a checksum, so that different contents have different texts.

    Examples:
        >>> text_for_json(b"abc"), text_for_json(object()), text_for_json(Path("a"))
        ('<3 bytes 352441c2>', '<object object>', 'a')
    """
    if is_picture(value):
        return _picture_text(value)
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes {zlib.crc32(value):08x}>"
    if isinstance(value, set | frozenset):
        # Its own order depends on the process.
        items = sorted(map(text_for_json, value))
        return f"{{{', '.join(items)}}}"
    return _ADDRESS.sub("", str(value))


def _picture_text(picture: Any) -> str:
    size = f"{picture.width}x{picture.height}"
    try:
        pixels = picture.tobytes()
    except Exception:
        # The picture's file is incomplete, or closed.
        return f"<image {size} unreadable>"
    # Equal pixels are different pictures under different palettes.
    palette = bytes(picture.getpalette() or ())
    colours = zlib.crc32(picture.mode.encode() + palette)
    checksum = zlib.crc32(pixels, colours)
    return f"<image {size} {checksum:08x}>"


MAX_CHARS = 300
_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGE = Path(__file__).parents[1]


def error_text(error: BaseException) -> str:
    """Format an exception's type, message and place in at most `MAX_CHARS` characters that any file accepts.

    The place is the innermost line outside of libraries and this package. If a function passes bad JSON to
    `json.loads`, the place is the line of that call.

    Examples:
        >>> error_text(KeyError("colour"))
        "KeyError: 'colour'"
    """
    try:
        said = " ".join(str(error).split())
    except Exception:
        # A user's exception class may fail to format its message.
        said = ""
    place = _place(error)
    kind = type(error).__name__
    if not said:
        return encodable(f"{kind}{place}")
    room = max(0, MAX_CHARS - len(f"{kind}: {place}"))
    return encodable(f"{kind}: {said[:room]}{place}")


def traceback_text(error: BaseException) -> str:
    """Format an exception's traceback from the first frame outside this package, as text that any file accepts."""
    frame = error.__traceback__
    while frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(
        _PACKAGE
    ):
        frame = frame.tb_next
    said = traceback.format_exception(type(error), error, frame or error.__traceback__)
    return encodable("".join(said).rstrip())


def encodable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(text: str) -> str:
    r"""Replace lone surrogates and control characters by escapes; keep tabs and line ends.

    A terminal obeys control characters, and a hostile program may choose the text.

    Examples:
        >>> printable("\x1b[2J red")
        '\\x1b[2J red'
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], encodable(text))


def _place(error: BaseException) -> str:
    # Without `lookup_lines`, no source file is read.
    frames = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    if not frames:
        return ""
    own = [frame for frame in frames if not _is_library(frame.filename)]
    innermost = own[-1] if own else frames[-1]
    return f" ({Path(innermost.filename).name}:{innermost.lineno})"


def _is_library(filename: str) -> bool:
    if Path(filename).is_relative_to(_PACKAGE):
        return True
    is_installed = "site-packages" in filename or "dist-packages" in filename
    # `<frozen importlib>` is no file.
    return is_installed or filename.startswith(("<", _LIBRARY))


class Once:
    """A filter that logs the first warning about each subject and drops later warnings.

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
        """Log the subject's first warning, with the traceback of `error`; return False for later warnings."""
        if subject in self._seen:
            return False
        self._seen.add(subject)
        told = message % values if values else message
        trace = "" if error is None else f"\n{traceback_text(error)}"
        logger.warning("%s This is shown once.%s", told, trace)
        return True
