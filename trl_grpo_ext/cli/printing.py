"""Text for stdout, which may be read by `head` or a pager."""

from __future__ import annotations

import os
import sys


def print_text(text: str) -> None:
    """Print, with one newline at the end; a reader that has seen enough is no error."""
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
