"""Numbers, to within a tolerance."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from trl_grpo_ext.rewards.answers.finder import AnswerFrom, check_answer_from
from trl_grpo_ext.rewards.answers.latex import standard, without_text_commands
from trl_grpo_ext.rewards.answers.numbers import leading_number, read_number, unit
from trl_grpo_ext.rewards.answers.verifier import AnswerVerifier, gold_texts, right, unreadable, wrong
from trl_grpo_ext.support.text import did_you_mean
from trl_grpo_ext.verdict import Verdict

Percent = Literal["fraction", "number", "either"]
PERCENTS: tuple[str, ...] = get_args(Percent)
MAX_CHARS = 400  # no honest number is longer

_LEAD = re.compile(
    r"(?:\\?[A-Za-z](?:_\{?\w{1,10}\}?)?\s*)?(?:=|≈|~|\\approx(?![a-z])|\\simeq(?![a-z]))\s*"
    r"|(?:approximately|about|around|roughly)\s+",
    re.IGNORECASE,
)
_DEGREE = re.compile(r"\^\s*\{?\s*\\circ\s*\}?")
_BLANK = re.compile(r"\\ |(?<=\S)~")
_CURRENCY = re.compile(r"\A([+-]?)\s*\\?\$\s*|\s*\\?\$\Z")  # other signs have no place in standard notation
_PERCENT = re.compile(r"\s*(?:\\?%|per\s?cent\b)\Z", re.IGNORECASE)
_UNIT = re.compile(r"(?:[^\W_]|[°\\])(?:[^\W_]|[°\\/^{}·.* -])*")
_POWER_OF_UNIT = re.compile(r"(?:(?<=[A-Za-zµμ^{])|(?<=[\^{]-))\d(?!\d)")
# Words that make another number of the one before them; no unit has them.
_STRAY = frozenset(
    """
    and or not no nor to than minus plus times over maybe perhaps about approximately roughly negative positive
    pi tau phi π τ φ e i x y z factorial power root sqrt log ln exp sin cos tan mod modulo infinity infinite
    percent percentage permille pct bps ppm ppb twice thrice double doubled triple tripled halved score gross grand
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    """.split()  # noqa: SIM905  # readable as prose
)
_SCALES = frozenset(  # these in the plural as well
    """
    dozen hundred thousand lakh lac crore myriad million milliard billion billiard trillion quadrillion quintillion
    sextillion septillion octillion nonillion decillion googol tausend millionen milliarden mil mio mrd bn mn tn
    half halve third quarter fourth fifth sixth seventh eighth ninth tenth eleventh twelfth hundredth thousandth
    millionth billionth trillionth
    """.split()  # noqa: SIM905  # readable as prose
)
_SCALE_SIGNS = frozenset(("k", "K", "M", "B", "T"))  # which may be units too: kelvin, molar, bytes, tesla
_BOLD = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)")


class Quantity(NamedTuple):
    """A number as it was written.

    Attributes:
        values: What it may mean; with `percent: either` more than one.
        unit: What stands after it, without a percent sign; empty if nothing does.
    """

    values: tuple[Fraction, ...]
    unit: str


@dataclass(frozen=True, kw_only=True)
class NumericVerifier(AnswerVerifier[tuple[Quantity, ...]]):
    r"""Compares the completion's final number with the gold, to within a tolerance.

    For measurements, estimates and plain arithmetic. Numbers are read by rule and compared as exact fractions, so that
    0.1 + 0.2 is 0.3 and nothing has to be evaluated: a sum, a root or a word such as `twelve` is no number here. For
    mathematics use `MathVerifier`.

    Read are `1,234.5`, `1 234`, `-3/4`, `\frac{3}{4}`, `1 1/2`, `1.5e3`, `1.5 \times 10^3`, `$5.20`, `28%`, `x = 5` and
    `\approx 5`. The gold is a number or such a text (GSM8K's `... #### 42` and boxes too); a list has several of which
    any will do.

    Args:
        column: The gold's column; by default `solution`, else `answer`.
        absolute: The largest difference that is accepted, 0 or more, in the gold's unit.
        relative: The largest difference that is accepted as a share of the gold, 0 or more and below 1: 0.01 is 1 %.
            A difference within either tolerance is accepted. A gold of 0 has no relative one.
        percent: `28%` is 0.28 (`fraction`), 28 (`number`), or any of the two (`either`), in golds and answers alike.
        units: What may stand after a number: a list of units, or `any`, up to three words. Units are not converted: a
            known unit other than the gold's is wrong. With `any`, words that scale a number or go on with it
            (`million`, `crore`, `hundredths`, `pi`, `squared`) are none. By default nothing may; percent and currency
            signs always may.
        answer_from: Where the answer stands; see `final_answer`.
        name: The metric key.

    | completion | gold `1500`, `relative=0.01` | reason |
    |---|---|---|
    | `1500`, `1,500.00`, `1.5e3`, `\boxed{1.5 \times 10^3}`, `Answer: $1490` | CORRECT, 1 | |
    | `1400` | INCORRECT, 0 | `not_equal` |
    | `\boxed{1500} or rather \boxed{1600}` | INCORRECT, 0 | `ambiguous` |
    | `1500 apples`, `1000 + 500`, `1500 or 1600` | UNPARSEABLE, 0 | `not_a_number` |
    | `1500 km` with `units="any"` and the gold `1500 m` | INCORRECT, 0 | `other_unit` |
    | `1500 M` with `units="any"` | INCORRECT, 0 | `other_unit`; with this unit in the gold 1 |
    | `1500 thousands`, `1500 lakh`, `1500 pi` with `units="any"` | UNPARSEABLE, 0 | `not_a_number` |
    | `nan`, `inf`, `1/0` | UNPARSEABLE, 0 | `not_a_number` |
    | `1e999999999` | UNPARSEABLE, 0 | `out_of_range` |
    | `I do not know.` | UNPARSEABLE, 0 | `not_a_number` |
    | anything, without a gold | SKIPPED, none | `gold_missing` |
    | anything, gold `many` or infinite | SKIPPED, none | `gold_not_a_number` |

    Raises:
        ValueError: for a tolerance that is negative or not finite, a `relative` of 1 or more, and for a `percent`,
            `units` or `answer_from` that does not exist.

    Example:
        >>> NumericVerifier(absolute=0.01)(["The answer is 3.14.", "The answer is 3.2."], answer=[3.14159, 3.14159])
        [1.0, 0.0]
        >>> NumericVerifier(units=["km"])(["Answer: 1,200 km"], answer=["1200 km"])
        [1.0]
    """

    advice: ClassVar[Mapping[str, str]] = {
        "gold_not_a_number": "Write the gold as a number; if it has a unit, allow it: units=...",
    }

    column: str | None = None
    absolute: float = 0.0
    relative: float = 0.0
    percent: Percent = "fraction"
    units: Sequence[str] = ()
    answer_from: AnswerFrom = "marked"
    name: str | None = None

    def __post_init__(self) -> None:
        check_answer_from(self.answer_from)
        for tolerance in ("absolute", "relative"):
            _check_tolerance(tolerance, getattr(self, tolerance))
        if self.relative >= 1:
            raise ValueError(f"relative is a share of the gold below 1, since 1 accepts 0; got {self.relative!r}.")
        if self.percent not in PERCENTS:
            raise ValueError(f"There is no percent {self.percent!r}. {did_you_mean(str(self.percent), PERCENTS)}")
        if self.units != "any":
            if isinstance(self.units, str) or not all(isinstance(unit, str) and unit for unit in self.units):
                raise ValueError(f"units is a list of units, such as ['km', 'm'], or 'any'; got {self.units!r}.")
            object.__setattr__(self, "units", tuple(self.units))

    def read_gold(self, row: Mapping[str, Any]) -> tuple[Quantity, ...] | str:
        golds = [self._gold(gold) for gold in self.golds(row)]
        return tuple(gold for gold in golds if gold is not None) or ("gold_not_a_number" if golds else "gold_missing")

    def _gold(self, gold: Any) -> Quantity | None:
        # Of a float the decimal that it is shown as.
        texts = gold_texts(gold) if isinstance(gold, str) else (str(gold),)
        if not texts or isinstance(gold, bool):
            return None
        read = self._read(texts[0])
        return read if isinstance(read, Quantity) else None

    def judge_answer(self, answer: str, gold: tuple[Quantity, ...]) -> Verdict:
        said = self._read(answer)
        if not isinstance(said, Quantity):
            return unreadable(said)
        near = [
            one for one in gold if any(self._is_near(value, wanted) for value in said.values for wanted in one.values)
        ]
        if not near:
            return wrong("not_equal", answer=answer)
        if all(_units_differ(one, said) for one in near):
            return wrong("other_unit", answer=answer)
        return right(answer)

    def _is_near(self, value: Fraction, gold: Fraction) -> bool:
        # As written: a tolerance of 0.1 is a tenth, not the float that is near to it.
        tolerance = max(Fraction(str(self.absolute)), Fraction(str(self.relative)) * abs(gold))
        return abs(value - gold) <= tolerance

    def _read(self, text: str) -> Quantity | str:
        """The number that a text is, or the reason code why it is none."""
        if len(text) > MAX_CHARS:
            return "not_a_number"
        plain = _plain(text)
        plain = _LEAD.sub("", plain, count=1) if _LEAD.match(plain) else plain
        plain = _CURRENCY.sub(r"\1", plain).strip()
        percent = _PERCENT.search(plain)
        plain = plain[: percent.start()].strip() if percent else plain
        plain, measure = self._without_unit(plain)
        found = read_number(plain)
        if isinstance(found, str):
            return found
        value = found.value
        if not percent:
            return Quantity((value,), measure)
        shares = {"fraction": (value / 100,), "number": (value,), "either": (value / 100, value)}
        return Quantity(shares[self.percent], measure)

    def _without_unit(self, text: str) -> tuple[str, str]:
        """The text without the unit at its end, if one may stand there, and the unit."""
        plain, rest = leading_number(text)
        rest = rest.strip()
        rest = rest[1:-1].strip() if rest.startswith("(") and rest.endswith(")") else rest
        return (plain, rest) if self.units and plain and rest and self._is_unit(rest) else (text, "")

    def _is_unit(self, rest: str) -> bool:
        if self.units != "any":
            return _unit_form(rest) in {_unit_form(_plain(unit)) for unit in self.units}
        sober = _UNIT.fullmatch(rest) and not re.search(r"\d", _POWER_OF_UNIT.sub("", rest))
        return bool(sober) and len(rest.split()) <= 3 and _names_a_unit(rest)


def _check_tolerance(name: str, value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type,operator]
        raise ValueError(f"{name} is a tolerance, a finite number that is 0 or more; got {value!r}.")


def _plain(text: str) -> str:
    r"""The text in standard notation: no Markdown, nothing in `\text{}`, no parentheses around it."""
    text = without_text_commands(standard(_BOLD.sub("", text).replace("`", "")))
    text = _BLANK.sub(" ", _DEGREE.sub("°", text))
    text = " ".join(text.split()).rstrip(".,;").strip()
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text


def _names_a_unit(text: str) -> bool:
    """Whether no word of a text makes another number of the one before it, as `pi`, `millions` and `tenths` do."""
    text = unicodedata.normalize("NFKC", text)
    words = [word.casefold() for word in re.findall(r"[^\W\d_]+", text)]
    if re.match(r"squared|cubed|[kKMBT]\.?\s", text) or any(char.isnumeric() and not char.isascii() for char in text):
        return False
    scaled = any(word in _STRAY or word in _SCALES or word.removesuffix("s") in _SCALES for word in words)
    return bool(words or "°" in text) and not scaled


def _units_differ(gold: Quantity, said: Quantity) -> bool:
    """Whether both have a unit and not the same; a unit that is left out is fine, unless it may be a scale: `5 M`."""
    if said.unit in _SCALE_SIGNS and said.unit != gold.unit:
        return True
    one, other = _unit_form(gold.unit), _unit_form(said.unit)
    if not one or not other or one.removesuffix("s") == other.removesuffix("s"):
        return False
    return unit(f"1 {one}") is None or unit(f"1 {one}") != unit(f"1 {other}")


def _unit_form(text: str) -> str:
    text = " ".join(re.sub(r"[{}.]", "", text).split()).casefold()
    return re.sub(r"(?<=[a-z])\s*\^?(-?\d)", r"^\1", text)  # cm2 is cm^2


numeric_reward = NumericVerifier(name="numeric_reward")
"""`NumericVerifier` with its defaults, ready for a list of reward functions."""
