"""Mutation testing of a row's tests: copies of the reference solution with one small fault should fail the tests.

The method is that of DeMillo, Lipton and Sayward, "Hints on Test Data Selection" (1978). A mutant may still be
correct, as with `i <= n` for `i < n + 1`. So a passing mutant is a hint to read the tests, not a proof of weak tests.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from trl_grpo_ext.programs.sandbox.job import Ending, Job
from trl_grpo_ext.programs.suites.bad_tests import BadTests

if TYPE_CHECKING:
    from trl_grpo_ext.rewards.unit_tests.verifier import UnitTestVerifier

# The most mutants of a program.
MOST = 12

# Operator -> the operator of a mutant.
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantRun:
    """The mutation result of a row.

    Attributes:
        row: The row's number, from 0.
        tried: The number of mutants with a result.
        passed: Descriptions of the mutants that passed the row's tests.
    """

    row: int
    tried: int
    passed: tuple[str, ...]


def run_mutants(
    verifier: UnitTestVerifier, rows: Sequence[Mapping[str, Any]]
) -> list[MutantRun]:
    """Run mutants of each row's reference against the row's tests; skip rows whose reference does not pass."""
    trials: list[_Trial] = []
    for number, row in enumerate(rows):
        with suppress(BadTests):
            reference = verifier.reference_job(row)
            if reference is not None:
                # One failed test catches a mutant.
                trials += _trials(number, replace(reference, stop_at_first=True))
    outcomes = verifier.runner().run([trial.job for trial in trials])
    # Rows whose reference passes: elsewhere a failed mutant says nothing.
    references = set()
    passed: dict[int, list[str]] = defaultdict(list)
    tried: Counter[int] = Counter()
    for trial, outcome in zip(trials, outcomes, strict=True):
        has_passed = outcome.ending is Ending.PASSED
        if trial.mutation is None:
            if has_passed:
                references.add(trial.row)
            continue
        # A run that the sandbox has lost says nothing of the tests.
        if outcome.ending is not Ending.NO_VERDICT:
            tried[trial.row] += 1
        if has_passed:
            passed[trial.row].append(trial.mutation)
    runs = []
    for number in sorted(references):
        run = MutantRun(
            row=number,
            tried=tried[number],
            passed=tuple(passed[number]),
        )
        runs.append(run)
    return runs


class _Trial(NamedTuple):
    """A trial run of a row's reference or mutant.

    Attributes:
        row: The row's number.
        mutation: The description of the mutant; None for the reference.
        job: The program and the row's tests.
    """

    row: int
    mutation: str | None
    job: Job


def _trials(row: int, reference: Job) -> list[_Trial]:
    trials = [_Trial(row, None, reference)]
    for mutation, program in mutants(reference.program):
        job = replace(reference, program=program)
        trials.append(_Trial(row, mutation, job))
    return trials


def mutants(source: str, most: int = MOST) -> list[tuple[str, str]]:
    """List up to `most` mutants, spread over the program, as (description, program); empty for invalid Python.

    Examples:
        >>> mutants("def f(a, b):\\n    return a + 1 < b")[1][0]
        'line 2: `a + 1 < b` as `a + 1 <= b`'
        >>> [len(mutants(text)) for text in ("def f(:", "pass")]
        [0, 0]
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    places = []
    for place, node in enumerate(nodes):
        if next(_changed(node), None) is not None:
            places.append(place)
    if len(places) > most:
        # Spread the mutants evenly over the program.
        places = [places[number * len(places) // most] for number in range(most)]
    found: list[tuple[str, str]] = []
    for place in places:
        found += _mutants_at(source, place)
    return found[:most]


def _mutants_at(source: str, place: int) -> Iterator[tuple[str, str]]:
    # A tree of its own, since the mutants are made in place.
    tree = ast.parse(source)
    node = list(ast.walk(tree))[place]
    parent = _parent_of(node, tree)
    line = getattr(node, "lineno", 0)
    before = ast.unparse(node)
    for changed in _changed(node):
        _replace(parent, node, changed)
        mutation = f"line {line}: `{before}` as `{ast.unparse(changed)}`"
        yield mutation, ast.unparse(tree)
        # The next mutant begins with the right program again.
        _replace(parent, changed, node)


def _parent_of(node: ast.AST, tree: ast.AST) -> ast.AST:
    for candidate in ast.walk(tree):
        if node in ast.iter_child_nodes(candidate):
            return candidate
    return tree


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield faulty copies of a node: another operator, a number plus 1, a negated constant, `return None`."""
    match node:
        case ast.Compare(ops=[operator, *others]) if type(operator) in _SWAPPED:
            swapped = _SWAPPED[type(operator)]()
            yield _with(node, ops=[swapped, *others])
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in _SWAPPED:
            swapped = _SWAPPED[type(node.op)]()
            yield _with(node, op=swapped)
        # Before int, since a bool is an int.
        case ast.Constant(value=bool() as value):
            yield _with(node, value=not value)
        case ast.Constant(value=int() as value):
            yield _with(node, value=value + 1)
        case ast.Return(value=ast.expr()):
            yield _with(node, value=ast.Constant(None))


def _with(node: ast.AST, **changes: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list) and old in value:
            value[value.index(old)] = new
