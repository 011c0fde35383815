"""A completion's conversation in the report."""

from __future__ import annotations

from typing import Any

from trl_grpo_ext.report.conversation import conversation


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def result(name: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "name": name, "content": content} | more


def test_each_call_stands_with_its_own_result_whatever_their_order() -> None:
    calls = [call("slow", x=1), call("add", a=1), call("add")]
    asked = {"role": "assistant", "content": "I look.", "tool_calls": calls}
    told = [
        result("add", "2", seconds=0.25),
        result("add", "{'error': 'no a'}"),
        result("slow", "late"),
    ]
    turns = conversation([asked, *told, {"role": "assistant", "content": "Two."}])
    assert turns[0] == {"role": "assistant", "text": "I look."}
    assert [
        (turn["call"], turn["result"], turn["failed"], turn["seconds"])
        for turn in turns[1:]
    ] == [
        ("slow", "late", False, None),
        ("add", "2", False, 0.25),
        ("add", "{'error': 'no a'}", True, None),
    ]


def test_a_call_without_a_result_is_the_last_turn() -> None:
    asked = {"role": "assistant", "content": "", "tool_calls": [call("add", a=1)]}
    (turn,) = conversation([asked])
    assert turn["result"] is None
    assert not turn["failed"]


def test_messages_that_are_not_of_a_call_are_texts_and_of_many_turns_the_last_are_shown() -> (
    None
):
    turns = conversation(
        [{"role": "user", "content": f"turn {number}"} for number in range(30)]
    )
    assert turns[0]["text"] == "[... 10 turns left out ...]"
    assert turns[-1] == {"role": "user", "text": "turn 29"}
    of_no_call = [result("add", "2"), {"role": "assistant", "content": "Two."}]
    assert conversation(of_no_call) == [{"role": "tool", "text": "2"}]
    assert conversation([]) == []
