"""Find the values of a gold that names several: `x = 10, y = 5`, `Ann is 17 and Ben is 13`, `24 red and 16 blue`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple

from trl_grpo_ext.answers.find.final_answer import FinalAnswer
from trl_grpo_ext.answers.find.hedges import is_hedged
from trl_grpo_ext.answers.find.last_sentence import answer_of, ending
from trl_grpo_ext.answers.find.phrases import formal, informal
from trl_grpo_ext.answers.read.answer import MAX_CHARS, read
from trl_grpo_ext.answers.read.number_words import in_digits
from trl_grpo_ext.answers.read.signal_words import (
    CONDITION,
    DENIAL,
    DOUBT,
    THEREFORE,
    WRONG,
    any_of,
)
from trl_grpo_ext.answers.read.spelling import strip_delimiters, without_text_commands
from trl_grpo_ext.answers.read.tree import (
    OF_OWN_TYPE,
    Apply,
    Collection,
    Logic,
    Node,
    Number,
    Opaque,
    Quantity,
    Relation,
    Remainder,
    Symbol,
    Words,
    symbols,
    walk,
)
from trl_grpo_ext.answers.read.units import currency_signs, is_unit

# Named values in a gold.
MAX_NAMED = 6
# Words between a name and its value: "an adult ticket now costs about $12".
MAX_BETWEEN = 4
# Values of a point or a list that letters may name.
MAX_LETTERS = 4
# Characters of a name or a formula.
MAX_NAME = 80

_SIGNS = currency_signs()
_AMOUNT = rf"(?<![\w.)])[-−]?[{_SIGNS}]?\d+(?:[.,/:]\d+)*%?(?!\w)"
# cm, km/h, m²
_UNIT = r"[A-Za-z°]+(?:/[a-z]+)?[²³]?"
_VALUE = re.compile(rf"({_AMOUNT})(?:\s+({_UNIT}))?")
# 54 cm^2
_POWER = re.compile(rf"({_AMOUNT}\s+[A-Za-z]+)\^\{{?([23])\}}?(?![\w.])")
# Words that are seldom units, though the table has them.
_NO_UNITS = frozenset(("in", "a", "at", "as"))
_NAME = r"[A-Za-z]\w*(?:-\w+)?(?:\s+[a-z]\w*(?:-\w+)?){0,3}?"
_IS = r"(?:is|are|was|were|has|had|gets?|costs?|pays?|share is)"
_NAMED = re.compile(
    rf"(?:[Tt]he\s+)?({_NAME})(?:['’]s)?(?:\s+{_IS})?\s*(?:[:=]|-(?=\s))?\s*({_AMOUNT}(?:\s+{_UNIT}){{0,3}})\.?"
)
_COUNTED = re.compile(
    rf"({_AMOUNT})\s+(?:(?:are|is|were|was)\s+)?([a-z]{{3,}}(?:\s+[a-z]+){{0,2}})\.?"
)
_CLAUSE = re.compile(rf"[,;]\s+|,?\s+(?:and|&|while|whereas|but|{THEREFORE})\s+|\n")
_SENTENCE = re.compile(r"(\n\s*|(?<=[.!?])\s+)")
_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_MARKUP = re.compile(r"\*\*|__|`|\\[()\[\]]|\$\$|\\q?quad\b|\\[,; ]")
# Formulas, but not the "5 and Bob has " of "Ann has $5 and Bob has $6"
_FORMULA = re.compile(
    r"\$([^$\n]*[=\\][^$\n]*|[-−]?\d+(?:\.\d+)?|(?![^$\n]*[a-z]{2})[^$\n]*[a-zπ√∞,][^$\n]*)\$"
)
_IN_BRACKETS = re.compile(r"[(\[][^()\[\]\n]{1,80}[)\]]")
_FRACTION = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")
# A bracket with words, not with a command: (2\pi, 0)
_ASIDE = re.compile(r"\s*\([^()]*(?<![\\A-Za-z])[a-z]{2}[^()]*\)")
# The money behind counted things: "6 quarters ($1.50)"
_WORTH = re.compile(
    rf"(\d\s[a-z]{{3,20}})\s?\((?:= ?)?(?:[{_SIGNS}]\d[\d.,]{{0,12}}|\d{{1,4}} ?¢)\)"
)
_INTRODUCTION = re.compile(r"[^:]*:\s(?=.*[A-Za-z])")
# A name's words, as of "y-intercept" or "axis of symmetry"
_LEAD = re.compile(
    r"(?:[Tt]he\s+)?([A-Za-z][A-Za-z-]*(?:\s+[a-z][a-z-]*){0,3})(?![A-Za-z-])"
)
_WORD = re.compile(r"[A-Za-z-]+")
# Functions with their arguments are formulas: "sin x, cos y"
_FUNCTIONS = frozenset("sin cos tan sec csc cot log exp lim max min gcd lcm det".split())  # noqa: SIM905
_IN_WORDS = re.compile(
    r"(?<![\\A-Za-z])(?!(?:pi|sqrt|sin|cos|tan|ln|log|exp)\b)[A-Za-z]{2}"
)
_NO_FORMULAS = (Words, Opaque, Quantity, *OF_OWN_TYPE)
# What may stand between a name and its value: "of the circle is at"
_CONNECTED = re.compile(
    r"(?:\s+(?:of|for)\s+(?:the|this|its)\s+[a-z]+)?\s*"
    r"(?:[:=]|\b(?:is\s+at|is|are|equals|of|at|on|was)\b)?\s*(?![:=])(\S.*)"
)
_PLAIN_AMOUNT = re.compile(r"[-−]?\d+(?:[./]\d+)?")
_AMOUNT_ONLY = re.compile(rf"{_AMOUNT}(?:\s+{_UNIT}){{0,3}}")
# Working before a result: the `15 - 10 =` of `y = 15 - 10 = 5`.
_CHAIN = re.compile(r"=.*=")
_WORKING = re.compile(
    rf"(?<![\w.])[-−(\d{_SIGNS}][-−+*/×÷(). \d{_SIGNS}]*=\s*(?=[-−{_SIGNS}\d])"
)
_NOT_SAID = any_of(
    DENIAL, DOUBT, CONDITION, "or|would|nobody|except|when|suppose|assume|let"
)
# "For a = 2 and b = 3, the sum is 5"
_GIVEN = re.compile(r"\W*(?:for|given|with|using)\s+\w+\s*=", re.IGNORECASE)
# Words between a name and a number that is not its value: "the mean of 3", "x plus 3", "12 more than".
_OTHERWISE = any_of(
    "of|for|from|by|with|per|plus|minus|times|over|in|at|after|before|least|most|squared"
)
_COMPARED = re.compile(
    r"\b(?:more|less|fewer|times|than|\w+er than|as \w+(?: \w+)? as)\b|[+*^<>×÷]",
    re.IGNORECASE,
)
# 2 hours 15 minutes is denied by "It does not take 2 hours 15 minutes", and not by "..., not 3 hours".
_DENIED_AMOUNT = re.compile(
    r"(?<!,)(?:\s(?:not|never|cannot)|n['’]t)\s+(?:[a-z]+\s+){0,2}\W*\d", re.IGNORECASE
)
# "Perimeter: 26 cm", "Area = 8 * 5 = 40", "Angle 1: 30°"
_LABELLED = re.compile(
    r"\s*((?!step)[A-Za-z][A-Za-z '’-]{0,40}?(?: \d)?)\s*[:=]\s*(\S.{0,100}?)[.,;\s]*",
    re.IGNORECASE,
)
_LETTER = re.compile(r"(?<![\w\\'’])[A-Za-z](?![\w'’])")
# "(p, q)", but not "f(x, y)"
_POINT = re.compile(r"(?<![A-Za-z])\(\s*[A-Za-z](?:\s*,\s*[A-Za-z]){1,3}\s*\)")
# "p and q", "p, q, and r", but not the "x, y" of "2x, y = 5"
_JOINED = re.compile(
    r"(?<![\w+*/=^-])(?<![-+*/=]\s)[A-Za-z](?:\s*,?\s+and\s+[A-Za-z]|\s*,\s*[A-Za-z])+(?![\w'’]|\s*[-+*/^=(<>])"
)
_SIZED = re.compile(r"\\(?:left|right|[bB]igg?)(?![A-Za-z])")
# The end of a line, or of a labelled value inside a line.
_LINE_END = re.compile(r"\n|[,;]\s+(?=[A-Za-z])")
_ANSWER_MARK = re.compile(r"\banswer\W*\Z", re.IGNORECASE)
# "Suppose:", "This is wrong:"
_NOT_ANNOUNCED = any_of(DENIAL, DOUBT, CONDITION, WRONG, "suppose|assume|guess")
# Before a further statement, which may take back the one before.
GOES_ON = any_of(THEREFORE, "but|then")


class Part(NamedTuple):
    """A named value of a gold: the expression that finds the name, the value, and the gold's text around it."""

    name: re.Pattern[str]
    before: str
    value: str
    after: str


class Name(NamedTuple):
    """A name in a clause: start and end in characters, and the index of the gold's part."""

    start: int
    end: int
    place: int


class Value(NamedTuple):
    """The place of an amount in a clause; `text` includes its unit."""

    start: int
    end: int
    text: str


class Clause(NamedTuple):
    """A clause with its names and values in order."""

    text: str
    names: list[Name]
    values: list[Value]


def with_named_values(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = ""
) -> FinalAnswer:
    """Take the values that a completion's end gives to the names of a gold with several, in any order and form.

    Examples:
        >>> with_named_values(answer_of("(5, 10)"), ["x = 10, y = 5"], "So y is 5 and x is 10.").answers
        ('x = 10, y = 5',)
        >>> with_named_values(answer_of("12"), ["12 chickens and 8 cows"], "Chickens: 8\\nCows: 12").answers
        ('8 chickens, 12 cows',)
        >>> with_named_values(answer_of("y = 2"), ["(3, 2)"], "So x = 3. Then y = 2.").answers
        ('x = 3, y = 2',)
    """
    end = ending(completion)
    for gold in golds:
        # A point told as "(3, 2)" needs no names.
        is_point = 1 < _plain_size(gold) == _plain_size(", ".join(found.answers))
        asked = gold if is_point else with_letters(_with_parts_named(gold), end, prompt)
        parts = named_parts(asked)
        if not parts:
            continue
        told: dict[int, str] = {}
        for text in _statements(found, end):
            told = told_values(text, parts) or told
            if len(told) == len(parts):
                break
        if asked != gold and len(told) < len(parts):
            continue
        same = [is_same(parts[place].value, value) for place, value in told.items()]
        if all(same) and len(told) == len(parts):
            return found if _counts_another(end, told, parts, prompt) else answer_of(asked)
        if not all(same):
            return answer_of(
                ", ".join(_with_value(parts[place], told[place]) for place in sorted(told))
            )
    return found


def _counts_another(
    text: str, told: Mapping[int, str], parts: Sequence[Part], prompt: str
) -> bool:
    """Check whether a text's last sentence counts things that no name and no word of the prompt tells: "2 nickels".

    The count of all things, "15 coins", is no other.
    """
    if not prompt:
        return False
    names = [part.name for part in parts]
    asked = prompt[-MAX_CHARS:].casefold()
    for clause in _CLAUSE.split(_SENTENCE.split(_plain(text).strip())[-1]):
        counted = _COUNTED.fullmatch(clause.strip(" ."))
        if counted is None or any(name.search(clause) for name in names):
            continue
        thing = counted[2].rpartition(" ")[2]
        is_known = thing.rstrip("s") in asked or is_unit(thing)
        sizes = [amount_size(value) for value in told.values()]
        is_total = _sum_of(sizes) == amount_size(counted[1])
        if not is_known and not is_total:
            return True
    return False


def _sum_of(sizes: Sequence[object]) -> Fraction | None:
    """Return the sum of plain numbers; None for other amounts."""
    numbers = [size for size in sizes if isinstance(size, Fraction)]
    return sum(numbers, Fraction(0)) if len(numbers) == len(sizes) else None


def with_labelled_lines(
    found: FinalAnswer, golds: Sequence[str], completion: str, prompt: str = ""
) -> FinalAnswer:
    """Take the values of the labelled lines that end a completion, if each gold is a list of as many plain values.

    The values stand in the order in which the question names the labels; else in the order of the lines.

    Examples:
        >>> asked = "Find its perimeter and its area."
        >>> with_labelled_lines(answer_of("40"), ["26, 40"], "Area: 8 * 5 = 40\\nPerimeter: 26", asked).answers
        ('(26, 8 * 5 = 40)',)
    """
    sizes = {_plain_size(gold) for gold in golds}
    # A single value is no list, and lines are read only for lists.
    if max(sizes) < 2:
        return found
    lines = [line for line in _LINE_END.split(ending(completion)) if line.strip()]
    labelled = (_LABELLED.fullmatch(_plain(line)) for line in reversed(lines))
    # One more than asked for is enough to tell that there are too many.
    last = takewhile(_tells_amount, islice(labelled, max(sizes) + 1))
    told = [line for line in last if line][::-1]
    before = "\n".join(lines[: len(lines) - len(told)][-1:])
    is_marked = found.marks != ("phrase",) or _ANSWER_MARK.search(before)
    if sizes != {len(told)} or not is_marked or _NOT_ANNOUNCED.search(before):
        return found
    values = _in_asked_order([(line[1], line[2]) for line in told], prompt)
    return answer_of(f"({', '.join(values)})") if values else found


def _plain_size(gold: str) -> int:
    """Return the number of a gold's values if it is a list of plain numbers or quantities; else 1."""
    match read(gold).node:
        case Collection("list" | "()", items) if all(
            isinstance(one, Number | Quantity) for one in items
        ):
            return len(items)
    return 1


def _tells_amount(line: re.Match[str] | None) -> bool:
    """Check whether a labelled line gives a single amount, as the last side of an equation at most."""
    if line is None or _NOT_SAID.search(line[0]) or is_hedged(line[0]):
        return False
    value = read(line[2].rpartition("=")[2])
    amount = value.node.amount if isinstance(value.node, Quantity) else value.node
    return isinstance(amount, Number) and not value.stray


def _with_parts_named(gold: str) -> str:
    """Write a remainder with its names: `quotient 7, remainder 5` for "7 R 5"; other golds stay unchanged."""
    match read(gold).node:
        case Remainder(Number(quotient), Number(rest)):
            return f"quotient {quotient}, remainder {rest}"
    return gold


def with_letters(gold: str, text: str, prompt: str) -> str:
    """Write a point's or list's values with the letters that a text names: the question's letters, or x, y, z.

    Examples:
        >>> with_letters("(3, 2)", "y = 2, x = 3", "Where does y = 2 meet x = 3?")
        'x = 3, y = 2'
        >>> with_letters("(3, 2)", "q = 2, p = 3", "Find the pair $(p, q)$."), with_letters("(3, 2)", "(3, 2)", "")
        ('p = 3, q = 2', '(3, 2)')
    """
    node = read(gold).node if "," in gold else None
    if not isinstance(node, Collection) or not 1 < len(node.items) <= MAX_LETTERS:
        return gold
    if node.kind not in ("list", "()") or not all(map(_is_value, node.items)):
        return gold
    values = _items(gold)
    told = set(_LETTER.findall(text[-MAX_CHARS:]))
    if len(values) != len(node.items):
        return gold
    for letters in _letters_asked(prompt, len(values), in_brackets=node.kind == "()"):
        if told.issuperset(letters):
            pairs = zip(letters, values, strict=True)
            return ", ".join(f"{letter} = {value}" for letter, value in pairs)
    return gold


def _is_value(node: Node) -> bool:
    return isinstance(node, Number | Quantity | Symbol | Apply) and not symbols(node)


def _items(collection: str) -> list[str]:
    """Return the texts of a point's or list's items."""
    plain = _SIZED.sub("", strip_delimiters(collection)).strip()
    if plain.startswith("("):
        plain = plain[1:-1]
    return [item.strip() for item in plain.split(",")]


def _letters_asked(prompt: str, size: int, *, in_brackets: bool) -> Iterator[list[str]]:
    """Yield the names that a question may give to values in order: "(p, q)", then "p and q", and x, y, z.

    A point's x and y have the order of the plane, unless the question asks for "(y, x)".
    """
    asked = _SIZED.sub("", prompt[-MAX_CHARS:].replace("$", ""))
    usual = "xyz"[:size]
    for is_point, pattern in ((True, _POINT), (False, _JOINED)):
        for found in reversed(list(pattern.finditer(asked))):
            letters = _LETTER.findall(found[0])
            is_usual = set(letters) == set(usual) and in_brackets and not is_point
            if len(letters) == len(set(letters)) == size and not is_usual:
                yield letters
    if len(usual) == size:
        yield list(usual)


def _in_asked_order(told: Sequence[tuple[str, str]], prompt: str) -> list[str]:
    """Return labelled values in the question's order of the labels; empty if it has only some of them."""
    keys = _keys([label.casefold() for label, _ in told])
    # The values of x and y have an order of their own.
    if any(label in ("x", "y", "z") for label, _ in told):
        return []
    if not all(keys) or len(set(keys)) < len(keys):
        return []
    places = [_place(key, prompt[-MAX_CHARS:]) for key in keys]
    if max(places) < 0:
        return [value for _, value in told]
    if min(places) < 0:
        return []
    return [value for _, (_, value) in sorted(zip(places, told, strict=True))]


def _place(name: tuple[str, ...], prompt: str) -> int:
    """Return the place at which a prompt last has a name, or the number that is the name; -1 without either."""
    if name[0].isdigit():
        return int(name[0])
    return max((found.start() for found in spelling(name).finditer(prompt)), default=-1)


def _statements(found: FinalAnswer, text: str) -> Iterator[str]:
    """Yield the texts that may state the values: from the last phrase on, its sentence alone; else the whole text."""
    marks = (formal(text) or informal(text)) if found.marks == ("phrase",) else []
    if not marks:
        yield text
        return
    yield text[marks[-1].start :]
    yield marks[-1].content


@lru_cache(maxsize=256)
def named_parts(gold: str) -> tuple[Part, ...]:
    """Split a gold into its named values; empty unless the gold consists of several with different names."""
    node = read(gold).node
    is_remainder = isinstance(node, Remainder) and gold.startswith("quotient")
    if isinstance(node, (Number, Quantity, *OF_OWN_TYPE)) and not is_remainder:
        return ()
    texts = [text for text in _CLAUSE.split(_plain(gold)) if text.strip()]
    if not 1 < len(texts) <= MAX_NAMED:
        return ()
    names, spans = [], []
    for text in map(str.strip, texts):
        named, counted = _NAMED.fullmatch(text), _COUNTED.fullmatch(text)
        # The name of "axis of symmetry x = 1" has no letter.
        is_lettered = named is not None and re.search(r"\s[a-z]\Z", named[1]) is not None
        is_plain = (named or counted) and not is_lettered
        formula = None if is_plain else _named_formula(text)
        if named and not formula:
            names.append(named[1])
            spans.append((text[: named.start(2)], named[2], ""))
        elif counted:
            names.append(counted[2])
            spans.append(("", counted[1], text[counted.end(1) :]))
        elif formula:
            name, value = formula
            names.append(name)
            spans.append((text.removesuffix(value), value, ""))
        else:
            return ()
    keys = _keys(names)
    if not all(keys) or len(set(keys)) < len(keys):
        return ()
    return tuple(Part(spelling(key), *span) for key, span in zip(keys, spans, strict=True))


def _named_formula(text: str) -> tuple[str, str] | None:
    """Split "center (2, -3)" or "axis of symmetry: x = 1" into name and formula; None for other texts."""
    lead = _LEAD.match(text)
    for word in _WORD.finditer(text, lead.start(1), lead.end()) if lead else ():
        value = _formula_behind(text, word.end())
        if value and len(word[0]) > 2 and word[0].casefold() not in _FUNCTIONS:
            return text[lead.start(1) : word.end()] if lead else "", value
    return None


def _formula_behind(text: str, end: int) -> str:
    """Return the formula that a clause tells behind its name: `(2,-3)` of "is at (2,-3)"; empty for other texts."""
    told = _CONNECTED.fullmatch(text.rstrip(" .!*"), end)
    if told is None or len(told[1]) > MAX_NAME or _IN_WORDS.search(told[1]):
        return ""
    said = read(told[1])
    match said.node:
        # A calculation is read as its result.
        case Number() | Relation(("=", *_), (Number() | Apply(), *_)):
            return ""
    is_formula = not any(isinstance(node, _NO_FORMULAS) for node in walk(said.node))
    return told[1] if is_formula and not said.stray and not said.counted else ""


def in_order(gold: str, answer: str) -> str:
    """Write a gold's named values as a tuple, which has an order, if nothing else tells the values apart.

    That is so for words that the reader drops, and for an answer without words.

    Examples:
        >>> in_order("7 each, 5 left", "5 each, 7 left"), in_order("Ali 40, Bo 50", "40, 50")
        ('(7, 5)', '(40, 50)')
        >>> in_order("x = 1, y = 2", "1, 2"), in_order("width 6 cm, area 9 cm²", "6 cm and 9 cm²")
        ('x = 1, y = 2', '(6 cm, 9 cm²)')
    """
    parts = named_parts(gold)
    if not parts:
        return gold
    node = read(gold).node
    if isinstance(node, Remainder):
        return gold
    items: tuple[Node, ...] = ()
    match node:
        case Collection(_, items) | Logic(_, items):
            pass
    # A formula may be anything, as the center (2, -3) of a circle.
    are_formulas = any(not _AMOUNT_ONLY.fullmatch(part.value) for part in parts)
    # Of texts without a value, such as "y-intercept -3", the reader keeps the words alone.
    has_dropped = are_formulas or not items or any(map(_is_number, items))
    # The reader takes the name of "width 6 cm" for a unit.
    are_measured = not any(map(_is_of_letter, items)) and all(
        part.before and any(map(str.isalpha, part.value)) for part in parts
    )
    are_apart = bool(items) and all(isinstance(item, Quantity | Relation) for item in items)
    is_bare = not any(map(str.isalpha, without_text_commands(answer)))
    is_tuple = is_bare and (not are_apart or answer.startswith("("))
    # Values of letters are compared by the letters.
    are_lettered = any(map(_is_of_letter, items))
    if (
        has_dropped
        or are_measured
        or is_tuple
        or (not are_lettered and _labels_all(answer, parts))
    ):
        return _tuple([part.value for part in parts])
    return gold


def _tuple(values: Sequence[str]) -> str:
    """Write values as a tuple. Its dollars are no signs of formulas."""
    return f"({', '.join(values)})".replace("$", r"\$")


def _labels_all(answer: str, parts: Sequence[Part]) -> bool:
    """Check whether the answer's clauses and the gold's named amounts correspond, without a clause left over."""
    are_plain = all(
        _PLAIN_AMOUNT.fullmatch(part.value) and not part.after for part in parts
    )
    if not are_plain or len(_CLAUSE.split(_plain(answer))) != len(parts):
        return False
    return len(told_values(answer, parts)) == len(parts)


def _is_number(node: Node) -> bool:
    return isinstance(node, Number)


def _is_of_letter(node: Node) -> bool:
    return isinstance(node, Relation) and isinstance(node.sides[0], Symbol)


def in_gold_order(answer: str, golds: Sequence[str]) -> str:
    """Write the values that an answer gives to all names of a gold as a tuple, if `in_order` writes the gold so.

    Examples:
        >>> in_gold_order("Radius: 4, center: (2, -3)", ["center (2, -3), radius 4"])
        '((2,-3), 4)'
        >>> in_gold_order("(2, -3), 4", ["center (2, -3), radius 4"])
        '(2, -3), 4'
    """
    for gold in golds:
        if r"\$" in answer and _tells_all(answer, gold):
            return gold
        parts = named_parts(gold) if in_order(gold, answer) != gold else ()
        told = told_values(answer, parts) if parts else {}
        if parts and len(told) == len(parts):
            return _tuple([told[place] for place in sorted(told)])
    return answer


def _tells_all(answer: str, gold: str) -> bool:
    """Check whether an answer gives all amounts of a gold to their names: `Kim: \\$80, Lee: \\$90`."""
    parts = named_parts(gold)
    told = told_values(answer, parts) if parts else {}
    values = [told.get(place, "").strip("$") for place in range(len(parts))]
    return bool(parts) and values == [part.value.strip("$") for part in parts]


def _keys(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each name's words without the words of all names: `adult` and `child` of adult and child tickets."""
    words = [name.split() for name in names]
    common = set(words[0]).intersection(*words[1:])
    return [tuple(word for word in name if word not in common) for name in words]


@lru_cache(maxsize=1024)
def spelling(words: tuple[str, ...]) -> re.Pattern[str]:
    """Build the expression for a name: a letter as written, words in any case and number."""
    if len(words) == len(words[0]) == 1:
        return re.compile(rf"(?<![\w\\'’]){re.escape(words[0])}(?![\w'’])")
    stems = [re.escape(re.sub(r"(?<=\w{3})(?<!s)s$", "", word)) for word in words]
    end = r"(?:ren)?(?:['’]?e?s['’]?)?\b"
    joint = rf"{end}\s+"
    return re.compile(rf"\b{joint.join(stems)}{end}", re.IGNORECASE)


def told_values(text: str, parts: Sequence[Part]) -> dict[int, str]:
    """Return the value of each named part that the last sentences of a text tell, up to a sentence that tells none.

    Empty if the sentences give two values to a name.
    """
    told: dict[int, str] = {}
    pieces = ["", *_SENTENCE.split(_plain(text).strip())]
    # Sentences alternate with the joints before them, and both are read from the end.
    for joint, sentence in zip(pieces[-2::-2], pieces[::-2], strict=True):
        said_here = _told_in(sentence, parts)
        if any(told.get(place, value) != value for place, value in said_here.items()):
            return {}
        told.update(said_here)
        # Lines may list several solutions; of sentences in a line, the last counts.
        if not said_here or (len(said_here) == len(parts) and "\n" not in joint):
            break
    return told


def _told_in(sentence: str, parts: Sequence[Part]) -> dict[int, str]:
    """Return the values that a sentence gives to the parts' names; empty if it is hedged, denied or ambiguous."""
    concluded = GOES_ON.split(sentence.rpartition(";")[2])[-1]
    if is_hedged(sentence) or _DENIED_AMOUNT.search(concluded):
        return {}
    told: dict[int, str] = {}
    clauses = [_read(clause, parts) for clause in _CLAUSE.split(sentence)]
    if any(clause.names and not clause.values for clause in clauses):
        return _respectively(clauses, len(parts))
    for clause in clauses:
        if not _is_pair(clause):
            continue
        place, value = clause.names[0].place, clause.values[0].text
        if told.setdefault(place, value) != value:
            return {}
    return told


def _read(clause: str, parts: Sequence[Part]) -> Clause:
    """Find a clause's names and values, after removing the working before a result: `y = 15 - 10 = 5`."""
    text = _WORKING.sub("", _CHAIN.sub("=", clause))
    introduced = _INTRODUCTION.match(text)
    # "Equate the two: x = 5"
    if introduced and not any(part.name.search(introduced[0]) for part in parts):
        text = text[introduced.end() :]
    names = []
    for place, part in enumerate(parts):
        names += [Name(*name.span(), place) for name in part.name.finditer(text)]
    values = []
    if len(names) == 1 and names[0].end - names[0].start > 1:
        formula = _formula_behind(text, names[0].end)
        if formula:
            start = text.rindex(formula)
            value = Value(start, start + len(formula), formula)
            return Clause(text[:start], names, [value])
    for found in _VALUE.finditer(text):
        unit = found[2] or ""
        has_unit = is_unit(unit.partition("/")[0].rstrip("²³")) and unit not in _NO_UNITS
        values.append(Value(*found.span(1), f"{found[1]} {unit}" if has_unit else found[1]))
    return Clause(text, sorted(names), values)


def _is_pair(clause: Clause) -> bool:
    """Check whether a clause says the value of a single name: "the cows are 8", "8 white cows"."""
    if (
        len(clause.names) != 1
        or len(clause.values) != 1
        or _NOT_SAID.search(clause.text)
        or _GIVEN.match(clause.text)
    ):
        return False
    name, value = clause.names[0], clause.values[0]
    is_name_first = name.start < value.start
    between = (
        clause.text[name.end : value.start]
        if is_name_first
        else clause.text[value.end : name.start]
    )
    if len(between.split()) > MAX_BETWEEN or _COMPARED.search(clause.text):
        return False
    return not is_name_first or not _OTHERWISE.search(between)


def _respectively(clauses: Sequence[Clause], count: int) -> dict[int, str]:
    """Pair names with values in order, where all names precede or follow all values: "x and y are 10 and 5"."""
    names: list[int] = []
    values: list[str] = []
    for clause in clauses:
        names += [name.place for name in clause.names]
        values += [value.text for value in clause.values]
    with_values = [bool(clause.values) for clause in clauses if clause.names]
    if (
        len(set(names)) != count
        or not len(names) == len(values) == count
        or sum(with_values) > 1
    ):
        return {}
    for clause in clauses:
        if _NOT_SAID.search(clause.text) or _COMPARED.search(clause.text):
            return {}
    return dict(zip(names, values, strict=True))


def is_same(asked: str, told: str) -> bool:
    """Check whether two amounts are equal, of which only one may have a unit: `$0.45`, `45 cents`, `0.45`."""
    one, other = amount_size(asked), amount_size(told)
    return one == other or _bare(asked) == other or one == _bare(told)


def amount_size(text: str) -> object:
    """Return an amount in its measure's first unit: 45 cents are $0.45."""
    match read(text).node:
        case Quantity(Number(value), measured):
            return measured.measures, value * measured.factor
        case Number(value):
            return value
        case node:
            return node


def _bare(text: str) -> object:
    """Return an amount without its unit."""
    match read(text).node:
        case Quantity(Number(value)):
            return value
    return None


def _with_value(part: Part, value: str) -> str:
    """Write a gold's part with another value."""
    return part.before + value + part.after


def _plain(text: str) -> str:
    """Write numbers in digits, and remove list marks, bold letters, asides and the delimiters of formulas.

    Powers of units are written as `cm²`.
    """
    text = _MARKUP.sub(
        lambda mark: " " if mark[0].startswith("\\") else "", text.replace(r"\$", "$")
    )
    if "(" in text:
        text = _WORTH.sub(r"\1", text)
    text = _FORMULA.sub(r"\1", _ITEM.sub("", text))
    text = _IN_BRACKETS.sub(lambda items: items[0].replace(" ", ""), text)
    text = without_text_commands(text)
    text = _POWER.sub(lambda unit: unit[1] + "²³"[int(unit[2]) - 2], text)
    return in_digits(_ASIDE.sub("", _FRACTION.sub(r"\1/\2", text)))
