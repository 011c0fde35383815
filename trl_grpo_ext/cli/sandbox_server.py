"""`trl-grpo-ext sandbox-server`: run programs for trainers on other machines."""

from __future__ import annotations

import argparse
from typing import Any

NAME = "sandbox-server"


def add_sandbox_server_parser(commands: Any) -> None:
    """Add the command to `argparse`'s sub-commands; its flags, `--help` among them, are left for `arguments.flags`."""
    commands.add_parser(NAME, help="run programs for trainers on other machines", add_help=False, allow_abbrev=False)


def run_sandbox_server_command(arguments: argparse.Namespace) -> int:
    """Serve until told to end; returns the exit status."""
    # What its flags need takes longer to load than the help of other commands may take.
    from trl_grpo_ext.sandbox.server import add_arguments, run_server

    parser = argparse.ArgumentParser(
        prog=f"trl-grpo-ext {NAME}",
        allow_abbrev=False,
        description="Serve this machine's sandbox to trainers that name it: `sandbox: http://this-machine:8750`.",
    )
    add_arguments(parser)
    return run_server(parser.parse_args(arguments.flags))
