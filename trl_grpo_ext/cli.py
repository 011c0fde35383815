"""The command line. Each command imports what it needs, so that help and typos answer at once."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from trl_grpo_ext import __version__

TRAIN_USAGE = "trl-grpo-ext train --config RECIPE [--FLAG VALUE ...]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = _parser()
    arguments, flags = parser.parse_known_args(argv)
    if arguments.command == "train":
        return _train(arguments.config, flags)
    if flags:
        parser.error(f"unrecognized arguments: {' '.join(flags)}")
    return _list_recipes()


def _parser() -> argparse.ArgumentParser:
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
    from trl_grpo_ext.recipe_file import load_recipe
    from trl_grpo_ext.stopwatch import Stopwatch

    stopwatch = Stopwatch()
    try:
        with stopwatch.part("loading"):
            file = load_recipe(config)  # before the import of TRL, which takes seconds
            # Renamings in transformers that TRL has not followed yet, and that no user can act on.
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            from trl_grpo_ext.recipe import parse_recipe

            recipe = parse_recipe(file, flags)
            from trl_grpo_ext.run import make_trainer, run_recipe

            trainer = make_trainer(recipe)
    except (ValueError, OSError, ImportError) as error:
        print(f"trl-grpo-ext: error: {error}", file=sys.stderr)
        return 2
    run_recipe(recipe, trainer, stopwatch)
    return 0
