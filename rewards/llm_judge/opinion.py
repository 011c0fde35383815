"""A judge's opinion on the equality of answer and gold: two opposite questions, whose replies must agree.

In the first question a high score accepts the answer, in the second question a low score. The first question shows
the gold first, the second question the answer. So a model that always gives the same score contradicts itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trl_grpo_ext.rewards.llm_judge.asking import Reply, Scored
from trl_grpo_ext.rewards.llm_judge.question import JudgePrompt, Question
from trl_grpo_ext.rewards.llm_judge.reply import Contract
from trl_grpo_ext.rewards.llm_judge.verifier import LlmJudgeVerifier
from trl_grpo_ext.sample import Prompt

SAME = """\
The reference is the right answer to the question. Is the response the same answer?
How it is written does not matter: the form of a number, the order of things that have no order, the names of free \
variables, a unit that the question has fixed. All else matters. A response that says more or less than the reference, \
offers several answers, or leaves work to be done is another answer.
The rubric: 1 if the response is the same answer; 0 if it is another answer, or none.

{question}

{gold}

{answer}"""
WRONG = """\
The response was handed in as a final answer. Look for what is wrong with it: a value, a sign, a case, a condition, a \
unit or a part that is missing, or that differs from the reference, which is right.
The rubric is how wrong the response is: 1 if there is such a thing, or if it is no answer; 0 if the response and the \
reference say the same thing in two ways.

{answer}

{question}

{gold}"""


@dataclass(frozen=True, slots=True)
class Case:
    """The two questions about one answer."""

    same: Question
    wrong: Question


def pose(*, prompt: Prompt | None, gold: str, answer: str) -> Case:
    """Write both judge questions, `SAME` and `WRONG`, about one answer.

    Raises:
        QuestionError: if the prompt is missing or empty.
    """

    def question(template: str, low: float, high: float) -> Question:
        judge_prompt = JudgePrompt.parse(template, rubric=None, column="gold")
        contract = Contract(low=low, high=high)
        return judge_prompt.question(
            {"gold": gold},
            prompt=prompt,
            answer=answer,
            contract=contract,
        )

    return Case(same=question(SAME, 0, 1), wrong=question(WRONG, 1, 0))


@dataclass(frozen=True, slots=True)
class Opinion:
    """A judge's opinion on an answer.

    Attributes:
        said: `same`, `different`, `divided` (the judge contradicts itself), `failed` or `over_budget`.
        replies: The replies to the questions sent, at most two.
        reason: The reason code of a failure.
    """

    said: str
    replies: tuple[Reply, ...] = ()
    reason: str = ""

    @property
    def seconds(self) -> float:
        """The total time of the replies, in seconds."""
        return sum(reply.seconds for reply in self.replies)

    @property
    def details(self) -> dict[str, str]:
        """Verdict details: opinion, calls, tokens and reply texts."""
        calls = sum(reply.calls for reply in self.replies)
        tokens = sum(reply.tokens for reply in self.replies)
        details = {
            "opinion": self.said,
            "calls": str(calls),
            "tokens": str(tokens),
        }
        for name, reply in zip(("reply", "second_reply"), self.replies, strict=False):
            if isinstance(reply.outcome, Scored):
                details[name] = reply.outcome.reply
        return details

    @property
    def repeated(self) -> Opinion:
        """A copy without calls and tokens, for further samples with an equal answer: each call counts once."""
        free = tuple(replace(reply, calls=0, tokens=0) for reply in self.replies)
        return replace(self, replies=free)


def opinions(
    judge: LlmJudgeVerifier, cases: Sequence[Case], *, budget: int
) -> dict[Case, Opinion]:
    """Get the judge's opinion on distinct cases; the second question is sent only after a yes to the first.

    Args:
        judge: The judge; both rounds of questions together take at most its `batch_timeout`.
        cases: Distinct cases, the most important first.
        budget: The most cases whose first question is not cached; further new cases become `over_budget`.
    """
    started = time.monotonic()
    # Cached scores cost nothing, so only new questions spend the budget.
    new = [case for case in cases if judge.remembered(case.same) is None]
    found = dict.fromkeys(new[budget:], Opinion("over_budget"))
    asked = [case for case in cases if case not in found]
    first_replies = judge.ask([case.same for case in asked])
    agreed = []
    for case, reply in zip(asked, first_replies, strict=True):
        found[case] = _opinion(reply)
        if found[case].said == "same":
            agreed.append(case)
    # Both rounds share one time limit.
    left = judge.batch_timeout - (time.monotonic() - started)
    second_replies = judge.ask([case.wrong for case in agreed], seconds=max(left, 0.0))
    for case, reply in zip(agreed, second_replies, strict=True):
        found[case] = _opinion(*found[case].replies, reply)
    return found


def _opinion(*replies: Reply) -> Opinion:
    """Make an opinion from one reply (`SAME` question) or two replies (`SAME`, `WRONG`)."""
    scores = []
    for reply in replies:
        if isinstance(reply.outcome, str):
            return Opinion("failed", replies, reply.outcome)
        scores.append(reply.outcome.score)
    # `SAME` accepts an answer by 1, `WRONG` by 0.
    is_same, *is_wrong = scores
    if is_same != 1:
        return Opinion("different", replies)
    if is_wrong and is_wrong != [0.0]:
        return Opinion("divided", replies)
    return Opinion("same", replies)
