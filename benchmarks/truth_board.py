r"""Compare math rewards on labelled completions: ours, math-verify and TRL's, by precision, recall and time.

    python benchmarks/truth_board.py FOLDER [--only FILE ...] [--ours-only] [--labels FILE] [--write DIR]

FOLDER holds `*.jsonl` files with the columns `gold`, `completion` and `label` (1 if the completion is right), or the
older `gold`, `prediction` and `expected`; files with other columns are passed over. A completion counts as accepted
if its score is 1. Precision is the share of right completions among accepted ones, recall the share of accepted
completions among right ones, and seconds are wall time for the file, without imports.

- ours: `MathVerifier` with its defaults. It reads the gold as it stands.
- math-verify: `verify(parse(gold), parse(completion, ...))`. The completion is parsed as LaTeX and as plain
  expressions, boxes first (`boxed_match_priority=0`).
- TRL: `trl.rewards.accuracy_reward`, where a gold that it cannot parse counts as not accepted.

math-verify and TRL find no answer in many golds of public datasets (`2x+1`, `#### 42`). To measure their comparison
instead of the golds' style, both get the gold in a box: from `... #### 42` the part after the mark, without enclosing
dollars; a boxed gold is not changed. If they cannot parse the boxed gold, they get the original. They hang on some
cases: each case runs in a worker process, killed after 20 seconds, and a killed case counts as not accepted.

`--labels` names a JSON Lines file of known wrong labels, each with `file` (the stem), `line` (from 0) and `why`; these
cases are left out of every figure. `--write` saves our disagreements with the labels to `DIR/<file>.jsonl`, sorted by
our reason, for review.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.workers.call import Call
from trl_grpo_ext.workers.pool import WorkerPool, usable_cores

# Time limit of a peer per case, in seconds.
LIMIT = 20.0
# Characters from a completion's end to write.
TAIL = 400
HEADER = (
    "file",
    "grader",
    "cases",
    "rights",
    "wrongs accepted",
    "precision",
    "recall",
    "accuracy",
    "seconds",
)
WIDTHS = (22, 12, 6, 11, 16, 10, 7, 9, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A labelled completion with its line number."""

    line: int
    gold: str
    completion: str
    right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of a file's right and wrong completions, and of those a grader accepted."""

    rights: int = 0
    accepted_rights: int = 0
    wrongs: int = 0
    accepted_wrongs: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, accepted: Sequence[bool], cases: Sequence[Case], seconds: float) -> Tally:
        """Count a grader's decisions."""
        rights = [yes for yes, case in zip(accepted, cases, strict=True) if case.right]
        wrongs = [yes for yes, case in zip(accepted, cases, strict=True) if not case.right]
        return cls(
            rights=len(rights),
            accepted_rights=sum(rights),
            wrongs=len(wrongs),
            accepted_wrongs=sum(wrongs),
            seconds=seconds,
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """Format the figures for a table row."""
        cases = self.rights + self.wrongs
        agreed = self.accepted_rights + self.wrongs - self.accepted_wrongs
        return (
            str(cases),
            f"{self.accepted_rights}/{self.rights}",
            f"{self.accepted_wrongs}/{self.wrongs}",
            _share(self.accepted_rights, self.accepted_rights + self.accepted_wrongs),
            _share(self.accepted_rights, self.rights),
            _share(agreed, cases),
            f"{self.seconds:.1f}",
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def read_cases(path: Path, left_out: set[tuple[str, int]]) -> list[Case]:
    """Read cases, without cases of known wrong label; an empty list for a file with other columns."""
    cases = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines()):
        row = json.loads(text)
        label, completion = (
            row.get("label", row.get("expected")),
            row.get("completion", row.get("prediction")),
        )
        if (
            "gold" in row
            and label is not None
            and completion is not None
            and (path.stem, line) not in left_out
        ):
            cases.append(
                Case(
                    line=line,
                    gold=str(row["gold"]),
                    completion=completion,
                    right=bool(label),
                )
            )
    return cases


def wrong_labels(path: Path | None) -> set[tuple[str, int]]:
    """Read file and line of each known wrong label."""
    rows = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path
        else []
    )
    return {(Path(row["file"]).stem, row["line"]) for row in rows}


def in_a_box(gold: str) -> str:
    """Put a gold in a box for the peers; a boxed gold stays unchanged."""
    if r"\boxed" in gold:
        return gold
    value = gold.rpartition("####")[2].strip()
    if value.startswith("$") and value.endswith("$"):
        value = value.strip("$")
    return rf"\boxed{{{value}}}"


def math_verify_score(gold: str, completion: str) -> float:
    """Compute math-verify's score of a case inside a worker."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    configs = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    return float(
        verify(
            parse(in_a_box(gold)) or parse(gold),
            parse(completion, extraction_config=configs),
        )
    )


def trl_score(gold: str, completion: str) -> float | None:
    """Compute TRL's score of a case inside a worker; None if TRL cannot parse the gold."""
    from trl.rewards import accuracy_reward

    for text in (in_a_box(gold), gold):
        scores: list[float | None] = accuracy_reward(
            [[{"content": completion}]], solution=[text]
        )
        if scores[0] is not None:
            return scores[0]
    return None


PEERS = {"math-verify": math_verify_score, "TRL": trl_score}


def judge_by_peer(
    name: str, cases: Sequence[Case], pool: WorkerPool
) -> tuple[list[float | str | None], float]:
    """Return a peer's scores and wall seconds; a failure's name replaces the score of a killed or raising case."""
    target = f"truth_board:{PEERS[name].__name__}"
    # Import the peer in every worker before timing.
    pool.run(
        [Call(target=target, arguments=("1", r"\boxed{1}"))] * pool.size, timeout=LIMIT
    )
    started = time.perf_counter()
    results = pool.run(
        [Call(target=target, arguments=(case.gold, case.completion)) for case in cases],
        timeout=LIMIT,
    )
    said = [result.failure.value if result.failure else result.value for result in results]
    return said, time.perf_counter() - started


def judge_by_ours(cases: Sequence[Case]) -> tuple[list[Verdict], float]:
    """Return our verdicts and wall seconds."""
    started = time.perf_counter()
    verdicts = MathVerifier().judge(
        [case.completion for case in cases], solution=[case.gold for case in cases]
    )
    return verdicts, time.perf_counter() - started


def write_disagreements(
    path: Path,
    cases: Sequence[Case],
    verdicts: Sequence[Verdict],
    peers: Mapping[str, Sequence[Any]],
) -> None:
    """Write cases where our verdict differs from the label, sorted by our reason."""
    rows = [
        {
            "reason": verdict.reason or verdict.status.value,
            "line": case.line,
            "label": int(case.right),
            "score": verdict.score,
            "gold": case.gold,
            "answer": verdict.answer,
            "tail": case.completion[-TAIL:],
            "peers": {name: said[position] for name, said in peers.items()},
        }
        for position, (case, verdict) in enumerate(zip(cases, verdicts, strict=True))
        if (verdict.score == 1.0) != case.right
    ]
    rows.sort(key=lambda row: (row["reason"], row["line"]))
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
        encoding="utf-8",
    )


def print_row(cells: Sequence[str]) -> None:
    """Print a table row."""
    print(
        "".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)),
        flush=True,
    )


def main() -> None:
    """Judge every file, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--only", nargs="+", metavar="FILE", help="names of files, without .jsonl"
    )
    parser.add_argument("--ours-only", action="store_true", help="leave the peers out")
    parser.add_argument("--labels", type=Path, help="labels that are known to be wrong")
    parser.add_argument(
        "--write", type=Path, metavar="DIR", help="where our disagreements go"
    )
    arguments = parser.parse_args()
    left_out = wrong_labels(arguments.labels)
    paths = [
        path
        for path in sorted(arguments.folder.glob("*.jsonl"))
        if path.stem in (arguments.only or [path.stem])
    ]
    if arguments.write:
        arguments.write.mkdir(parents=True, exist_ok=True)
    # Import our verifier's libraries before timing.
    judge_by_ours([Case(line=0, gold="x^2", completion=r"\boxed{x x}", right=True)] * 4)
    pool = WorkerPool(usable_cores())
    totals: dict[str, Tally] = {}
    print_row(HEADER)
    for path in paths:
        cases = read_cases(path, left_out)
        if not cases:
            continue
        verdicts, seconds = judge_by_ours(cases)
        tallies = {
            "ours": Tally.of([verdict.score == 1.0 for verdict in verdicts], cases, seconds)
        }
        peers: dict[str, list[float | str | None]] = {}
        for name in () if arguments.ours_only else PEERS:
            peers[name], seconds = judge_by_peer(name, cases, pool)
            tallies[name] = Tally.of(
                [score == 1.0 for score in peers[name]], cases, seconds
            )
        for name, tally in tallies.items():
            print_row([path.stem, name, *tally.cells])
            totals[name] = totals.get(name, Tally()) + tally
        if arguments.write:
            write_disagreements(arguments.write / path.name, cases, verdicts, peers)
    for name, tally in totals.items():
        print_row(["all", name, *tally.cells])
    names = {path.stem for path in paths}
    print(f"labels taken out: {sum(name in names for name, _ in left_out)}")
    pool.close()


if __name__ == "__main__":
    main()
