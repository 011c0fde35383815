"""The noise meter: how often a verifier rejects right answers of a run's completions, and accepts wrong answers.

It restyles right answers, which must keep their score, and judges them by another row's gold, where they must lose it.
Only answers equal to the gold, except for blanks, count as right: a verifier may have accepted wrong ones. The meter
changes no verdict and draws no random numbers.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from trl_grpo_ext.figures.logged import FALSE_ACCEPTS, FALSE_REJECTS, NOISE_SECONDS
from trl_grpo_ext.figures.reduction import BatchFigures
from trl_grpo_ext.mix.reward_mix import RewardMix
from trl_grpo_ext.rewards import MathVerifier
from trl_grpo_ext.rewards.bases.answer_verifier import AnswerVerifier
from trl_grpo_ext.rewards.restyled import is_surely, restyled, surely_differ
from trl_grpo_ext.runs.listener import RunListener
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.scorecard import Scorecard
from trl_grpo_ext.support.estimate import Estimate, Grouped, Interval
from trl_grpo_ext.support.files import append_lines
from trl_grpo_ext.verdict import Status, Verdict

# The maximum share of a step's time for measuring; all additions of the trainer together may take 1 %.
SHARE = 0.001
# The number of answers behind a rate; a rate of 5 % then has a standard error of half a percentage point.
WINDOW = 2_000
# The number of remembered questions, so that no question is asked twice.
MOST_REMEMBERED = 1 << 16
# The number of recorded mistakes, each with the last END_CHARS characters of its completion.
MOST_MISTAKES = 100
END_CHARS = 200
FILE = "noise.jsonl"

# The stateless verifiers that compare an answer with a gold.
Comparing = MathVerifier | AnswerVerifier[Any]


class _Right(NamedTuple):
    """A right answer: its sample, the verifier, the row's gold column, and a sample of every other group."""

    sample: Sample
    verifier: Comparing
    answer: str
    column: str
    others: list[Sample]


class NoiseMeter(RunListener):
    """A listener that measures the noise of primary verifiers that compare answers.

    Per group it asks about one right answer, and never repeats a question. Measuring takes at most `share` of the time
    between two batches, by default 0.1 %; a question that takes longer is made up for at the next steps. Rates cover
    the latest 2,000 answers of each kind. The verifier's mistakes are recorded in `noise.jsonl`.

    Attributes:
        mistakes: By rate name, one flag per asked answer: True if the verifier was wrong.
    """

    def __init__(
        self,
        mix: RewardMix,
        run_folder: str | os.PathLike[str],
        *,
        share: float | None = None,
    ) -> None:
        self.mistakes = {
            name: deque[bool](maxlen=WINDOW) for name in (FALSE_REJECTS, FALSE_ACCEPTS)
        }
        self._verifiers: dict[str, Comparing] = {}
        for term, verifier in mix.verifiers:
            if isinstance(verifier, MathVerifier | AnswerVerifier):
                self._verifiers[term.name] = verifier
        self._path = Path(run_folder) / FILE
        self._share = SHARE if share is None else share
        self._since = time.perf_counter()
        # The seconds left for measuring; negative after a slow question.
        self._left = 0.0
        # The seconds used at the latest batch.
        self._used = math.nan
        # The mean seconds per question.
        self._cost = Estimate.of([0.0])
        self._asked: set[int] = set()
        self._written = 0

    @property
    def figures(self) -> dict[str, float]:
        """The rates with their 95 % intervals, and the seconds used, by log name; NaN where unknown.

        Only the main rank measures; other ranks have the names with NaN. A mix without verifiers to measure has no
        figures.
        """
        if not self._verifiers:
            return {}
        figures = {NOISE_SECONDS: self._used}
        for name, found in self.mistakes.items():
            rate = Estimate.share(sum(found), len(found))
            interval = Grouped(rate, rate).interval
            if interval is None:
                interval = Interval(math.nan, math.nan, math.nan)
            figures[name] = interval.mean
            figures[f"{name}_low"] = interval.low
            figures[f"{name}_high"] = interval.high
        return figures

    def on_train_begin(self, *, quiet: bool) -> None:
        self._since = time.perf_counter()

    def on_evaluate(self) -> None:
        # An evaluation does not count as time of a step.
        self._since = time.perf_counter()

    def on_batch(self, card: Scorecard, figures: BatchFigures | None) -> None:
        if card.mode != "train":
            return
        began = time.perf_counter()
        # At most the time of one question is saved up, so no step pays for many questions.
        saved_up = min(self._left, self._cost.mean)
        self._left = saved_up + self._share * (began - self._since)
        self._since = began
        self._used = 0.0
        questions = self._questions(card)
        while self._used + self._cost.mean < self._left:
            question = next(questions, None)
            if question is None:
                break
            rate, right = question
            self._ask(rate, right)
            used = time.perf_counter() - began
            self._cost += Estimate.of([used - self._used])
            self._used = used
        # Including the search for right answers.
        self._used = time.perf_counter() - began
        self._left -= self._used

    def _questions(self, card: Scorecard) -> Iterator[tuple[str, _Right]]:
        """Yield the rate and the right answer of each question, the rate with fewer answers first."""
        for right in self._right_answers(card):
            for rate in sorted(self.mistakes, key=lambda rate: len(self.mistakes[rate])):
                yield rate, right

    def _right_answers(self, card: Scorecard) -> Iterator[_Right]:
        """Yield, per group, the first correct answer that equals the gold."""
        for place, rows in enumerate(card.members):
            nearest = card.members[place + 1 :] + card.members[:place]
            others = [card.samples[first] for first, *_ in nearest]
            for row in rows:
                right = self._right(card, row, others)
                if right is not None:
                    yield right
                    break

    def _right(self, card: Scorecard, row: int, others: list[Sample]) -> _Right | None:
        """Return a completion's right answer; None if the answer is wrong, or differs from the gold."""
        verdict = card.primary[row]
        verifier = self._verifiers.get(card.primary_terms[row] or "")
        if verifier is None or verdict is None:
            return None
        if verdict.status is not Status.CORRECT or not verdict.answer:
            return None
        sample = card.samples[row]
        column = _gold_column(verifier, sample)
        if column is None or not is_surely(verdict.answer, sample.row[column]):
            return None
        return _Right(
            sample=sample,
            verifier=verifier,
            answer=verdict.answer,
            column=column,
            others=others,
        )

    def _ask(self, rate: str, right: _Right) -> None:
        """Ask the verifier the first new question about an answer, if one exists."""
        questions = _swapped(right)
        if rate == FALSE_REJECTS:
            questions = _restyled(right, turn=len(self.mistakes[rate]))
        for form, sample in questions:
            if self._is_new(sample, right.column):
                self._note_answer(rate, form, sample, right)
                return

    def _note_answer(
        self,
        rate: str,
        form: str,
        sample: Sample,
        right: _Right,
    ) -> None:
        [verdict] = right.verifier.judge_samples([sample])
        if verdict.score is None:
            # The grader or the data has failed.
            return
        is_accepted = verdict.status is Status.CORRECT
        # The question of a false accept has a wrong answer.
        is_mistake = is_accepted if rate == FALSE_ACCEPTS else not is_accepted
        self.mistakes[rate].append(is_mistake)
        if is_mistake and self._written < MOST_MISTAKES:
            self._write(form, sample, right.column, verdict)

    def _write(self, form: str, sample: Sample, column: str, verdict: Verdict) -> None:
        """Append a mistake to the file; this process's first mistake replaces an earlier file."""
        about = {
            "step": sample.step,
            "form": form,
            "gold": str(sample.row[column]),
            "completion": sample.text[-END_CHARS:],
            "answer": verdict.answer,
            "reason": verdict.reason,
        }
        if not self._written:
            self._path.unlink(missing_ok=True)
        append_lines(self._path, [about])
        self._written += 1

    def _is_new(self, sample: Sample, column: str) -> bool:
        """Return whether a question is new; remember the question."""
        key = hash((sample.text, str(sample.row[column])))
        if key in self._asked:
            return False
        if len(self._asked) >= MOST_REMEMBERED:
            self._asked.clear()
        self._asked.add(key)
        return True


def _restyled(right: _Right, turn: int) -> Iterator[tuple[str, Sample]]:
    """Yield the completion with restyled answers; turn n starts with form n."""
    # Other verifiers and modes do not read all styles.
    if not isinstance(right.verifier, MathVerifier) or right.verifier.mode == "last_number":
        return
    concludes = right.verifier.mode == "auto"
    forms = list(restyled(right.sample.text, right.answer, concludes=concludes))
    first = turn % max(1, len(forms))
    for form, text in forms[first:] + forms[:first]:
        yield form, replace(right.sample, text=text)


def _swapped(right: _Right) -> Iterator[tuple[str, Sample]]:
    """Yield the completion with a different gold, taken from other groups, starting with the next group."""
    row = right.sample.row
    verifier = right.verifier
    for other in right.others:
        column = _gold_column(verifier, other)
        if column is None:
            continue
        gold = other.row[column]
        # Numbers within the verifier's tolerance do not differ.
        if surely_differ(row[right.column], gold, *verifier.tolerance):
            swapped_row = {**row, right.column: gold}
            yield "other_gold", replace(right.sample, row=swapped_row)


def _gold_column(verifier: Comparing, sample: Sample) -> str | None:
    for column in verifier.gold_columns:
        if sample.row.get(column) is not None:
            return column
    return None
