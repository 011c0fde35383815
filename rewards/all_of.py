"""A completion that must satisfy every one of several verifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trl_grpo_ext.rewards.compositions.composition import Composition
from trl_grpo_ext.rewards.compositions.verdicts import ComposedVerdict, compose, unscored_first, within_unit
from trl_grpo_ext.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class AllOf(Composition):
    """The least of several scores: right only if all say so.

    Use it where one of the conditions is worth nothing without the others, such as a right answer in the right form.
    A sum of reward terms would pay for the form alone.

    A score of 0 decides, also beside a verifier that could not judge: whatever that one would have said, the least is
    0. Without a 0, one that could not judge leaves the sample without a score (Kleene's logic of the unknown). The
    verifiers are asked in turn, each once a batch, and only about the samples that none before has scored 0: put
    the cheap and strict ones first, a model that judges last.

    The logic is that of scores in [0, 1]. A verifier that gives others, such as a length penalty, is no condition; it
    belongs in a reward term of its own.

    Args:
        verifiers: At least one, each with a name of its own. In a recipe: mappings as in `rewards:`, without what is
            the term's.
        name: The metric key.

    | `math` | `regex` | score | reason |
    |---|---|---|---|
    | 1 | 1 | 1 | |
    | 1 | 0, `no_match` | 0 | `regex: no_match` |
    | 0, `not_equal` | not asked | 0 | `math: not_equal` |
    | 0.5 | 1 | 0.5 | `math` |
    | none, `gold_missing` | 0, `no_match` | 0 | `regex: no_match` |
    | none, `gold_missing` | 1 or between | none, the data's fault | `math: gold_missing` |
    | none, `gold_missing` | none, `lost` | none, the grader's fault | `regex: lost` |
    | -1 or 2 | 1 | none, the grader's fault | `math: score_outside_0_1` |

    Raises:
        ValueError: for no verifiers, two of one name, what is no verifier, or one that judges groups.

    Example:
        >>> from trl_grpo_ext.rewards.math import MathVerifier
        >>> from trl_grpo_ext.rewards.think_format import ThinkFormatVerifier
        >>> both = AllOf(verifiers=[ThinkFormatVerifier(), MathVerifier()])
        >>> both(["<think>2+2</think>4", "4", "<think>2+2</think>5"], solution=["4"] * 3)
        [1.0, 0.0, 0.0]
    """

    def is_decided(self, verdict: Verdict) -> bool:
        return verdict.score == 0

    def read(self, verdict: Verdict) -> Verdict:
        return within_unit(verdict)

    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        scores = {name: part.score for name, part in parts.items() if part.score is not None}
        least = min(scores, key=scores.__getitem__, default=None)
        if least is None or scores[least] > 0:
            unscored = unscored_first(parts)
            if unscored is not None:
                return compose(parts, unscored)
        return compose(parts, None if least is None or scores[least] == 1 else least)
