"""`trl-grpo-ext report`: write a run, or two runs side by side, as an HTML page that opens offline."""

from __future__ import annotations

import argparse
from typing import Any

from trl_grpo_ext.commands.exit_status import FINE, refusing

HELP = "write a run's report, or one of two runs side by side"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        description="Write what a run has recorded as one HTML file that opens offline: RUN/report.html. The run may "
        "be going on. For two runs, FIRST/report-vs-SECOND.html shows their figures side by side.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the output_dir of a run")
    parser.add_argument("--output", metavar="FILE", help="where to write")
    parser.add_argument(
        "--completions",
        type=int,
        default=5000,
        metavar="N",
        help="about how many completions to show; of a larger run the important ones and a sample (default: 5000)",
    )


def run(arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.report.write import write_report

    with refusing():
        print(
            write_report(
                arguments.runs, arguments.output, completions=arguments.completions
            )
        )
    return FINE
