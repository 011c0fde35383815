"""Verifiers made of verifiers: `AllOf` takes the lowest score, `AnyOf` the highest, `FirstScored` the first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from trl_grpo_ext.protocol import DataProblem, Verifier
from trl_grpo_ext.rewards.composed import (
    ComposedVerdict,
    Composition,
    compose,
    unscored_first,
    within_unit,
)
from trl_grpo_ext.support.setting_checks import check_choice
from trl_grpo_ext.verdict import Blame, Status, Verdict

PassOn = Literal["bad_data", "unscored"]


class _Conditions(Composition):
    """Base of `AllOf` and `AnyOf`: the lowest or the highest score, in [0, 1], becomes the score of the sample."""

    deciding: ClassVar[float]
    """The score that decides a sample at once: 0 for `AllOf`, 1 for `AnyOf`."""

    @abstractmethod
    def standing(
        self, scores: Mapping[str, float], parts: Mapping[str, Verdict]
    ) -> str | None:
        """Name the verifier whose score becomes the sample's; `AllOf` returns None if all scores are 1."""

    def is_decided(self, verdict: Verdict) -> bool:
        return verdict.score == self.deciding

    def read(self, verdict: Verdict) -> Verdict:
        return within_unit(verdict)

    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        scores = {}
        for name, part in parts.items():
            if part.score is not None:
                scores[name] = part.score
        standing = None
        if scores:
            standing = self.standing(scores, parts)
        if standing is not None and scores[standing] == self.deciding:
            return compose(parts, standing)
        # Short of the deciding score, a member without a score could still change the result.
        unscored = unscored_first(parts)
        if unscored is not None:
            return compose(parts, unscored)
        return compose(parts, standing)


@dataclass(frozen=True, kw_only=True)
class AllOf(_Conditions):
    """Logical AND of verifiers: the lowest score.

    Use it for conditions that are worthless alone, such as a correct answer in the required format. A sum of reward
    terms would pay for the format alone.

    A score of 0 decides the sample, even if another verifier gives no score: the minimum is 0 anyway. Without a 0, a
    single verifier without a score leaves the sample unscored (Kleene's three-valued logic). The verifiers judge in
    turn, each once per batch, and only samples that no earlier verifier has scored 0: list cheap and strict verifiers
    first, an LLM judge last.

    All scores must lie in [0, 1]. A verifier with other scores, such as a length penalty, is no condition; make it a
    reward term of its own.

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

    def standing(
        self, scores: Mapping[str, float], parts: Mapping[str, Verdict]
    ) -> str | None:
        lowest = min(scores, key=scores.__getitem__)
        if scores[lowest] == 1:
            return None
        return lowest


@dataclass(frozen=True, kw_only=True)
class AnyOf(_Conditions):
    """Logical OR of verifiers: the highest score.

    Use it for answers that can be right in several ways, such as by an exact match or by an LLM judge's verdict. The
    composition is as easily fooled as its most gullible verifier.

    A score of 1 decides the sample, even if another verifier gives no score. Without a 1, a single verifier without a
    score leaves the sample unscored, since the missing score might be 1 (Kleene's three-valued logic). The verifiers
    judge in turn, each once per batch, and only samples that no earlier verifier has scored 1: list cheap ones first.

    All scores must lie in [0, 1]. A verifier with other scores, such as a length penalty, is no condition; make it a
    reward term of its own.

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

    def standing(
        self, scores: Mapping[str, float], parts: Mapping[str, Verdict]
    ) -> str | None:
        # Of equal scores, prefer a verifier that could read the answer: its reason tells more about the answer.
        def rank(name: str) -> tuple[float, bool]:
            is_readable = parts[name].status is not Status.UNPARSEABLE
            return scores[name], is_readable

        return max(scores, key=rank)


@dataclass(frozen=True, kw_only=True)
class FirstScored(Composition):
    """A verifier with fallbacks: the first verdict with a score.

    Use it for a dataset whose rows need different verifiers: unit tests if the row has tests, else a gold answer, else
    an LLM judge. Each verifier is called once per batch, only with the samples that every earlier verifier passed on.

    A wrong or unreadable answer has the score 0, and is not passed on. A grader error is not passed on either: only
    samples whose row lacks the verifier's data go to the next verifier. All completions of a group share the row, but
    not a grader error. So verdicts of two verifiers are never compared within a group, and a policy cannot reach a
    milder verifier by making a strict verifier fail. `pass_on="unscored"` gives up this safety, and loses fewer rows to
    a verifier that fails often.

    Scores outside [0, 1] are allowed.

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
        check_choice("pass_on", self.pass_on, get_args(PassOn))

    def is_decided(self, verdict: Verdict) -> bool:
        if verdict.score is not None:
            return True
        if self.pass_on == "unscored":
            return False
        return verdict.blame is not Blame.DATA

    def combined(self, parts: Mapping[str, Verdict]) -> ComposedVerdict:
        last = list(parts)[-1]
        if parts[last].score is not None:
            return compose(parts, last)
        return compose(parts, unscored_first(parts))

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise a ValueError if every member verifier refuses a dataset with these columns."""
        refusals = [_refusal(member, columns) for member in self.members.values()]
        if all(refusals):
            reasons = " ".join(refusals)
            raise ValueError(
                f"None of the verifiers of {self.__name__} can judge this dataset. {reasons}"
            )

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows that no member verifier can judge, with the reason of the first member whose columns exist."""
        # Row -> the problem of the first member, for rows that no member so far can judge; None before the first.
        unjudged: dict[int, DataProblem] | None = None
        for name, member in self.members.items():
            if rows and _refusal(member, rows[0]):
                # A verifier without its column judges no row, so its problems would hide the good rows.
                continue
            found = {}
            for problem in member.check_rows(rows, thorough=thorough):
                found[problem.row] = replace(problem, reason=f"{name}: {problem.reason}")
            if unjudged is None:
                unjudged = found
            else:
                unjudged = {
                    row: problem for row, problem in unjudged.items() if row in found
                }
        if unjudged is None:
            return []
        return list(unjudged.values())


def _refusal(member: Verifier, columns: Collection[str]) -> str:
    try:
        member.check_columns(columns)
    except ValueError as error:
        return str(error)
    return ""
