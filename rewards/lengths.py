"""Reward token length: relative to a token budget, or relative to the other completions of the group."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trl_grpo_ext.group_verifier import GroupVerifier
from trl_grpo_ext.protocol import DataProblem, Verifier, problems_of, required_column
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_choice, check_number, is_whole_number
from trl_grpo_ext.verdict import Status, Verdict, grader_error, skipped

MODES = ("max", "exact")
# In tokens; a larger budget is an error in the data.
MAX_BUDGET = 10**9
ADVICE = {
    "budget_missing": "Drop the row, or give it a number of tokens.",
    "budget_unreadable": "Write the budget as a whole number of tokens, 1 or more.",
}


@dataclass(frozen=True, kw_only=True)
class TokenBudgetVerifier(Verifier):
    """Scores how well a completion keeps to a token budget, which the prompt should state.

    Train with budgets of many sizes, in the prompts ("Think for 512 tokens.") and in a column: the model learns to
    follow the stated budget. The scores are those of L1 (LCPO) without L1's accuracy reward, which belongs in a term of
    its own. Gate this term on accuracy, since the empty completion keeps to every budget.

    The length is the number of `completion_ids`, the end token included, less the tokens that tools returned. Every TRL
    trainer except A2PO's passes `completion_ids`.

    Args:
        budget: Tokens, for all rows; or
        column: the dataset column with the budget of each row, a whole number of tokens, 1 or more.
        mode: `"max"` asks for at most the budget: `slope * (budget - tokens) + at_budget`, clipped to [0, 1].
            `"exact"` asks for exactly the budget: `1 - slope * |budget - tokens|`, at least 0. L1's formula lacks the
            1 and the clipping. A constant does not change GRPO's advantages, and a gated score must not fall below the
            score of completions that fail the gate.
        slope: The score of one token, above 0; L1's `alpha`. The default suits budgets of thousands of tokens; start
            with `1 / budget` for small budgets.
        at_budget: The `"max"` score of a completion that uses its whole budget, in (0, 1]; L1's `delta`. With 1, every
            completion within its budget scores 1, so shorter completions gain nothing.
        name: The metric key.

    | tokens | budget, mode, slope | score | status, reason |
    |---|---|---|---|
    | 100 | 100, `max`, 0.01 | 0.5 | CORRECT |
    | 80 | 100, `max`, 0.01 | 0.7 | CORRECT |
    | 50 or fewer | 100, `max`, 0.01 | 1 | CORRECT |
    | 120 | 100, `max`, 0.01 | 0.3 | PARTIAL, `over_budget` |
    | 150 or more | 100, `max`, 0.01 | 0 | INCORRECT, `over_budget` |
    | 100 | 100, `exact`, 0.01 | 1 | CORRECT |
    | 80 | 100, `exact`, 0.01 | 0.8 | PARTIAL, `under_budget` |
    | 120 | 100, `exact`, 0.01 | 0.8 | PARTIAL, `over_budget` |
    | 200 or more | 100, `exact`, 0.01 | 0 | INCORRECT, `over_budget` |
    | any | none in this row | none, the data's fault | SKIPPED, `budget_missing` |
    | any | `"many"`, 0, 1.5 | none, the data's fault | SKIPPED, `budget_unreadable` |
    | unknown (`completion_ids` is None) | 100 | none, the grader's fault | ERROR, `tokens_unknown` |

    Raises:
        ValueError: unless exactly one of `budget` and `column` is given, or for a setting out of range.

    Examples:
        >>> verifier = TokenBudgetVerifier(column="budget", slope=0.01)
        >>> verifier(["short", "long"], budget=[100, 100], completion_ids=[[1] * 80, [1] * 120])
        [0.7, 0.3]

    Source: L1, controlling how long a reasoning model thinks (https://huggingface.co/papers/2503.04697).
    """

    budget: int | None = None
    column: str | None = None
    mode: Literal["max", "exact"] = "max"
    slope: float = 0.0003
    at_budget: float = 0.5
    name: str | None = None

    def __post_init__(self) -> None:
        has_budget = self.budget is not None
        has_column = self.column is not None
        if has_budget == has_column:
            given = "both" if has_budget else "neither"
            raise ValueError(
                f"A token budget needs either budget=..., the tokens for all rows, or column=..., the dataset column "
                f"that holds each row's; got {given}."
            )
        if self.budget is not None and _budget_of(self.budget) is None:
            raise ValueError(
                f"budget is a whole number of tokens, 1 or more; got {self.budget!r}."
            )
        if self.column is not None and not isinstance(self.column, str):
            raise ValueError(
                f"column is the name of a dataset column, got {self.column!r}."
            )
        check_choice("mode", self.mode, MODES)
        check_number("slope", self.slope, "the worth of a token", above=0)
        check_number("at_budget", self.at_budget, "a score", above=0, most=1)

    def check_columns(self, columns: Collection[str]) -> None:
        if self.column is not None:
            required_column(columns, [self.column], verifier=self)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose budget is missing or not a whole number of tokens."""
        if self.column is None:
            return []
        reasons = []
        cells = []
        for row in rows:
            budget = self._row_budget(row)
            if isinstance(budget, str):
                reasons.append(budget)
            else:
                reasons.append("")
            cells.append(row.get(self.column))
        return problems_of(reasons, cells, ADVICE)

    def verify(self, sample: Sample) -> Verdict:
        budget = self._row_budget(sample.row)
        if isinstance(budget, str):
            return skipped(budget)
        if sample.length is None:
            return grader_error("tokens_unknown")
        over = sample.length - budget
        score = self._score(over)
        # A kept budget is CORRECT, whatever it scores.
        if over == 0 or (over < 0 and self.mode == "max"):
            return Verdict(status=Status.CORRECT, score=score)
        status = Status.PARTIAL if score > 0 else Status.INCORRECT
        reason = "over_budget" if over > 0 else "under_budget"
        return Verdict(status=status, score=score, reason=reason)

    def _score(self, over: int) -> float:
        score = 1 - self.slope * abs(over)
        if self.mode == "max":
            score = self.at_budget - self.slope * over
        return min(max(score, 0.0), 1.0)

    def _row_budget(self, row: Mapping[str, Any]) -> int | str:
        """Return the row's token budget, or a reason code: `budget_missing`, `budget_unreadable`."""
        if self.column is None:
            # Exactly one of budget and column is given.
            assert self.budget is not None
            return int(self.budget)
        value = row.get(self.column)
        if value is None:
            return "budget_missing"
        budget = _budget_of(value)
        if budget is None:
            return "budget_unreadable"
        return budget


def _budget_of(value: object) -> int | None:
    """Read a budget from a cell; None unless it is a whole number in [1, `MAX_BUDGET`].

    `512.0` is read too, since a column with missing values holds floats.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not is_whole_number(value, least=1) or value > MAX_BUDGET:
        return None
    return int(value)


@dataclass(frozen=True, kw_only=True)
class ConciseVerifier(GroupVerifier):
    """Ranks the completions of a group by token length: the shortest scores 0.5, the longest -0.5.

    The verifier needs no budget: the group, and so the task, defines a short completion. Gate the term on accuracy, to
    rank only the correct completions of a group. Without a gate the shortest wrong answer wins.

    The score is half the difference of two shares: longer minus shorter completions among the others. So one very long
    completion does not move the other scores; it would with distances, as in Kimi k1.5, which places each length
    between the shortest and the longest. The scores of a group sum to 0, so the mean reward does not change. Keep the
    term's weight below the weight of accuracy, so that the longest correct answer still beats a wrong answer.

    The length is the number of `completion_ids`, the end token included, less the tokens that tools returned. A
    negative score has the status PARTIAL, never INCORRECT, so that the logged status shares do not suggest wrong
    answers.

    Args:
        tolerance: Two lengths count as equal if they differ by no more than this share of the shorter length, 0 or
            more: a difference of a token or two is no reason for a preference.
        name: The metric key.

    | completion | score | status, reason |
    |---|---|---|
    | shorter than all the others | 0.5 | CORRECT |
    | shorter than half of them, and longer than the other half | 0 | CORRECT |
    | longer than all the others | -0.5 | PARTIAL, `longer` |
    | as long as all the others | 0 | CORRECT, `equal_lengths` |
    | alone in its group, or alone in passing the gate | 0 | CORRECT, `no_others` |
    | of unknown length (`completion_ids` is None) | none, the grader's fault | ERROR, `tokens_unknown` |

    Raises:
        ValueError: if `tolerance` is not a number of 0 or more.

    Examples:
        >>> texts = {"4": 10, "So it is 4.": 20, "Let me think. It is 4.": 30}
        >>> group = [Sample(text=text, completion_ids=[1] * size, group=0) for text, size in texts.items()]
        >>> [verdict.score for verdict in ConciseVerifier().judge_samples(group)]
        [0.5, 0.0, -0.5]

    Source: after the length reward of Kimi k1.5, section 2.3.3 (https://huggingface.co/papers/2501.12599).
    """

    tolerance: float = 0.05
    name: str | None = None

    def __post_init__(self) -> None:
        check_number(
            "tolerance",
            self.tolerance,
            "the share by which lengths may differ and count as equal, such as 0.05",
            least=0,
        )

    def verify_group(self, samples: Sequence[Sample]) -> list[Verdict]:
        lengths = [sample.length for sample in samples]
        # Both comparisons use the same inequality: `a` is shorter than `b`, and `b` longer than `a`, exactly if
        # widened(a) < b. So the scores of a group sum to 0 despite rounding.
        known = sorted(length for length in lengths if length is not None)
        widened = [self._widened(length) for length in known]
        return [self._verdict(length, known, widened) for length in lengths]

    def _verdict(
        self,
        length: int | None,
        known: Sequence[int],
        widened: Sequence[float],
    ) -> Verdict:
        if length is None:
            return grader_error("tokens_unknown")
        if len(known) == 1:
            return Verdict(status=Status.CORRECT, score=0.0, reason="no_others")
        # Binary searches in the sorted lengths, instead of a comparison of all pairs.
        longer = len(known) - bisect_right(known, self._widened(length))
        shorter = bisect_left(widened, length)
        others = len(known) - 1
        score = (longer - shorter) / (2 * others)
        if longer == shorter == 0:
            return Verdict(status=Status.CORRECT, score=0.0, reason="equal_lengths")
        if score < 0:
            return Verdict(status=Status.PARTIAL, score=score, reason="longer")
        return Verdict(status=Status.CORRECT, score=score)

    def _widened(self, length: int) -> float:
        return length * (1 + self.tolerance)


concise_reward = ConciseVerifier(name="concise_reward")
"""`ConciseVerifier` with its defaults, ready for a `RewardMix`; plain TRL does not pass the groups."""
