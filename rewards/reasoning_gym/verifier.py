"""Verify the answer of a completion with the reasoning-gym scorer of the row's problem."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from trl_grpo_ext.answers.find.final_answer import (
    AnswerFrom,
    check_answer_from,
    final_answer,
)
from trl_grpo_ext.answers.verdicts import unreadable, wrong
from trl_grpo_ext.protocol import BatchVerifier, DataProblem, problems_of, required_column
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_number, check_seconds
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Blame, Status, Verdict, skipped
from trl_grpo_ext.workers.pool import close_workers, judge_in_workers

# The longest answer; the boards of the largest tasks have some thousand characters.
MAX_CHARS = 20_000
# The most characters of an answer in a verdict: enough for most boards.
SHOWN_CHARS = 2_000
SCORING = "trl_grpo_ext.rewards.reasoning_gym.scoring"

ADVICE = {
    "entry_missing": "Write each problem, with its metadata, as JSON into the column `entry`: json.dumps(problem).",
    "entry_unreadable": "An entry is JSON, or a mapping, with a problem's `question`, `answer` and `metadata`.",
    "task_unknown": "Install the reasoning-gym that the data was made with, or name the task: task=...",
    "entry_unscorable": "The task's scorer does not take this entry; keep its metadata, and name its options=...",
    "gold_not_itself": "The scorer turns the entry's own answer down; name the options it was made with: options=...",
    "gold_timeout": "The scorer takes longer than the timeout on the entry's own answer.",
    "grader": "Try again: a worker failed, not the data.",
}


class Problem(NamedTuple):
    """A problem in worker form: task name and entry JSON."""

    task: str
    entry: str


class _Question(NamedTuple):
    """A completion's problem and final answer."""

    problem: Problem
    answer: str


@dataclass(frozen=True, kw_only=True)
class ReasoningGymVerifier(BatchVerifier):
    r"""Scores an answer with the scorer of the reasoning-gym task that made the problem.

    Use it for problems made with reasoning-gym (https://github.com/open-thought/reasoning-gym): a hundred tasks, many
    with several right answers, which no comparison with a gold can judge. Needs the extra `reasoning-gym`.

    A row has its problem in the column `entry`, as JSON or as a mapping with `question`, `answer` and `metadata`; or it
    has these three columns. JSON is safer: Arrow adds the keys of other rows to each mapping.

    Many scorers reward a mere attempt: 0.01 for any text (`countdown`, `puzzle24`), 0.05 for a grid of any content
    (`arc_agi`), 0.3 and more for one right name (`knights_knaves`), the gold's share of the length of a longer text
    with the gold inside (all tasks without a scorer of their own), up to 0.9999 for the gold with text after it
    (`spell_backward`). So by default only a full score counts. With `least=0` the score is the scorer's own score.

    The scorers were written to measure models, not as training rewards, so some run only after a check. Scorers that
    evaluate the answer as Python (`binary_matrix`, `n_queens`, `spiral_matrix`, `string_insertion`; through sympy
    `countdown`, `puzzle24`, `polynomial_multiplication`, `simple_integration`, `intermediate_integration`) get only
    literals and formulas, without `Integral(...)`. No score is given for `nan` (`complex_arithmetic`), any text
    (`game_of_life_halting`, `polynomial_equations` without a solution), other numbers (`puzzle24`, `number_sorting`),
    the first of many numbers (`gsm_symbolic`), letters or digits in prose (`quantum_lock`, `kakurasu`, `survo`), the
    first digits (`coin_flip`), a move a billion times (`rubiks_cube`) or the right answer followed by another answer
    (`fraction_simplification`, `time_intervals`, `polynomial_equations`, `word_sorting`, `advanced_geometry`).

    Remaining loopholes: `propositional_logic` accepts a repeated premise, as in `(P ∧ P)`; `letter_jumble`, `sokoban`
    and `knights_knaves` accept text beside the right answer; `gsm_symbolic` accepts words beside it;
    `decimal_arithmetic` and `number_format` accept nearly the right number. A scorer runs in a worker process, which
    can be killed but is no sandbox.

    Args:
        column: The column of the entry; by default `entry`, else the columns `question`, `answer` and `metadata`.
        task: The task's name; by default `source_dataset` of the entry's metadata.
        options: The options that the problems were made with, if the scorer depends on them, as `decimal_arithmetic`
            on `max_num_decimal_places`. Needs `task`.
        least: The lowest score that counts, in [0, 1]; a lower score becomes 0.
        answer_from: Where the answer stands; see `final_answer`. Reasoning-gym's own prompts ask for the tag.
        timeout: Time limit for scoring one answer in its worker, in seconds; then the worker is killed.
        name: The metric key.

    | completion | verdict | reason |
    |---|---|---|
    | the scorer gives 1 | CORRECT, 1 | |
    | the scorer gives 0 | INCORRECT, 0 | `wrong` |
    | the scorer gives 0.05 | INCORRECT, 0 | `below_least`; with `least=0` PARTIAL, 0.05 |
    | `<answer>__import__("os")</answer>` for `countdown` | INCORRECT, 0 | `not_a_formula` |
    | no closed `<answer>` after the thinking | UNPARSEABLE, 0 | `no_answer_tag` |
    | two tags side by side that differ | INCORRECT, 0 | `ambiguous` |
    | the scorer raises on the answer, but not on the entry's answer | UNPARSEABLE, 0 | `scorer_raised` |
    | the scorer runs for more than `timeout` seconds | TIMEOUT, 0 | `timeout` |
    | anything, without an entry | SKIPPED, none | `entry_missing` |
    | anything, entry of an unknown task | SKIPPED, none | `task_unknown` |
    | anything, entry that the scorer cannot judge | SKIPPED, none | `entry_unscorable` |
    | fails a check that the entry's own answer also fails | SKIPPED, none | `gold_not_itself` |

    Raises:
        ValueError: if reasoning-gym is not installed, for an unknown task, option or `answer_from`, options without a
            task, a `least` outside [0, 1], or a timeout that is not above 0.

    Examples:
        >>> entry = {"question": "2 + 3?", "answer": "5", "metadata": {"source_dataset": "chain_sum"}}
        >>> ReasoningGymVerifier()(["<answer>5</answer>", "<answer>15</answer>"], entry=[entry, entry])
        [1.0, 0.0]
        >>> ReasoningGymVerifier(least=0)(["<answer>15</answer>"], entry=[entry])
        [0.5]
    """

    column: str | None = None
    task: str | None = None
    options: Mapping[str, Any] | None = None
    least: float = 1.0
    answer_from: AnswerFrom = "answer_tag"
    timeout: float = 5.0
    name: str | None = None

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout)
        check_answer_from(self.answer_from)
        check_number("least", self.least, "the lowest score that counts", least=0, most=1)
        if importlib.util.find_spec("reasoning_gym") is None:
            raise ValueError(
                "Its scorers need reasoning-gym: pip install 'trl-grpo-ext[reasoning-gym]'"
            )
        if self.options and not self.task:
            raise ValueError("options are those of one task; name it: task=...")
        # Options are tried on the task now, not in every worker.
        if self.task is not None:
            _check_task(self.task, self.options or {})

    def check_columns(self, columns: Collection[str]) -> None:
        if self.column:
            required_column(columns, (self.column,), verifier=self)
            return
        # The metadata name the task, unless the settings do.
        has_answers_of_task = self.task is not None and "answer" in columns
        if not has_answers_of_task:
            required_column(columns, ("entry", "metadata"), verifier=self)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows without a readable problem; if `thorough`, also rows whose own answer the scorer rejects."""
        reasons = []
        values = []
        readable: dict[int, Problem] = {}
        for place, row in enumerate(rows):
            problem = self._problem(row)
            values.append(str(problem)[:200])
            if isinstance(problem, Problem):
                reasons.append("")
                readable[place] = problem
            else:
                reasons.append(problem)
        if thorough:
            calls = [
                (problem.task, self._options, problem.entry)
                for problem in readable.values()
            ]
            verdicts = self._run("check_entry", calls)
            for place, verdict in zip(readable, verdicts, strict=True):
                reasons[place] = _data_reason(verdict)
        return problems_of(reasons, values, ADVICE)

    def close(self) -> None:
        """Stop the workers of this process; the next use starts new workers."""
        close_workers()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        return self.judge_questions(samples, self._question, self._verdicts)

    def _verdicts(self, questions: Sequence[_Question]) -> list[Verdict]:
        """Score each distinct question once, and return a verdict per question."""
        # Answers of a group are often equal.
        distinct = list(dict.fromkeys(questions))
        options = self._options
        calls = []
        for problem, answer in distinct:
            call = (problem.task, options, problem.entry, answer, self.least)
            calls.append(call)
        scored = self._run("score_here", calls)
        verdicts = {}
        for question, verdict in zip(distinct, scored, strict=True):
            verdicts[question] = replace(verdict, answer=question.answer[:SHOWN_CHARS])
        return [verdicts[question] for question in questions]

    def _question(self, sample: Sample) -> Verdict | _Question:
        problem = self._problem(sample.row)
        if isinstance(problem, str):
            return skipped(problem)
        found = final_answer(
            sample.text, prefill=sample.prefill, answer_from=self.answer_from
        )
        if found.problem:
            return unreadable(found.problem)
        if len(found.answers) > 1:
            # Answers that differ as texts may still be equivalent, but only the scorer could tell.
            return wrong("ambiguous")
        answer = found.answers[0]
        if len(answer) > MAX_CHARS:
            return unreadable("answer_too_long")
        return _Question(problem, answer)

    def _problem(self, row: Mapping[str, Any]) -> Problem | str:
        """Read the problem of a row, or return the reason code of a missing or unreadable problem."""
        cell = self._cell(row)
        if cell is None:
            return "entry_missing"
        entry = _read(cell)
        if entry is None:
            return "entry_unreadable"
        metadata = _read(entry.get("metadata", {}))
        if metadata is None:
            return "entry_unreadable"
        task = self.task or metadata.get("source_dataset")
        if not isinstance(task, str) or not _has_task(task):
            return "task_unknown"
        try:
            return Problem(task, json.dumps(entry | {"metadata": metadata}))
        except (TypeError, ValueError):
            return "entry_unreadable"

    def _cell(self, row: Mapping[str, Any]) -> Any:
        """Return a row's entry, from one column or made of three columns; None for a row without entry."""
        if self.column:
            return row.get(self.column)
        if row.get("entry") is not None:
            return row["entry"]
        if self.task is None and row.get("metadata") is None:
            return None
        return {
            "question": row.get("question"),
            "answer": row.get("answer"),
            "metadata": _read(row.get("metadata")) or {},
        }

    @property
    def _options(self) -> str:
        return json.dumps(self.options or {}, sort_keys=True)

    def _run(self, function: str, arguments: Sequence[tuple[Any, ...]]) -> list[Verdict]:
        return judge_in_workers(f"{SCORING}:{function}", arguments, timeout=self.timeout)


def _read(cell: Any) -> dict[str, Any] | None:
    """Read a mapping, or the JSON text of a mapping, from a cell; None for anything else."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except ValueError:
            return None
    if isinstance(cell, Mapping):
        return dict(cell)
    return None


def _has_task(task: str) -> bool:
    from reasoning_gym.factory import DATASETS

    return task in DATASETS


def _check_task(task: str, options: Mapping[str, Any]) -> None:
    """Raise a ValueError if reasoning-gym lacks the task, or the task lacks an option."""
    from reasoning_gym.factory import DATASETS, create_dataset

    if task not in DATASETS:
        raise ValueError(
            f"reasoning-gym has no task {task!r}. {did_you_mean(str(task), DATASETS)}"
        )
    try:
        create_dataset(task, **options)
    except (TypeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"The task {task!r} does not take these options: {error}."
        ) from None


def _data_reason(verdict: Verdict) -> str:
    """Turn the verdict on an entry's own answer into a reason code; empty for a usable entry."""
    if verdict.status is Status.CORRECT:
        return ""
    if verdict.blame is Blame.GRADER:
        return "grader"
    if verdict.status is Status.TIMEOUT:
        return "gold_timeout"
    return verdict.reason


@cache
def __getattr__(name: str) -> Any:
    """Make `reasoning_gym_reward`, the verifier with its defaults, at first access, since it needs the extra."""
    if name != "reasoning_gym_reward":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return ReasoningGymVerifier(name=name)
