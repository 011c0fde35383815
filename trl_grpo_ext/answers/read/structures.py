"""Read enclosed expressions: brackets, collections, sets and matrices."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Container, Sequence

from trl_grpo_ext.answers.read.tokens import Token, UnreadableError
from trl_grpo_ext.answers.read.tree import Apply, Builder, Collection, Matrix, Node

# Nesting depth of brackets.
MAX_DEPTH = 60
# Tokens inside a point's brackets.
MAX_COORDINATES = 40
# The most tokens that `Cursor.skips` moves past.
MAX_SKIPPED = 5
_SIZES = range(1, MAX_SKIPPED + 1)
END = Token("end", "", False, 0, 0)
_MATRICES = frozenset(("matrix", "pmatrix", "bmatrix", "Bmatrix", "array", "smallmatrix"))
_BRACKETS = {"(": ")", "[": "]", "{": "}", "floor": "floor", "ceil": "ceil", "abs": "abs"}


class OperatorError(UnreadableError):
    """An expression contains an operator that only sympy evaluates; the operator's name is the argument."""


class SideBySideError(UnreadableError):
    """Two numbers stand side by side: they are no product, although another reader might multiply them."""


class Cursor:
    """A reading position in a row of tokens.

    Attributes:
        row: The tokens, with an end token.
        at: Index of the next token.
        depth: Number of open brackets.
        bars: Positive if the next bar closes an absolute value or a set's element instead of opening an absolute value.
    """

    def __init__(self, row: Sequence[Token]) -> None:
        self.row = [*row, END]
        self.at = 0
        self.depth = 0
        self.bars = 0

    @property
    def next(self) -> Token:
        """The next token."""
        return self.row[self.at]

    def ahead(self, tokens: int) -> Token:
        """Return the token `tokens` places after the next token."""
        return self.row[min(self.at + tokens, len(self.row) - 1)]

    def take(self) -> Token:
        """Read the next token and move past it."""
        token = self.row[self.at]
        if token is not END:
            self.at += 1
        return token

    def sees(self, kind: str, *texts: str) -> bool:
        """Check the next token's kind and, if `texts` are given, its text."""
        token = self.row[self.at]
        return token.kind == kind and (not texts or token.text in texts)

    def skip(self, kind: str, *texts: str) -> bool:
        """Move past the next token if `sees(kind, *texts)`, and return whether the reader moved."""
        token = self.row[self.at]
        seen = token.kind == kind and (not texts or token.text in texts)
        self.at += seen
        return seen

    def skips(self, rows: Container[tuple[str, ...]]) -> bool:
        """Move past the next tokens if `rows` holds their texts as a row, and return whether the reader moved."""
        texts = tuple(token.text for token in self.row[self.at : self.at + MAX_SKIPPED])
        length = next((size for size in _SIZES if texts[:size] in rows), 0)
        self.at += length
        return length > 0

    def sees_point(self) -> bool:
        """Check whether a point's coordinates come next, after the point's name: `D(4, 0)`."""
        inside = list(
            itertools.takewhile(
                lambda token: token.kind not in ("open", "close", "end"), self._ahead()
            )
        )
        closed = self.ahead(len(inside) + 1)
        return (
            closed.text == ")"
            and any(token.text == "," for token in inside)
            and any(token.kind == "number" for token in inside)
        )

    def sees_letters_defined(self) -> bool:
        """Check whether the brackets that come next hold the arguments of a function definition: `y(x) = 2x`."""
        inside = list(
            itertools.takewhile(
                lambda token: token.kind == "symbol" or token.text == ",", self._ahead()
            )
        )
        return (
            bool(inside)
            and self.ahead(len(inside) + 1).text == ")"
            and self.ahead(len(inside) + 2).text == "="
        )

    def sees_limits(self, tokens: int, *, one: bool = False) -> bool:
        """Check whether two limits stand `tokens` places ahead, `_1^3` or `^3_1`; with `one`, or a lower one alone."""
        sign = self.ahead(tokens)
        if sign.kind != "sign" or sign.text not in ("_", "^"):
            return False
        at = tokens + 1
        groups = 0
        while at == tokens + 1 or groups > 0:
            token = self.ahead(at)
            if token is END:
                return False
            if token.kind == "group":
                groups += 1 if token.text == "{" else -1
            at += 1
        other = self.ahead(at)
        are_two = other.kind == "sign" and {sign.text, other.text} == {"_", "^"}
        return are_two or (one and sign.text == "_")

    def _ahead(self) -> Sequence[Token]:
        return self.row[self.at + 1 : self.at + 1 + MAX_COORDINATES]

    def expect(self, kind: str, *texts: str) -> None:
        """Move past a token of this kind.

        Raises:
            UnreadableError: The next token has another kind or text.
        """
        if not self.skip(kind, *texts):
            raise UnreadableError


class Structures(Cursor, ABC):
    """A reader of brackets and matrices."""

    @abstractmethod
    def sets(self) -> Node:
        """Read an expression, or several joined by set operators."""

    def bracket(self, opened: str) -> Node:
        """Read the content of brackets: a single value, or a collection of several."""
        bars, self.bars = self.bars, 0
        items: list[Node] = []
        while not self.sees("close"):
            items.append(self.statement(in_set=opened == "{"))
            if opened == "{" and (self.skip("sign", "|") or self.skip("sign", ":")):
                condition = self.conditions()
                self.expect("close", "}")
                self.bars = bars
                return Builder(items[0], condition)
            if not self.skip("sign", ",", ";"):
                break
        closed = self.take()
        self.bars = bars
        if closed.kind != "close" or closed.text not in (
            _BRACKETS[opened],
            *(")]" if opened in "([" else ""),
        ):
            raise UnreadableError
        if opened in ("floor", "ceil", "abs") and len(items) == 1:
            return Apply(opened, (items[0],))
        if len(items) == 1 and opened in "([" and closed.text == _BRACKETS[opened]:
            return items[0]
        return Collection(opened + closed.text, tuple(items))

    @abstractmethod
    def statement(self, *, in_set: bool = False) -> Node:
        """Read an item of a collection."""

    @abstractmethod
    def conditions(self) -> Node:
        """Read the conditions after a set's bar."""

    def _group(self) -> Node:
        """Read the content of bare braces: a single value, or a list whose braces lost their backslashes."""
        items = [self.statement()]
        while self.skip("sign", ","):
            items.append(self.statement())
        self.expect("group", "}")
        return items[0] if len(items) == 1 else Collection("list", tuple(items))

    def _matrix(self) -> Node:
        self.expect("group", "{")
        name = self._rest_of_group()
        if name == "vmatrix":
            raise OperatorError("determinant")
        if name not in _MATRICES:
            raise UnreadableError
        if name == "array" and self.sees("group", "{"):
            self._index()
        rows: list[tuple[Node, ...]] = []
        while not self.sees("command", "end"):
            cells = [self.sets()]
            while self.skip("sign", "&"):
                cells.append(self.sets())
            rows.append(tuple(cells))
            self.skip("row")
        self.take()
        self.expect("group", "{")
        if (
            self._rest_of_group() != name
            or not rows
            or len({len(row) for row in rows}) != 1
        ):
            raise UnreadableError
        return Matrix(tuple(rows))

    def _index(self) -> str:
        """Read an index as text: a group, or a single token."""
        return self._rest_of_group() if self.skip("group", "{") else self.take().text

    def _rest_of_group(self) -> str:
        texts = []
        while not self.skip("group", "}"):
            if self.next is END:
                raise UnreadableError
            texts.append(self.take().text)
        return "".join(texts)
