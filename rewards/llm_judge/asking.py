"""Asking a judge about a batch: each distinct question once, a second time if its reply is no score.

Scores that it has given before are kept in memory and, where a folder is named, on disk.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trl_grpo_ext.answers.find.thinking import after_thinking
from trl_grpo_ext.rewards.llm_judge.endpoint import Client, EndpointError
from trl_grpo_ext.rewards.llm_judge.question import Question
from trl_grpo_ext.rewards.llm_judge.reply import ReplyError
from trl_grpo_ext.support.files import write_text
from trl_grpo_ext.support.memo import Memo
from trl_grpo_ext.support.text import Once

logger = logging.getLogger(__name__)

ASKED = 2  # times at most, with a mark of its own each
REPLY_CHARS = 500  # of a reply that are kept
FORMAT = 1  # of what the key is made of and what is asked around it; a change makes old scores useless
MAX_FILE_BYTES = 1 << 16  # of a score on disk

_once = Once()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a question, and what it cost.

    Attributes:
        outcome: The score, or the reason code why there is none.
        seconds: How long it took.
        calls: Replies of the endpoint; 0 for a score that was remembered.
        tokens: Tokens of these calls, both ways; 0 where the endpoint does not count them.
    """

    outcome: Scored | str
    seconds: float = 0.0
    calls: int = 0
    tokens: int = 0


def request_key(question: Question, *, base_url: str, body: Mapping[str, Any]) -> str:
    """A key that two requests share if nothing but their mark differs."""
    asked = {"format": FORMAT, "base_url": base_url, "messages": question.messages(""), **body}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


async def ask_all(
    client: Client, questions: Sequence[Question], *, body: Mapping[str, Any], timeout: float, late: str
) -> list[Reply]:
    """The replies to several questions, in order, in bounded time.

    Args:
        client: The endpoint's.
        questions: What to ask.
        body: The request but for its messages.
        timeout: Seconds for all of them. A question that has no reply by then is given up.
        late: The reason that it gets.
    """
    tasks = [asyncio.create_task(_ask(client, question, body)) for question in questions]
    try:
        _, pending = await asyncio.wait(tasks, timeout=timeout)
    finally:
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    given_up = Reply(outcome=late, seconds=timeout)
    return [given_up if task in pending else _result(task) for task in tasks]


def _result(task: asyncio.Task[Reply]) -> Reply:
    error = task.exception()
    return task.result() if error is None else Reply(outcome=f"raised_{type(error).__name__}")


async def _ask(client: Client, question: Question, body: Mapping[str, Any]) -> Reply:
    started = time.monotonic()
    outcome: Scored | str = ""
    calls = tokens = 0
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
    return Reply(outcome=outcome, seconds=time.monotonic() - started, calls=calls, tokens=tokens)


def _outcome(completion: Any, question: Question, mark: str) -> Scored | str:
    try:
        reply = reply_text(completion)
        return Scored(question.contract.read(reply, mark), excerpt(reply))
    except ReplyError as error:
        return str(error)


def tokens_used(completion: Any) -> int:
    """The tokens that a call took, its prompt included; 0 if the endpoint does not say."""
    total = getattr(getattr(completion, "usage", None), "total_tokens", None)
    return total if isinstance(total, int) and total > 0 else 0


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


@dataclass(frozen=True, slots=True)
class Scored:
    """What a judge gave.

    Attributes:
        score: On the judge's scale.
        reply: How the reply began or ended, for the log.
    """

    score: float
    reply: str


class ScoreCache:
    """Scores by a key that stands for all that they depend on. Safe to use from several threads.

    The one in memory holds the `size` scores that were used last. The one on disk grows without bound; a score is a
    file that is put in place in one step, so that several processes, also on a network drive, may share a folder. What
    cannot be read is a miss, and what cannot be written is not kept.

    Args:
        size: Scores to hold in memory; 0 for none.
        folder: Where to keep them on disk; None for nowhere.

    Examples:
        >>> cache = ScoreCache(size=1)
        >>> cache.put("a", Scored(7.0, "Fine."))
        >>> cache.get("a").score, cache.get("b")
        (7.0, None)
    """

    def __init__(self, size: int, folder: str | None = None) -> None:
        self._folder = Path(folder) if folder else None
        self._memory: Memo[str, Scored] = Memo(size)

    def get(self, key: str) -> Scored | None:
        """The score that was put under this key, or None."""
        found = self._memory.get(key)
        if found is None and (found := self._read(key)) is not None:
            self._memory.put(key, found)
        return found

    def put(self, key: str, scored: Scored) -> None:
        """Remember a score."""
        self._memory.put(key, scored)
        if self._folder is not None:
            try:
                path = self._path(self._folder, key)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, json.dumps(asdict(scored)))
            except OSError as error:
                message = "A judge's scores cannot be kept in %s (%s)."
                _once.warn(logger, (self._folder, type(error)), message, self._folder, type(error).__name__)

    def _path(self, folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Scored | None:
        if self._folder is None:
            return None
        try:
            with open(self._path(self._folder, key), encoding="utf-8") as file:
                record = json.loads(file.read(MAX_FILE_BYTES))
            score = float(record["score"])
            return Scored(score, str(record["reply"])) if math.isfinite(score) else None
        except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None


@functools.cache
def shared_cache(size: int, folder: str | None) -> ScoreCache:
    """This process's cache of that size and folder. A forked child makes its own."""
    return ScoreCache(size, folder)


os.register_at_fork(after_in_child=shared_cache.cache_clear)  # its lock may be held by a thread that is not here
