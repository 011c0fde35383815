"""The recorder: scorecards to disk as parquet, readable while the run goes on.

Each generation batch becomes two parts, `samples-*.parquet` and `verdicts-*.parquet`. A part is written under
another name and then renamed, so whatever has the right name is whole. Parts are numbered on; none is overwritten.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trl_grpo_ext.scorecard import Scorecard

SAMPLES_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("mode", pa.string()),
        ("group", pa.int64()),
        ("sample", pa.int64()),
        ("prompt", pa.string()),  # text as it is, a conversation as JSON
        ("text", pa.string()),
        ("tokens", pa.int64()),
        ("truncated", pa.bool_()),
        ("total", pa.float64()),
        ("advantage", pa.float64()),
        ("void", pa.bool_()),
        ("row", pa.string()),  # the dataset's columns as JSON
    ]
)
VERDICTS_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("mode", pa.string()),
        ("group", pa.int64()),
        ("sample", pa.int64()),
        ("term", pa.string()),
        ("status", pa.string()),
        ("blame", pa.string()),
        ("score", pa.float64()),
        ("value", pa.float64()),
        ("gated", pa.bool_()),  # a closed gate has set the value
        ("weight", pa.float64()),
        ("answer", pa.string()),
        ("reason", pa.string()),
        ("seconds", pa.float64()),
        ("details", pa.string()),  # how the verdict came about, as JSON
    ]
)


_PART = re.compile(r"(?:samples|verdicts)-(\d{8})\.parquet")


class Recorder:
    """Writes each scorecard that it is called with to `run_folder/scorecards/`.

    Raises:
        OSError: when the disk does not take it.
    """

    def __init__(self, run_folder: str | os.PathLike[str]) -> None:
        self.folder = Path(run_folder) / "scorecards"
        self._next: int | None = None

    def __call__(self, card: Scorecard) -> None:
        number = self._take_number()
        # Verdicts first: a reader that finds a sample finds its verdicts too.
        _write_part(self.folder / f"verdicts-{number:08d}.parquet", card.verdict_records(), VERDICTS_SCHEMA)
        _write_part(self.folder / f"samples-{number:08d}.parquet", card.sample_records(), SAMPLES_SCHEMA)

    def groups_recorded(self) -> int:
        """One more than the highest group number on disk: where a resumed run goes on numbering."""
        last = max((part for part in self._parts() if part[1].name.startswith("samples")), default=None)
        if last is None:
            return 0
        groups = pq.read_table(last[1], columns=["group"]).column("group").to_pylist()
        return max((group for group in groups if group is not None), default=-1) + 1

    def _parts(self) -> list[tuple[int, Path]]:
        """The parts on disk with their numbers; other people's files in the folder are passed over."""
        found = ((_PART.fullmatch(path.name), path) for path in self.folder.glob("*.parquet"))
        return [(int(match[1]), path) for match, path in found if match]

    def _take_number(self) -> int:
        if self._next is None:  # a resumed run goes on after the parts that are there
            self.folder.mkdir(parents=True, exist_ok=True)
            self._next = max((number for number, _ in self._parts()), default=-1) + 1
        self._next += 1
        return self._next - 1


def _write_part(path: Path, records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
    columns = {name: [_storable(record[name]) for record in records] for name in schema.names}
    unfinished = path.with_name(path.name + ".unfinished")
    with open(unfinished, "wb") as file:
        pq.write_table(pa.table(columns, schema=schema), file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _storable(value: Any) -> Any:
    """A value that parquet holds: text without lone surrogates, JSON for nested values, null for what is no number."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, str):
        value = json.dumps(_plain(value), ensure_ascii=False, default=str)
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: Any) -> Any:
    """The value with null in the place of NaN and infinity, which JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
