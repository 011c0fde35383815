"""Reward terms on repeated token n-grams: within a completion, and between the completions of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from trl_grpo_ext.answers.find.math_answer import Mode, check_mode, math_answer
from trl_grpo_ext.answers.verdicts import graded, unreadable
from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_choice, check_number, check_whole
from trl_grpo_ext.verdict import Status, Verdict, grader_error

SUBJECTS = ("tokens", "answer")


def ngrams(tokens: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Yield each n-gram, a run of `size` (1 or more) consecutive tokens, in order; nothing for a shorter sequence.

    Examples:
        >>> list(ngrams([5, 6, 7], 2))
        [(5, 6), (6, 7)]
    """
    # Copies of the tokens, each shifted by one; zip stops at the end of the shortest.
    shifted = [islice(tokens, start, None) for start in range(size)]
    return zip(*shifted, strict=False)


def repeated_share(tokens: Sequence[int], size: int) -> float:
    """Compute the share of n-grams, in [0, 1), that repeat an earlier n-gram; 0 for fewer than `size` tokens.

    Args:
        tokens: Token ids.
        size: Tokens in an n-gram, 1 or more.

    Examples:
        >>> repeated_share([5, 5, 5, 5, 5], 2)
        0.75
    """
    count = len(tokens) - size + 1
    if count <= 0:
        return 0.0
    distinct = set(ngrams(tokens, size))
    return 1 - len(distinct) / count


@dataclass(frozen=True, kw_only=True)
class RepetitionVerifier(Verifier):
    """Penalizes a completion in proportion to its share of repeated token n-grams.

    A policy with a length reward fills the length with loops. The formula equals TRL's
    `get_repetition_penalty_reward`, applied to token ids. Honest text repeats some n-grams too, above all a program or
    a long calculation: watch the term with weight 0 before training on it, or use longer n-grams. Tokens that tools
    returned count like the model's own tokens.

    Args:
        ngram_size: Tokens in an n-gram, 1 or more. A completion with fewer tokens scores 0.
        max_penalty: The score approached by a completion of nothing but repetitions, 0 or less.
        name: The metric key.

    | tokens, with `ngram_size=2` | score | reason |
    |---|---|---|
    | `1 2 3 4` | 0 | |
    | `5 5 5 5 5` | -0.75 | `repeated_ngrams` |
    | none, or too few for one n-gram | 0 | |
    | unknown (`completion_ids` is None) | none, the grader's fault | `tokens_unknown` |

    Raises:
        ValueError: for an `ngram_size` that is not a whole number of 1 or more, or a `max_penalty` above 0.

    Examples:
        >>> RepetitionVerifier(ngram_size=2)(["a b c d", "e e e e e"], completion_ids=[[1, 2, 3, 4], [5] * 5])
        [0.0, -0.75]

    Source: Demystifying Long Chain-of-Thought Reasoning, appendix C.2 (https://huggingface.co/papers/2502.03373).
    """

    ngram_size: int = 3
    max_penalty: float = -1.0
    name: str | None = None

    def __post_init__(self) -> None:
        check_whole("ngram_size", self.ngram_size, "a number of tokens", least=1)
        check_number("max_penalty", self.max_penalty, "the lowest score", most=0)

    def verify(self, sample: Sample) -> Verdict:
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        score = self.max_penalty * repeated_share(sample.completion_ids, self.ngram_size)
        if score == 0:
            return Verdict(status=Status.CORRECT, score=0.0)
        return Verdict(status=Status.INCORRECT, score=score, reason="repeated_ngrams")


repetition_reward = RepetitionVerifier(name="repetition_reward")
"""`RepetitionVerifier` with its defaults, ready for a list of reward functions."""


@dataclass(frozen=True, kw_only=True)
class DiversityVerifier(GroupVerifier):
    """Scores novelty: the share of a completion's n-grams missing from the group's other completions.

    Use it for a policy that no longer explores: eight copies of one text teach nothing. Each distinct n-gram of a
    completion counts with the share of the other completions that lack it. So identical completions score 0, and
    completions without a common n-gram score 1. Tokens that tools returned count like the model's own tokens. The time
    is linear in the tokens of the group.

    **Gibberish scores 1**, and so does a change of language; a longer completion tends to have more unshared n-grams.
    Gate the term on accuracy, so that it compares only correct completions and rewards different ways to the answer.
    Keep its weight small, and add a `LanguageVerifier` and a length bound. Without a gate the term rewards noise.

    Args:
        of: The compared features. `"tokens"`: n-grams of `completion_ids`. `"answer"`: the final answer as text, found
            after the thinking, to reward rare answers. Random guesses score as well as reasoning here, so use weight 0
            or a small weight, and no accuracy gate: all correct answers are equal.
        ngram_size: Tokens in an n-gram, 1 or more. A shorter completion is one n-gram.
        mode: The rule that finds the final answer; see `MathVerifier`.
        name: The metric key.

    | completion | score | reason |
    |---|---|---|
    | shares no n-gram with the others | 1 | |
    | shares a quarter of its n-grams with all the others | 0.75 | |
    | the same as all the others | 0 | `same_as_others` |
    | of no tokens | 0 | `empty` |
    | alone in its group, or alone in passing the gate | 0.5 | `no_others` |
    | without an answer, `of="answer"` | 0 | `no_answer`, `unclosed_think`, ... |
    | its tokens are unknown (`completion_ids` is None) | none, the grader's fault | `tokens_unknown` |

    Raises:
        ValueError: for an unknown `of` or `mode`, or an `ngram_size` below 1.

    Examples:
        >>> ids = {"a": [1, 2, 3], "b": [1, 2, 3], "c": [4, 5, 6]}
        >>> group = [Sample(text=text, completion_ids=tokens, group=0) for text, tokens in ids.items()]
        >>> [verdict.score for verdict in DiversityVerifier().judge_samples(group)]
        [0.5, 0.5, 1.0]
    """

    of: Literal["tokens", "answer"] = "tokens"
    ngram_size: int = 4
    mode: Mode = "auto"
    name: str | None = None

    def __post_init__(self) -> None:
        check_choice("of", self.of, SUBJECTS)
        check_whole("ngram_size", self.ngram_size, "a number of tokens", least=1)
        check_mode(self.mode)

    def verify_group(self, samples: Sequence[Sample]) -> list[Verdict]:
        # Feature -> number of completions that have it.
        holders: Counter[Hashable] = Counter()
        compared = 0
        read = [self._features(sample) for sample in samples]
        for features in read:
            if not isinstance(features, Verdict):
                holders.update(features)
                compared += 1
        verdicts = []
        for features in read:
            if isinstance(features, Verdict):
                verdicts.append(features)
            else:
                verdicts.append(_verdict(features, holders, others=compared - 1))
        return verdicts

    def _features(self, sample: Sample) -> set[Hashable] | Verdict:
        """Return the features to compare, n-gram hashes or the final answer, or a verdict if the sample has none."""
        if self.of == "answer":
            answer = math_answer(sample.text, prefill=sample.prefill, mode=self.mode)
            if answer.problem:
                return unreadable(answer.problem)
            return {answer.answers}
        if sample.completion_ids is None:
            return grader_error("tokens_unknown")
        if not len(sample.completion_ids):
            return unreadable("empty")
        tokens = [int(token) for token in sample.completion_ids]
        # A completion shorter than `ngram_size` is one n-gram.
        size = min(self.ngram_size, len(tokens))
        # Hashes take a fraction of the memory of tuples.
        return set(map(hash, ngrams(tokens, size)))


def _verdict(
    features: set[Hashable], holders: Counter[Hashable], *, others: int
) -> Verdict:
    if not others:
        return graded(0.5, reason="no_others")
    # The completion itself is one of the holders.
    found_in_others = sum(holders[feature] - 1 for feature in features)
    shared = found_in_others / (len(features) * others)
    reason = "same_as_others" if shared == 1 else ""
    return graded(1 - shared, reason=reason)


diversity_reward = DiversityVerifier(name="diversity_reward")
"""`DiversityVerifier` with its defaults, ready for a `RewardMix`; plain TRL does not pass the groups."""
