"""The command line. Each command imports what it needs when it runs, so that help and typos answer at once."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trl_grpo_ext.cli.audit import add_audit_parser, run_audit_command
from trl_grpo_ext.cli.check_data import add_check_data_parser, run_check_data_command
from trl_grpo_ext.cli.diagnose import add_diagnose_parser, run_diagnose_command
from trl_grpo_ext.cli.docs import add_docs_parser, run_docs_command
from trl_grpo_ext.cli.doctor import add_doctor_parser, run_doctor_command
from trl_grpo_ext.cli.eval import add_eval_parser, run_eval_command
from trl_grpo_ext.cli.exit_status import INTERRUPTED
from trl_grpo_ext.cli.init import add_init_parser, run_init_command
from trl_grpo_ext.cli.lab import add_lab_parser, run_lab_command
from trl_grpo_ext.cli.recipes import add_recipes_parser, run_recipes_command
from trl_grpo_ext.cli.replay import add_replay_parser, run_replay_command
from trl_grpo_ext.cli.report import add_report_parser, run_report_command
from trl_grpo_ext.cli.score import add_score_parser, run_score_command
from trl_grpo_ext.cli.train import add_train_parser, run_train_command
from trl_grpo_ext.support.version import __version__


class Command(NamedTuple):
    """A command.

    Attributes:
        add_parser: Adds what it takes to `argparse`'s sub-commands, without loading anything heavy.
        run: Does it; returns the exit status.
        parses_flags: Whether it parses flags itself, those that its parser does not know, as `arguments.flags`.
    """

    add_parser: Callable[[Any], None]
    run: Callable[[argparse.Namespace], int]
    parses_flags: bool = False


GROUPS: Mapping[str, Mapping[str, Command]] = {
    "train and measure": {
        "train": Command(add_train_parser, run_train_command, parses_flags=True),
        "eval": Command(add_eval_parser, run_eval_command, parses_flags=True),
        "audit": Command(add_audit_parser, run_audit_command),
    },
    "data": {
        "check-data": Command(add_check_data_parser, run_check_data_command, parses_flags=True),
        "score": Command(add_score_parser, run_score_command),
    },
    "runs": {
        "diagnose": Command(add_diagnose_parser, run_diagnose_command),
        "report": Command(add_report_parser, run_report_command),
        "replay": Command(add_replay_parser, run_replay_command),
    },
    "set up and learn": {
        "init": Command(add_init_parser, run_init_command),
        "recipes": Command(add_recipes_parser, run_recipes_command),
        "doctor": Command(add_doctor_parser, run_doctor_command),
        "docs": Command(add_docs_parser, run_docs_command),
        "lab": Command(add_lab_parser, run_lab_command),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    _print_any_text()
    arguments = parse(argv)
    try:
        return COMMANDS[arguments.command].run(arguments)
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of a command line: its `command`, what that takes, and `flags` that the command parses itself.

    Raises:
        SystemExit: for what no command takes, and where help is asked for.
    """
    parser = argparse.ArgumentParser(
        prog="trl-grpo-ext",
        usage="trl-grpo-ext COMMAND ...",
        description="GRPO on TRL with rewards that can be trusted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"trl-grpo-ext {__version__}")
    commands = _Commands(
        parser.add_subparsers(
            prog=parser.prog, dest="command", required=True, metavar="COMMAND", help=argparse.SUPPRESS
        )
    )
    for command in COMMANDS.values():
        command.add_parser(commands)
    parser.epilog = commands.listed()
    arguments, flags = parser.parse_known_args(argv)
    if flags and not COMMANDS[arguments.command].parses_flags:
        parser.error(f"unrecognized arguments: {' '.join(flags)}")
    arguments.flags = flags
    return arguments


class _Commands:
    """`argparse`'s sub-commands, whose helps it cannot list in groups."""

    def __init__(self, commands: Any) -> None:
        self.commands = commands
        self.helps: dict[str, str] = {}

    def add_parser(self, name: str, *, help: str, **rest: Any) -> argparse.ArgumentParser:  # noqa: A002  # its name there
        self.helps[name] = help
        parser: argparse.ArgumentParser = self.commands.add_parser(name, **rest)
        return parser

    def listed(self) -> str:
        """The helps of all commands, in groups."""
        groups = (
            "\n".join([f"{title}:", *(f"  {name:<12}{self.helps[name]}" for name in group)])
            for title, group in GROUPS.items()
        )
        return "\n\n".join([*groups, "`trl-grpo-ext COMMAND --help` says what a command takes."])


def _print_any_text() -> None:
    """Let what stdout has no code for be escaped, as stderr does: completions and data hold any text."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
