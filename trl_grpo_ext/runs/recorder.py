"""The recorder: scorecards to disk as parquet, readable while the run goes on.

Each generation batch becomes two parts, `samples-*.parquet` and `verdicts-*.parquet`. A part is written under
another name and then renamed, so whatever has the right name is whole. Parts are numbered on; none is overwritten.
`runs/recorded_run.py` reads them.
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

OPENING_BATCHES = 4  # training batches that a run began with, which later ones are compared with; ours
RECENT_BATCHES = 16  # training batches that a check looks at; ours
UNWRITTEN_LINES = 4096  # of logs that wait for a disk that has room again
RECENT = 64  # training batches that are all there, whatever is thinned out; more than a finding looks at

_PART = re.compile(r"(?:samples|verdicts)-(\d{8})\.parquet")


class Recorder(RunListener):
    """Writes each scorecard of a run to `run_folder/scorecards/`.

    Where training begins again, in this process or in another, a new session begins: what it repeats stays on disk and
    counts no more.

    With `keep_every` above 1, of the training batches older than the last `RECENT` only each n-th is kept, the first
    few that checks compare with, and those that `cite` named. Evaluations are always kept. What was recent when a run
    ended or was killed stays on disk when it is resumed, so nothing is lost that a finding may name.

    Raises:
        OSError: when the disk does not take it.
    """

    def __init__(self, run_folder: str | os.PathLike[str], *, keep_every: int = 1) -> None:
        self.folder = Path(run_folder) / "scorecards"
        self.keep_every = keep_every
        self._next: int | None = None
        self._session = 0
        self._has_trained = False  # since training began
        self._opening = 0  # how many of the session's first training batches are kept: what the run has not had
        self._trained = 0
        self._recent: deque[_Recent] = deque()
        self._unwritten: deque[Scorecard] = deque(maxlen=RECENT)

    def on_train_begin(self, *, quiet: bool) -> None:
        """Begin a session where there has been a training in this one."""
        if self._has_trained:
            self._next, self._has_trained = None, False

    def on_batch(self, card: Scorecard, figures: BatchFigures | None = None) -> None:
        """Write a scorecard, after those that the disk has not taken, of which the latest `RECENT` are kept."""
        self._unwritten.append(card)
        self._write_all()

    def on_train_end(self) -> None:
        """Write what the disk has not taken."""
        self._write_all()

    def _write_all(self) -> None:
        """Write the cards that are not on disk; one that the disk does not take stays for the next time."""
        while self._unwritten:
            card = self._unwritten[0]
            self._has_trained |= card.mode == "train"
            number = self._next_number()
            prompts = [sample.prompt for sample in card.samples]
            about = About(
                step=card.step,
                mode=card.mode,
                session=self._session,
                weights=dict(card.weights),
                conversational=any(prompt is not None and not isinstance(prompt, str) for prompt in prompts),
            )
            metadata = {ABOUT: json.dumps(asdict(about))}
            # Verdicts first: a reader that finds a sample finds its verdicts too.
            for kind, table in tables_of(card).items():
                with written_whole(self.folder / f"{kind}-{number:08d}.parquet") as file:
                    pq.write_table(table.replace_schema_metadata(metadata), file)
            self._next = number + 1
            if self.keep_every > 1 and card.mode == "train":
                self._thin_out(number, card.step)
            self._unwritten.popleft()

    def cite(self, steps: Collection[int]) -> None:
        """Keep what findings at these optimizer steps have looked at, as far as it is still there.

        That is the `RECENT_BATCHES` training batches up to each step.
        """
        for step in steps:
            seen = [batch for batch in self._recent if batch.step is None or batch.step <= step]
            for batch in seen[-RECENT_BATCHES:]:
                batch.is_kept = True

    def _thin_out(self, number: int, step: int | None) -> None:
        if not self._trained:
            parts = RecordedRun(self.folder.parent).parts("train")
            earlier = sum(about.session < self._session and about.step is not None for _, about in parts)
            self._opening = OPENING_BATCHES - earlier
        is_opening = self._trained < self._opening
        self._recent.append(_Recent(number, step, is_kept=is_opening or self._trained % self.keep_every == 0))
        self._trained += 1
        if len(self._recent) > RECENT and not (old := self._recent.popleft()).is_kept:
            # Samples first: what has samples has verdicts.
            for kind in ("samples", "verdicts"):
                (self.folder / f"{kind}-{old.number:08d}.parquet").unlink(missing_ok=True)

    def groups_recorded(self) -> int:
        """One more than the highest group number on disk: where a resumed run goes on numbering."""
        parts = [path for _, path in sorted(self._parts(), reverse=True) if path.name.startswith("samples")]
        for path in parts:
            try:
                groups = pq.read_table(path, columns=["group"]).column("group").to_pylist()
            except (OSError, ValueError):  # damaged; ArrowInvalid is a ValueError
                continue
            return max((group for group in groups if group is not None), default=-1) + 1
        return 0

    def _parts(self) -> list[tuple[int, Path]]:
        """The parts on disk with their numbers; other people's files in the folder are passed over."""
        found = ((_PART.fullmatch(path.name), path) for path in self.folder.glob("*.parquet"))
        return [(int(match[1]), path) for match, path in found if match]

    def _next_number(self) -> int:
        if self._next is None:  # a resumed run goes on after the parts that are there
            self.folder.mkdir(parents=True, exist_ok=True)
            parts = sorted(self._parts(), reverse=True)
            self._session = 0
            for _, path in parts:  # sessions rise with the numbers of parts
                with suppress(OSError, ValueError, TypeError):  # a damaged part; ArrowInvalid is a ValueError
                    self._session = read_about(path).session + 1
                    break
            self._next = max((number for number, _ in parts), default=-1) + 1
            self._trained = 0
            self._recent.clear()
        return self._next


@dataclass(slots=True)
class _Recent:
    """A training batch that may still be thinned out."""

    number: int
    step: int | None
    is_kept: bool


class LogRecorder(RunListener):
    """Appends the trainer's logs to `run_folder/scorecards/log.jsonl`, a line a logging step."""

    def __init__(self, run_folder: str | os.PathLike[str]) -> None:
        self.path = Path(run_folder) / "scorecards" / "log.jsonl"
        self._session: int | None = None
        self._step = 0  # of the latest log of training
        self._unwritten: deque[dict[str, Any]] = deque(maxlen=UNWRITTEN_LINES)

    def on_log(self, step: int, logs: Mapping[str, Any]) -> None:
        """Append the figures of a step, after those that the disk has not taken; NaN and infinity become null."""
        begins_again = "loss" in logs and step <= self._step
        if self._session is None or begins_again:
            self._session = self._sessions_before()
        self._step = step if "loss" in logs else self._step
        self._unwritten.append({"step": step, "session": self._session, **logs})
        append_lines(self.path, self._unwritten)
        self._unwritten.clear()

    def _sessions_before(self) -> int:
        if not self.path.exists():
            return 0
        text = self.path.read_text(encoding="utf-8", errors="replace")
        return 1 + max((int(number) for number in re.findall(r'"session": (\d+)', text)), default=-1)
