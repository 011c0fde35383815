"""What the quick tests notice: one-line mutants of the code, and how many of them the tests kill.

`mutants.toml` beside this file lists them by the part of the code that they are of: a text, what stands in its place,
and the tests that should fail then. Each is made in a copy of the tree. A mutant is found by its text, which must stand
in one place only, so it may move from file to file; one whose text is gone is an error, and has to be written anew.

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
SECONDS = 600  # a mutant that runs for ever is killed
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
ENVIRONMENT = {  # read once, when what follows is imported; as in tests/conftest.py
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # it would warn of plugins that have been imported
}
PRELOADED = ("datasets", "transformers.trainer", "trl.trainer.grpo_trainer", "math_verify")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of code that is wrong.

    Attributes:
        part: What it is of.
        old: The text that is right; it stands in one place.
        new: The text that is wrong.
        tests: What pytest is to run; one of these should fail.
    """

    part: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.part}: {self.old!r} -> {self.new!r}"


def main() -> int:
    """Run the mutants and print what survives; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the parts whose name holds this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="look for the texts only")
    flags = parser.parse_args()
    mutants = [mutant for mutant in read_mutants() if flags.only in mutant.part]
    sources = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in _files()}
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
    """The mutants of the list."""
    for part, content in tomllib.loads(LIST.read_text(encoding="utf-8")).items():
        for old, new in content["mutants"]:
            yield Mutant(part, old, new, tuple(content["tests"]))


def places(mutant: Mutant, sources: dict[Path, str]) -> list[Path]:
    """The files that hold a mutant's text, one entry for each time that it stands there."""
    return [path for path, text in sources.items() for _ in range(text.count(mutant.old))]


def survive(mutants: Sequence[Mutant], sources: dict[Path, str], jobs: int) -> list[Mutant]:
    """The mutants that no test notices.

    Raises:
        SystemExit: if tests fail without any mutant.
    """
    suites = list(dict.fromkeys(mutant.tests for mutant in mutants))
    runs = [Run(tests) for tests in suites]
    runs += [Run(mutant.tests, mutant, places(mutant, sources)[0]) for mutant in mutants]
    survivors = []
    for run, passed in run_all(runs, jobs):
        if run.mutant is None and not passed:
            sys.exit(f"Without any mutant these fail, or run too long: {' '.join(run.tests)}")
        if run.mutant is not None and passed:
            survivors.append(run.mutant)
    return survivors


@dataclass(frozen=True, slots=True)
class Run:
    """Tests to run, and the mutant with the file that it is in; without one, the code as it is."""

    tests: tuple[str, ...]
    mutant: Mutant | None = None
    path: Path | None = None


def run_all(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, bool]]:
    """Each run, and whether its tests passed, as they end.

    Each is a child of this process, which has imported the slow modules that have no mutants.
    """
    os.environ |= ENVIRONMENT
    for name in PRELOADED:
        importlib.import_module(name)
    waiting, running = list(reversed(runs)), dict[int, tuple[Run, float]]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                run = waiting.pop()
                running[_start(run, Path(folder) / str(len(waiting)))] = (run, time.monotonic() + SECONDS)
            time.sleep(0.05)
            for child, (run, deadline) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                if not ended and time.monotonic() < deadline:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)  # and whatever it has left
                if not ended:
                    os.waitpid(child, 0)
                del running[child]
                yield run, bool(ended) and status == 0


def _start(run: Run, tree: Path) -> int:
    """Run the tests in a child, in a copy of the tree; its number, which is that of its group too."""
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
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tree / name)
    if run.mutant is not None and run.path is not None:
        path = tree / run.path
        path.write_text(path.read_text(encoding="utf-8").replace(run.mutant.old, run.mutant.new), encoding="utf-8")
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
