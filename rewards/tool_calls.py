"""Reward correct tool calls, judged by the messages of a completion, regardless of the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trl_grpo_ext.protocol import Verifier
from trl_grpo_ext.sample import Message, Sample, content_text
from trl_grpo_ext.support.setting_checks import check_whole
from trl_grpo_ext.verdict import Status, Verdict

# TRL's own error for a call of a tool that is not there.
UNKNOWN_TOOL = "Tool {} not found."
# The text with which TRL reports a failed call to the model.
_ERROR = re.compile(r"\{'error': (['\"]).*\1\}", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ToolCallsVerifier(Verifier):
    """Checks that tool calls parse and succeed, and meet further optional conditions.

    The answer is not judged: a model with good calls and a wrong answer gets full score. Give the term a small weight,
    or gate it on the answer.

    Args:
        failed: The most calls that may fail; None for any number. A call fails if the tool does not exist, raises or
            hangs.
        at_most: The most calls; None for any number.
        must_use: Tools that must each be called successfully at least once.
        own_answer: Require a nonempty answer that is not a copy of a call's result.
        marker: The text with which the model's template begins a call. In an assistant message, the marker reveals a
            call that could not be parsed.
        name: The metric key.

    | completion | verdict | reason |
    |---|---|---|
    | calls that parse and succeed; none at all | CORRECT, 1 | |
    | a call that stays in the text | INCORRECT, 0 | `unparsed_call` |
    | more than `failed` calls that failed | INCORRECT, 0 | `failed_call` |
    | more than `at_most` calls | INCORRECT, 0 | `too_many_calls` |
    | a tool of `must_use` was not called, or failed each time | INCORRECT, 0 | `tool_not_used` |
    | no answer, with `own_answer` | INCORRECT, 0 | `no_answer` |
    | an answer that is the result of a call, with `own_answer` | INCORRECT, 0 | `copied_result` |

    Raises:
        ValueError: for a number below 0, a text instead of a list of tools, or an empty marker.

    Examples:
        >>> call = {"type": "function", "function": {"name": "add", "arguments": {"a": 40, "b": 2}}}
        >>> said = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "name": "add", "content": "42"}]
        >>> ToolCallsVerifier(must_use=["add"])([[*said, {"role": "assistant", "content": "It is 42."}], "It is 42."])
        [1.0, 0.0]
    """

    failed: int | None = 0
    at_most: int | None = None
    must_use: Sequence[str] = ()
    own_answer: bool = False
    marker: str = "<tool_call>"
    name: str | None = None

    def __post_init__(self) -> None:
        for name in ("failed", "at_most"):
            number = getattr(self, name)
            if number is not None:
                check_whole(
                    name, number, "a number of calls, or None for any number", least=0
                )
        if isinstance(self.must_use, str):
            raise ValueError(
                f"must_use is a list of tools, got {self.must_use!r}; write [{self.must_use!r}]."
            )
        if not self.marker:
            raise ValueError(
                "marker is the text with which a call begins, such as <tool_call>; got an empty one."
            )

    def verify(self, sample: Sample) -> Verdict:
        reason = next(self._faults(sample), None)
        if reason is None:
            return Verdict(status=Status.CORRECT, score=1.0)
        return Verdict(status=Status.INCORRECT, score=0.0, reason=reason)

    def _faults(self, sample: Sample) -> Iterator[str]:
        # A plain text completion has no messages, and so no calls.
        messages = sample.messages or ()
        results = [message for message in messages if message["role"] == "tool"]
        assistant = [message for message in messages if message["role"] == "assistant"]
        texts = [content_text(message.get("content")) for message in assistant]
        if any(self.marker in text for text in (*texts, sample.text)):
            yield "unparsed_call"
        used = set()
        failures = 0
        for result in results:
            if has_failed(result):
                failures += 1
            else:
                used.add(result.get("name"))
        if self.failed is not None and failures > self.failed:
            yield "failed_call"
        calls = sum(len(message.get("tool_calls") or ()) for message in messages)
        if self.at_most is not None and calls > self.at_most:
            yield "too_many_calls"
        if not used.issuperset(self.must_use):
            yield "tool_not_used"
        if self.own_answer:
            answer = sample.text.strip()
            if not answer:
                yield "no_answer"
            returned = [content_text(message.get("content")).strip() for message in results]
            if answer in returned:
                yield "copied_result"


def has_failed(result: Message) -> bool:
    """Detect TRL's error text in a tool message.

    Examples:
        >>> has_failed({"role": "tool", "name": "add", "content": "{'error': 'no server'}"})
        True
    """
    return _ERROR.fullmatch(content_text(result.get("content"))) is not None


tool_calls_reward = ToolCallsVerifier(name="tool_calls_reward")
"""`ToolCallsVerifier` with its defaults, ready for a list of reward functions or for `trl grpo --reward_funcs`."""
