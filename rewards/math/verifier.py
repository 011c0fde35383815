"""Verify mathematical answers by equality with the gold answer."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trl_grpo_ext.answers.acceptance import SWITCHES
from trl_grpo_ext.answers.find.final_answer import AnswerFrom
from trl_grpo_ext.answers.find.math_answer import RULES, Mode, check_mode
from trl_grpo_ext.answers.find.sentences import is_sentence
from trl_grpo_ext.answers.golds import (
    ADVICE,
    NOT_TEXT,
    gold_texts,
    gold_values,
    is_not_text,
)
from trl_grpo_ext.answers.pairs import judge_golds, judge_pairs
from trl_grpo_ext.answers.question import Question, Settings, ask
from trl_grpo_ext.protocol import BatchVerifier, DataProblem, first_value, problems_of
from trl_grpo_ext.rewards.bases.answer_verifier import GoldVerifier, Tolerance
from trl_grpo_ext.sample import Sample, last_message
from trl_grpo_ext.support.setting_checks import check_seconds, check_whole
from trl_grpo_ext.verdict import Blame, Status, Verdict, skipped
from trl_grpo_ext.workers.pool import close_workers

GOLD_ADVICE = {
    **ADVICE,
    "gold_unparseable": "Write the gold as a number, LaTeX, a choice or words; a whole solution must end in a box.",
    "gold_prose": "Give the gold as a value or in a few words; a sentence can be said in many ways. Or ask a model.",
    "gold_timeout": "Simplify the gold; it takes longer than the timeout whatever the answer is.",
    "gold_not_itself": "Check the gold; it does not equal itself, so that no answer can.",
    "grader": "Try again: a worker failed, not the data.",
}


@dataclass(frozen=True, kw_only=True)
class MathVerifier(BatchVerifier, GoldVerifier):
    r"""Compares the completion's final answer with a gold answer.

    Numbers, words, choices and values far apart are compared in this process. Other pairs are compared by math-verify
    and sympy, in a worker process that is killed after `timeout` seconds. docs/math.md explains how answers are found
    and judged, and the policies below.

    The gold may be a number (int and float columns too), raw LaTeX (`\frac12`), LaTeX in dollars or in a box, a whole
    solution that ends in a box, GSM8K's `... #### 42`, a choice such as `B`, words, or a list of alternative golds.

    Args:
        column: The gold's column; by default `solution`, else `answer`. If a row has both, `answer` counts if
            `solution` consists of sentences without a box or `####`.
        mode: The rule that finds the answer: `auto`, `boxed`, `boxed_only`, `answer_tag`, `final_answer_phrase` or
            `last_number`. See docs/math.md.
        timeout: Time limit of one comparison in its worker, in seconds; then the worker is killed.
        decimals: Decimal places for rounding both numbers, if at least one is written as a decimal.
        accept_unevaluated: Accept an answer that leaves the calculation to the grader, `\boxed{17 \times 23}`.
        accept_stray_text: Accept an answer with words that retract it, `\boxed{5 \text{ is wrong}}`.
        accept_other_units: Accept the right number with a unit other than the gold's.
        accept_other_case: Accept `X` for `x`.
        accept_false_equations: Accept a false equation such as `\boxed{4 = 5}` by its last side.
        name: The metric key.

    | completion | gold | verdict | reason |
    |---|---|---|---|
    | `\boxed{\frac{1}{2}}` | `0.5` | CORRECT, 1 | |
    | `<think>1+1</think>So \boxed{3}` | `2` | INCORRECT, 0 | `not_equal` |
    | `\boxed{2}. No: \boxed{3}` | `3` | INCORRECT, 0 | `ambiguous` |
    | `\boxed{1+1}` | `2` | INCORRECT, 0 | `unevaluated` |
    | `I do not know.` | `2` | UNPARSEABLE, 0 | `no_answer` |
    | `<think>it is \boxed{2}, or` | `2` | UNPARSEABLE, 0 | `unclosed_think` |
    | `\boxed{9^{9^{9^9}}}` | `5` | TIMEOUT, 0 | `timeout` |
    | anything | missing | SKIPPED, none | `gold_missing` |
    | anything | `\frac{1}{` | SKIPPED, none | `gold_unparseable` |
    | anything | a mapping, a list of messages | SKIPPED, none | `gold_not_text` |

    Raises:
        ValueError: for an unknown mode, a negative `decimals`, or a timeout that is not above 0.

    Examples:
        >>> math_reward([r"\boxed{\frac{1}{2}}", r"\boxed{2}"], solution=["0.5", "0.5"])
        [1.0, 0.0]
    """

    column: str | None = None
    mode: Mode = "auto"
    timeout: float = 5.0
    decimals: int = 6
    accept_unevaluated: bool = False
    accept_stray_text: bool = False
    accept_other_units: bool = False
    accept_other_case: bool = False
    accept_false_equations: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout)
        check_whole("decimals", self.decimals, "a number of decimal places", least=0)
        check_mode(self.mode)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Names of all enabled `accept_...` switches."""
        return tuple(switch for switch in SWITCHES if getattr(self, switch))

    @property
    def tolerance(self) -> Tolerance:
        """A unit of the last decimal place that is compared."""
        return Tolerance(absolute=10.0**-self.decimals, relative=0.0)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows whose gold is missing, unreadable, too slow to compare, or unequal to itself."""
        values = list(map(self._gold, rows))
        golds = [() if is_not_text(value) else gold_values(value) for value in values]
        verdicts = judge_golds([text for row in golds for text in row], self.timeout)
        reasons = (
            _gold_problem(value, row, verdicts)
            for value, row in zip(values, golds, strict=True)
        )
        return problems_of(reasons, values, GOLD_ADVICE)

    def close(self) -> None:
        """Stop the workers of this process; the next use starts new workers."""
        close_workers()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        # The completions of a group share the gold, and often answers or whole texts: judge each distinct text once.
        questions: dict[Hashable, Verdict | Question] = {}
        keys = []
        for position, sample in enumerate(samples):
            cells = [sample.row.get(column) for column in self.gold_columns]
            # With types, since 1, 1.0 and True are equal keys in Python.
            # A completion whose cell has no hash, such as a list, is judged by itself.
            key = (
                (
                    sample.text,
                    sample.prefill,
                    last_message(sample.prompt),
                    *((type(cell), cell) for cell in cells),
                )
                if all(isinstance(cell, Hashable) for cell in cells)
                else position
            )
            if key not in questions:
                started = time.perf_counter()
                question = self.guarded(self._question, sample)
                questions[key] = replace(question, seconds=time.perf_counter() - started)
            keys.append(key)
        asked = [
            question for question in questions.values() if isinstance(question, Question)
        ]
        # The pairs of all questions at once, so that the workers compare side by side.
        known = judge_pairs(
            (pair for question in asked for pair in question.pairs), self.timeout
        )
        verdicts = {
            key: question if isinstance(question, Verdict) else question.verdict(known)
            for key, question in questions.items()
        }
        return [verdicts[key] for key in keys]

    @property
    def answer_from(self) -> AnswerFrom:
        """The `final_answer` rule for the setting `mode`."""
        return RULES[self.mode]

    def _gold(self, row: Mapping[str, Any]) -> Any:
        """Return the gold cell: `answer` if `solution` consists of sentences, such as a worked solution with no box."""
        gold = first_value(row, self.gold_columns)
        answer = None if self.column else row.get("answer")
        if answer is None or not isinstance(gold, str) or not gold_texts(answer):
            return gold
        return answer if any(map(is_sentence, gold_values(gold))) else gold

    def _question(self, sample: Sample) -> Verdict | Question:
        gold = self._gold(sample.row)
        if gold is None:
            return skipped("gold_missing")
        if is_not_text(gold):
            return skipped(NOT_TEXT)
        golds = gold_values(gold)
        if not golds:
            return skipped("gold_empty")
        settings = Settings(self.mode, self.accepted, self.decimals)
        return ask(
            sample.text,
            golds,
            last_message(sample.prompt),
            prefill=sample.prefill,
            settings=settings,
        )


def _gold_problem(
    value: object, golds: tuple[str, ...], verdicts: Mapping[str, Verdict]
) -> str:
    """Return the reason code of a row with an unusable gold, empty for a usable row.

    `verdicts` maps each gold text to the verdict of comparing the gold with itself.
    """
    if value is None:
        return "gold_missing"
    if is_not_text(value):
        return NOT_TEXT
    if not golds:
        return "gold_empty"
    for gold in golds:
        verdict = verdicts.get(gold)
        if verdict is None or verdict.status is Status.CORRECT:
            continue
        if verdict.status is Status.TIMEOUT:
            return "gold_timeout"
        return "grader" if verdict.blame is Blame.GRADER else verdict.reason
    return ""


math_reward = MathVerifier(name="math_reward")
"""`MathVerifier` with its defaults, ready for a list of reward functions or for `trl grpo --reward_funcs`."""
