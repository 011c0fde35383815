"""`trl-grpo-ext replay`: score a run's recorded completions by a recipe's rewards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trl_grpo_ext.commands.arguments import read_file
from trl_grpo_ext.commands.exit_status import FINE, refuse

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
        usage="trl-grpo-ext replay RUN --config RECIPE [--steps A:B] [--limit N] [--rescore] [--json FILE]",
        description=DESCRIPTION,
    )
    parser.add_argument("run", metavar="RUN", help="the output_dir of a run that recorded scorecards")
    parser.add_argument("--config", required=True, metavar="RECIPE", help="a shipped recipe's name, or a path")
    parser.add_argument("--steps", metavar="A:B", help="batches of the steps from A to B, without B")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N completions, in batches spread over the run")
    parser.add_argument("--mode", choices=("train", "eval"), default="train", help="batches of training (the default)")
    parser.add_argument(
        "--rescore", action="store_true", help="judge again, even if the same verifier has judged already"
    )
    parser.add_argument("--examples", type=int, default=2, metavar="N", help="examples of each kind of change (2)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE too; - prints only JSON")


def run(arguments: argparse.Namespace) -> int:
    try:
        _replay(arguments)
    except (ValueError, OSError, ImportError) as error:
        return refuse(error)
    return FINE


def _replay(arguments: argparse.Namespace) -> None:
    from trl_grpo_ext.commands.printer import print_json
    from trl_grpo_ext.commands.replay.printed import print_replay
    from trl_grpo_ext.commands.replay.recorded_batches import Selection, parse_steps, read_new_rewards
    from trl_grpo_ext.commands.replay.replayed_run import replay_run
    from trl_grpo_ext.runs.recorded_run import RecordedRun
    from trl_grpo_ext.support.files import write_json

    if arguments.examples < 0:
        raise ValueError(f"--examples is a number of examples, 0 or more; got {arguments.examples}.")
    file = read_file(arguments.config)
    run = RecordedRun(Path(arguments.run))
    rewards = read_new_rewards(file.keys, run)
    try:
        first, end = parse_steps(arguments.steps or ":")
        selection = Selection(mode=arguments.mode, first_step=first, end_step=end, limit=arguments.limit)
        replayed = replay_run(run, rewards, selection, rescore=arguments.rescore, examples=arguments.examples)
    finally:
        rewards.mix.close()
    record = {"recipe": str(file.path), **replayed.to_record()}
    if arguments.json == "-":
        print_json(record)
        return
    print_replay(replayed, str(arguments.config))
    if arguments.json is not None:
        write_json(arguments.json, record)
