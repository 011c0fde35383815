"""Math answers: does the completion's final answer equal the gold answer?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from trl_grpo_ext.protocol import Verifier, first_value, required_column
from trl_grpo_ext.rewards.answer_text import final_answer, gold_text, is_word, same_text
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict, skipped

GOLD_COLUMNS = ("solution", "answer")


@dataclass(frozen=True, kw_only=True)
class MathVerifier(Verifier):
    r"""Compares the completion's final answer with a gold answer, by math-verify in a worker process.

    The answer is what stands in the last `\boxed{}` after the reasoning; without one, the last mathematical
    expression after it. An answer that stands only inside an unclosed `<think>` block is no answer.

    The gold may be a number (int and float columns too), raw LaTeX (`\frac12`), LaTeX in dollars or in a box, a
    whole solution that ends in a box, GSM8K's `... #### 42`, or a word such as `yes`, which is compared as text.

    Args:
        column: The gold's column; by default `solution`, else `answer`, whichever the row has.
        timeout: Seconds that comparing one answer may take in its worker before that is killed.
        name: The metric key.

    | completion | gold | verdict | reason |
    |---|---|---|---|
    | `\boxed{\frac{1}{2}}` | `0.5` | CORRECT, 1 | |
    | `<think>1+1</think>So \boxed{3}` | `2` | INCORRECT, 0 | `not_equal` |
    | `I do not know.` | `2` | UNPARSEABLE, 0 | `no_answer` |
    | `<think>it is \boxed{2}, or` | `2` | UNPARSEABLE, 0 | `unclosed_think` |
    | `\boxed{9^{9^{9^9}}}` | `5` | TIMEOUT, 0 | `timeout` |
    | anything | none in this row | SKIPPED, none | `gold_missing` |
    | anything | `\frac{1}{` | SKIPPED, none | `gold_unparseable` |

    Raises:
        ValueError: for a timeout that is not above 0.

    Example:
        >>> math_reward([r"\boxed{\frac{1}{2}}", r"\boxed{2}"], solution=["0.5", "0.5"])
        [1.0, 0.0]
    """

    column: str | None = None
    timeout: float = 5.0
    name: str | None = None

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise ValueError(f"timeout is a number of seconds above 0, got {self.timeout!r}.")

    @property
    def gold_columns(self) -> tuple[str, ...]:
        return (self.column,) if self.column else GOLD_COLUMNS

    def check_columns(self, columns: Collection[str]) -> None:
        required_column(columns, self.gold_columns, verifier=self.__name__)

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        from trl_grpo_ext.execution.workers import Call, shared_pool

        pairs = [self.guarded(self._at_once, sample) for sample in samples]
        # A group of completions shares its gold, and often answers: each pair is compared once.
        open_pairs = list(dict.fromkeys(pair for pair in pairs if not isinstance(pair, Verdict)))
        calls = [Call(target="trl_grpo_ext.rewards.math_worker:compare", arguments=pair) for pair in open_pairs]
        outcomes = shared_pool().run(calls, timeout=self.timeout) if calls else []
        compared = {
            pair: _with_answer(outcome.to_verdict(), pair) for pair, outcome in zip(open_pairs, outcomes, strict=True)
        }
        return [pair if isinstance(pair, Verdict) else compared[pair] for pair in pairs]

    def _at_once(self, sample: Sample) -> Verdict | tuple[str, str, bool]:
        """The verdict where string work suffices, else the gold, the answer and whether it was boxed."""
        gold = first_value(sample.row, self.gold_columns)
        if gold is None:
            return skipped("gold_missing")
        gold = gold_text(gold)
        if not gold:
            return skipped("gold_empty")
        found = final_answer(sample.text, prefill=sample.prefill)
        if found.problem:
            return Verdict(status=Status.UNPARSEABLE, score=0.0, reason=found.problem)
        if found.boxed and same_text(gold, found.text):
            return Verdict(status=Status.CORRECT, score=1.0, answer=found.text)
        if is_word(gold):  # words are compared as text, and only where the completion says which they are
            if found.boxed:
                return Verdict(status=Status.INCORRECT, score=0.0, answer=found.text, reason="not_equal")
            return Verdict(status=Status.UNPARSEABLE, score=0.0, reason="no_boxed")
        return gold, found.text, found.boxed


def _with_answer(verdict: Verdict, pair: tuple[str, str, bool]) -> Verdict:
    """A worker that was killed could not say what it was comparing."""
    _, answer, boxed = pair
    return replace(verdict, answer=answer) if boxed and verdict.answer is None else verdict


math_reward = MathVerifier(name="math_reward")
"""`MathVerifier` with its defaults, ready for a list of reward functions or for `trl grpo --reward_funcs`."""
