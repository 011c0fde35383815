"""Putting a suite of calls together: what of its code runs once, what in front of each test, what the solution gives.

The setup must not call the solution: what fails there would be the data's fault, and a policy could void its rows by
failing there. What needs the solution goes in front of each test instead.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trl_grpo_ext.rewards.unit_test_suites.bad_tests import BadTests
from trl_grpo_ext.rewards.unit_test_suites.names import SOLUTION, is_solution_import, solution_names
from trl_grpo_ext.rewards.unit_test_suites.prompt_code import PromptCode
from trl_grpo_ext.rewards.unit_test_suites.source import Statement, joined, packed, statements, unparsed
from trl_grpo_ext.rewards.unit_test_suites.test_module import Module
from trl_grpo_ext.sandbox.job import CallSuite


def call_suite(module: Module, code: PromptCode) -> CallSuite:
    """The suite of a setup and tests, with the helpers that they need of the prompt.

    Raises:
        BadTests: if the tests take nothing from the solution, or are no Python.
    """
    entry_point = code.entry_point
    imported, setup = _without_solution_imports([part for part in module.setup if not _defines(part, entry_point)])
    bound = {name for part in setup for name in part.usage.binds}
    imported = [name for name in imported if name not in bound]  # a later definition of the tests' own counts
    tests = [part for test in module.tests for part in statements(test)]
    rest = [*module.preamble, *tests]
    if entry_point:
        wanted = solution_names([*setup, *rest], entry_point, imported).names
        setup = [*code.definitions(set(wanted) - {entry_point}), *setup]
    taken = solution_names([*setup, *rest], entry_point, imported)
    reads = {name for part in [*setup, *tests] for name in part.usage.reads}
    if not taken.imports_solution and not reads & set(taken.names):
        raise BadTests("tests_call_nothing", "\n".join(module.tests))
    once, each = _by_need(setup, set(taken.names) | _solution_modules(setup))
    imports = [part for line in taken.imports for part in statements(line)]
    setup_text, snippets = joined([*module.preamble, *imports, *once]), _snippets(module, joined(each))
    return CallSuite(setup=setup_text, tests=snippets, names=taken.names, code=packed(setup_text, snippets))


def _snippets(module: Module, before: str) -> tuple[str, ...]:
    if not before:
        return module.tests
    if module.in_one_state:
        return ("\n".join([before, *module.tests]),)
    return tuple(f"{before}\n{test}" for test in module.tests)


def _defines(part: Statement, entry_point: str | None) -> bool:
    """Whether it defines the entry point itself, as a stub or a reference, which would hide the solution's."""
    return entry_point is not None and part.is_code and entry_point in part.usage.binds


def _without_solution_imports(parts: Sequence[Statement]) -> tuple[list[str], list[Statement]]:
    """The names that are imported from the solution under their own names, and the other statements.

    A solution that lacks a name must fail the test that uses it, not the import that all of them share.
    """
    names: list[str] = []
    others = []
    for part in parts:
        if not isinstance(part.node, ast.ImportFrom) or not is_solution_import(part.node):
            others.append(part)
            continue
        names += [alias.name for alias in part.node.names if not alias.asname and alias.name != "*"]
        renamed = [alias for alias in part.node.names if alias.asname]
        others += [unparsed(ast.ImportFrom(SOLUTION, renamed, 0))] if renamed else []
    return names, others


def _solution_modules(parts: Sequence[Statement]) -> set[str]:
    """The names that the solution is imported under as a module."""
    aliases = [alias for part in parts if isinstance(part.node, ast.Import) for alias in part.node.names]
    return {alias.asname or alias.name for alias in aliases if alias.name == SOLUTION}


def _by_need(parts: Sequence[Statement], remote: set[str]) -> tuple[list[Statement], list[Statement]]:
    """The statements that run without the solution, and those that reach for it or need one that does."""
    moved: list[Statement] = []
    while True:
        bound = {name for part in moved for name in part.usage.binds}
        reaching = _reaching(parts, remote | bound)
        more = [part for part in parts if part not in moved and _needs(part, remote, bound, reaching)]
        if not more:
            return [part for part in parts if part not in moved], [part for part in parts if part in moved]
        moved += more


def _needs(part: Statement, remote: set[str], bound: set[str], reaching: set[str]) -> bool:
    """Whether a statement needs the solution when it runs. Defining a function that calls it does not."""
    if is_solution_import(part.node):
        return True
    at_once = part.usage.reads_at_once
    return bool(at_once & (remote if part.is_code else reaching)) or bool(part.usage.reads & bound)


def _reaching(parts: Sequence[Statement], names: set[str]) -> set[str]:
    """These names, and those of functions and classes that use them, in their turn too."""
    found = set(names)
    while True:
        more = {name for part in parts if part.usage.reads & found for name in part.usage.binds} - found
        if not more:
            return found
        found |= more
