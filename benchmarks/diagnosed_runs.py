"""What the diagnosis says of the simulated runs of `tests/diagnosis_cases.py`, as a table.

python benchmarks/diagnosed_runs.py > table.md

A faulty run is right if its first cause has an expected code and the sentence holds the expected words; a healthy one
if no finding above information was told while it went on. The last lines, on stderr, count them.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from diagnosis_cases import CASES, FAULTY, HEALTHY, Said, diagnosed  # the tests' own


def row(said: Said) -> str:
    """A line of the table."""
    case = said.case
    mark = "yes" if said.is_right else "**no**"
    return f"| `{said.name}` | {case.story} | {said.diagnosis.sentence.replace('|', '/')} | {mark} |"


def main() -> None:
    """Print the table."""
    with ProcessPoolExecutor() as pool:
        found = dict(zip(CASES, pool.map(diagnosed, CASES), strict=True))
    for kind, cases in {**FAULTY, "healthy": HEALTHY}.items():
        print(f"## {kind.capitalize()}\n\n| run | what happens | what is said | right |\n|---|---|---|---|")
        print("\n".join(row(found[name]) for name in cases), end="\n\n")
    for name, is_of in {"faulty": True, "healthy": False}.items():
        rights = [said.is_right for said in found.values() if bool(said.case.expected) is is_of]
        print(f"{name}: {sum(rights)} of {len(rights)}", file=sys.stderr)


if __name__ == "__main__":
    main()
