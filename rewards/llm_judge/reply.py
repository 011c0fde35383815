"""The required form of a judge's reply, and a strict parser of its score."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trl_grpo_ext.answers.find.thinking import after_thinking

MAX_LINE_CHARS = 200
_NUMBER = r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,9})?"
_SCORE_LINE = re.compile(
    r"[\s*_#`>]*score[\s\[(*_`]*([0-9a-f]{8})?[\s\])*_`]*[:=][\s*_`<]*"
    rf"({_NUMBER})(?:\s*/\s*({_NUMBER}))?[\s*_`>.]*",
    re.IGNORECASE,
)


class ReplyError(Exception):
    """Raised for a judge's reply without a valid score; the message is the reason code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The required form and scale of a judge's score.

    The reply must repeat the request's mark beside the score. Only the judge has seen the mark, so a score copied
    from the completion does not count.

    Attributes:
        low: The worst score.
        high: The best score. It is smaller than `low` in a question for faults: there 0 of 1 is best.

    Examples:
        >>> Contract(low=0, high=10).read("Sound.\\nSCORE 1a2b3c4d: 7", "1a2b3c4d")
        7.0
    """

    low: float
    high: float

    def instruction(self, mark: str) -> str:
        """Write the judge's instruction: required reply form, scale and mark."""
        scale = f"a number from {self.low:g} (worst) to {self.high:g} (best)"
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
        score = self._line_score(said, mark)
        lowest = min(self.low, self.high)
        highest = max(self.low, self.high)
        if not lowest <= score <= highest:
            raise ReplyError("judge_reply_out_of_range")
        return score

    def _line_score(self, said: str, mark: str) -> float:
        # The whole reply may stand in a fence.
        conclusion = said.rstrip().removesuffix("```").rstrip()
        _, _, last_line = conclusion.rpartition("\n")
        found = None
        if len(last_line) <= MAX_LINE_CHARS:
            found = _SCORE_LINE.fullmatch(last_line)
        if found is None:
            raise ReplyError("judge_reply_unparseable")
        said_mark, score, out_of = found.groups()
        # `7/10` on a scale to 10; 7 of 9 is another scale.
        if out_of is not None and float(out_of) != max(self.low, self.high):
            raise ReplyError("judge_reply_unparseable")
        if (said_mark or "").lower() != mark:
            raise ReplyError("judge_reply_wrong_mark")
        return float(score)
