"""A completion's conversation for the page: messages, and tool calls with their results."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from trl_grpo_ext.report.page import DIGITS, bounded, rounded
from trl_grpo_ext.report.prompts import LONGEST_MESSAGE, MOST_MESSAGES, prompt_messages
from trl_grpo_ext.rewards.tool_calls import has_failed
from trl_grpo_ext.sample import Message
from trl_grpo_ext.support.files import plain

# Longest arguments or result of a tool call, in characters.
LONGEST_RESULT = 4_000


def conversation(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """List the turns before the final answer, the completion's text; all turns if the last turn is a tool call.

    A turn is a text with its role, or a tool call: name, arguments, result, failure flag, and time in seconds.

    Examples:
        >>> call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
        >>> asked, told = {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "name": "add", "content": "2"}
        >>> conversation([asked, told, {"role": "assistant", "content": "It is 2."}])
        [{'call': 'add', 'arguments': '{"a": 1}', 'result': '2', 'failed': False, 'seconds': None}]
    """
    if messages and _is_answer(messages[-1]):
        messages = messages[:-1]
    turns = list(_turns(messages))
    left_out = len(turns) - MOST_MESSAGES
    if left_out > 0:
        note = {"role": "", "text": f"[... {left_out} turns left out ...]"}
        turns = [note, *turns[left_out:]]
    return turns


def _is_answer(message: Message) -> bool:
    return message.get("role") == "assistant" and not message.get("tool_calls")


def _turns(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    rest = deque(messages)
    while rest:
        message = rest.popleft()
        calls = message.get("tool_calls") or ()
        text = _text({**message, "tool_calls": None})
        if text.strip() or not calls:
            role = str(message.get("role", ""))
            yield {"role": role, "text": bounded(text, LONGEST_MESSAGE)}
        results = []
        while calls and rest and rest[0].get("role") == "tool":
            results.append(rest.popleft())
        for call in calls:
            yield _call(call.get("function") or call, results)
        # Results without a matching call are shown as messages.
        for result in results:
            yield {"role": "tool", "text": bounded(_text(result), LONGEST_MESSAGE)}


def _text(message: Message) -> str:
    if message.get("content") is None:
        return ""
    [[_, text]] = prompt_messages([message])
    return text


def _call(function: Message, results: list[Message]) -> dict[str, Any]:
    """Describe a tool call with its result: the first unused result with the tool's name."""
    name = str(function.get("name"))
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(plain(arguments, DIGITS), ensure_ascii=False)
    call: dict[str, Any] = {
        "call": name,
        "arguments": bounded(arguments, LONGEST_RESULT),
        "result": None,
        "failed": False,
        "seconds": None,
    }
    for result in results:
        if result.get("name") == name:
            results.remove(result)
            call["result"] = bounded(_text(result), LONGEST_RESULT)
            call["failed"] = has_failed(result)
            call["seconds"] = rounded(result.get("seconds"))
            break
    return call
