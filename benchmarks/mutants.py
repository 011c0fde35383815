"""Mutation tests: make one-line mutants of the code, and count the mutants that quick tests detect.

`mutants.toml` beside this file lists mutants by part of the code: a text, its replacement, and tests that should fail
then. Each mutant is made in a copy of the tree. It is located by its text, which must occur exactly once in the sources
but may move between files; a text that no longer occurs is an error, and its mutant must be rewritten.

Usage::

    python benchmarks/mutants.py                 # all, two at a time: minutes
    python benchmarks/mutants.py --only mix      # the parts whose name holds this
    python benchmarks/mutants.py --list          # whether every text is still there once; runs nothing

It prints the survivors, and ends with status 1 if fewer than 95 % are killed, or a text is gone.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
SOURCES = ("trl_grpo_ext", "rewards")
LEAST_KILLED = 0.95
# Time limit per mutant in seconds; tests of a mutant may run for ever.
SECONDS = 600
COPIED = (
    *SOURCES,
    "tests",
    "docs",
    "recipes",
    "benchmarks",
    "scripts",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
# Libraries read these variables once, on import; the same values as in tests/conftest.py.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    # pytest would warn of plugins imported before it starts.
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
PRELOADED = ("datasets", "transformers.trainer", "trl.trainer.grpo_trainer", "math_verify")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong line of code, with tests that should fail.

    Attributes:
        part: The part of the code.
        old: The right text; it occurs exactly once.
        new: The wrong text.
        tests: pytest arguments; at least one test should fail.
    """

    part: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.part}: {self.old!r} -> {self.new!r}"


def main() -> int:
    """Run the mutants and print survivors; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="the parts whose name holds this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="look for the texts only")
    flags = parser.parse_args()
    mutants = [mutant for mutant in read_mutants() if flags.only in mutant.part]
    sources = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in _files()
    }
    lost = [mutant for mutant in mutants if len(places(mutant, sources)) != 1]
    for mutant in lost:
        print(f"in {len(places(mutant, sources))} places: {mutant}")
    there = [mutant for mutant in mutants if mutant not in lost]
    if flags.list:
        print(f"{len(there)} of {len(mutants)} texts stand in one place")
        return int(bool(lost))
    survivors = survive(there, sources, flags.jobs)
    killed = len(there) - len(survivors)
    for mutant in survivors:
        print(f"survives: {mutant}")
    print(f"{killed} of {len(there)} mutants killed: {killed / max(1, len(there)):.1%}")
    return int(bool(lost) or killed < LEAST_KILLED * len(there))


def read_mutants() -> Iterator[Mutant]:
    """Read the mutants of `mutants.toml`."""
    for part, content in tomllib.loads(LIST.read_text(encoding="utf-8")).items():
        for old, new in content["mutants"]:
            yield Mutant(part, old, new, tuple(content["tests"]))


def places(mutant: Mutant, sources: dict[Path, str]) -> list[Path]:
    """List the file of each occurrence of a mutant's text."""
    return [path for path, text in sources.items() for _ in range(text.count(mutant.old))]


def survive(mutants: Sequence[Mutant], sources: dict[Path, str], jobs: int) -> list[Mutant]:
    """Return mutants that no test detects.

    Raises:
        SystemExit: if tests fail on the unchanged code.
    """
    suites = list(dict.fromkeys(mutant.tests for mutant in mutants))
    runs = [Run(tests) for tests in suites]
    runs += [Run(mutant.tests, mutant, places(mutant, sources)[0]) for mutant in mutants]
    survivors = []
    for run, passed in run_all(runs, jobs):
        if run.mutant is None and not passed:
            sys.exit(
                f"Without any mutant these fail, or run too long: {' '.join(run.tests)}"
            )
        if run.mutant is not None and passed:
            survivors.append(run.mutant)
    return survivors


@dataclass(frozen=True, slots=True)
class Run:
    """Tests to run on a mutant in its file, or on unchanged code."""

    tests: tuple[str, ...]
    mutant: Mutant | None = None
    path: Path | None = None


def run_all(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, bool]]:
    """Yield each run, and True if its tests passed, as runs end.

    Each run is a fork of this process, which has imported slow modules without mutants.
    """
    os.environ |= ENVIRONMENT
    for name in PRELOADED:
        importlib.import_module(name)
    waiting, running = list(reversed(runs)), dict[int, tuple[Run, float]]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                run = waiting.pop()
                running[_start(run, Path(folder) / str(len(waiting)))] = (
                    run,
                    time.monotonic() + SECONDS,
                )
            time.sleep(0.05)
            for child, (run, deadline) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                if not ended and time.monotonic() < deadline:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    # Kill processes that the tests left behind, too.
                    os.killpg(child, signal.SIGKILL)
                if not ended:
                    os.waitpid(child, 0)
                del running[child]
                yield run, bool(ended) and status == 0


def _start(run: Run, tree: Path) -> int:
    """Fork a child that runs the tests in a copy of the tree; return its process id, also its process group's id."""
    child = os.fork()
    if child:
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        return child
    os.setpgid(0, 0)
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        status = _run_here(run, tree)
        shutil.rmtree(tree, ignore_errors=True)
    finally:
        os._exit(status)


def _run_here(run: Run, tree: Path) -> int:
    import pytest

    tree.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name,
                tree / name,
                symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        else:
            shutil.copy(ROOT / name, tree / name)
    if run.mutant is not None and run.path is not None:
        path = tree / run.path
        path.write_text(
            path.read_text(encoding="utf-8").replace(run.mutant.old, run.mutant.new),
            encoding="utf-8",
        )
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path.insert(0, str(tree))
    flags = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not slow and not wheel",
        f"--rootdir={tree}",
    ]
    return int(pytest.main([*flags, *run.tests]))


def _files() -> list[Path]:
    return [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]


if __name__ == "__main__":
    raise SystemExit(main())
