"""Verify numeric answers within a tolerance, with units."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from trl_grpo_ext.answers.acceptance import is_given
from trl_grpo_ext.answers.asked.expression import value_of_expression
from trl_grpo_ext.answers.asked.side import with_asked_side
from trl_grpo_ext.answers.asked.thing import with_asked_thing
from trl_grpo_ext.answers.compare.directions import with_asked_direction
from trl_grpo_ext.answers.compare.roundings import is_rounding
from trl_grpo_ext.answers.find.asked import (
    asked_unit,
    asks_percentage,
    in_asked_scale,
    in_sterling,
    question_of,
    task_of,
    with_asked_amount,
    without_asked_rate,
)
from trl_grpo_ext.answers.find.asked_values import stems
from trl_grpo_ext.answers.find.final_answer import (
    AnswerFrom,
    FinalAnswer,
    check_answer_from,
)
from trl_grpo_ext.answers.find.last_sentence import MAX_SAID, last_sentence
from trl_grpo_ext.answers.find.math_answer import math_answer
from trl_grpo_ext.answers.find.remarks import without_check
from trl_grpo_ext.answers.find.sentences import marked_sentence
from trl_grpo_ext.answers.golds import gold_texts
from trl_grpo_ext.answers.pairs import OUT_OF
from trl_grpo_ext.answers.read.answer import Answer, read
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import DOUBT
from trl_grpo_ext.answers.read.spelling import strip_delimiters
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    Words,
)
from trl_grpo_ext.answers.read.units import NONE, Unit, as_one_currency, unit
from trl_grpo_ext.answers.verdicts import right, unreadable, wrong
from trl_grpo_ext.rewards.bases.answer_verifier import AnswerVerifier, Tolerance
from trl_grpo_ext.sample import Sample, last_message
from trl_grpo_ext.support.setting_checks import check_choice, check_number
from trl_grpo_ext.verdict import Status, Verdict

Percent = Literal["fraction", "number", "either"]
PERCENTS: tuple[str, ...] = get_args(Percent)
# The signs between the sides of an equation.
_EQUALS = re.compile(r"(?<![<>!\\~])[=≈]|~=|\\approx\b")
# "There are 5 apples", "Hence, 5 apples", "Sure! It's 5", "5 apples are left", "7 + 8 = 15. So 15", not an amount
# such as "5 red apples".
_SENTENCE = re.compile(
    r"\A[\W_]*[^\W\d_]+(?:['’][a-z]+|[,!])?\s|\b(?:is|are|was|were|has|have|had|will|can|costs?|remains?)\b"
    r"|\bof\s(?:the|all|his|her|their|its|these|those)\s\S*\d|\*\*[.!]?[ \t]*\n"
)
# "13 weeks, because 13 * 15 = 195": the last side of the equation is no answer.
_REASON = re.compile(
    r"\w,?\s+(?:because|since|as)\s|\n\W*(?:explanation|reasoning)\b", re.IGNORECASE
)
# More than an amount with its thing: "24 percent of the students walk", "**750 g** of flour"
_LONG = re.compile(r"(?:[^\W\d_]+\W+){4}[^\W\d_]+|\*\*\w[^*\n]*\*\*\s\w")
# An amount and its gloss: "0.9 meters (90 cm)".
_GLOSS = re.compile(r"\d[^()]*\([^()]*\d[^()]*\)\W*\Z")
_DIGIT = re.compile(r"\d")
# Between two numbers: an equation, or the end of a sentence.
_STEP = re.compile(r"=|[.!]\s")
# Sides of an equation that differ by a larger share are not equal: 16 / 3 = 5.33.
ROUNDING = Fraction(1, 100)
# No honest number is longer.
MAX_CHARS = 400

# Bold marks, but not the power of 10**3.
_BOLD = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)")
# 5 (km)
_IN_BRACKETS = re.compile(rf"\((?!.*\b(?:guess|{DOUBT})\b)([^()\d]+)\)\s*\Z", re.IGNORECASE)
# 1e999 or 10^{999}
_HUGE = re.compile(r"(?:\d[eE]|10\s*(?:\^|\*\*)\s*[{(]?)\s*[+-]?\s*\d{3}")
_LONE_DOLLAR = re.compile(r"\A([-−+~≈\s]*)\$(?=\s*\d[^$]*\Z)")
_KELVIN = unit("K")
_CURRENCIES = frozenset(map(unit, ("usd", "eur", "gbp", "yen", "inr")))


class Amount(NamedTuple):
    """A parsed number with its unit.

    Attributes:
        values: The possible values; two for a percentage with `percent="either"`.
        unit: The unit of measurement, or the counted thing (`apples`).
        is_percentage: Whether the number is written as a percentage.
    """

    values: tuple[Fraction, ...]
    unit: Unit
    is_percentage: bool = False


class Golds(NamedTuple):
    """Golds of a row, its prompt, in which the question may name a unit, and the golds as texts."""

    amounts: tuple[Amount, ...]
    prompt: str
    texts: tuple[str, ...]


def _is_sentence(answer: str, question: str) -> bool:
    """Test for a sentence, words of the question, a gloss, or two numbers and an equals sign or a stop between them."""
    if len(answer) <= MAX_CHARS and "(" in answer and _GLOSS.search(in_digits(answer)):
        return True
    said = stems(answer)
    if _SENTENCE.search(answer) or (len(said) > 1 and said <= stems(question)):
        return True
    # One pattern for all three would take quadratic time on a run of digits.
    places = [found.start() for found in _DIGIT.finditer(answer)]
    return bool(places) and _STEP.search(answer, places[0], places[-1]) is not None


@dataclass(frozen=True, kw_only=True)
class NumericVerifier(AnswerVerifier[Golds]):
    r"""Compares the completion's final number with the gold number, within a tolerance.

    Use it for measurements, estimates and plain arithmetic. Numbers are parsed by rules and compared as exact
    fractions, without float rounding. Nothing is evaluated: a sum or a root is not a number here, but a word such as
    `twelve` is. Of an equation the last side counts, if numbers among its sides agree: `3 * 4 = 12`. Without a mark,
    the value counts that the last sentence concludes with. For mathematics use `MathVerifier`.

    Accepted forms include `1,234.5`, `1 234`, `-3/4`, `\frac{3}{4}`, `1 1/2`, `1.5e3`, `1.5 \times 10^3`, `$5.20`,
    `28%`, `x = 5` and `\approx 5`. The gold is a number or a text with such a number (also GSM8K's `... #### 42`, and
    boxes); a list holds alternative golds.

    Args:
        column: The gold's column; by default `solution`, else `answer`.
        absolute: The largest accepted difference from the gold, 0 or more, in the gold's unit.
        relative: The largest accepted difference as a share of the gold, in [0, 1): 0.01 is 1 %. A difference within
            either tolerance is accepted. A gold of 0 allows no relative difference.
        percent: The value of `28%` in golds and answers: 0.28 (`fraction`), 28 (`number`), or both (`either`). With
            `fraction`, 28% also equals 28 if the prompt asks for a percentage.
        units: The units that may follow a number: `any`, or a list of units; an empty list allows none. `any` accepts
            every known unit, and converts it to the gold's unit, and every counted thing: common words and plurals. A
            gold without a unit takes no unit that differs from the one that the prompt asks for. Words that scale a
            number (`million`, `crore`, `hundredths`) must be listed, unless the prompt asks in them: "How many dozen?"
            Percent and currency signs may always stand.
        answer_from: Where the answer stands; see `final_answer`.
        name: The metric key.

    | completion | gold `1500`, `relative=0.01` | reason |
    |---|---|---|
    | `1500`, `1,500.00`, `1.5e3`, `\boxed{1.5 \times 10^3}`, `Answer: $1490` | CORRECT, 1 | |
    | `1400` | INCORRECT, 0 | `not_equal` |
    | `<answer>1500</answer> or <answer>1600</answer>` | INCORRECT, 0 | `ambiguous` |
    | `1500 apples`, `3 * 500 = 1500`, `1500 (25% of 6000)` | CORRECT, 1 | |
    | `1000 + 500`, `1500 or 1600`, `2 = 1500` | UNPARSEABLE, 0 | `not_a_number` |
    | `1500 apples` with `units=[]` | UNPARSEABLE, 0 | `not_a_number` |
    | `1.5 km` with the gold `1500 m` | CORRECT, 1 | |
    | `1500 km`, `1500 kg`, `1500 apples` with the gold `1500 m` | INCORRECT, 0 | `other_unit` |
    | `1500 minutes` to "How many seconds is that?" | INCORRECT, 0 | `other_unit` |
    | `25 minutes` to "How many seconds are 25 minutes?" | INCORRECT, 0 | `unevaluated` |
    | `1500 K` | INCORRECT, 0 | `other_unit`: it may be thousands; with this unit in the gold 1 |
    | `1500 thousands`, `1500 M`, `1500 pi` | UNPARSEABLE, 0 | `not_a_number` |
    | `nan`, `inf`, `1/0` | UNPARSEABLE, 0 | `not_a_number` |
    | `1e999999999` | UNPARSEABLE, 0 | `out_of_range` |
    | `I do not know.` | UNPARSEABLE, 0 | `no_answer` |
    | anything, without a gold | SKIPPED, none | `gold_missing` |
    | anything, gold `many` or infinite | SKIPPED, none | `gold_not_a_number` |

    Raises:
        ValueError: for a tolerance that is negative or not finite, a `relative` of 1 or more, an unknown `percent` or
            `answer_from`, or `units` that are neither a list of texts nor `any`.

    Examples:
        >>> NumericVerifier(absolute=0.01)(["The answer is 3.14.", "The answer is 3.2."], answer=[3.14159, 3.14159])
        [1.0, 0.0]
        >>> NumericVerifier(units=["km"])(["Answer: 1,200 km"], answer=["1200 km"])
        [1.0]
        >>> takes = NumericVerifier()
        >>> takes(["It takes 5 minutes.", "That is 5 s."], prompts=["How many minutes?"] * 2, answer=[5, 5])
        [1.0, 0.0]
    """

    advice: ClassVar[Mapping[str, str]] = {
        "gold_not_a_number": "Write the gold as a number, with a unit if `units` allows it.",
    }

    column: str | None = None
    absolute: float = 0.0
    relative: float = 0.0
    percent: Percent = "fraction"
    units: Sequence[str] = "any"
    answer_from: AnswerFrom = "marked"
    name: str | None = None

    def __post_init__(self) -> None:
        check_answer_from(self.answer_from)
        check_number("absolute", self.absolute, "a tolerance", least=0)
        check_number("relative", self.relative, "a tolerance", least=0)
        if self.relative >= 1:
            raise ValueError(
                f"relative is a share of the gold below 1, since 1 accepts 0; got {self.relative!r}."
            )
        check_choice("percent", self.percent, PERCENTS)
        if self.units != "any":
            self._check_units()
            # A frozen dataclass allows no plain assignment, and a list cannot be hashed.
            object.__setattr__(self, "units", tuple(self.units))

    def _check_units(self) -> None:
        is_list = not isinstance(self.units, str)
        if not is_list or not all(isinstance(one, str) and one for one in self.units):
            raise ValueError(
                f"units is a list of units, such as ['km', 'm'], or 'any'; got {self.units!r}."
            )

    @property
    def tolerance(self) -> Tolerance:
        return Tolerance(self.absolute, self.relative)

    def find(self, sample: Sample) -> FinalAnswer:
        """Find the final answer; of sentences, marked or not, the value that the last one concludes with."""
        prompt = last_message(sample.prompt)
        golds = [one for gold in self.golds(sample.row) for one in gold_texts(gold)]
        text = in_asked_scale(sample.text, golds, prompt)
        if self.answer_from == "marked":
            text = without_check(text)
        if text != sample.text:
            sample = replace(sample, text=text)
        found = super().find(sample)
        if self.answer_from != "marked":
            return found
        said = (sample.prefill or "") + sample.text
        if not found.problem:
            values = [value_of_expression(one, (), said, prompt) for one in found.answers]
            found = self._last_said(FinalAnswer(tuple(values), found.marks), said, prompt)
        found = with_asked_thing(found, golds, said, prompt)
        found = with_asked_side(found, golds, said, prompt)
        sentence = last_sentence(said[-MAX_SAID:])
        asked = question_of(prompt) or task_of(prompt)
        directed = [
            with_asked_direction(one, golds, sentence, asked) for one in found.answers
        ]
        found = replace(found, answers=tuple(directed))
        return with_asked_amount(found, sentence, prompt)

    def _last_said(self, found: FinalAnswer, said: str, prompt: str) -> FinalAnswer:
        """Return the value that a completion's last sentence concludes with, if an answer is a sentence itself."""
        unread = [
            answer
            for answer in found.answers
            if not isinstance(self._read(answer), Amount) or _REASON.search(answer)
        ]
        if not unread:
            return found
        is_sentence = any(_is_sentence(answer, question_of(prompt)) for answer in unread)
        is_long = any(
            len(answer) <= MAX_SAID and (_LONG.search(answer) or _REASON.search(answer))
            for answer in unread
        )
        if not is_sentence and not is_long:
            return found
        # A marked sentence is read as the sentence alone is.
        told = math_answer(marked_sentence(said) or said, prompt=prompt)
        are_amounts = all(isinstance(self._read(one), Amount) for one in told.answers)
        return told if is_sentence or (told.answers and are_amounts) else found

    def read_gold(self, row: Mapping[str, Any]) -> Golds | str:
        golds = self.golds(row)
        if not golds:
            return "gold_missing"
        prompt = last_message(row.get("prompt"))
        amounts = [
            self._gold(in_sterling(gold, prompt) if isinstance(gold, str) else gold)
            for gold in golds
        ]
        read = tuple(amount for amount in amounts if amount is not None)
        if not read:
            return "gold_not_a_number"
        texts = tuple(text for gold in golds for text in gold_texts(gold))
        return Golds(read, prompt, texts)

    def _gold(self, gold: Any) -> Amount | None:
        if isinstance(gold, bool):
            return None
        # A float gold means the decimal that Python prints: 0.1 is a tenth, not the nearest binary fraction.
        text = str(gold)
        if isinstance(gold, str):
            texts = gold_texts(gold)
            if not texts:
                return None
            text = texts[0]
        amount = self._read(text)
        if isinstance(amount, Amount):
            return amount
        return None

    def judge_answer(self, answer: str, gold: Golds) -> Verdict:
        text = in_sterling(answer, gold.prompt)
        verdict = self._judge_text(text, answer, gold)
        bare = without_asked_rate(text, (), gold.prompt)
        # A gold may have the rate too: "$18.50 per hour".
        if verdict.status is Status.CORRECT or bare == text:
            return verdict
        return self._judge_text(bare, answer, gold)

    def _judge_text(self, text: str, answer: str, gold: Golds) -> Verdict:
        """Judge a text that stands for an answer."""
        is_count = any(
            one.denominator == 1 for amount in gold.amounts for one in amount.values
        )
        said = self._read(
            OUT_OF.sub(r"\1" if is_count else r"\1/\2", text[: MAX_CHARS + 1])
        )
        if not isinstance(said, Amount):
            return unreadable(said)
        differences = {self._difference(one, said, gold.prompt) for one in gold.amounts}
        if "" in differences:
            copies = (is_given(text, one, gold.prompt) for one in gold.texts)
            return wrong("unevaluated", answer=answer) if all(copies) else right(answer)
        if "other_unit" in differences:
            return wrong("other_unit", answer=answer)
        return wrong("not_equal", answer=answer)

    def _difference(self, gold: Amount, said: Amount, prompt: str) -> str:
        """Return the reason code of a mismatch, `not_equal` or `other_unit`; empty if the amounts agree."""
        if self.percent == "fraction" and asks_percentage(prompt):
            gold, said = _in_percent(gold, said)
        asked, given = as_one_currency(gold.unit, said.unit)
        gold = gold._replace(unit=asked)
        said = said._replace(unit=given)
        if not _counts_others(gold, said, prompt):
            scale = Fraction(1)
            # A number without a unit is taken to be in the other's unit.
            if NONE not in (gold.unit, said.unit):
                scale = said.unit.factor / gold.unit.factor
            if self._is_near(gold, said, scale):
                return ""
        # The number is right as it stands, so the unit is wrong.
        if self._is_near(gold, said):
            return "other_unit"
        return "not_equal"

    def _is_near(self, gold: Amount, said: Amount, scale: Fraction = Fraction(1)) -> bool:
        """Test if any value, times `scale`, lies within a tolerance of a gold value."""
        # Convert from the decimal spelling: a tolerance of 0.1 is a tenth, not the nearest binary fraction.
        absolute = Fraction(str(self.absolute))
        relative = Fraction(str(self.relative))
        for wanted in gold.values:
            tolerance = max(absolute, relative * abs(wanted))
            if any(abs(value * scale - wanted) <= tolerance for value in said.values):
                return True
        return False

    def _read(self, text: str) -> Amount | str:
        """Read a text as an amount, or return the reason code `not_a_number` or `out_of_range`.

        Of an equation the last side counts, unless a number among the other sides differs.
        """
        if len(text) > MAX_CHARS:
            return "not_a_number"
        *sides, last = _EQUALS.split(text)
        signs = _EQUALS.findall(text)
        amount = self._read_side(last)
        if not isinstance(amount, Amount):
            return amount
        for place, side in enumerate(sides):
            is_near = set(signs[place:]) != {"="}
            if _differs(self._read_side(side), amount, is_near=is_near):
                return "not_a_number"
        return amount

    def _read_side(self, text: str) -> Amount | str:
        """Read a text without an equals sign."""
        said = _said(text)
        node, measure = _measured(said.node)
        value, is_percent = _value(node)
        if value is None:
            return "out_of_range" if _HUGE.search(text) else "not_a_number"
        if not self._may_stand(measure, said):
            return "not_a_number"
        if is_percent:
            return Amount(self._percentage(value), measure, is_percentage=True)
        return Amount((value,), measure)

    def _percentage(self, value: Fraction) -> tuple[Fraction, ...]:
        """Return the values of `value` percent by the setting `percent`."""
        if self.percent == "fraction":
            return (value / 100,)
        if self.percent == "number":
            return (value,)
        return (value / 100, value)

    def _may_stand(self, measure: Unit, said: Answer) -> bool:
        """Check a number's unit and adjacent words against the setting `units`."""
        if self.units == "any":
            return not said.stray
        units = {NONE, *_CURRENCIES}
        words: set[str] = set()
        for one in self.units:
            # Read as answers are, so that `km` in the list also allows `kilometres`.
            listed = _said(f"1 {one}")
            _, listed_measure = _measured(listed.node)
            units.add(listed_measure)
            words |= listed.stray | listed.counted
        return measure in units and said.stray | said.counted <= words


def _said(text: str) -> Answer:
    """Parse a text as words and quantities, without variables: `5 m` is a length."""
    if "**" in text:
        text = _BOLD.sub("", text)
    text = text.replace("`", "")
    text = strip_delimiters(text)
    # Inside `\text`, the reader takes a dollar without a closing dollar for no money.
    text = _LONE_DOLLAR.sub(r"\1\\$", text)
    text = _IN_BRACKETS.sub(r" \1", text)
    return read("\\text{" + text + "}")


def _measured(node: Node) -> tuple[Node, Unit]:
    """Split a value into amount and unit, and drop a leading name: `Result: 5 km` gives 5 and `km`."""
    match node:
        case Relation(("=" | "~",), (Words() | Symbol(), value)):
            return _measured(value)
        case Quantity(amount, measure):
            return amount, measure
    return node, NONE


def _value(node: Node) -> tuple[Fraction | None, bool]:
    """Return (number, is percentage) of a parsed node; number None for an expression such as `1 + 2`."""
    match node:
        case Number(value):
            return value, False
        case Apply("%", (Number(value),)):
            return value, True
        case Apply("/", (Number(above, places), Number(below))) if below and (
            places or above.denominator == 1
        ):
            return above / below, False
        case Apply("-", (Apply("%" | "/") as inner,)):
            amount, is_percent = _value(inner)
            if amount is not None:
                return -amount, is_percent
    return None, False


def _differs(side: Amount | str, last: Amount, *, is_near: bool) -> bool:
    """Test if a side of an equation is a number far from the last side; different units are not compared.

    If `≈` stands between them, the last side may be any rounding of the side: `86 ≈ 90`.
    """
    if isinstance(side, str):
        return False
    if side.unit.measures != last.unit.measures and NONE not in (side.unit, last.unit):
        return False
    scale = Fraction(1)
    if NONE not in (side.unit, last.unit):
        scale = side.unit.factor / last.unit.factor
    for one, other in itertools.product(side.values, last.values):
        if abs(one * scale - other) <= ROUNDING * abs(other):
            return False
        if is_near and is_rounding(Number(one * scale), Number(other)):
            return False
    return True


def _in_percent(gold: Amount, said: Amount) -> tuple[Amount, Amount]:
    """Compare a percentage with a bare number where the question asks for a number in percent: 70% is 70.

    A bare gold below 1 is a share: 70% is 0.7.
    """
    if gold.is_percentage and not said.is_percentage:
        return gold._replace(values=(*gold.values, *_hundredfold(gold))), said
    is_share = any(abs(value) < 1 for value in gold.values)
    if said.is_percentage and not gold.is_percentage and not is_share:
        # "70% of the pupils": the unit is of the whole.
        return gold, said._replace(values=_hundredfold(said), unit=NONE)
    return gold, said


def _hundredfold(amount: Amount) -> tuple[Fraction, ...]:
    return tuple(100 * value for value in amount.values)


def _counts_others(gold: Amount, said: Amount, prompt: str) -> bool:
    """Detect conflicting units: two dimensions, two counted things, another unit than the prompt's, or kelvin.

    `5 K` needs a unit in the gold, since it can also mean 5000.
    """
    if NONE not in (gold.unit, said.unit):
        return gold.unit.measures != said.unit.measures
    if said.unit == NONE:
        return False
    is_whole = all(value.denominator == 1 for value in gold.values)
    return said.unit == _KELVIN or bool(asked_unit(said.unit, prompt, is_whole=is_whole))


numeric_reward = NumericVerifier(name="numeric_reward")
"""`NumericVerifier` with its defaults, ready for a list of reward functions."""
