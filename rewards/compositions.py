"""Verifiers made of verifiers: all of them must be satisfied, any of them, or the first that can judge does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from trl_grpo_ext.protocol import DataProblem, Verifier
from trl_grpo_ext.rewards.composed import ComposedVerdict, Composition, compose, unscored_first, within_unit
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Blame, Status, Verdict

PassOn = Literal["bad_data", "unscored"]


class _Conditions(Composition):
    """What `AllOf` and `AnyOf` share: scores in [0, 1], of which one stands for all, and one decides at once."""

    deciding: ClassVar[float]
    """The score that decides, whatever the other verifiers would say."""

    @abstractmethod
    def standing(self, scores: Mapping[str, float], parts: Mapping[str, Verdict]) -> str | None:
        """The verifier whose score stands, of those that gave one; None if all scores are 1."""

    def is_decided(self, verdict: Verdict) -> bool:
        return verdict.score == self.deciding

    def read(self, verdict: Verdict) -> Verdict:
        return within_unit(verdict)

    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        scores = {name: part.score for name, part in parts.items() if part.score is not None}
        name = self.standing(scores, parts) if scores else None
        decided = name is not None and scores[name] == self.deciding
        unscored = None if decided else unscored_first(parts)
        return compose(parts, name if unscored is None else unscored)


@dataclass(frozen=True, kw_only=True)
class AllOf(_Conditions):
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

    Examples:
        >>> from trl_grpo_ext.rewards.math import MathVerifier
        >>> from trl_grpo_ext.rewards.formats.tags import ThinkFormatVerifier
        >>> both = AllOf(verifiers=[ThinkFormatVerifier(), MathVerifier()])
        >>> both(["<think>2+2</think>4", "4", "<think>2+2</think>5"], solution=["4"] * 3)
        [1.0, 0.0, 0.0]
    """

    deciding = 0.0

    def standing(self, scores: Mapping[str, float], parts: Mapping[str, Verdict]) -> str | None:
        least = min(scores, key=scores.__getitem__)
        return None if scores[least] == 1 else least


@dataclass(frozen=True, kw_only=True)
class AnyOf(_Conditions):
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

    Examples:
        >>> from trl_grpo_ext.rewards.math import MathVerifier
        >>> boxed = MathVerifier(mode="boxed", name="boxed")
        >>> tagged = MathVerifier(mode="answer_tag", name="tagged")
        >>> either = AnyOf(verifiers=[boxed, tagged])
        >>> either([r"So it is \\boxed{4}.", "<answer>4</answer>", "4"], solution=["4"] * 3)
        [1.0, 1.0, 0.0]
    """

    deciding = 1.0

    def standing(self, scores: Mapping[str, float], parts: Mapping[str, Verdict]) -> str | None:
        # Among equals, one that could read the answer says more of it than one that could not.
        return max(scores, key=lambda name: (scores[name], parts[name].status is not Status.UNPARSEABLE))


@dataclass(frozen=True, kw_only=True)
class FirstScored(Composition):
    """The first verdict that has a score: a verifier, and others to fall back on.

    Use it for a dataset whose rows can be judged in different ways: unit tests where there are some, else a gold
    answer, else a judge. Each verifier is asked once a batch, and only about the samples that none before has scored.

    A wrong or an unreadable answer has a score, 0, and is not passed on. Nor is a failure of the grader: only rows
    that a verifier has nothing to judge by go to the next. All completions of a group share their row, but not a
    failure. So the verdicts of two verifiers are never compared within one group, and a policy that makes a verifier
    fail gets no milder one. `pass_on="unscored"` gives that up, to lose fewer rows to a verifier that fails often.

    Scores outside [0, 1] are taken as they are.

    Args:
        verifiers: At least one, each with a name of its own. In a recipe: mappings as in `rewards:`, without what is
            the term's.
        pass_on: Which samples go to the next verifier: `"bad_data"`, those whose row cannot be judged, or
            `"unscored"`, all that have no score.
        name: The metric key.

    | `unit_test` | `math` | score | reason |
    |---|---|---|---|
    | 1 | not asked | 1 | `unit_test` |
    | 0, `failed` | not asked | 0 | `unit_test: failed` |
    | none, `tests_missing` | 1 | 1 | `math` |
    | none, `no_verdict`, the grader's fault | not asked | none, the grader's fault | `unit_test: no_verdict` |
    | the same, `pass_on="unscored"` | 1 | 1 | `math` |
    | none, `tests_missing` | none, `gold_missing` | none, the data's fault | `unit_test: tests_missing` |
    | none, `tests_missing` | none, `lost` | none, the grader's fault | `math: lost` |

    Raises:
        ValueError: for no verifiers, two of one name, what is no verifier, one that judges groups, or a `pass_on` that
            there is not.

    Examples:
        >>> from trl_grpo_ext.rewards.math import MathVerifier
        >>> from trl_grpo_ext.rewards.formats.regex import RegexVerifier
        >>> first = FirstScored(verifiers=[MathVerifier(), RegexVerifier(pattern="[0-9]")])
        >>> first(["5", "5", "five"], solution=["4", None, None])
        [0.0, 1.0, 0.0]
    """

    pass_on: PassOn = "bad_data"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pass_on not in get_args(PassOn):
            raise ValueError(
                f"{self.__name__} has no pass_on {self.pass_on!r}. {did_you_mean(str(self.pass_on), get_args(PassOn))}"
            )

    def is_decided(self, verdict: Verdict) -> bool:
        return verdict.score is not None or (self.pass_on == "bad_data" and verdict.blame is not Blame.DATA)

    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        last = list(parts)[-1]
        return compose(parts, last if parts[last].score is not None else unscored_first(parts))

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError if none of the verifiers can judge such a dataset."""
        reasons = [reason for member in self.members.values() if (reason := _refusal(member, columns))]
        if len(reasons) == len(self.members):
            raise ValueError(f"None of the verifiers of {self.__name__} can judge this dataset. {' '.join(reasons)}")

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows that none of the verifiers can judge, with the first one's reason."""
        first: dict[int, DataProblem] | None = None
        for name, member in self.members.items():
            if rows and _refusal(member, rows[0]):
                continue  # it judges no row, so that it has no say in which are good
            found = {
                problem.row: replace(problem, reason=f"{name}: {problem.reason}")
                for problem in member.check_rows(rows, thorough=thorough)
            }
            first = found if first is None else {row: each for row, each in first.items() if row in found}
        return list((first or {}).values())


def _refusal(member: Verifier, columns: Collection[str]) -> str:
    try:
        member.check_columns(columns)
    except ValueError as error:
        return str(error)
    return ""
