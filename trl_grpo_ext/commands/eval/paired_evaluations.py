"""Compare two evaluations on equal prompts: figure by figure, with 95 % bootstrap intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trl_grpo_ext.commands.eval.evaluated import Evaluated, PromptFigures
from trl_grpo_ext.support.estimate import Interval

DRAWS = 10_000
# Numbers per bootstrap chunk: bounds the memory of a draw.
CHUNK = 2_000_000
# With five differing prompts, all favour the same model by chance in 6 % of cases (2 / 2^5). A bootstrap is too
# confident with so few prompts, so a difference needs at least six.
LEAST_DIFFERENT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The second model's figure minus the first model's, as a mean over prompts with its 95 % interval.

    `prompts` counts prompts with a figure from both models; `different` counts prompts whose two figures differ.
    """

    interval: Interval
    prompts: int
    different: int

    @property
    def can_be_told(self) -> bool:
        """Exclude chance: at least `LEAST_DIFFERENT` prompts differ, and the interval lies above or below 0."""
        excludes_0 = self.interval.low > 0 or self.interval.high < 0
        return self.different >= LEAST_DIFFERENT and excludes_0

    def to_record(self) -> dict[str, float | int | bool]:
        return {
            **self.interval.to_record(),
            "prompts": self.prompts,
            "different": self.different,
            "can_be_told": self.can_be_told,
        }


def compare(first: Evaluated, second: Evaluated) -> dict[str, Difference]:
    """Compute differences, second minus first, for every figure in both evaluations; keys are figure names.

    Raises:
        ValueError: if the evaluations share no prompt.
    """
    pairs = _pairs(first.prompts, second.prompts)
    if not pairs:
        raise ValueError(
            f"{first.label} and {second.label} were evaluated on different prompts, so they cannot be compared."
        )
    numbers: dict[str, list[float]] = {}
    for one, two in pairs:
        for name, value in one.items():
            # A tie is no figure of the model: it only explains maj@k.
            if name in two and not name.startswith("tied@"):
                numbers.setdefault(name, []).append(two[name] - value)
    return {name: paired_difference(differences) for name, differences in numbers.items()}


def _pairs(
    first: Sequence[PromptFigures],
    second: Sequence[PromptFigures],
) -> list[tuple[Mapping[str, float], Mapping[str, float]]]:
    """Pair figures of equal prompts from both evaluations; repeated prompts are paired in order."""
    others: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    # Reversed, so that `pop` gives repeated prompts in their order.
    for prompt in reversed(second):
        others[prompt.key].append(prompt.values)
    pairs = []
    for prompt in first:
        if others[prompt.key]:
            pairs.append((prompt.values, others[prompt.key].pop()))
    return pairs


def paired_difference(differences: Sequence[float]) -> Difference:
    """Estimate the mean of per-prompt differences with a 95 % bootstrap interval over prompts.

    The bootstrap resamples prompts, not completions, since completions of a prompt are alike (Efron & Tibshirani
    1993).

    Examples:
        >>> found = paired_difference([0.5, 0.0, 0.25, 0.25, 0.5, 0.0, 0.5, 0.25])
        >>> print(found.interval, found.can_be_told)
        0.281 [0.156, 0.406] True
    """
    numbers = np.asarray(differences, dtype=float)
    size = len(numbers)
    # A fixed seed, so that the same evaluations always give the same interval.
    random = np.random.default_rng(0)
    means: list[float] = []
    while len(means) < DRAWS:
        draws = min(DRAWS - len(means), max(1, CHUNK // size))
        drawn = random.integers(size, size=(draws, size))
        means += numbers[drawn].mean(axis=1).tolist()
    low, high = np.percentile(means, (2.5, 97.5)).tolist()
    mean = float(numbers.mean())
    # Of few, skewed differences, the mean may lie outside of the percentiles.
    return Difference(
        interval=Interval(mean, min(low, mean), max(high, mean)),
        prompts=size,
        different=int(np.count_nonzero(numbers)),
    )


def sentence(first: str, second: str, difference: Difference) -> str:
    """Name the model with higher pass@1 in a sentence, or state that no difference can be told.

    Examples:
        >>> print(sentence("A", "B", paired_difference([0.0, 0.5, -0.5])))
        No difference between A and B can be told in pass@1 over 3 prompts: 0.000 [-0.500, 0.500].
    """
    interval = difference.interval
    over = f"in pass@1 over {difference.prompts:,} prompts"
    if not difference.different:
        return f"{first} and {second} are equal {over}: no prompt differs."
    if not difference.can_be_told:
        return f"No difference between {first} and {second} can be told {over}: {interval}."
    if interval.mean < 0:
        first, second = second, first
        interval = Interval(-interval.mean, -interval.high, -interval.low)
    return f"{second} beats {first} by {interval} {over}."


def others_told(differences: Mapping[str, Difference]) -> str:
    """List differences in further pass@k and maj@k figures, as text to follow `sentence`.

    Examples:
        >>> others_told({"pass@1": paired_difference([0.5]), "pass@4": paired_difference([0.25] * 8)})
        ' Other differences: pass@4 +0.250 [+0.250, +0.250].'
    """
    said = []
    for name, difference in differences.items():
        is_other = name.startswith(("pass@", "maj@")) and name != "pass@1"
        if is_other:
            said.append(f"{name} {difference.interval:+z.3f}")
    if not said:
        return ""
    return f" Other differences: {', '.join(said)}."
