"""Units of answers, read from the table `units.txt`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files

_PREFIXES = {
    "n": -9, "μ": -6, "u": -6, "m": -3, "c": -2, "d": -1, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12, "p": -12,
}  # fmt: skip
_PREFIX_NAMES = {
    "nano": -9, "micro": -6, "milli": -3, "centi": -2, "deci": -1, "kilo": 3, "mega": 6, "giga": 9, "tera": 12,
}  # fmt: skip
# Derived measures: their base measures with powers, and the factor of the first unit. A newton is 1000 g m / s^2.
_DERIVED: Mapping[str, tuple[tuple[tuple[str, int], ...], Fraction | int]] = {
    "area": ((("length", 2),), 1), "volume": ((("length", 3),), Fraction(1, 1000)),
    "speed": ((("length", 1), ("time", -1)), 1), "force": ((("length", 1), ("mass", 1), ("time", -2)), 1000),
    "energy": ((("length", 2), ("mass", 1), ("time", -2)), 1000),
    "power": ((("length", 2), ("mass", 1), ("time", -3)), 1000),
    "pressure": ((("length", -1), ("mass", 1), ("time", -2)), 1000),
}  # fmt: skip
# The measures of currencies: `money` of dollars, `money:euro`.
MONEY = "money"
# Letters of a currency's code or sign.
MAX_CODE = 3
_AREAS = ("square", "squared", "sq")
_VOLUMES = ("cubic", "cubed", "cu")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: powers of measures with a factor.

    Attributes:
        measures: Each measure with its power, in order: `(("length", 1), ("time", -1))` for a speed.
        factor: Size in the measures' first units: 1000 for km, because the metre is the first unit of length.
    """

    measures: tuple[tuple[str, int], ...] = ()
    factor: Fraction = Fraction(1)

    def times(self, other: Unit, power: int = 1) -> Unit:
        """Multiply this unit by a power of `other`.

        Examples:
            >>> unit("km").times(unit("h"), -1).measures
            (('length', 1), ('time', -1))
        """
        # Most units have a single part.
        if self is NONE and power == 1:
            return other
        powers = dict(self.measures)
        for measure, raised in other.measures:
            powers[measure] = powers.get(measure, 0) + raised * power
        measures = tuple(
            sorted((measure, raised) for measure, raised in powers.items() if raised)
        )
        return Unit(measures, self.factor * other.factor**power)


NONE = Unit()


@lru_cache(maxsize=8192)
def is_unit(word: str) -> bool:
    """Check whether the table contains a word."""
    return word in _table() or word.casefold().rstrip(".") in _table(long=True)


@lru_cache(maxsize=8192)
def unit(word: str) -> Unit:
    """Look up a word's unit.

    Raises:
        KeyError: The table does not contain the word.

    Examples:
        >>> unit("km") == unit("kilometers"), unit("cm").factor, is_unit("banana"), is_unit("mn")
        (True, Fraction(1, 100), False, False)
    """
    short = _table()
    if word in short:
        return short[word]
    return _table(long=True)[word.casefold().rstrip(".")]


def is_currency(word: str) -> bool:
    """Check whether a word names a currency."""
    if not is_unit(word):
        return False
    powers = dict(unit(word).measures)
    return list(powers.values()) == [1] and all(map(is_money, powers))


def is_money(measure: str) -> bool:
    """Check whether a measure is a currency."""
    return measure.startswith(MONEY)


@cache
def currency_names() -> tuple[str, ...]:
    """List the names and codes of currencies and coins, without signs: dollar, cent, EUR."""
    names = []
    for measure, _, *spellings in _rows():
        if is_money(measure):
            names += [name for name in spellings if name.isalpha()]
    return tuple(names)


@cache
def currency_signs() -> str:
    """Return the signs that stand before an amount of money, as the characters of a regex's class.

    Examples:
        >>> [sign in currency_signs() for sign in "$€£₹"], currency_signs().isascii()
        ([True, True, True, True], False)
    """
    signs = "$"
    for measure, _, *spellings in _rows():
        if is_money(measure):
            signs += "".join(sign for sign in spellings if not sign[0].isalpha())
    return signs


@cache
def currency_codes() -> Mapping[str, str]:
    """Map each code and sign of a currency to the currency's code, as read behind an amount.

    Examples:
        >>> [currency_codes()[name] for name in ("CHF", "₩", "Rs")]
        ['CHF', 'KRW', 'INR']
    """
    found = {}
    for measure, _, *spellings in _rows():
        if not is_money(measure):
            continue
        codes = [each for each in spellings if len(each) == 3 and each.isupper()]
        for name in spellings:
            # Words in small letters stand behind their amount only.
            is_code = len(name) <= MAX_CODE and (not name.isascii() or not name.islower())
            if codes and is_code:
                found[name] = name if name.isupper() else codes[0]
    return found


def as_one_currency(whole: Unit, part: Unit) -> tuple[Unit, Unit]:
    """Return an amount's unit and its coin's as units of one currency, if their names have other meanings too.

    Examples:
        >>> as_one_currency(unit("pound"), unit("pence")) == (unit("gbp"), unit("pence"))
        True
        >>> [as_one_currency(unit(whole), unit("cent"))[1].measures for whole in ("euro", "yen")]
        [(('money:euro', 1),), (('money', 1),)]
    """
    cent, pence, sterling = unit("cent"), unit("pence"), unit("gbp")
    if whole == unit("pound") and part in (cent, pence):
        whole = sterling
    if part == cent and whole in (unit("euro"), sterling):
        part = Unit(whole.measures, cent.factor)
    return whole, part


def raised_by(word: str) -> int:
    """Return the power of `square` (2), `cubed` (3) and similar words; 1 for other words."""
    plain = word.casefold()
    if plain in _AREAS:
        return 2
    if plain in _VOLUMES:
        return 3
    return 1


@cache
def _table(*, long: bool = False) -> Mapping[str, Unit]:
    """Map each spelling to its unit: short spellings, or with `long` the long spellings in lower case."""
    found: dict[str, Unit] = {}
    for measure, factor, *spellings in _rows():
        measures, first = _DERIVED.get(measure, (((measure, 1),), 1))
        scale = Fraction(factor) * first
        for spelling in spellings:
            for word, times in _prefixed(spelling):
                if (len(word) > 3) != long:
                    continue
                # Only long spellings have plurals.
                forms = (word, word + "s", word + "es") if long else (word,)
                for form in forms:
                    found.setdefault(form, Unit(measures, scale * times))
    return found


def _rows() -> Iterator[list[str]]:
    """Yield the rows of the table: a measure, a factor and spellings."""
    table = files("trl_grpo_ext.answers.read").joinpath("units.txt")
    for line in table.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield line.split()


def _prefixed(spelling: str) -> list[tuple[str, Fraction]]:
    """Spell a unit with each allowed prefix, and give the factor of the prefix: `("kg", 1000)` for `*g`."""
    plain = spelling.lstrip("*").replace("_", " ")
    found = [(plain, Fraction(1))]
    if not spelling.startswith("*"):
        return found
    prefixes = _PREFIX_NAMES if len(plain) > 3 else _PREFIXES
    for prefix, power in prefixes.items():
        found.append((prefix + plain, Fraction(10) ** power))
    return found


def _long_names(measure: str) -> Iterator[str]:
    """Yield the long names of a measure's units: kilometers, miles, foot."""
    for name, found in _table(long=True).items():
        if found.measures == ((measure, 1),):
            yield name


# A pattern of the names of lengths. Other short names are also words or halves of a day: in, pm.
LENGTHS = (
    "|".join(sorted(_long_names("length"), key=len, reverse=True)) + "|km|cm|mm|mi|ft|yd|m"
)
