"""`trl-grpo-ext recipes`: the shipped recipes, as a list or one as its file."""

from __future__ import annotations

import argparse
from typing import Any

from trl_grpo_ext.cli.exit_status import FINE, print_text, refuse


def add_recipes_parser(commands: Any) -> None:
    """Add the command to `argparse`'s sub-commands."""
    parser = commands.add_parser(
        "recipes",
        help="list the shipped recipes, or print one",
        allow_abbrev=False,
        description="List the shipped recipes. With --show, print one as its file is, to begin your own with: "
        "trl-grpo-ext recipes --show quickstart > my.yaml",
    )
    parser.add_argument("--show", metavar="NAME", help="print this recipe's YAML")


def run_recipes_command(arguments: argparse.Namespace) -> int:
    """Print the list or the recipe; returns the exit status."""
    from trl_grpo_ext.recipe.file import load_recipe

    try:
        print_text(_list() if arguments.show is None else load_recipe(arguments.show).path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        return refuse(error)
    return FINE


def _list() -> str:
    from trl_grpo_ext.recipe.file import load_recipe, shipped_recipes

    names = shipped_recipes()
    width = max(map(len, names), default=0)
    return "\n".join(f"{name:<{width}}  {load_recipe(name).summary}" for name in names)
