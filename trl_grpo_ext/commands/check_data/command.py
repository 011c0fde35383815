"""`trl-grpo-ext check-data`: print example prompts of a recipe, and dataset rows that verifiers cannot judge."""

from __future__ import annotations

import argparse
from typing import Any

from trl_grpo_ext.commands.arguments import NO_TRAINING, add_config, read_recipe
from trl_grpo_ext.commands.exit_status import refusing

SECONDS = 60.0

HELP = "show some prompts of a recipe's data, and list the rows that cannot be judged"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "check-data",
        description="Show three prompts of a recipe's data, as the model gets them, with the other columns. Then judge "
        "every gold against itself, and list those that fail, and let every verifier judge a row, to see whether it "
        "fails. Ends with status 1 if anything does. Takes the flags that train takes.",
    )
    add_config(parser)
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"time for each split, {SECONDS:g} by default; a random sample is checked of what takes longer",
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="run small faults of each reference solution, to find tests that miss them",
    )


def run(arguments: argparse.Namespace) -> int:
    with refusing():
        recipe = read_recipe(arguments.config, [*arguments.flags, *NO_TRAINING])
    from trl_grpo_ext.commands.check_data.check import check_data

    return check_data(recipe, seconds=arguments.seconds, with_mutants=arguments.mutants)
