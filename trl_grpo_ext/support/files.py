"""Read and write files: atomic writes, appended JSON lines, plain values for JSON, and folders locked for one run."""

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
    """Open a file for atomic writing: it gets its name when all content is on disk.

    Readers see the old content or the new content, even after a crash or a power cut. If writing fails, the unfinished
    file is deleted; with `keep`, it stays at `unfinished_path`.
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
    """Return the path at which this process's `written_whole` keeps an unfinished file."""
    return Path(path).with_name(f"{Path(path).name}.{os.getpid()}.unfinished")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8, atomically; lone surrogates become escapes."""
    with written_whole(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as indented JSON, converted by `plain`, atomically."""
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


def append_lines(path: Path, values: Iterable[Any]) -> None:
    """Append values to a file as JSON, one line per value: all lines or none, even if the disk is full.

    If the file ends in an incomplete line, a line break ends it first, so the next line stays intact.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(plain(value), allow_nan=False) + "\n" for value in values).encode()
    size = path.stat().st_size if path.exists() else 0
    try:
        with open(path, "a+b") as file:
            if size:
                file.seek(-1, os.SEEK_END)
                lines = lines if file.read(1) == b"\n" else b"\n" + lines
            # A single write, so that a reader never sees half a line.
            file.write(lines)
    except OSError:
        if path.is_file():
            os.truncate(path, size)
        raise


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read the JSON objects of a file by `append_lines`; yields nothing if the file does not exist.

    Lines that are incomplete or hold no object are skipped.
    """
    if path.exists():
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError):
                    if isinstance(value := json.loads(line), dict):
                        yield value


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines of a file with their line numbers, from 1."""
    with open(path, "rb") as file:
        yield from ((number, line) for number, line in enumerate(file, start=1) if line.strip())


def plain(value: Any, digits: int | None = None) -> Any:
    """Convert a value to plain JSON: NaN and infinity become null, keys and unknown objects become text (see `told`).

    With `digits`, floats are rounded to that many significant digits.

    Examples:
        >>> plain({1: (0.5, float("nan"))}), plain([1 / 3, Path("a")], digits=3)
        ({'1': [0.5, None]}, [0.333, 'a'])
    """
    # The most frequent types first, since the check for a mapping is slow.
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return None if not math.isfinite(value) else value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item, digits) for item in value]
    return told(value)


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
    number = 1
    while (aside := recorded.with_name(f"{recorded.stem}.{number}{recorded.suffix}")).exists():
        number += 1
    recorded.rename(aside)
    logger.warning("%s holds an earlier run; renaming its %s to %s.", recorded.parent, recorded.name, aside)
