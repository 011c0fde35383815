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
    """The rows of a trainer's generation batches, by the verdicts of the batches before.

    Args:
        posteriors: What is known of the rows to begin with.
        rows: The trainer's `train_dataset`.
        accelerator: The trainer's accelerator.
    """

    def __init__(self, posteriors: Posteriors, rows: Any, accelerator: Any) -> None:
        self.posteriors = posteriors
        self._rows, self._accelerator = rows, accelerator
        self._draw: Draw | None = None
        self._once = Once()

    @classmethod
    def of(cls, posteriors: Posteriors | None, rows: Any, accelerator: Any) -> LearnableRows | None:
        """Return the choice of rows; None without posteriors, if the run does not choose its rows."""
        return None if posteriors is None else cls(posteriors, rows, accelerator)

    def swap(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return this rank's rows of the next batch, as many as `inputs`; ranks may share a group."""
        size, group_size = len(inputs), self.posteriors.group_size
        drawn = [self.posteriors.draw(size * int(self._accelerator.num_processes) // group_size)]
        if self._accelerator.num_processes > 1:
            # Machines may differ in a rate's last digit.
            broadcast_object_list(drawn)
        self._draw = drawn[0]
        first = int(self._accelerator.process_index) * size
        numbers = [self._draw.rows[place // group_size] for place in range(first, first + size)]
        found = {number: self._rows[number] for number in set(numbers)}
        # A row of its own for each completion, since TRL writes the fields of a `rollout_func` into them.
        return [copy.deepcopy(found[number]) for number in numbers]

    def mark(self, card: Scorecard) -> Scorecard:
        """Return the batch's scorecard, of all ranks, with the groups of drawn rows."""
        if self._draw is None:
            return card
        return card.with_drawn([drawn for drawn in self._draw.is_drawn for _ in range(self.posteriors.group_size)])

    def learn(self, card: Scorecard) -> dict[str, float]:
        """Learn the verdicts of a marked scorecard; return figures of the drawn rows for the logs."""
        draw, self._draw = self._draw, None
        if draw is None:
            return {}
        right, judged = group_successes(card)
        if not judged.any():
            self._once.warn(logger, "nothing", NOTHING_LEARNED, card.step)
        self.posteriors.learn(draw.rows, right=right, judged=judged)
        live = card.live[draw.floor :]
        # Unknown if all rows of the batch are of the floor.
        expected = np.array(draw.expected or (np.nan,))
        rates = (expected.mean(), *np.percentile(expected, (10, 90)))
        return {
            DRAWN_LIVE: float(live.mean()) if live.size else math.nan,
            **dict(zip(EXPECTED_RATES, map(float, rates), strict=True)),
            RETIRED: float(draw.retired),
            REVIVED: float(draw.revived),
        }

    def floor_figures(self, card: Scorecard) -> dict[str, float]:
        """Return TRL's means of rewards over the floor's groups of a marked scorecard, by TRL's names; NaN for none."""
        floor = card.representative
        columns = {f"rewards/{term}/mean": floor.rewards(term) for term in floor.terms} | {"reward": floor.totals}
        means = {name: mean_of_known(values) for name, values in columns.items()}
        return {name: math.nan if mean is None else mean for name, mean in means.items()}

    def save(self, checkpoint: str | os.PathLike[str]) -> None:
        """Write the posteriors into a checkpoint's folder, which may not exist yet."""
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        with written_whole(Path(checkpoint) / FILE) as file:
            np.savez(file, **self.posteriors.state())

    def load(self, checkpoint: str | os.PathLike[str]) -> None:
        """Take over the posteriors of a checkpoint; warn if it has none.

        Raises:
            ValueError: the checkpoint is of other data.
        """
        path = Path(checkpoint) / FILE
        if not path.exists():
            logger.warning("%s has no %s: nothing is known of any row, as in a new run.", checkpoint, FILE)
            return
        with np.load(path) as state:
            self.posteriors.restore(state)
