"""Tool calls: parsing, success, number, required tools, and answers copied from a tool."""

from __future__ import annotations

from typing import Any

import pytest

from trl_grpo_ext.rewards import ToolCallsVerifier, tool_calls_reward


def turn(name: str, result: str) -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": name, "arguments": {}}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": name, "content": result},
    ]


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


ADD, FAILED = turn("add", "42"), turn("add", "{'error': 'no \"server\"'}")

CASES = [
    ({}, [*ADD, said("It is 42.")], ""),
    ({}, [said("It is 42.")], ""),
    ({}, [*ADD, said('<tool_call>{"name": ')], "unparsed_call"),
    ({}, [said('<tool_call>{"name": ')], "unparsed_call"),
    ({"marker": "[CALL]"}, [said("[CALL] add")], "unparsed_call"),
    ({}, [*FAILED, said("I do not know.")], "failed_call"),
    ({}, [*turn("add", "{'error': \"it's down\"}"), said("?")], "failed_call"),
    ({"failed": 1}, [*FAILED, *ADD, said("42!")], ""),
    ({"failed": None}, [*FAILED, *FAILED, said("?")], ""),
    ({"at_most": 1}, [*ADD, *ADD, said("42!")], "too_many_calls"),
    ({"at_most": 0}, [said("42!")], ""),
    ({"must_use": ["add"]}, [*ADD, said("42!")], ""),
    ({"must_use": ["add"]}, [said("42!")], "tool_not_used"),
    ({"must_use": ["add"], "failed": None}, [*FAILED, said("42!")], "tool_not_used"),
    ({"own_answer": True}, [*ADD, said("It is 42.")], ""),
    ({"own_answer": True}, [*ADD, said(" 42\n")], "copied_result"),
    ({"own_answer": True}, ADD, "no_answer"),
]


@pytest.mark.parametrize(("settings", "completion", "reason"), CASES)
def test_a_completion_is_right_or_wrong_by_the_first_fault(
    settings: Any, completion: Any, reason: str
) -> None:
    (verdict,) = ToolCallsVerifier(**settings).judge([completion])
    assert (verdict.score, verdict.reason) == (0.0 if reason else 1.0, reason)


@pytest.mark.parametrize(
    "settings", [{"failed": -1}, {"at_most": 1.5}, {"must_use": "add"}, {"marker": ""}]
)
def test_settings_that_cannot_be_are_refused(settings: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        ToolCallsVerifier(**settings)


def test_a_text_without_messages_has_no_calls() -> None:
    assert tool_calls_reward(["It is 42.", ""]) == [1.0, 1.0]
