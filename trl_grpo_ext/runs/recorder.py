"""Write scorecards to disk as parquet files that are readable during the run.

Each generation batch becomes two parts, `samples-*.parquet` and `verdicts-*.parquet`. A part is written under another
name and then renamed, so a file with the right name is complete. Part numbers increase; no part is overwritten.
`runs/recorded_run.py` reads the parts.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.schema import ABOUT, About, read_about, tables_of
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import append_lines, written_whole

# Log lines kept in memory while the disk is full.
UNWRITTEN_LINES = 4096
# Latest training batches that thinning out spares; more than any finding reads.
RECENT = 64

_PART = re.compile(r"(?:samples|verdicts)-(\d{8})\.parquet")


class Recorder(RunListener):
    """A listener for scorecards: each batch of a run becomes files in `run_folder/scorecards/`.

    Each start of training, in this process or another, begins a session. Batches of an earlier session that the new
    session repeats stay on disk, but readers leave them out.

    With `keep_every` n above 1, training batches older than the latest `RECENT` are deleted, except each n-th, the
    first ones, and batches named by `cite`. Evaluations are always kept. Batches that were recent when a run ended or
    was killed are kept when the run resumes, because findings may name them.

    Args:
        run_folder: The folder of the run.
        keep_every: Of the older training batches, each n-th is kept.
        opening: The number of the run's first training batches that are kept.
        cited: The number of training batches that `cite` keeps, the last ones up to a step; at most `RECENT`.

    Raises:
        OSError: Writing failed, for example on a full disk.
    """

    def __init__(
        self,
        run_folder: str | os.PathLike[str],
        *,
        keep_every: int = 1,
        opening: int = 0,
        cited: int = 1,
    ) -> None:
        self.folder = Path(run_folder) / "scorecards"
        self.keep_every = keep_every
        self.opening = opening
        self.cited = cited
        self._next: int | None = None
        self._session = 0
        # Whether this session wrote a training batch.
        self._has_trained = False
        # Opening batches that earlier sessions of the run left to this session.
        self._opening = 0
        self._trained = 0
        self._recent: deque[_Recent] = deque()
        self._unwritten: deque[Scorecard] = deque(maxlen=RECENT)

    def on_train_begin(self, *, quiet: bool) -> None:
        """Begin a new session if this session already wrote a training batch."""
        if self._has_trained:
            self._next = None
            self._has_trained = False

    def on_batch(self, card: Scorecard, figures: BatchFigures | None = None) -> None:
        """Write a scorecard after the scorecards of earlier failed writes; at most `RECENT` wait."""
        self._unwritten.append(card)
        self._write_all()

    def on_train_end(self) -> None:
        """Retry writing the scorecards of earlier failed writes."""
        self._write_all()

    def _write_all(self) -> None:
        """Write all waiting scorecards; a scorecard whose writing fails keeps waiting."""
        while self._unwritten:
            card = self._unwritten[0]
            self._has_trained |= card.mode == "train"
            number = self._next_number()
            self._write(card, number)
            self._next = number + 1
            if self.keep_every > 1 and card.mode == "train":
                self._thin_out(number, card.step)
            self._unwritten.popleft()

    def _write(self, card: Scorecard, number: int) -> None:
        prompts = [sample.prompt for sample in card.samples]
        about = About(
            step=card.step,
            mode=card.mode,
            session=self._session,
            weights=dict(card.weights),
            conversational=any(
                prompt is not None and not isinstance(prompt, str) for prompt in prompts
            ),
        )
        metadata = {ABOUT: json.dumps(asdict(about))}
        # Verdicts are written first, so that a reader that finds samples finds their verdicts too.
        for kind, table in tables_of(card).items():
            with written_whole(self._path(kind, number)) as file:
                pq.write_table(table.replace_schema_metadata(metadata), file)

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:08d}.parquet"

    def cite(self, steps: Collection[int]) -> None:
        """Keep the batches that findings at these optimizer steps read: the last `cited` up to each step.

        Batches that are already deleted stay deleted.
        """
        for step in steps:
            seen = [
                batch for batch in self._recent if batch.step is None or batch.step <= step
            ]
            for batch in seen[-self.cited :]:
                batch.is_kept = True

    def _thin_out(self, number: int, step: int | None) -> None:
        if not self._trained:
            parts = RecordedRun(self.folder.parent).parts("train")
            earlier = [
                about
                for _, about in parts
                if about.session < self._session and about.step is not None
            ]
            self._opening = self.opening - len(earlier)
        is_opening = self._trained < self._opening
        is_nth = self._trained % self.keep_every == 0
        self._recent.append(_Recent(number, step, is_kept=is_opening or is_nth))
        self._trained += 1
        if len(self._recent) <= RECENT:
            return
        old = self._recent.popleft()
        if not old.is_kept:
            # Samples are deleted first, so that samples on disk always have verdicts.
            for kind in ("samples", "verdicts"):
                self._path(kind, old.number).unlink(missing_ok=True)

    def groups_recorded(self) -> int:
        """Return the group number from which a resumed run continues: after the highest in the latest readable part."""
        for _, path in sorted(self._parts(), reverse=True):
            if not path.name.startswith("samples"):
                continue
            try:
                table = pq.read_table(path, columns=["group"])
            # A damaged part; ArrowInvalid is a ValueError.
            except (OSError, ValueError):
                continue
            groups = [
                group for group in table.column("group").to_pylist() if group is not None
            ]
            return max(groups, default=-1) + 1
        return 0

    def _parts(self) -> list[tuple[int, Path]]:
        """List the parts on disk with their numbers, ignoring foreign files."""
        parts = []
        for path in self.folder.glob("*.parquet"):
            match = _PART.fullmatch(path.name)
            if match:
                parts.append((int(match[1]), path))
        return parts

    def _next_number(self) -> int:
        if self._next is None:
            self._next = self._begin_session()
        return self._next

    def _begin_session(self) -> int:
        """Begin a session; return its first part's number, after the parts on disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        parts = sorted(self._parts(), reverse=True)
        self._session = 0
        # Session numbers rise with part numbers, so the latest readable part has the latest session.
        for _, path in parts:
            # A damaged part is skipped; ArrowInvalid is a ValueError.
            with suppress(OSError, ValueError, TypeError):
                self._session = read_about(path).session + 1
                break
        self._trained = 0
        self._recent.clear()
        if not parts:
            return 0
        latest, _ = parts[0]
        return latest + 1


@dataclass(slots=True)
class _Recent:
    """A training batch that may still be deleted."""

    number: int
    step: int | None
    is_kept: bool


class LogRecorder(RunListener):
    """A listener that appends the trainer's logs to `run_folder/scorecards/log.jsonl`, a line per logging step."""

    def __init__(self, run_folder: str | os.PathLike[str]) -> None:
        self.path = Path(run_folder) / "scorecards" / "log.jsonl"
        self._session: int | None = None
        # Step of the latest training log.
        self._step = 0
        self._unwritten: deque[dict[str, Any]] = deque(maxlen=UNWRITTEN_LINES)

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        """Append a step's figures, after lines that could not be written before; NaN and infinity become null."""
        # Only training logs have a loss; an evaluation logs at a step that training has logged.
        is_training = "loss" in logs
        begins_again = is_training and step <= self._step
        if self._session is None or begins_again:
            self._session = self._sessions_before()
        if is_training:
            self._step = step
        self._unwritten.append({"step": step, "session": self._session, **logs})
        append_lines(self.path, self._unwritten)
        self._unwritten.clear()

    def _sessions_before(self) -> int:
        if not self.path.exists():
            return 0
        text = self.path.read_text(encoding="utf-8", errors="replace")
        # By pattern instead of by JSON, because a killed run may leave a torn line.
        sessions = [int(number) for number in re.findall(r'"session": (\d+)', text)]
        return max(sessions, default=-1) + 1
