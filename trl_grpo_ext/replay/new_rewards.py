"""New rewards: what of a recipe a replay can try out, its mix and how rewards become advantages."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trl_grpo_ext.figures.advantages import AdvantageSettings
from trl_grpo_ext.mix.described import build_mix
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.runs.recorded_run import RecordedRun

COUNTED = ("rewards", "scale_rewards", "multi_objective_aggregation")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRewards:
    """The rewards to try out.

    Attributes:
        mix: The mix.
        settings: How TRL would make advantages of it; None is as in the run.
        ignored: Settings of the recipe that differ from the run's and cannot be tried out on recorded completions, by
            name: the run's value and the recipe's.
    """

    mix: RewardMix
    settings: AdvantageSettings | None = None
    ignored: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


def read_new_rewards(keys: Mapping[str, Any], run: RecordedRun) -> NewRewards:
    """Read the keys of a recipe; one with nothing but `rewards:` will do.

    What the recipe does not say of `scale_rewards` and `multi_objective_aggregation` is as in the run.

    Raises:
        ValueError: for rewards that cannot be built, or a value that TRL does not have.
    """
    _check_keys(keys)
    run_settings = run.settings
    if keys.get("reward_weights") is not None:
        raise ValueError("`rewards:` bring their own weights: remove reward_weights and set each term's weight.")
    mix = build_mix(keys.get("rewards"))
    ignored = {
        key: (run_settings[key], value)
        for key, value in keys.items()
        if key in run_settings and key not in COUNTED and _plain(value) != _plain(run_settings[key])
    }
    settings = AdvantageSettings.read(keys, otherwise=AdvantageSettings.read(run_settings))
    return NewRewards(mix=mix, settings=settings, ignored=ignored)


def _check_keys(keys: Mapping[str, Any]) -> None:
    """Refuse near misses of the keys that count; all other keys are the trainer's, which checks them."""
    for key in keys:
        near = difflib.get_close_matches(key, COUNTED, n=1, cutoff=0.85)
        if near and key not in COUNTED:
            raise ValueError(f"Unknown key `{key}` in the recipe. Did you mean `{near[0]}`?")


def _plain(value: Any) -> Any:
    """A value for comparison: YAML reads `1e-5` as text."""
    try:
        return value if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return value
