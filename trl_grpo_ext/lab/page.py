"""The lab's page: every update of ten-action runs, in an HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.lab.landscape import double_peak, linear, single_peak
from trl_grpo_ext.lab.policy_history import (
    Floats,
    SampledAction,
    batches_by_update,
    sampled_actions,
)
from trl_grpo_ext.report.page import standalone_page
from trl_grpo_ext.support.files import plain

if TYPE_CHECKING:
    from trl_grpo_ext.lab.training import LabRun

SCRIPTS = ("uplot.min.js", "theme.js", "charts.js", "playground.js", "lab.js")
STYLES = ("uplot.min.css", "theme.css", "lab.css")
# Significant digits; the logits, in float32, have no more.
DIGITS = 7

SETTINGS = (
    "num_generations",
    "num_iterations",
    "epsilon",
    "beta",
    "use_bias_correction_kl",
    "learning_rate",
    "scale_rewards",
    "seed",
)


def lab_page(runs: Sequence[LabRun], title: str) -> str:
    """Render runs on a landscape as a page; the page opens with the first run.

    Raises:
        ValueError: if `runs` is empty.
    """
    return standalone_page(
        title=title,
        data=page_data(runs, title),
        scripts=SCRIPTS,
        styles=STYLES,
    )


def page_data(runs: Sequence[LabRun], title: str) -> dict[str, Any]:
    """Collect the page's data as plain values; numbers that are not finite become null.

    Each run has arrays over its u updates: `probabilities` (u + 1, 10), `entropy`, `kl`, `max_probability` and
    `expected_reward` (u + 1 each; `expected_reward` is null without a landscape). `updates` has for each update the
    step at which its batch was sampled, and a list per sample (see `_sample_data`). `landscapes` lists choices for the
    run that the page trains in the browser.
    """
    if not runs:
        raise ValueError("A page of the lab shows one run or more, got none.")
    rewards = runs[0].rewards
    landscapes = (single_peak(), double_peak(), linear())
    return {
        "title": title,
        "rewards": None if rewards is None else list(rewards),
        "landscapes": {landscape.name: list(landscape.rewards) for landscape in landscapes},
        "runs": [_run_data(run) for run in runs],
    }


def _run_data(run: LabRun) -> dict[str, Any]:
    history = run.history
    args = run.trainer.args
    expected_reward = None
    if run.rewards is not None:
        expected_reward = _plain(history.expected_reward(run.rewards))
    return {
        "name": run.algorithm.name,
        "title": run.algorithm.title,
        "note": run.algorithm.note,
        "settings": {name: plain(getattr(args, name, None)) for name in SETTINGS},
        "seconds": round(run.seconds, 2),
        "completions": sum(len(card) for card in run.cards if card.mode == "train"),
        "probabilities": _plain(history.probabilities),
        "entropy": _plain(history.entropy),
        "kl": _plain(history.kl),
        "max_probability": _plain(history.max_probability),
        "expected_reward": expected_reward,
        "updates": _updates(run),
    }


def _plain(values: Floats) -> Any:
    return plain(values.tolist(), DIGITS)


def _updates(run: LabRun) -> list[dict[str, Any]]:
    args = run.trainer.args
    low = args.epsilon
    # TRL clips both sides alike by default.
    high = low if args.epsilon_high is None else args.epsilon_high
    updates = []
    for update, position in enumerate(batches_by_update(run.cards, run.steps)):
        step = None
        samples = []
        if position is not None:
            card = run.cards[position]
            step = card.step
            for sample in sampled_actions(card, run.history, update):
                samples.append(_sample_data(sample, low, high))
        updates.append({"sampled": step, "samples": samples})
    return updates


def _sample_data(sample: SampledAction, low: float, high: float) -> list[Any]:
    """List a sample's action, group, reward, advantage, ratio and clipping; a list, since a page holds thousands."""
    numbers = plain([sample.reward, sample.advantage, sample.ratio], DIGITS)
    return [sample.action, sample.group, *numbers, sample.is_clipped(low, high)]
