"""Multiple choice: does the completion choose the right option, and only that one?"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from trl_grpo_ext.names import did_you_mean
from trl_grpo_ext.protocol import first_value
from trl_grpo_ext.rewards.math_answers.notation import strip_delimiters, without_text_commands
from trl_grpo_ext.rewards.parsing.final_answer import (
    AnswerFrom,
    AnswerVerifier,
    alternatives,
    check_answer_from,
    right,
    unreadable,
    wrong,
)
from trl_grpo_ext.verdict import Verdict

GoldAs = Literal["auto", "letter", "index", "text"]
GOLD_AS: tuple[str, ...] = get_args(GoldAs)
CHOICES_COLUMNS = ("choices", "options")
MAX_CHARS = 2_000  # no honest choice is longer, its option's text included
LETTERS = tuple(string.ascii_uppercase)

_OPTION = re.compile(
    r"(?:(?:the|my)\s+)?(?:(?:final|correct|best|right)\s+)?(?:option|choice|answer)\s*[:=]?\s*(?=\W*\w{1,2}\b)", re.I
)
_ALONE = re.compile(r"[(\[{]?\s*([A-Za-z]|[0-9]{1,2})\s*[)\]}]?\s*[.:,]?")
# A label and what follows it: `(B) Paris`, `B) Paris`, `B. Paris`, `B - Paris`, `B (Paris)`.
_LED = re.compile(
    r"(?:[(\[]([A-Za-z]|[0-9]{1,2})[)\]][.:]?|([A-Za-z]|[0-9]{1,2})\)|([A-Z])[.:]|([A-Z])\s+(?:[-–—](?=\s)|(?=\()))\s*(.+)"
)
_REASONED = re.compile(
    r"[(\[]?([A-Z])[)\]]?,?\s+(?:because|since|as|is\s+(?:the\s+)?(?:correct|right|best|answer))\b(.*)"
)
_TRAILED = re.compile(r"(.+?)\s*[(\[](?:option\s+)?([A-Z])[)\]]")
_TAKEN_BACK = re.compile(
    r"\W*(?:(?:is|was|are)\s+)?(?:not|wrong|incorrect|false|maybe|perhaps|possibly|or|no|nor)\b|\W*(?:is|was)n't\b",
    re.I,
)
_OTHER = re.compile(r"(?<![\w'])[(\[]?([A-Z])[)\].:](?!\w)|(?:\b(?:or|and)|[,;/|&])\s*[(\[]?([A-Z])(?!['\w])")
_ENDED = re.compile(r"\W*(?:$|[,;.()]|(?:or|and)\b)")
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff]")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a question.

    Attributes:
        labels: Their letters or numbers.
        texts: What they say, in one form; empty where nobody knows.
    """

    labels: tuple[str, ...] = LETTERS
    texts: tuple[str, ...] = ()

    def saying(self, text: str) -> set[str]:
        """The labels of the options that say this."""
        form = _plain(text).casefold()
        return {label for label, said in self._pairs() if said == form and form}

    def beginning(self, text: str) -> Beginning | None:
        """The longest option that a text begins with, None if it begins with none."""
        form = text.casefold()
        begun = [said for _, said in self._pairs() if said and re.match(re.escape(said) + r"(?!\w)", form)]
        longest = max(begun, key=len, default="")
        return Beginning(frozenset(self.saying(longest)), len(longest)) if longest else None

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return zip(self.labels, self.texts, strict=False)  # without texts there are no pairs


@dataclass(frozen=True, slots=True)
class Beginning:
    """An option that a text begins with: the labels that say it, and its length."""

    labels: frozenset[str]
    length: int


@dataclass(frozen=True, slots=True)
class Gold:
    """What a row's answers are compared with: the right labels, and the options to choose from."""

    labels: frozenset[str]
    options: Options


@dataclass(frozen=True, kw_only=True)
class MultipleChoiceVerifier(AnswerVerifier[Gold]):
    r"""Reads which option a completion chooses, and compares it with the gold.

    For MMLU, ARC, GPQA, CommonsenseQA and their like. One option must be chosen: an answer that names several scores 0,
    and so does a letter with another option's text. A letter in running prose is no choice.

    The gold is a letter (`B`, `(B)`), an index (an integer, or digits where the labels are letters) or an option's
    text; a list has several of which any will do. The row's options, if there are any, are a list of texts, a mapping
    of labels to texts, or `{"text": [...], "label": [...]}` as in ARC; then an option's text is an answer too.

    Args:
        column: The gold's column; by default `solution`, else `answer`.
        choices: The column with the options; by default `choices`, else `options`, if the row has one.
        gold_as: What a gold is: `letter`, `index`, `text`, or `auto`, which skips a row that can be read in two ways.
        index_base: The index of the first option, 0 or 1.
        answer_from: Where the answer stands; see `final_answer`.
        name: The metric key.

    | completion | gold `B`, options `Rome`, `Paris` | reason |
    |---|---|---|
    | `B`, `(B)`, `**B**`, `\boxed{B}`, `Answer: B`, `<answer>B) Paris</answer>`, `Paris` | CORRECT, 1 | |
    | `The answer is B because Rome is in Italy.` | CORRECT, 1 | |
    | `A` | INCORRECT, 0 | `not_equal` |
    | `A or B`, `A, B`, `B) Paris or A) Rome` | INCORRECT, 0 | `several_choices` |
    | `B) Rome` | INCORRECT, 0 | `letter_and_text_differ` |
    | `Answer: A` and `Final answer: B` | INCORRECT, 0 | `ambiguous` |
    | `C` | INCORRECT, 0 | `no_such_choice` |
    | `B is wrong` | INCORRECT, 0 | `taken_back` |
    | `A good answer needs care.` | UNPARSEABLE, 0 | `no_choice` |
    | nothing after the thinking | UNPARSEABLE, 0 | `no_answer` |
    | anything, without a gold | SKIPPED, none | `gold_missing` |
    | anything, with a gold that no option has | SKIPPED, none | `gold_not_among_choices` |
    | anything, gold `A`, options `B`, `A` | SKIPPED, none | `gold_ambiguous` |

    Raises:
        ValueError: for an `answer_from` or `gold_as` that does not exist, or an `index_base` that is neither 0 nor 1.

    Example:
        >>> multiple_choice_reward(["The answer is (B).", "A or B"], answer=["B", "B"])
        [1.0, 0.0]
        >>> multiple_choice_reward(["It is Paris. Final answer: Paris"], answer=[1], choices=[["Rome", "Paris"]])
        [1.0]
    """

    advice: ClassVar[Mapping[str, str]] = {
        "gold_not_among_choices": "Check the gold and the options, or say what golds are: gold_as=..., index_base=...",
        "gold_ambiguous": "Say what golds are: gold_as='letter', 'index' or 'text'.",
        "choices_unreadable": "Options are a list of texts, or {'text': [...], 'label': [...]}: choices=...",
    }

    column: str | None = None
    choices: str | None = None
    gold_as: GoldAs = "auto"
    index_base: int = 0
    answer_from: AnswerFrom = "marked"
    name: str | None = None

    def __post_init__(self) -> None:
        check_answer_from(self.answer_from)
        if self.gold_as not in GOLD_AS:
            raise ValueError(f"There are no golds of kind {self.gold_as!r}. {did_you_mean(str(self.gold_as), GOLD_AS)}")
        if isinstance(self.index_base, bool) or self.index_base not in (0, 1):
            raise ValueError(f"index_base is the index of the first option, 0 or 1; got {self.index_base!r}.")

    def read_gold(self, row: Mapping[str, Any]) -> Gold | str:
        golds = self.golds(row)
        if not golds:
            return "gold_missing"
        listed = first_value(row, (self.choices,) if self.choices else CHOICES_COLUMNS)
        options = _options(listed) if listed is not None else Options()
        if options is None:
            return "choices_unreadable"
        labels: set[str] = set()
        for gold in golds:
            meant = self._labels(gold, options)
            if len(meant) > 1:
                return "gold_ambiguous"
            labels |= meant
        return Gold(frozenset(labels), options) if labels else "gold_not_among_choices"

    def _labels(self, gold: Any, options: Options) -> set[str]:
        """The labels that a gold may mean; more than one if it can be read in several ways."""
        readings = {
            "letter": self._letter(gold, options),
            "index": self._index(gold, options),
            "text": options.saying(str(gold)) if isinstance(gold, str | bool) else set(),
        }
        if self.gold_as != "auto":
            return readings[self.gold_as]
        if readings["letter"] and str(gold).strip().isdigit():  # ARC numbers the options of some questions
            readings["index"] = set()
        return set().union(*readings.values())

    def _letter(self, gold: Any, options: Options) -> set[str]:
        match = (_ALONE.fullmatch(_plain(gold)) or _LED.fullmatch(_plain(gold))) if isinstance(gold, str) else None
        return {_label_of(match)} & set(options.labels) if match else set()

    def _index(self, gold: Any, options: Options) -> set[str]:
        text = str(int(gold)) if isinstance(gold, float) and gold.is_integer() else str(gold).strip()
        if isinstance(gold, bool) or not re.fullmatch(r"[0-9]{1,3}", text, re.ASCII):
            return set()
        place = int(text) - self.index_base
        return {options.labels[place]} if 0 <= place < len(options.labels) else set()

    def judge_answer(self, answer: str, gold: Gold) -> Verdict:
        if len(answer) > MAX_CHARS:
            return unreadable("answer_too_long")
        choice = _read(_plain(answer), gold.options)
        if choice.problem:
            return unreadable(choice.problem) if choice.problem == "no_choice" else wrong(choice.problem)
        shown = " | ".join(sorted(choice.labels))
        return right(answer=shown) if choice.labels & gold.labels else wrong("not_equal", answer=shown)


@dataclass(frozen=True, slots=True)
class Choice:
    """The label that an answer chooses, or those of options that say the same; else why there is none."""

    labels: frozenset[str] = frozenset()
    problem: str = ""


def _read(plain: str, options: Options) -> Choice:
    """The option that an answer chooses."""
    told = _OPTION.match(plain)
    plain = plain[told.end() :] if told else plain
    alone, led = _ALONE.fullmatch(plain), _LED.fullmatch(plain)
    said = options.saying(plain)
    if alone and (_label_of(alone) in options.labels or not said):
        return _known(_label_of(alone), options)
    if said:
        return Choice(frozenset(said))
    if led:
        problem = _problem_after(_label_of(led), led[5], options)
        return Choice(problem=problem) if problem else _known(_label_of(led), options)
    return _read_phrase(plain, options)


def _read_phrase(plain: str, options: Options) -> Choice:
    reasoned = _REASONED.fullmatch(plain)
    if reasoned:
        return Choice(problem="several_choices") if _offers_another(reasoned[2]) else _known(reasoned[1], options)
    trailed = _TRAILED.fullmatch(plain)
    if trailed and options.saying(trailed[1]):
        return _known(trailed[2], options) if trailed[2] in options.saying(trailed[1]) else _DIFFER
    words = [word.upper() for word in re.findall(r"\w+", plain)]
    if words[1:] and words[0] in options.labels and _TAKEN_BACK.match(plain[len(words[0]) :].lstrip("()[]*")):
        several = any(word in options.labels for word in words[1:3])
        return Choice(problem="several_choices" if several else "taken_back")
    several = len(words) > 1 and all(word in options.labels or word in ("AND", "OR") for word in words)
    return Choice(problem="several_choices" if several else "no_choice")


_DIFFER = Choice(problem="letter_and_text_differ")


def _known(label: str, options: Options) -> Choice:
    return Choice(frozenset([label])) if label in options.labels else Choice(problem="no_such_choice")


def _problem_after(label: str, rest: str, options: Options) -> str:
    """What is wrong with the text after a label: it is another option's, takes the choice back, or adds another."""
    if rest.startswith("(") and rest.endswith(")"):
        rest = rest[1:-1].strip()
    alone = _ALONE.fullmatch(rest)
    if alone and _label_of(alone) in {*options.labels} - {label} and label not in options.saying(rest):
        return "several_choices"
    begun = options.beginning(rest)
    if begun and label not in begun.labels and _ENDED.match(rest, begun.length):
        return _DIFFER.problem
    rest = rest[begun.length :] if begun and label in begun.labels else rest
    if _names_another(label, rest, options):
        return "several_choices"
    return "taken_back" if _TAKEN_BACK.match(rest) else ""


def _names_another(label: str, rest: str, options: Options) -> bool:
    others = {match[1] or match[2] for match in _OTHER.finditer(rest.rstrip(".:) "))}
    return bool(others & set(options.labels) - {label})


def _offers_another(rest: str) -> bool:
    return re.search(r"\bor\s+(?:option\s+)?[(\[]?[A-Z](?!['\w])", rest) is not None


def _options(listed: Any) -> Options | None:
    """The options that a cell lists, None if it lists none."""
    if isinstance(listed, Mapping) and {"text", "label"} <= listed.keys():
        labels, texts = alternatives(listed["label"]), alternatives(listed["text"])
    elif isinstance(listed, Mapping):  # Arrow fills the keys that a row does not have with None
        labels = [label for label, text in listed.items() if text is not None]
        texts = [listed[label] for label in labels]
    else:
        texts = alternatives(listed) if not isinstance(listed, str) else []
        labels = list(LETTERS[: len(texts)])
    labels = [str(label).strip().upper() for label in labels]
    if not texts or len(texts) != len(labels) or len(set(labels)) != len(labels):
        return None
    return Options(tuple(labels), tuple(map(_option_text, texts, labels)))


def _option_text(text: Any, label: str) -> str:
    """An option's text without the label that some datasets put before it: `B) Paris`."""
    plain = _plain(str(text))
    led = _LED.fullmatch(plain)
    return (led[5] if led and _label_of(led) == label else plain).casefold()


def _label_of(match: re.Match[str]) -> str:
    return next(group for group in match.groups()[:4] if group).upper()


def _plain(text: str) -> str:
    """The text in one form: no Markdown, no LaTeX around it, one space between words, no full stop at its end."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text[:MAX_CHARS]))
    text = without_text_commands(strip_delimiters(text.replace("**", "").replace("`", "").strip()))
    return " ".join(text.split()).strip("\"'*_ ").rstrip(".").strip()


multiple_choice_reward = MultipleChoiceVerifier(name="multiple_choice_reward")
"""`MultipleChoiceVerifier` with its defaults, ready for a list of reward functions."""
