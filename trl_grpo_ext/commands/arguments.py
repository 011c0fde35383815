"""Arguments that several commands share: a recipe, and verifiers by name."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trl_grpo_ext.recipe.file import RecipeFile
    from trl_grpo_ext.recipe.recipe import Recipe

# Flags for commands that train nothing: nothing may depend on what this machine could train with.
NO_TRAINING = ("--use_cpu", "true", "--bf16", "false")
EXAMPLE = "'{verifier: math, mode: boxed_only}'"


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names a recipe."""
    parser.add_argument(
        "--config",
        required=True,
        metavar="RECIPE",
        help="a shipped recipe's name, or a path",
    )


def count(text: str) -> int:
    """Parse a whole number, at least 1."""
    # `int` alone would take `-1`, and `1_0` as 10.
    if not text.strip().isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def read_file(config: str) -> RecipeFile:
    """Load a recipe's file by name or path, and set the environment that it asks for.

    Raises:
        ValueError: for an unknown recipe, and for an invalid `env` or executor.
    """
    from trl_grpo_ext.recipe.file import load_recipe, set_environment

    file = load_recipe(config)
    set_environment(file)
    return file


def read_recipe(config: str, flags: Sequence[str]) -> Recipe:
    """Load a recipe by name or path, and apply the flags.

    Raises:
        ValueError: for an unknown recipe, and for invalid keys, values or flags.
    """
    from trl_grpo_ext.recipe.recipe import parse_recipe

    file = read_file(config)
    # TRL still uses old names of transformers; users cannot act on these warnings.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    return parse_recipe(file, flags)


def rewards_entry(text: str, name: str) -> Any:
    """Parse a verifier as written on the command line: its name, or an entry of a recipe's `rewards` in YAML.

    `name` names the argument in messages.

    Raises:
        ValueError: for text that is neither.
    """
    import yaml

    try:
        written = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{name} {text!r} is neither a name nor valid YAML.") from None
    if isinstance(written, dict):
        return written
    _, colon, attribute = text.partition(":")
    # `module:name` is a path; `math:mode=boxed` tries to give arguments.
    if colon and not attribute.isidentifier():
        raise ValueError(
            f"{name} {text!r}: write arguments as an entry of a recipe's rewards, {EXAMPLE}."
        )
    return {"verifier": text}
