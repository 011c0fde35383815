"""The command line. Each command imports what it needs, so that help and typos answer at once."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trl_grpo_ext import __version__
from trl_grpo_ext.diagnostics.diagnose_command import add_diagnose_parser, run_diagnose_command
from trl_grpo_ext.lab.command import add_lab_parser, run_lab_command
from trl_grpo_ext.replay.command import add_replay_parser, run_replay_command
from trl_grpo_ext.report.command import add_report_parser, run_report_command

if TYPE_CHECKING:
    from trl_grpo_ext.recipe import Recipe

TRAIN_USAGE = "trl-grpo-ext train --config RECIPE [--FLAG VALUE ...]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(argv)
    arguments, flags = parser.parse_known_args(argv)
    if arguments.command == "train":
        return _train(arguments.config, flags)
    if arguments.command == "check-data":
        return _check_data(arguments.config, flags)
    if arguments.command in ("doctor", "sandbox-server") and not flags:
        return _run_sandbox_command(arguments)
    if arguments.command == "replay" and not flags:
        return run_replay_command(arguments)
    if arguments.command == "diagnose" and not flags:
        return run_diagnose_command(arguments)
    if arguments.command == "lab" and not flags:
        return run_lab_command(arguments)
    if arguments.command == "report" and not flags:
        return run_report_command(arguments)
    if flags:
        parser.error(f"unrecognized arguments: {' '.join(flags)}")
    return _list_recipes()


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trl-grpo-ext",
        description="GRPO on TRL with rewards that can be trusted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"trl-grpo-ext {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    train = commands.add_parser(
        "train",
        help="train by a recipe",
        usage=TRAIN_USAGE,
        allow_abbrev=False,
        description="Train by a recipe, shipped or your own.",
        epilog="Every field of TRL's GRPOConfig, ModelConfig and ScriptArguments is a flag on top of the recipe, "
        "such as --learning_rate 1e-5 or --max_steps 10.",
    )
    train.add_argument("--config", required=True, metavar="RECIPE", help="a shipped recipe's name, or a path")
    check = commands.add_parser(
        "check-data",
        help="list the rows of a recipe's data that cannot be judged",
        usage="trl-grpo-ext check-data --config RECIPE [--FLAG VALUE ...]",
        allow_abbrev=False,
        description="Judge every gold of a recipe's data against itself, and list those that fail. Ends with status 1 "
        "if there are any. Takes the flags that train takes.",
    )
    check.add_argument("--config", required=True, metavar="RECIPE", help="a shipped recipe's name, or a path")
    doctor = commands.add_parser(
        "doctor",
        help="try attacks on this machine's sandbox, and print what holds",
        allow_abbrev=False,
        description="Try to get through the walls that programs are run behind on this machine, run a collection of "
        "hostile programs, and print what holds. Ends with status 1 if something does not, 2 if there is no sandbox.",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    server = commands.add_parser(
        "sandbox-server",
        help="run programs for trainers on other machines",
        allow_abbrev=False,
        description="Serve this machine's sandbox to trainers that name it: `sandbox: http://this-machine:8750`.",
    )
    if "sandbox-server" in argv:  # what its flags need takes longer to load than help may take
        from trl_grpo_ext.sandbox.server import add_arguments

        add_arguments(server)
    add_replay_parser(commands)
    add_diagnose_parser(commands)
    add_lab_parser(commands)
    add_report_parser(commands)
    commands.add_parser("recipes", help="list the shipped recipes", description="List the shipped recipes.")
    return parser


def _list_recipes() -> int:
    from trl_grpo_ext.recipe_file import load_recipe, shipped_recipes

    names = shipped_recipes()
    width = max(map(len, names), default=0)
    for name in names:
        print(f"{name:<{width}}  {load_recipe(name).summary}")
    return 0


def _train(config: str, flags: Sequence[str]) -> int:
    from trl_grpo_ext.stopwatch import Stopwatch

    stopwatch = Stopwatch()
    try:
        with stopwatch.part("loading"):
            recipe = _read_recipe(config, flags)
            from trl_grpo_ext.run import make_trainer, run_recipe

            trainer = make_trainer(recipe)
    except (ValueError, OSError, ImportError) as error:
        return _fail(error)
    run_recipe(recipe, trainer, stopwatch)
    return 0


def _check_data(config: str, flags: Sequence[str]) -> int:
    try:
        # Nothing is trained, so nothing may depend on what this machine could train with.
        recipe = _read_recipe(config, [*flags, "--use_cpu", "true", "--bf16", "false"])
        from trl_grpo_ext.data_check import check_rows, describe
        from trl_grpo_ext.recipe_data import load_data

        splits = load_data(recipe.data)
        recipe.mix.check_columns(splits[recipe.data.dataset_train_split].column_names)
    except (ValueError, OSError, ImportError) as error:
        return _fail(error)
    bad = 0
    for split, rows in splits.items():
        problems = check_rows(recipe.mix, rows, thorough=True)
        bad += len(problems)
        print(describe(problems, rows=len(rows), where=split) if problems else f"{split}: {len(rows)} rows, all fine")
    recipe.mix.close()
    return 1 if bad else 0


def _run_sandbox_command(arguments: argparse.Namespace) -> int:
    if arguments.command == "sandbox-server":
        from trl_grpo_ext.sandbox.server import run_server

        return run_server(arguments)
    from trl_grpo_ext.sandbox.doctor import run_doctor

    return run_doctor(as_json=arguments.json)


def _read_recipe(config: str, flags: Sequence[str]) -> Recipe:
    from trl_grpo_ext.recipe_file import load_recipe, set_environment

    file = load_recipe(config)  # before the import of TRL, which takes seconds
    set_environment(file)
    # Renamings in transformers that TRL has not followed yet, and that no user can act on.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    from trl_grpo_ext.recipe import parse_recipe

    return parse_recipe(file, flags)


def _fail(error: Exception) -> int:
    print(f"trl-grpo-ext: error: {error}", file=sys.stderr)
    return 2
