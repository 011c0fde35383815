"""The lab's page: every update of ten-action runs, in an HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.lab.landscape import double_peak, linear, single_peak
from trl_grpo_ext.lab.policy_history import SampledAction, batches_by_update, sampled_actions
from trl_grpo_ext.report.page import standalone_page
from trl_grpo_ext.support.files import plain

if TYPE_CHECKING:
    from trl_grpo_ext.lab.training import LabRun

SCRIPTS = ("uplot.min.js", "theme.js", "charts.js", "playground.js", "lab.js")
STYLES = ("uplot.min.css", "theme.css", "lab.css")
# Significant digits; the logits, in float32, have no more.
DIGITS = 7

SETTINGS = (
    *("num_generations", "num_iterations", "epsilon", "beta", "use_bias_correction_kl"),
    *("learning_rate", "scale_rewards", "seed"),
)


def lab_page(runs: Sequence[LabRun], title: str) -> str:
    """Render runs on a landscape as a page; the page opens with the first run.

    Raises:
        ValueError: if `runs` is empty.
    """
    return standalone_page(title=title, data=page_data(runs, title), scripts=SCRIPTS, styles=STYLES)


def page_data(runs: Sequence[LabRun], title: str) -> dict[str, Any]:
    """Collect the page's data as plain values; numbers that are not finite become null.

    Each run has arrays over its u updates: `probabilities` (u + 1, 10), `entropy`, `kl`, `max_probability` and
    `expected_reward` (u + 1 each; `expected_reward` is null without a landscape). `updates` has for each update the
    step at which its batch was sampled, and a list per sample (see `_sample_data`). `landscapes` lists choices for the
    run that the page trains in the browser.
    """
    if not runs:
        raise ValueError("A page of the lab shows one run or more, got none.")
    return {
        "title": title,
        "rewards": None if runs[0].rewards is None else list(runs[0].rewards),
        "landscapes": {one.name: list(one.rewards) for one in (single_peak(), double_peak(), linear())},
        "runs": [_run_data(run) for run in runs],
    }


def _run_data(run: LabRun) -> dict[str, Any]:
    history, args = run.history, run.trainer.args
    used = batches_by_update(run.cards, run.steps)
    seen = [
        [] if position is None else sampled_actions(run.cards[position], history, update)
        for update, position in enumerate(used)
    ]
    high = args.epsilon if args.epsilon_high is None else args.epsilon_high
    return {
        "name": run.algorithm.name,
        "title": run.algorithm.title,
        "note": run.algorithm.note,
        "settings": {name: plain(getattr(args, name, None)) for name in SETTINGS},
        "seconds": round(run.seconds, 2),
        "completions": sum(len(card) for card in run.cards if card.mode == "train"),
        "probabilities": plain(history.probabilities.tolist(), DIGITS),
        "entropy": plain(history.entropy.tolist(), DIGITS),
        "kl": plain(history.kl.tolist(), DIGITS),
        "max_probability": plain(history.max_probability.tolist(), DIGITS),
        "expected_reward": run.rewards and plain(history.expected_reward(run.rewards).tolist(), DIGITS),
        "updates": [
            {
                "sampled": None if position is None else run.cards[position].step,
                "samples": [_sample_data(sample, args.epsilon, high) for sample in samples],
            }
            for position, samples in zip(used, seen, strict=True)
        ],
    }


def _sample_data(sample: SampledAction, low: float, high: float) -> list[Any]:
    """List a sample's action, group, reward, advantage, ratio and clipping; a list, since a page holds thousands."""
    numbers = plain([sample.reward, sample.advantage, sample.ratio], DIGITS)
    return [sample.action, sample.group, *numbers, sample.is_clipped(low, high)]
