"""Short before long, among the completions of a group."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.rewards.token_budget import is_number
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict, grader_error


@dataclass(frozen=True, kw_only=True)
class ConciseVerifier(GroupVerifier):
    """Ranks the completions of a group by their length in tokens: the shortest scores 0.5, the longest -0.5.

    It needs no budget: what is short is said by the group, and so by the task. Gate the term on accuracy; then only the
    right completions are ranked, each against the others. Without a gate the shortest wrong answer wins.

    The score is the share of the others that are longer less the share that are shorter, halved. So one completion that
    is very long moves nobody else's score, as it would in a score of distances (Kimi k1.5 places each length between
    the shortest and the longest), and the scores of a group add up to 0: being ranked is worth nothing on average. Keep
    the term's weight below that of accuracy, so that the longest right answer still beats a wrong one.

    A completion is as long as its `completion_ids`; the end token counts. None of them is incorrect for its length: one
    with a score below 0 is PARTIAL, so that the shares of statuses are not read as wrong answers.

    Args:
        tolerance: Lengths that differ by no more than this share of the shorter one count as equal, 0 or more: a token
            or two are no reason to prefer one.
        name: The metric key.

    | completion | score | status, reason |
    |---|---|---|
    | shorter than all the others | 0.5 | CORRECT |
    | shorter than half of them, and longer than the other half | 0 | CORRECT |
    | longer than all the others | -0.5 | PARTIAL, `longer` |
    | as long as all the others | 0 | CORRECT, `equal_lengths` |
    | the only one in its group, or the only one that passes the gate | 0 | CORRECT, `no_others` |
    | nobody knows its length (`completion_ids` is None) | none, the grader's fault | ERROR, `tokens_unknown` |

    Raises:
        ValueError: for a `tolerance` that is no number of 0 or more.

    Example:
        >>> texts = {"4": 10, "So it is 4.": 20, "Let me think. It is 4.": 30}
        >>> group = [Sample(text=text, completion_ids=[1] * size, group=0) for text, size in texts.items()]
        >>> [verdict.score for verdict in ConciseVerifier().judge_samples(group)]
        [0.5, 0.0, -0.5]

    Source: after the length reward of Kimi k1.5, section 2.3.3 (https://huggingface.co/papers/2501.12599).
    """

    tolerance: float = 0.05
    name: str | None = None

    def __post_init__(self) -> None:
        if not is_number(self.tolerance) or self.tolerance < 0:
            raise ValueError(
                f"tolerance is the share by which lengths may differ and count as equal, 0 or more, such as 0.05; "
                f"got {self.tolerance!r}."
            )

    def verify_group(self, samples: Sequence[Sample]) -> list[Verdict]:
        lengths = [None if sample.completion_ids is None else len(sample.completion_ids) for sample in samples]
        # `a` is shorter than `b` if its widened length is below that of `b`, and in no other case is `b` longer: so
        # the scores add up to 0 whatever the rounding does.
        known = sorted(length for length in lengths if length is not None)
        widened = [self._widened(length) for length in known]
        return [self._verdict(length, known, widened) for length in lengths]

    def _verdict(self, length: int | None, known: Sequence[int], widened: Sequence[float]) -> Verdict:
        if length is None:
            return grader_error("tokens_unknown")
        if len(known) == 1:
            return Verdict(status=Status.CORRECT, score=0.0, reason="no_others")
        longer = len(known) - bisect_right(known, self._widened(length))
        shorter = bisect_left(widened, length)
        score = (longer - shorter) / (2 * (len(known) - 1))
        if longer == shorter == 0:
            return Verdict(status=Status.CORRECT, score=0.0, reason="equal_lengths")
        if score < 0:
            return Verdict(status=Status.PARTIAL, score=score, reason="longer")
        return Verdict(status=Status.CORRECT, score=score)

    def _widened(self, length: int) -> float:
        return length * (1 + self.tolerance)


concise_reward = ConciseVerifier(name="concise_reward")
"""`ConciseVerifier` with its defaults, ready for a `RewardMix`; plain TRL cannot tell it the groups."""
