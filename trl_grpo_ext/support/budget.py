"""A time budget for judging a batch. Samples without a verdict when it is spent are grader errors, never a score of 0.

All code that judges many completions asks `seconds_left`: `spread` (used by workers and sandboxes), Ray clusters, model
judges, and the loops over a verifier in this process. The trainer sets the budget. Verifiers, also those of users,
stand between the trainer and the code that asks. Their `judge_samples` has no argument for a budget, so a context
variable holds it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

BUDGET_SPENT = "budget_spent"
"""The reason code of a sample that the time budget left without a verdict."""

_until: ContextVar[float] = ContextVar("judging_until", default=math.inf)


@contextmanager
def judging_budget(seconds: float | None) -> Iterator[None]:
    """Limit the total seconds that this thread may judge in the `with` block; None is no limit.

    Python cannot interrupt a verifier that runs in this process: it finishes its completion and gets no other.

    Examples:
        >>> from trl_grpo_ext.rewards import math_reward
        >>> with judging_budget(0.0):
        ...     [verdict.reason for verdict in math_reward.judge(["4"], solution=["4"])]
        ['']
        >>> from trl_grpo_ext.rewards import think_format_reward
        >>> with judging_budget(0.0):
        ...     [verdict.reason for verdict in think_format_reward.judge(["4"])]
        ['budget_spent']
    """
    token = _until.set(math.inf if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


def seconds_left() -> float:
    """Return this thread's remaining seconds for judging; infinite without a budget, 0 after it is spent."""
    return max(0.0, _until.get() - time.monotonic())
