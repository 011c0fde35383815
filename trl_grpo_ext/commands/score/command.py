"""`trl-grpo-ext score FILE.jsonl`: judge completions by verifiers or by a recipe's rewards."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.commands.arguments import EXAMPLE, read_file, rewards_entry
from trl_grpo_ext.commands.exit_status import FOUND, INTERRUPTED, refuse

if TYPE_CHECKING:
    from trl_grpo_ext.commands.tally import Tally
    from trl_grpo_ext.mix.reward_mix import RewardMix

DESCRIPTION = (
    "Judge the completions of a file: JSON Lines, each row with a `completion` (a text or a conversation) and the "
    "columns that the verifiers need, such as `prompt` and `solution`. Ends with status 2 if something is wrong with "
    "the file or the arguments, with 1 if the grader failed on more than a tenth of the rows, and with 130 if it was "
    "interrupted."
)
HELP_OF_VERIFIER = (
    "what judges: a name of `trl-grpo-ext recipes --verifiers`, an import path, or an entry of a recipe's rewards, "
    f"such as {EXAMPLE}. It can be given several times"
)

HELP = "judge the completions of a file"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        usage="trl-grpo-ext score FILE.jsonl (--verifier NAME ... | --config RECIPE) [--output FILE] [--overwrite] "
        "[--completion COLUMN] [--json]",
        description=DESCRIPTION,
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.jsonl", help="the completions, a JSON object a line")
    judges = parser.add_mutually_exclusive_group(required=True)
    judges.add_argument("--verifier", action="append", metavar="NAME", help=HELP_OF_VERIFIER)
    judges.add_argument("--config", metavar="RECIPE", help="judge by the rewards of a recipe, shipped or your own")
    add("--output", type=Path, metavar="FILE", help="write the verdicts to this file, .jsonl or .parquet")
    add("--overwrite", action="store_true", help="replace an output that exists")
    add("--completion", default="completion", metavar="COLUMN", help="the column of the completions (completion)")
    add("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.commands.tally import Tally, print_summary, status_of
    from trl_grpo_ext.mix.reward_mix import UnscoredError
    from trl_grpo_ext.support.printer import print_json

    started, tally = time.monotonic(), Tally()
    try:
        _score(arguments, tally)
    except (ValueError, OSError, ImportError) as error:
        return refuse(f"{tally}; then: {error}" if tally.rows else error)
    # Raised only if the recipe asks for an error on unscored rows.
    except UnscoredError as error:
        refuse(error)
        return FOUND
    except KeyboardInterrupt:
        print(f"Interrupted: {_left(tally, arguments.output)}.", file=sys.stderr)
        return INTERRUPTED
    output = None if arguments.output is None else str(arguments.output)
    seconds = round(time.monotonic() - started, 2)
    summary = {"file": str(arguments.file), **tally.to_record(), "seconds": seconds, "output": output}
    (print_json if arguments.json else print_summary)(summary)
    return status_of(tally)


def _left(tally: Tally, output: Path | None) -> str:
    """Describe the partial output of an interrupted command; delete an unfinished output without rows."""
    from trl_grpo_ext.support.files import unfinished_path

    unfinished = None if output is None else unfinished_path(output)
    if tally.rows:
        is_kept = unfinished is not None and unfinished.exists()
        return f"{tally}; their verdicts are in {unfinished}" if is_kept else str(tally)
    if unfinished is not None:
        unfinished.unlink(missing_ok=True)
    return "nothing was judged"


def _score(arguments: argparse.Namespace, tally: Tally) -> None:
    """Check output, rewards and file, then judge the file."""
    from trl_grpo_ext.commands.rows import CompletionFile
    from trl_grpo_ext.commands.score.judging import check_output, judge_file

    if arguments.output is not None:
        check_output(arguments.output, overwrite=arguments.overwrite, source=arguments.file)
    with closing(_mix(arguments)) as mix:
        judge_file(mix, CompletionFile.check(arguments.file, arguments.completion), arguments.output, tally)


def _mix(arguments: argparse.Namespace) -> RewardMix:
    from trl_grpo_ext.mix.described import build_mix

    if arguments.config is None:
        return build_mix([rewards_entry(text, "--verifier") for text in arguments.verifier], each="--verifier")
    keys = read_file(arguments.config).keys
    return build_mix(keys.get("rewards")).for_limit(keys.get("max_completion_length"))
