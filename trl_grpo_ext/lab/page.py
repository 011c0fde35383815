"""The lab's page: runs of the ten-action policy, step by step, as one file that opens offline."""

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
DIGITS = 7  # as many as the float32 logits have

SETTINGS = (
    *("num_generations", "num_iterations", "epsilon", "beta", "use_bias_correction_kl"),
    *("learning_rate", "scale_rewards", "seed"),
)


def lab_page(runs: Sequence[LabRun], title: str) -> str:
    """The page of one or more runs on one landscape; the first is the one that it opens with.

    Raises:
        ValueError: for no runs.
    """
    return standalone_page(title=title, data=page_data(runs, title), scripts=SCRIPTS, styles=STYLES)


def page_data(runs: Sequence[LabRun], title: str) -> dict[str, Any]:
    """What the page shows, plain values; a number that is not finite is null.

    `runs` has for each run: `probabilities` (u + 1, 10), `entropy`, `kl`, `max_probability` and `expected_reward`
    (u + 1 each; the last null without a landscape), and by update `updates`: when its batch was sampled, and a list for
    each of its samples (see `_sample_data`). `landscapes` are those that the page's own run may have.
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
    """Action, group, reward, advantage, ratio, whether clipped: in this order, since there are thousands."""
    numbers = plain([sample.reward, sample.advantage, sample.ratio], DIGITS)
    return [sample.action, sample.group, *numbers, sample.is_clipped(low, high)]
