"""Checking a dataset before it is trained on: can its rows be judged at all?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.mix import RewardMix

SHOWN_ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DataProblem:
    """A row that a verifier cannot judge.

    Attributes:
        row: The row's number, from 0.
        reason: A reason code, as in the verdicts that such a row will get.
        value: What the row has, as text.
        advice: What to do about it.
        term: The reward term that it is a problem for.
    """

    row: int
    reason: str
    value: str
    advice: str
    term: str = ""


def check_rows(mix: RewardMix, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
    """The problems that the verifiers of a mix find in rows of a dataset, by term and row.

    Args:
        mix: The mix.
        rows: The rows, as mappings.
        thorough: Whether to look for what takes long to find.

    Example:
        >>> from trl_grpo_ext import RewardTerm
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> mix = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])
        >>> [(p.row, p.reason) for p in check_rows(mix, [{"solution": "4"}, {"solution": ""}])]
        [(1, 'gold_empty')]
    """
    problems = []
    for term, verifier in mix.verifiers:
        meant = [number for number, row in enumerate(rows) if term.applies(row)]
        found = verifier.check_rows([rows[number] for number in meant], thorough=thorough)
        problems += [replace(problem, row=meant[problem.row], term=term.name) for problem in found]
    return problems


def describe(problems: Sequence[DataProblem], *, rows: int, where: str) -> str:
    """A few lines that say how many rows have which problem, which they are, and what to do."""
    lines = [f"{len({problem.row for problem in problems})} of {rows} rows of {where} cannot be judged:"]
    for (term, reason), count in Counter((problem.term, problem.reason) for problem in problems).most_common():
        alike = [problem for problem in problems if (problem.term, problem.reason) == (term, reason)]
        numbers = ", ".join(str(problem.row) for problem in alike[:SHOWN_ROWS])
        more = ", ..." if count > SHOWN_ROWS else ""
        lines.append(f"  {term}: {reason} in {count}, rows {numbers}{more}, such as {alike[0].value[:80]!r}")
        lines.append(f"    {alike[0].advice}")
    return "\n".join(lines)
