"""Give TRL other training rows than the loader drew: rows whose groups are likely to be live, equal on all ranks."""

from __future__ import annotations

import copy
import logging
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import broadcast_object_list

from trl_grpo_ext.figures.logged import DRAWN_LIVE, EXPECTED_RATES, RETIRED, REVIVED
from trl_grpo_ext.figures.success_rates import group_successes
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import mean_of_known
from trl_grpo_ext.support.files import written_whole
from trl_grpo_ext.support.text import Once
from trl_grpo_ext.trainer.rows.posteriors import Draw, Posteriors

logger = logging.getLogger(__name__)

# The file in a checkpoint's folder.
FILE = "learnable_rows.npz"
NOTHING_LEARNED = (
    "learnable_rows learns nothing from the batch of step %s: no primary verdict says right, partly right or wrong. A "
    "score without a known range does not: declare it (score_range)."
)


class LearnableRows:
    """A choice of rows for a trainer's generation batches, by the verdicts of earlier batches.

    Args:
        posteriors: What is known of the rows to begin with.
        rows: The trainer's `train_dataset`.
        accelerator: The trainer's accelerator.
    """

    def __init__(self, posteriors: Posteriors, rows: Any, accelerator: Any) -> None:
        self.posteriors = posteriors
        self._rows = rows
        self._accelerator = accelerator
        self._draw: Draw | None = None
        self._once = Once()

    @classmethod
    def of(
        cls, posteriors: Posteriors | None, rows: Any, accelerator: Any
    ) -> LearnableRows | None:
        """Return the choice of rows; None without posteriors, if the run does not choose its rows."""
        if posteriors is None:
            return None
        return cls(posteriors, rows, accelerator)

    def swap(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return this rank's rows of the next batch, as many as `inputs`; ranks may share a group."""
        size = len(inputs)
        group_size = self.posteriors.group_size
        completions = size * int(self._accelerator.num_processes)
        drawn = [self.posteriors.draw(completions // group_size)]
        if self._accelerator.num_processes > 1:
            # Machines may differ in a rate's last digit.
            broadcast_object_list(drawn)
        self._draw = drawn[0]
        first = int(self._accelerator.process_index) * size
        places = range(first, first + size)
        numbers = [self._draw.rows[place // group_size] for place in places]
        found = {number: self._rows[number] for number in set(numbers)}
        # A row of its own for each completion, since TRL writes the fields of a `rollout_func` into them.
        return [copy.deepcopy(found[number]) for number in numbers]

    def mark(self, card: Scorecard) -> Scorecard:
        """Return the batch's scorecard, of all ranks, with the groups of drawn rows."""
        if self._draw is None:
            return card
        of_samples = np.repeat(self._draw.is_drawn, self.posteriors.group_size)
        return card.with_drawn(of_samples.tolist())

    def learn(self, card: Scorecard) -> dict[str, float]:
        """Learn the verdicts of a marked scorecard; return figures of the drawn rows for the logs."""
        draw = self._draw
        self._draw = None
        if draw is None:
            return {}
        right, judged = group_successes(card)
        if not judged.any():
            self._once.warn(logger, "nothing", NOTHING_LEARNED, card.step)
        self.posteriors.learn(draw.rows, right=right, judged=judged)
        figures = _figures_of_drawn(draw, card)
        figures[RETIRED] = float(draw.retired)
        figures[REVIVED] = float(draw.revived)
        return figures

    def floor_figures(self, card: Scorecard) -> dict[str, float]:
        """Return TRL's means of rewards over the floor's groups of a marked scorecard, by TRL's names; NaN for none."""
        floor = card.representative
        means = {
            f"rewards/{term}/mean": mean_of_known(floor.rewards(term))
            for term in floor.terms
        }
        means["reward"] = mean_of_known(floor.totals)
        return {name: math.nan if mean is None else mean for name, mean in means.items()}

    def save(self, checkpoint: str | os.PathLike[str]) -> None:
        """Write the posteriors into a checkpoint's folder, which may not exist yet."""
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        with written_whole(Path(checkpoint) / FILE) as file:
            np.savez(file, **self.posteriors.state())

    def load(self, checkpoint: str | os.PathLike[str]) -> None:
        """Restore the posteriors of a checkpoint; warn about a checkpoint without posteriors.

        Raises:
            ValueError: the checkpoint is of other data.
        """
        path = Path(checkpoint) / FILE
        if not path.exists():
            logger.warning(
                "%s has no %s: nothing is known of any row, as in a new run.",
                checkpoint,
                FILE,
            )
            return
        with np.load(path) as state:
            self.posteriors.restore(state)


def _figures_of_drawn(draw: Draw, card: Scorecard) -> dict[str, float]:
    """Return the live share and the expected rates of the drawn rows; NaN if all rows are of the floor."""
    name_mean, name_low, name_high = EXPECTED_RATES
    live = card.live[draw.floor :]
    expected = np.array(draw.expected)
    if not expected.size:
        return dict.fromkeys((DRAWN_LIVE, *EXPECTED_RATES), math.nan)
    low, high = np.percentile(expected, (10, 90)).tolist()
    return {
        DRAWN_LIVE: float(live.mean()),
        name_mean: float(expected.mean()),
        name_low: low,
        name_high: high,
    }
