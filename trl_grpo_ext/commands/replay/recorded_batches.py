"""Inputs of a replay: selected batches, training progress at each step, and the rewards to try."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trl_grpo_ext.figures.advantages import AdvantageSettings
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.recipe.data import number_or_text
from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.scorecard import Mode, Scorecard
from trl_grpo_ext.support.text import listed, nearest


class RecordedBatches:
    """The selected batches of a recorded run.

    Attributes:
        numbers: Numbers of the selected batches, in order.
        terms: Terms of the run, over all its sessions.
        left_out: Number of batches left out to keep to the limit.
        unreadable: Numbers of unreadable batches met so far.
    """

    def __init__(self, run: RecordedRun, selection: Selection) -> None:
        self.run = run
        self.selection = selection
        self.unreadable: list[int] = []
        self._parts = run.parts()
        terms: dict[str, None] = {}
        meant = []
        for number, about in self._parts:
            terms |= dict.fromkeys(about.weights)
            if about.mode == selection.mode and selection.has_step(about.step):
                meant.append(number)
        self.terms = tuple(terms)
        # Batches of a run have one size, which the first readable batch tells.
        first = next(filter(None, map(self.card, meant)), None)
        self.numbers = selection.within_limit(meant, 1 if first is None else len(first))
        self.left_out = len(meant) - len(self.numbers)

    def card(self, number: int) -> Scorecard | None:
        """Read a batch; None if it cannot be read, or is empty."""
        card = self.run.readable(number)
        if card is None and number not in self.unreadable:
            self.unreadable.append(number)
        return card if card is not None and len(card) else None

    def why_none(self) -> str:
        """Explain why no batch could be replayed, and suggest a remedy."""
        folder = repr(os.fspath(self.run.folder))
        mode = self.selection.mode
        if not self._parts:
            return f"{folder} has no scorecards yet: nothing was generated, or nothing was recorded."
        if self.unreadable:
            return f"None of the batches that are meant can be read; in {folder} they are: {listed(self.unreadable)}."
        steps = [about.step for _, about in self._parts if about.mode == mode]
        if not steps:
            kind = "training" if mode == "train" else "evaluation"
            other = "eval" if mode == "train" else "train"
            return f"{folder} has no batches of {kind}; --mode {other} replays those that it has."
        known = [step for step in steps if step is not None]
        span = "its steps are unknown"
        if known:
            span = f"its batches are of the steps {min(known)} to {max(known)}"
        return f"{folder} has no batches of the steps that were asked for; {span}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Choice of batches by mode and step, with a limit on completions.

    Raises:
        ValueError: for an empty range of steps, or a limit below 1.
    """

    # Batches of training or of evaluation.
    mode: Mode = "train"
    # The first optimizer step.
    first_step: int = 0
    # The step after the last; None for no end.
    end_step: int | None = None
    # Largest number of completions, in whole, evenly spaced batches, at least one batch; None for no limit.
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.end_step is not None and self.end_step <= self.first_step:
            raise ValueError(
                f"There are no steps from {self.first_step} to before {self.end_step}."
            )
        if self.limit is not None and self.limit < 1:
            raise ValueError(
                f"The limit is a number of completions, 1 or more; got {self.limit}."
            )

    def has_step(self, step: int | None) -> bool:
        """Say whether the range of steps includes a step; an unknown step (None) only counts without a range."""
        if step is None:
            return self.first_step == 0 and self.end_step is None
        is_before_end = self.end_step is None or step < self.end_step
        return self.first_step <= step and is_before_end

    def within_limit(self, numbers: Sequence[int], batch_size: int) -> list[int]:
        """Choose batches within the limit: first, last, and evenly spaced batches between them.

        Examples:
            >>> Selection(limit=30).within_limit([0, 1, 2, 3, 4, 5, 6], batch_size=8)
            [0, 3, 6]
        """
        if self.limit is None:
            return list(numbers)
        count = max(1, self.limit // max(1, batch_size))
        if count >= len(numbers):
            return list(numbers)
        places = np.linspace(0, len(numbers) - 1, count).round().astype(int)
        return [numbers[place] for place in places.tolist()]


def parse_steps(text: str) -> tuple[int, int | None]:
    """Parse `a:b`, the steps from a up to b without b; either number may be missing.

    Raises:
        ValueError: for any other text.

    Examples:
        >>> parse_steps("10:20"), parse_steps(":5"), parse_steps("30:")
        ((10, 20), (0, 5), (30, None))
    """
    match = re.fullmatch(r"(\d*):(\d*)", text.strip(), re.ASCII)
    if match is None:
        raise ValueError(
            f"Steps are a range such as 10:20, :20 or 10:, without the second number; got {text!r}."
        )
    first, end = match.groups()
    return int(first or 0), int(end) if end else None


@dataclass(frozen=True, slots=True)
class RunClock:
    """The length of a run in optimizer steps, for training progress."""

    # Number of optimizer steps of the whole run, 1 or more; None if unknown.
    last_step: int | None
    # Whether the last session finished.
    ended: bool

    @classmethod
    def of(cls, run: RecordedRun, settings: Mapping[str, Any]) -> RunClock:
        """Read the length from the settings; of a run limited by epochs, from its checkpoints or last log.

        Examples:
            >>> RunClock(last_step=200, ended=True).progress(50)
            0.25
        """
        logs = _last_session(run)
        ended = any("train_runtime" in entry for entry in logs)
        steps = settings.get("max_steps")
        if not isinstance(steps, int) or steps <= 0:
            steps = _checkpoints_last_step(run.folder)
        if steps is None and ended:
            # A run that ended before its first step has no length: `progress` would divide by 0.
            steps = max(int(entry["step"]) for entry in logs) or None
        return cls(last_step=steps, ended=ended)

    def progress(self, step: int | None) -> float:
        """Return the share of training done at a step, in [0, 1]; 0 if unknown."""
        if step is None or self.last_step is None:
            return 0.0
        return min(1.0, step / self.last_step)


def _last_session(run: RecordedRun) -> list[dict[str, Any]]:
    """Return the logs of the last training session; an earlier session may have finished, too."""
    try:
        logs = run.logs
    except OSError:
        return []
    # A session that only evaluated has neither.
    trained = [
        entry["session"] for entry in logs if "loss" in entry or "train_runtime" in entry
    ]
    last = max(trained, default=0)
    return [entry for entry in logs if entry["session"] == last]


def _checkpoints_last_step(folder: Path) -> int | None:
    """Read `max_steps` from the newest readable checkpoint's `trainer_state.json`; None without such a checkpoint."""
    states = sorted(
        folder.glob("checkpoint-*/trainer_state.json"),
        key=lambda path: path.stat().st_mtime,
    )
    for path in reversed(states):
        try:
            steps = json.loads(path.read_text(encoding="utf-8"))["max_steps"]
        # A run that goes on may write a checkpoint, or delete an old one, while it is read.
        except (ValueError, KeyError, OSError):
            continue
        if isinstance(steps, int) and steps > 0:
            return steps
    return None


COUNTED = ("rewards", "scale_rewards", "multi_objective_aggregation")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRewards:
    """Rewards to try in a replay."""

    mix: RewardMix
    # TRL's settings for computing advantages; None takes the run's.
    settings: AdvantageSettings | None = None
    # Settings that differ from the run's but cannot be tried on recorded completions: name to (run's value, recipe's
    # value).
    ignored: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


def read_new_rewards(keys: Mapping[str, Any], run: RecordedRun) -> NewRewards:
    """Read rewards and advantage settings from a recipe's keys; a recipe with nothing but `rewards:` is enough.

    Missing `scale_rewards` and `multi_objective_aggregation` are taken from the run.

    Raises:
        ValueError: for rewards that cannot be built, or a value unknown to TRL.
    """
    _check_keys(keys)
    recorded = run.settings
    if keys.get("reward_weights") is not None:
        raise ValueError(
            "`rewards:` bring their own weights: remove reward_weights and set each term's weight."
        )
    mix = build_mix(keys.get("rewards")).for_limit(recorded.get("max_completion_length"))
    ignored = {}
    for key in keys:
        if key not in recorded or key in COUNTED:
            continue
        # As texts, since YAML reads `1e-5` as text.
        old = number_or_text(str(recorded[key]))
        new = number_or_text(str(keys[key]))
        if old != new:
            ignored[key] = (recorded[key], keys[key])
    settings = AdvantageSettings.read(keys, otherwise=AdvantageSettings.read(recorded))
    return NewRewards(mix=mix, settings=settings, ignored=ignored)


def _check_keys(keys: Mapping[str, Any]) -> None:
    """Raise a ValueError for a misspelled key of `COUNTED`; the trainer checks all other keys."""
    for key in keys:
        near = nearest(key, COUNTED, likeness=0.85)
        if near is not None and key not in COUNTED:
            raise ValueError(f"Unknown key `{key}` in the recipe. Did you mean `{near}`?")
