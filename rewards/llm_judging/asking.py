"""Asking a judge about a batch: each distinct question once, a second time if its reply is no score."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl_grpo_ext.rewards.answers.said import after_thinking
from trl_grpo_ext.rewards.llm_judging.breaker import EndpointError
from trl_grpo_ext.rewards.llm_judging.cache import Scored
from trl_grpo_ext.rewards.llm_judging.endpoint import Client
from trl_grpo_ext.rewards.llm_judging.question import Question
from trl_grpo_ext.rewards.llm_judging.reply import ReplyError

ASKED = 2  # times at most, with a mark of its own each
REPLY_CHARS = 500  # of a reply that are kept
FORMAT = 1  # of what the key is made of and what is asked around it; a change makes old scores useless


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A question that got no score, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a question, and how long it took."""

    outcome: Scored | Failure
    seconds: float = 0.0


def request_key(question: Question, *, base_url: str, body: Mapping[str, Any]) -> str:
    """A key that two requests share if nothing but their mark differs."""
    asked = {"format": FORMAT, "base_url": base_url, "messages": question.messages(""), **body}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


async def ask_all(
    client: Client, questions: Sequence[Question], *, body: Mapping[str, Any], timeout: float
) -> list[Reply]:
    """The replies to several questions, in order, in bounded time.

    Args:
        client: The endpoint's.
        questions: What to ask.
        body: The request but for its messages.
        timeout: Seconds for all of them. A question that has no reply by then is given up.
    """
    tasks = [asyncio.create_task(_ask(client, question, body)) for question in questions]
    try:
        _, pending = await asyncio.wait(tasks, timeout=timeout)
    finally:
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    late = Reply(outcome=Failure(reason="judge_batch_timeout"), seconds=timeout)
    return [late if task in pending else _result(task) for task in tasks]


def _result(task: asyncio.Task[Reply]) -> Reply:
    error = task.exception()
    return task.result() if error is None else Reply(outcome=Failure(reason=f"raised_{type(error).__name__}"))


async def _ask(client: Client, question: Question, body: Mapping[str, Any]) -> Reply:
    started = time.monotonic()
    try:
        outcome = await _score(client, question, body)
    except EndpointError as error:
        outcome = Failure(reason=error.reason)
    return Reply(outcome=outcome, seconds=time.monotonic() - started)


async def _score(client: Client, question: Question, body: Mapping[str, Any]) -> Scored | Failure:
    reason = ""
    for _ in range(ASKED):
        mark = question.fresh_mark()
        completion = await client.chat({**body, "messages": question.messages(mark)})
        try:
            reply = reply_text(completion)
            return Scored(question.contract.read(reply, mark), excerpt(reply))
        except ReplyError as error:
            reason = str(error)
    return Failure(reason=reason)


def reply_text(completion: Any) -> str:
    """What the judge said.

    Raises:
        ReplyError: if it said nothing, was cut short, or was stopped by a filter; its last line would not be its last
            word.
    """
    try:
        choice = completion.choices[0]
        ended, said = choice.finish_reason, choice.message.content
    except (AttributeError, LookupError, TypeError):  # the client checks nothing
        raise ReplyError("judge_reply_malformed") from None
    if ended == "length":
        raise ReplyError("judge_reply_cut")
    if ended == "content_filter":
        raise ReplyError("judge_reply_filtered")
    if not isinstance(said, str) or not said.strip():
        raise ReplyError("judge_reply_empty")
    return said


def excerpt(reply: str) -> str:
    """The beginning of what a judge said, after its thinking."""
    said = (after_thinking(reply) or "").strip()
    return said if len(said) <= REPLY_CHARS else said[:REPLY_CHARS] + " ..."
