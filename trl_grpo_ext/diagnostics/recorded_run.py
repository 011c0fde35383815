"""A run on disk, read back as what it was: settings, scorecards, logs. It may be read while it goes on."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trl_grpo_ext.diagnostics.recorder import About, read_about
from trl_grpo_ext.sample import Prompt, Sample
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.verdict import Verdict

logger = logging.getLogger(__name__)

VERDICT_FIELDS = ("status", "score", "blame", "answer", "reason", "seconds")


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run's folder.

    Attributes:
        folder: The run's `output_dir`.

    Raises:
        FileNotFoundError: if there are no scorecards in it.
    """

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if not (self.folder / "scorecards").is_dir():
            raise FileNotFoundError(
                f"{os.fspath(self.folder)!r} holds no scorecards/ folder, so it is no run that was recorded. Name the "
                f"output_dir of a run; record_scorecards must have been on."
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The trainer's settings that figures depend on, as `run.json` has them; empty without it."""
        path = self.folder / "scorecards" / "run.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def logs(self) -> list[dict[str, Any]]:
        """TRL's logs, one dict a logging step, with `step`; a later session's take the place of those it repeats."""
        path = self.folder / "scorecards" / "log.jsonl"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        entries = [entry for line in lines if (entry := _entry(line)) is not None]
        starts = _session_starts([(entry["session"], entry["step"]) for entry in entries])
        return [entry for entry in entries if not _is_repeated(entry["session"], entry["step"], starts)]

    def parts(self, mode: Mode | None = None) -> list[tuple[int, About]]:
        """The numbers of the batches that count, in order, with what each says of itself.

        A run that was resumed from an earlier checkpoint repeats steps; the earlier batches of those do not count.
        Files that are no parts, damaged, or have just been thinned out, are passed over.
        """
        paths = sorted((self.folder / "scorecards").glob("samples-*.parquet"))
        parts = [part for path in paths if (part := _part(path)) is not None]
        starts = _session_starts(
            [(about.session, about.step) for _, about in parts if about.mode == "train" and about.step is not None]
        )
        return [
            (number, about)
            for number, about in parts
            if (mode is None or about.mode == mode)
            and not _is_repeated(about.session, about.step, starts, strictly=about.mode == "eval")
        ]

    def card(self, number: int) -> Scorecard:
        """The scorecard of one batch.

        Raises:
            OSError, ValueError: for a part that is damaged, or has just been thinned out.
        """
        folder = self.folder / "scorecards"
        about = read_about(folder / f"samples-{number:08d}.parquet")
        samples = pq.read_table(folder / f"samples-{number:08d}.parquet").to_pylist()
        verdicts = pq.read_table(folder / f"verdicts-{number:08d}.parquet").to_pylist()
        if any(record["sample"] >= len(samples) for record in verdicts):
            raise ValueError(f"Batch {number} has verdicts of samples that it does not have.")
        return _scorecard(about, samples, verdicts)

    def cards(self, mode: Mode | None = None) -> Iterator[Scorecard]:
        """The scorecards of the batches that count, in order; damaged ones are passed over with a warning."""
        for number, _ in self.parts(mode):
            try:
                yield self.card(number)
            except (OSError, ValueError, KeyError) as error:  # ArrowInvalid is a ValueError
                logger.warning("Batch %d of %s is passed over: %s", number, self.folder, error)


def _part(path: Path) -> tuple[int, About] | None:
    """A part's number and what it says of itself; None for a file that is not, or no longer, a whole part."""
    try:
        return int(path.stem.removeprefix("samples-")), read_about(path)
    except (OSError, ValueError, TypeError) as error:  # ArrowInvalid is a ValueError
        logger.warning("%s is passed over: %s", path, error)
        return None


def _entry(line: str) -> dict[str, Any] | None:
    """A line of the log; None for one that was cut off in the middle of writing, or is no entry."""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) and {"step", "session"} <= entry.keys() else None


def _session_starts(steps: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The first step of each session."""
    starts: dict[int, int] = {}
    for session, step in steps:
        starts[session] = min(step, starts.get(session, step))
    return starts


def _is_repeated(session: int, step: int | None, starts: Mapping[int, int], *, strictly: bool = False) -> bool:
    """Whether a later session began at or before this step. An evaluation belongs to the steps before it."""
    if step is None:
        return False
    return any(later > session and (start < step if strictly else start <= step) for later, start in starts.items())


def _scorecard(about: About, samples: Sequence[Mapping[str, Any]], verdicts: Sequence[Mapping[str, Any]]) -> Scorecard:
    weights = about.weights or {record["term"]: record["weight"] for record in verdicts}
    size = len(samples)
    columns: dict[str, list[Mapping[str, Any] | None]] = {term: [None] * size for term in weights}
    for record in verdicts:
        columns[record["term"]][record["sample"]] = record
    advantages = [record["advantage"] for record in samples]
    return Scorecard(
        samples=tuple(_sample(record, conversational=about.conversational) for record in samples),
        weights=weights,
        verdicts={
            term: tuple(None if record is None else _verdict(record) for record in column)
            for term, column in columns.items()
        },
        values={
            term: tuple(None if record is None else record["value"] for record in column)
            for term, column in columns.items()
        },
        gated={
            term: tuple(record is not None and bool(record.get("gated")) for record in column)
            for term, column in columns.items()
        },
        totals=tuple(record["total"] for record in samples),
        void=tuple(record["void"] for record in samples),
        advantages=None if None in advantages else tuple(advantages),
        mode=about.mode,
    )


def _verdict(record: Mapping[str, Any]) -> Verdict:
    details = json.loads(record["details"]) if record["details"] else {}
    return Verdict(**{name: record[name] for name in VERDICT_FIELDS}, details=details)


def _sample(record: Mapping[str, Any], *, conversational: bool) -> Sample:
    prompt: Prompt | None = record["prompt"]
    if conversational and isinstance(prompt, str):
        prompt = json.loads(prompt)
    return Sample(
        text=record["text"],
        prompt=prompt,
        completion_ids=record.get("completion_ids"),
        truncated=record["truncated"],
        row=json.loads(record["row"]) if record["row"] else {},
        group=record["group"],
        step=record["step"],
        prefill=record.get("prefill"),
    )
