"""Mutation testing of a row's tests: copies of the reference solution with one small fault should fail the tests.

The method is that of DeMillo, Lipton and Sayward, "Hints on Test Data Selection" (1978). A mutant may still be
correct, as with `i <= n` for `i < n + 1`. So a passing mutant is a hint to read the tests, not a proof of weak tests.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trl_grpo_ext.programs.sandbox.job import Ending
from trl_grpo_ext.programs.suites.bad_tests import BadTests

if TYPE_CHECKING:
    from trl_grpo_ext.rewards.unit_tests.verifier import UnitTestVerifier

# The most mutants of a program.
MOST = 12

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


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


def run_mutants(verifier: UnitTestVerifier, rows: Sequence[Mapping[str, Any]]) -> list[MutantRun]:
    """Run mutants of each row's reference against the row's tests; skip rows whose reference does not pass."""
    references = {}
    for number, row in enumerate(rows):
        with suppress(BadTests):
            if (job := verifier.reference_job(row)) is not None:
                references[number] = replace(job, stop_at_first=True)
    tried = [
        (number, what, replace(job, program=program))
        for number, job in references.items()
        for what, program in [("", job.program), *mutants(job.program)]
    ]
    outcomes = verifier.runner().run([job for _, _, job in tried])
    passed: dict[int, list[str]] = {number: [] for number in references}
    # Starts at -1, since one of the counted runs is the reference itself.
    counts = dict.fromkeys(references, -1)
    for (number, what, _), outcome in zip(tried, outcomes, strict=True):
        counts[number] += outcome.ending is not Ending.NO_VERDICT
        if outcome.ending is Ending.PASSED:
            passed[number].append(what)
    return [
        MutantRun(row=number, tried=counts[number], passed=tuple(filter(None, found)))
        for number, found in passed.items()
        if "" in found
    ]


def mutants(source: str, most: int = MOST) -> list[tuple[str, str]]:
    """List up to `most` mutants, spread over the program, as (description, program); empty for invalid Python.

    Examples:
        >>> mutants("def f(a, b):\\n    return a + 1 < b")[1][0]
        'line 2: `a + 1 < b` as `a + 1 <= b`'
        >>> [len(mutants(text)) for text in ("def f(:", "pass")]
        [0, 0]
    """
    try:
        places = [place for place, node in enumerate(ast.walk(ast.parse(source))) if any(True for _ in _changed(node))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    chosen = [places[number * len(places) // most] for number in range(most)] if len(places) > most else places
    return [mutant for place in chosen for mutant in _mutants_at(source, place)][:most]


def _mutants_at(source: str, place: int) -> Iterator[tuple[str, str]]:
    tree = ast.parse(source)
    node = list(ast.walk(tree))[place]
    parent = next((one for one in ast.walk(tree) if node in ast.iter_child_nodes(one)), tree)
    for changed in _changed(node):
        before = ast.unparse(node)
        _replace(parent, node, changed)
        yield f"line {getattr(node, 'lineno', 0)}: `{before}` as `{ast.unparse(changed)}`", ast.unparse(tree)
        _replace(parent, changed, node)


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield faulty copies of a node: another operator, a number plus 1, a negated constant, `return None`."""
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in _SWAPPED:
            yield _with(node, ops=[_SWAPPED[type(operator)](), *node.ops[1:]])
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) | ast.AugAssign(op=operator) if (
            type(operator) in _SWAPPED
        ):
            yield _with(node, op=_SWAPPED[type(operator)]())
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
