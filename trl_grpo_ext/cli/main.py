"""The command line. Commands import heavy libraries when they run, so help and typos are answered at once."""

from __future__ import annotations

import argparse
import io
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

from trl_grpo_ext.cli import diagnose, docs, doctor, init, lab, recipes, report, train
from trl_grpo_ext.commands.audit import command as audit
from trl_grpo_ext.commands.check_data import command as check_data
from trl_grpo_ext.commands.eval import command as evaluate
from trl_grpo_ext.commands.exit_status import INTERRUPTED, RefusedError, refuse
from trl_grpo_ext.commands.probe import command as probe
from trl_grpo_ext.commands.replay import command as replay
from trl_grpo_ext.commands.score import command as score
from trl_grpo_ext.support.text import did_you_mean, nearest
from trl_grpo_ext.support.version import __version__

# Each module has `add_parser`, which adds the command's arguments to argparse without heavy imports; `HELP`, a line for
# the list of commands; and `run`, which executes the command and returns its exit status.
GROUPS: Mapping[str, Mapping[str, ModuleType]] = {
    "train and measure": {"probe": probe, "train": train, "eval": evaluate, "audit": audit},
    "data": {"check-data": check_data, "score": score},
    "runs": {"diagnose": diagnose, "report": report, "replay": replay},
    "set up and learn": {
        "init": init,
        "recipes": recipes,
        "doctor": doctor,
        "docs": docs,
        "lab": lab,
    },
}
# Commands that parse further flags themselves, from `arguments.flags`.
PARSE_FLAGS = ("train", "eval", "probe", "check-data")
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    # Completions hold any character; a terminal's encoding may lack some, so escape them.
    # Notebooks and tests put a stream of another kind there, which has no `reconfigure`.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = parse(argv)
    try:
        return int(COMMANDS[arguments.command].run(arguments))
    except RefusedError as error:
        return refuse(error)
    except KeyboardInterrupt:
        # A new line, since the terminal shows `^C` in this one.
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line into its `command`, the command's arguments, and `flags` that the command parses itself.

    Raises:
        SystemExit: after help, for an unknown command, and for arguments that the command does not take.
    """
    parser, commands = _parsers()
    asked = next(iter(sys.argv[1:] if argv is None else argv), "-")
    if not asked.startswith("-") and asked not in COMMANDS:
        raise SystemExit(
            refuse(f"There is no command `{asked}`. {did_you_mean(asked, COMMANDS)}")
        )
    if asked in COMMANDS:
        words = (sys.argv[1:] if argv is None else argv)[1:]
        _check_flags(asked, words, commands)
        if (
            asked in PARSE_FLAGS
            and words
            and not words[0].startswith("-")
            and "--config" not in words
        ):
            raise SystemExit(
                refuse(f"A recipe is named by a flag: `--config {words[0]}`.", asked)
            )
    arguments, flags = parser.parse_known_args(argv)
    if flags and arguments.command not in PARSE_FLAGS:
        commands[arguments.command].error(f"unrecognized arguments: {' '.join(flags)}")
    arguments.flags = flags
    return arguments


def _parsers() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Build the parser of the command line, and return it with each command's own parser."""
    parser = argparse.ArgumentParser(
        prog="trl-grpo-ext",
        usage="trl-grpo-ext COMMAND ...",
        description="GRPO on TRL with rewards that can be trusted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"trl-grpo-ext {__version__}"
    )
    commands = parser.add_subparsers(
        prog=parser.prog,
        dest="command",
        required=True,
        metavar="COMMAND",
        help=argparse.SUPPRESS,
    )
    for command in COMMANDS.values():
        command.add_parser(commands)
    for name, own in commands.choices.items():
        own.allow_abbrev = False
        if name in PARSE_FLAGS:
            own.usage = (
                f"{own.format_usage().removeprefix('usage: ').rstrip()} [--FLAG VALUE ...]"
            )
    parser.epilog = _listed_commands()
    return parser, commands.choices


def _listed_commands() -> str:
    """List the commands by groups, which argparse cannot."""
    lines = []
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        for name, command in group.items():
            lines.append(f"  {name:<12}{command.HELP}")
        lines.append("")
    lines.append("`trl-grpo-ext COMMAND --help` says what a command takes.")
    return "\n".join(lines)


def _check_flags(
    command: str, words: Sequence[str], commands: Mapping[str, argparse.ArgumentParser]
) -> None:
    """Refuse unknown flags with status 2, before argparse complains about missing arguments."""
    own = _flags(commands[command])
    # Words after `--` are values, also if they begin with dashes.
    for word in itertools.takewhile(lambda word: word != "--", words):
        flag = word.partition("=")[0]
        # A text with a space is a value, such as a mapping in braces.
        is_unknown = flag.startswith("--") and " " not in flag and flag not in own
        if not is_unknown:
            continue
        error = (
            _of_unknown_field(flag, command, commands)
            if command in PARSE_FLAGS
            else _of_unknown_flag(flag, own)
        )
        if error:
            raise SystemExit(refuse(error, command))


def _of_unknown_flag(flag: str, own: Iterable[str]) -> str:
    long = [name for name in own if name.startswith("--")]
    return f"Unknown flag `{flag}`. {did_you_mean(flag, long)}"


def _of_unknown_field(
    flag: str, command: str, commands: Mapping[str, argparse.ArgumentParser]
) -> str:
    """Return an error message for a flag unknown to command and configuration; empty for a known flag."""
    from trl_grpo_ext.recipe.file import SHORT, flags_of_fields, unknown_flag

    fields = flags_of_fields()
    if flag in fields:
        return ""
    # The command has few flags: one that is hardly alike would hide a nearer field of TRL's.
    near = nearest(flag, _flags(commands[command]), likeness=0.8)
    if near:
        return f"Unknown flag `{flag}`. Did you mean `{near}`?"
    name = flag.removeprefix("--")
    takers = [other for other in PARSE_FLAGS if flag in _flags(commands[other])]
    if takers and name not in SHORT:
        told = " and ".join(f"`{other}`" for other in takers)
        return f"`{flag}` is a flag of {told}, not of `{command}`."
    return unknown_flag(name, fields)


def _flags(parser: argparse.ArgumentParser) -> Iterable[str]:
    # argparse has no public list of a parser's flags.
    return parser._option_string_actions
