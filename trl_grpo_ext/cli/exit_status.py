"""The exit statuses of commands. A crash ends with 1, as in any Python program."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

FINE = 0
FOUND = 1  # what was looked for was found: rows that cannot be judged, walls that do not hold, a grader that fails
REFUSED = 2  # the command cannot do it; a sentence on stderr says why. Nothing was begun.
HALTED = 3  # a finding that `halt_on` names ended the training
NOTHING_LEARNED = 4  # none of the training's completions could be judged
INTERRUPTED = 130  # Ctrl-C ended it; a line on stderr says what is left. It is the status that shells give.


def refuse(reason: object, command: str = "") -> int:
    """Say on stderr why the command cannot do it; returns the exit status."""
    print(f"{f'trl-grpo-ext {command}'.rstrip()}: error: {reason}", file=sys.stderr)
    return REFUSED


def in_two_columns(rows: Mapping[str, str]) -> str:
    """A line for each name and what is said of it."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())


def print_text(text: str) -> None:
    """Print, with one newline at the end; a reader that closes the pipe early is not an error."""
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
