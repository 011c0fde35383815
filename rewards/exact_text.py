"""Verify a final answer by exact text match with the gold, after optional normalization."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trl_grpo_ext.answers.find.final_answer import AnswerFrom, check_answer_from
from trl_grpo_ext.answers.read.spelling import (
    TEXT_COMMAND,
    strip_delimiters,
    without_invisible,
)
from trl_grpo_ext.answers.verdicts import right, unreadable, wrong
from trl_grpo_ext.rewards.bases.answer_verifier import AnswerVerifier
from trl_grpo_ext.verdict import Verdict

# A longer answer is refused unless the gold is over half as long: NFKC sorts the combining marks of hostile Unicode in
# quadratic time.
MAX_CHARS = 10_000

# "Paris" or **Paris**, as a whole.
_ENCLOSED = re.compile(r"(\*\*|[\"'`*“‘])(.+?)(?:\1|[”’])", re.DOTALL)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ExactTextVerifier(AnswerVerifier[tuple[str, ...]]):
    r"""Compares the completion's final answer with the gold as text: correct if the normalized texts are equal.

    Use it for names, words, labels, codes and short spans. A full stop at the end, and delimiters around the whole
    answer (quotes, dollars, `\text{}`, Markdown) are ignored; switch on what else the task may ignore. `ignore_case`,
    `ignore_punctuation` and `ignore_articles` together give SQuAD's normal form (Rajpurkar et al., 2016,
    arXiv:1606.05250). For numbers and formulas use `NumericVerifier` or `MathVerifier`, where 1.0 equals 1. A sentence
    counts whole, behind a mark and without: of "Answer: The tallest is Ann.", `MathVerifier` reads the name.

    The gold is a text, or a number or bool, compared in Python's spelling (`True`). A list holds alternative golds.

    Args:
        column: The gold's column; by default `solution`, else `answer`.
        nfkc: Normalize Unicode by NFKC, so that full-width letters equal plain letters, and drop invisible characters.
        collapse_spaces: Replace every run of white space, line ends included, by one space.
        ignore_case: `Paris` equals `PARIS`.
        ignore_punctuation: Drop punctuation and symbols: `C++` then equals `C`, and `-5` equals `5`.
        ignore_articles: Drop the words `a`, `an` and `the`.
        answer_from: Where the answer stands; see `final_answer`.
        name: The metric key.

    | completion | gold `The Beatles` | reason |
    |---|---|---|
    | `The Beatles`, `<answer>The  Beatles</answer>`, `The answer is **The Beatles**.` | CORRECT, 1 | |
    | `the beatles` | INCORRECT, 0 | `other_case`; with `ignore_case` 1 |
    | `Beatles!` | INCORRECT, 0 | `not_equal`; as SQuAD has it 1 |
    | `The Beatles or The Kinks` | INCORRECT, 0 | `not_equal` |
    | `<answer>The Kinks</answer><answer>The Beatles</answer>` | INCORRECT, 0 | `ambiguous` |
    | `<answer> </answer>` | UNPARSEABLE, 0 | `empty_answer` |
    | `<think>The Beatles` | UNPARSEABLE, 0 | `unclosed_think` |
    | more than 10,000 characters | UNPARSEABLE, 0 | `answer_too_long` |
    | anything, without a gold | SKIPPED, none | `gold_missing` |
    | anything, with a gold of which nothing is left | SKIPPED, none | `gold_empty` |

    Raises:
        ValueError: for an `answer_from` that does not exist, or a switch that is no bool.

    Examples:
        >>> exact_text_reward(["Answer: Paris", "Answer: Paris or Rome"], answer=["Paris", "Paris"])
        [1.0, 0.0]
        >>> ExactTextVerifier(ignore_case=True)(["new york"], answer=[["NYC", "New York"]])
        [1.0]
    """

    advice: ClassVar[Mapping[str, str]] = {
        "gold_empty": "Drop the row, or ignore less: nothing is left of its gold to compare with."
    }

    column: str | None = None
    nfkc: bool = True
    collapse_spaces: bool = True
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_articles: bool = False
    answer_from: AnswerFrom = "marked"
    name: str | None = None

    def __post_init__(self) -> None:
        check_answer_from(self.answer_from)
        for switch in (
            "nfkc",
            "collapse_spaces",
            "ignore_case",
            "ignore_punctuation",
            "ignore_articles",
        ):
            value = getattr(self, switch)
            if not isinstance(value, bool):
                raise ValueError(f"{switch} is true or false, got {value!r}.")

    def read_gold(self, row: Mapping[str, Any]) -> tuple[str, ...] | str:
        golds = self.golds(row)
        if not golds:
            return "gold_missing"
        # A dict keeps the order and drops repeated forms.
        forms: dict[str, None] = {}
        for gold in golds:
            text = str(gold)
            # Both forms, for a gold that itself ends in a full stop or stands in quotes.
            for form in (text, unwrapped(text)):
                forms[self._normal(form)] = None
        # An empty form would pay the answer `.`, of which nothing is left without its stop.
        forms.pop("", None)
        if not forms:
            return "gold_empty"
        return tuple(forms)

    def judge_answer(self, answer: str, gold: tuple[str, ...]) -> Verdict:
        longest_gold = max(map(len, gold))
        if len(answer) > max(MAX_CHARS, 2 * longest_gold):
            return unreadable("answer_too_long")
        as_written = self._normal(answer)
        if not as_written:
            return unreadable("empty_answer")
        if as_written in gold or self._normal(unwrapped(answer)) in gold:
            return right(answer)
        # The reason tells that `ignore_case` would pay the answer.
        cases = {as_written.casefold(), self._normal(unwrapped(answer)).casefold()}
        is_same_word = not cases.isdisjoint(map(str.casefold, gold))
        return wrong("other_case" if is_same_word else "not_equal", answer=answer)

    def _normal(self, text: str) -> str:
        return normal_text(
            text,
            nfkc=self.nfkc,
            collapse_spaces=self.collapse_spaces,
            ignore_case=self.ignore_case,
            ignore_punctuation=self.ignore_punctuation,
            ignore_articles=self.ignore_articles,
        )


def unwrapped(text: str) -> str:
    r"""Strip delimiters around the whole text (dollars, `\text{}`, quotes, stars), and `.` and `!` at its end.

    Examples:
        >>> [unwrapped(text) for text in (r"$\text{Paris}$", '"Paris".', "Paris, 'the city'")]
        ['Paris', 'Paris', "Paris, 'the city'"]
    """
    text = strip_delimiters(_without_stop(text))
    command = TEXT_COMMAND.fullmatch(text)
    if command:
        text = command[1]
    text = _without_stop(text)
    quoted = _ENCLOSED.fullmatch(text)
    if quoted:
        text = _without_stop(quoted[2])
    return text.strip()


def _without_stop(text: str) -> str:
    return text.strip().rstrip(".!")


def normal_text(
    text: str,
    *,
    nfkc: bool = True,
    collapse_spaces: bool = True,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_articles: bool = False,
) -> str:
    """Normalize a text by the switches, and strip white space at both ends.

    Examples:
        >>> normal_text(" The  U.S.A.!", ignore_case=True, ignore_punctuation=True, ignore_articles=True)
        'usa'
    """
    if nfkc:
        text = without_invisible(unicodedata.normalize("NFKC", text))
    if ignore_case:
        # `lower` would keep `ß`, so that `STRASSE` would not equal `Straße`.
        text = text.casefold()
    if ignore_punctuation:
        # Unicode's categories of punctuation begin with P, and of symbols with S.
        text = "".join(char for char in text if unicodedata.category(char)[0] not in "PS")
    if ignore_articles:
        text = _ARTICLES.sub(" ", text)
    # A dropped article leaves two spaces beside each other.
    if collapse_spaces or ignore_articles:
        return " ".join(text.split())
    return text.strip()


exact_text_reward = ExactTextVerifier(name="exact_text_reward")
"""`ExactTextVerifier` with its defaults, ready for a list of reward functions."""
