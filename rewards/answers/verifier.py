"""What the verifiers of answers share: their verdicts, reading the golds of a row, and the base of most of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from typing import Any, ClassVar, Generic, TypeVar

from trl_grpo_ext.protocol import DataProblem, Verifier, first_value, problems_of, required_column
from trl_grpo_ext.rewards.answers.finder import AnswerFrom, final_answer
from trl_grpo_ext.rewards.answers.marks import box_answers
from trl_grpo_ext.rewards.answers.spelling import restored, strip_delimiters
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict, skipped

GOLD_COLUMNS = ("solution", "answer")
NOT_TEXT = "gold_not_text"
ADVICE = {
    "gold_missing": "Drop the row, or name the right column: column=...",
    "gold_empty": "Drop the row, or name the right column: column=...",
    NOT_TEXT: "The gold is no text and no number. Of a mapping, such as a message, put the field that holds the answer "
    "into a column of its own, and name that: column=... `datasets` turns texts of JSON files into dates: CSV files "
    "keep their texts.",
}

SHOWN_CHARS = 200  # of an answer, in a verdict


def graded(
    score: float, *, reason: str = "", answer: str | None = None, details: dict[str, str] | None = None
) -> Verdict:
    """The verdict for an answer that was read: right by a score of 1, wrong by 0, right in part by one between."""
    status = Status.CORRECT if score == 1 else Status.PARTIAL if score else Status.INCORRECT
    return Verdict(status=status, score=score, reason=reason, answer=shown(answer), details=details or {})


def right(answer: str | None = None, *, details: dict[str, str] | None = None) -> Verdict:
    """The verdict for an answer that is as asked."""
    return graded(1.0, answer=answer, details=details)


def wrong(reason: str, *, answer: str | None = None, details: dict[str, str] | None = None) -> Verdict:
    """The verdict for an answer that was read and is not as asked."""
    return graded(0.0, reason=reason, answer=answer, details=details)


def unreadable(reason: str, *, answer: str | None = None, details: dict[str, str] | None = None) -> Verdict:
    """The verdict for a completion in which there is no answer to read."""
    return Verdict(status=Status.UNPARSEABLE, score=0.0, reason=reason, answer=shown(answer), details=details or {})


def shown(answer: str | None) -> str | None:
    """As much of an answer as a verdict carries."""
    return answer if answer is None else answer[:SHOWN_CHARS]


def is_not_text(cell: object) -> bool:
    """Whether a cell has what cannot be compared as text: a mapping, as conversations have, bytes, or a date.

    A date does not tell in which form its text was written.

    Examples:
        >>> [is_not_text(cell) for cell in ({"answer": "4"}, [{"role": "user", "content": "4"}], ["4", 5])]
        [True, True, False]
        >>> is_not_text(date(1917, 10, 28))
        True
    """
    return any(isinstance(one, Mapping | bytes | date | time | timedelta) for one in alternatives(cell))


def alternatives(gold: Any) -> list[Any]:
    """The golds that a cell holds: of a list, tuple or array each of its items, else the cell itself; no None, no NaN.

    Examples:
        >>> alternatives(["a", None, ["b"]]), alternatives("a"), alternatives(float("nan"))
        (['a', 'b'], ['a'], [])
    """
    to_list = getattr(gold, "tolist", None)  # of numpy and torch
    gold = to_list() if callable(to_list) else gold
    if isinstance(gold, list | tuple):
        return [one for item in gold for one in alternatives(item)]
    missing = gold is None or gold != gold  # NaN, which pandas has for a cell that is missing
    return [] if missing else [gold]


def gold_texts(gold: object) -> tuple[str, ...]:
    r"""The accepted golds of a row as texts; none if the row has no answer.

    A list has several that are each right. A number is itself, a bool yes or no, NaN none. Of a text, what follows
    GSM8K's `####`, else the last box, else what its dollars enclose.

    Examples:
        >>> gold_texts(42.0), gold_texts("5 + 5 = 10\n#### 10"), gold_texts(["$x^2$", r"so \boxed{7}"])
        (('42',), ('10',), ('x^2', '7'))
    """
    return tuple(dict.fromkeys(filter(None, map(_gold_text, alternatives(gold)))))


def _gold_text(gold: object) -> str:
    if isinstance(gold, bool):
        return "yes" if gold else "no"
    if isinstance(gold, float):
        if not math.isfinite(gold):
            return ""
        return str(int(gold)) if gold.is_integer() else repr(gold)
    text = restored(str(gold)).strip()
    if "####" in text:
        text = text.rpartition("####")[2].strip()
    boxed = box_answers(text)
    return strip_delimiters(boxed[-1].content if boxed else text)


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
        """The golds of a row, any of which will do."""
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


def agreed(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict on a completion that gives several answers: theirs if they score alike, else `ambiguous`.

    Examples:
        >>> right = Verdict(status=Status.CORRECT, score=1.0)
        >>> agreed([right, Verdict(status=Status.INCORRECT, score=0.0)]).reason
        'ambiguous'
    """
    unscored = next((verdict for verdict in verdicts if verdict.score is None), None)
    if unscored is not None:
        return unscored
    if len({verdict.score for verdict in verdicts}) == 1:
        return verdicts[0]
    return replace(verdicts[0], status=Status.INCORRECT, score=0.0, reason="ambiguous")
