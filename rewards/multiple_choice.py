"""Verify multiple choice: a completion must choose the right option, and no second option."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from trl_grpo_ext.answers.find.final_answer import AnswerFrom, check_answer_from
from trl_grpo_ext.answers.find.options import choice_said, listed_options, numbered_options
from trl_grpo_ext.answers.golds import alternatives
from trl_grpo_ext.answers.read.choices import (
    ALONE,
    LED,
    LETTERS,
    UNREADABLE,
    Options,
    label_of,
    option_text,
    plain_text,
)
from trl_grpo_ext.answers.verdicts import right, unreadable, wrong
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.rewards.bases.answer_verifier import AnswerVerifier
from trl_grpo_ext.sample import last_message
from trl_grpo_ext.support.setting_checks import check_choice
from trl_grpo_ext.verdict import Verdict

GoldAs = Literal["auto", "letter", "index", "text"]
GOLD_AS: tuple[str, ...] = get_args(GoldAs)
CHOICES_COLUMNS = ("choices", "options")


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold of a row: labels of all right options, and the options themselves."""

    labels: frozenset[str]
    options: Options


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceVerifier(AnswerVerifier[Gold]):
    r"""Reads the option that a completion chooses, and compares its label with the gold.

    Use it for MMLU, ARC, GPQA, CommonsenseQA and similar datasets. The completion must choose exactly one option: an
    answer with several options scores 0, and so does a letter with another option's text. A last sentence chooses the
    only option that it mentions, by letter or whole text, if it leaves no doubt; without options, a letter in running
    prose is no choice.

    The gold is a letter (`B`, `(B)`), an index (an integer, or digits if the labels are letters) or the text of an
    option; a list holds alternative golds. A row may hold its options: a list of texts, a mapping from labels to texts,
    or `{"text": [...], "label": [...]}` as in ARC; a CSV file holds these as JSON. Without them, the options count that
    the prompt lists as `A) ...`, `(a) ...`, `- **A.** ...` or `A - ...`, or as `1. ...` on lines of their own. With
    options, an answer may also be the text of an option.

    Args:
        column: The gold's column; by default `solution`, else `answer`.
        choices: The column of the options; by default `choices`, else `options`. Options are optional.
        gold_as: The form of the gold: `letter`, `index`, `text`, or `auto`, which skips a row with an ambiguous gold.
        index_base: The index of the first option, 0 or 1.
        answer_from: Where the answer stands; see `final_answer`.
        name: The metric key.

    | completion | gold `B`, options `Rome`, `Paris` | reason |
    |---|---|---|
    | `B`, `(B)`, `**B**`, `\boxed{B}`, `Answer: B`, `<answer>B) Paris</answer>`, `Paris` | CORRECT, 1 | |
    | `The answer is B because Rome is in Italy.`, `B, Paris`, `B, not A`, `{"answer": "B"}` | CORRECT, 1 | |
    | `It's Paris.`, `The capital of France is Paris.`, `1 + 1 = 2, so B`, `Paris, option B` | CORRECT, 1 | |
    | `B` on a line of its own, and an explanation below it | CORRECT, 1 | |
    | `A` | INCORRECT, 0 | `not_equal` |
    | `A or B`, `A, B`, `B) Paris or A) Rome` | INCORRECT, 0 | `several_choices` |
    | `B) Rome` | INCORRECT, 0 | `letter_and_text_differ` |
    | `Answer: A` and `Final answer: B` | INCORRECT, 0 | `ambiguous` |
    | `C` | INCORRECT, 0 | `no_such_choice` |
    | `B is wrong`; `B`, and on a line below it `Or maybe not.` | INCORRECT, 0 | `taken_back` |
    | `A good answer needs care.`, `It's not Rome.`, `It could be Paris.` | UNPARSEABLE, 0 | `no_choice` |
    | nothing after the thinking | UNPARSEABLE, 0 | `no_answer` |
    | anything, without a gold | SKIPPED, none | `gold_missing` |
    | anything, with a gold that no option has | SKIPPED, none | `gold_not_among_choices` |
    | anything, gold `A`, options `B`, `A` | SKIPPED, none | `gold_ambiguous` |

    Raises:
        ValueError: for an `answer_from` or `gold_as` that does not exist, or an `index_base` that is neither 0 nor 1.

    Examples:
        >>> multiple_choice_reward(["The answer is (B).", "A or B"], answer=["B", "B"])
        [1.0, 0.0]
        >>> multiple_choice_reward(["It is Paris. Final answer: Paris"], answer=[1], choices=[["Rome", "Paris"]])
        [1.0]
    """

    advice: ClassVar[Mapping[str, str]] = {
        "gold_not_among_choices": "Check the gold and the options, or say what golds are: gold_as=..., index_base=...",
        "gold_ambiguous": "Say what golds are: gold_as='letter', 'index' or 'text'.",
        "choices_unreadable": "Options are a list of texts, or {'text': [...], 'label': [...]}, or these as JSON: "
        "choices=...",
    }

    column: str | None = None
    choices: str | None = None
    gold_as: GoldAs = "auto"
    index_base: int = 0
    answer_from: AnswerFrom = "marked"
    name: str | None = None

    def __post_init__(self) -> None:
        check_answer_from(self.answer_from)
        check_choice("gold_as", self.gold_as, GOLD_AS)
        if isinstance(self.index_base, bool) or self.index_base not in (0, 1):
            raise ValueError(
                f"index_base is the index of the first option, 0 or 1; got {self.index_base!r}."
            )

    def read_gold(self, row: Mapping[str, Any]) -> Gold | str:
        golds = self.golds(row)
        if not golds:
            return "gold_missing"
        options = self._row_options(row, golds)
        if options is None:
            return "choices_unreadable"
        labels: set[str] = set()
        for gold in golds:
            meant = self._labels(gold, options)
            # A guess could train on a wrong gold.
            if len(meant) > 1:
                return "gold_ambiguous"
            labels |= meant
        if not labels:
            return "gold_not_among_choices"
        return Gold(frozenset(labels), options)

    def _row_options(self, row: Mapping[str, Any], golds: Sequence[Any]) -> Options | None:
        """Read the options of a row, or of its prompt; without texts if neither lists any, None if unreadable."""
        columns = (self.choices,) if self.choices else CHOICES_COLUMNS
        listed = first_value(row, columns)
        if listed is None:
            question = last_message(row.get("prompt"))
            lettered = listed_options(question)
            if lettered.texts:
                return lettered
            numbered = numbered_options(question)
            # A prompt may also number its instructions.
            has_gold = any(self._labels(gold, numbered) for gold in golds)
            return numbered if has_gold else lettered
        return _options(listed)

    def _labels(self, gold: Any, options: Options) -> set[str]:
        """Return the labels that a gold can mean; several labels if its readings as letter, index and text differ."""
        by_text: set[str] = set()
        if isinstance(gold, str | bool):
            by_text = options.saying(str(gold))
        readings = {
            "letter": self._letter(gold, options),
            "index": self._index(gold, options),
            "text": by_text,
        }
        if self.gold_as != "auto":
            return readings[self.gold_as]
        # ARC labels the options of some questions with digits: there a digit is a label, not an index.
        if readings["letter"] and str(gold).strip().isdigit():
            readings["index"] = set()
        return set().union(*readings.values())

    def _letter(self, gold: Any, options: Options) -> set[str]:
        if not isinstance(gold, str):
            return set()
        text = plain_text(gold)
        # `B` alone, or before the option's text.
        match = ALONE.fullmatch(text) or LED.fullmatch(text)
        if match is None:
            return set()
        return {label_of(match)} & set(options.labels)

    def _index(self, gold: Any, options: Options) -> set[str]:
        # True is an option's text, though for Python it equals 1.
        if isinstance(gold, bool):
            return set()
        # An integer column with missing values holds floats.
        if isinstance(gold, float) and gold.is_integer():
            gold = int(gold)
        text = str(gold).strip()
        if not re.fullmatch(r"[0-9]{1,3}", text, re.ASCII):
            return set()
        place = int(text) - self.index_base
        if not 0 <= place < len(options.labels):
            return set()
        return {options.labels[place]}

    def judge_answer(self, answer: str, gold: Gold) -> Verdict:
        choice = choice_said(answer, gold.options)
        if choice.problem in UNREADABLE:
            return unreadable(choice.problem)
        if choice.problem:
            return wrong(choice.problem)
        shown = " | ".join(sorted(choice.labels))
        if choice.labels & gold.labels:
            return right(answer=shown)
        return wrong("not_equal", answer=shown)


def _of_json(cell: str) -> Any:
    """Return the list or mapping that a text writes as JSON; None for any other text."""
    try:
        listed = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return listed if isinstance(listed, list | dict) else None


def _options(listed: Any) -> Options | None:
    """Read a row's options; None for an unreadable cell, an empty list, or repeated labels."""
    # A cell of a CSV file holds a list as JSON.
    if isinstance(listed, str):
        listed = _of_json(listed)
    # The form of ARC.
    if isinstance(listed, Mapping) and {"text", "label"} <= listed.keys():
        labels = alternatives(listed["label"])
        texts = alternatives(listed["text"])
    elif isinstance(listed, Mapping):
        # Arrow gives every row all keys of the column, and fills missing keys with None.
        labels = [label for label, text in listed.items() if text is not None]
        texts = [listed[label] for label in labels]
    else:
        texts = alternatives(listed)
        labels = list(LETTERS[: len(texts)])
    labels = [str(label).strip().upper() for label in labels]
    are_distinct = len(set(labels)) == len(labels)
    if not texts or len(texts) != len(labels) or not are_distinct:
        return None
    return Options(tuple(labels), tuple(map(option_text, map(str, texts), labels)))


multiple_choice_reward = MultipleChoiceVerifier(name="multiple_choice_reward")
"""`MultipleChoiceVerifier` with its defaults, ready for a list of reward functions."""
