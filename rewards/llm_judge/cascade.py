"""Verify answers by rules, and ask an LLM judge about answers that the rules cannot decide."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any

from trl_grpo_ext.answers.find.final_answer import FinalAnswer, final_answer
from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.protocol import BatchVerifier, DataProblem, first_value
from trl_grpo_ext.rewards.bases.answer_verifier import GoldVerifier
from trl_grpo_ext.rewards.llm_judge.askable import why_not_asked
from trl_grpo_ext.rewards.llm_judge.opinion import Case, Opinion, opinions, pose
from trl_grpo_ext.rewards.llm_judge.question import MAX_CHARS, QuestionError, question_text
from trl_grpo_ext.rewards.llm_judge.verifier import LlmJudgeVerifier
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_whole
from trl_grpo_ext.verdict import Status, Verdict, grader_error

NOT_EQUAL = "not_equal"
# The reasons of the rules for a text gold that they cannot read.
TEXT_GOLDS = ("gold_unparseable", "gold_prose", "gold_not_a_number")
# The separator of alternative golds in a question.
ANY_GOLD = "\nor: "
OF_THE_QUESTIONS = ("rubric", "prompt", "column", "pass_mark")
ASKED = ("same", "different", "divided", "failed")
METRICS = ("asked", "overturned", "divided", "refused", "over_budget", "calls", "tokens")
# Whole numbers and choices, which rules compare with certainty.
_PLAIN = re.compile(r"[-+]?[0-9]+|[A-Za-z]")


@dataclass(frozen=True, kw_only=True)
class CascadeVerifier(BatchVerifier):
    r"""Compares answers by rules, and asks an LLM judge about answers that the rules cannot decide.

    The judge is asked if the rules end with `not_equal`, or cannot read a text gold. The judge is not asked about an
    answer that

    * the rules reject for another reason: several answers, doubts, another unit, unevaluated work, no answer found;
    * looks like a text for graders rather than an answer to the question (`askable.why_not_asked`), or does not occur
      literally in the completion;
    * is a whole number or a single letter, like the gold.

    The judge gets two questions: is the answer the same as the gold, and, in reversed order, what is wrong with the
    answer. The answer is accepted only if the judge finds both the same, and nothing wrong. The judge sees the
    question, the gold and the final answer, not the rest of the completion. A failure of the judge is the grader's
    fault: no score, never 0.

    **The model can be wrong.** Begin with a cascade of weight 0 beside the rules, and read its overturned verdicts.

    Args:
        rules: A verifier that compares final answers, such as `MathVerifier` or `ExactTextVerifier`.
        llm: The model and its settings. The cascade asks its own questions, so leave `rubric`, `prompt`, `column` and
            `pass_mark` at their defaults.
        budget: The most uncached answers per batch and process to ask about, 1 or more; each takes one or two
            questions. The most frequent answers of the batch go first.
        name: The metric key.

    | rules | the same? what is wrong? | verdict | reason |
    |---|---|---|---|
    | CORRECT, or another reason than below | not asked | the rules' | the rules' |
    | `not_equal` | yes; nothing | CORRECT, 1 | `judged_same` |
    | `not_equal` | yes; something | INCORRECT, 0 | `judge_divided` |
    | `not_equal` | no | INCORRECT, 0 | `not_equal` |
    | `not_equal` | not asked, the text is no answer | INCORRECT, 0 | `not_equal` |
    | `gold_unparseable` | yes; nothing | CORRECT, 1 | `judged_same` |
    | `gold_unparseable` | yes; something | INCORRECT, 0 | `judge_divided` |
    | `gold_unparseable` | no | INCORRECT, 0 | `judged_different` |
    | `gold_unparseable` | not asked, the text is no answer | INCORRECT, 0 | `not_an_answer` |
    | both | not asked, the budget is spent | the rules' | `over_judge_budget` |
    | both | a question without a reply | ERROR, none | `judge_http_500`, `judge_timeout`, ... |

    Raises:
        ValueError: for `rules` or `llm` of the wrong class, an `llm` with settings of its own questions, or a budget
            below 1.

    Examples:
        >>> from trl_grpo_ext.rewards.math import MathVerifier
        >>> llm = LlmJudgeVerifier(model="judge", base_url="http://localhost:8000/v1")
        >>> cascade = CascadeVerifier(rules=MathVerifier(), llm=llm)
        >>> cascade([r"\boxed{\frac{1}{2}}", r"\boxed{3}"], solution=["0.5", "2"])  # no question is asked
        [1.0, 0.0]
    """

    rules: GoldVerifier
    llm: LlmJudgeVerifier
    budget: int = 64
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rules, GoldVerifier):
            raise ValueError(
                f"rules must be a verifier that compares final answers, such as MathVerifier(); got {self.rules!r}. "
                f"A composition may hold a cascade, but a cascade holds no composition."
            )
        if not isinstance(self.llm, LlmJudgeVerifier):
            raise ValueError(
                f"llm must be an LlmJudgeVerifier, which says where the model is; got {self.llm!r}."
            )
        # Its other settings name the endpoint, and bound costs.
        for setting in fields(self.llm):
            is_set = getattr(self.llm, setting.name) != setting.default
            if is_set and setting.name in OF_THE_QUESTIONS:
                raise ValueError(
                    f"A cascade asks questions of its own: leave `{setting.name}` out of its llm."
                )
        check_whole("budget", self.budget, least=1)

    def check_columns(self, columns: Collection[str]) -> None:
        self.rules.check_columns(columns)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List rows unusable for rules and judge; the judge can use text golds, so their problems are dropped."""
        found = self.rules.check_rows(rows, thorough=thorough)
        return [problem for problem in found if problem.reason not in TEXT_GOLDS]

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        ruled = self.guarded_batch(self.rules.judge_samples, samples)
        read = [self.guarded(self._read, pair) for pair in zip(samples, ruled, strict=True)]
        wanted = Counter(case for case in read if isinstance(case, Case))
        # The budget goes to the answers that most samples share.
        cases = [case for case, _ in wanted.most_common()]
        found = self.guarded(self._opinions, cases)
        verdicts = []
        for case, verdict in zip(read, ruled, strict=True):
            if isinstance(case, Verdict):
                verdicts.append(case)
            elif isinstance(found, Verdict):
                # An exception while asking leaves every open answer without a score.
                verdicts.append(found)
            else:
                verdicts.append(_decided(verdict, found[case]))
                # The costs count for the first of equal answers.
                found[case] = found[case].repeated
        return verdicts

    def _opinions(self, cases: Sequence[Case]) -> dict[Case, Opinion]:
        return opinions(self.llm, cases, budget=self.budget)

    def _read(self, pair: tuple[Sample, Verdict]) -> Verdict | Case:
        """Return the questions about a sample's answer, or the final verdict if no question is needed."""
        sample, ruled = pair
        if ruled.reason not in (NOT_EQUAL, *TEXT_GOLDS):
            return ruled
        golds = gold_texts(first_value(sample.row, self.rules.gold_columns))
        found = final_answer(
            sample.text, prefill=sample.prefill, answer_from=self.rules.answer_from
        )
        answer = ruled.answer
        if answer is None:
            answer = "".join(found.answers[:1])
        if all(_PLAIN.fullmatch(text.strip()) for text in (answer, *golds)):
            return ruled
        gold = ANY_GOLD.join(golds)
        refused = self._refused(sample, found, answer, gold)
        if refused:
            details = {**ruled.details, "opinion": "refused", "refused": refused}
            reason = NOT_EQUAL if ruled.reason == NOT_EQUAL else "not_an_answer"
            return _wrong(ruled, reason, details)
        try:
            return pose(prompt=sample.prompt, gold=gold, answer=answer)
        except QuestionError as error:
            # Without a prompt, equality of two answers cannot be judged.
            return replace(ruled, details={**ruled.details, "opinion": str(error)})

    def _refused(
        self,
        sample: Sample,
        found: FinalAnswer,
        answer: str,
        gold: str,
    ) -> str:
        """Return the refusal code of an answer or its source text; empty to ask the judge."""
        if len(found.answers) > 1:
            return "several_answers"
        question = question_text(sample.prompt)[:MAX_CHARS]
        for text in (answer, *found.answers):
            refused = why_not_asked(text, gold=gold, question=question)
            if refused:
                return refused
        # Rules may join an answer from several boxes with "or" between them.
        if _on_one_line(answer) not in _on_one_line(sample.text):
            return "not_as_written"
        return ""

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        """Compute shares of the samples by the judge's opinion, and mean costs per sample.

        * `asked`: the judge was asked about the answer, in this batch or earlier.
        * `overturned`: the rules said `not_equal`, but the judge called the answer the same.
        * `divided`: the judge contradicted itself.
        * `refused`: the text looked like no answer, so the judge was not asked.
        * `over_budget`: the budget was spent.
        * `calls`, `tokens`: replies of the endpoint, and prompt and reply tokens, if the endpoint reports tokens.
        """
        totals = dict.fromkeys(METRICS, 0)
        for verdict in verdicts:
            if verdict is None:
                continue
            details = verdict.details
            opinion = details.get("opinion")
            totals["asked"] += opinion in ASKED
            totals["overturned"] += opinion == "same" and details["rules"] == NOT_EQUAL
            if opinion in ("divided", "refused", "over_budget"):
                totals[opinion] += 1
            for cost in ("calls", "tokens"):
                totals[cost] += int(details.get(cost, 0))
        samples = max(len(verdicts), 1)
        return {key: total / samples for key, total in totals.items()}

    def facts(self) -> dict[str, str]:
        return {**self.rules.facts(), **self.llm.facts()}

    def close(self) -> None:
        """Close the rules and the client of the judge, even if closing the rules raises."""
        with ExitStack() as stack:
            stack.callback(self.rules.close)
            stack.callback(self.llm.close)


def _decided(ruled: Verdict, opinion: Opinion) -> Verdict:
    """Combine the rules' verdict with the judge's opinion."""
    details = {**ruled.details, "rules": ruled.reason, **opinion.details}
    ruled = replace(ruled, seconds=ruled.seconds + opinion.seconds)
    if opinion.said == "over_budget":
        return replace(ruled, reason="over_judge_budget", details=details)
    if opinion.said == "failed":
        failed = grader_error(opinion.reason, seconds=ruled.seconds)
        return replace(failed, answer=ruled.answer, details=details)
    if opinion.said == "same":
        verdict = _wrong(ruled, "judged_same", details)
        return replace(verdict, status=Status.CORRECT, score=1.0)
    if opinion.said == "divided":
        return _wrong(ruled, "judge_divided", details)
    if ruled.reason == NOT_EQUAL:
        return _wrong(ruled, NOT_EQUAL, details)
    return _wrong(ruled, "judged_different", details)


def _wrong(ruled: Verdict, reason: str, details: Mapping[str, str]) -> Verdict:
    return Verdict(
        status=Status.INCORRECT,
        score=0.0,
        reason=reason,
        answer=ruled.answer,
        seconds=ruled.seconds,
        details=details,
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
