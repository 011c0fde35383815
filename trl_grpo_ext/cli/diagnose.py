"""`trl-grpo-ext diagnose RUN`: print a run's diagnosis."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trl_grpo_ext.commands.exit_status import FINE, refuse, refusing

HOW_TO_RECORD = (
    "TRL's own GRPOTrainer records nothing. `trl-grpo-ext train` does, and so does VerifiedGRPOTrainer, which takes "
    "the same arguments."
)

HELP = "say in one sentence what holds a run's reward back"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "diagnose",
        description="Read what a run has recorded, and say what holds its reward back: the sentence, the findings in "
        "order of cause, and a few completions. The run may be going on.",
    )
    parser.add_argument("run", metavar="RUN", help="the output_dir of a run")
    parser.add_argument(
        "--examples",
        type=int,
        default=3,
        metavar="N",
        help="completions to quote (default: 3)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.diagnostics.diagnosis import diagnose, recent_drivers
    from trl_grpo_ext.diagnostics.printed import print_diagnosis
    from trl_grpo_ext.runs.recorded_run import RecordedRun
    from trl_grpo_ext.support.printer import print_json

    if not Path(arguments.run).is_dir():
        return refuse(f"There is no folder {arguments.run!r}.")
    try:
        run = RecordedRun(arguments.run)
    except FileNotFoundError as error:
        return refuse(f"{error} {HOW_TO_RECORD}")
    with refusing():
        diagnosis = diagnose(run, most_examples=max(0, arguments.examples))
        drivers = recent_drivers(run.iterate_logs())
    if arguments.json:
        print_json(diagnosis.to_record() | {"drivers": drivers})
    else:
        print_diagnosis(diagnosis, drivers)
    return FINE
