"""Compare an answer with a gold: types decide where possible, else an algebra compares the values.

The same code runs twice: first in the trainer's process with an algebra that knows only numbers and identical
expressions, then, if that algebra is undecided, in a worker with sympy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from trl_grpo_ext.answers.compare.amounts import AmountComparison
from trl_grpo_ext.answers.compare.forms import (
    approximated,
    as_congruence,
    assigned,
    can_be_region,
    components,
    congruent,
    is_approximation,
    is_equation,
    is_function,
    is_region,
    items_of,
    label_of,
    matrix_of,
    named,
    of_same_argument,
    part_of,
    plain,
    remainder,
    same_name,
    same_order,
    same_words,
    set_in_words,
    set_told,
)
from trl_grpo_ext.answers.read.moments import as_time, same_date, same_time
from trl_grpo_ext.answers.read.spans import as_range, ends_of, is_same_range
from trl_grpo_ext.answers.read.tree import (
    OF_OWN_TYPE,
    Apply,
    Collection,
    Date,
    Logic,
    Matrix,
    Node,
    Number,
    Opaque,
    Range,
    Relation,
    Symbol,
    Time,
    Words,
    symbols,
)


@dataclass(frozen=True, slots=True)
class Comparison(AmountComparison):
    """A comparison of values of all types; the first row of `TABLE` that decides wins."""

    def same(self, gold: Node, answer: Node) -> bool:
        """Check whether an answer has the gold's value."""
        for row in AS_WRITTEN:
            decided = row.decide(self, gold, answer)
            if decided is not None:
                return decided
        gold = plain(gold)
        # A statement such as `x > 1 or x < 0` becomes a list only against a list.
        if isinstance(gold, Collection) or not isinstance(answer, Logic):
            answer = plain(answer)
        if isinstance(gold, Words) != isinstance(answer, Words):
            gold = set_in_words(gold)
            answer = set_in_words(answer)
        decisions = (row.decide(self, gold, answer) for row in TABLE)
        return next(decided for decided in decisions if decided is not None)

    def _alike(self, gold: Node, answer: Node) -> bool | None:
        if isinstance(gold, Opaque) or gold != answer:
            return None
        return True

    def _numbers(self, gold: Node, answer: Node) -> bool | None:
        if isinstance(gold, Number) and isinstance(answer, Number):
            return self.same_number_of(gold, answer)
        return None

    def _named_values(self, gold: Node, answer: Node) -> bool | None:
        """Compare a point or an open interval with named values; alternatives, or two values of one name, are none."""
        match gold, answer:
            # "x = 2 or y = 3" leaves the point "x = 2, y = 3" open.
            case Collection("list", items), Logic("or"):
                return False if len(set(map(label_of, items)) - {None}) > 1 else None
        if not isinstance(gold, Collection) or gold.kind != "()":
            return None
        match answer:
            case Logic("or"):
                return False
            case Collection("list", items) | Logic("and", items):
                values = [value for value in map(assigned, items) if value]
                names = {name for name, _ in values}
                if len(values) < len(items):
                    return None
                if len(values) > len(names):
                    return False
                return self._same_items(gold.items, [value for _, value in values]) or None
        return None

    def _chain(self, gold: Node, answer: Node) -> bool | None:
        """Compare a list with a chain of inequalities in one direction: `1/3, 0.5` is `1/3 < 0.5`."""
        if isinstance(gold, Collection) and isinstance(answer, Relation):
            listed, chain = gold, answer
        elif isinstance(gold, Relation) and isinstance(answer, Collection):
            listed, chain = answer, gold
        else:
            return None
        directions = {sign[0] for sign in chain.signs}
        is_ordered = directions in ({"<"}, {">"}) and len(chain.sides) == len(listed.items)
        # (3, ∞) is an interval; a prompt that asks for an order makes tuples of lists.
        may_be_list = listed.kind == "list" or (
            listed.kind == "()" and len(listed.items) > 2
        )
        has_names = any(isinstance(item, Relation) for item in listed.items)
        if not may_be_list or not is_ordered or has_names:
            return None
        return self._same_items(listed.items, chain.sides)

    def _in_a_base(self, gold: Node, answer: Node) -> bool | None:
        match gold, answer:
            # The question names the base, so the answer or the gold may leave it out.
            case Apply("base", (digits, _)), Number():
                return digits == answer
            case Number(), Apply("base", (digits, _)) if digits == gold:
                return True
        return None

    def _words(self, gold: Node, answer: Node) -> bool | None:
        if isinstance(gold, Words) or isinstance(answer, Words):
            return same_words(gold, answer)
        return None

    def _nothing(self, gold: Node, answer: Node) -> bool | None:
        # Complex solutions are no empty set, though no real number solves `x = 2i`.
        tells_values = isinstance(gold, Relation | Logic | Collection) and not (
            is_region(gold) or _is_inequality(gold) or gold == Collection("{}", ())
        )
        if answer == Symbol("EmptySet") and tells_values:
            return False
        if gold != Symbol("EmptySet") or is_region(answer) or _is_inequality(answer):
            return None
        # Only an empty collection is empty; any value is a solution.
        return isinstance(answer, Collection) and not answer.items

    def _statements(self, gold: Node, answer: Node) -> bool | None:
        if any(isinstance(one, Relation) or is_region(one) for one in (gold, answer)):
            return self._same_statements(gold, answer)
        return None

    def _collections(self, gold: Node, answer: Node) -> bool | None:
        if isinstance(gold, Collection | Matrix) or isinstance(answer, Collection | Matrix):
            return self._same_collections(gold, answer)
        return None

    def _unread(self, gold: Node, answer: Node) -> bool | None:
        if isinstance(gold, Opaque) or isinstance(answer, Opaque):
            return self.algebra.same_values(gold, answer, self.decimals)
        return None

    def _alternatives(self, gold: Node, answer: Node) -> bool | None:
        """Compare values given in several forms, such as `1/2 or 0.5`; None if neither side gives several forms."""
        match gold, answer:
            case _, Relation() if is_approximation(answer):
                return any(self.same(gold, side) for side in approximated(answer))
            case _, Logic("same", parts):
                return all(self.same(gold, part) for part in parts)
            case Logic("same", parts), _:
                return any(self.same(part, answer) for part in parts)
            case _, Logic("or", parts) if not isinstance(
                gold, Collection | Logic | Matrix
            ) and not is_region(gold):
                # 1/2 or 0.5
                return all(self.same(gold, part) for part in parts)
            case Apply("not", (denied,)), Apply("not", (said,)):
                return self.same(denied, said)
            case (Apply("not"), _) | (_, Apply("not")):
                return False
        return None

    def _own_types(self, gold: Node, answer: Node) -> bool | None:
        """Compare times, dates, ranges and remainders; None if neither value has such a type."""
        if not (isinstance(gold, OF_OWN_TYPE) or isinstance(answer, OF_OWN_TYPE)):
            return None
        answer = as_range(answer)
        match gold, answer:
            case (Time(), _) | (_, Time()):
                one, other = as_time(gold), as_time(answer)
                return one is not None and other is not None and same_time(one, other)
            case Date(), Date():
                return same_date(gold, answer)
            case (
                (Range(), Range())
                | (Range(), Collection("[]"))
                | (Collection("[]"), Range())
            ):
                return self._same_items(ends_of(gold), ends_of(answer))
            case (Relation(), _) | (_, Relation()):
                asked = assigned(gold)
                if asked:
                    return self.same(asked[1], answer)
                given = assigned(answer)
                return given is not None and self.same(given[1], gold)
        return bool(is_same_range(gold, answer))

    def _same_collections(self, gold: Node, answer: Node) -> bool:
        held = items_of(gold)
        if isinstance(answer, Apply) and held and held[0] == "()":
            vector = components(answer, len(held[1]))
            if vector is not None:
                return self._same_items(held[1], vector.items)
        if isinstance(gold, Matrix) or isinstance(answer, Matrix):
            gold, answer = matrix_of(gold), matrix_of(answer)
            if isinstance(gold, Apply | Opaque) or isinstance(answer, Apply | Opaque):
                return self.algebra.same_values(gold, answer, self.decimals)
        if isinstance(gold, Matrix) and isinstance(answer, Matrix):
            return len(gold.rows) == len(answer.rows) and all(
                map(self._same_items, gold.rows, answer.rows)
            )
        asked = items_of(gold)
        given = items_of(answer)
        if asked is None or given is None:
            return False
        wanted, items = asked[1], given[1]
        kinds = {asked[0], given[0]}
        if not kinds & {"()", "[]"}:
            return self._same_unordered(wanted, items, sets="{}" in kinds)
        # A point of two numbers is no interval with the same ends.
        may_be_interval = kinds == {"()", "[]"} and len(items) <= 2
        if "{}" in kinds or may_be_interval:
            return False
        return self._same_items(wanted, items)

    def _same_items(self, gold: Sequence[Node], answer: Sequence[Node]) -> bool:
        return len(gold) == len(answer) and all(map(self.same, gold, answer))

    def _same_unordered(
        self, gold: Sequence[Node], answer: Sequence[Node], *, sets: bool = False
    ) -> bool:
        parts = set(map(part_of, gold)) - {None}
        if len(parts) == len(gold) > 1 and not any(map(part_of, answer)):
            # `12, 8` answers a gold `12 boys, 8 girls` in the gold's order.
            return self._same_items(gold, answer)
        labels = list(map(label_of, gold))
        given_labels = list(map(label_of, answer))
        if all(labels) and all(given_labels) and len(set(labels)) > 1:
            if Counter(labels) != Counter(given_labels):
                return False
            pairs = zip(gold, labels, strict=True)
            return all(
                self.same(value, answer[given_labels.index(label)])
                for value, label in pairs
            )
        wanted = list(dict.fromkeys(gold)) if sets else list(gold)
        rest = list(answer)
        # Only a gold with repeated items asks for repeated items.
        if len(set(wanted)) == len(wanted):
            rest = list(dict.fromkeys(answer))
        if len(rest) != len(wanted):
            return False
        for one in wanted:
            found = next((other for other in rest if self.same(one, other)), None)
            if found is None:
                return False
            rest.remove(found)
        return True

    def _same_statements(self, gold: Node, answer: Node) -> bool:
        """Check whether two statements agree: a named value, an equation, or a set of numbers."""
        rest = remainder(answer) if isinstance(gold, Number) else None
        if rest:
            return self.same(gold, rest)
        if congruent(gold) or congruent(answer):
            rests = [congruent(one) or as_congruence(one) for one in (gold, answer)]
            return all(rests) and self._same_items(*rests)
        if (
            is_equation(gold)
            and is_equation(answer)
            and set(gold.sides) == set(answer.sides)
        ):
            return True
        asked = assigned(gold)
        given = assigned(answer)
        if asked and given:
            if same_name(asked[0], given[0]) or is_function(asked, given):
                return self.same(asked[1], of_same_argument(asked, given))
            return (
                is_equation(gold)
                and is_equation(answer)
                and self.algebra.same_equations(gold, answer)
            )
        if (asked or given) and not (is_equation(gold) and is_equation(answer)):
            value, other = (asked, answer) if asked else (given, gold)
            assert value is not None
            is_name = (
                isinstance(value[0], Symbol)
                and isinstance(value[1], Symbol)
                and named(value[1])
            )
            if not is_name and not isinstance(other, Relation) and not is_region(other):
                return self.same(value[1], answer) if asked else self.same(gold, value[1])
            return (is_region(other) or is_region(value[1])) and self._same_sets(
                gold, answer
            )
        if asked and named(asked[0]) and not symbols(asked[1]) and is_equation(answer):
            # `2x + 3 = 7` must be solved before it gives x = 2.
            return False
        return self._same_equations(gold, answer)

    def _same_equations(self, gold: Node, answer: Node) -> bool:
        """Compare two statements that name no value: equations, inequalities and sets."""
        if is_equation(gold) and is_equation(answer):
            return self.algebra.same_equations(gold, answer)
        if (
            is_equation(answer)
            and not isinstance(gold, Relation)
            and symbols(answer.sides[0]) == symbols(gold)
        ):
            # 2/(x^2 - 1) = 1/(x - 1) - 1/(x + 1)
            return self.same(gold, answer.sides[1])
        if is_equation(gold) and not isinstance(answer, Relation | Collection | Logic):
            return self.algebra.solves(gold, answer)
        return self._same_sets(gold, answer)

    def _same_sets(self, gold: Node, answer: Node) -> bool:
        gold = set_told(gold)
        answer = set_told(answer)
        if gold == answer or same_order(gold, answer):
            return True
        if (
            isinstance(gold, Collection)
            and isinstance(answer, Collection)
            and gold.kind == answer.kind
        ):
            return self._same_items(gold.items, answer.items)
        if _is_of_several(gold) and _is_of_several(answer):
            return self.algebra.same_equations(gold, answer)
        if not (can_be_region(gold) and can_be_region(answer)):
            return False
        # `x > 0, x != 1` may mean that both hold, or either.
        if isinstance(answer, Collection) and answer.kind == "list":
            return any(
                self.algebra.same_regions(gold, Logic(word, answer.items))
                for word in ("and", "or")
            )
        return self.algebra.same_regions(gold, answer)


def _is_of_several(node: Node) -> TypeGuard[Relation]:
    """Check whether a node is a relation in several variables."""
    return isinstance(node, Relation) and len(node.signs) == 1 and len(symbols(node)) > 1


def _is_inequality(node: Node) -> bool:
    return isinstance(node, Relation) and "=" not in node.signs


@dataclass(frozen=True, slots=True)
class Row:
    """A row in the comparison table.

    Attributes:
        name: The kind of value pairs that the row handles.
        same: Example of a gold and an equal answer.
        other: Example of a gold and an unequal answer.
        decide: Compares two values; returns None if the row does not handle them.
    """

    name: str
    same: tuple[str, str]
    other: tuple[str, str]
    decide: Callable[[Comparison, Node, Node], bool | None]


# Rows for values before `plain` normalizes them.
AS_WRITTEN = (
    Row("two values written alike", ("x^2", "x^{2}"), ("x^2", "x^3"), Comparison._alike),
    Row("two numbers", ("0.5", "1/2"), ("0.5", "0.53"), Comparison._numbers),
    Row(
        "named values",
        ("(2, 3)", "x = 2, y = 3"),
        ("(2, 3)", "x = 2 or x = 3"),
        Comparison._named_values,
    ),
    Row(
        "a list and its chain",
        ("1/3, 0.5", "1/3 < 0.5"),
        ("1/3, 0.5", "0.5 > 1/3"),
        Comparison._chain,
    ),
    Row(
        "digits of another base",
        ("2516_8", "2516"),
        ("2516_8", "1358"),
        Comparison._in_a_base,
    ),
)
# Rows for normalized values. The first row whose `decide` returns a bool wins.
TABLE = (
    Row(
        "a value said in several ways",
        ("0.5", "1/2 or 0.5"),
        ("0.5", "0.5 or 0.6"),
        Comparison._alternatives,
    ),
    Row(
        "times, dates, ranges, remainders",
        ("14:30", "2:30 pm"),
        ("20-25", "-5"),
        Comparison._own_types,
    ),
    Row("words", ("does not exist", "undefined"), ("even", "odd"), Comparison._words),
    Row(
        "a set of nothing",
        ("no solution", r"\{\}"),
        ("no solution", "0"),
        Comparison._nothing,
    ),
    Row(
        "equations, inequalities, regions",
        ("x = 5", "5"),
        ("x > 3", r"x \ge 3"),
        Comparison._statements,
    ),
    Row(
        "lists, sets, points, matrices",
        ("1, 2", "2, 1"),
        ("(1, 2)", "(2, 1)"),
        Comparison._collections,
    ),
    Row(
        "LaTeX that sympy reads",
        (r"\int x dx", r"\int x dx"),
        (r"\int x dx", "7"),
        Comparison._unread,
    ),
    Row(
        "amounts in their units",
        ("2.5 h", "150 min"),
        ("5 km", "5 m"),
        Comparison.same_amounts,
    ),
)
