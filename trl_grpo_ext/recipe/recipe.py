"""A recipe: all settings of a run, from a YAML file of TRL's own keys and from command-line flags."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.mix.reward_plan import check_weights
from trl_grpo_ext.recipe.agent import agent_arguments
from trl_grpo_ext.recipe.data import check_source, number_or_text
from trl_grpo_ext.recipe.file import RecipeFile, check_names, check_numbers
from trl_grpo_ext.recipe.hub import check_model_folder, go_offline_without_hub
from trl_grpo_ext.recipe.rows import check_mixture, check_selection
from trl_grpo_ext.trainer.trl_settings import check_batches, check_settings

if TYPE_CHECKING:
    from trl import ModelConfig

    from trl_grpo_ext.recipe.arguments import RecipeArguments
    from trl_grpo_ext.trainer.config import VerifiedGRPOConfig

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A parsed recipe, checked as far as possible without data and model."""

    name: str
    data: RecipeArguments
    training: VerifiedGRPOConfig
    model: ModelConfig
    mix: RewardMix
    # The trainer's arguments `environment_factory` and `tools`, if the recipe has any.
    agent: Mapping[str, Any] = field(default_factory=dict)


def parse_recipe(file: RecipeFile, flags: Sequence[str] = ()) -> Recipe:
    """Parse a recipe file; flags override keys of the file.

    Flags, such as `["--learning_rate", "1e-5"]`, set fields of TRL's `GRPOConfig`, `ModelConfig` and `ScriptArguments`,
    and of `RecipeArguments`.

    Raises:
        ValueError: for an unknown key or flag, with the nearest valid name, and for invalid values.
    """
    mix = check_file(file, flags)
    _warn_of_a_negative_primary(mix)
    announce_loading()
    written = written_values(file.keys, flags)
    # Before TRL is imported: Hugging Face's libraries read the variable on import.
    go_offline_without_hub(written["model_name_or_path"], written.get("dataset_name"))
    from trl_grpo_ext.recipe.arguments import parse_arguments

    data, training, model = parse_arguments(file, flags)
    # The file's own values are checked by `check_file`; flags that replace them are parsed only now.
    check_selection(vars(data), "The flags")
    # The limit may come from a flag or from TRL's default, so it is known only here.
    mix = mix.for_limit(training.max_completion_length)
    agent = agent_arguments(file.keys, mix)
    return Recipe(
        name=file.name,
        data=data,
        training=training,
        model=model,
        mix=mix,
        agent=agent,
    )


def announce_loading() -> None:
    """Print to stderr, on the main process, that TRL's import starts: it takes seconds."""
    # Launchers number the processes of a machine.
    is_main = os.environ.get("LOCAL_RANK", "0") == "0"
    # A process that has TRL already, such as a notebook, has nothing to wait for.
    if is_main and "trl" not in sys.modules:
        print("loading TRL and torch ...", file=sys.stderr, flush=True)


def check_file(
    file: RecipeFile, flags: Sequence[str], processes: int | None = None
) -> RewardMix:
    """Check a recipe file and flags as far as possible without TRL, and return its reward mix.

    `processes` is the number of training processes; None reads it from the launcher's environment, 0 means unknown.

    Raises:
        ValueError: for an unknown key or flag, for missing rewards, data or model, and for invalid settings.
    """
    check_names(file, flags)
    mix = build_mix(file.keys.get("rewards"))
    agent = agent_arguments(file.keys, mix)
    # With an environment, its own reward may be the only term with weight.
    if not agent.get("environment_factory"):
        weights = mix.weights_at(0.0, step=0)
        check_weights(list(weights.values()))
    written = written_values(file.keys, flags)
    if not written.get("model_name_or_path"):
        raise ValueError(
            f"The recipe {file.name!r} names no model: set model_name_or_path."
        )
    check_selection(file.keys, f"The recipe {file.name!r}")
    check_model_folder(str(written["model_name_or_path"]), "model_name_or_path")
    _check_data(file, written.get("dataset_name"))
    check_numbers(written)
    check_settings(SimpleNamespace(**written))
    if processes != 0:
        check_batches(written, processes)
    return mix


def written_values(keys: Mapping[str, Any], flags: Sequence[str]) -> dict[str, Any]:
    """Merge a recipe's keys and flags; of a flag with several values, only the first is kept.

    Examples:
        >>> written_values({"max_steps": 5, "learning_rate": "1e-5"}, ["--max-steps=3", "--use_vllm", "--beta", "0"])
        {'max_steps': 3, 'learning_rate': 1e-05, 'use_vllm': True, 'beta': 0}
    """
    values = dict(keys)
    # `--` ends the list, so that the last flag has a successor.
    for flag, following in itertools.pairwise([*flags, "--"]):
        if not flag.startswith("--"):
            continue
        name, equals, value = flag.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if equals:
            values[key] = value
        # A flag without a value is a switch.
        elif following.startswith("--"):
            values[key] = True
        else:
            values[key] = following
    # Flags are texts, and PyYAML reads `1e-5`, which has no dot, as a text: later checks compare numbers.
    for key, value in values.items():
        if isinstance(value, str):
            values[key] = number_or_text(value)
    return values


def _check_data(file: RecipeFile, dataset_name: object) -> None:
    """Raise a ValueError if the recipe names no data, or names data that does not exist."""
    if "datasets" in file.keys:
        if dataset_name:
            raise ValueError("Set `dataset_name` or `datasets`, not both.")
        check_mixture(file.keys["datasets"])
        for part in file.keys["datasets"]:
            check_source(part["dataset_name"])
        return
    if not dataset_name:
        raise ValueError(f"The recipe {file.name!r} names no data: set dataset_name.")
    if isinstance(dataset_name, str):
        check_source(dataset_name)


def _warn_of_a_negative_primary(mix: RewardMix) -> None:
    """Warn if the first term in force has a negative weight: training would lower the score reported as accuracy.

    A penalty belongs after that term. Terms of weight 0 only watch.
    """
    weights = mix.weights_at(0.0, step=0)
    in_force = ((name, weight) for name, weight in weights.items() if weight)
    name, weight = next(in_force, ("", 0.0))
    if weight < 0:
        logger.warning(
            "The first reward in force, %s, has the weight %g, so the run is trained away from what it counts as "
            "right. If it is a penalty, put it behind the term that says what is right.",
            name,
            weight,
        )
