"""A recipe: everything a run needs, read from a YAML file of TRL's own keys and the flags on top of it."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.recipe.data import check_source
from trl_grpo_ext.recipe.file import RecipeFile
from trl_grpo_ext.recipe.mixture import check_mixture
from trl_grpo_ext.recipe.names import check_names
from trl_grpo_ext.recipe.prompts import check_examples
from trl_grpo_ext.recipe.selection import check_selection

if TYPE_CHECKING:
    from trl import ModelConfig

    from trl_grpo_ext.recipe.arguments import RecipeArguments
    from trl_grpo_ext.trainer.config import VerifiedGRPOConfig

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a run needs, checked as far as it can be without data and model."""

    name: str
    data: RecipeArguments
    training: VerifiedGRPOConfig
    model: ModelConfig
    mix: RewardMix


def parse_recipe(file: RecipeFile, flags: Sequence[str] = ()) -> Recipe:
    """Read a recipe with command-line flags on top.

    Args:
        file: The recipe.
        flags: Such as `["--learning_rate", "1e-5"]`: every field of TRL's `GRPOConfig`, `ModelConfig` and
            `ScriptArguments`, and of `RecipeArguments`.

    Raises:
        ValueError: for an unknown key or flag, naming the nearest valid one, and for values that cannot be.
    """
    check_names(file, flags)
    mix = build_mix(file.keys.get("rewards"))
    _warn_of_a_negative_primary(mix)
    _check_data_and_model(file, flags)
    # Here, because it imports TRL, which takes seconds: what the file alone tells has been checked before.
    from trl_grpo_ext.recipe.arguments import parse_arguments

    data, training, model = parse_arguments(file, flags)
    check_selection(vars(data), "The flags")
    return Recipe(name=file.name, data=data, training=training, model=model, mix=mix)


def _check_data_and_model(file: RecipeFile, flags: Sequence[str]) -> None:
    """Raise a ValueError if there is no data or model named, or data that is not there."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for name in ("dataset_name", "model_name_or_path"):
        parser.add_argument(
            f"--{name}", f"--{name.replace('_', '-')}", dest=name, nargs="?", default=file.keys.get(name)
        )
    written, _ = parser.parse_known_args(list(flags))
    if not written.model_name_or_path:
        raise ValueError(f"The recipe {file.name!r} names no model: set model_name_or_path.")
    check_selection(file.keys, f"The recipe {file.name!r}")
    check_examples(file.keys.get("few_shot") or ())
    if "datasets" in file.keys:
        if written.dataset_name:
            raise ValueError("Set `dataset_name` or `datasets`, not both.")
        check_mixture(file.keys["datasets"])
        for part in file.keys["datasets"]:
            check_source(part["dataset_name"])
        return
    if not written.dataset_name:
        raise ValueError(f"The recipe {file.name!r} names no data: set dataset_name.")
    if isinstance(written.dataset_name, str):
        check_source(written.dataset_name)


def _warn_of_a_negative_primary(mix: RewardMix) -> None:
    """Say that a run would be trained away from what it counts as right; penalties stand behind the first term."""
    name, weight = next(iter(mix.weights_at(0.0, step=0).items()))
    if weight < 0:
        logger.warning(
            "The first reward, %s, has the weight %g, so the run is trained away from what it counts as right. "
            "If it is a penalty, put it behind the term that says what is right.",
            name,
            weight,
        )
