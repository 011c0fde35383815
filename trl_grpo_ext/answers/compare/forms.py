"""Recognize and unwrap the written forms of an answer: labels, equations, regions, vectors, matrices, congruences."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeGuard

from trl_grpo_ext.answers.read.numerals import negative
from trl_grpo_ext.answers.read.signal_words import DENIAL, DOUBT, WRONG, any_of
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Builder,
    Collection,
    Logic,
    Matrix,
    Node,
    Number,
    Opaque,
    Quantity,
    Relation,
    Symbol,
    Words,
    children,
    rebuilt,
    rename,
    symbols,
    walk,
)

_LABELLING = frozenset(
    """* + - / ratio abs overline angle triangle vec cup cap setminus gcd lcm""".split()  # noqa: SIM905
)
_SETS = ("cup", "cap", "setminus")
# Words that a comparison of words ignores.
_FILLERS = frozenset(
    """the a an is are it this that there so such function series sequence integral angled exist exists
    wins""".split()  # noqa: SIM905
)
_SAME_WORDS = {
    "no solutions": "no solution", "no real solution": "no solution", "no real solutions": "no solution",
    "empty set": "no solution", "the empty set": "no solution", "does not exist": "dne", "undefined": "dne",
    "all real numbers": "all reals", "all reals": "all reals", "real numbers": "all reals",
    "infinitely many solutions": "infinitely many", "infinite": "infinitely many",
    "an infinite number": "infinitely many",
    "divergent": "diverges", "convergent": "converges",
    "true": "yes", "false": "no", "not true": "no",
}  # fmt: skip
_SET_WORDS = {
    "no solution": Symbol("EmptySet"),
    "all reals": Symbol("Reals"),
    "infinity": Symbol("oo"),
    "infinitely many": Symbol("oo"),
}
# Labels of a set that is no answer: "Not the domain".
_NO_LABEL = any_of(DENIAL, DOUBT, WRONG, "excluded|complement|outside|except")
# Letters that stand for any integer.
_COUNTING = frozenset("jklmt")


def plain(node: Node) -> Node:
    """Normalize a node: unwrap a list with a single item, expand `+-` into two values, turn `or` into a list."""
    match node:
        case Collection("list" | "[]", (item,)):
            return item
        # (1, 2)^T
        case Apply("^", (Collection("()" | "[]") | Matrix() as vector, Symbol("T"))):
            return vector
        # Z/5Z
        case Apply(
            "*", (Apply("/", (Symbol("Integers"), Number(order))), Symbol("Integers"))
        ):
            return Symbol(f"Integers_{order}")
        case Logic():
            return _plain_logic(node)
        case Apply() if _has_both_signs(node):
            return Collection("list", (_with_sign(node, "+-"), _with_sign(node, "-+")))
        case Relation():
            return _plain_relation(node)
        case Apply("ratio", (Number(first), _, _, *_) as parts) if first:
            shares = [
                Number(part.value / first) for part in parts if isinstance(part, Number)
            ]
            return Collection("()", tuple(shares))
        case Collection(kind, items) if any(
            isinstance(item, Apply) and _has_both_signs(item) for item in items
        ):
            spread: list[Node] = []
            for item in items:
                spread += _expanded(item)
            return Collection(kind, tuple(spread))
    return node


def _plain_relation(node: Relation) -> Node:
    match node:
        # f(x) = +-x
        case Relation(("=",), _) if _has_both_signs(node):
            return Collection("list", (_with_sign(node, "+-"), _with_sign(node, "-+")))
        case Relation(
            (_, _) as signs,
            (Number() as low, Apply("*", (Symbol(one), Symbol(other))), Number() as high),
        ):
            # 0 < ab < 4
            return _plain_relation(Relation(signs, (low, Symbol(one + other), high)))
        # b > c > a
        case Relation((_, _, *_) as signs, sides) if set(signs) <= {">", ">="}:
            return Relation(
                tuple(sign.replace(">", "<") for sign in reversed(signs)), sides[::-1]
            )
        # (m, n) in {(1, 2), (2, 1)}
        case Relation(("in",), (Collection("()"), Collection("{}") as values)):
            return values
        case Relation(("=",), (Collection(_, names), Collection(_, values))) if len(
            names
        ) == len(values):
            equations = [Relation(("=",), pair) for pair in zip(names, values, strict=True)]
            return Collection("list", tuple(equations))
    return node


def _plain_logic(node: Logic) -> Node:
    match node:
        case Logic("or" | "and" as word, parts) if all(
            _says_value(part) or not isinstance(part, Relation) for part in parts
        ):
            if (
                word == "and"
                or all(map(_says_value, parts))
                or not any(map(is_region, parts))
            ):
                return Collection("list", tuple(parts))
    return node


def _says_value(node: Node) -> bool:
    return assigned(node) is not None or is_equation(node)


def _has_both_signs(node: Node) -> bool:
    return any(isinstance(one, Apply) and one.name in ("+-", "-+") for one in walk(node))


def _with_sign(node: Node, plus: str) -> Node:
    """Replace both-sign operators by plain signs: operators equal to `plus` become `+`, the opposite ones `-`."""
    below = tuple(_with_sign(one, plus) for one in children(node))
    if isinstance(node, Apply) and node.name in ("+-", "-+"):
        first, second = below
        if node.name != plus:
            second = negative(second)
        return Apply("+", (first, second))
    return rebuilt(node, below)


def _expanded(item: Node) -> tuple[Node, ...]:
    values = plain(item)
    if isinstance(values, Collection) and values != item:
        return values.items
    return (item,)


def same_words(gold: Node, answer: Node) -> bool:
    """Check whether two values agree as words: `even function` equals `even`."""
    said = [_in_words(one) for one in (gold, answer)]
    return bool(said[0]) and said[0] == said[1]


def _in_words(node: Node) -> str:
    match node:
        case Words(text):
            text = _SAME_WORDS.get(text, text)
            telling = [word for word in text.split() if word not in _FILLERS]
            return " ".join(telling) or text
        case Symbol(name):
            return name.casefold()
        # ABC.
        case Apply("*", (one, other)):
            return _in_words(one) + _in_words(other)
    return ""


def set_in_words(node: Node) -> Node:
    """Convert words that name a set, such as `all real numbers`, to that set; other values stay unchanged."""
    if not isinstance(node, Words):
        return node
    usual = _SAME_WORDS.get(node.text, node.text)
    return _SET_WORDS.get(usual, node)


def says_infinitely_many(node: Node) -> bool:
    """Check whether a node is the words "infinitely many" or a synonym, such as "infinitely many solutions"."""
    return isinstance(node, Words) and (
        _SAME_WORDS.get(node.text, node.text) == "infinitely many"
    )


def label_of(node: Node) -> Node | None:
    """Return a statement's name for its value; None without name."""
    found = assigned(node)
    if found is None:
        return None
    name, _ = found
    return name


def part_of(node: Node) -> object:
    """Return a list item's distinguishing mark: its name without index, its unit's measures, or `min` and `max`."""
    match node:
        case Quantity(_, of):
            return of.measures
        case Apply("min" | "max" as name, (_,)):
            return name
    label = label_of(node)
    if isinstance(label, Symbol):
        return stem(label.name)
    return label


def assigned(node: Node) -> tuple[Node, Node] | None:
    """Split an assignment into name and value: `x = 5`, `f(x) = 2x`, `AB = 5`; None for other nodes.

    For `x = 2 + 3 = 5` the value is the last side.
    """
    match node:
        case Relation(
            ("=",), (Apply("+", (Symbol() as name, Number(value, places))), Number(zero))
        ) if zero == 0:
            # x - 3 = 0
            return name, Number(-value, places)
        case Relation(signs, sides) if set(signs) <= {"=", "~"}:
            first, last = sides[0], sides[-1]
            if named(first) and first not in walk(last):
                return first, last
            if (
                len(sides) == 2
                and named(last)
                and not isinstance(first, Symbol)
                and last not in walk(first)
            ):
                return last, first
            if (
                len(sides) > 2
                or isinstance(first, Opaque)
                or not symbols(first) | symbols(last)
            ):
                # 2 + 3 = 5
                return Words(""), last
            if not symbols(last) and (is_label(first) or isinstance(last, Matrix)):
                return first, last
    return None


def named(node: Node) -> bool:
    """Check whether a side of an equation is a name: `x`, `f(3)`, `f^{-1}(x)`, a word."""
    match node:
        case Symbol(name):
            return name not in ("pi", "e", "i", "oo")
        case Words(text):
            return not _NO_LABEL.search(text)
        case Apply("overline" | "angle" | "triangle" | "vec"):
            return True
        case Apply(
            "*", (Apply("/", (Apply("*", (Symbol("d"), Symbol())), Symbol("d"))), Symbol())
        ):
            # dy/dx
            return True
        case Apply(name, _):
            letter = stem(name).removesuffix("^-1").rstrip("'")
            return len(letter) == 1 and letter.isalpha()
    return False


def stem(name: str) -> str:
    """Remove a name's index: `x_1` gives `x`."""
    return name.partition("_")[0]


def is_label(node: Node) -> bool:
    """Check whether a side of an equation only names a quantity, with letters and no number: `AB`, `a + b`, `|AB|`."""
    if named(node):
        return True
    if not symbols(node):
        return False
    return all(
        isinstance(one, Symbol) or (isinstance(one, Apply) and one.name in _LABELLING)
        for one in walk(node)
    )


def same_name(gold: Node, answer: Node) -> bool:
    r"""Check whether two names agree; a gold without index matches any index: `\lambda` and `\lambda_1`."""
    if not (isinstance(gold, Symbol) and isinstance(answer, Symbol)):
        return gold == answer
    if gold == answer:
        return True
    return "_" not in gold.name and stem(gold.name) == stem(answer.name)


def same_order(gold: Node, answer: Node) -> bool:
    """Check whether a list repeats a statement's order of letters: `b, a, c` for `b < a < c`."""
    match gold, answer:
        case Relation(signs, sides), Collection("list", items) if set(signs) in (
            {"<"},
            {">"},
        ):
            return (
                len(sides) > 2
                and sides == items
                and all(isinstance(side, Symbol) for side in sides)
            )
    return False


def is_approximation(node: Node) -> TypeGuard[Relation]:
    """Check whether a statement contains the sign of an approximation."""
    return isinstance(node, Relation) and "~" in node.signs


def approximated(node: Relation) -> list[Node]:
    r"""Return sides of `x = 1/3 \approx 0.33` with a value: the exact and the rounded number."""
    begin = next(place for place, sign in enumerate(node.signs) if sign == "~")
    return [side for side in node.sides[begin:] if not is_label(side)]


def of_same_argument(gold: tuple[Node, Node], answer: tuple[Node, Node]) -> Node:
    """Rewrite a function's value with the gold's argument: `f(t) = t^2` gives `x^2` for a gold `f(x) = ...`."""
    match gold[0], answer[0]:
        case Apply(_, (Symbol(asked),)), Apply(_, (Symbol(given),)) if asked != given:
            return rename(rename(answer[1], asked, asked + "'"), given, asked)
    return answer[1]


def is_function(gold: tuple[Node, Node], answer: tuple[Node, Node]) -> bool:
    """Check whether two assignments may define the same function: `y = 2x` and `f(x) = 2x`."""
    for name, _ in (gold, answer):
        if isinstance(name, Words) or (isinstance(name, Apply) and named(name)):
            return True
    variables = symbols(gold[1])
    return bool(variables) and variables == symbols(answer[1])


def is_equation(node: Node) -> TypeGuard[Relation]:
    """Check whether a node is an equation with two sides."""
    return isinstance(node, Relation) and set(node.signs) == {"="} and len(node.sides) == 2


def is_region(node: Node) -> bool:
    """Check whether a node always represents a number set."""
    match node:
        case Collection("[)" | "(]") | Builder():
            return True
        case Relation(signs, _):
            return not set(signs) <= {"=", "~"}
        case Apply(name, _):
            return name in _SETS
        case Symbol(name):
            return name in ("EmptySet", "Reals")
        case Logic(_, parts):
            return any(is_region(part) for part in parts)
        case Collection("list", items):
            return any(is_region(item) for item in items)
    return False


def can_be_region(node: Node) -> bool:
    """Check whether a node could represent a number set; pairs qualify, because intervals look alike."""
    match node:
        case Collection("()" | "[]", items):
            return len(items) == 2
        case Collection("{}" | "list", _) | Relation():
            return True
    return is_region(node)


def set_told(node: Node) -> Node:
    """Unwrap a set from a membership or a label: `x in [0, 1]`, `D = [0, 1]`, `Domain: [0, 1]`; else no change."""
    match node:
        case Relation(("in",), (Symbol(), domain)):
            return domain
        case Relation(("=",), (Words(label), domain)) if not _NO_LABEL.search(label):
            return domain if can_be_region(domain) else node
        # D(f) may be read as a product.
        case Relation(
            ("=",), (Symbol() | Apply(_, (Symbol(),) | (Symbol(), Symbol())), domain)
        ):
            is_pair = isinstance(domain, Collection) and can_be_region(domain)
            return domain if is_pair or is_region(domain) else node
    return node


def items_of(node: Node) -> tuple[str, tuple[Node, ...]] | None:
    """Return a collection's or vector's kind and items; None for a matrix.

    A single value counts as a set with that value alone.
    """
    match node:
        case Collection(kind, items):
            return kind, items
        case Matrix(rows) if len(rows) == 1 or len(rows[0]) == 1:
            return "()", tuple(cell for row in rows for cell in row)
        case Matrix():
            return None
    return ("{}", (node,))


def matrix_of(node: Node) -> Node:
    """Convert a list of lists of equal length to a matrix: `[[1, 0], [0, 1]]`; other values stay unchanged."""
    match node:
        case Collection("[]" | "()", rows) if all(
            isinstance(row, Collection) and row.kind in ("[]", "()") for row in rows
        ):
            cells = tuple(row.items for row in rows if isinstance(row, Collection))
            widths = {len(row) for row in cells}
            return Matrix(cells) if len(widths) == 1 else node
    return node


def components(node: Node, size: int) -> Collection | None:
    r"""Convert a sum of multiples of `\mathbf{i}`, `\mathbf{j}`, `\mathbf{k}` to a vector; None for other values."""
    found: dict[str, Node] = {}
    for term in _terms(node):
        match term:
            case Apply("*", (amount, Symbol(name))) | Apply(
                "*", (amount, Apply("hat", (Symbol(name),)))
            ):
                pass
            case Symbol(name) | Apply("hat", (Symbol(name),)):
                amount = Number(Fraction(1))
            case _:
                return None
        if name not in "ijk"[:size] or name in found or symbols(amount):
            return None
        found[name] = amount
    zero = Number(Fraction(0))
    return Collection("()", tuple(found.get(name, zero) for name in "ijk"[:size]))


def _terms(node: Node) -> list[Node]:
    match node:
        case Apply("+", (one, other)):
            return [*_terms(one), *_terms(other)]
        case Apply("-", (Apply("*", (amount, unit_vector)),)):
            return [Apply("*", (negative(amount), unit_vector))]
        case Apply("-", (inner,)):
            return [Apply("*", (Number(Fraction(-1)), inner))]
    return [node]


def congruent(node: Node) -> tuple[Node, ...]:
    r"""Split the congruence `n \equiv 2 \pmod 5` into `n`, 5 and `2 mod 5`; return an empty tuple for other nodes."""
    match node:
        case Relation(("==",), (value, Apply("mod", (_, modulus)) as rest)):
            return value, modulus, rest
        case Relation(("==",), (value, Apply("-", (Apply("mod", (rest, modulus)),)))):
            return value, modulus, Apply("mod", (negative(rest), modulus))
    return ()


def remainder(node: Node) -> Number | None:
    r"""Return the reduced remainder, as in `4 \pmod 7` or a chain ending so; None for unreduced values: `9 \pmod 7`."""
    match node:
        case Apply("mod", (Number(rest) as said, Number(modulus))) if 0 <= rest < modulus:
            return said
        case Relation(signs, (*_, last)) if "==" in signs:
            return remainder(last)
    return None


def as_congruence(node: Node) -> tuple[Node, ...]:
    """Read `n = 5k + 2` as a congruence: value `n`, modulus 5, remainder 2; an empty tuple for other statements."""
    match node:
        case Relation(("=",), (Symbol() as value, said)):
            found = _linear(said)
            if found is None or not found[1]:
                return ()
            constant, factor = found
            modulus = Number(abs(factor))
            return value, modulus, Apply("mod", (Number(constant), modulus))
    return ()


def _linear(node: Node) -> tuple[Fraction, Fraction] | None:
    """Split a linear term into constant and factor: `5k + 2` gives 2 and 5; None for other values."""
    match node:
        case Number(value):
            return value, Fraction(0)
        case Symbol(name) if name in _COUNTING:
            return Fraction(0), Fraction(1)
        case Apply("*", (Number(factor), inner)):
            found = _linear(inner)
            return found and (factor * found[0], factor * found[1])
        case Apply("+", (one, other)):
            left, right = _linear(one), _linear(other)
            return left and right and (left[0] + right[0], left[1] + right[1])
    return None
