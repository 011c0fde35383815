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
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
SOURCES = ("trl_grpo_ext", "rewards")
LEAST_KILLED = 0.95
SECONDS = 600  # a mutant that runs for ever is killed


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
    survivors = list(survive(there, sources, flags.jobs))
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


def survive(mutants: Sequence[Mutant], sources: dict[Path, str], jobs: int) -> Iterator[Mutant]:
    """The mutants that no test notices.

    Raises:
        SystemExit: if tests fail without any mutant.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as threads:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            trees.put(_copy(Path(folder) / str(number)))

        def passes(tests: tuple[str, ...], mutant: Mutant | None = None) -> bool:
            tree = trees.get()
            try:
                return _passes_in(tree, tests, mutant, sources)
            finally:
                trees.put(tree)

        suites = list(dict.fromkeys(mutant.tests for mutant in mutants))
        for tests, passed in zip(suites, threads.map(passes, suites), strict=True):
            if not passed:
                sys.exit(f"Without any mutant these fail, or run too long: {' '.join(tests)}")
        fates = threads.map(lambda mutant: passes(mutant.tests, mutant), mutants)
        yield from (mutant for mutant, passed in zip(mutants, fates, strict=True) if passed)


def _passes_in(tree: Path, tests: Sequence[str], mutant: Mutant | None, sources: dict[Path, str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not wheel"]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    path = None if mutant is None else places(mutant, sources)[0]
    if mutant is not None and path is not None:
        (tree / path).write_text(sources[path].replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        done = subprocess.run(
            [*command, *tests], cwd=tree, env=environment, capture_output=True, check=False, timeout=SECONDS
        )
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if path is not None:
            (tree / path).write_text(sources[path], encoding="utf-8")


def _copy(folder: Path) -> Path:
    """The working tree, without what is built or recorded."""
    passed_over = shutil.ignore_patterns(".git", ".venv*", "runs", "models", "__pycache__", ".*_cache", ".hypothesis")
    return Path(shutil.copytree(ROOT, folder, symlinks=True, ignore=passed_over))


def _files() -> list[Path]:
    return [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]


if __name__ == "__main__":
    raise SystemExit(main())
