"""Score answers with the scorer of a reasoning-gym task, inside a worker that imports reasoning-gym once."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from reasoning_gym.factory import create_dataset

from trl_grpo_ext.answers.verdicts import graded, unreadable, wrong
from trl_grpo_ext.rewards.reasoning_gym.checks import problem_with
from trl_grpo_ext.verdict import Status, Verdict, skipped

# Problems of these tasks have many right answers, and their entries hold none.
TASKS_WITHOUT_GOLD = frozenset(
    {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
)

Scorer = Callable[[str | None, dict[str, Any]], float]


def score_here(
    task: str,
    options: str,
    entry: str,
    answer: str,
    least: float,
) -> dict[str, Any]:
    """Score one answer inside this process; returns a verdict record.

    Args:
        task: The name of a reasoning-gym task.
        options: The task's options, as JSON.
        entry: The problem's question, answer and metadata, as JSON.
        answer: The final answer of the completion.
        least: The lowest score that counts; a lower score becomes 0.
    """
    problem = _restored(task, json.loads(entry))
    return _score(task, options, problem, answer, least).to_record()


def check_entry(task: str, options: str, entry: str) -> dict[str, Any]:
    """Check an entry by its own answer: return a CORRECT record for score 1 or a task without golds, else SKIPPED."""
    problem = _restored(task, json.loads(entry))
    return _judged_entry(task, options, problem).to_record()


def _judged_entry(task: str, options: str, problem: dict[str, Any]) -> Verdict:
    if problem.get("answer") is None and task in TASKS_WITHOUT_GOLD:
        return Verdict(status=Status.CORRECT, score=1.0, reason="no_gold")
    try:
        if _gold_has_problem(task, problem):
            return skipped("gold_not_itself")
        score = score_of(task, options, problem, str(problem["answer"]))
    except Exception:
        # Scorers raise anything on an entry of another version or with missing metadata.
        return skipped("entry_unscorable")
    if score < 1:
        return skipped("gold_not_itself")
    return Verdict(status=Status.CORRECT, score=1.0)


def _score(
    task: str,
    options: str,
    entry: dict[str, Any],
    answer: str,
    least: float,
) -> Verdict:
    try:
        # Before the scorer, which some answers would hang or fool.
        problem = problem_with(task, answer, entry)
    except (KeyError, TypeError, ValueError):
        return skipped("entry_unscorable")
    if problem and _gold_has_problem(task, entry):
        return skipped("gold_not_itself")
    if problem:
        return wrong(problem)
    try:
        score = score_of(task, options, entry, answer)
    except Exception as error:
        # Most scorers parse the answer without care.
        return _verdict_of_error(task, options, entry, error)
    details = {"scorer": repr(score)}
    if not 0 <= score <= 1:
        return wrong("score_out_of_range", details=details)
    if score == 0:
        return wrong("wrong", details=details)
    if score < least:
        return wrong("below_least", details=details)
    return graded(score, details=details)


def _gold_has_problem(task: str, entry: Mapping[str, Any]) -> bool:
    """Test if the check refuses the entry's own answer, as with golds of `intermediate_integration` with `Integral`."""
    gold = entry.get("answer")
    return gold is not None and problem_with(task, str(gold), entry) != ""


def score_of(task: str, options: str, entry: Mapping[str, Any], answer: str) -> float:
    """Run the task's scorer on a copy of the entry, since some scorers modify the entry; -1 in place of NaN."""
    own_copy = copy.deepcopy(dict(entry))
    score = float(scorer(task, options)(answer, own_copy))
    if math.isnan(score):
        return -1.0
    return score


def _verdict_of_error(
    task: str,
    options: str,
    entry: dict[str, Any],
    error: Exception,
) -> Verdict:
    """Blame the answer for a scorer exception if the scorer accepts the entry's own answer; else blame the entry."""
    gold = entry.get("answer")
    if gold is None and task not in TASKS_WITHOUT_GOLD:
        return skipped("entry_unscorable")
    own_answer = "" if gold is None else str(gold)
    try:
        score_of(task, options, entry, own_answer)
    except Exception:
        return skipped("entry_unscorable")
    return unreadable("scorer_raised", details={"scorer": f"raised {type(error).__name__}"})


@lru_cache(maxsize=256)
def scorer(task: str, options: str) -> Scorer:
    """Create a task's scorer; JSON options make the call hashable for the cache."""
    found: Scorer = create_dataset(task, **json.loads(options)).score_answer
    return found


def _restored(task: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Restore the board of an `arc_agi` or `rearc` entry to a tuple of tuples; JSON and Arrow turn it into lists."""
    if task not in ("arc_agi", "rearc"):
        return entry
    metadata = entry.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("output"), list):
        return entry
    board = tuple(tuple(row) for row in metadata["output"])
    return entry | {"metadata": metadata | {"output": board}}
