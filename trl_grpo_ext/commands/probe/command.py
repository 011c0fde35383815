"""`trl-grpo-ext probe`: what a recipe's data would teach its model, before a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.commands.arguments import add_config, count, read_recipe
from trl_grpo_ext.commands.exit_status import FINE, refusing

if TYPE_CHECKING:
    from trl_grpo_ext.commands.probe.figures import Probe

PROMPTS, SAMPLES = 200, 8

HELP = "ask before a run what the data would teach"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "probe",
        usage="trl-grpo-ext probe --config RECIPE [--limit N] [--samples K] [--FLAG VALUE ...]",
        description="Generate completions of a sample of the training data as training does, judge them, train "
        "nothing, and say whether to go on: how often prompts are solved, how many groups of each size would be live, "
        "and what is in the way. Leaves rates.jsonl, for rows_from.",
        epilog="Every flag of train can be given too, such as --use_vllm true.",
    )
    add = parser.add_argument
    add_config(parser)
    add("--limit", type=count, default=PROMPTS, metavar="N", help=f"prompts, spread ({PROMPTS})")
    add("--samples", type=count, default=SAMPLES, metavar="K", help=f"completions each ({SAMPLES})")
    add("--output_dir", type=Path, metavar="FOLDER", help="(the recipe's output_dir and -probe)")
    add("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    with refusing():
        if arguments.samples < 2:
            raise ValueError("A probe compares the completions of a prompt: --samples is 2 or more.")
        recipe = read_recipe(arguments.config, arguments.flags)
        from trl_grpo_ext.commands.runner import EvaluationPlan, check_model, generate, load_rows

        split = recipe.data.dataset_train_split
        plan = EvaluationPlan(split=split, samples=arguments.samples, limit=arguments.limit)
        model = str(recipe.model.model_name_or_path)
        check_model(model, recipe)
        folder = arguments.output_dir or Path(f"{recipe.training.output_dir}-probe")
        is_main = generate(recipe, plan, load_rows(recipe, plan), model, folder)
    recipe.mix.close()
    if is_main:
        _show(folder, as_json=arguments.json)
    return FINE


def _show(folder: Path, *, as_json: bool) -> None:
    """Write the figures and the rates of the rows, and print the figures."""
    from trl_grpo_ext.commands.probe.figures import probe
    from trl_grpo_ext.runs.recorded_run import RecordedRun
    from trl_grpo_ext.runs.successes import RATES, successes_of, write_rates
    from trl_grpo_ext.support.files import write_json
    from trl_grpo_ext.support.printer import print_json

    recorded = RecordedRun(folder)
    cards = list(recorded.cards("eval"))
    found = probe(cards, recorded.settings)
    write_rates(folder / RATES, successes_of(cards))
    write_json(folder / "probe.json", found.to_record())
    if as_json:
        print_json(found.to_record())
    else:
        print("\n".join([*_lines(found), f"The rate of each row, for rows_from: {folder / RATES}"]))


def _lines(found: Probe) -> list[str]:
    from trl_grpo_ext.commands.probe.figures import told
    from trl_grpo_ext.diagnostics.batches import percent

    kinds = ", ".join(f"{name} {told(share)}" for name, share in found.kinds.items())
    differs = ", ".join(f"{term} {percent(share)}" for term, share in found.differs.items())
    lines = [
        found.sentence,
        f"{found.prompts} prompts, {found.samples} completions each; in brackets, 95 % intervals.",
        f"success rate     {told(found.rate)}",
        f"prompts solved   {kinds}",
    ]
    for size, share in found.live.items():
        each = "" if share is None else f", {1000 * share.mean / size:.0f} live groups per 1,000 completions"
        best = " (the most)" if size == found.best_size else ""
        lines.append(f"groups of {size:<7}{told(share)} live{each}{best}")
    return [
        *lines,
        f"cut              {told(found.cut)}",
        f"not readable     {told(found.unparsed)}",
        f"no verdict       {told(found.void)}",
        f"differ in groups {differs}",
        f"judging          {1e3 * found.seconds:.2g} ms a completion",
    ]
