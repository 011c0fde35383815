"""Files: written whole or not at all, lines appended, plain values for JSON, and what an earlier run left renamed."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from trl_grpo_ext.support.text import told

logger = logging.getLogger(__name__)


@contextmanager
def written_whole(path: str | os.PathLike[str], *, keep: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which gets its name only once it is complete and on the disk.

    A reader sees the old content or the new, also after a crash or a power cut. If writing fails, nothing is left; with
    `keep`, what was written stays at `unfinished_path`.
    """
    target, unfinished = Path(path), unfinished_path(path)
    try:
        with open(unfinished, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except BaseException:
        if not keep:
            unfinished.unlink(missing_ok=True)
        raise


def unfinished_path(path: str | os.PathLike[str]) -> Path:
    """Where `written_whole` of this process has a file until it is complete."""
    return Path(path).with_name(f"{Path(path).name}.{os.getpid()}.unfinished")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8, whole or not at all; lone surrogates become escapes."""
    with written_whole(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as indented JSON, as `plain` makes it, whole or not at all."""
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


def append_lines(path: Path, values: Iterable[Any]) -> None:
    """Append values to a file as JSON, a line each, all or nothing: a full disk may take a part.

    A line that was cut off before them is ended first, so that it does not swallow the next.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(plain(value), allow_nan=False) + "\n" for value in values).encode()
    size = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "a+b") as file:
            if size:
                file.seek(-1, os.SEEK_END)
                lines = lines if file.read(1) == b"\n" else b"\n" + lines
            file.write(lines)  # one write, so that a reader never sees the half of a line
    except OSError:
        if path.is_file():
            os.truncate(path, size)
        raise


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file that `append_lines` has written, of which there may be none yet.

    Lines that were cut off in the middle of writing, or are no objects, are passed over.
    """
    if path.exists():
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError):
                    if isinstance(value := json.loads(line), dict):
                        yield value


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, each with its number from 1."""
    with open(path, "rb") as file:
        yield from ((number, line) for number, line in enumerate(file, start=1) if line.strip())


def plain(value: Any, digits: int | None = None) -> Any:
    """The value as JSON holds it: null for NaN and infinity, text for keys and, as `told`, for what JSON does not know.

    With `digits`, numbers that are not whole have as many significant ones.

    Examples:
        >>> plain({1: (0.5, float("nan"))}), plain([1 / 3, Path("a")], digits=3)
        ({'1': [0.5, None]}, [0.333, 'a'])
    """
    if value is None or isinstance(value, str | int):  # most are, and asking for a mapping takes long
        return value
    if isinstance(value, float):
        return None if not math.isfinite(value) else value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item, digits) for item in value]
    return told(value)


_claimed: dict[str, int] = {}  # folders, and the descriptors that hold them until this process ends


def claim(folder: str | os.PathLike[str]) -> None:
    """Keep a folder for this process, as long as it lives.

    Raises:
        ValueError: if another process has claimed it: two runs in one folder would be read as one.
    """
    place = os.path.realpath(folder)
    if place in _claimed:
        return
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(
            f"Another run writes to {folder} at this moment. Give this one an output_dir of its own, or wait."
        ) from None
    except OSError:  # a file system without locks
        logger.debug("%s cannot be locked", place)
    _claimed[place] = descriptor


def set_aside(recorded: Path) -> None:
    """Rename what an earlier run has recorded, a file or a folder, so that two runs are not read as one."""
    if not recorded.exists():
        return
    number = 1
    while (aside := recorded.with_name(f"{recorded.stem}.{number}{recorded.suffix}")).exists():
        number += 1
    recorded.rename(aside)
    logger.warning("%s holds an earlier run; renaming its %s to %s.", recorded.parent, recorded.name, aside)
