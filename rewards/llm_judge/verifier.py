"""Verify completions with an LLM judge and a rubric."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from trl_grpo_ext.answers.find.final_answer import after_thinking
from trl_grpo_ext.answers.verdicts import graded, unreadable
from trl_grpo_ext.protocol import BatchVerifier, DataProblem, problems_of
from trl_grpo_ext.rewards.llm_judge import config_checks
from trl_grpo_ext.rewards.llm_judge.asking import (
    Reply,
    Scored,
    ask_all,
    remembered_scores,
    request_key,
)
from trl_grpo_ext.rewards.llm_judge.endpoint import (
    Endpoint,
    EndpointError,
    close_client,
    shared_client,
)
from trl_grpo_ext.rewards.llm_judge.question import (
    JudgePrompt,
    Question,
    QuestionError,
    harmless,
)
from trl_grpo_ext.rewards.llm_judge.reply import Contract
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.budget import BUDGET_SPENT, seconds_left
from trl_grpo_ext.support.setting_checks import check_number, check_whole
from trl_grpo_ext.verdict import Verdict, grader_error, skipped

# The best score on the judge's scale, which begins at 0.
BEST = 10.0
# What a request has unless `extra_body` says otherwise; null there sends no such field.
REQUEST = {"temperature": 0.0, "max_tokens": 1024}
ADVICE = {
    "gold_missing": "Drop the row, or name the right column: column=...",
    "column_missing": "Drop the row, or take the column out of the judge's prompt.",
    "column_unreadable": "Drop the row, or mend the place in the judge's prompt.",
}


@dataclass(frozen=True, kw_only=True)
class LlmJudgeVerifier(BatchVerifier):
    """Asks a model behind an OpenAI-compatible endpoint (vLLM, TGI, llama.cpp, OpenAI) to grade by a rubric.

    Use it if no rule can check the task, and never alone: **a judge can be fooled.** A policy under RL finds texts that
    the judge likes, regardless of their worth. Start with weight 0, compare the judge with human verdicts, and then
    gate it by a verifier: docs/llm_judge.md.

    The judge reads the completion without its thinking, between random marks drawn for each request, without special
    tokens and hidden characters, and with the middle of a long text left out. The judge must repeat the mark beside its
    score, so a score copied from the completion does not count. Every failure is the grader's fault: the sample has no
    score, and does not train as a 0.

    A background thread sends the requests, up to `concurrency` at a time in each process (each rank has its own). Equal
    requests are sent once. After five consecutive failures the endpoint rests for half a minute, so a dead endpoint
    costs a batch about one `timeout`.

    Args:
        model: The judge's name at the endpoint. Do not use the policy itself: a model likes its own errors.
        base_url: The endpoint, such as `http://localhost:8000/v1`. Prompts and completions are sent there.
        api_key_env: The name of the environment variable with the key; by default no key is sent.
        rubric: The criteria of a good response, on a scale from 0 to 10. By default: correct, complete, in the
            requested form.
        prompt: A template of the judge's prompt, in place of the default, with `{question}`, `{answer}` (the
            completion), `{gold}`, `{rubric}`, and dataset columns. Grading rules and reply form are added to it.
        column: The column of a reference answer, shown to the judge as `{gold}`; by default none is shown.
        pass_mark: The lowest passing score, above 0 and up to 10: from it on the score is 1, below it 0. By default
            the scale is mapped linearly to [0, 1].
        extra_body: More fields for each request, such as `{"chat_template_kwargs": {"enable_thinking": false}}`. By
            default `temperature` is 0 and `max_tokens`, thinking included, 1024; None sends no such field.
        timeout: Time limit for a reply from the sending of its request, retries included, in seconds.
        batch_timeout: Time limit for a batch in seconds, at least `timeout`; samples without a reply by then have no
            score. Keep it below the time after which other ranks stop waiting.
        concurrency: The most concurrent requests. A request that was refused temporarily (429, 5xx), or reached no
            server, is sent twice more, after a growing pause or the pause that the endpoint requests.
        name: The metric key.

    | completion | judge | verdict | reason |
    |---|---|---|---|
    | `<think>...</think>Because ...` | 10 of 10 | CORRECT, 1 | |
    | the same | 7 of 10 | PARTIAL, 0.7 | |
    | the same, `pass_mark=8` | 7 of 10 | INCORRECT, 0 | `below_pass_mark` |
    | the same | 0 of 10 | INCORRECT, 0 | |
    | `<think>...` | not asked | UNPARSEABLE, 0 | `unclosed_think` |
    | `<think>...</think>` and nothing | not asked | UNPARSEABLE, 0 | `no_answer` |
    | any | no score, a score off the scale, twice | ERROR, none | `judge_reply_unparseable`, `_out_of_range` |
    | any | a score without the mark, twice | ERROR, none | `judge_reply_wrong_mark` |
    | any | cut short, filtered or empty, twice | ERROR, none | `judge_reply_cut`, `_filtered`, `_empty` |
    | any | fails | ERROR, none | `judge_http_500`, `judge_timeout`, `judge_unreachable`, `judge_malformed` |
    | any | not asked, the endpoint rests after failures | ERROR, none | `judge_endpoint_down` |
    | any | not in time for the batch | ERROR, none | `judge_batch_timeout` |
    | any, the row has no gold | not asked | SKIPPED, none | `gold_missing` |
    | any, the row lacks another text | not asked | SKIPPED, none | `column_missing`, `question_missing` |

    Raises:
        ValueError: for an invalid setting, a key missing from the environment, or if `openai` is not installed.

    Examples:
        >>> judge = LlmJudgeVerifier(model="judge", base_url="http://localhost:8000/v1", rubric="It is polite.")
        >>> judge.judge(["<think>How to be polite?"])[0].reason
        'unclosed_think'
    """

    model: str
    base_url: str
    api_key_env: str | None = None
    rubric: str | None = None
    prompt: str | None = None
    column: str | None = None
    pass_mark: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict, hash=False)
    timeout: float = 60.0
    batch_timeout: float = 300.0
    concurrency: int = 16
    name: str | None = None

    def __post_init__(self) -> None:
        config_checks.check_installed()
        if not isinstance(self.model, str) or not self.model:
            raise ValueError(
                f"model is the name of the judging model, as its endpoint knows it; got {self.model!r}."
            )
        object.__setattr__(self, "base_url", config_checks.check_base_url(self.base_url))
        config_checks.check_api_key_env(self.api_key_env)
        if self.pass_mark is not None:
            check_number(
                "pass_mark",
                self.pass_mark,
                "the least score that passes",
                above=0,
                most=BEST,
            )
        config_checks.check_extra_body(self.extra_body)
        check_whole("concurrency", self.concurrency, least=1)
        # The client takes no infinite timeout.
        check_number("timeout", self.timeout, "a number of seconds", above=0, below=1e9)
        check_number(
            "batch_timeout", self.batch_timeout, "a number of seconds", above=0, below=1e9
        )
        if self.batch_timeout < self.timeout:
            raise ValueError(
                f"batch_timeout ({self.batch_timeout:g} s) is below timeout ({self.timeout:g} s), so that a reply in "
                f"time would come too late. Raise the one or lower the other."
            )
        # Raises a ValueError for an invalid template.
        self._prompt()

    def check_columns(self, columns: Collection[str]) -> None:
        self._prompt().check(columns, verifier=self.__name__)

    def check_rows(
        self, rows: Sequence[Mapping[str, Any]], *, thorough: bool = False
    ) -> list[DataProblem]:
        """List the rows that lack a gold or column of the judge's prompt."""
        prompt = self._prompt()
        reasons = []
        values = []
        for row in rows:
            reasons.append(prompt.row_problem(row))
            values.append({column: row.get(column) for column in prompt.row_columns})
        return problems_of(reasons, values, ADVICE)

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        ask_about = partial(self._question, self._prompt())
        return self.judge_questions(samples, ask_about, self._verdicts)

    def metrics(self, verdicts: Sequence[Verdict | None]) -> dict[str, float]:
        """Compute `cached`, the share of verdicts from a cached score."""
        cached = sum(
            verdict is not None and verdict.details.get("cached") == "yes"
            for verdict in verdicts
        )
        return {"cached": cached / max(len(verdicts), 1)}

    def facts(self) -> dict[str, str]:
        return {"judge": f"{self.model} at {self.base_url}"}

    def close(self) -> None:
        """Cancel pending requests, and close the connections; the next use opens new connections."""
        close_client(self._endpoint)

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            timeout=self.timeout,
            concurrency=self.concurrency,
        )

    @property
    def _body(self) -> dict[str, Any]:
        # None sends no such field, for endpoints that refuse it.
        fields = {**REQUEST, **self.extra_body}
        sent = {key: value for key, value in fields.items() if value is not None}
        return {"model": self.model, "extra_body": sent}

    def _prompt(self) -> JudgePrompt:
        return JudgePrompt.parse(self.prompt, rubric=self.rubric, column=self.column)

    def _key(self, question: Question) -> str:
        return request_key(question, base_url=self.base_url, body=self._body)

    def _question(self, prompt: JudgePrompt, sample: Sample) -> Verdict | Question:
        """Write the judge question for a sample; a verdict instead if no question is needed."""
        answer = after_thinking((sample.prefill or "") + sample.text)
        if answer is None:
            return unreadable("unclosed_think")
        # Invisible characters alone are no answer.
        if not harmless(answer).strip():
            return unreadable("no_answer")
        contract = Contract(low=0, high=BEST)
        try:
            return prompt.question(
                sample.row,
                prompt=sample.prompt,
                answer=answer.strip(),
                contract=contract,
            )
        except QuestionError as error:
            return skipped(str(error))

    def _verdicts(self, questions: Sequence[Question]) -> list[Verdict]:
        """Ask distinct questions, and return a verdict for each question, duplicates included."""
        # Equal completions to a prompt are equal questions.
        distinct = list(dict.fromkeys(questions))
        replies = self.guarded(self.ask, distinct)
        if isinstance(replies, Verdict):
            return [replies] * len(questions)
        replied = dict(zip(distinct, replies, strict=True))
        return [self._verdict(question, replied[question]) for question in questions]

    def ask(
        self, questions: Sequence[Question], *, seconds: float | None = None
    ) -> list[Reply]:
        """Get the replies to distinct questions; only questions without a cached score are sent.

        Args:
            questions: Distinct questions.
            seconds: Time limit for all questions together; by default `batch_timeout`.
        """
        replies: dict[Question, Reply] = {}
        for question in questions:
            scored = self.remembered(question)
            if scored is not None:
                replies[question] = Reply(outcome=scored)
        new = [question for question in questions if question not in replies]
        limit = self.batch_timeout if seconds is None else seconds
        for question, reply in zip(new, self._replies(new, limit), strict=True):
            # A failure is not remembered: the endpoint may answer next time.
            if isinstance(reply.outcome, Scored):
                remembered_scores().put(self._key(question), reply.outcome)
            replies[question] = reply
        return [replies[question] for question in questions]

    def remembered(self, question: Question) -> Scored | None:
        """Return the cached score of a question, or None."""
        return remembered_scores().get(self._key(question))

    def _replies(self, questions: Sequence[Question], seconds: float) -> list[Reply]:
        if not questions:
            return []
        started = time.monotonic()
        timeout = seconds
        late = "judge_batch_timeout"
        # The whole batch may have less time left than this judge.
        left = seconds_left()
        if left < seconds:
            timeout = left
            late = BUDGET_SPENT
        client = shared_client(self._endpoint)
        ask = partial(
            ask_all,
            client,
            questions,
            body=self._body,
            timeout=timeout,
            late=late,
        )
        try:
            return client.run(ask)
        except EndpointError as error:
            failed = Reply(outcome=error.reason, seconds=time.monotonic() - started)
            return [failed] * len(questions)

    def _verdict(self, question: Question, reply: Reply) -> Verdict:
        if isinstance(reply.outcome, str):
            return grader_error(reply.outcome, seconds=reply.seconds)
        judged = reply.outcome.score
        details = {
            "judge": self.model,
            "judged": f"{judged:g}",
            "reply": reply.outcome.reply,
        }
        if not reply.calls:
            details["cached"] = "yes"
        if question.is_shortened:
            details["shortened"] = "yes"
        if self.pass_mark is None:
            verdict = graded(judged / BEST, details=details)
        elif judged >= self.pass_mark:
            verdict = graded(1.0, details=details)
        else:
            verdict = graded(0.0, reason="below_pass_mark", details=details)
        return replace(verdict, seconds=reply.seconds)
