"""Random mixes: scorecards equal a naive formula, computed cell by cell."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import Column, from_minus_one, samples_of

from trl_grpo_ext import Blame, RewardMix, RewardTerm, Scorecard
from trl_grpo_ext.mix import Clip, Combination, Gate, Threshold

ROWS = 4
NAMES = ("a", "b", "c", "d")
SCORES = st.sampled_from([-1.0, 0.0, 0.25, 1.0, 2.0, Blame.GRADER, Blame.DATA])
WEIGHTS = st.sampled_from([0.0, 0.1, 1.0, -0.5])
SHAPES = st.sampled_from(
    [None, from_minus_one, Clip(-0.5, 0.5), Threshold(0.25), [from_minus_one, Clip(high=1)]]
)
WHENS = st.sampled_from(
    [None, {"task": "x"}, {"task": ["x", "y"]}, {"task": "y", "level": 1}]
)
POLICIES = st.sampled_from(["void_row", "zero"])
# (applies, value or None, is gated)
CELL = tuple[bool, Any, bool]


@st.composite
def gates(draw: Any, others: tuple[str, ...]) -> Gate | None:
    if not others or draw(st.booleans()):
        return None
    effect = draw(st.sampled_from([{}, {"scale": 0.5}, {"floor": -1.0}]))
    return Gate(
        draw(st.sampled_from(others)), draw(st.sampled_from([0.0, 0.5, 1.0])), **effect
    )


@st.composite
def mixes(draw: Any) -> list[RewardTerm]:
    """Draw up to four terms in any order; a term may depend on alphabetically earlier terms."""
    terms = []
    for index, name in enumerate(NAMES[: draw(st.integers(1, 4))]):
        others = NAMES[:index]
        settings: dict[str, Any] = {
            "weight": draw(WEIGHTS), "shape": draw(SHAPES), "when": draw(WHENS), "on_unscored": draw(POLICIES),
            "gate": draw(gates(others)),
        }  # fmt: skip
        if others and draw(st.booleans()):
            chosen = draw(st.lists(st.sampled_from(others), min_size=1, unique=True))
            settings["combine"] = Combination(
                draw(st.sampled_from(["product", "minimum", "first"])), tuple(chosen)
            )
        else:
            settings["verifier"] = Column(name)
        terms.append(RewardTerm(name=name, **settings))
    return draw(st.permutations(terms))


ROW = st.fixed_dictionaries(
    {"task": st.sampled_from(["x", "y", "z"]), "level": st.sampled_from([1, 2])}
    | dict.fromkeys(NAMES, SCORES)
)
TABLES = st.lists(ROW, min_size=ROWS, max_size=ROWS)


@dataclass
class Naively:
    """A naive evaluator of one row: each term is recomputed recursively."""

    terms: dict[str, RewardTerm]
    row: dict[str, Any]

    def cell(self, name: str) -> CELL:
        term = self.terms[name]
        gate = (
            self.cell(term.gate.term)
            if isinstance(term.gate, Gate)
            else (True, math.inf, False)
        )
        if not (term.applies(self.row) and gate[0]):
            return False, None, False
        applies, score = self.score(term)
        if not applies:
            return False, None, False
        if score is None or gate[1] is None:
            return True, 0.0 if term.on_unscored == "zero" else None, False
        for shape in term.shapes:
            score = shape(score, None)  # type: ignore[arg-type]  # none of these look at the verdict
        if not isinstance(term.gate, Gate) or gate[1] >= term.gate.at_least:
            return True, score, False
        if term.gate.floor is not None:
            return True, term.gate.floor, True
        return True, 0.0 if term.gate.scale is None else term.gate.scale * score, True

    def score(self, term: RewardTerm) -> tuple[bool, float | None]:
        if term.combine is None:
            planted = self.row[term.name]
            return True, None if isinstance(planted, Blame) else planted
        cells = [cell for cell in map(self.cell, term.combine.terms) if cell[0]]
        if term.combine.kind == "first":
            cells = cells[:1]
        values = [cell[1] for cell in cells]
        if not values or None in values:
            return bool(values), None
        return True, math.prod(values) if term.combine.kind == "product" else min(values)

    def total(self) -> float | None:
        cells = [
            (term.weight, self.cell(name))
            for name, term in self.terms.items()
            if term.weight != 0
        ]
        counted = [(weight, cell[1]) for weight, cell in cells if cell[0]]
        if not counted or any(value is None for _, value in counted):
            return None
        return math.fsum(weight * value for weight, value in counted)  # type: ignore[operator]


def score(terms: list[RewardTerm], rows: list[dict[str, Any]]) -> Scorecard:
    return RewardMix(terms).score(
        samples_of(**{key: [row[key] for row in rows] for key in rows[0]})
    )


@given(mixes(), TABLES)
def test_cells_totals_and_voids_equal_the_formula_written_out(
    terms: list[RewardTerm], rows: list[Any]
) -> None:
    card = score(terms, rows)
    for index, row in enumerate(rows):
        naive = Naively({term.name: term for term in terms}, row)
        for name in card.terms:
            cell = (
                card.verdicts[name][index] is not None, card.values[name][index], card.gated[name][index],
            )  # fmt: skip
            assert cell == naive.cell(name), (name, row)
        assert card.totals[index] == pytest.approx(naive.total())
        assert card.void[index] == (naive.total() is None)


@given(mixes(), TABLES)
def test_the_order_of_terms_changes_nothing(
    terms: list[RewardTerm], rows: list[Any]
) -> None:
    forwards, backwards = score(terms, rows), score(terms[::-1], rows)
    assert forwards.void == backwards.void
    for name in forwards.terms:
        assert forwards.values[name] == backwards.values[name]


@given(mixes(), TABLES)
def test_rows_do_not_look_at_each_other(terms: list[RewardTerm], rows: list[Any]) -> None:
    together = score(terms, rows)
    one_by_one = [score(terms, [row]) for row in rows]
    assert together.totals == tuple(card.totals[0] for card in one_by_one)


@given(mixes(), TABLES)
def test_a_term_that_needs_another_gives_the_same_whatever_that_ones_weight(
    terms: list[RewardTerm], rows: list[Any]
) -> None:
    shadows = [replace(term, weight=0.0) for term in terms]
    assert score(terms, rows).values == score(shadows, rows).values


@given(mixes(), TABLES)
def test_trl_gets_a_finite_float_or_none_and_none_from_every_term_of_a_void_row(
    terms: list[RewardTerm], rows: list[Any]
) -> None:
    card = score(terms, rows)
    for name in card.terms:
        for void, reward in zip(card.void, card.rewards(name), strict=True):
            assert reward is None or (
                isinstance(reward, float) and math.isfinite(reward) and not void
            )


@given(mixes(), TABLES)
def test_a_term_without_weight_never_moves_a_total(
    terms: list[RewardTerm], rows: list[Any]
) -> None:
    shadow = RewardTerm(name="shadow", verifier=Column("a"), weight=0.0)
    assert score([*terms, shadow], rows).totals == score(terms, rows).totals
