"""A completion that must satisfy one of several verifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trl_grpo_ext.rewards.compositions.composition import Composition
from trl_grpo_ext.rewards.compositions.verdicts import ComposedVerdict, compose, unscored_first, within_unit
from trl_grpo_ext.verdict import Status, Verdict


@dataclass(frozen=True, kw_only=True)
class AnyOf(Composition):
    """The greatest of several scores: right if one says so.

    Use it where an answer may be right in several ways, such as by an exact match or else in a judge's eyes. It is as
    easily fooled as the most gullible of its verifiers.

    A score of 1 decides, also beside a verifier that could not judge. Without a 1, one that could not judge leaves the
    sample without a score: it might have said 1 (Kleene's logic of the unknown). The verifiers are asked in turn, each
    once a batch, and only about the samples that none before has scored 1: put the cheap ones first.

    The logic is that of scores in [0, 1]. A verifier that gives others, such as a length penalty, is no condition; it
    belongs in a reward term of its own.

    Args:
        verifiers: At least one, each with a name of its own. In a recipe: mappings as in `rewards:`, without what is
            the term's.
        name: The metric key.

    | `math` | `regex` | score | reason |
    |---|---|---|---|
    | 1 | not asked | 1 | `math` |
    | 0, `not_equal` | 1 | 1 | `regex` |
    | 0, `not_equal` | 0, `no_match` | 0 | `math: not_equal` |
    | 0, `no_answer`, unparseable | 0, `no_match`, incorrect | 0 | `regex: no_match` |
    | 0.5 | 0.7 | 0.7 | `regex` |
    | none, `gold_missing` | 1 | 1 | `regex` |
    | none, `gold_missing` | 0 or between | none, the data's fault | `math: gold_missing` |
    | none, `gold_missing` | none, `lost` | none, the grader's fault | `regex: lost` |
    | -1 or 2 | 0 | none, the grader's fault | `math: score_outside_0_1` |

    Raises:
        ValueError: for no verifiers, two of one name, what is no verifier, or one that judges groups.

    Example:
        >>> from trl_grpo_ext.rewards.math import MathVerifier
        >>> boxed = MathVerifier(mode="boxed", name="boxed")
        >>> tagged = MathVerifier(mode="answer_tag", name="tagged")
        >>> either = AnyOf(verifiers=[boxed, tagged])
        >>> either([r"So it is \\boxed{4}.", "<answer>4</answer>", "4"], solution=["4"] * 3)
        [1.0, 1.0, 0.0]
    """

    def is_decided(self, verdict: Verdict) -> bool:
        return verdict.score == 1

    def read(self, verdict: Verdict) -> Verdict:
        return within_unit(verdict)

    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        scores = {name: part.score for name, part in parts.items() if part.score is not None}
        # Among equals, one that could read the answer says more of it than one that could not.
        best = max(scores, key=lambda name: (scores[name], parts[name].status is not Status.UNPARSEABLE), default=None)
        if best is None or scores[best] < 1:
            unscored = unscored_first(parts)
            if unscored is not None:
                return compose(parts, unscored)
        return compose(parts, best)
