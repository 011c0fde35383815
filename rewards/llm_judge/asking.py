"""Send batched judge questions, each at most twice, and cache valid scores in memory.

A question is sent a second time if the first reply has no valid score.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.answers.find.final_answer import after_thinking
from trl_grpo_ext.rewards.llm_judge.endpoint import Client, EndpointError
from trl_grpo_ext.rewards.llm_judge.question import Question
from trl_grpo_ext.rewards.llm_judge.reply import ReplyError
from trl_grpo_ext.support.memo import Memo

# The most requests per question; each request has a fresh mark.
ASKED = 2
# The most characters of a reply that are kept.
REPLY_CHARS = 500
# The most scores that a process remembers.
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A question's outcome and cost.

    Attributes:
        outcome: The score, or the reason code of a failure.
        seconds: Time from sending to the reply; 0 for a cached score.
        calls: Number of replies from the endpoint; 0 for a cached score.
        tokens: Prompt and reply tokens of these calls; 0 if the endpoint does not report tokens.
    """

    outcome: Scored | str
    seconds: float = 0.0
    calls: int = 0
    tokens: int = 0


def request_key(question: Question, *, base_url: str, body: Mapping[str, Any]) -> str:
    """Hash a request without its random mark, as the key of its cached score."""
    asked = {"base_url": base_url, "messages": question.messages(""), **body}
    text = json.dumps(asked, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


async def ask_all(
    client: Client,
    questions: Sequence[Question],
    *,
    body: Mapping[str, Any],
    timeout: float,
    late: str,
) -> list[Reply]:
    """Send questions concurrently, and return the replies in order, within a time limit.

    Args:
        client: The client of the endpoint.
        questions: The questions to send.
        body: The request without its messages.
        timeout: Time limit for all questions together, in seconds; questions without a reply by then are cancelled.
        late: The reason code of cancelled questions.
    """
    tasks = [asyncio.create_task(_ask(client, question, body)) for question in questions]
    try:
        _, pending = await asyncio.wait(tasks, timeout=timeout)
    finally:
        # Also if this task is cancelled while it waits.
        for task in tasks:
            task.cancel()
    # Wait until the cancelled tasks have ended; asyncio would log exceptions that nobody has taken.
    await asyncio.gather(*tasks, return_exceptions=True)
    replies = []
    for task in tasks:
        if task in pending:
            replies.append(Reply(outcome=late, seconds=timeout))
        else:
            replies.append(_result(task))
    return replies


def _result(task: asyncio.Task[Reply]) -> Reply:
    error = task.exception()
    if error is not None:
        return Reply(outcome=f"raised_{type(error).__name__}")
    return task.result()


async def _ask(client: Client, question: Question, body: Mapping[str, Any]) -> Reply:
    started = time.monotonic()
    outcome: Scored | str = ""
    calls = 0
    tokens = 0
    while calls < ASKED and isinstance(outcome, str):
        mark = question.fresh_mark()
        try:
            completion = await client.chat({**body, "messages": question.messages(mark)})
        except EndpointError as error:
            outcome = error.reason
            break
        calls += 1
        tokens += tokens_used(completion)
        outcome = _outcome(completion, question, mark)
    return Reply(
        outcome=outcome,
        seconds=time.monotonic() - started,
        calls=calls,
        tokens=tokens,
    )


def _outcome(completion: Any, question: Question, mark: str) -> Scored | str:
    try:
        reply = reply_text(completion)
        score = question.contract.read(reply, mark)
    except ReplyError as error:
        return str(error)
    return Scored(score, excerpt(reply))


def tokens_used(completion: Any) -> int:
    """Read a call's total tokens, prompt included; 0 if the endpoint does not report tokens."""
    usage = getattr(completion, "usage", None)
    total = getattr(usage, "total_tokens", None)
    if isinstance(total, int) and total > 0:
        return total
    return 0


def reply_text(completion: Any) -> str:
    """Return the text of the judge's reply.

    Raises:
        ReplyError: if the reply is empty, or was cut short or filtered: its last line may then not be its conclusion.
    """
    try:
        choice = completion.choices[0]
        ended = choice.finish_reason
        said = choice.message.content
    except (AttributeError, LookupError, TypeError):
        # The client does not validate replies.
        raise ReplyError("judge_reply_malformed") from None
    if ended == "length":
        raise ReplyError("judge_reply_cut")
    if ended == "content_filter":
        raise ReplyError("judge_reply_filtered")
    if not isinstance(said, str) or not said.strip():
        raise ReplyError("judge_reply_empty")
    return said


def excerpt(reply: str) -> str:
    """Return the first `REPLY_CHARS` characters of a judge's reply, without its thinking."""
    said = (after_thinking(reply) or "").strip()
    if len(said) <= REPLY_CHARS:
        return said
    return said[:REPLY_CHARS] + " ..."


@dataclass(frozen=True, slots=True)
class Scored:
    """A judge's score.

    Attributes:
        score: The score on the judge's scale.
        reply: The beginning of the reply, for the log.
    """

    score: float
    reply: str


@functools.cache
def remembered_scores() -> Memo[str, Scored]:
    """Return this process's scores by `request_key`; a forked child begins without any."""
    return Memo(REMEMBERED)


# A forked child lacks the parent's threads, one of which may have held the lock of an inherited cache.
os.register_at_fork(after_in_child=remembered_scores.cache_clear)
