"""Verify list answers: score the overlap of the answer's items with the gold's items."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from trl_grpo_ext.answers.find.final_answer import (
    AnswerFrom,
    FinalAnswer,
    check_answer_from,
    final_answer,
)
from trl_grpo_ext.answers.find.phrases import (
    concluding_list,
    described_items,
    has_listing_verb,
)
from trl_grpo_ext.answers.read.spelling import strip_delimiters, without_text_commands
from trl_grpo_ext.answers.verdicts import graded, unreadable, wrong
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.rewards.bases.answer_verifier import AnswerVerifier
from trl_grpo_ext.rewards.exact_text import normal_text
from trl_grpo_ext.sample import Sample
from trl_grpo_ext.support.setting_checks import check_choice, check_whole
from trl_grpo_ext.verdict import Verdict

Measure = Literal["f1", "jaccard", "recall", "precision", "exact"]
Order = Literal["ignored", "subsequence", "position"]
MEASURES: tuple[str, ...] = get_args(Measure)
ORDERS: tuple[str, ...] = get_args(Order)
# The longest answer, unless four times the gold is longer.
MAX_CHARS = 10_000
# The most items of an answer, unless four times the gold's items are more.
MAX_ITEMS = 1_000

# `- `, `* `, `1. ` or `(2) ` before an item.
_BULLET = re.compile(r"\A(?:[-*•‣]|\(?\d{1,3}[.)])\s+")
_AND = re.compile(r"(?:^|(?<=\S)\s+)and\s+", re.IGNORECASE)
# LaTeX's small spaces, as in `1\,000`.
_THIN_SPACE = re.compile(r"\\[,;:! ]")
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_QUOTES = "\"'`“”‘’*"

Items = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OverlapVerifier(AnswerVerifier[tuple[Items, ...]]):
    r"""Scores the overlap of the answer's items with the gold's items.

    Use it for extraction, tagging, retrieval and sorting: tasks with several items as the answer, and partial credit.
    With the default, F1, every wrong item costs: neither naming everything nor naming a single item pays.

    The gold is a list, or a text that is split like the answer. An answer may stand in brackets, its items in quotes,
    in `\text{}` or after bullets, the last item after "and". Bullets on several lines always separate items, regardless
    of `separator`. `jazz, rock and roll` can be two items or three: the reading with the higher score counts.

    A list with an introduction counts without it: the bullets below a line with a colon, or the side of the last
    sentence's verb with the list, unless words such as "not" or "maybe" stand beside it. If an item of the gold has a
    verb itself (`Life Is Beautiful`), introductions count as words of the first item. Bullets with a description each,
    "- **Red**: a warm colour", are also read without their descriptions.

    Args:
        column: The gold's column; by default `solution`, else `answer`.
        separator: The text between items, such as `","` or `"\n"`; white space around it is ignored.
        measure: The score, with h common items, n items in the answer and g in the gold:
            `f1` is 2h / (n + g); `jaccard` is h / (n + g - h), the share of the union; `exact` is 1 if h = n = g,
            else 0; `recall` is h / g, and needs `max_items`, or naming everything would pay; `precision` is
            h / n, and gives full score for a single sure item.
        order: `ignored` compares sets: a repeated item counts once. `subsequence` compares lists, with the length of
            the longest common subsequence as h. `position` counts as h the items at the same position in both lists.
        max_items: The most items of an answer; an answer with more items scores 0.
        ignore_case: `Paris` equals `PARIS`.
        answer_from: Where the answer stands; see `final_answer`.
        name: The metric key.

    | completion | gold `red, green, blue` | reason |
    |---|---|---|
    | `<answer>blue, green, red</answer>`, `The answer is red, green and blue.` | CORRECT, 1 | |
    | `Answer:` or "The colours are:", and below it `- red`, `- green`, `- blue` | CORRECT, 1 | |
    | "The colours are red, green and blue.", "Red, green and blue are the colours." with `ignore_case` | CORRECT, 1 | |
    | `\boxed{\{\text{red}, \text{green}, \text{blue}\}}` | CORRECT, 1 | |
    | `<answer>red, green</answer>` | PARTIAL, 0.8 | |
    | `<answer>red, red, red</answer>` | PARTIAL, 0.5 | |
    | `<answer>red, green, blue, pink, grey, black, white</answer>` | PARTIAL, 0.6 | |
    | `<answer>pink</answer>` | INCORRECT, 0 | `no_overlap` |
    | `<answer>red</answer><answer>red, green</answer>` | INCORRECT, 0 | `ambiguous` |
    | `<answer>, ,</answer>` | UNPARSEABLE, 0 | `no_items` |
    | more than `max_items` items | INCORRECT, 0 | `too_many_items` |
    | anything, with an empty gold | SKIPPED, none | `gold_missing` or `gold_empty` |

    Raises:
        ValueError: for an unknown measure, order or `answer_from`, an empty separator, a `max_items` below 1, or
            `recall` without `max_items`.

    Examples:
        >>> OverlapVerifier()(["<answer>b, a</answer>", "<answer>a, x</answer>"], answer=[["a", "b"]] * 2)
        [1.0, 0.5]
    """

    advice: ClassVar[Mapping[str, str]] = {
        "gold_empty": "Drop the row: with no items in its gold no answer overlaps."
    }

    column: str | None = None
    separator: str = ","
    measure: Measure = "f1"
    order: Order = "ignored"
    max_items: int | None = None
    ignore_case: bool = False
    answer_from: AnswerFrom = "marked"
    name: str | None = None

    def __post_init__(self) -> None:
        check_answer_from(self.answer_from)
        check_choice("measure", self.measure, MEASURES)
        check_choice("order", self.order, ORDERS)
        if not isinstance(self.separator, str) or not self.separator:
            raise ValueError(
                f"separator is the text between two items, such as ','; got {self.separator!r}."
            )
        limit = self.max_items
        if limit is not None:
            check_whole("max_items", limit, "a number of items", least=1)
        if self.measure == "recall" and limit is None:
            raise ValueError(
                "measure='recall' pays in full for an answer that names everything. Say how many items an answer may "
                "have, max_items=..., or use measure='f1'."
            )

    def read_gold(self, row: Mapping[str, Any]) -> tuple[Items, ...] | str:
        golds = self.golds(row)
        if not golds:
            return "gold_missing"
        if isinstance(first_value(row, self.gold_columns), str):
            return self._readings(golds[0]) or "gold_empty"
        normal = [self._normal(str(gold)) for gold in golds]
        items = [item for item in normal if item]
        if not items:
            return "gold_empty"
        return (tuple(items),)

    def find(self, sample: Sample) -> FinalAnswer:
        found = super().find(sample)
        if found.marks != ("emphasised",):
            return found
        # Bold letters in the last item of a list, or in the sentence of one, mark an item of several.
        whole = final_answer(sample.text, prefill=sample.prefill, answer_from="text")
        if all(map(concluding_list, whole.answers)):
            return whole
        return found

    def judge_answer(self, answer: str, gold: tuple[Items, ...]) -> Verdict:
        longest = max(gold, key=len)
        gold_chars = sum(len(item) + len(self.separator) for item in longest)
        if len(answer) > max(MAX_CHARS, 4 * gold_chars):
            return unreadable("answer_too_long")
        listed = self._list_of(answer, gold)
        readings = list(self._readings(listed))
        described = self._items([item for item, _ in described_items(_bare(listed))])
        if described:
            readings.append(described)
        if not readings:
            return unreadable("no_items")
        limit = self.max_items
        if limit is None:
            limit = max(MAX_ITEMS, 4 * len(longest))
        scores = []
        for items in readings:
            if len(items) <= limit:
                scores += [self._score(items, wanted) for wanted in gold]
        if not scores:
            return wrong("too_many_items")
        score = max(scores)
        if score > 0:
            return graded(score)
        if self.measure == "exact":
            return wrong("not_equal")
        return wrong("no_overlap")

    def _list_of(self, answer: str, gold: Sequence[Items]) -> str:
        """Return the list that an answer introduces; the whole answer without an introduction.

        The answer is left whole if an item of the gold could be taken for an introduction: `Life Is Beautiful`.
        """
        introduced = concluding_list(_bare(answer))
        if not introduced:
            return answer
        has_verbs = any(has_listing_verb(item) for items in gold for item in items)
        return answer if has_verbs else introduced

    def _score(self, items: Sequence[str], gold: Sequence[str]) -> float:
        # Sets: a repeated item counts once.
        if self.order == "ignored":
            items = list(dict.fromkeys(items))
            gold = list(dict.fromkeys(gold))
        common = _COMMON[self.order](items, gold)
        return _MEASURES[self.measure](common, len(items), len(gold))

    def _readings(self, text: str) -> tuple[Items, ...]:
        """Read the items of a list text; a second reading splits the last part at "and"."""
        parts = self._parts(_bare(text))
        readings = [self._items(parts)]
        # "and" may join the last two items, or stand inside the last item: `rock and roll`.
        *before, last = parts
        if _AND.search(last):
            split_at_and = [*before, *_AND.split(last)]
            readings.append(self._items(split_at_and))
        distinct = dict.fromkeys(readings)
        return tuple(reading for reading in distinct if reading)

    def _parts(self, text: str) -> list[str]:
        parts = text.split(self.separator)
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        # A single line may begin with a minus sign.
        if len(lines) > 1 and all(map(_BULLET.match, lines)):
            parts = lines
        return [_BULLET.sub("", part.strip(), count=1) for part in parts]

    def _items(self, parts: Sequence[str]) -> Items:
        """Normalize the items, and drop empty items."""
        items = []
        for part in parts:
            bare = part.strip().removesuffix(".").strip(_QUOTES).removesuffix(".")
            item = self._normal(bare)
            if item:
                items.append(item)
        return tuple(items)

    def _normal(self, text: str) -> str:
        return normal_text(text, ignore_case=self.ignore_case)


def _bare(text: str) -> str:
    r"""Strip enclosing brackets (also `\{` and `\}`), `\left`, `\right`, `\text` commands and thin spaces."""
    text = strip_delimiters(text)
    if "\\" in text:
        # `\left` first: the `\{` that remains of `\left\{` is read below.
        text = text.replace("\\left", "").replace("\\right", "")
        text = without_text_commands(text).strip()
        text = _THIN_SPACE.sub(" ", text)
        text = text.replace("\\{", "{").replace("\\}", "}")
    is_enclosed = len(text) > 1 and _BRACKETS.get(text[0]) == text[-1]
    if is_enclosed:
        return text[1:-1]
    return text


_MEASURES: dict[str, Callable[[int, int, int], float]] = {
    "f1": lambda common, given, gold: 2 * common / (given + gold),
    "jaccard": lambda common, given, gold: common / (given + gold - common),
    "recall": lambda common, given, gold: common / gold,
    "precision": lambda common, given, gold: common / given,
    "exact": lambda common, given, gold: float(common == given == gold),
}


def common_subsequence(items: Sequence[str], gold: Sequence[str]) -> int:
    """Compute the length of the longest common subsequence, bit-parallel (Hyyrö, 2004): fast on long lists.

    Examples:
        >>> common_subsequence("a x b c".split(), "a b c d".split())
        3
    """
    # Item -> a number with a 1 bit at each of its places in the gold.
    places: dict[str, int] = {}
    for place, wanted in enumerate(gold):
        places[wanted] = places.get(wanted, 0) | 1 << place
    everything = (1 << len(gold)) - 1
    # Each 0 bit of `missed` is one item of the common subsequence.
    missed = everything
    for item in items:
        matched = missed & places.get(item, 0)
        missed = (missed + matched | missed - matched) & everything
    return len(gold) - missed.bit_count()


def _common_items(items: Sequence[str], gold: Sequence[str]) -> int:
    return len(set(items) & set(gold))


def _common_places(items: Sequence[str], gold: Sequence[str]) -> int:
    pairs = zip(items, gold, strict=False)
    return sum(item == wanted for item, wanted in pairs)


_COMMON: dict[str, Callable[[Sequence[str], Sequence[str]], int]] = {
    "ignored": _common_items,
    "subsequence": common_subsequence,
    "position": _common_places,
}

overlap_reward = OverlapVerifier(name="overlap_reward")
"""`OverlapVerifier` with its defaults, ready for a list of reward functions."""
