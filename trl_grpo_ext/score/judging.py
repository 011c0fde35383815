"""Judging a file of completions: batch by batch, each written and counted as soon as it is judged."""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.runs.schema import SAMPLE_COLUMNS, VERDICT_COLUMNS, tables_of
from trl_grpo_ext.score.completion_file import CompletionFile
from trl_grpo_ext.score.tally import Tally
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import written_whole

FEW = 16  # rows; a batch is as many, or a few times that where judging is quick
MOST_TIMES = 32
QUICK, SLOW = 0.5, 5.0  # seconds a batch; few at a time would leave workers without work, many would show no progress


def judge_file(mix: RewardMix, completions: CompletionFile, output: Path | None, tally: Tally) -> None:
    """Judge every row, with the weights of the start of a training, and a bar if stderr is a terminal.

    Verdicts are written to `output`, unless it is None, and added to `tally`; if this raises, it has those that were
    written.

    Raises:
        ValueError: for columns that the mix needs and the file does not have.
        UnscoredError: for a row that a term with `on_unscored: raise` could not judge.
        OSError: when the disk does not take the output.
    """
    compares = any(isinstance(verifier, GroupVerifier) for _, verifier in mix.verifiers)
    mix.check_columns(completions.columns - {"prompt", completions.completion})
    if compares and "prompt" not in completions.columns:
        raise ValueError("A term compares the completions of a prompt, and the file has no column `prompt`.")
    tally.expected = completions.rows
    with ExitStack() as stack:
        write = stack.enter_context(verdict_file(output)) if output is not None else None
        bar = stack.enter_context(tqdm(total=completions.rows, desc="scoring", unit="row", leave=False, disable=None))
        few, times = completions.batches(FEW, whole_groups=compares), 1
        lines = completions.lines()
        while samples := list(itertools.chain.from_iterable(itertools.islice(few, times))):
            began = time.monotonic()
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
    return max(1, times // 2) if seconds > SLOW else times


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, so that what is written is whole, and counted."""
    if threading.current_thread() is not threading.main_thread():  # no other gets signals, or may set a handler
        yield
        return
    came: list[tuple[int, Any]] = []
    handler = signal.signal(signal.SIGINT, lambda *call: came.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came and callable(handler):
        handler(*came[0])


KINDS = (".jsonl", ".parquet")
# A file of completions has neither steps nor modes.
OF_VERDICTS = tuple(column for column in VERDICT_COLUMNS if column.name not in ("step", "mode"))
# What a sample's verdicts come to together, repeated with each.
OF_SAMPLES = tuple(column for column in SAMPLE_COLUMNS if column.name in ("total", "void"))
SCHEMA = pa.schema([(column.name, column.type) for column in (*OF_VERDICTS, *OF_SAMPLES)])


Write = Callable[[pa.Table], None]


def check_output(path: Path, *, source: Path, overwrite: bool) -> None:
    """Raise a ValueError if verdicts on the completions of `source` cannot be written to this path."""
    if path.suffix not in KINDS:
        raise ValueError(f"The output must end in {' or '.join(KINDS)}, got {str(path)!r}.")
    if path.resolve() == source.resolve():
        raise ValueError(f"The output {str(path)!r} is the file of the completions.")
    if path.is_dir():
        raise ValueError(f"The output {str(path)!r} is a folder.")
    if path.exists() and not overwrite:
        raise ValueError(f"The output {str(path)!r} exists already; --overwrite replaces it.")
    if not path.parent.is_dir():
        raise ValueError(f"There is no folder {str(path.parent)!r} to write the output {str(path)!r} to.")


@contextmanager
def verdict_file(path: Path) -> Iterator[Write]:
    """A file to append tables of verdicts to, which gets its name once it is complete.

    If that fails, the whole tables that were written are at `unfinished_path(path)`.

    Raises:
        OSError: when the disk does not take it.
    """
    with written_whole(path, keep=True) as file:
        if path.suffix == ".parquet":
            with pq.ParquetWriter(file, SCHEMA) as writer:
                yield writer.write_table
        else:
            yield lambda table: _write_lines(file, table)


def verdict_rows(card: Scorecard, first: int) -> pa.Table:
    """The verdicts of a batch, those of a sample together.

    Samples are numbered from 0 over the file, in which `first` were before this batch.
    """
    tables = tables_of(card)
    verdicts, samples = tables["verdicts"], tables["samples"]
    rows = verdicts["sample"]
    found = {column.name: verdicts[column.name] for column in OF_VERDICTS}
    found |= {column.name: samples[column.name].take(rows) for column in OF_SAMPLES}
    return pa.table(found | {"sample": pc.add(rows, first)}, schema=SCHEMA).take(pc.sort_indices(rows))


def _write_lines(file: IO[bytes], table: pa.Table) -> None:
    for row in table.to_pylist():
        row["details"] = json.loads(row["details"])
        file.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    file.flush()  # what is killed leaves what it has written
