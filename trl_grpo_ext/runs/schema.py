"""Columns of a recorded scorecard, and a part's description of its batch.

The recorder writes these columns, the reader reads them, and the report's page takes its values from them. A new column
is a line in one of the two lists, and a place in the page that shows it.

Each start of a run is a session. If several sessions trained a step, the last session counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.support.files import plain
from trl_grpo_ext.support.text import encodable
from trl_grpo_ext.verdict import Verdict

# Key of `About` in a part's metadata.
ABOUT = b"trl_grpo_ext"
_JSON = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Column:
    """A column with a value per completion or per verdict."""

    # Name in the parquet file.
    name: str
    # Type in the parquet file.
    type: pa.DataType
    # Computes a value from (scorecard, row), or for a verdict from (scorecard, row, term, verdict).
    of: Callable[..., Any]
    # Whether reading a scorecard needs the column; the other columns repeat known values for people who read the file.
    is_read: bool = False
    # Key in the report's page; empty if the page shows no value per completion.
    page: str = ""

    def array(self, cells: Iterable[tuple[Any, ...]]) -> pa.Array:
        """Build the column's parquet array, calling `of` with each tuple of arguments.

        NaN and infinity become null; mappings and lists in a text column become JSON.
        """
        values = [self.of(*cell) for cell in cells]
        if pa.types.is_floating(self.type):
            values = list(map(_finite, values))
        elif pa.types.is_list(self.type):
            values = [None if value is None else list(value) for value in values]
        elif pa.types.is_string(self.type):
            try:
                # Most columns contain nothing but texts.
                return pa.array(values, self.type)
            # A value of another type, or a lone surrogate.
            except (pa.ArrowException, UnicodeEncodeError):
                values = [_text(value) for value in values]
        return pa.array(values, self.type)


def _row(card: Scorecard, row: int, *verdict: Any) -> int:
    return row


def _mode(card: Scorecard, row: int, *verdict: Any) -> Mode:
    return card.mode


def _of_sample(name: str) -> Callable[..., Any]:
    """Return a function that reads an attribute of the row's sample."""

    def read(card: Scorecard, row: int, *verdict: Any) -> Any:
        return getattr(card.samples[row], name)

    return read


def _advantage(card: Scorecard, row: int) -> float | None:
    if card.advantages is None:
        return None
    return card.advantages[row]


def _drawn(card: Scorecard, row: int) -> bool:
    return card.drawn is not None and card.drawn[row]


def _outcome(card: Scorecard, row: int) -> dict[str, Any] | None:
    outcome = card.samples[row].outcome
    if outcome is None:
        return None
    return outcome.to_record()


def _of_verdict(name: str) -> Callable[..., Any]:
    """Return a function that reads an attribute of the verdict."""

    def read(card: Scorecard, row: int, term: str, verdict: Verdict) -> Any:
        return getattr(verdict, name)

    return read


def _of_term(name: str) -> Callable[..., Any]:
    """Return a function for cells of a card's table, such as `values`, by term and row."""

    def read(card: Scorecard, row: int, term: str, verdict: Verdict) -> Any:
        return getattr(card, name)[term][row]

    return read


INTEGER = pa.int64()
INTEGERS = pa.list_(pa.int32())
NUMBER = pa.float64()
TEXT = pa.string()
FLAG = pa.bool_()

SAMPLE_COLUMNS = (
    Column("step", INTEGER, _of_sample("step"), is_read=True),
    Column("mode", TEXT, _mode),
    Column("group", INTEGER, _of_sample("group"), is_read=True),
    Column("sample", INTEGER, _row, page="sample"),
    # Plain text, or a conversation as JSON.
    Column("prompt", TEXT, _of_sample("prompt"), is_read=True),
    Column("text", TEXT, _of_sample("text"), is_read=True, page="text"),
    Column("tokens", INTEGER, _of_sample("length"), page="tokens"),
    Column("tool_tokens", INTEGER, _of_sample("tool_tokens"), is_read=True),
    Column("truncated", FLAG, _of_sample("truncated"), is_read=True, page="cut"),
    Column("total", NUMBER, lambda card, row: card.totals[row], is_read=True, page="total"),
    Column("advantage", NUMBER, _advantage, is_read=True, page="advantage"),
    # Whether the row was drawn for its expected learning signal, by `learnable_rows`.
    Column("drawn", FLAG, _drawn, is_read=True),
    Column("void", FLAG, lambda card, row: card.void[row], page="void"),
    # The dataset's columns as JSON.
    Column("row", TEXT, _of_sample("row"), is_read=True),
    # The start of the assistant's turn that was part of the prompt.
    Column("prefill", TEXT, _of_sample("prefill"), is_read=True),
    # The messages of a conversational completion, as JSON.
    Column("messages", TEXT, _of_sample("messages"), is_read=True),
    # The end of the rollout in its environment, as JSON.
    Column("outcome", TEXT, _outcome, is_read=True),
    Column("completion_ids", INTEGERS, _of_sample("completion_ids"), is_read=True),
)

VERDICT_COLUMNS = (
    Column("step", INTEGER, _of_sample("step")),
    Column("mode", TEXT, _mode),
    Column("group", INTEGER, _of_sample("group")),
    Column("sample", INTEGER, _row, is_read=True),
    Column("term", TEXT, lambda card, row, term, verdict: term, is_read=True),
    Column("status", TEXT, _of_verdict("status"), is_read=True, page="status"),
    Column("blame", TEXT, _of_verdict("blame"), is_read=True, page="blame"),
    Column("score", NUMBER, _of_verdict("score"), is_read=True, page="score"),
    # The score after shape and gate.
    Column("value", NUMBER, _of_term("values"), is_read=True, page="value"),
    # Whether a closed gate set the value.
    Column("gated", FLAG, _of_term("gated"), is_read=True, page="gated"),
    # The weight in force.
    Column(
        "weight", NUMBER, lambda card, row, term, verdict: card.weights[term], is_read=True
    ),
    Column("answer", TEXT, _of_verdict("answer"), is_read=True, page="answer"),
    Column("reason", TEXT, _of_verdict("reason"), is_read=True, page="reason"),
    Column("seconds", NUMBER, _of_verdict("seconds"), is_read=True, page="seconds"),
    # The verdict's details, as JSON.
    Column("details", TEXT, _of_verdict("details"), is_read=True, page="details"),
)


def tables_of(card: Scorecard) -> dict[str, pa.Table]:
    """Build a scorecard's tables: `verdicts`, a row per verdict, ordered by term; `samples`, a row per completion."""
    samples = [(card, row) for row in range(len(card))]
    verdicts = []
    for term in card.terms:
        for row, verdict in enumerate(card.verdicts[term]):
            if verdict is not None:
                verdicts.append((card, row, term, verdict))
    return {
        "verdicts": pa.table(
            {column.name: column.array(verdicts) for column in VERDICT_COLUMNS}
        ),
        "samples": pa.table(
            {column.name: column.array(samples) for column in SAMPLE_COLUMNS}
        ),
    }


def _finite(value: float | None) -> float | None:
    """Return a finite number; None for None, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return None
    return value


def _text(value: Any) -> str | None:
    """Convert a value to text without lone surrogates; None stays None."""
    if value is None:
        return None
    # Most verdicts have no details.
    if value == {}:
        return "{}"
    text: str = value if isinstance(value, str) else _JSON.encode(plain(value))
    if text.isascii():
        return text
    return encodable(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A part's description of its batch, stored in the parquet file's metadata."""

    # Optimizer step; None if unknown.
    step: int | None
    # Training or evaluation.
    mode: Mode
    # Number of earlier starts of the run. A later session's batch replaces an earlier session's batch of its step.
    session: int
    # Weights in force, also of terms without a verdict in this batch.
    weights: dict[str, float]
    # Whether prompts are conversations, stored as JSON.
    conversational: bool


def read_about(path: Path) -> About:
    """Read a part's description from its file; only the footer is read."""
    return about_of(pq.read_schema(path).metadata)


def about_of(metadata: Mapping[bytes, bytes] | None) -> About:
    """Parse a part's description from parquet metadata.

    Raises:
        ValueError: The metadata belongs to no part.
    """
    if not metadata or ABOUT not in metadata:
        raise ValueError("No recorder has written it.")
    return About(**json.loads(metadata[ABOUT]))


def session_starts(steps: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Map each session to its first trained step, given pairs of session and trained step.

    Sessions that only evaluate have no first step, so they replace no batches: a process that only evaluates, or that
    evaluates before it resumes, does so at step 0.

    Examples:
        >>> session_starts([(0, 0), (0, 1), (1, 1), (1, 2)])
        {0: 0, 1: 1}
    """
    starts: dict[int, int] = {}
    for session, step in steps:
        starts[session] = min(step, starts.get(session, step))
    return starts


def is_repeated(
    session: int,
    step: int | None,
    starts: Mapping[int, int],
    *,
    is_evaluation: bool = False,
) -> bool:
    """Check whether a later session replaces a batch: the session began at or before the batch's step.

    An evaluation belongs to the steps before it, so an evaluation at a later session's first step is kept. If that
    session began at step 0, it is a new run, and all earlier evaluations are replaced.

    Examples:
        >>> [is_repeated(0, step, {0: 0, 1: 2}) for step in (1, 2, 3)]
        [False, True, True]
        >>> [is_repeated(0, step, {0: 0, 1: 2}, is_evaluation=True) for step in (1, 2, 3)]
        [False, False, True]
        >>> is_repeated(0, 0, {0: 0, 1: 0}, is_evaluation=True)
        True
    """
    if step is None:
        return False
    for other, start in starts.items():
        if other <= session:
            continue
        is_kept_at_start = is_evaluation and start > 0
        if start < step or (start == step and not is_kept_at_start):
            return True
    return False
