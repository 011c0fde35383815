"""The required form of a judge's reply, and a strict parser of its score."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trl_grpo_ext.answers.find.thinking import after_thinking
from trl_grpo_ext.protocol import is_number

Form = Literal["score_line", "json"]
FORMS: tuple[str, ...] = get_args(Form)

MAX_LINE_CHARS = 200
_NUMBER = r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,9})?"
_SCORE_LINE = re.compile(
    r"[\s*_#`>]*score[\s\[(*_`]*([0-9a-f]{8})?[\s\])*_`]*[:=][\s*_`<]*"
    rf"({_NUMBER})(?:\s*/\s*({_NUMBER}))?[\s*_`>.]*",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n?```", re.DOTALL | re.IGNORECASE)


class ReplyError(Exception):
    """Raised for a judge's reply without a valid score; the message is the reason code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The required form and scale of a judge's score.

    The reply must repeat the request's mark beside the score. Only the judge has seen the mark, so a score copied
    from the completion does not count.

    Attributes:
        form: `score_line`, a last line with the score, or `json`, a JSON object.
        low: The worst score.
        high: The best score. It is smaller than `low` in a question for faults: there 0 of 1 is best.

    Examples:
        >>> Contract(form="score_line", low=0, high=10).read("Sound.\\nSCORE 1a2b3c4d: 7", "1a2b3c4d")
        7.0
    """

    form: Form
    low: float
    high: float

    def instruction(self, mark: str) -> str:
        """Write the judge's instruction: required reply form, scale and mark."""
        scale = f"a number from {self.low:g} (worst) to {self.high:g} (best)"
        if self.form == "json":
            return (
                "Reply with one JSON object and nothing else:\n"
                f'{{"reason": "<one or two sentences>", "mark": "{mark}", "score": <{scale}>}}'
            )
        return (
            "Give your reasons in a few sentences. Then end with this line, and nothing after it:\n"
            f"SCORE {mark}: <{scale}>"
        )

    def read(self, reply: str, mark: str) -> float:
        """Parse the score of a reply, on the judge's scale.

        Raises:
            ReplyError: for a reply without a score, with the wrong mark, or with a score off the scale.
        """
        said = after_thinking(reply)
        if said is None or not said.strip():
            raise ReplyError("judge_reply_empty")
        score = _json_score(said, mark) if self.form == "json" else self._line_score(said, mark)
        if not self.holds(score):
            raise ReplyError("judge_reply_out_of_range")
        return score

    def holds(self, score: float) -> bool:
        """Test if a score lies on the scale."""
        return min(self.low, self.high) <= score <= max(self.low, self.high)

    def _line_score(self, said: str, mark: str) -> float:
        last = said.rstrip().removesuffix("```").rstrip().rpartition("\n")[2]
        found = _SCORE_LINE.fullmatch(last) if len(last) <= MAX_LINE_CHARS else None
        if found is None or (found[3] is not None and float(found[3]) != max(self.low, self.high)):
            raise ReplyError("judge_reply_unparseable")
        if (found[1] or "").lower() != mark:
            raise ReplyError("judge_reply_wrong_mark")
        return float(found[2])


def _json_score(said: str, mark: str) -> float:
    fenced = _FENCE.fullmatch(said.strip())
    try:
        reply = json.loads(fenced[1] if fenced else said, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        raise ReplyError("judge_reply_unparseable") from None
    score = reply.get("score") if isinstance(reply, dict) else None
    if not is_number(score):
        raise ReplyError("judge_reply_unparseable")
    if str(reply.get("mark")).lower() != mark:
        raise ReplyError("judge_reply_wrong_mark")
    return float(score)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    # A repeated key could give two scores.
    if len(found) != len(pairs):
        raise ValueError("a repeated key")
    return found
