"""Check a dataset before training: find the rows that the verifiers cannot judge."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trl_grpo_ext.answers.golds import GOLD_COLUMNS, gold_texts
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.gate import When
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.programs.suites.program_text import reference_program
from trl_grpo_ext.protocol import DataProblem, Verifier, first_value
from trl_grpo_ext.rewards.environment import NO_REWARD, judges_outcomes
from trl_grpo_ext.rewards.function import (
    DOES_NOT_APPLY,
    FunctionVerifier,
    PlainFunction,
)
from trl_grpo_ext.sample import Sample, last_message, sample_of_row
from trl_grpo_ext.support.progress_bar import SECONDS_BETWEEN_LINES, Progress
from trl_grpo_ext.verdict import Blame, Verdict

SHOWN_ROWS = 10
# Values of a column that a message lists.
SHOWN_VALUES = 10
# Rows per slice: the first size; slices double up to the second size while checking stays quick.
FIRST_ROWS = 4
MOST_ROWS = 256
# Rows on which a verifier is tried before training.
ROWS_A_VERIFIER = 3
# A completion without an answer.
NEUTRAL = "I do not know."
# A completion with an answer in the usual marks: many verifiers read the gold only where they find an answer.
MARKED = "<answer>{0}</answer>\n#### {0}\nThe answer is \\boxed{{{0}}}."
UNKNOWN_GOLD = "1"
# The `term` of a problem that no reward term has found: an empty prompt.
PROMPT = "prompt"
# The `term` of a problem that an environment has found, if no reward term judges by environments.
ENVIRONMENT = "environment"
MEND_ROW = "Drop the row, or mend it."
MEND_FUNCTION = "It fails on this row each time: mend the verifier, or the row if its data are at fault."
MEND_VERIFIER = "Asked again, the verifier did not fail on this row: mend the verifier, and keep the row."
NEVER_APPLIES = (
    "The function gives None on each checked row, as if the reward applied to none: "
    "give each of its own rows a number."
)
NO_PROMPT = "Drop the row, or write its prompt."

# A check of rows by the environments that judge them; the second argument adds slow checks.
EnvironmentCheck = Callable[[Sequence[Mapping[str, Any]], bool], list[DataProblem]]
# A row of the dataset with its number.
NumberedRow = tuple[int, Mapping[str, Any]]


class RowCheck(NamedTuple):
    """The problems of a dataset's rows, sorted by term and row, and the number of checked rows.

    `checked` is smaller than the dataset if the time limit ended the check. `shadows` are the terms with weight 0: a
    row that only they cannot judge is trained on.
    """

    problems: list[DataProblem]
    checked: int
    shadows: frozenset[str] = frozenset()

    @property
    def bad_rows(self) -> set[int]:
        """The numbers of the rows that a term with a weight cannot judge."""
        return {
            problem.row for problem in self.problems if problem.term not in self.shadows
        }


def check_rows(
    mix: RewardMix,
    rows: Sequence[Mapping[str, Any]],
    *,
    thorough: bool = False,
    at_most_seconds: float = math.inf,
    outcome: Outcome | None = None,
    environments: EnvironmentCheck | None = None,
    activity: str = "checking data",
) -> RowCheck:
    """Check dataset rows with the verifiers of a mix.

    After a second, progress is shown on stderr.

    Args:
        mix: The mix whose verifiers check the rows.
        rows: The rows of the dataset.
        thorough: Also run slow checks, such as a user-written verifier judging a marked answer to every row.
        at_most_seconds: The time limit. With a finite limit the checked rows are a random sample of the dataset.
        outcome: The outcome of an environment in which the agent did nothing, for verifiers of outcomes.
        environments: The check of rows by the environments that judge them.
        activity: The name of the check in progress lines.

    Examples:
        >>> from trl_grpo_ext import RewardTerm
        >>> from trl_grpo_ext.rewards import MathVerifier
        >>> mix = RewardMix([RewardTerm(name="accuracy", verifier=MathVerifier())])
        >>> [(p.row, p.reason) for p in check_rows(mix, [{"solution": "4"}, {"solution": ""}]).problems]
        [(1, 'gold_empty')]
    """
    problems: list[DataProblem] = []
    progress = Progress(activity, len(rows), "rows")
    order: Sequence[int] = range(len(rows))
    # A part of the rows stands for all only if it is drawn at random; the seed makes the check repeatable.
    if math.isfinite(at_most_seconds):
        order = random.Random(0).sample(order, len(rows))
    done = 0
    size = FIRST_ROWS
    # The first slice is always checked: a run without a checked row would call all rows fine.
    while done < len(rows) and (done == 0 or progress.seconds <= at_most_seconds):
        began = time.monotonic()
        numbered = [(number, rows[number]) for number in order[done : done + size]]
        problems += _check(mix, numbered, thorough, outcome)
        if environments is not None:
            problems += _of_environments(mix, numbered, thorough, environments)
        done += len(numbered)
        progress.show(done)
        # Small slices would leave workers idle.
        if time.monotonic() - began < SECONDS_BETWEEN_LINES / 2:
            size = min(2 * size, MOST_ROWS)
    problems = _without_other_tasks(problems, done)
    terms = [PROMPT, *(term.name for term in mix.terms), ENVIRONMENT]
    problems.sort(key=lambda problem: (terms.index(problem.term), problem.row))
    shadows = frozenset(term.name for term in mix.terms if term.is_shadow)
    return RowCheck(problems=problems, checked=done, shadows=shadows)


class VerifierFailure(NamedTuple):
    """A verifier's first failure on a tried row.

    Attributes:
        term: The name of the verifier's reward term.
        row: The row's number, from 0.
        completion: The completion that it failed on.
        reason: The verdict's reason.
        error: The error, as a sentence.
        always: Whether the verifier fails on each tried completion of each tried row. An environment without a reward
            tells nothing of rollouts in which an agent acts.
    """

    term: str
    row: int
    completion: str
    reason: str
    error: str
    always: bool

    @property
    def is_unsubmitted(self) -> bool:
        """Whether an environment gave no reward, which may be right: no agent did anything before training."""
        return self.reason.endswith(NO_REWARD)

    def describe(self, where: str, lines: FileLines | None) -> str:
        """Describe the failure as a sentence; `where` is the split."""
        on = place([self.row], lines)
        if self.is_unsubmitted:
            return f"{where}: {self.term!r} has no verdict on {on}, where nothing was submitted: {self.error}"
        return f"{where}: the verifier of {self.term!r} fails on {on}: {self.error}"


def try_verifiers(
    mix: RewardMix,
    rows: Sequence[Mapping[str, Any]],
    outcome: Outcome | None = None,
    *,
    prompt_column: str | None = None,
) -> list[VerifierFailure]:
    """List verifiers with a failure on their first rows, at most `ROWS_A_VERIFIER` rows each.

    Each verifier judges a row's gold answer, bare and marked, and a text without an answer. Missing columns and wrong
    types in user-written verifiers show only when the verifier runs. `outcome` is the outcome of an environment in
    which the agent did nothing; `prompt_column` is the column that a recipe has made prompts of.

    Examples:
        >>> from trl_grpo_ext import RewardTerm, verifier
        >>> @verifier
        ... def mentions(sample):
        ...     return sample.row["label"] in sample.text
        >>> mix = RewardMix([RewardTerm(name="mentions", verifier=mentions)])
        >>> [(f.row, f.reason, f.always) for f in try_verifiers(mix, [{"prompt": "2+2?", "solution": "4"}])]
        [(0, 'raised_KeyError', True)]
    """
    found = []
    for term, verifier in mix.verifiers:
        # A generator: three rows are wanted, perhaps of millions.
        applies = ((number, row) for number, row in enumerate(rows) if term.applies(row))
        numbered = list(itertools.islice(applies, ROWS_A_VERIFIER))
        failure = _first_failure(term, verifier, numbered, outcome, prompt_column)
        if failure is not None:
            found.append(failure)
    return found


def _first_failure(
    term: RewardTerm,
    verifier: Verifier,
    numbered: Sequence[NumberedRow],
    outcome: Outcome | None,
    prompt_column: str | None,
) -> VerifierFailure | None:
    failures = []
    tried = 0
    for number, row in numbered:
        for text in _tried_texts(row):
            tried += 1
            verdict = _tried_verdict(verifier, sample_of_row(row, text, outcome))
            # Faults of the data are told row by row, by `check_rows`.
            has_failed = verdict.blame is Blame.GRADER
            if not has_failed:
                continue
            error = str(verdict.details.get("error") or verdict.reason)
            failure = VerifierFailure(
                term=term.name,
                row=number,
                completion=text,
                reason=verdict.reason,
                error=with_columns(error, row, prompt_column),
                always=False,
            )
            failures.append(failure)
    if not failures:
        return None
    is_always = len(failures) == tried and not any(
        failure.is_unsubmitted for failure in failures
    )
    return failures[0]._replace(always=is_always)


_MISSING_KEY = re.compile(r"KeyError: '([^']+)'")


def with_columns(error: str, row: Mapping[str, Any], prompt_column: str | None) -> str:
    """Add a row's columns to an error about a column that it lacks; other errors are returned unchanged.

    Examples:
        >>> with_columns("Game.reset raised KeyError: 'question'", {"answer": "4", "prompt": "2+2?"}, "question")
        "Game.reset raised KeyError: 'question'; the row has `answer`, `prompt` (made of `question` by prompt_column)"
    """
    missing = _MISSING_KEY.search(error)
    # A key that the row has was missed elsewhere, such as in a dictionary of the verifier's own.
    if missing is None or missing[1] in row:
        return error
    columns = ", ".join(f"`{name}`" for name in row if name != "prompt")
    if "prompt" not in row:
        return f"{error}; the row has {columns}"
    origin = (
        f" (made of `{prompt_column}` by prompt_column)"
        if missing[1] == prompt_column
        else ""
    )
    return f"{error}; the row has {columns}, `prompt`{origin}"


def _tried_verdict(verifier: Verifier, sample: Sample) -> Verdict:
    # With a single completion, a function that returns one score for the whole batch would seem right.
    copies = 2 if isinstance(verifier, PlainFunction) else 1
    return verifier.judge_samples([sample] * copies)[0]


def _tried_texts(row: Mapping[str, Any]) -> list[str]:
    """Return completions to try a verifier with: the row's gold answer, bare and marked, and a text without answer."""
    # A row with tests is answered by a program; a gold text would not run.
    program = reference_program(row)
    if program is not None:
        return [program, NEUTRAL]
    return [*_golds(row)[:1], _marked_gold(row), NEUTRAL]


def _marked_gold(row: Mapping[str, Any]) -> str:
    golds = _golds(row) or [UNKNOWN_GOLD]
    return MARKED.format(golds[0])


def _golds(row: Mapping[str, Any]) -> Sequence[str]:
    return gold_texts(first_value(row, GOLD_COLUMNS))


def _check(
    mix: RewardMix,
    numbered: Sequence[NumberedRow],
    thorough: bool,
    outcome: Outcome | None,
) -> list[DataProblem]:
    problems = _empty_prompts(numbered)
    for term, verifier in mix.verifiers:
        meant = _meant_for(term, numbered)
        rows = _without_numbers(meant)
        found = list(verifier.check_rows(rows, thorough=thorough))
        if thorough and _is_own(verifier):
            found += _refused(verifier, rows, outcome)
        problems += _numbered(found, meant, term.name)
    return problems


def _of_environments(
    mix: RewardMix,
    numbered: Sequence[NumberedRow],
    thorough: bool,
    check: EnvironmentCheck,
) -> list[DataProblem]:
    terms = [term for term, verifier in mix.verifiers if judges_outcomes(verifier)]
    if not terms:
        # TRL adds the environment's reward by itself.
        found = check(_without_numbers(numbered), thorough)
        return _numbered(found, numbered, ENVIRONMENT)
    problems = []
    for term in terms:
        meant = _meant_for(term, numbered)
        found = check(_without_numbers(meant), thorough)
        problems += _numbered(found, meant, term.name)
    return problems


def _meant_for(term: RewardTerm, numbered: Sequence[NumberedRow]) -> list[NumberedRow]:
    """List the rows to which a term applies."""
    return [(number, row) for number, row in numbered if term.applies(row)]


def _without_numbers(numbered: Sequence[NumberedRow]) -> list[Mapping[str, Any]]:
    return [row for _, row in numbered]


def _numbered(
    found: Sequence[DataProblem],
    meant: Sequence[NumberedRow],
    term: str,
) -> list[DataProblem]:
    """Name the dataset's rows in problems: who found them has counted the rows that it got."""
    problems = []
    for problem in found:
        # `problem.row` counts the rows that the verifier was given, and `meant` has these rows in order.
        number, _ = meant[problem.row]
        problems.append(replace(problem, row=number, term=term))
    return problems


def _empty_prompts(numbered: Sequence[NumberedRow]) -> list[DataProblem]:
    problems = []
    for number, row in numbered:
        if "prompt" not in row or not _is_empty(row["prompt"]):
            continue
        problem = DataProblem(
            row=number,
            reason="prompt_empty",
            value=str(row["prompt"]),
            advice=NO_PROMPT,
            term=PROMPT,
        )
        problems.append(problem)
    return problems


def _is_empty(prompt: Any) -> bool:
    content = prompt
    if isinstance(prompt, list) and prompt:
        # The question is the last message; a system prompt or examples may stand before it.
        content = prompt[-1].get("content")
    if isinstance(content, str):
        content = content.strip()
    return not content


def _is_own(verifier: Verifier) -> bool:
    """Return whether a user wrote the verifier, without a `check_rows` method that finds bad rows.

    Group verifiers are excluded: a single row has no group to compare.
    """
    if (
        isinstance(verifier, GroupVerifier)
        or type(verifier).check_rows is not Verifier.check_rows
    ):
        return False
    is_shipped = type(verifier).__module__.startswith("trl_grpo_ext.")
    return isinstance(verifier, FunctionVerifier | PlainFunction) or not is_shipped


def _refused(
    verifier: Verifier,
    rows: Sequence[Mapping[str, Any]],
    outcome: Outcome | None,
) -> Iterator[DataProblem]:
    """Yield a problem per row if the verifier fails on a marked answer, blames the data or does not apply.

    A second run separates bad rows from flaky verifiers, such as a verifier that asks a server: if the verifier does
    not fail again on the row, the advice is to mend the verifier.
    """
    samples = [sample_of_row(row, _marked_gold(row), outcome) for row in rows]
    verdicts = _judged_apart(verifier, samples)
    flaky = _flaky(verifier, samples, verdicts)
    for number, (row, verdict) in enumerate(zip(rows, verdicts, strict=True)):
        if verdict.blame not in (Blame.DATA, Blame.GRADER):
            continue
        advice = _advice(verdict, is_flaky=number in flaky)
        error = verdict.details.get("error")
        if error:
            advice = f"{error}. {advice}"
        # The user finds the row by its last message.
        value = last_message(row.get("prompt"))
        yield DataProblem(row=number, reason=verdict.reason, value=value, advice=advice)


def _advice(verdict: Verdict, *, is_flaky: bool) -> str:
    if verdict.reason == DOES_NOT_APPLY:
        return NEVER_APPLIES
    if is_flaky:
        return MEND_VERIFIER
    return MEND_FUNCTION if verdict.blame is Blame.GRADER else MEND_ROW


def _without_other_tasks(
    problems: Sequence[DataProblem], checked: int
) -> list[DataProblem]:
    """Drop rows to which a plain function does not apply, unless it applies to no checked row."""
    counts = Counter(
        problem.term for problem in problems if problem.reason == DOES_NOT_APPLY
    )
    kept = []
    for problem in problems:
        if problem.reason != DOES_NOT_APPLY or counts[problem.term] == checked:
            kept.append(problem)
    return kept


def _judged_apart(verifier: Verifier, samples: Sequence[Sample]) -> list[Verdict]:
    """Judge samples so that a failure on one leaves the others alone."""
    if isinstance(verifier, PlainFunction):
        return [_tried_verdict(verifier, sample) for sample in samples]
    return verifier.judge_samples(samples)


def _flaky(
    verifier: Verifier, samples: Sequence[Sample], verdicts: Sequence[Verdict]
) -> set[int]:
    """Repeat a verifier's failed judgements; return the numbers of samples without a second failure."""
    # Faults of the data are not asked about again: they are no accident.
    failed = [
        number for number, verdict in enumerate(verdicts) if verdict.blame is Blame.GRADER
    ]
    if not failed:
        return set()
    again = _judged_apart(verifier, [samples[number] for number in failed])
    flaky = set()
    for number, second in zip(failed, again, strict=True):
        if second.blame is not Blame.GRADER:
            flaky.add(number)
    return flaky


class FileLines(NamedTuple):
    """The places of a split's rows in the user's data: row 0 of the split is at `numbers[0]`.

    Numbers are lines of a file, from 1; without a `file`, they are rows of the dataset before any selection, from 0.
    """

    file: str | None
    numbers: Sequence[int]


def place(rows: Sequence[int], lines: FileLines | None) -> str:
    """Describe rows for a message: by line numbers if the file is known, else by row numbers of the data, from 0.

    Examples:
        >>> place([7], FileLines("d.jsonl", range(1, 10))), place([7, 8], None)
        ('line 8 of d.jsonl', 'rows 7, 8 (counted from 0)')
    """
    shown = list(rows[:SHOWN_ROWS])
    if lines is not None:
        shown = [lines.numbers[row] for row in shown]
    numbers = ", ".join(map(str, shown))
    if len(rows) > SHOWN_ROWS:
        numbers += ", ..."
    plural = "" if len(rows) == 1 else "s"
    if lines is None or lines.file is None:
        return f"row{plural} {numbers} (counted from 0)"
    return f"line{plural} {numbers} of {lines.file}"


def share_of(check: RowCheck, rows: int, where: str) -> str:
    """Count the rows with problems, as a sentence.

    Examples:
        >>> share_of(RowCheck([], 60), 900, "train")
        '0 of 60 checked rows of train (it has 900) cannot be judged'
    """
    bad = len(check.bad_rows)
    if check.checked == rows:
        return f"{bad} of {rows} rows of {where} cannot be judged"
    return (
        f"{bad} of {check.checked} checked rows of {where} (it has {rows}) cannot be judged"
    )


def describe(
    check: RowCheck, *, rows: int, where: str, lines: FileLines | None = None
) -> str:
    """Describe the problems of a check: counts by term and reason, row numbers, an example value, advice."""
    problems = check.problems
    said = [f"{share_of(check, rows, where)}:"]
    # A row may have a problem several times: several programs that solve nothing may pass its tests.
    kinds: dict[tuple[str, str], dict[int, DataProblem]] = {}
    for problem in problems:
        by_row = kinds.setdefault((problem.term, problem.reason), {})
        by_row.setdefault(problem.row, problem)
    for (term, reason), by_row in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        first = next(iter(by_row.values()))
        many = "1 row" if len(by_row) == 1 else f"{len(by_row)} rows"
        where_in_data = place(list(by_row), lines)
        name = f"{term} (weight 0)" if term in check.shadows else term
        said.append(
            f"  {name}: {reason} in {many}: {where_in_data}, such as {first.value[:80]!r}"
        )
        said.append(f"    {first.advice}")
    return "\n".join(said)


def check_routing(dataset: Any, mix: RewardMix) -> None:
    """Raise a ValueError for a term whose `when` matches no row of the training data; a stream is not looked at."""
    if not hasattr(dataset, "unique"):
        # A stream.
        return
    for term in mix.terms:
        if not isinstance(term.when, When):
            continue
        for column, wanted in term.when.conditions:
            found = _unique(dataset, column, term.name)
            if not any(value in wanted for value in found):
                shown = ", ".join(repr(value) for value in found[:SHOWN_VALUES])
                more = ", ..." if len(found) > SHOWN_VALUES else ""
                raise ValueError(
                    f"The reward term {term.name!r} applies to no row of train_dataset: its `when` wants "
                    f"`{column}` to be {' or '.join(map(repr, wanted))}, and the column has {shown}{more}."
                )


def _unique(dataset: Any, column: str, term: str) -> list[Any]:
    try:
        found: list[Any] = dataset.unique(column)
    except Exception:
        # pyarrow raises several types of exceptions for columns of lists and mappings.
        raise ValueError(
            f"The reward term {term!r} looks at the column `{column}` in its `when`, whose values cannot be compared "
            f"({dataset.features[column]}); it takes a column of texts, numbers or truth values."
        ) from None
    return found
