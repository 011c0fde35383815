"""`trl-grpo-ext eval`: evaluate a model by a recipe's rewards, or compare two models on equal prompts."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.commands.arguments import add_config, count, read_recipe
from trl_grpo_ext.commands.exit_status import FINE, refusing
from trl_grpo_ext.recipe.hub import check_model_folder

if TYPE_CHECKING:
    from trl_grpo_ext.commands.runner import EvaluationPlan
    from trl_grpo_ext.recipe.recipe import Recipe

EXTRA = "Every flat key of a recipe is a flag too, such as --max_completion_length 2048, --seed 1 or --use_vllm true."

HELP = "evaluate a model, or compare two"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "eval",
        description="Generate completions as training does, judge them by a recipe's rewards, and train nothing. Ends "
        "with status 2 if it cannot begin, and with 1 if the grader failed on more than a tenth of the completions.",
        epilog=EXTRA,
    )
    add = parser.add_argument
    add_config(parser)
    add(
        "--model",
        nargs="+",
        metavar="MODEL",
        help="one model, or two to compare: a Hub id, a checkpoint, a PEFT adapter, or the folder of an evaluation "
        "that was made before (the recipe's model)",
    )
    _add_prompts(parser)
    add(
        "--k",
        type=_counts,
        metavar="K,...",
        help="the k of pass@k and maj@k (1 and the completions a prompt)",
    )
    add(
        "--temperature",
        type=float,
        metavar="T",
        help="as in the recipe; 0 takes the likeliest token each time",
    )
    add(
        "--output_dir",
        type=Path,
        metavar="FOLDER",
        help="holds a folder a model (the recipe's output_dir and -eval)",
    )
    add("--json", action="store_true", help="print the figures as JSON")


def _add_prompts(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which prompts get completions, and how many."""
    add = parser.add_argument
    add(
        "--split",
        metavar="NAME",
        help="the split of the data (the recipe's dataset_test_split)",
    )
    add(
        "--samples",
        type=count,
        metavar="N",
        help="completions a prompt (the recipe's num_generations_eval)",
    )
    add(
        "--limit",
        type=count,
        metavar="N",
        help="at most so many prompts, spread over the split (all)",
    )


def _counts(text: str) -> list[int]:
    return sorted({count(part) for part in text.split(",")})


def run(arguments: argparse.Namespace) -> int:
    with refusing():
        models = [model_name(name) for name in arguments.model or ()]
        recipe, plan = _read(arguments, models)
        from trl_grpo_ext.commands.eval.evaluated import check_ks
        from trl_grpo_ext.commands.runner import (
            check_model,
            generate,
            is_evaluation,
            load_rows,
        )

        models = models or [model_name(str(recipe.model.model_name_or_path))]
        made_before = [is_evaluation(model) for model in models]
        for model in models:
            check_model(model, recipe)
        if not all(made_before):
            check_ks(arguments.k, plan.samples)
            data = load_rows(recipe, plan)
    above = arguments.output_dir or Path(f"{recipe.training.output_dir}-eval")
    folders = {}
    is_main = True
    for label, model, is_made in zip(labels(models), models, made_before, strict=True):
        if is_made:
            folders[label] = Path(model)
        else:
            folders[label] = above / label
            is_main = generate(recipe, plan, data, model, folders[label])
    recipe.mix.close()
    if not is_main:
        return FINE
    with refusing():
        return _show(arguments, recipe, folders)


def _show(
    arguments: argparse.Namespace, recipe: Recipe, folders: Mapping[str, Path]
) -> int:
    """Print the evaluations in the folders, each under its label, and return the exit status."""
    from trl_grpo_ext.commands.eval.evaluated import read_evaluation
    from trl_grpo_ext.commands.eval.printed import show_evaluations
    from trl_grpo_ext.commands.tally import status_of

    found = [
        read_evaluation(folder, label, arguments.k) for label, folder in folders.items()
    ]
    show_evaluations(
        found,
        list(folders.values()),
        report=recipe.training.write_report,
        as_json=arguments.json,
    )
    return max(status_of(one.tally) for one in found)


def model_name(name: str) -> str:
    """Resolve a model's name to a Hub id or a path that TRL can load.

    Raises:
        ValueError: if a folder or a bundled name does not exist.
    """
    from trl_grpo_ext.assets import resolve

    check_model_folder(name, "--model")
    path = Path(name).expanduser()
    if path.is_dir():
        return str(path)
    return resolve(name)


def labels(models: Sequence[str]) -> list[str]:
    """Return a distinct label per model; the label also names its output folder.

    Examples:
        >>> labels(["Qwen/Qwen2.5-0.5B-Instruct", "runs/gsm8k/checkpoint-100"])
        ['Qwen2.5-0.5B-Instruct', 'gsm8k-checkpoint-100']
    """
    paths = [Path(model).absolute() for model in models]
    with_parents = ["-".join(path.parts[-2:]) for path in paths]
    found = []
    for path, with_parent in zip(paths, with_parents, strict=True):
        # Every run has a checkpoint-100.
        is_checkpoint = path.name.startswith("checkpoint-")
        found.append(with_parent if is_checkpoint else path.name)
    if len(set(found)) < len(found):
        found = with_parents
    if len(set(found)) < len(found):
        found = [f"{name}-{number}" for number, name in enumerate(found, 1)]
    return found


def _read(
    arguments: argparse.Namespace, models: Sequence[str]
) -> tuple[Recipe, EvaluationPlan]:
    """Parse the recipe with all flags, and plan the evaluation."""
    if len(models) > 2:
        raise ValueError(f"--model takes one model, or two to compare; got {len(models)}.")
    temperature = arguments.temperature
    flags = list(arguments.flags)
    if temperature == 0 and (arguments.samples or 1) > 1:
        raise ValueError(
            f"At temperature 0 the completions of a prompt are all the same; got --samples {arguments.samples}."
        )
    # Sampling at temperature 0 is refused by transformers; `greedy` stands for it.
    if temperature:
        flags += ["--temperature", str(temperature)]
    if models:
        flags += ["--model_name_or_path", models[0]]
    recipe = read_recipe(arguments.config, flags)
    from trl_grpo_ext.commands.runner import EvaluationPlan

    training = recipe.training
    is_greedy = temperature == 0
    samples = arguments.samples
    if samples is None and is_greedy:
        samples = 1
    elif samples is None:
        samples = training.num_generations_eval or training.num_generations
    plan = EvaluationPlan(
        split=arguments.split or recipe.data.dataset_test_split,
        samples=samples,
        limit=arguments.limit,
        greedy=is_greedy,
    )
    return recipe, plan
