"""`trl-grpo-ext train`: train a model by a recipe."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.commands.arguments import add_config, read_recipe
from trl_grpo_ext.commands.exit_status import (
    FINE,
    HALTED,
    INTERRUPTED,
    NOTHING_LEARNED,
    TERMINATED,
    refusing,
)
from trl_grpo_ext.support.text import did_you_mean

if TYPE_CHECKING:
    from trl_grpo_ext.trainer.verified_grpo import VerifiedGRPOTrainer

# Time limit in seconds for the report after Ctrl-C, or after SIGTERM: Slurm kills 30 seconds later.
REPORT_SECONDS = 20.0
# Flags for a dry run: train on one batch, write no files, and upload nothing.
DRY_RUN = "--max_steps 1 --logging_steps 1 --evaluate_before_and_after false --eval_strategy no --save_strategy no"
DRY_RUN += " --load_best_model_at_end false --push_to_hub false --report_to none --write_report false"

HELP = "train by a recipe"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        description="Train by a recipe, shipped or your own. Ends with status 2 if it cannot begin, 3 if a finding "
        "that halt_on names has ended it, and 4 if nothing could be judged.",
        epilog="Every field of TRL's GRPOConfig, ModelConfig and ScriptArguments is a flag on top of the recipe, "
        "such as --learning_rate 1e-5 or --max_steps 10. The lines that it prints while it trains are explained by: "
        "trl-grpo-ext docs metrics#console",
    )
    add_config(parser)
    parser.add_argument(
        "--accelerate_config",
        metavar="NAME",
        help="train in several processes, by this configuration of TRL's or file",
    )
    parser.add_argument(
        "--num_processes",
        metavar="N",
        help="how many processes; it wins over the configuration",
    )
    # Set by `_launch` for the processes that it starts, so that they can print the whole command.
    parser.add_argument("--launched_with", default="", help=argparse.SUPPRESS)
    parser.add_argument(
        "--dry_run",
        "--dry-run",
        action="store_true",
        help="train on one batch, to see that all works; keep nothing",
    )


def run(arguments: argparse.Namespace) -> int:
    # The processes that `_launch` starts get neither flag, so they train.
    if arguments.accelerate_config or arguments.num_processes:
        return _launch(arguments)
    with redirect_stdout(_Lasting(sys.stdout)), redirect_stderr(_Lasting(sys.stderr)):
        return _train_or_try(arguments)


class _Lasting(io.TextIOBase):
    """A stream wrapper that drops output after a write error: a closed terminal or full disk must not end a run."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        return self._stream is not None and bool(self._stream.isatty())

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def write(self, text: str) -> int:
        # A full disk, a closed stream, and None, which a process without a terminal has as its stream.
        with suppress(OSError, ValueError, AttributeError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError, AttributeError):
            self._stream.flush()


def _train_or_try(arguments: argparse.Namespace) -> int:
    if not arguments.dry_run:
        return _train(arguments)
    with tempfile.TemporaryDirectory() as folder:
        # At the end: of a flag that is given twice, argparse takes the last.
        arguments.flags += [*DRY_RUN.split(), "--output_dir", folder]
        status = _train(arguments)
    if status == FINE:
        print("One batch was trained on. Nothing was kept.")
    return status


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which Slurm sends when a job's time is over."""


@contextmanager
def ending_at_sigterm(is_wanted: bool) -> Iterator[None]:
    """Raise `_Terminated` in the block at the first SIGTERM, if nobody else handles it; a second one kills."""
    is_main = threading.current_thread() is threading.main_thread()
    is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not (is_wanted and is_main and is_free):
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise _Terminated


def _leave_to_the_system() -> None:
    """Let SIGTERM end a forked process, such as a pool's worker, at once and without a word.

    Python would run the handler only after a system call that had just begun, such as a long wait.
    """
    if signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_leave_to_the_system)


def _train(arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    with refusing():
        recipe = read_recipe(arguments.config, arguments.flags)
        # After the recipe is read, which finds typos before TRL is imported, for seconds.
        from trl_grpo_ext.recipe.run import make_trainer, run_recipe

        trainer = make_trainer(recipe)
    # From here on an error is no refusal of the command: it keeps its traceback.
    try:
        # Of several processes, the launcher tells the others.
        with ending_at_sigterm(trainer.accelerator.num_processes == 1):
            summary = run_recipe(
                recipe, trainer, time.perf_counter() - began, keeps=not arguments.dry_run
            )
    except _Terminated:
        _tell_what_is_left(trainer, arguments, "Ended by SIGTERM")
        return TERMINATED
    except KeyboardInterrupt:
        _tell_what_is_left(trainer, arguments, "Interrupted")
        return INTERRUPTED
    except Exception as error:
        # Before the first step nothing is lost.
        if trainer.state.global_step:
            _tell_what_is_left(trainer, arguments, f"Ended by {type(error).__name__}")
        raise
    if trainer.run_callback.has_halted:
        return HALTED
    return NOTHING_LEARNED if summary["nothing_learned"] else FINE


def _tell_what_is_left(
    trainer: VerifiedGRPOTrainer, arguments: argparse.Namespace, how: str
) -> None:
    """Write the report of an interrupted run, and print its path with the command that resumes the run.

    The main process alone does, and not for a dry run. `how` begins the line: `Interrupted`, `Ended by ValueError`.
    """
    from transformers.trainer_utils import get_last_checkpoint

    from trl_grpo_ext.report.write import write_report

    if arguments.dry_run or not trainer.accelerator.is_main_process:
        return
    folder = trainer.args.output_dir
    said = f"{how} after step {trainer.state.global_step}"
    try:
        report = write_report([folder], seconds=REPORT_SECONDS)
    # Ctrl-C may come before anything was recorded; the user is told of the interruption all the same.
    except (OSError, ValueError):
        print(f"\n{said}: nothing was recorded.", file=sys.stderr)
        return
    print(f"\n{said}. Report: {report}.", file=sys.stderr)
    if checkpoint := get_last_checkpoint(folder):
        written = [
            "--config",
            arguments.config,
            *shlex.split(arguments.launched_with),
            *arguments.flags,
        ]
        command = shlex.join(
            # At the end, where it wins over the user's own flag.
            ["trl-grpo-ext", "train", *written, "--resume_from_checkpoint", "true"]
        )
        print(f"To go on from {checkpoint}:\n  {command}", file=sys.stderr)
    else:
        print(
            "No checkpoint was saved; `save_strategy: steps` and `save_steps: N` save some.",
            file=sys.stderr,
        )


def _launch(arguments: argparse.Namespace) -> int:
    """Replace this process by `accelerate launch`, which runs this command in several processes; return if refused."""
    from trl_grpo_ext.recipe.file import load_recipe
    from trl_grpo_ext.recipe.recipe import check_file

    with refusing():
        launch = _launch_arguments(arguments.accelerate_config, arguments.num_processes)
        processes = arguments.num_processes or _written_processes(launch[1])
        # Check here once, so that errors are not printed by every process.
        check_file(load_recipe(arguments.config), arguments.flags, int(processes))
    dry_run = ["--dry_run"] if arguments.dry_run else []
    asked = ["--accelerate_config", arguments.accelerate_config]
    if arguments.num_processes:
        asked += ["--num_processes", arguments.num_processes]
    own = ["--config", arguments.config, "--launched_with", shlex.join(asked), *dry_run]
    command = ["trl_grpo_ext", "train", *own, *arguments.flags]
    # In place of this process: Ctrl-C and signals then reach the launcher itself.
    return os.execv(
        sys.executable,
        [sys.executable, "-m", "accelerate.commands.launch", *launch, "-m", *command],
    )


def _launch_arguments(config: str | None, processes: str | None) -> list[str]:
    """Build the arguments of `accelerate launch` from a configuration (TRL's name or a path) and a process count.

    Raises:
        ValueError: for a missing or unknown configuration, and for a process count that is no positive number.
    """
    if config is None:
        raise ValueError(
            "--num_processes needs --accelerate_config NAME, such as multi_gpu: it says what they share."
        )
    if processes is not None and not (processes.isdecimal() and int(processes)):
        raise ValueError(f"--num_processes is a number of 1 or more, got {processes!r}.")
    # Locate TRL without its import, which takes seconds.
    trl = find_spec("trl")
    folders = [
        Path(folder, "accelerate_configs")
        for folder in (trl and trl.submodule_search_locations) or ()
    ]
    named = {path.stem: path for folder in folders for path in folder.glob("*.yaml")}
    file = named.get(config, Path(config))
    if not file.is_file():
        raise ValueError(
            f"There is no configuration {config!r} (--accelerate_config): it is neither a file nor one of TRL's. "
            f"{did_you_mean(config, named)}"
        )
    return [
        "--config_file",
        str(file),
        *(["--num_processes", processes] if processes else []),
    ]


def _written_processes(config: str) -> int:
    """Read the process count from an accelerate configuration; 0 if it has none."""
    import yaml

    written = yaml.safe_load(Path(config).read_text(encoding="utf-8"))
    # With 0 the batches are not checked against the number of processes.
    return int(written.get("num_processes") or 0) if isinstance(written, dict) else 0
