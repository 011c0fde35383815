"""Base classes of verifiers that compare final answers with gold answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from trl_grpo_ext.answers.find.final_answer import AnswerFrom, FinalAnswer, final_answer
from trl_grpo_ext.answers.golds import (
    ADVICE,
    GOLD_COLUMNS,
    NOT_TEXT,
    alternatives,
    is_not_text,
)
from trl_grpo_ext.answers.verdicts import SHOWN_CHARS, agreed, shortened_answer, unreadable
from trl_grpo_ext.protocol import (
    DataProblem,
    Verifier,
    first_value,
    problems_of,
    required_column,
)
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict, skipped

G = TypeVar("G")


class Tolerance(NamedTuple):
    """The largest difference of two numbers that a verifier takes for equal: `absolute`, or `relative` to the gold."""

    absolute: float
    relative: float


class GoldVerifier(Verifier):
    """Base of verifiers that read gold answers from a dataset column."""

    column: str | None

    @property
    @abstractmethod
    def answer_from(self) -> AnswerFrom:
        """The rule that finds the final answer in a completion; see `final_answer`."""

    @property
    def gold_columns(self) -> tuple[str, ...]:
        """The columns searched for a gold, in order; the first column with a value counts."""
        if self.column:
            return (self.column,)
        return GOLD_COLUMNS

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance by which two golds are told apart: 1e-6, unless a verifier has its own."""
        return Tolerance(absolute=1e-6, relative=0.0)

    def check_columns(self, columns: Collection[str]) -> None:
        required_column(columns, self.gold_columns, verifier=self)


class AnswerVerifier(GoldVerifier, Generic[G]):
    """Base of most answer verifiers: subclasses implement `read_gold` and `judge_answer`.

    A completion is correct if all its final answers are correct; if only some are, it is `ambiguous` and scores 0.
    """

    advice: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def read_gold(self, row: Mapping[str, Any]) -> G | str:
        """Read the gold of a row, which has its `prompt`; return the reason code if the row has no usable gold."""

    @abstractmethod
    def judge_answer(self, answer: str, gold: G) -> Verdict:
        """Judge one answer against the row's gold; the answer text may have any length and content."""

    def find(self, sample: Sample) -> FinalAnswer:
        """Find the final answer of a completion by the rule `answer_from`."""
        return final_answer(
            sample.text, prefill=sample.prefill, answer_from=self.answer_from
        )

    def golds(self, row: Mapping[str, Any]) -> list[Any]:
        """List the alternative golds of a row: an answer equal to any gold is right."""
        return alternatives(first_value(row, self.gold_columns))

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose gold is missing or unreadable."""
        reasons = []
        cells = []
        for row in rows:
            gold = self._gold_of(row)
            if isinstance(gold, str):
                reasons.append(gold)
            else:
                reasons.append("")
            cells.append(first_value(row, self.gold_columns))
        advice = {**ADVICE, **self.advice}
        return problems_of(reasons, cells, advice)

    def verify(self, sample: Sample) -> Verdict:
        # The gold comes first: a row without a usable gold is the data's fault, whatever the answer is.
        gold = self._gold_of({**sample.row, "prompt": sample.prompt})
        if isinstance(gold, str):
            return skipped(gold)
        found = self.find(sample)
        if found.problem:
            return unreadable(found.problem)
        judged = [self.judge_answer(answer, gold) for answer in found.answers]
        verdict = agreed(judged)
        # An unreadable answer is shown as it was found.
        answer = verdict.answer
        if answer is None:
            answer = found.answers[0]
        golds = " | ".join(map(str, self.golds(sample.row)))
        details = {"rule": found.rule, "gold": golds[:SHOWN_CHARS], **verdict.details}
        return replace(verdict, answer=shortened_answer(answer), details=details)

    def _gold_of(self, row: Mapping[str, Any]) -> G | str:
        cell = first_value(row, self.gold_columns)
        if is_not_text(cell):
            return NOT_TEXT
        return self.read_gold(row)
