"""The command line in this process: seconds less than in one of its own, which would import torch first."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from trl_grpo_ext.cli.main import main


@dataclass(frozen=True)
class Said:
    stdout: str
    stderr: str


@contextmanager
def same_environment() -> Iterator[None]:
    """Undo what the block does to the environment; a recipe may set some of it."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_here(*arguments: str, cwd: Path, expect: int = 0, encoding: str = "utf-8") -> Said:
    """What `trl-grpo-ext` says to these arguments in this folder, having ended with the expected status."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2))
    err.reconfigure(errors="backslashreplace")  # as Python's own is
    with chdir(cwd), same_environment(), redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(list(arguments))
        except SystemExit as ended:
            status = ended.code
    said = Said(*(stream.buffer.getvalue().decode(encoding) for stream in (out, err)))  # type: ignore[attr-defined]
    assert (status or 0) == expect, said.stderr[-3000:]
    return said
