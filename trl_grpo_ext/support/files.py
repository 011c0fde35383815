"""Read and write files: atomic writes, appended JSON lines, plain values for JSON, and folders locked for one run."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from trl_grpo_ext.support.text import text_for_json

logger = logging.getLogger(__name__)


@contextmanager
def written_whole(
    path: str | os.PathLike[str], *, keep: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file for atomic writing: it gets its name when all content is on disk.

    Readers see the old content or the new content, even after a crash or a power cut. If writing fails, the unfinished
    file is deleted; with `keep`, it stays at `unfinished_path`.
    """
    unfinished = unfinished_path(path)
    try:
        with open(unfinished, "wb") as file:
            yield file
            file.flush()
            # The content must be on disk before the name is.
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        if not keep:
            unfinished.unlink(missing_ok=True)
        raise


def unfinished_path(path: str | os.PathLike[str]) -> Path:
    """Return the path at which this process's `written_whole` keeps an unfinished file."""
    target = Path(path)
    return target.with_name(f"{target.name}.{os.getpid()}.unfinished")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8, atomically; lone surrogates become escapes."""
    with written_whole(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as indented JSON, converted by `plain`, atomically."""
    text = json.dumps(plain(value), indent=2, allow_nan=False)
    write_text(path, f"{text}\n")


def append_lines(path: Path, values: Iterable[Any]) -> None:
    """Append values to a file as JSON, one line per value: all lines or none, even if the disk is full.

    If the file ends in an incomplete line, a line break ends it first, so the next line stays intact.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(plain(value), allow_nan=False) + "\n" for value in values]
    content = "".join(lines).encode()
    size = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "a+b") as file:
            if size:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    content = b"\n" + content
            # A single write, so that a reader never sees half a line.
            file.write(content)
    except OSError:
        if path.is_file():
            os.truncate(path, size)
        raise


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read the JSON objects of a file by `append_lines`; yields nothing if the file does not exist.

    Lines that are incomplete or hold no object are skipped.
    """
    if not path.exists():
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines of a file with their line numbers, from 1."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def plain(value: Any, digits: int | None = None) -> Any:
    """Convert a value to plain JSON: NaN and infinity become null, keys and unknown objects become text.

    With `digits`, floats are rounded to that many significant digits.

    Examples:
        >>> plain({1: (0.5, float("nan"))}), plain([1 / 3, Path("a")], digits=3)
        ({'1': [0.5, None]}, [0.333, 'a'])
    """
    # The most frequent types first, since the check for a mapping is slow.
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return _plain_number(value, digits)
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item, digits) for item in value]
    return text_for_json(value)


def _plain_number(value: float, digits: int | None) -> float | None:
    if not math.isfinite(value):
        return None
    if digits is None:
        return value
    return float(f"{value:.{digits}g}")


# By claimed folder, the descriptor that holds its lock until this process ends.
_claimed: dict[str, int] = {}


def claim(folder: str | os.PathLike[str]) -> None:
    """Lock a folder for this process until the process ends.

    Raises:
        ValueError: if another process has locked the folder; readers would take two runs in one folder for one.
        OSError: if the folder cannot be opened.
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
    except OSError:
        # The file system has no locks.
        logger.debug("%s cannot be locked", place)
    _claimed[place] = descriptor


def set_aside(recorded: Path) -> None:
    """Rename a file or folder of an earlier run, since readers would mix up two runs.

    `findings.jsonl` becomes `findings.1.jsonl`, or has the next free number.
    """
    if not recorded.exists():
        return
    aside = _first_free(recorded)
    recorded.rename(aside)
    logger.warning(
        "%s holds an earlier run; renaming its %s to %s.",
        recorded.parent,
        recorded.name,
        aside,
    )


def _first_free(recorded: Path) -> Path:
    aside = recorded
    number = 0
    while aside.exists():
        number += 1
        aside = recorded.with_name(f"{recorded.stem}.{number}{recorded.suffix}")
    return aside
