"""`trl-grpo-ext check-data`: a few of a recipe's prompts, and the rows of its data that cannot be judged."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.cli.exit_status import FINE, FOUND, refuse
from trl_grpo_ext.cli.train import add_config, read_recipe

if TYPE_CHECKING:
    from trl_grpo_ext.mix.reward_mix import RewardMix

MAX_CHARS = 300  # of a message, or of a column
SHOWN_WEAK = 10  # rows whose tests miss most

HELP = "show some prompts of a recipe's data, and list the rows that cannot be judged"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "check-data",
        usage="trl-grpo-ext check-data --config RECIPE [--FLAG VALUE ...]",
        description="Show three prompts of a recipe's data, as the model gets them, with the other columns. Then judge "
        "every gold against itself, and list those that fail, and let every verifier judge a row, to see whether it "
        "fails. Ends with status 1 if anything does. Takes the flags that train takes.",
    )
    add_config(parser)
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="run small faults of each reference solution, to find tests that miss them",
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        mix, splits = _load(arguments.config, arguments.flags)
    except (ValueError, OSError, ImportError) as error:
        return refuse(error)
    try:
        _print_examples(splits)
        found = sum([_print_problems(mix, split, rows) for split, rows in splits.items()])
        if arguments.mutants:
            for split, rows in splits.items():
                _print_mutants(mix, split, rows)
        return FOUND if found else FINE
    finally:
        mix.close()


def _load(config: str, flags: Sequence[str]) -> tuple[RewardMix, dict[str, Any]]:
    # Nothing is trained, so nothing may depend on what this machine could train with.
    recipe = read_recipe(config, [*flags, "--use_cpu", "true", "--bf16", "false"])
    from trl_grpo_ext.recipe.data import load_data

    splits = load_data(recipe.data)
    recipe.mix.check_columns(splits[recipe.data.dataset_train_split].column_names)
    return recipe.mix, splits


def _print_examples(splits: Mapping[str, Any]) -> None:
    """Print the prompts of the first, the middle and the last row of the first split, with their other columns."""
    from trl_grpo_ext.support.text import on_one_line

    split, rows = next(iter(splits.items()))
    if not hasattr(rows, "__len__"):  # a stream
        return
    for place in sorted({0, len(rows) // 2, len(rows) - 1}):
        row = dict(rows[place])
        prompt = row.pop("prompt")
        messages = prompt if isinstance(prompt, list) else [{"role": "prompt", "content": prompt}]
        print(f"row {place} of {split}")
        for name, value in [*((one["role"], one["content"]) for one in messages), *row.items()]:
            print(f"  {name}: {on_one_line(str(value), MAX_CHARS)}")
    print()


def _print_problems(mix: RewardMix, split: str, rows: Any) -> int:
    """Print the problems of a split, and the verifiers that fail on it; returns how many there are."""
    from trl_grpo_ext.mix.data_check import check_rows, describe, try_verifiers
    from trl_grpo_ext.support.text import on_one_line

    problems = check_rows(mix, rows, thorough=True)
    logging.disable(logging.WARNING)  # a traceback, of which the finding has the place
    try:
        failures = try_verifiers(mix, rows)
    finally:
        logging.disable(logging.NOTSET)
    for one in failures:
        print(f"{split}: the verifier of {one.term!r} fails on row {one.row}: {one.advice}")
        print(f"  the completion was {on_one_line(one.value, MAX_CHARS)!r}")
    if problems or not failures:
        print(describe(problems, rows=len(rows), where=split) if problems else f"{split}: {len(rows)} rows, all fine")
    return len(problems) + len(failures)


def _print_mutants(mix: RewardMix, split: str, rows: Any) -> None:
    """Print how many mutants of the reference solutions pass their tests, and the rows with most of them."""
    from trl_grpo_ext.rewards.unit_tests.mutants import run_mutants
    from trl_grpo_ext.rewards.unit_tests.verifier import UnitTestVerifier

    for term, verifier in mix.verifiers:
        if not isinstance(verifier, UnitTestVerifier):
            continue
        runs = run_mutants(verifier, list(rows))
        weak = sorted((run for run in runs if run.passed), key=lambda run: -len(run.passed))
        passed, tried = (sum(counts) for counts in ([len(run.passed) for run in runs], [run.tried for run in runs]))
        print(f"{split}, {term.name}: {passed} of {tried} mutants pass the tests, in {len(weak)} of {len(runs)} rows")
        for run in weak[:SHOWN_WEAK]:
            print(f"  row {run.row}: {len(run.passed)} of {run.tried}, such as {run.passed[0]}")
