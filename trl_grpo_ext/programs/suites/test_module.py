"""Split pytest or unittest code into a setup and tests, so that tests are counted before they run.

Nothing is run here: tests are found by name, as in pytest. Tests that are skipped, or expected to fail, whatever the
machine is, are left out. In code without test functions, each assert is a test.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from trl_grpo_ext.programs.suites.bad_tests import TESTS_SKIPPED, BadTests
from trl_grpo_ext.programs.suites.in_judge import (
    builtin_fixtures,
    pytest_runner,
    pytest_shim,
)
from trl_grpo_ext.programs.suites.source import (
    Statement,
    all_statements,
    arguments_in,
    imported_modules,
    names_in,
    nodes_of,
    statements,
    unparsed,
)

RUNNER = "__trl_pytest__"
_SNIPPET = re.compile(rf"(\w+)\(\)|{RUNNER}\.run_\w+\(globals\(\), (.*)\)")
_LEFT_OUT = frozenset({"skip", "xfail", "expectedFailure"})
# Bare names are left to the run, since the program may have a function `skip`.
_SKIPS = frozenset({"pytest.skip", "pytest.xfail", "self.skipTest"})
_SHIM_NAMES = frozenset(
    {
        "fail",
        "skip",
        "xfail",
        "importorskip",
        "raises",
        "warns",
        "approx",
        "param",
        "mark",
        "fixture",
        "yield_fixture",
        "main",
    }
)
# By fixture of pytest, or by what makes it in a `with`: the attributes that the stand-in has.
_ATTRIBUTES = {
    "monkeypatch": frozenset(dir(builtin_fixtures.MonkeyPatch)),
    "monkeypatch.context": frozenset(dir(builtin_fixtures.MonkeyPatch)),
    "capsys": frozenset(dir(builtin_fixtures.Capture)),
    "tmp_path_factory": frozenset(dir(builtin_fixtures.TempPathFactory)),
    "raises": frozenset(
        {*dir(pytest_shim.raises(ValueError)), *vars(pytest_shim.raises(ValueError))}
    ),
    "warns": frozenset({*dir(pytest_shim.warns), "list"}),
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """Test code, split into setup and tests.

    Attributes:
        setup: The statements before the tests.
        tests: One code snippet per test.
        in_one_state: True if the tests share state, so that they run as one test if the setup calls the solution.
        preamble: Trusted code in front of the setup, such as the stand-in for pytest.
    """

    setup: tuple[Statement, ...]
    tests: tuple[str, ...]
    in_one_state: bool = False
    preamble: tuple[Statement, ...] = ()

    @cached_property
    def parts(self) -> list[Statement]:
        """Top-level statements of setup and tests, parsed on first use.

        Raises:
            BadTests: if a test is not Python.
        """
        return [*self.setup, *self.test_parts]

    @cached_property
    def test_parts(self) -> list[Statement]:
        """Top-level statements of the tests, parsed on first use.

        Raises:
            BadTests: if a test is not Python.
        """
        return all_statements(self.tests)


def has_test_functions(parts: Sequence[Statement]) -> bool:
    """Test if code has a test function or test class, and not only bare asserts."""
    return bool(_found_tests(parts))


def read_test_module(parts: list[Statement]) -> Module:
    """Split the statements of test code into setup and tests.

    Raises:
        BadTests: if the code has no tests, or needs a part of pytest without a stand-in.

    Examples:
        >>> read_test_module(statements("import math\\nassert f(1) == 2\\nassert f(2) == 4")).tests
        ('assert f(1) == 2', 'assert f(2) == 4')
        >>> read_test_module(statements("def test_f():\\n    assert f(1) == 2")).tests
        ('test_f()',)
    """
    found = _found_tests(parts)
    return _module(parts, found) if found else _script(parts)


def told_test(snippet: str) -> str:
    """Return the name of a module's test from the code that runs it; the snippet itself for any other test.

    Examples:
        >>> told_test("__trl_pytest__.run_method(globals(), 'TestSum', 'test_add')"), told_test("assert f(1) == 2")
        ('TestSum.test_add', 'assert f(1) == 2')
    """
    # The code before the last line is that of the module.
    found = _SNIPPET.fullmatch(snippet.rstrip().rpartition("\n")[2])
    if found is None:
        return snippet
    return found[1] or ".".join(re.findall(r"\w+", found[2]))


def _module(parts: list[Statement], found: list[_Test]) -> Module:
    names = {test.name for test in found}
    kept = [
        part for part in parts if not _is_main_guard(part) and not _runs_tests(part, names)
    ]
    run = [test for test in found if not test.left_out]
    if not run:
        raise BadTests(TESTS_SKIPPED, "\n".join(part.text for part in parts))
    for test in run:
        _need(f"{test.name}, which yields and so runs nothing", not _yields(test.node))
    if all(_is_plain(part.node) for part in kept):
        return Module(tuple(kept), tuple(f"{test.name}()" for test in run))
    check_pytest_names(kept)
    _check_fixtures(kept, run)
    arguments = arguments_in(nodes_of(kept))
    takes_builtin_fixtures = not arguments.isdisjoint(builtin_fixtures.BUILTIN_FIXTURES)
    return Module(
        setup=tuple(map(_with_own_bodies, kept)),
        tests=tuple(test.snippet for test in run),
        preamble=shim_setup(takes_builtin_fixtures),
    )


def _with_own_bodies(part: Statement) -> Statement:
    """Register the bodies of decorated tests with the runner, since a decorator may come from the program."""
    outer = part.node
    members = [outer, *getattr(outer, "body", [])]
    if not any(getattr(node, "decorator_list", []) for node in members):
        return part
    # Parsed again, since its lines are counted in the text of all statements.
    (whole,) = statements(part.text)
    is_class = isinstance(whole.node, ast.ClassDef)
    is_decorated_class = is_class and bool(getattr(whole.node, "decorator_list", []))
    functions = getattr(whole.node, "body", []) if is_class else [whole.node]
    lines = part.text.split("\n")
    # From the last on, so that no line moves before its turn.
    for node in reversed(functions):
        is_test = isinstance(node, _Function) and node.name.startswith("test")
        if is_test and (is_decorated_class or node.decorator_list):
            above = node.lineno - 1
            indent = lines[above][: node.col_offset]
            lines.insert(above, f"{indent}@{RUNNER}.own_body")
    return statements("\n".join(lines))[0]


def _yields(node: ast.AST) -> bool:
    """Detect a `yield` in a function, outside its inner functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.Lambda):
            continue
        if isinstance(child, ast.Yield | ast.YieldFrom) or _yields(child):
            return True
    return False


def _is_plain(node: ast.stmt) -> bool:
    """Test that a statement needs no test runner, which costs the judge milliseconds to compile."""
    if isinstance(node, ast.FunctionDef):
        takes_fixtures = node.name.startswith("test") and ast.unparse(node.args) != ""
        is_hook = node.name.startswith(("setup", "teardown"))
        return not takes_fixtures and not node.decorator_list and not is_hook
    if isinstance(node, ast.AsyncFunctionDef | ast.ClassDef):
        return False
    modules: set[str] = set()
    for inner in ast.walk(node):
        modules.update(imported_modules(inner))
    return modules.isdisjoint({"pytest", "unittest"})


def _script(parts: list[Statement]) -> Module:
    """Split code without test functions: one test per assert if the rest is asserts only, else a single test."""
    flat: list[Statement] = []
    for part in parts:
        flat += _unguarded(part)
    active = [place for place, part in enumerate(flat) if not part.is_definition]
    asserts = [place for place, part in enumerate(flat) if part.is_assert]
    if not active:
        raise BadTests("tests_empty", "\n".join(part.text for part in flat))
    start = asserts[0] if asserts else active[0]
    rest = flat[start:]
    tests = [part.text for part in rest]
    if not all(part.is_assert for part in rest):
        tests = ["\n".join(tests)]
    return Module(tuple(flat[:start]), tuple(tests), in_one_state=True)


def _unguarded(part: Statement) -> list[Statement]:
    """Unwrap the body of `if __name__ == "__main__":`; return any other statement unchanged."""
    if not _is_main_guard(part) or not isinstance(part.node, ast.If):
        return [part]
    return [unparsed(node) for node in part.node.body]


def _is_main_guard(part: Statement) -> bool:
    if not isinstance(part.node, ast.If):
        return False
    return "__name__" in names_in(ast.walk(part.node.test))


def _runs_tests(part: Statement, names: set[str]) -> bool:
    """Recognize a call of a test function, `unittest.main` or `pytest.main`."""
    if not isinstance(part.node, ast.Expr) or not isinstance(part.node.value, ast.Call):
        return False
    called = ast.unparse(part.node.value.func)
    return called in names or called in {"unittest.main", "pytest.main"}


@dataclass(frozen=True, slots=True)
class _Test:
    node: _Function
    owner: ast.ClassDef | None
    left_out: bool

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def snippet(self) -> str:
        if self.owner is None:
            return f"{RUNNER}.run_function(globals(), {self.name!r})"
        return f"{RUNNER}.run_method(globals(), {self.owner.name!r}, {self.name!r})"


def _found_tests(parts: Sequence[Statement]) -> list[_Test]:
    classes = {
        part.node.name: part.node for part in parts if isinstance(part.node, ast.ClassDef)
    }
    # A later definition replaces an earlier definition of the same name.
    found: dict[tuple[str, str], _Test] = {}
    for part in parts:
        node = part.node
        if (
            isinstance(node, _Function)
            and node.name.startswith("test")
            and not _is_fixture(node)
        ):
            left_out = _is_left_out(node) or _begins_with_skip(node)
            found["", node.name] = _Test(node, None, left_out)
        elif isinstance(node, ast.ClassDef) and _is_test_class(node, classes):
            for method in _methods(node, classes):
                is_marked = _is_left_out(node) or _is_left_out(method)
                left_out = is_marked or _begins_with_skip(method)
                found[node.name, method.name] = _Test(method, node, left_out)
    return list(found.values())


def _is_test_class(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    if _is_case(node, classes):
        return True
    # pytest collects no class that has a constructor.
    makes_itself = any(
        isinstance(inner, ast.FunctionDef) and inner.name == "__init__"
        for inner in node.body
    )
    return node.name.startswith("Test") and not makes_itself


def _is_case(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    for cls in _lineage(node, classes):
        if any(name.endswith("TestCase") for name in map(ast.unparse, cls.bases)):
            return True
    return False


def _methods(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[_Function]:
    # Bases come first, so that a method of the class replaces one that it inherits.
    for cls in reversed(_lineage(node, classes)):
        for inner in cls.body:
            if isinstance(inner, _Function) and inner.name.startswith("test"):
                yield inner


def _lineage(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """List a class with its bases, as far as the module defines them."""
    line: list[ast.ClassDef] = []
    waiting = [node]
    while waiting:
        cls = waiting.pop(0)
        if cls in line:
            continue
        line.append(cls)
        for name in map(ast.unparse, cls.bases):
            if name in classes:
                waiting.append(classes[name])
    return line


def _decorators(node: _Function | ast.ClassDef) -> list[str]:
    """List the last names of a function's decorators: `fixture` of `@pytest.fixture(autouse=True)`."""
    return [path.rpartition(".")[2] for path in _decorator_paths(node)]


def _decorator_paths(node: _Function | ast.ClassDef) -> list[str]:
    """List the dotted names of a function's decorators, such as `mock.patch.object`."""
    paths = []
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        paths.append(ast.unparse(called))
    return paths


def _is_left_out(node: _Function | ast.ClassDef) -> bool:
    for path, decorator in zip(_decorator_paths(node), node.decorator_list, strict=True):
        name = path.rpartition(".")[2]
        # The stand-in for pytest sees whether a condition holds.
        if name in _LEFT_OUT and not (name == "xfail" and _has_condition(decorator)):
            return True
    return False


def _has_condition(mark: ast.expr) -> bool:
    if not isinstance(mark, ast.Call):
        return False
    return bool(mark.args) or any(each.arg == "condition" for each in mark.keywords)


def _begins_with_skip(node: _Function) -> bool:
    """Recognize a test whose first statement skips it: it can neither pass nor ask the program."""
    first = node.body[0]
    if ast.get_docstring(node) is not None and len(node.body) > 1:
        first = node.body[1]
    if isinstance(first, ast.Raise) and first.exc is not None:
        raised = first.exc.func if isinstance(first.exc, ast.Call) else first.exc
        return ast.unparse(raised) == "unittest.SkipTest"
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Call):
        return False
    return ast.unparse(first.value.func) in _SKIPS


def _is_fixture(node: ast.stmt) -> bool:
    return isinstance(node, _Function) and bool(
        {"fixture", "yield_fixture"} & set(_decorators(node))
    )


def check_pytest_names(parts: Sequence[Statement]) -> None:
    """Refuse, before any run, names and attributes of pytest that the stand-in lacks: a right program would fail.

    Raises:
        BadTests: if there is such a name.
    """
    nodes = nodes_of(parts)
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "pytest"
        ):
            _need(f"pytest.{node.attr}", node.attr in _SHIM_NAMES)
        elif isinstance(node, ast.ImportFrom) and node.module == "pytest":
            for alias in node.names:
                _need(f"pytest.{alias.name}", alias.name in _SHIM_NAMES)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {
            "pytest.fixture",
            "fixture",
        }:
            is_plain = all(keyword.arg != "params" for keyword in node.keywords)
            _need("pytest.fixture(params=...)", is_plain)
    known = _attributes_of_names(nodes)
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in known
        ):
            owner = node.value.id
            _need(f"{owner}.{node.attr}", node.attr in known[owner])


def _attributes_of_names(nodes: Sequence[ast.AST]) -> dict[str, frozenset[str]]:
    """Map each name that tests use for a stand-in to the stand-in's attributes.

    These are pytest's fixtures, but those that the tests define themselves, and names such as `e` in
    `with raises(ValueError) as e`, but those that the tests also bind otherwise.
    """
    given = arguments_in(nodes)
    found = {name: _ATTRIBUTES[name] for name in given & _ATTRIBUTES.keys()}
    # Name -> what makes its value in a `with`.
    makers: dict[str, set[str]] = {}
    bound = set(given)
    stored: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, _Function):
            for name in [node.name, *_fixture_names(node)]:
                found.pop(name, None)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] += 1
        elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            made = node.context_expr
            maker = made.func if isinstance(made, ast.Call) else made
            makers.setdefault(node.optional_vars.id, set()).add(
                ast.unparse(maker).removeprefix("pytest.")
            )
            # This `with` binds the name once.
            stored[node.optional_vars.id] -= 1
    for name, known in makers.items():
        is_bound_otherwise = stored[name] > 0 or name in bound
        if len(known) == 1 and known <= _ATTRIBUTES.keys() and not is_bound_otherwise:
            found[name] = _ATTRIBUTES[known.pop()]
    return found


def _check_fixtures(parts: list[Statement], run: list[_Test]) -> None:
    """Refuse, before any run, fixtures that the stand-in for pytest lacks."""
    makers: list[_Function] = []
    fixtures: set[str] = set()
    for node in nodes_of(parts):
        if isinstance(node, _Function) and _is_fixture(node):
            makers.append(node)
            fixtures.update(_fixture_names(node))
    for maker in makers:
        for name in _arguments(maker):
            _need_fixture(name, fixtures | {"self"})
    values = _assigned_values(parts)
    for test in run:
        _check_arguments(test, fixtures, values)


def _need(what: str, is_there: bool) -> None:
    if not is_there:
        raise BadTests("tests_need_pytest", what)


def _fixture_names(node: _Function) -> list[str]:
    """List a fixture's names: its function's name and the value of `name=`; empty for other functions."""
    if not _is_fixture(node):
        return []
    names = [node.name]
    for call in _calls(node.decorator_list):
        for keyword in call.keywords:
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                names.append(str(keyword.value.value))
    return names


def _calls(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    return [node for node in nodes if isinstance(node, ast.Call)]


def _assigned_values(parts: Iterable[Statement]) -> dict[str, ast.expr]:
    """Map each name that a module assigns by itself to its value: `cases = pytest.mark.parametrize("x", [1])`."""
    values = {}
    for part in parts:
        node = part.node
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
    return values


def _without_aliases(
    node: ast.expr, values: Mapping[str, ast.expr], steps: int = 8
) -> ast.expr:
    """Put assigned values in the place of names, in what is called and in the names of its arguments."""
    if steps == 0:
        return node
    if isinstance(node, ast.Name) and node.id in values:
        return _without_aliases(values[node.id], values, steps - 1)
    if isinstance(node, ast.Call):
        called = _without_aliases(node.func, values, steps - 1)
        return ast.Call(called, node.args, node.keywords)
    return node


def _parametrized(mark: ast.Call, values: Mapping[str, ast.expr]) -> set[str]:
    """Collect the arguments that a mark gives a test; none if it is not `parametrize`."""
    if not ast.unparse(mark.func).endswith("parametrize"):
        return set()
    named = mark.args[:1]
    named += [each.value for each in mark.keywords if each.arg == "argnames"]
    names: set[str] = set()
    for node in named:
        for text in _texts(_without_aliases(node, values)):
            names.update(re.findall(r"\w+", text))
    return names


def _check_arguments(
    test: _Test, fixtures: set[str], values: Mapping[str, ast.expr]
) -> None:
    wanted = _arguments(test.node)
    paths = _decorator_paths(test.node)
    marks = list(test.node.decorator_list)
    if test.owner is not None:
        # A method's first parameter is `self`.
        wanted = wanted[1:]
        paths += _decorator_paths(test.owner)
        marks += test.owner.decorator_list
    # `unittest.mock.patch` and its kin pass arguments of their own.
    if any("patch" in path.split(".") for path in paths):
        return
    known = set(fixtures)
    for mark in _calls(_without_aliases(mark, values) for mark in marks):
        known |= _parametrized(mark, values)
    draws = any(path.rpartition(".")[2] == "given" for path in paths)
    if draws and not known.issuperset(wanted):
        raise BadTests("tests_need_hypothesis", test.name)
    for name in wanted:
        _need_fixture(name, known)


def _arguments(node: _Function) -> list[str]:
    """List parameter names without defaults."""
    names = [argument.arg for argument in node.args.args]
    return names[: len(names) - len(node.args.defaults)]


def _need_fixture(name: str, known: set[str]) -> None:
    _need(
        f"the fixture {name!r}", name in known or name in builtin_fixtures.BUILTIN_FIXTURES
    )


def _texts(node: ast.expr) -> list[str]:
    return [str(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Constant)]


def mentions_pytest(parts: Sequence[Statement]) -> bool:
    """Detect code that imports pytest, or uses `pytest` without an import."""
    nodes = nodes_of(parts)
    return "pytest" in names_in(nodes) or any(
        "pytest" in imported_modules(node) for node in nodes
    )


def without_shim(setup: str) -> str:
    """Return a suite's setup without the stand-in for pytest."""
    return "\n".join(
        line for line in setup.split("\n") if not line.startswith("exec(compile(")
    )


@cache
def shim_setup(with_fixtures: bool) -> tuple[Statement, ...]:
    """Write the code that installs the stand-in as module `pytest` in the judge."""
    modules = [pytest_shim, pytest_runner]
    if with_fixtures:
        modules.insert(0, builtin_fixtures)
    lines = [
        "import sys as __sys__, types as __types__",
        f"{RUNNER} = __sys__.modules['pytest'] = __types__.ModuleType('pytest')",
    ]
    for module in modules:
        source = inspect.getsource(module)
        # A single line, which `without_shim` and the judge recognize by its beginning.
        lines.append(f"exec(compile({source!r}, 'pytest', 'exec'), {RUNNER}.__dict__)")
    return tuple(statements("\n".join(lines)))
