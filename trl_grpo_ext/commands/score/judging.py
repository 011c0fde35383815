"""Judge a file of completions in batches; write and count each batch as soon as it is judged."""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from trl_grpo_ext.commands.arguments import read_file, rewards_entry
from trl_grpo_ext.commands.exit_status import FOUND, INTERRUPTED, refuse
from trl_grpo_ext.commands.rows import CompletionFile
from trl_grpo_ext.commands.tally import Tally, print_summary, status_of
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_mix import RewardMix, UnscoredError
from trl_grpo_ext.recipe.prompts import RecipePrompts
from trl_grpo_ext.runs.schema import SAMPLE_COLUMNS, VERDICT_COLUMNS, tables_of
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import unfinished_path, written_whole
from trl_grpo_ext.support.printer import print_json

# Rows per batch; quick judging multiplies it by up to MOST_TIMES.
FEW = 16
MOST_TIMES = 32
# Seconds per batch: a quicker batch leaves workers idle, so the next is larger; a slower batch shows no progress.
QUICK, SLOW = 0.5, 5.0


KINDS = (".jsonl", ".parquet")
# The columns of a verdict, without step and mode, which a file of completions lacks.
OF_VERDICTS = tuple(
    column for column in VERDICT_COLUMNS if column.name not in ("step", "mode")
)
# The columns of a sample: its total and void flag, repeated with each of its verdicts.
OF_SAMPLES = tuple(column for column in SAMPLE_COLUMNS if column.name in ("total", "void"))
SCHEMA = pa.schema([(column.name, column.type) for column in (*OF_VERDICTS, *OF_SAMPLES)])


# Columns that hold the prompts in common data sets.
_LIKELY_PROMPTS = ("question", "problem", "instruction", "query", "prompts", "input")

Write = Callable[[pa.Table], None]


def score(arguments: argparse.Namespace) -> int:
    """Judge a file as the arguments of the command say, print the summary, and return the exit status."""
    started = time.monotonic()
    tally = Tally()
    try:
        if arguments.output is not None:
            check_output(
                arguments.output, overwrite=arguments.overwrite, source=arguments.file
            )
        keys = _keys(arguments)
        with closing(_mix(arguments, keys)) as mix:
            completions = CompletionFile.check(
                arguments.file, arguments.completion, RecipePrompts.of(keys)
            )
            _tell_unprompted(completions)
            judge_file(mix, completions, arguments.output, tally)
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
    summary = {
        "file": str(arguments.file),
        **tally.to_record(),
        "seconds": seconds,
        "output": output,
    }
    if arguments.json:
        print_json(summary)
    else:
        print_summary(summary)
    return status_of(tally)


def _keys(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Return the keys of the recipe, or the prompt column alone, named as a recipe names it."""
    if arguments.config is None:
        return {"prompt_column": arguments.prompt}
    if arguments.prompt is not None:
        raise ValueError(
            "--prompt names a column for --verifier; a recipe has `prompt_column`."
        )
    return read_file(arguments.config).keys


def _mix(arguments: argparse.Namespace, keys: Mapping[str, Any]) -> RewardMix:
    if arguments.config is None:
        entries = [rewards_entry(text, "--verifier") for text in arguments.verifier]
        return build_mix(entries, each="--verifier")
    return build_mix(keys.get("rewards")).for_limit(keys.get("max_completion_length"))


def _tell_unprompted(completions: CompletionFile) -> None:
    """Warn on stderr of rows without a prompt if the recipe or a column such as `question` has prompts for them."""
    if not completions.unprompted:
        return
    begun = f"{completions.unprompted} of {completions.rows} rows have"
    sources = completions.prompts.sources
    likely = next((name for name in _LIKELY_PROMPTS if name in completions.columns), None)
    if sources:
        named = ", ".join(f"`{source}`" for source in sources)
        print(
            f"{begun} neither a `prompt` nor the columns that prompts are made of ({named}): they are judged without "
            f"a prompt, and verdicts may differ from those of training.",
            file=sys.stderr,
        )
    elif likely is not None:
        print(
            f"{begun} no `prompt`, and are judged without one; training judges with it, and verdicts may differ. If "
            f"the prompts are in `{likely}`: --prompt {likely}",
            file=sys.stderr,
        )


def _left(tally: Tally, output: Path | None) -> str:
    """Describe the partial output of an interrupted command; delete an unfinished output without rows."""
    unfinished = None
    if output is not None:
        unfinished = unfinished_path(output)
    if tally.rows and unfinished is not None and unfinished.exists():
        return f"{tally}; their verdicts are in {unfinished}"
    if tally.rows:
        return str(tally)
    if unfinished is not None:
        unfinished.unlink(missing_ok=True)
    return "nothing was judged"


def judge_file(
    mix: RewardMix, completions: CompletionFile, output: Path | None, tally: Tally
) -> None:
    """Judge every row of a file with the mix's start weights; show a progress bar if stderr is a terminal.

    Verdicts are written to `output`, unless it is None, and added to `tally`. If an exception ends judging, `tally`
    counts exactly the written batches.

    Raises:
        ValueError: if the file lacks a column that the mix needs.
        UnscoredError: for a row that a term with `on_unscored: raise` could not judge.
        OSError: if the output cannot be written.
    """
    compares = any(isinstance(verifier, GroupVerifier) for _, verifier in mix.verifiers)
    mix.check_columns(completions.columns - {"prompt", completions.completion})
    if compares and "prompt" not in completions.columns:
        raise ValueError(
            "A term compares the completions of a prompt, and the file has no column `prompt`."
        )
    tally.expected = completions.rows
    with ExitStack() as stack:
        write = None
        if output is not None:
            write = stack.enter_context(verdict_file(output))
        bar = stack.enter_context(
            tqdm(
                total=completions.rows,
                desc="scoring",
                unit="row",
                leave=False,
                disable=None,
            )
        )
        few = completions.batches(FEW, whole_groups=compares)
        times = 1
        lines = completions.lines()
        # Small batches are joined, so that the next batch may be larger without reading the file anew.
        while samples := list(itertools.chain.from_iterable(itertools.islice(few, times))):
            began = time.monotonic()
            # The weights at the start of training; in mode `eval`, terms of evaluations judge, too.
            card = mix.score(samples, step=0, mode="eval")
            with _ctrl_c_waits():
                if write is not None:
                    write(verdict_rows(card, first=tally.rows))
                tally.add(card, list(itertools.islice(lines, len(card))))
            bar.update(len(card))
            times = _next_times(times, time.monotonic() - began)


def _next_times(times: int, seconds: float) -> int:
    if seconds < QUICK:
        return min(2 * times, MOST_TIMES)
    if seconds > SLOW:
        return max(1, times // 2)
    return times


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that a batch is written and counted completely."""
    # Only the main thread receives signals and may set handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, Any]] = []
    handler = signal.signal(signal.SIGINT, lambda *call: came.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    # The handler of a parent that ignores Ctrl-C is a number, not a function.
    if came and callable(handler):
        handler(*came[0])


def check_output(path: Path, *, source: Path, overwrite: bool) -> None:
    """Raise a ValueError if verdicts on the file `source` cannot be written to `path`."""
    if path.suffix not in KINDS:
        raise ValueError(f"The output must end in {' or '.join(KINDS)}, got {str(path)!r}.")
    # Resolved: a link to the completions would let the verdicts overwrite them.
    if path.resolve() == source.resolve():
        raise ValueError(f"The output {str(path)!r} is the file of the completions.")
    if path.is_dir():
        raise ValueError(f"The output {str(path)!r} is a folder.")
    if path.exists() and not overwrite:
        raise ValueError(
            f"The output {str(path)!r} exists already; --overwrite replaces it."
        )
    if not path.parent.is_dir():
        raise ValueError(
            f"There is no folder {str(path.parent)!r} to write the output {str(path)!r} to."
        )


@contextmanager
def verdict_file(path: Path) -> Iterator[Write]:
    """Open a `.jsonl` or `.parquet` file for tables of verdicts; it gets its name when complete.

    If writing fails, complete tables stay at `unfinished_path(path)`.

    Raises:
        OSError: if the file cannot be written.
    """
    with written_whole(path, keep=True) as file:
        if path.suffix == ".parquet":
            with pq.ParquetWriter(file, SCHEMA) as writer:
                yield writer.write_table
        else:
            yield lambda table: _write_lines(file, table)


def verdict_rows(card: Scorecard, first: int) -> pa.Table:
    """Return a batch's verdicts as a table, sorted by sample.

    Samples are numbered from 0 over the whole file; `first` is the number of this batch's first sample.
    """
    tables = tables_of(card)
    verdicts, samples = tables["verdicts"], tables["samples"]
    rows = verdicts["sample"]
    found = {column.name: verdicts[column.name] for column in OF_VERDICTS}
    found |= {column.name: samples[column.name].take(rows) for column in OF_SAMPLES}
    table = pa.table(found | {"sample": pc.add(rows, first)}, schema=SCHEMA)
    # Recorded tables are ordered by term; a reader of the file wants the verdicts of a completion together.
    return table.take(pc.sort_indices(rows))


def _write_lines(file: IO[bytes], table: pa.Table) -> None:
    for row in table.to_pylist():
        # The table has the details as JSON text, for Parquet; in JSON Lines they are a mapping.
        row["details"] = json.loads(row["details"])
        file.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    # A killed process leaves its written batches on disk.
    file.flush()
