"""How often math rewards agree with labelled cases: ours, with its policies and without, math-verify, and TRL's.

    python benchmarks/math_truth.py FOLDER [--show FILE ...]

FOLDER holds `*.jsonl` files with the columns `gold`, `prediction` and `expected`. A case counts as agreed if the score
is 1 exactly when it is expected to be. Each peer judges each case in a process that is killed after 20 seconds.
`--show` lists our disagreements in a file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.rewards.math import SWITCHES
from trl_grpo_ext.verdict import Verdict
from trl_grpo_ext.workers.call import Call
from trl_grpo_ext.workers.pool import WorkerPool, usable_cores

LIMIT = 20.0
Case = dict[str, Any]


def trl_score(gold: str, prediction: str) -> float | None:
    """TRL's accuracy reward for one case. Called in a worker."""
    from trl.rewards import accuracy_reward

    scores: list[float | None] = accuracy_reward([[{"content": prediction}]], solution=[gold])
    return scores[0]


def math_verify_score(gold: str, prediction: str) -> float:
    """math-verify with its defaults for one case. Called in a worker."""
    from math_verify import parse, verify

    return float(verify(parse(gold), parse(prediction)))


def peer_scores(score: Callable[..., Any], cases: Sequence[Case], pool: WorkerPool) -> list[float | None]:
    """A peer's scores; None where it gave none, failed, or was killed."""
    calls = [
        Call(target=f"math_truth:{score.__name__}", arguments=(case["gold"], case["prediction"])) for case in cases
    ]
    return [outcome.value for outcome in pool.run(calls, timeout=LIMIT)]


def agreement(scores: Sequence[float | None], cases: Sequence[Case]) -> str:
    """Agreed, false ones, and missed ones, as a cell of the table."""
    false = sum(score == 1.0 and not case["expected"] for score, case in zip(scores, cases, strict=True))
    missed = sum(score != 1.0 and case["expected"] for score, case in zip(scores, cases, strict=True))
    return f"{len(cases) - false - missed:>4} ({false} false, {missed} missed)"


def disagreements(verdicts: Sequence[Verdict], cases: Sequence[Case]) -> Iterator[str]:
    """Our disagreements, a line each."""
    for verdict, case in zip(verdicts, cases, strict=True):
        if (verdict.score == 1.0) != case["expected"]:
            found = f"{verdict.score} {verdict.reason or verdict.status}"
            yield f"  {found:<22} gold {case['gold'][:60]!r}, said {case['prediction'][-80:]!r}, {case.get('why', '')}"


def _under_its_settings(verifier: MathVerifier, case: Case) -> Verdict:
    """Our verdict with the decimals that the case's own test asks for."""
    decimals = json.loads(case.get("config") or "{}").get("precision", verifier.decimals)
    (verdict,) = replace(verifier, decimals=decimals).judge([case["prediction"]], solution=[case["gold"]])
    return verdict


def main() -> None:
    """Judge every file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", nargs="*", default=[], help="files, without .jsonl, whose disagreements to list")
    arguments = parser.parse_args()
    pool = WorkerPool(usable_cores())
    peers = ("ours", "ours, every policy off", "math-verify", "TRL accuracy_reward")
    print(f"{'file':<20}{'cases':>6}  " + "".join(f"{peer:<28}" for peer in peers))
    for path in sorted(arguments.folder.glob("*.jsonl")):
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if "prediction" not in cases[0]:
            continue
        columns = {"solution": [case["gold"] for case in cases]}
        verdicts = MathVerifier(timeout=LIMIT).judge([case["prediction"] for case in cases], **columns)
        lenient = MathVerifier(timeout=LIMIT, **dict.fromkeys(SWITCHES, True))
        loose = [_under_its_settings(lenient, case) for case in cases]
        cells = [agreement([verdict.score for verdict in each], cases) for each in (verdicts, loose)]
        cells += [agreement(peer_scores(score, cases, pool), cases) for score in (math_verify_score, trl_score)]
        print(f"{path.stem:<20}{len(cases):>6}  " + "".join(f"{cell:<28}" for cell in cells), flush=True)
        if path.stem in arguments.show:
            print("\n".join(disagreements(verdicts, cases)))
    pool.close()


if __name__ == "__main__":
    main()
