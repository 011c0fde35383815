"""`trl-grpo-ext replay`: score a run's recorded completions by a recipe's rewards."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from trl_grpo_ext.cli.exit_status import FINE, refuse

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
    from trl_grpo_ext.recipe.file import load_recipe, set_environment
    from trl_grpo_ext.replay.recorded_batches import read_new_rewards
    from trl_grpo_ext.replay.replayed_run import replay_run
    from trl_grpo_ext.runs.recorded_run import RecordedRun

    if arguments.examples < 0:
        raise ValueError(f"--examples is a number of examples, 0 or more; got {arguments.examples}.")
    file = load_recipe(arguments.config)
    set_environment(file)
    run = RecordedRun(Path(arguments.run))
    rewards = read_new_rewards(file.keys, run)
    try:
        replayed = replay_run(
            run,
            rewards,
            _selection(arguments),
            rescore=arguments.rescore,
            examples=arguments.examples,
            watch=_with_a_bar,
        )
    finally:
        rewards.mix.close()
    if arguments.json != "-":
        from trl_grpo_ext.replay.printed import print_replay

        print_replay(replayed, str(arguments.config))
    if arguments.json is not None:
        _write_json({"recipe": str(file.path), **replayed.to_record()}, arguments.json)


def _selection(arguments: argparse.Namespace) -> Any:
    from trl_grpo_ext.replay.recorded_batches import Selection, parse_steps

    first, end = parse_steps(arguments.steps) if arguments.steps is not None else (0, None)
    return Selection(mode=arguments.mode, first_step=first, end_step=end, limit=arguments.limit)


def _with_a_bar(numbers: Any) -> Any:
    from tqdm import tqdm

    return tqdm(numbers, desc="replaying", unit="batch", leave=False, disable=None)


def _write_json(record: dict[str, Any], target: str) -> None:
    from trl_grpo_ext.support.files import plain, write_text
    from trl_grpo_ext.support.text import encodable

    text = json.dumps(plain(record), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(encodable(text))
    else:
        write_text(target, text)
