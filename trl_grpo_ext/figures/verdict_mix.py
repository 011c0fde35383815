"""What a term has found, and how much of the batch it speaks of."""

from __future__ import annotations

import math
from collections import Counter

from trl_grpo_ext.figures.batch_figures import card_figures, means
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.verdict import Blame


def verdict_mix(card: Scorecard) -> dict[str, float]:
    """The share of each status by term, and what else `batch_figures` logs of a card, under the same names."""
    return means(card_figures(card))


def blame_shares(card: Scorecard) -> dict[Blame, float]:
    """Whose the verdicts of the terms in force are, as shares that add up to 1; NaN if there are no verdicts.

    Example:
        >>> from trl_grpo_ext import RewardMix, RewardTerm, Sample
        >>> from trl_grpo_ext.rewards import RegexVerifier
        >>> mix = RewardMix([RewardTerm(name="digits", verifier=RegexVerifier(pattern="[0-9]+"))])
        >>> blame_shares(mix.score([Sample(text="42")]))[Blame.POLICY]
        1.0
    """
    verdicts = (verdict for term in card.in_force for verdict in card.verdicts[term] if verdict is not None)
    counts = Counter(verdict.blame for verdict in verdicts)
    size = counts.total() or math.nan
    return {blame: counts[blame] / size for blame in Blame}
