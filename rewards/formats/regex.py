"""Verify a completion by a regular expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from trl_grpo_ext.answers.verdicts import SHOWN_CHARS
from trl_grpo_ext.protocol import BatchVerifier, check_backslashes
from trl_grpo_ext.rewards.formats.answer_part import answer_part
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_choice, check_seconds, is_whole_number
from trl_grpo_ext.verdict import Status, Verdict
from trl_grpo_ext.workers.pool import close_workers, judge_in_workers

Match = Literal["search", "fullmatch", "count"]
MATCHES: tuple[str, ...] = get_args(Match)
Part = Literal["completion", "answer"]
PARTS: tuple[str, ...] = get_args(Part)


@dataclass(frozen=True, kw_only=True)
class RegexVerifier(BatchVerifier):
    r"""Searches a pattern in the completion, matches the whole completion, or counts matches.

    Use it for a format without a verifier of its own. A regular expression can take exponential time on a hostile text.
    So it runs in a worker process, which is killed after `timeout` seconds; such a text scores 0.

    Args:
        pattern: The regular expression, in Python's `re` syntax.
        match: `"search"` anywhere, `"fullmatch"` of the whole text, or `"count"` of nonempty matches without overlap.
        at_least: For `count`: the least number of matches, 0 or more.
        at_most: For `count`: the greatest number of matches; None for any. `at_least=0, at_most=0` forbids the pattern.
        part: The matched text: the whole `"completion"`, without a prefill from the prompt, or only the `"answer"`, the
            stripped text after the thinking.
        ignore_case: Ignore upper and lower case.
        dotall: Let `.` also match a line end. On by default, since completions have many lines.
        timeout: Time limit per completion, in seconds.
        name: The metric key. Give each of several regexes a name of its own.

    | completion | pattern `answer: [0-9]+` | reason |
    |---|---|---|
    | `The answer: 42` | 1 | |
    | `The answer: many` | 0 | `no_match` |
    | `answer: 4, or answer: 5`, `match="count", at_most=1` | 0 | `too_many_matches` |
    | `answer: 4`, `match="count", at_least=2` | 0 | `too_few_matches` |
    | `<think>answer: 4`, `part="answer"` | 0 | `unclosed_think` |
    | `<think>answer: 4</think>`, `part="answer"` | 0 | `no_answer` |
    | a text with `timeout` seconds of backtracking | 0 | `timeout` |

    Raises:
        ValueError: for a pattern that does not compile or has a control character, as "\b" is in YAML, an unknown
            setting, `at_least` or `at_most` without `count`,
            counts that every or no completion can meet, or a timeout that is not above 0.

    Examples:
        >>> RegexVerifier(pattern="answer: [0-9]+")(["The answer: 42", "The answer: many"])
        [1.0, 0.0]
        >>> RegexVerifier(pattern=r"\bhowever\b", match="count", at_least=0, at_most=1)(["however, however"])
        [0.0]
    """

    pattern: str
    match: Match = "search"
    at_least: int = 1
    at_most: int | None = None
    part: Part = "completion"
    ignore_case: bool = False
    dotall: bool = True
    timeout: float = 5.0
    name: str | None = None

    def __post_init__(self) -> None:
        check_choice("match", self.match, MATCHES)
        check_choice("part", self.part, PARTS)
        self._check_counts()
        check_seconds("timeout", self.timeout)
        # YAML reads an unquoted pattern such as 42 as a number.
        if not isinstance(self.pattern, str):
            raise ValueError(
                f"The pattern must be text, got {self.pattern!r}; in YAML, put it in quotes."
            )
        check_backslashes("pattern", self.pattern)
        # Compiling is safe in this process; only matching may never end.
        try:
            re.compile(self.pattern, self._flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(
                f"The pattern {self.pattern!r} is no regular expression: {error}."
            ) from None

    def _check_counts(self) -> None:
        if self.match != "count" and (self.at_least != 1 or self.at_most is not None):
            raise ValueError(
                f"at_least and at_most are for match='count'; match is {self.match!r}."
            )
        counts = [self.at_least]
        if self.at_most is not None:
            counts.append(self.at_most)
        if not all(is_whole_number(count, least=0) for count in counts):
            raise ValueError(
                f"at_least and at_most are 0 or more, got {self.at_least!r} and {self.at_most!r}."
            )
        if self.at_most is not None and self.at_most < self.at_least:
            raise ValueError(
                f"No completion can match at_least={self.at_least} and at_most={self.at_most} times."
            )
        if self.at_most is None and self.at_least == 0:
            raise ValueError(
                "With at_least=0 and no at_most, every completion matches; set at_most."
            )

    def close(self) -> None:
        """Stop the workers of this process; the next use starts new workers."""
        close_workers()

    def judge_samples(self, samples: Sequence[Sample]) -> list[Verdict]:
        target = "trl_grpo_ext.rewards.formats.regex:match_here"
        judge = partial(judge_in_workers, target, timeout=self.timeout)
        return self.judge_questions(samples, self._call, judge)

    @property
    def _flags(self) -> int:
        flags = re.NOFLAG
        if self.ignore_case:
            flags |= re.IGNORECASE
        if self.dotall:
            flags |= re.DOTALL
        return int(flags)

    def _call(self, sample: Sample) -> tuple[Any, ...] | Verdict:
        """Return worker arguments for `match_here`; a verdict if the completion has no answer to match."""
        text: str | Verdict = sample.text
        if self.part == "answer":
            text = answer_part(sample)
        if isinstance(text, Verdict):
            return text
        return (
            self.pattern,
            self._flags,
            self.match,
            self.at_least,
            self.at_most,
            text,
        )


def match_here(
    pattern: str,
    flags: int,
    match: Match,
    at_least: int,
    at_most: int | None,
    text: str,
) -> dict[str, Any]:
    """Match a text, and return the verdict as a record. Call it inside a worker: matching may never end."""
    compiled = re.compile(pattern, flags)
    found: list[str] = []
    if match == "count":
        # No further match could change the verdict.
        enough = at_least if at_most is None else at_most + 1
        found = _counted(compiled, text, enough)
    elif match == "search":
        found = _alone(compiled.search(text))
    else:
        found = _alone(compiled.fullmatch(text))
    return _verdict(found, at_least, at_most).to_record()


def _alone(match: re.Match[str] | None) -> list[str]:
    if match is None:
        return []
    return [match.group()[:SHOWN_CHARS]]


def _counted(compiled: re.Pattern[str], text: str, enough: int) -> list[str]:
    """List the first `enough` nonempty matches."""
    found = []
    for match in compiled.finditer(text):
        if match.end() > match.start():
            found.append(match.group()[:SHOWN_CHARS])
        # Break before the next match is searched: a search can take all the time left.
        if len(found) == enough:
            break
    return found


def _verdict(found: Sequence[str], at_least: int, at_most: int | None) -> Verdict:
    answer = found[0] if found else None
    if at_least <= len(found) and (at_most is None or len(found) <= at_most):
        return Verdict(status=Status.CORRECT, score=1.0, answer=answer)
    reason = "too_many_matches"
    if not found:
        reason = "no_match"
    elif len(found) < at_least:
        reason = "too_few_matches"
    return Verdict(
        status=Status.INCORRECT,
        score=0.0,
        answer=answer,
        reason=reason,
    )
