"""A selection: which recorded batches to replay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trl_grpo_ext.scorecard import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which batches are meant.

    Attributes:
        mode: Those of training or of evaluation.
        first_step: From this optimizer step on.
        end_step: Up to this one, without it; None is all.
        limit: At most so many completions, in whole batches that are spread evenly, and at least one batch; None is
            all.

    Raises:
        ValueError: for no steps, or a limit below 1.
    """

    mode: Mode = "train"
    first_step: int = 0
    end_step: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.end_step is not None and self.end_step <= self.first_step:
            raise ValueError(f"There are no steps from {self.first_step} up to, and without, {self.end_step}.")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"The limit is a number of completions, 1 or more; got {self.limit}.")

    def has_step(self, step: int | None) -> bool:
        """Whether a batch of this step is meant; one whose step nobody knows is, unless steps are asked for."""
        if step is None:
            return self.first_step == 0 and self.end_step is None
        return self.first_step <= step and (self.end_step is None or step < self.end_step)

    def within_limit(self, numbers: Sequence[int], batch_size: int) -> list[int]:
        """The batches that keep to the limit: the first, the last, and others in even distances.

        Example:
            >>> Selection(limit=30).within_limit([0, 1, 2, 3, 4, 5, 6], batch_size=8)
            [0, 3, 6]
        """
        count = len(numbers) if self.limit is None else max(1, self.limit // max(1, batch_size))
        if count >= len(numbers):
            return list(numbers)
        places = np.linspace(0, len(numbers) - 1, count).round().astype(int)
        return [numbers[place] for place in places.tolist()]


def parse_steps(text: str) -> tuple[int, int | None]:
    """The steps that `a:b` means: from a up to, and without, b; either may be left out.

    Raises:
        ValueError: for anything else.

    Example:
        >>> parse_steps("10:20"), parse_steps(":5"), parse_steps("30:")
        ((10, 20), (0, 5), (30, None))
    """
    match = re.fullmatch(r"(\d*):(\d*)", text.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"Steps are a range such as 10:20, :20 or 10:, up to and without the second; got {text!r}.")
    return int(match[1] or 0), int(match[2]) if match[2] else None
