"""Findings of a red team: programs that forged a verdict, voided their row, or were right and scored 0.

Each line of `data/red_team.jsonl` is a case: the program, its tests, and the correct verdict.
"""

from __future__ import annotations

import json

from places import DATA

from trl_grpo_ext.rewards import UnitTestVerifier

CASES = [
    json.loads(line)
    for line in (DATA / "red_team.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_what_a_red_team_found_is_judged_as_it_is_due() -> None:
    sandbox = UnitTestVerifier()
    try:
        verdicts = sandbox.judge(
            [case["program"] for case in CASES], tests=[case["tests"] for case in CASES]
        )
    finally:
        sandbox.close()
    found = {
        case["name"]: verdict.status.name
        for case, verdict in zip(CASES, verdicts, strict=True)
    }
    assert found == {case["name"]: case["due"] for case in CASES}
