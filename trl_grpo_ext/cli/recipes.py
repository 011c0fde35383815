"""`trl-grpo-ext recipes`: list the shipped recipes, print one of them, or list the names of verifiers."""

from __future__ import annotations

import argparse
from typing import Any

from trl_grpo_ext.commands.exit_status import FINE, in_two_columns, print_text, refusing

HELP = "list the shipped recipes, or print one"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "recipes",
        description="List the shipped recipes. With --show, print one as its file is, to begin your own with: "
        "trl-grpo-ext recipes --show quickstart > my.yaml",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--show", metavar="NAME", help="print this recipe's YAML")
    shown.add_argument(
        "--verifiers",
        action="store_true",
        help="list the names for `verifier:`, also those of other packages",
    )


def run(arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.recipe.file import load_recipe, shipped_recipes
    from trl_grpo_ext.rewards.registry import claims_on, verifier_names

    with refusing():
        if arguments.show is not None:
            print_text(load_recipe(arguments.show).path.read_text(encoding="utf-8"))
        elif arguments.verifiers:
            claims = {name: "; ".join(claims_on(name)) for name in verifier_names()}
            print_text(in_two_columns(claims))
        else:
            summaries = {name: load_recipe(name).summary for name in shipped_recipes()}
            print_text(in_two_columns(summaries))
    return FINE
