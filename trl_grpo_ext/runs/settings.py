"""The settings of a run that its figures depend on: `scorecards/run.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trl_grpo_ext.mix.reward_plan import RewardPlan
from trl_grpo_ext.runs.verifier_identity import verifier_identity
from trl_grpo_ext.support.files import write_text

SETTINGS = (
    "num_generations",
    "num_generations_eval",
    "scale_rewards",
    "multi_objective_aggregation",
    "loss_type",
    "beta",
    "epsilon",
    "learning_rate",
    "num_iterations",
    "temperature",
    "max_completion_length",
    "mask_truncated_completions",
    "drop_dead_groups",
    "max_steps",
    "logging_steps",
    "seed",
)


def run_settings(args: Any, plan: RewardPlan, world_size: int) -> dict[str, Any]:
    """The trainer's settings, plain values.

    `reward_functions` are TRL's, in order, those that are terms among them. `verifiers` are the identities of the
    terms' verifiers, by term; null where it cannot be told.
    """
    found = {name: getattr(args, name, None) for name in SETTINGS}
    names = [getattr(function, "__name__", str(function)) for function in plan.functions]
    verifiers = {term.name: verifier_identity(verifier) for term, verifier in plan.mix.verifiers} if plan.mix else {}
    return found | {"world_size": world_size, "reward_functions": names, "verifiers": verifiers}


def write_settings(run_folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
    """Write `scorecards/run.json`, whole or not at all."""
    path = Path(run_folder) / "scorecards" / "run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        settings = {**settings, "verifiers": _agreed(settings.get("verifiers", {}), path)}
    write_text(path, json.dumps(settings, indent=2, default=str) + "\n")


def _agreed(verifiers: Mapping[str, str | None], path: Path) -> dict[str, str | None]:
    """The identities of this session that were those of the earlier ones too; None for a term that has had several."""
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8"))["verifiers"])
    except (ValueError, KeyError, TypeError):  # torn, or of a version that did not write them
        return dict.fromkeys(verifiers)
    changed = {term: None for term, identity in verifiers.items() if before.get(term, identity) != identity}
    return before | dict(verifiers) | changed
