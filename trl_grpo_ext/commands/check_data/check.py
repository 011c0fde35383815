"""Check a recipe's data: example prompts, rows that verifiers cannot judge, columns with gaps, and weak tests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from trl_grpo_ext.commands.check_data.placeholders import placeholder_golds
from trl_grpo_ext.commands.check_data.whole_columns import gold_faults
from trl_grpo_ext.commands.exit_status import FINE, FOUND, refusing
from trl_grpo_ext.mix.data_check import (
    FileLines,
    VerifierFailure,
    check_routing,
    check_rows,
    describe,
    place,
    share_of,
    try_verifiers,
    with_columns,
)
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.term import RewardTerm
from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.recipe.data import load_data
from trl_grpo_ext.recipe.file_lines import file_lines
from trl_grpo_ext.recipe.recipe import Recipe
from trl_grpo_ext.recipe.rows import spread
from trl_grpo_ext.rewards.unit_tests.mutants import run_mutants
from trl_grpo_ext.rewards.unit_tests.verifier import UnitTestVerifier
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.support.progress_bar import without_warnings
from trl_grpo_ext.support.text import on_one_line
from trl_grpo_ext.trainer.guarded import environment_rows, untouched_outcomes

# Longest message or column value to print, in characters.
MAX_CHARS = 300
# Rows per chunk in the search for empty values.
ROWS_AT_ONCE = 10_000
# A column empty in a larger share of rows is taken to be optional, and not reported.
SELDOM = 0.1
# Placeholders to print.
SHOWN_TEXTS = 5
# Rows to print whose tests let the most mutants pass.
SHOWN_WEAK = 10


class _Split(NamedTuple):
    name: str
    rows: Any
    # Line numbers of the rows in their file, if known.
    lines: FileLines | None


def check_data(recipe: Recipe, *, seconds: float, with_mutants: bool) -> int:
    """Print example prompts and all problems of a recipe's data, in `seconds` a split; return the exit status."""
    with refusing():
        splits = _load(recipe)
    with closing(recipe.mix) as mix:
        _print_examples(splits[0])
        factory = recipe.agent.get("environment_factory")
        column = recipe.data.prompt_column
        summaries = []
        for split in splits:
            summaries.append(_print_problems(mix, split, factory, column, seconds))
        if with_mutants:
            for split in splits:
                _print_mutants(mix, split)
    found = [summary for summary in summaries if summary]
    if not found:
        return FINE
    # Repeat the result at the end: details of the splits may have scrolled it away.
    print("\n" + "; ".join(found))
    return FOUND


def _load(recipe: Recipe) -> list[_Split]:
    splits = load_data(recipe.data)
    train = splits[recipe.data.dataset_train_split]
    recipe.mix.check_columns(train.column_names)
    check_routing(train, recipe.mix)
    if recipe.data.dataset_streaming:
        if recipe.data.rows is None:
            raise ValueError(
                "The data is a stream (dataset_streaming); set --rows, the number of rows to check."
            )
        splits = {name: spread(rows, recipe.data.rows) for name, rows in splits.items()}
    return [
        _Split(name, rows, file_lines(recipe.data, name, rows))
        for name, rows in splits.items()
    ]


def _print_examples(split: _Split) -> None:
    """Print prompts and other columns from the first, middle and last row of a split."""
    rows = split.rows
    # A set: of a split of one or two rows each is shown once.
    for number in sorted({0, len(rows) // 2, len(rows) - 1}):
        row = dict(rows[number])
        prompt = row.pop("prompt")
        messages = (
            prompt if isinstance(prompt, list) else [{"role": "prompt", "content": prompt}]
        )
        print(f"{split.name}, {place([number], split.lines)}")
        for message in messages:
            _print_value(message["role"], message["content"])
        for name, value in row.items():
            _print_value(name, value)
    print()


def _print_value(name: str, value: Any) -> None:
    print(f"  {name}: {on_one_line(str(plain(value)), MAX_CHARS)}")


def _print_problems(
    mix: RewardMix, split: _Split, factory: Any, prompt_column: str | None, seconds: float
) -> str:
    """Print a split's bad rows and failing verifiers; return a summary, empty if all rows are fine."""
    name, rows, lines = split
    has_gaps = _print_seldom_empty(split)
    has_placeholders = _print_placeholders(mix, split)
    has_faults = _print_gold_faults(mix, split)
    has_untried = _print_untried_tests(mix, split)
    with without_warnings():
        outcomes = untouched_outcomes(factory, rows)
        outcome = outcomes[-1]
        failures = try_verifiers(mix, rows, outcome, prompt_column=prompt_column)
    environments = environment_rows(factory)
    check = check_rows(
        mix,
        rows,
        thorough=True,
        at_most_seconds=seconds,
        outcome=outcome,
        environments=environments.check,
    )
    has_failed = _print_failed_environments(outcomes, split, prompt_column)
    _print_failures(failures, split)
    if check.checked < len(rows):
        sample = f"{check.checked} of {len(rows)} rows, in {seconds:g} s"
        print(f"{name}: checked a random sample, {sample} (--seconds inf: all)")
    if check.problems:
        print(describe(check, rows=len(rows), where=name, lines=lines))
        # Rows that only a term with weight 0 cannot judge are told, and no error.
        return share_of(check, len(rows), name) if check.bad_rows else ""
    if not all(one.is_unsubmitted for one in failures):
        return f"a verifier fails on {name}"
    if has_failed:
        return f"the environment fails on {name}"
    has_told = has_gaps or has_placeholders or has_faults or has_untried or bool(failures)
    print(
        f"{name}: {check.checked} rows, {_fine(environments.unchecked, has_told=has_told)}"
    )
    return ""


def _print_failed_environments(
    outcomes: Sequence[Outcome | None], split: _Split, prompt_column: str | None
) -> bool:
    """Print the tried rows on which the environment fails; return whether any row fails."""
    has_failed = False
    for number, outcome in enumerate(outcomes):
        if outcome is not None and outcome.error:
            has_failed = True
            error = with_columns(outcome.error, split.rows[number], prompt_column)
            where = place([number], split.lines)
            print(f"{split.name}: the environment fails on {where}: {error}")
    return has_failed


def _print_failures(failures: Sequence[VerifierFailure], split: _Split) -> None:
    """Print failures of verifiers, each with the completion that it fails on."""
    for one in failures:
        print(one.describe(split.name, split.lines))
        if not one.is_unsubmitted:
            print(f"  the completion was {on_one_line(one.completion, MAX_CHARS)!r}")


def _fine(unchecked: Sequence[str], *, has_told: bool) -> str:
    """Say that no row has a problem, as far as this is known before rollouts in environments."""
    fault = "fault other than the above" if has_told else "fault"
    if not unchecked:
        return f"and the verifiers find no {fault}" if has_told else "all fine"
    return (
        f"and the verifiers find no {fault}. Rows of {', '.join(unchecked)} are judged only in a rollout: one row was "
        "reset."
    )


def _print_seldom_empty(split: _Split) -> bool:
    """Print columns with a few empty values, and return whether any has: a verifier may accept a missing gold."""
    name, rows, lines = split
    empty: dict[str, list[int]] = {}
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        table = rows.with_format("arrow")[begin : begin + ROWS_AT_ONCE]
        for column in table.column_names:
            (places,) = np.nonzero(table[column].is_null())
            empty.setdefault(column, []).extend((begin + places).tolist())
    has_any = False
    for column, numbers in empty.items():
        is_seldom = 0 < len(numbers) <= SELDOM * len(rows)
        if is_seldom:
            print(f"{name}: the column `{column}` is empty in {place(numbers, lines)}")
            has_any = True
    return has_any


def _print_placeholders(mix: RewardMix, split: _Split) -> bool:
    """Print golds that look like placeholders, and return whether any does: an answer that says so would be right."""
    placeholders = list(placeholder_golds(mix, split.rows))
    for found in placeholders:
        texts = ", ".join(map(repr, found.texts[:SHOWN_TEXTS]))
        print(
            f"{split.name}: `{found.column}` may lack a gold in {place(found.rows, split.lines)}: {texts}, while "
            f"{found.with_digits} of the {found.others} other golds have digits. An answer that says so is right "
            f"there: drop the rows, or mend them."
        )
    return bool(placeholders)


def _print_gold_faults(mix: RewardMix, split: _Split) -> bool:
    """Print gold columns with contradictions or without change, and return whether there are any."""
    faults = list(gold_faults(mix, split.rows, split.lines))
    for fault in faults:
        print(f"{split.name}: {fault}")
    return bool(faults)


def _print_untried_tests(mix: RewardMix, split: _Split) -> bool:
    """Print how many rows have no reference solution, which alone tries their tests; return whether any has none."""
    name, rows, _ = split
    has_any = False
    for term, verifier in mix.verifiers:
        if not isinstance(verifier, UnitTestVerifier) or verifier.run_only:
            continue
        untried = _without_reference(term, verifier, rows)
        if untried:
            has_any = True
            print(
                f"{name}, {term.name}: no right program was run on the tests of {untried} of {len(rows)} rows. If a "
                f"column has right programs, name it as `reference_column` of {term.name!r}."
            )
    return has_any


def _without_reference(term: RewardTerm, verifier: UnitTestVerifier, rows: Any) -> int:
    """Count the rows to which a term applies, and which have no reference solution."""
    columns = verifier.reference_columns
    if term.when is None:
        known = [column for column in columns if column in rows.column_names]
        if not known:
            return len(rows)
        # Tests may be long, and are not needed.
        rows = rows.select_columns(known)
    return sum(term.applies(row) and first_value(row, columns) is None for row in rows)


def _print_mutants(mix: RewardMix, split: _Split) -> None:
    """Print how many mutants of reference solutions pass their tests, and rows with the weakest tests."""
    for term, verifier in mix.verifiers:
        if not isinstance(verifier, UnitTestVerifier):
            continue
        runs = run_mutants(verifier, list(split.rows))
        passed = sum(len(run.passed) for run in runs)
        tried = sum(run.tried for run in runs)
        weak = [run for run in runs if run.passed]
        weak.sort(key=lambda run: len(run.passed), reverse=True)
        print(
            f"{split.name}, {term.name}: {passed} of {tried} mutants pass the tests, in {len(weak)} of {len(runs)} rows"
        )
        for run in weak[:SHOWN_WEAK]:
            print(
                f"  {place([run.row], split.lines)}: {len(run.passed)} of {run.tried}, such as {run.passed[0]}"
            )
