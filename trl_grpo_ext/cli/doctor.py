"""`trl-grpo-ext doctor`: test the sandbox's walls on this machine."""

from __future__ import annotations

import argparse
from typing import Any

HELP = "try attacks on this machine's sandbox, and print what holds"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        description="Try to get through the walls that programs are run behind on this machine, and print what holds, "
        "and which packages they can import. Ends with status 1 if an attack gets through a wall that is there, or if "
        "numpy is installed and cannot be imported, 2 if there is no sandbox.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from trl_grpo_ext.doctor import run_doctor

    return run_doctor(as_json=arguments.json)
