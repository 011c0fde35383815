"""An outcome: the end of a rollout in an environment, as plain data. It is not a handle on the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one rollout, asked of its environment once.

    Attributes:
        environment: The name of the environment's class.
        verdict: The verdict of `get_reward`: a bool and a number are scores, and an exception in `get_reward` or
            `reset` is the grader's error. None if it gave None, or if there is no `get_reward`.
        state: The environment's property `state`, if it has one, as JSON holds it.

    Examples:
        >>> from trl_grpo_ext.verdict import as_verdict
        >>> Outcome(environment="Game", verdict=as_verdict(True), state={"level": 3}).reward
        1.0
    """

    environment: str
    verdict: Verdict | None = None
    state: Any = None

    @property
    def reward(self) -> float | None:
        """The score of the environment; None if it gave none."""
        return None if self.verdict is None else self.verdict.score

    @property
    def error(self) -> str:
        """The exception of a call that failed, with its method; empty if none did."""
        return "" if self.verdict is None else self.verdict.details.get("error", "")

    def to_record(self) -> dict[str, Any]:
        """A dict of plain JSON values; `Outcome.from_record` makes the outcome of it again."""
        verdict = None if self.verdict is None else self.verdict.to_record()
        return {"environment": self.environment, "verdict": verdict, "state": self.state}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Outcome:
        """The outcome of a record."""
        verdict = record.get("verdict")
        return cls(
            environment=record["environment"],
            verdict=None if verdict is None else Verdict(**verdict),
            state=record.get("state"),
        )


def read_outcome(value: object) -> Outcome | None:
    """The outcome in a column of a file, a record or its JSON; None for anything else, as a column may have this name.

    Examples:
        >>> read_outcome('{"environment": "Game", "verdict": null, "state": 3}').state
        3
        >>> read_outcome("won") is None
        True
    """
    try:
        record = json.loads(value) if isinstance(value, str) else value
        return Outcome.from_record(record) if isinstance(record, Mapping) else None
    except (KeyError, TypeError, ValueError):
        return None
