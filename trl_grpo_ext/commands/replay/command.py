"""`trl-grpo-ext replay`: score a run's recorded completions by a recipe's rewards."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from trl_grpo_ext.commands.arguments import read_file
from trl_grpo_ext.commands.exit_status import FINE, refusing

DESCRIPTION = (
    "Score the recorded completions of a run by the rewards of a recipe, before paying for a new run: which verdicts "
    "and totals would change, which terms the advantages would come from, which advantages would change their "
    "sign, and which groups would have something to teach. The replay reads `rewards`, `scale_rewards` and "
    "`multi_objective_aggregation` of the recipe."
)

HELP = "score a run's recorded completions by other rewards"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "replay",
        description=DESCRIPTION,
    )
    add = parser.add_argument
    add("run", metavar="RUN", help="the output_dir of a run that recorded scorecards")
    add(
        "--config",
        required=True,
        metavar="RECIPE",
        help="a shipped recipe's name, or a path",
    )
    _add_batches(parser)
    add(
        "--rescore",
        action="store_true",
        help="judge again, even if the same verifier has judged already",
    )
    add(
        "--examples",
        type=int,
        default=2,
        metavar="N",
        help="examples of each kind of change (2)",
    )
    add("--json", metavar="FILE", help="write the figures to FILE too; - prints only JSON")


def _add_batches(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which batches of the run are replayed."""
    add = parser.add_argument
    add(
        "--steps",
        default=":",
        metavar="A:B",
        help="batches of the steps from A to B, without B",
    )
    add(
        "--limit",
        type=int,
        metavar="N",
        help="at most N completions, in batches spread over the run",
    )
    add(
        "--mode",
        choices=("train", "eval"),
        default="train",
        help="batches of training (the default)",
    )


def run(arguments: argparse.Namespace) -> int:
    with refusing():
        from trl_grpo_ext.commands.replay.printed import print_replay
        from trl_grpo_ext.commands.replay.recorded_batches import (
            Selection,
            parse_steps,
            read_new_rewards,
        )
        from trl_grpo_ext.commands.replay.replayed_run import replay_run
        from trl_grpo_ext.runs.recorded_run import RecordedRun
        from trl_grpo_ext.support.files import write_json
        from trl_grpo_ext.support.printer import print_json

        if arguments.examples < 0:
            raise ValueError(
                f"--examples is a number of examples, 0 or more; got {arguments.examples}."
            )
        file = read_file(arguments.config)
        recorded = RecordedRun(Path(arguments.run))
        rewards = read_new_rewards(file.keys, recorded)
        first, end = parse_steps(arguments.steps)
        selection = Selection(
            mode=arguments.mode, first_step=first, end_step=end, limit=arguments.limit
        )
        with closing(rewards.mix):
            replayed = replay_run(
                recorded,
                rewards,
                selection,
                rescore=arguments.rescore,
                examples=arguments.examples,
            )
        record = {"recipe": str(file.path), **replayed.to_record()}
        if arguments.json == "-":
            print_json(record)
        else:
            print_replay(replayed, str(arguments.config))
        if arguments.json not in (None, "-"):
            write_json(arguments.json, record)
    return FINE
