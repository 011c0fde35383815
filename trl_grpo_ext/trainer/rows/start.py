"""Check the settings of learnable rows before a run, and make the posteriors to begin with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.runs.successes import read_successes
from trl_grpo_ext.sample import prompt_key
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.trainer.rows.posteriors import Integers, Posteriors

logger = logging.getLogger(__name__)

# A column of more different numbers is cut into fifths; a column of more different texts is refused. Ours.
MOST_VALUES = 20
PARTS = 5
# With fewer visits a row on average, few rows come back. Drawing these again in place of new rows cost .011
# [-.001, .023] of the held-out score. Ours; benchmarks/learnable_rows.py, data `once`, 12 seeds.
FEWEST_VISITS = 1.0


def first_posteriors(args: Any, mix: RewardMix | None, rows: Any) -> Posteriors | None:
    """Make a new run's posteriors, with the successes of an earlier run or a probe; None if rows are not chosen.

    Rows are not chosen without `learnable_rows`, and, with a warning, in a run that would learn nothing of its rows.
    `rows` is the run's `train_dataset`; None if environments own the data.

    Raises:
        ValueError: with cause and remedy, for rows that cannot be chosen, a column that makes no buckets, or an earlier
            run of other prompts.
    """
    if not getattr(args, "learnable_rows", False):
        return None
    _check(args, mix, rows)
    if _learns_nothing(args, len(rows)):
        return None
    posteriors = Posteriors(
        buckets=buckets_of(rows, args.rows_by),
        group_size=args.num_generations,
        floor=args.rows_floor,
        seed=args.seed,
    )
    if args.rows_from is not None:
        _learn_earlier(posteriors, args.rows_from, rows)
    return posteriors


def _check(args: Any, mix: RewardMix | None, rows: Any) -> None:
    """Raise a ValueError where rows cannot be chosen."""
    if mix is None:
        raise ValueError(
            "learnable_rows goes by verdicts, and plain reward functions have none: make one of them a verifier "
            "(@verifier), or take learnable_rows out."
        )
    if rows is None:
        raise ValueError(
            "learnable_rows chooses rows of train_dataset, and environments own this run's data."
        )
    if not (hasattr(rows, "__len__") and hasattr(rows, "__getitem__")):
        raise ValueError(
            f"learnable_rows looks rows up by number, and a stream ({type(rows).__name__}) has no numbers: load the "
            f"data whole (dataset_streaming: false), or take learnable_rows out."
        )
    groups = args.generation_batch_size // args.num_generations
    if groups > len(rows):
        raise ValueError(
            f"learnable_rows draws {groups} different rows a batch, and train_dataset has {len(rows)}: take smaller "
            f"batches, or more rows."
        )


def _learns_nothing(args: Any, size: int) -> bool:
    """Return whether few of `size` rows come back and nothing else tells them apart; warn of it."""
    if args.rows_by is not None or args.rows_from is not None:
        return False
    visits = visits_of(args, size)
    if visits >= FEWEST_VISITS:
        return False
    logger.warning(
        "learnable_rows does nothing in this run, which meets its rows in TRL's order: each row is seen %.2g times on "
        "average, so few rows come back, and nothing is known of a row before. Name a column that tells hard rows from "
        "easy rows (rows_by), or an earlier run or a probe (rows_from), or train on fewer rows.",
        visits,
    )
    return True


def visits_of(args: Any, size: int) -> float:
    """Return how often a run meets each of `size` rows on average."""
    if args.max_steps <= 0:
        return float(args.num_train_epochs)
    backward_passes = args.max_steps * args.gradient_accumulation_steps
    batches = backward_passes / (args.steps_per_generation * args.num_iterations)
    groups_a_batch = args.generation_batch_size / args.num_generations
    return float(batches * groups_a_batch / size)


def _learn_earlier(posteriors: Posteriors, source: str, rows: Any) -> None:
    earlier = read_successes(source)
    found = {}
    for number, prompt in enumerate(rows["prompt"]):
        successes = earlier.get(prompt_key(prompt))
        if successes is not None and successes.judged:
            found[number] = successes
    if not found:
        raise ValueError(
            f"{source!r} (rows_from) knows none of the prompts of train_dataset: it is of other data, or of prompts "
            f"that are written in another way."
        )
    logger.info(
        "%s (rows_from) knows the rates of %d of %d rows.", source, len(found), len(rows)
    )
    counts = np.array([(one.right, one.judged) for one in found.values()])
    posteriors.learn_earlier(list(found), right=counts[:, 0], judged=counts[:, 1])


def buckets_of(rows: Any, column: str | None) -> Integers:
    """Number the buckets of rows, (size,): a bucket per value of the column, or fifths of many different numbers.

    Raises:
        ValueError: for an unknown column, or values that make no buckets.

    Examples:
        >>> from datasets import Dataset
        >>> buckets_of(Dataset.from_dict({"level": ["easy", "hard", "easy"]}), "level").tolist()
        [0, 1, 0]
    """
    if column is None:
        return np.zeros(len(rows), dtype=np.int64)
    names = getattr(rows, "column_names", None) or list(rows[0])
    if column not in names:
        near = did_you_mean(column, names)
        raise ValueError(f"train_dataset has no column `{column}` (rows_by). {near}")
    values = list(rows[column])
    if any(isinstance(value, list | dict) for value in values):
        raise ValueError(
            f"The column `{column}` (rows_by) holds lists; it takes texts, numbers or truth values."
        )
    known = [value for value in values if value is not None]
    different = len(set(known))
    if different <= MOST_VALUES:
        places = {value: place for place, value in enumerate(dict.fromkeys(values))}
        return np.array([places[value] for value in values], dtype=np.int64)
    if not all(isinstance(value, int | float) for value in known):
        raise ValueError(
            f"The column `{column}` (rows_by) has {different} different values, too many to learn the rate of "
            f"each: take a column with {MOST_VALUES} at most, or a column of numbers, which is cut into fifths."
        )
    return _fifths(values, known)


def _fifths(values: Sequence[float | None], known: Sequence[float]) -> Integers:
    """Number each value's fifth, (size,). Rows without a number share a sixth bucket."""
    inner_edges = np.linspace(0, 1, PARTS + 1)[1:-1]
    edges = np.quantile(known, inner_edges)
    buckets = np.full(len(values), PARTS, dtype=np.int64)
    for place, value in enumerate(values):
        if value is not None:
            buckets[place] = np.digitize(value, edges)
    return buckets
