"""The command line in this process: seconds less than in one of its own, which would import torch first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

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
    # Files, as programs have them: vLLM asks what it prints to for its descriptor.
    with (
        TemporaryFile("w+", encoding=encoding, newline="") as out,
        TemporaryFile("w+", encoding=encoding, newline="", errors="backslashreplace") as err,  # as Python's own is
    ):
        with chdir(cwd), same_environment(), redirect_stdout(out), redirect_stderr(err):
            try:
                status = main(list(arguments))
            except SystemExit as ended:
                status = ended.code
        for stream in (out, err):
            stream.seek(0)
        said = Said(out.read(), err.read())
    assert (status or 0) == expect, said.stderr[-3000:]
    return said
