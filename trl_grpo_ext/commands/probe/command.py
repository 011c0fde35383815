"""`trl-grpo-ext probe`: what a recipe's data would teach its model, before a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trl_grpo_ext.commands.arguments import add_config, count, read_recipe
from trl_grpo_ext.commands.exit_status import FINE, refusing

PROMPTS, SAMPLES = 200, 8

HELP = "ask before a run what the data would teach"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "probe",
        description="Generate completions of a sample of the training data as training does, judge them, train "
        "nothing, and say whether to go on: how often prompts are solved, how many groups of each size would be live, "
        "and what is in the way. Leaves rates.jsonl, for rows_from.",
        epilog="Every flat key of a recipe is a flag too, such as --use_vllm true.",
    )
    add = parser.add_argument
    add_config(parser)
    add(
        "--limit",
        type=count,
        default=PROMPTS,
        metavar="N",
        help=f"prompts, spread ({PROMPTS})",
    )
    add(
        "--samples",
        type=count,
        default=SAMPLES,
        metavar="K",
        help=f"completions each ({SAMPLES})",
    )
    add(
        "--output_dir",
        type=Path,
        metavar="FOLDER",
        help="(the recipe's output_dir and -probe)",
    )
    add("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    with refusing():
        if arguments.samples < 2:
            raise ValueError(
                "A probe compares the completions of a prompt: --samples is 2 or more."
            )
        recipe = read_recipe(arguments.config, arguments.flags)
        from trl_grpo_ext.commands.runner import (
            EvaluationPlan,
            check_model,
            generate,
            load_rows,
        )

        split = recipe.data.dataset_train_split
        plan = EvaluationPlan(split=split, samples=arguments.samples, limit=arguments.limit)
        model = str(recipe.model.model_name_or_path)
        check_model(model, recipe)
        folder = arguments.output_dir or Path(f"{recipe.training.output_dir}-probe")
        is_main = generate(recipe, plan, load_rows(recipe, plan), model, folder)
    recipe.mix.close()
    if is_main:
        from trl_grpo_ext.commands.probe.figures import show_probe

        show_probe(folder, as_json=arguments.json)
    return FINE
