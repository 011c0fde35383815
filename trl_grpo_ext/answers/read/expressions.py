r"""Read an expression: sums, products, powers, functions, brackets, sets and matrices.

A number in everyday notation is a single value: `1\frac{1}{2}` and `1.5 \times 10^3` are numbers, `17 \times 23` is a
product.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from trl_grpo_ext.answers.read.numerals import negative, number, quotient, raised, times
from trl_grpo_ext.answers.read.structures import (
    MAX_DEPTH,
    OperatorError,
    SideBySideError,
    Structures,
)
from trl_grpo_ext.answers.read.tokens import FUNCTIONS, UnreadableError
from trl_grpo_ext.answers.read.tree import (
    Apply,
    Collection,
    Node,
    Number,
    Symbol,
    symbols,
    walk,
    with_values,
)

# Commands that only sympy evaluates, with the operator's name.
OPERATORS = {
    "sum": "sum", "prod": "product", "int": "integral", "iint": "integral", "iiint": "integral", "oint": "integral",
    "lim": "limit", "limsup": "limit", "liminf": "limit", "det": "determinant", "partial": "derivative",
    "nabla": "derivative",
}  # fmt: skip
# Rows of tokens behind a `^`: a degree sign, and the endings of ordinals, each also in braces.
_DEGREE = frozenset((("deg",), ("{", "deg", "}")))
_ORDINALS = frozenset(
    row
    for ending in ("th", "st", "nd", "rd")
    for letters in ((ending,), tuple(ending))
    for row in (letters, ("{", *letters, "}"))
)
# Behind the name of a function: its inverse.
_INVERSE = frozenset((("^", "{", "-", "1", "}"), ("^", "-", "1")))
# Commands that may begin a factor.
_FACTORS = frozenset(("frac", "sqrt", "binom", "begin", "overline", "vec", "hat", "bar"))
_VARIABLES = frozenset(("x", "t", "u", "theta"))
# Values inside a limit; longer ones are unreadable.
MAX_LIMIT = 30
# Letters that name functions before a bracket.
_APPLIED = frozenset(("Gamma", "phi", *"fghFGHPQ"))


def _is_between(node: Node) -> bool:
    return isinstance(node, Apply) and node.name == "between"


class Expressions(Structures):
    """A reader of expressions in a token row."""

    def sets(self) -> Node:
        """Read sums joined by set operators."""
        # Most values are a single token; the general path gives the same result much slower.
        if self._sees_one_token():
            token = self.take()
            return number(token.text) if token.kind == "number" else Symbol(token.text)
        value = self.ratio()
        while self.sees("sign", "cup", "cap", "setminus"):
            sign = self.take().text
            value = Apply(sign, (value, self.ratio()))
        return value

    def _sees_one_token(self) -> bool:
        """Check whether a number or a letter comes next, and behind it an end, a comma or an equals sign."""
        # The general path refuses deeper values.
        if self.depth >= MAX_DEPTH or self.row[self.at].kind not in ("number", "symbol"):
            return False
        behind = self.row[self.at + 1]
        return behind.kind in ("end", "close") or behind.text in ("}", ",", "=")

    def ratio(self) -> Node:
        """Read a sum, or a ratio of sums: `3:2`, `3 to 2`."""
        parts = [self.sum()]
        # Inside bars or a set, a colon begins a condition.
        while not self.bars and self.next.text in ("to", ":"):
            says_to = self.sees("word", "to") and isinstance(parts[-1], Number)
            if not (says_to or self.sees("sign", ":")):
                break
            if self.ahead(1).kind not in ("number", "symbol", "command", "open"):
                break
            self.take()
            parts.append(self.sum())
        if len(parts) == 1:
            return parts[0]
        return Apply("ratio", tuple(parts))

    def sum(self) -> Node:
        """Read terms with signs between them."""
        if self.depth > MAX_DEPTH:
            raise UnreadableError
        value: Node | None = None
        if not self.sees("sign", "+-", "-+"):
            value = self._signed(self.product)
        while self.sees("sign", "+", "-", "+-", "-+", "mod"):
            sign = self.take().text
            # Of a sum, too: 2^3 + 1 mod 5
            if sign == "mod" and value is not None:
                value = Apply("mod", (value, self.power()))
                continue
            term = self._signed(self.product)
            if value is None:
                value = Apply(sign, (Number(Fraction(0)), term))
            elif sign == "-" and isinstance(term, Collection):
                value = Apply("setminus", (value, term))
            elif sign == "-":
                value = Apply("+", (value, negative(term)))
            else:
                value = Apply(sign, (value, term))
        assert value is not None
        while not self.bars and self.sees("sign", "|") and self.sees_limits(1, one=True):
            self.take()
            value = self._between(value)
        return value

    def _signed(self, read: Callable[[], Node]) -> Node:
        if not self.sees("sign", "+", "-"):
            return read()
        sign = self.take().text
        value = self._signed(read)
        return negative(value) if sign == "-" else value

    def product(self) -> Node:
        """Read a product or a quotient; factors may stand side by side without a sign: `2x(y + 1)`."""
        value = self.power()
        while True:
            if self.sees("sign", "*", "/"):
                sign = self.take().text
                scaled = self.sees("number", "10") and self.ahead(1).text == "^"
                factor = self._signed(self.power)
                value = (
                    quotient(value, factor)
                    if sign == "/"
                    else times(value, factor, scaled=scaled)
                )
            elif self._begins_factor():
                value = self._beside(value)
            else:
                return value

    def _beside(self, value: Node) -> Node:
        """Multiply a value by the next factor, or combine both into a mixed number: `1 1/2`."""
        spaced = self.next.space
        if (
            isinstance(value, Number)
            and value.places is None
            and self.row[self.at - 1].kind == "number"
        ):
            if self.sees("command", "frac"):
                part = self.power()
                match part:
                    case Number(fraction, None) if 0 < fraction < 1:
                        return Number(value.value + fraction)
                    case Apply("%", (Number(fraction, None),)) if 0 < fraction < 1:
                        return Apply("%", (Number(value.value + fraction),))
                return times(value, part)
            if (
                self.sees("number")
                and spaced
                and self.ahead(1).text == "/"
                and value.value.denominator == 1
            ):
                part = self.product()
                if isinstance(part, Number) and 0 < part.value < 1:
                    return Number(value.value + part.value)
                raise UnreadableError
        may_follow = self.row[self.at - 1].text in "!)}" or (
            isinstance(value, Symbol) and self.ahead(1).text == "^"
        )
        # n2^n is a product, n2 is not.
        if self.sees("number") and (isinstance(value, Number) or not may_follow):
            raise SideBySideError
        return times(value, self.power())

    def _begins_factor(self) -> bool:
        token = self.next
        if token.kind in ("number", "symbol", "function", "open"):
            return True
        if token.kind == "command":
            return token.text in _FACTORS or token.text in OPERATORS
        if token.kind == "group":
            return token.text == "{"
        is_bar = token.kind == "sign" and token.text == "|"
        return is_bar and not self.bars and not self.sees_limits(1, one=True)

    def power(self) -> Node:
        """Read an atom with its exponents, factorials, percent and degree signs."""
        value = self.postfix(self.atom())
        while self.sees("sign", "^"):
            self.take()
            if self.skips(_DEGREE):
                value = Apply("deg", (value,))
            elif not self.skips(_ORDINALS):
                value = self.postfix(raised(value, self.exponent()))
        return value

    def exponent(self) -> Node:
        """Read an exponent: a group, or a signed atom."""
        if self.skip("sign", "-"):
            return negative(self.exponent())
        self.skip("sign", "+")
        value = self.postfix(self.atom())
        if not self.skip("sign", "^"):
            return value
        return raised(value, self.exponent())

    def postfix(self, value: Node) -> Node:
        """Apply the factorials, percent signs, degree signs and primes after a value."""
        while self.sees("sign", "!", "%", "deg", "'"):
            sign = self.take().text
            if sign == "'" and isinstance(value, Symbol):
                value = Symbol(value.name + "'")
                continue
            if sign == "!" and self.skip("sign", "!"):
                sign = "!!"
            value = Apply(sign, (value,))
        return value

    def atom(self) -> Node:
        """Read a number, a symbol, a function's value, or a bracket."""
        self.depth += 1
        # Brackets in brackets call the reader again, and Python's stack has an end.
        if self.depth > MAX_DEPTH:
            raise UnreadableError
        token = self.take()
        if token.kind == "number":
            value = self._based(number(token.text))
        elif token.kind == "symbol":
            value = self._symbol(token.text)
        elif token.kind == "function":
            value = self._function(token.text)
        elif token.kind == "open":
            value = self.bracket(token.text)
            if token.text == "[" and self.sees_limits(0):
                value = self._between(value)
            value = self._based(value) if isinstance(value, Number) else value
        elif token.kind == "command":
            value = self._command(token.text)
        elif token.kind == "group" and token.text == "{":
            value = self._group()
        elif token.kind == "sign" and token.text == "|":
            value = self._absolute()
        else:
            raise UnreadableError
        self.depth -= 1
        return value

    def _between(self, value: Node) -> Node:
        """Put the limits that come next into an antiderivative, `[x^2]_1^3`, or a number into `x^2|_{x=3}`."""
        # Beside a constant, as in `[ax^2 + C]_0^1`, the usual letters vary.
        names = symbols(value)
        names = names if len(names) < 2 else names & _VARIABLES
        ends: dict[str, Node] = {}
        while self.sees("sign", "_", "^") and self.next.text not in ends:
            sign = self.take().text
            name, ends[sign] = self._limit()
            names = frozenset(filter(None, (name,))) or names
        # Limits of limits would double a value again and again.
        is_nested = any(
            _is_between(one) for held in (value, *ends.values()) for one in walk(held)
        )
        sizes = [sum(1 for _ in walk(end)) for end in ends.values()]
        if is_nested or max(sizes) > MAX_LIMIT or len(names) > 1:
            raise UnreadableError
        first, *others = [
            with_values(value, dict.fromkeys(names, ends[sign]))
            for sign in ("^", "_")
            if sign in ends
        ]
        change = Apply("+", (first, *map(negative, others))) if others else first
        return Apply("between", (change,))

    def _limit(self) -> tuple[str, Node]:
        """Read a limit: the letter that it names, as in `{x=3}`, or an empty string, and its value."""
        if not self.sees("group", "{") or self.ahead(2).text != "=":
            return "", self.argument()
        self.take()
        name = self.take().text
        self.take()
        value = self.sets()
        self.expect("group", "}")
        return name, value

    def _based(self, value: Number) -> Node:
        if not self.skip("sign", "_"):
            return value
        base = self.argument()
        if not isinstance(base, Number) or value.value.denominator != 1:
            raise UnreadableError
        return Apply("base", (value, base))

    def _symbol(self, name: str) -> Node:
        if self.skip("sign", "_"):
            name += "_" + self._index()
        while name and self.skip("sign", "'"):
            name += "'"
        if name in _APPLIED and self.skips(_INVERSE):
            name += "^-1"
        if not self.sees("open", "("):
            return Symbol(name)
        if name[:1].isupper() and self.sees_point():
            self.take()
            return self.bracket("(")
        is_applied = name.removesuffix("^-1").rstrip("'") in _APPLIED
        if is_applied or self.sees_letters_defined():
            self.take()
            inner = self.bracket("(")
            return Apply(name, inner.items if isinstance(inner, Collection) else (inner,))
        return Symbol(name)

    def _function(self, name: str) -> Node:
        if name in ("gcd", "lcm", "max", "min"):
            inner = self.argument() if not self.sees("open") else self.atom()
            return Apply(name, inner.items if isinstance(inner, Collection) else (inner,))
        power: Node | None = None
        base: Node | None = None
        while self.sees("sign", "^", "_"):
            if self.take().text == "^":
                power = self.exponent()
            else:
                base = self.argument()
        inner = self._operand()
        if name == "exp":
            value: Node = Apply("^", (Symbol("e"), inner))
        elif name in ("log", "lg") and (base is not None or name == "lg"):
            value = Apply("log", (inner, base or Number(Fraction(10))))
        # `\sin^{-1} x` is the inverse function, not 1 over the sine.
        elif power == Number(Fraction(-1)) and name in FUNCTIONS:
            return Apply("arc" + name, (inner,))
        else:
            value = Apply(name, (inner,))
        return value if power is None else Apply("^", (value, power))

    def _operand(self) -> Node:
        """Read a function's operand: a bracket, or the following factors."""
        if self.sees("open", "("):
            value = self.atom()
            return raised(value, self.exponent()) if self.skip("sign", "^") else value
        value = self._signed(self.power)
        while self._begins_factor() and not self.sees("function") and not self.sees("open"):
            value = times(value, self.power())
        if (
            self.sees("sign", "/")
            and not self.next.space
            and isinstance(value, Symbol | Number)
        ):
            self.take()
            value = quotient(value, self.power())
        return value

    def _absolute(self) -> Node:
        self.bars += 1
        value = self.sum()
        self.bars -= 1
        self.expect("sign", "|")
        return Apply("abs", (value,))

    def argument(self) -> Node:
        """Read a command's argument: a group, or a single token; only the first digit of a number."""
        if self.skip("group", "{"):
            value = self.sets()
            self.expect("group", "}")
            return value
        # `\frac12` is 1/2, as LaTeX reads it.
        if self.sees("number") and len(self.next.text) > 1 and self.next.text.isdigit():
            token = self.next
            self.row[self.at] = token._replace(
                text=token.text[1:], space=False, start=token.start + 1
            )
            return Number(Fraction(int(token.text[0])))
        return self.atom()

    def _command(self, name: str) -> Node:
        if name in OPERATORS:
            raise OperatorError(OPERATORS[name])
        if name == "frac":
            return self._fraction()
        if name == "binom":
            return Apply("binom", (self.argument(), self.argument()))
        if name == "sqrt":
            return self._root()
        if name == "begin":
            return self._matrix()
        if name in ("overline", "vec", "hat", "bar", "angle", "triangle", "widehat"):
            return Apply(name, (self.argument(),))
        raise UnreadableError

    def _fraction(self) -> Node:
        begin = self.at
        texts = [
            token.text for token in self.row[begin : begin + 12] if token.text not in "{}"
        ]
        if texts[:1] == ["d"] and "d" in texts[1:4] and self.row[begin].text in ("{", "d"):
            raise OperatorError("derivative")
        return quotient(self.argument(), self.argument())

    def _root(self) -> Node:
        degree: Node = Number(Fraction(2))
        if self.skip("open", "["):
            degree = self.sum()
            self.expect("close", "]")
        # People write `\sqrt12` for the root of 12, although LaTeX draws the root of 1.
        return Apply(
            "root", (self.argument() if self.sees("group") else self.atom(), degree)
        )
