"""A regular expression that the completion must match."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trl_grpo_ext.protocol import Verifier, check_timeout, close_workers
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.verdict import Status, Verdict


@dataclass(frozen=True, kw_only=True)
class RegexVerifier(Verifier):
    """Searches the completion, or matches all of it.

    A regular expression can take exponential time on a hostile text. So it runs in a worker process, which is
    killed after `timeout` seconds; a text that uses them up scores 0.

    Args:
        pattern: In Python's `re` syntax.
        match: `"search"` anywhere, or `"fullmatch"` of the whole completion.
        ignore_case: Whether case counts.
        dotall: Whether `.` also matches a line's end. On by default, since completions have many lines.
        timeout: Seconds a completion.
        name: The metric key. Give each of several regexes its own.

    | completion | pattern `answer: [0-9]+` | reason |
    |---|---|---|
    | `The answer: 42` | 1 | |
    | `The answer: many` | 0 | `no_match` |
    | one that the expression backtracks on for `timeout` seconds | 0 | `timeout` |

    Raises:
        ValueError: for a pattern that does not compile, or a timeout that is not above 0.

    Example:
        >>> RegexVerifier(pattern="answer: [0-9]+")(["The answer: 42", "The answer: many"])
        [1.0, 0.0]
    """

    pattern: str
    match: Literal["search", "fullmatch"] = "search"
    ignore_case: bool = False
    dotall: bool = True
    timeout: float = 5.0
    name: str | None = None

    def __post_init__(self) -> None:
        if self.match not in ("search", "fullmatch"):
            raise ValueError(f"match is 'search' or 'fullmatch', got {self.match!r}.")
        check_timeout(self.timeout)
        if not isinstance(self.pattern, str):
            raise ValueError(f"The pattern must be text, got {self.pattern!r}; in YAML, put it in quotes.")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"The pattern {self.pattern!r} is no regular expression: {error}.") from None

    def verify(self, sample: Sample) -> Verdict:
        return self.judge_samples([sample])[0]

    def close(self) -> None:
        """End this process's workers; they are started again when they are needed."""
        close_workers()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        from trl_grpo_ext.execution.workers import judge_in_workers

        flags = (re.IGNORECASE if self.ignore_case else 0) | (re.DOTALL if self.dotall else 0)
        arguments = [(self.pattern, int(flags), self.match, sample.text) for sample in samples]
        return judge_in_workers("trl_grpo_ext.rewards.regex:match_here", arguments, timeout=self.timeout)


def match_here(pattern: str, flags: int, match: str, text: str) -> dict[str, Any]:
    """Match in this process, which may take for ever. Called inside a worker."""
    found = getattr(re.compile(pattern, flags), match)(text)
    if found is None:
        return Verdict(status=Status.INCORRECT, score=0.0, reason="no_match").to_record()
    return Verdict(status=Status.CORRECT, score=1.0, answer=found.group(0)[:200]).to_record()
