"""Split pytest or unittest code into a setup and tests, so that tests are counted before they run.

Nothing is run here: tests are found by name, as in pytest. Tests marked as skipped or as expected failures are left
out. In code without test functions, each assert is a test.
"""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from trl_grpo_ext.programs.suites.bad_tests import BadTests
from trl_grpo_ext.programs.suites.in_judge import builtin_fixtures, pytest_runner, pytest_shim
from trl_grpo_ext.programs.suites.source import Statement, nodes_of, statements, unparsed

RUNNER = "__trl_pytest__"
_LEFT_OUT = frozenset({"skip", "xfail", "expectedFailure"})
_SHIM_NAMES = frozenset(
    {"fail", "skip", "importorskip", "raises", "warns", "approx", "param", "mark", "fixture", "yield_fixture", "main"}
)
# By fixture of pytest, or by what makes it in a `with`: the attributes that the stand-in has.
_ATTRIBUTES = {
    "monkeypatch": frozenset(dir(builtin_fixtures.MonkeyPatch)),
    "monkeypatch.context": frozenset(dir(builtin_fixtures.MonkeyPatch)),
    "capsys": frozenset(dir(builtin_fixtures.Capture)),
    "tmp_path_factory": frozenset(dir(builtin_fixtures.TempPathFactory)),
    "raises": frozenset({*dir(pytest_shim.raises(ValueError)), *vars(pytest_shim.raises(ValueError))}),
    "warns": frozenset({*dir(pytest_shim.warns), "list"}),
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
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


def has_test_functions(parts: Sequence[Statement]) -> bool:
    """Test if code has a test function or test class, and not only bare asserts."""
    return bool(_found_tests(parts))


def read_test_module(source: str) -> Module:
    """Split test code into setup and tests.

    Raises:
        BadTests: if the code is not Python, has no tests, or needs a part of pytest without a stand-in.

    Examples:
        >>> read_test_module("import math\\nassert f(1) == 2\\nassert f(2) == 4").tests
        ('assert f(1) == 2', 'assert f(2) == 4')
        >>> read_test_module("def test_f():\\n    assert f(1) == 2").tests
        ('test_f()',)
    """
    parts = statements(source)
    found = _found_tests(parts)
    return _module(parts, found) if found else _script(parts)


def _module(parts: list[Statement], found: list[_Test]) -> Module:
    names = {test.name for test in found}
    kept = [part for part in parts if not _is_main_guard(part) and not _runs_tests(part, names)]
    tests = tuple(test.snippet for test in found if not test.left_out)
    if not tests:
        raise BadTests("tests_empty", "\n".join(part.text for part in parts))
    for test in found:
        _need(f"{test.name}, which yields and so runs nothing", test.left_out or not _yields(test.node))
    if all(_is_plain(part.node) for part in kept):
        return Module(tuple(kept), tuple(f"{test.name}()" for test in found))
    check_pytest_names(kept)
    _check_fixtures(kept, found)
    preamble = shim_setup(_takes_builtin_fixtures(kept))
    return Module(tuple(map(_with_own_bodies, kept)), tests, preamble=preamble)


def _with_own_bodies(part: Statement) -> Statement:
    """Register the bodies of decorated tests with the runner, since a decorator may come from the program."""
    if not any(getattr(node, "decorator_list", []) for node in [part.node, *getattr(part.node, "body", [])]):
        return part
    (whole,) = statements(part.text)
    inner = whole.node.body if isinstance(whole.node, ast.ClassDef) else [whole.node]
    by_class = getattr(whole.node, "decorator_list", [])
    lines = part.text.split("\n")
    for node in reversed(inner):
        if isinstance(node, _Function) and node.name.startswith("test") and (by_class or node.decorator_list):
            lines.insert(node.lineno - 1, f"{lines[node.lineno - 1][: node.col_offset]}@{RUNNER}.own_body")
    return statements("\n".join(lines))[0]


def _yields(node: ast.AST) -> bool:
    """Detect a `yield` in a function, outside its inner functions."""
    inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _Function | ast.Lambda)]
    return any(isinstance(child, ast.Yield | ast.YieldFrom) or _yields(child) for child in inner)


def _is_plain(node: ast.stmt) -> bool:
    """Test that a statement needs no test runner, which costs the judge milliseconds to compile."""
    if isinstance(node, ast.FunctionDef):
        takes_fixtures = node.name.startswith("test") and ast.unparse(node.args) != ""
        return not takes_fixtures and not node.decorator_list and not node.name.startswith(("setup", "teardown"))
    return not isinstance(node, ast.AsyncFunctionDef | ast.ClassDef) and not _imports_runner(node)


def _script(parts: list[Statement]) -> Module:
    """Split code without test functions: one test per assert if the rest is asserts only, else a single test."""
    parts = [inner for part in parts for inner in _unguarded(part)]
    active = [index for index, part in enumerate(parts) if not part.is_definition]
    if not active:
        raise BadTests("tests_empty", "\n".join(part.text for part in parts))
    start = next((index for index, part in enumerate(parts) if part.is_assert), active[0])
    setup, rest = parts[:start], parts[start:]
    texts = [part.text for part in rest]
    tests = tuple(texts) if all(part.is_assert for part in rest) else ("\n".join(texts),)
    return Module(tuple(setup), tests, in_one_state=True)


def _unguarded(part: Statement) -> list[Statement]:
    """Unwrap the body of `if __name__ == "__main__":`; return any other statement unchanged."""
    if not _is_main_guard(part) or not isinstance(part.node, ast.If):
        return [part]
    return [unparsed(node) for node in part.node.body]


def _is_main_guard(part: Statement) -> bool:
    node = part.node
    return isinstance(node, ast.If) and any(
        isinstance(name, ast.Name) and name.id == "__name__" for name in ast.walk(node.test)
    )


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
    classes = {part.node.name: part.node for part in parts if isinstance(part.node, ast.ClassDef)}
    # A later definition replaces an earlier definition of the same name.
    found: dict[tuple[str, str], _Test] = {}
    for part in parts:
        node = part.node
        if isinstance(node, _Function) and node.name.startswith("test") and not _is_fixture(node):
            found["", node.name] = _Test(node, None, _is_left_out(node))
        elif isinstance(node, ast.ClassDef) and _is_test_class(node, classes):
            left_out = _is_left_out(node)
            for method in _methods(node, classes):
                found[node.name, method.name] = _Test(method, node, left_out or _is_left_out(method))
    return list(found.values())


def _is_test_class(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    if _is_case(node, classes):
        return True
    makes_itself = any(isinstance(inner, ast.FunctionDef) and inner.name == "__init__" for inner in node.body)
    return node.name.startswith("Test") and not makes_itself


def _is_case(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    return any(name.endswith("TestCase") for cls in _lineage(node, classes) for name in map(ast.unparse, cls.bases))


def _methods(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[_Function]:
    for cls in reversed(_lineage(node, classes)):
        for inner in cls.body:
            if isinstance(inner, _Function) and inner.name.startswith("test"):
                yield inner


def _lineage(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """List a class and its bases within the same module."""
    line, waiting = [], [node]
    while waiting:
        cls = waiting.pop(0)
        if cls not in line:
            line.append(cls)
            waiting += [classes[name] for name in map(ast.unparse, cls.bases) if name in classes]
    return line


def _decorators(node: _Function | ast.ClassDef) -> list[str]:
    """List the last names of a function's decorators: `fixture` of `@pytest.fixture(autouse=True)`."""
    return [path.rpartition(".")[2] for path in _decorator_paths(node)]


def _decorator_paths(node: _Function | ast.ClassDef) -> list[str]:
    """List the dotted names of a function's decorators, such as `mock.patch.object`."""
    called = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return [ast.unparse(each) for each in called]


def _is_left_out(node: _Function | ast.ClassDef) -> bool:
    return bool(_LEFT_OUT & set(_decorators(node)))


def _is_fixture(node: ast.stmt) -> bool:
    return isinstance(node, _Function) and bool({"fixture", "yield_fixture"} & set(_decorators(node)))


def check_pytest_names(parts: Sequence[Statement]) -> None:
    """Refuse, before any run, names and attributes of pytest that the stand-in lacks: a right program would fail.

    Raises:
        BadTests: if there is such a name.
    """
    nodes = nodes_of(parts)
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pytest":
            _need(f"pytest.{node.attr}", node.attr in _SHIM_NAMES)
        if isinstance(node, ast.ImportFrom) and node.module == "pytest":
            for alias in node.names:
                _need(f"pytest.{alias.name}", alias.name in _SHIM_NAMES)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"pytest.fixture", "fixture"}:
            _need("pytest.fixture(params=...)", all(keyword.arg != "params" for keyword in node.keywords))
    known = _attributes_of_names(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            _need(f"{node.value.id}.{node.attr}", node.attr in known[node.value.id])


def _attributes_of_names(nodes: Sequence[ast.AST]) -> dict[str, frozenset[str]]:
    """Map each name that tests use for a stand-in to the stand-in's attributes.

    These are pytest's fixtures, but those that the tests define themselves, and names such as `e` in
    `with raises(ValueError) as e`, but those that the tests also bind otherwise.
    """
    own = {name for node in nodes if isinstance(node, _Function) for name in [node.name, *_fixture_names(node)]}
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    found = {name: _ATTRIBUTES[name] for name in (given & _ATTRIBUTES.keys()) - own}
    targets: dict[str, set[str]] = {}
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    for node in nodes:
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            maker = node.context_expr.func if isinstance(node.context_expr, ast.Call) else node.context_expr
            targets.setdefault(node.optional_vars.id, set()).add(ast.unparse(maker).removeprefix("pytest."))
            stored[node.optional_vars.id] -= 1
    bound = given | {node.name for node in nodes if isinstance(node, ast.ExceptHandler)}
    for name, makers in targets.items():
        if len(makers) == 1 and makers <= _ATTRIBUTES.keys() and not stored[name] and name not in bound:
            found[name] = _ATTRIBUTES[makers.pop()]
    return found


def _check_fixtures(parts: list[Statement], found: list[_Test]) -> None:
    """Refuse, before any run, fixtures that the stand-in for pytest lacks."""
    nodes = nodes_of(parts)
    makers = [node for node in nodes if isinstance(node, _Function) and _is_fixture(node)]
    fixtures = {name for maker in makers for name in _fixture_names(maker)}
    for maker in makers:
        for name in _arguments(maker):
            _need_fixture(name, fixtures | {"self"})
    for test in found:
        if not test.left_out:
            _check_arguments(test, fixtures)


def _need(what: str, is_there: bool) -> None:
    if not is_there:
        raise BadTests("tests_need_pytest", what)


def _fixture_names(node: _Function) -> list[str]:
    if not _is_fixture(node):
        return []
    keywords = [word for each in node.decorator_list if isinstance(each, ast.Call) for word in each.keywords]
    values = [word.value for word in keywords if word.arg == "name"]
    return [node.name, *(str(value.value) for value in values if isinstance(value, ast.Constant))]


def _check_arguments(test: _Test, fixtures: set[str]) -> None:
    decorated = [test.node] if test.owner is None else [test.node, test.owner]
    # `unittest.mock.patch` and its kin pass arguments of their own.
    if any("patch" in path.split(".") for node in decorated for path in _decorator_paths(node)):
        return
    wanted = _arguments(test.node)[0 if test.owner is None else 1 :]
    marks = [*test.node.decorator_list, *(test.owner.decorator_list if test.owner else [])]
    calls = [mark for mark in marks if isinstance(mark, ast.Call)]
    named = [mark.args[0] for mark in calls if mark.args and ast.unparse(mark.func).endswith("parametrize")]
    given = {name.strip() for each in named for text in _texts(each) for name in text.split(",")}
    for name in wanted:
        _need_fixture(name, fixtures | given)


def _arguments(node: _Function) -> list[str]:
    """Return the names of the parameters that have no default."""
    names = [argument.arg for argument in node.args.args]
    return names[: len(names) - len(node.args.defaults)]


def _need_fixture(name: str, known: set[str]) -> None:
    _need(f"the fixture {name!r}", name in known or name in builtin_fixtures.BUILTIN_FIXTURES)


def _takes_builtin_fixtures(parts: Sequence[Statement]) -> bool:
    nodes = nodes_of(parts)
    return any(isinstance(node, ast.arg) and node.arg in builtin_fixtures.BUILTIN_FIXTURES for node in nodes)


def _texts(node: ast.expr) -> list[str]:
    return [str(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Constant)]


def _imports_runner(node: ast.stmt) -> bool:
    return any(module in {"pytest", "unittest"} for inner in ast.walk(node) for module in _imported(inner))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    return [(node.module or "").partition(".")[0]] if isinstance(node, ast.ImportFrom) else []


def mentions_pytest(parts: Sequence[Statement]) -> bool:
    """Detect code that imports pytest, or uses `pytest` without an import."""
    return any(
        "pytest" in _imported(node) or (isinstance(node, ast.Name) and node.id == "pytest") for node in nodes_of(parts)
    )


def without_shim(setup: str) -> str:
    """Return a suite's setup without the stand-in for pytest."""
    return "\n".join(line for line in setup.split("\n") if not line.startswith("exec(compile("))


@cache
def shim_setup(with_fixtures: bool) -> tuple[Statement, ...]:
    """Write the code that installs the stand-in as module `pytest` in the judge."""
    parts = [*([builtin_fixtures] if with_fixtures else []), pytest_shim, pytest_runner]
    sources = [inspect.getsource(part) for part in parts]
    code = (
        "import sys as __sys__, types as __types__\n"
        f"{RUNNER} = __sys__.modules['pytest'] = __types__.ModuleType('pytest')\n"
    ) + "\n".join(f"exec(compile({source!r}, 'pytest', 'exec'), {RUNNER}.__dict__)" for source in sources)
    return tuple(statements(code))
