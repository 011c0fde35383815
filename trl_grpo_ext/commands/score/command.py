"""`trl-grpo-ext score FILE.jsonl`: judge completions by verifiers or by a recipe's rewards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trl_grpo_ext.commands.arguments import EXAMPLE

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
        description=DESCRIPTION,
    )
    add = parser.add_argument
    add(
        "file",
        type=Path,
        metavar="FILE.jsonl",
        help="the completions, a JSON object a line",
    )
    judges = parser.add_mutually_exclusive_group(required=True)
    judges.add_argument(
        "--verifier", action="append", metavar="NAME", help=HELP_OF_VERIFIER
    )
    judges.add_argument(
        "--config",
        metavar="RECIPE",
        help="judge by the rewards of a recipe, shipped or your own",
    )
    add(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the verdicts to this file, .jsonl or .parquet",
    )
    add("--overwrite", action="store_true", help="replace an output that exists")
    add(
        "--completion",
        default="completion",
        metavar="COLUMN",
        help="the column of the completions (completion)",
    )
    add(
        "--prompt",
        metavar="COLUMN",
        help="the column of the prompts (prompt); a recipe has `prompt_column`",
    )
    add("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.commands.score.judging import score

    return score(arguments)
