"""Outcomes: final results of rollouts in environments, as plain data, not as handles on environments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A rollout's final result, read once from its environment.

    Attributes:
        environment: The name of the environment's class.
        verdict: The verdict made of `get_reward`'s result: a bool or a number is a score, an exception in `get_reward`
            or `reset` is a grader error. None if `get_reward` returned None or does not exist.
        state: The environment's property `state`, as plain JSON values; None without this property.

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
        """The environment's score; None if it gave none."""
        if self.verdict is None:
            return None
        return self.verdict.score

    @property
    def error(self) -> str:
        """The exception of a failed call, with the method's name; empty if no call failed."""
        if self.verdict is None:
            return ""
        return self.verdict.details.get("error", "")

    def to_record(self) -> dict[str, Any]:
        """Return a dict of plain JSON values; `Outcome.from_record` reverses this."""
        verdict = None if self.verdict is None else self.verdict.to_record()
        return {"environment": self.environment, "verdict": verdict, "state": self.state}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Outcome:
        """Rebuild an outcome from its record."""
        verdict = record.get("verdict")
        return cls(
            environment=record["environment"],
            verdict=None if verdict is None else Verdict(**verdict),
            state=record.get("state"),
        )


def read_outcome(value: object) -> Outcome | None:
    """Read an outcome from a file's column `outcome`: a record, or its JSON text; None for anything else.

    Examples:
        >>> read_outcome('{"environment": "Game", "verdict": null, "state": 3}').state
        3
        >>> read_outcome("won") is None
        True
    """
    try:
        record = json.loads(value) if isinstance(value, str) else value
        if not isinstance(record, Mapping):
            return None
        return Outcome.from_record(record)
    except (KeyError, TypeError, ValueError):
        return None
