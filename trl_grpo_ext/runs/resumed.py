"""Compare the settings of a resumed run with the settings on record, and record the changes.

`run.json` has the latest settings. Its list `resumed` has an entry for each resume with other settings: the step, and
for each changed setting the value before and after.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trl_grpo_ext.runs.recorded_run import RecordedRun
from trl_grpo_ext.runs.run_settings import SETTINGS, write_settings
from trl_grpo_ext.support.files import plain, write_json
from trl_grpo_ext.support.text import shortened

Changes = Mapping[str, list[Any]]

KEY = "resumed"
# A run is often resumed for more steps.
MAY_CHANGE = ("max_steps", "logging_steps")
COMPARED = ("dataset", "world_size", *(name for name in SETTINGS if name not in MAY_CHANGE))
# Settings that transformers restores from a checkpoint, with optimizer and schedule.
RESTORED = ("learning_rate",)
# Characters of a shown value.
MOST_CHARS = 60


def write_start(run_folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> Changes:
    """Write `run.json` when training starts; return settings changed since the previous start, if any."""
    path = Path(run_folder) / "scorecards" / "run.json"
    before = RecordedRun(Path(run_folder)).settings if path.exists() else {}
    kept = {KEY: before[KEY]} if KEY in before else {}
    write_settings(run_folder, {**settings, **kept})
    return changes_between(before, settings)


def changes_between(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Map each changed setting to its old and new value; properties of a missing reward are None.

    Settings that one side does not know, such as a record of an earlier version, are not compared.

    Examples:
        >>> changes_between({"beta": 0.0, "rewards": [{"name": "a", "weight": 1}]}, {"beta": 0.04, "rewards": []})
        {'beta': [0.0, 0.04], 'a weight': [1, None]}
    """
    old, new = plain(before), plain(now)
    pairs = {
        name: [old[name], new[name]] for name in COMPARED if name in old and name in new
    }
    if "rewards" in old and "rewards" in new:
        rewards = [_properties(old["rewards"]), _properties(new["rewards"])]
        for label in {**rewards[0], **rewards[1]}:
            pairs[label] = [each.get(label) for each in rewards]
    return {label: pair for label, pair in pairs.items() if pair[0] != pair[1]}


def _properties(rewards: list[dict[str, Any]]) -> dict[str, Any]:
    """Map reward properties, including verifier settings, to values, named `<reward> <property>`."""
    found = {}
    for reward in rewards:
        properties = {
            key: value for key, value in reward.items() if key not in ("name", "settings")
        }
        for key, value in {**(reward.get("settings") or {}), **properties}.items():
            found[f"{reward['name']} {key}"] = value
    return found


def describe_changes(step: int, changes: Changes) -> str:
    """Write the changes of a resume as a phrase.

    Examples:
        >>> describe_changes(8, {"short weight": [0.2, 0.9], "learning_rate": [1e-06, 0.001]})
        "from step 8 on: short weight 0.2 -> 0.9, learning_rate 1e-06 -> 0.001 (the checkpoint's holds)"
    """
    parts = []
    for label, (before, after) in changes.items():
        note = " (the checkpoint's holds)" if label in RESTORED else ""
        parts.append(f"{label} {_shown(before)} -> {_shown(after)}{note}")
    return f"from step {step} on: {', '.join(parts)}"


def _shown(value: Any) -> str:
    return "none" if value is None else shortened(str(value), MOST_CHARS)


def record_start(
    run_folder: str | os.PathLike[str],
    step: int,
    changes: Changes,
    known_now: Mapping[str, Any],
) -> None:
    """Add a resume at `step` to `run.json` if settings have changed; a start at step 0 is a run without resumes.

    Settings in `known_now` are known only when training starts, such as what the optimizer holds.
    """
    recorded = RecordedRun(Path(run_folder)).settings
    settings = {**recorded, **known_now}
    before = settings.pop(KEY, [])
    resumed = [entry for entry in before if entry["step"] < step]
    if step and changes:
        resumed.append({"step": step, "changes": changes})
    if resumed:
        settings[KEY] = resumed
    if settings != recorded:
        write_json(Path(run_folder) / "scorecards" / "run.json", settings)


def weight_at_start(reward: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """Return a reward's weight when the run first began, before all resumes; None if the run had no such reward."""
    label = f"{reward['name']} weight"
    for entry in settings.get(KEY, ()):
        if label in entry["changes"]:
            return entry["changes"][label][0]
    return reward["weight"]
