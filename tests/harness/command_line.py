"""Run the command line in this process, which saves seconds of importing torch in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
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
    """Restore environment variables after the block, since a recipe may set some."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_here(*arguments: str, cwd: Path, expect: int = 0, encoding: str = "utf-8") -> Said:
    """Run `trl-grpo-ext` with these arguments in a folder, assert its exit status, and return its output."""
    # Real files, since vLLM asks stdout for its file descriptor.
    with (
        TemporaryFile("w+", encoding=encoding, newline="") as out,
        # Python's own stderr replaces characters in the same way.
        TemporaryFile(
            "w+", encoding=encoding, newline="", errors="backslashreplace"
        ) as err,
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


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())
