"""A budget of time for judging a batch. What has no verdict when it is spent is the grader's fault, and never a 0.

Whoever judges many completions asks how much is left: `spread`, which workers and sandboxes use, a Ray cluster, a judge
that is a model, and the loop over a verifier that runs in this process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

BUDGET_SPENT = "budget_spent"
"""The reason of a verdict that was not made in time."""

_until: ContextVar[float] = ContextVar("judging_until", default=math.inf)


@contextmanager
def judging_budget(seconds: float | None) -> Iterator[None]:
    """Whatever this thread judges in the `with` block may take so many seconds together; None is no limit.

    Nothing ends a verifier that runs in this process within one completion: Python cannot. It gets no further one.

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
    """How long this thread may still judge; infinite without a budget, 0 when it is spent."""
    return max(0.0, _until.get() - time.monotonic())
