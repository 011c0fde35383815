"""The bases of verifiers that compare final answers with golds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from trl_grpo_ext.answers.find.final_answer import AnswerFrom, final_answer
from trl_grpo_ext.answers.golds import ADVICE, GOLD_COLUMNS, NOT_TEXT, alternatives, is_not_text
from trl_grpo_ext.answers.verdicts import agreed, shown, unreadable
from trl_grpo_ext.protocol import DataProblem, Verifier, first_value, problems_of, required_column
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Verdict, skipped

G = TypeVar("G")


class GoldVerifier(Verifier):
    """A verifier that compares final answers with the golds of a column."""

    column: str | None

    @property
    @abstractmethod
    def answer_from(self) -> AnswerFrom:
        """The finder's rule for where the answer stands."""

    @property
    def gold_columns(self) -> tuple[str, ...]:
        """The columns that a gold is looked for in."""
        return (self.column,) if self.column else GOLD_COLUMNS

    def check_columns(self, columns: Collection[str]) -> None:
        required_column(columns, self.gold_columns, verifier=self)


class AnswerVerifier(GoldVerifier, Generic[G]):
    """What most verifiers of final answers share. Subclasses say how a row's golds are read, and how one is compared.

    A completion is correct if every answer that it gives is; if only some are, it is `ambiguous` and scores 0.
    """

    advice: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def read_gold(self, row: Mapping[str, Any]) -> G | str:
        """What the answers of this row are compared with, or the reason code why there is nothing."""

    @abstractmethod
    def judge_answer(self, answer: str, gold: G) -> Verdict:
        """The verdict on one answer, of any length and content."""

    def golds(self, row: Mapping[str, Any]) -> list[Any]:
        """The alternative golds of a row: an answer equal to any gold is right."""
        return alternatives(first_value(row, self.gold_columns))

    def check_rows(self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False) -> list[DataProblem]:
        """The rows whose gold is missing or cannot be read."""
        golds = [self._gold_of(row) for row in rows]
        reasons = (gold if isinstance(gold, str) else "" for gold in golds)
        return problems_of(reasons, (first_value(row, self.gold_columns) for row in rows), {**ADVICE, **self.advice})

    def verify(self, sample: Sample) -> Verdict:
        gold = self._gold_of(sample.row)
        if isinstance(gold, str):
            return skipped(gold)
        found = final_answer(sample.text, prefill=sample.prefill, answer_from=self.answer_from)
        if found.problem:
            return unreadable(found.problem)
        verdict = agreed([self.judge_answer(answer, gold) for answer in found.answers])
        answer = verdict.answer if verdict.answer is not None else found.answers[0]
        return replace(verdict, answer=shown(answer), details={"rule": found.rule, **verdict.details})

    def _gold_of(self, row: Mapping[str, Any]) -> G | str:
        return NOT_TEXT if is_not_text(first_value(row, self.gold_columns)) else self.read_gold(row)
