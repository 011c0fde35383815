"""The algorithms that the lab compares. All of them train by TRL; one line of plain REINFORCE is our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Name = Literal["grpo", "reinforce", "reinforce_baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """What the trainer is told.

    Attributes:
        name: The key.
        title: What people call it.
        settings: Fields of `VerifiedGRPOConfig` that make it this algorithm.
        plain: Whether the rewards themselves are the advantages, which no setting of TRL's gives.
        note: How it is done, in one sentence.
    """

    name: Name
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False
    note: str


# One update a batch, so the ratio is 1 and nothing is clipped: the loss has the gradient of REINFORCE.
_ON_POLICY = {"num_iterations": 1, "beta": 0.0, "scale_rewards": "none"}

ALGORITHMS: Mapping[Name, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            name="grpo",
            title="GRPO",
            note="TRL's GRPO: rewards less the mean of their group, over its deviation; clipped ratio; KL penalty.",
        ),
        Algorithm(
            name="reinforce_baseline",
            title="REINFORCE with baseline",
            settings=_ON_POLICY,
            note="TRL's GRPO, not scaled, one update a batch, no KL: REINFORCE with the mean of the group as baseline. "
            "TRL's RLOO, whose baseline leaves the sample itself out, is the same at (G - 1)/G of the learning rate.",
        ),
        Algorithm(
            name="reinforce",
            title="REINFORCE",
            settings=_ON_POLICY,
            plain=True,
            note="The same with the rewards as advantages, which no setting of TRL's gives: a few lines of our own.",
        ),
    )
}


def algorithm_named(name: str) -> Algorithm:
    """The algorithm of this name.

    Raises:
        ValueError: if there is none.
    """
    for known, algorithm in ALGORITHMS.items():
        if known == name:
            return algorithm
    raise ValueError(f"The lab has no algorithm {name!r}; it has {', '.join(ALGORITHMS)}.")
