"""Read a run from disk: settings, scorecards and logs. The run may still be going on."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trl_grpo_ext.outcome import Outcome
from trl_grpo_ext.runs.schema import (
    SAMPLE_COLUMNS,
    VERDICT_COLUMNS,
    About,
    Column,
    about_of,
    is_repeated,
    read_about,
    session_starts,
)
from trl_grpo_ext.sample import Prompt, Sample
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.support.estimate import ROUNDING
from trl_grpo_ext.support.files import read_lines
from trl_grpo_ext.verdict import Verdict

logger = logging.getLogger(__name__)

# Errors of reading a part that is torn, was just thinned out, or was not written by a recorder.
_UNREADABLE = (OSError, ValueError, KeyError, IndexError, TypeError, pa.ArrowException)

# The evaluation's file, and the key of its figures inside.
EVALUATION = "evaluation.json"
FIGURES = "figures"
VERDICT_FIELDS = ("status", "score", "blame", "answer", "reason", "seconds")
SAMPLE_FIELDS = ("text", "completion_ids", "truncated", "group", "step", "prefill")

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded run, read from its folder.

    Attributes:
        folder: The run's `output_dir`.

    Raises:
        FileNotFoundError: The folder contains no scorecards.
    """

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if not (self.folder / "scorecards").is_dir():
            raise FileNotFoundError(
                f"{os.fspath(self.folder)!r} holds no scorecards/ folder, so it is not a recorded run. Name the "
                f"output_dir of a run; record_scorecards must have been on."
            )

    @property
    def settings(self) -> dict[str, Any]:
        """Trainer settings from `run.json` that the figures depend on; empty without the file."""
        return _record(self.folder / "scorecards" / "run.json")

    @property
    def evaluation(self) -> dict[str, Any]:
        """Evaluation settings and figures written by `trl-grpo-ext eval`; empty for any other run."""
        return _record(self.folder / EVALUATION)

    @property
    def logs(self) -> list[dict[str, Any]]:
        """TRL's logs, a dict with `step` per logging step; a later session's logs replace those of repeated steps.

        Lines that were cut off, or that this package did not write, are skipped.
        """
        return list(self.iterate_logs())

    def iterate_logs(self) -> Iterator[dict[str, Any]]:
        """Yield `logs` entry by entry, because a long run's logs are large."""
        path = self.folder / "scorecards" / "log.jsonl"
        trained = (
            (entry["session"], entry["step"]) for entry in _entries(path) if "loss" in entry
        )
        starts = session_starts(trained)
        for entry in _entries(path):
            if not is_repeated(entry["session"], entry["step"], starts):
                yield entry

    def parts(self, mode: Mode | None = None) -> list[tuple[int, About]]:
        """List numbers and descriptions of all valid batches, in order.

        A run resumed from an earlier checkpoint repeats steps: the earlier session's batches of these steps are left
        out. If training began again at step 0, everything recorded before is left out, evaluations included. Files that
        are no parts, damaged, or just thinned out, are skipped.

        Args:
            mode: Return only batches of this mode; None for all.
        """
        paths = sorted((self.folder / "scorecards").glob("samples-*.parquet"))
        parts = [part for part in map(_part, paths) if part is not None]
        trained = []
        for _, about in parts:
            if about.mode == "train" and about.step is not None:
                trained.append((about.session, about.step))
        starts = session_starts(trained)
        wanted = []
        for number, about in parts:
            repeated = is_repeated(
                about.session,
                about.step,
                starts,
                is_evaluation=about.mode == "eval",
            )
            if not repeated and mode in (None, about.mode):
                wanted.append((number, about))
        return wanted

    def card(self, number: int) -> Scorecard:
        """Read a batch's scorecard.

        Raises:
            OSError, ValueError: The part is damaged, or was just thinned out.
        """
        folder = self.folder / "scorecards"
        about, samples = _read(folder / f"samples-{number:08d}.parquet", SAMPLE_COLUMNS)
        _, verdicts = _read(folder / f"verdicts-{number:08d}.parquet", VERDICT_COLUMNS)
        highest = max(verdicts["sample"], default=-1)
        if highest >= len(samples["text"]):
            raise ValueError(
                f"Batch {number} has verdicts of samples that it does not have."
            )
        return _scorecard(about, samples, verdicts)

    def readable(self, number: int) -> Scorecard | None:
        """Read a batch's scorecard; None, with a warning, if the batch is damaged or was just thinned out."""
        try:
            return self.card(number)
        except _UNREADABLE as error:
            logger.warning(
                "Batch %d of %s is left out, since it cannot be read: %s",
                number,
                self.folder,
                error,
            )
            return None

    def cards(self, mode: Mode | None = None) -> Iterator[Scorecard]:
        """Yield the scorecards of `parts`, in order, skipping unreadable batches."""
        for number, _ in self.parts(mode):
            card = self.readable(number)
            if card is not None:
                yield card


def _part(path: Path) -> tuple[int, About] | None:
    """Read a part's number and description; None for a file that is no part, or no longer a whole part."""
    try:
        number = int(path.stem.removeprefix("samples-"))
        return number, read_about(path)
    # ArrowInvalid is a ValueError.
    except (OSError, ValueError, TypeError) as error:
        logger.warning("%s is passed over: %s", path, error)
        return None


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a log's entries that this package wrote."""
    for entry in read_lines(path):
        if isinstance(entry.get("step"), int) and isinstance(entry.get("session"), int):
            yield entry


def _read(path: Path, columns: Sequence[Column]) -> tuple[About, Columns]:
    """Read a part's description of its batch, and its columns."""
    with pq.ParquetFile(path) as file:
        names = [column.name for column in columns if column.is_read]
        about = about_of(file.schema_arrow.metadata)
        # A part is small: threads and pyarrow's dataset reader would take longer than reading the file.
        table = file.read(columns=names, use_threads=False)
        return about, table.to_pydict()


def _scorecard(about: About, samples: Columns, verdicts: Columns) -> Scorecard:
    weights = about.weights
    size = len(samples["text"])
    advantages = None
    if None not in samples["advantage"]:
        advantages = tuple(samples["advantage"])
    card = Scorecard(
        samples=_samples(samples, conversational=about.conversational),
        weights=weights,
        verdicts=_by_term(weights, size, verdicts, _verdicts(verdicts), None),
        values=_by_term(weights, size, verdicts, verdicts["value"], None),
        gated=_by_term(weights, size, verdicts, verdicts["gated"], False),
        advantages=advantages,
        mode=about.mode,
    )
    card = _with_others(card, samples["total"])
    # Earlier versions of this package did not record this column.
    return card.with_drawn(samples.get("drawn"))


def _with_others(card: Scorecard, totals: Sequence[float | None]) -> Scorecard:
    """Add the rewards of functions beside the mix to a card: recorded totals minus the terms' own totals."""
    own = card.with_others([0.0] * len(card)).totals
    others = [_rest(total, part or 0.0) for total, part in zip(totals, own, strict=True)]
    is_void = tuple(total is None for total in totals)
    if card.void != is_void:
        # Void rows that no verdict explains are failed rollouts.
        failed = [
            out and not explained for out, explained in zip(is_void, card.void, strict=True)
        ]
        return card.with_others(others).with_failed(failed)
    if any(others):
        return card.with_others(others)
    return card


def _rest(total: float | None, own: float) -> float | None:
    """Subtract the mix's own part from a total; rounding becomes 0, and a void sample's total None."""
    if total is None:
        return None
    rest = total - own
    is_rounding = abs(rest) <= ROUNDING * (1 + abs(own))
    return 0.0 if is_rounding else rest


def _by_term(
    terms: Iterable[str],
    size: int,
    verdicts: Columns,
    found: Iterable[Any],
    absent: Any,
) -> dict[str, tuple[Any, ...]]:
    """Arrange values, listed by verdict, as a column of `size` samples for each term; fill gaps with `absent`."""
    columns = {term: [absent] * size for term in terms}
    for term, sample, value in zip(
        verdicts["term"], verdicts["sample"], found, strict=True
    ):
        columns[term][sample] = value
    return {term: tuple(column) for term, column in columns.items()}


def _verdicts(verdicts: Columns) -> Iterator[Verdict]:
    details = map(_reader(), verdicts["details"])
    fields = zip(*(verdicts[name] for name in VERDICT_FIELDS), strict=True)
    for values, detail in zip(fields, details, strict=True):
        named = dict(zip(VERDICT_FIELDS, values, strict=True))
        yield Verdict(**named, details=detail or {})


def _samples(columns: Columns, *, conversational: bool) -> tuple[Sample, ...]:
    read = _reader()
    samples = []
    for index in range(len(columns["text"])):
        # None for a column that earlier versions of this package did not record.
        recorded = {name: values[index] for name, values in columns.items()}
        prompt: Prompt | None = recorded["prompt"]
        if conversational:
            prompt = read(recorded["prompt"])
        outcome = read(recorded.get("outcome"))
        sample = Sample(
            prompt=prompt,
            row=read(recorded["row"]) or {},
            messages=read(recorded.get("messages")),
            outcome=None if outcome is None else Outcome.from_record(outcome),
            tool_tokens=recorded.get("tool_tokens") or 0,
            **{name: recorded[name] for name in SAMPLE_FIELDS},
        )
        samples.append(sample)
    return tuple(samples)


def _reader() -> Callable[[str | None], Any]:
    """Return a caching JSON reader: equal texts, such as the rows of a group's members, give an identical object."""

    @cache
    def read(text: str | None) -> Any:
        if not text:
            return None
        return json.loads(text)

    return read


def _record(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; empty if the file is missing or invalid."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return found
