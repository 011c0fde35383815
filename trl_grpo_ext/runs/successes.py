"""Read success rates of prompts: from a recorded run, or from a file of rates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trl_grpo_ext.figures.success_rates import group_successes
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.sample import prompt_key
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.files import read_lines, write_text

# The file of rates that `trl-grpo-ext probe` leaves.
RATES = "rates.jsonl"


@dataclass(frozen=True, slots=True)
class Successes:
    """A prompt's successes, in fractions for partial ones, and its judged completions.

    Examples:
        >>> (Successes(1.0, 4.0) + Successes(2.0, 4.0)).rate
        0.375
    """

    right: float = 0.0
    judged: float = 0.0

    @property
    def rate(self) -> float | None:
        """The share of successes, in [0, 1]; None without a judged completion."""
        if not self.judged:
            return None
        return self.right / self.judged

    def __add__(self, other: Successes) -> Successes:
        return Successes(self.right + other.right, self.judged + other.judged)


def successes_of(cards: Iterable[Scorecard]) -> dict[int, Successes]:
    """Sum the successes of each prompt over scorecards, by `prompt_key`."""
    found: dict[int, Successes] = {}
    for card in cards:
        rights, judged = group_successes(card)
        for group, members in enumerate(card.members):
            key = prompt_key(card.samples[members[0]].prompt)
            of_group = Successes(float(rights[group]), float(judged[group]))
            found[key] = found.get(key, Successes()) + of_group
    return found


def write_rates(path: Path, found: Mapping[int, Successes]) -> None:
    """Write a line per prompt: its key as text, since JSON's numbers are too small for it, and its counts."""
    lines = []
    for key, counts in found.items():
        lines.append(
            f'{{"prompt": "{key:016x}", "right": {counts.right:g}, "judged": {counts.judged:g}}}\n'
        )
    write_text(path, "".join(lines))


def read_successes(source: str | os.PathLike[str]) -> dict[int, Successes]:
    """Read each prompt's successes, by `prompt_key`: from a run's folder, or from a file of `write_rates`.

    Raises:
        ValueError: there is no such file or folder, or there are no rates in it.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        try:
            found = successes_of(RecordedRun(path).cards())
        except FileNotFoundError as error:
            raise ValueError(f"rows_from: {error}") from None
    elif path.is_file():
        found = _successes_in(path)
    else:
        raise ValueError(f"There is no file or folder {os.fspath(source)!r} (rows_from).")
    if not found:
        raise ValueError(
            f"{os.fspath(source)!r} (rows_from) has no rates of rows: name the folder of a recorded run, or the file "
            f"{RATES} of trl-grpo-ext probe."
        )
    return found


def _successes_in(path: Path) -> dict[int, Successes]:
    found = {}
    for line in read_lines(path):
        if not {"prompt", "right", "judged"} <= line.keys():
            continue
        key = int(line["prompt"], 16)
        found[key] = Successes(float(line["right"]), float(line["judged"]))
    return found
