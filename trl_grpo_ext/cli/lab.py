"""`trl-grpo-ext lab`: train a ten-action policy by GRPO and by REINFORCE, and write a page that compares them."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.commands.exit_status import FINE, refuse

if TYPE_CHECKING:
    from trl_grpo_ext.lab.landscape import Landscape
    from trl_grpo_ext.lab.training import LabRun

PAGE = "lab.html"
# A flag with a number: its name, the least and the default value, the value's name in the help, and the help.
NUMBERS = (
    ("--num_generations", 2, 8, "G", "the size of a group"),
    ("--num_iterations", 1, 2, "N", "GRPO's updates a group"),
    ("--epsilon", 0.0, 0.2, "E", "how far GRPO's ratio may go from 1"),
    ("--beta", 0.0, 0.04, "B", "the weight of GRPO's KL penalty"),
    ("--learning_rate", 0.0, 0.5, "LR", "the learning rate of all three"),
    ("--max_steps", 1, 200, "N", "updates, of each of the three"),
)

HELP = "train a policy of ten actions in seconds, and see each step"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "lab",
        description="Train a softmax over ten actions by TRL's GRPO, and by REINFORCE with and without a baseline, and "
        "write a page that shows every step. The flags bear the names of TRL's own.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--landscape",
        choices=("single", "double", "linear"),
        default="single",
        help="what the actions earn",
    )
    add(
        "--peak",
        type=int,
        choices=range(1, 11),
        default=7,
        metavar="ACTION",
        help="the single peak's action, 1 to 10",
    )
    for flag, least, default, metavar, told in NUMBERS:
        add(flag, type=_at_least(least), default=default, metavar=metavar, help=told)
    add("--seed", type=int, default=0, metavar="N", help="the seed of the samples")
    add(
        "--output_dir",
        default="runs/lab",
        metavar="FOLDER",
        help="where the runs and the page go",
    )
    add("--no_comparison", action="store_true", help="GRPO only")


def _at_least(least: int | float) -> Callable[[str], int | float]:
    """Build an argparse type: a finite number of at least `least`, int or float like `least`."""
    kind = type(least)

    def parse(text: str) -> int | float:
        number = kind(text)
        # `float` reads `nan` and `inf`, too; NaN is not below any bound.
        if not math.isfinite(number) or number < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number of {least} or more")
        return number

    # argparse uses this name in its message if `kind` cannot read the text.
    parse.__name__ = "number" if kind is float else "whole number"
    return parse


def run(arguments: argparse.Namespace) -> int:
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    try:
        runs = _train(arguments)
    except (ValueError, OSError, FloatingPointError) as error:
        return refuse(error)
    landscape = _landscape(arguments)
    page = _write_page(Path(arguments.output_dir), runs, landscape)
    _print_table(runs, landscape)
    print(f"\nThe page: {page}")
    return FINE


def _landscape(arguments: argparse.Namespace) -> Landscape:
    from trl_grpo_ext.lab.landscape import double_peak, linear, single_peak

    if arguments.landscape == "single":
        return single_peak(arguments.peak)
    if arguments.landscape == "double":
        return double_peak()
    return linear()


def _train(arguments: argparse.Namespace) -> list[LabRun]:
    from transformers.utils import logging

    from trl_grpo_ext.lab.training import ALGORITHMS, run_lab

    logging.set_verbosity_error()
    # Hide transformers' bar for loading twelve weights.
    logging.disable_progress_bar()
    names = ["grpo"] if arguments.no_comparison else [*ALGORITHMS]
    runs = []
    for name in names:
        settings = {
            "num_generations": arguments.num_generations,
            "learning_rate": arguments.learning_rate,
        }
        # REINFORCE has one update a batch, and no clipping.
        if name == "grpo":
            settings["num_iterations"] = arguments.num_iterations
            settings["epsilon"] = arguments.epsilon
            settings["beta"] = arguments.beta
        run = run_lab(
            _landscape(arguments),
            Path(arguments.output_dir) / name,
            steps=arguments.max_steps,
            seed=arguments.seed,
            algorithm=name,
            **settings,
        )
        runs.append(run)
    return runs


def _write_page(folder: Path, runs: Sequence[LabRun], landscape: Landscape) -> Path:
    from trl_grpo_ext.lab.page import lab_page

    page = folder / PAGE
    page.write_text(
        lab_page(runs, f"GRPO on ten actions: {landscape.name}"), encoding="utf-8"
    )
    return page


def _print_table(runs: Sequence[LabRun], landscape: Landscape) -> None:
    from rich.console import Console

    from trl_grpo_ext.lab.landscape import ACTIONS
    from trl_grpo_ext.support.printer import WholeTable

    title = f"{landscape.name}, after {runs[0].steps} updates"
    table = WholeTable(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("")
    for name in (
        f"p({landscape.best})",
        "max p",
        "entropy",
        "KL",
        "reward",
        "samples",
        "seconds",
    ):
        table.add_column(name, justify="right")
    for run in runs:
        last = run.history
        figures = (
            last.probabilities[-1, ACTIONS.index(landscape.best)],
            last.max_probability[-1],
            last.entropy[-1],
            last.kl[-1],
            last.expected_reward(landscape.rewards)[-1],
        )
        samples = sum(len(card) for card in run.cards)
        # `z`: a tiny negative number shows as 0.000, not as -0.000.
        cells = [f"{figure:z.3f}" for figure in figures]
        table.add_row(run.algorithm.title, *cells, str(samples), f"{run.seconds:.1f}")
    Console().print(table)
