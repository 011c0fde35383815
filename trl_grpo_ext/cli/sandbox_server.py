"""`trl-grpo-ext sandbox-server`: run programs for trainers on other machines."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.cli.exit_status import FINE, refuse

if TYPE_CHECKING:
    from trl_grpo_ext.sandbox.server import Settings

NAME = "sandbox-server"

logger = logging.getLogger(__name__)


def add_sandbox_server_parser(commands: Any) -> None:
    """Add the command to `argparse`'s sub-commands; its flags, `--help` among them, are left for `arguments.flags`."""
    commands.add_parser(NAME, help="run programs for trainers on other machines", add_help=False, allow_abbrev=False)


def run_sandbox_server_command(arguments: argparse.Namespace) -> int:
    """Serve as the flags say until told to end; returns the exit status."""
    flags = _parser().parse_args(arguments.flags)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        return _serve(flags)
    except (ValueError, OSError) as error:
        return refuse(error)


def _parser() -> argparse.ArgumentParser:
    # What the flags need takes longer to load than the help of other commands may take.
    from trl_grpo_ext.sandbox.access_token import TOKEN_VARIABLE
    from trl_grpo_ext.sandbox.server import DEFAULT_HOST, DEFAULT_PORT

    parser = argparse.ArgumentParser(
        prog=f"trl-grpo-ext {NAME}",
        allow_abbrev=False,
        description="Serve this machine's sandbox to trainers that name it: `sandbox: http://this-machine:8750`.",
    )
    parser.add_argument("--host", default=DEFAULT_HOST, help=f"the address to listen at ({DEFAULT_HOST})")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"the port ({DEFAULT_PORT})")
    parser.add_argument(
        "--token-file", metavar="PATH", help=f"the file of the secret that clients send; without it, ${TOKEN_VARIABLE}"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="programs to run at a time (one a core)")
    packages = "a folder of packages that programs may import"
    parser.add_argument("--packages", action="append", default=[], metavar="FOLDER", help=packages)
    _add_most(parser)
    unsafe = "run programs without walls where this machine has none: they can then do what you can"
    parser.add_argument("--allow-unsafe", action="store_true", help=unsafe)
    return parser


def _add_most(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how much clients may ask for."""
    from trl_grpo_ext.sandbox.server import MAXIMA, Settings

    usual = Settings()
    parser.add_argument(
        "--max-waiting",
        type=int,
        default=usual.max_waiting,
        metavar="N",
        help=f"requests at a time; others are told that the server is busy ({usual.max_waiting})",
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=MAXIMA.wall_seconds,
        metavar="S",
        help=f"the most wall time, and CPU time, that a job may ask for ({MAXIMA.wall_seconds:g})",
    )
    parser.add_argument(
        "--max-memory-mb",
        type=int,
        default=MAXIMA.memory_mb,
        metavar="MIB",
        help=f"the most memory that a job may ask for ({MAXIMA.memory_mb})",
    )


def _serve(flags: argparse.Namespace) -> int:
    from trl_grpo_ext.sandbox.access_token import read_token
    from trl_grpo_ext.sandbox.local import LocalSandbox
    from trl_grpo_ext.sandbox.server import SandboxServer, serve
    from trl_grpo_ext.workers.pool import usable_cores

    token = read_token(flags.token_file)
    _warn_of_readers(flags.token_file)
    missing = [folder for folder in flags.packages if not Path(folder).is_dir()]
    if missing:
        raise ValueError(f"--packages names {missing[0]!r}, which is not a folder.")
    settings = _settings(flags)
    workers = usable_cores() if flags.workers is None else flags.workers
    sandbox = LocalSandbox(workers, packages=flags.packages, allow_unsafe=flags.allow_unsafe)
    sandbox.check()
    with SandboxServer(flags.host, flags.port, token, sandbox, settings) as server:
        shown = f"[{flags.host}]" if ":" in flags.host else flags.host
        what = f"{workers} workers, isolation {server.isolation}"
        logger.info("Serving at http://%s:%d, %s", shown, server.server_port, what)
        try:
            serve(server)
        finally:
            sandbox.close()
    return FINE


def _settings(flags: argparse.Namespace) -> Settings:
    from trl_grpo_ext.sandbox.job import Limits
    from trl_grpo_ext.sandbox.server import MAXIMA, Settings

    if flags.max_waiting < 1:
        raise ValueError(f"--max-waiting is a whole number above 0, got {flags.max_waiting}.")
    limits = MAXIMA.to_record() | {
        "wall_seconds": flags.max_seconds,
        "cpu_seconds": flags.max_seconds,
        "memory_mb": flags.max_memory_mb,
    }
    return Settings(
        max_waiting=flags.max_waiting,
        max_connections=max(64, 4 * flags.max_waiting),
        maxima=Limits(**limits),
    )


def _warn_of_readers(file: str | None) -> None:
    if file is not None and Path(file).stat().st_mode & 0o077:
        logger.warning("The token in %s can be read by others on this machine; `chmod 600` it.", file)
