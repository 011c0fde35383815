"""Exit statuses of the commands. A crash ends with 1, like any Python program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

FINE = 0
# The command found a fault: bad rows, weak sandbox walls, a failing grader.
FOUND = 1
# The command cannot start, or cannot go on; stderr says why.
REFUSED = 2
# A finding named in `halt_on` ended the training.
HALTED = 3
# No completion of the training could be judged.
NOTHING_LEARNED = 4
# Ctrl-C ended the command; stderr says which files remain. Shells use the same status.
INTERRUPTED = 130
# SIGTERM ended a training; stderr says which files remain. Shells use the same status.
TERMINATED = 143


def refuse(reason: object, command: str = "") -> int:
    """Print to stderr why the command cannot run; return the exit status `REFUSED`."""
    print(f"{f'trl-grpo-ext {command}'.rstrip()}: error: {reason}", file=sys.stderr)
    return REFUSED


class RefusedError(Exception):
    """A command cannot start, or cannot go on: `main` prints the reason, and ends with `REFUSED`."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn the errors of bad input into a `RefusedError`; other errors are faults of this package, and crash."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        raise RefusedError(error) from error


def in_two_columns(rows: Mapping[str, str]) -> str:
    """Format names and descriptions as aligned lines."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())


def print_text(text: str) -> None:
    """Print text with a single final newline; ignore a reader that closes the pipe early."""
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:
        # Python flushes stdout once more when it ends, and would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
