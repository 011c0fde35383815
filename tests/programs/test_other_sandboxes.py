"""Sandboxes of other packages: entry points selected by a verifier's setting `sandbox:`."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed_package import install
from walls import walls_or_skip

from trl_grpo_ext.programs.sandbox.sandbox import find_sandbox
from trl_grpo_ext.rewards import UnitTestVerifier

walls_or_skip()
LAB = """
from dataclasses import replace
from trl_grpo_ext.programs.sandbox.sandbox import find_sandbox

class Lab:
    def __init__(self, *, workers, packages, allow_unsafe):
        self.workers = workers
        self.inner = find_sandbox("local", workers=workers, packages=packages, allow_unsafe=allow_unsafe)

    def run(self, jobs):
        return [replace(result, level="lab") for result in self.inner.run(jobs)]

    def check(self):
        return "lab"

    def close(self):
        self.inner.close()

    def abandon(self):
        pass

def nothing(**settings):
    return None

def two_only(*, workers, **settings):
    if workers != 2:
        raise ValueError("the lab has two workers: write workers: 2")
    return Lab(workers=workers, **settings)
"""
ADD = ["assert add(1, 2) == 3"]
RIGHT, WRONG = "def add(a, b): return a + b", "def add(a, b): return a - b"


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with sandboxes `lab` and `two_only`, which needs 2 workers, and unusable entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lab_sandbox.py").write_text(LAB)
    names = ("Lab", "nothing", "two_only", "ADDRESS")
    lines = "\n".join(f"{name.lower()} = lab_sandbox:{name}" for name in names)
    install(tmp_path, "lab", "trl_grpo_ext.sandboxes", lines)


def test_programs_run_in_the_sandbox_that_a_package_registers() -> None:
    verifier = UnitTestVerifier(sandbox="lab", workers=1)
    verdicts = verifier.judge([RIGHT, WRONG], tests=[ADD, ADD])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0]
    assert {verdict.details["isolation"] for verdict in verdicts} == {"lab"}
    assert verifier.facts() == {"isolation": "lab"}
    assert UnitTestVerifier(sandbox="lab", workers=1, run_only=True)(["pass", "1 / 0"]) == [
        1.0,
        0.0,
    ]
    verifier.close()


def test_more_workers_than_cores_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    find_sandbox("local", workers=500).close()
    assert "workers=500 runs more programs at a time than the" in caplog.text


def test_a_process_has_one_such_sandbox_for_each_of_its_settings() -> None:
    first, second = find_sandbox("lab", workers=1), find_sandbox("lab", workers=2)
    assert first is find_sandbox("lab", workers=1)
    assert [sandbox.workers for sandbox in (first, second)] == [1, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["", "Local", "sandboxfusion+http://127.0.0.1:9"])
def test_an_unknown_sandbox_is_refused_with_the_names_that_there_are(name: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"no sandbox .*(Did you mean `local`|`lab`, `local`).*executor: ray",
    ):
        UnitTestVerifier(sandbox=name)


def test_a_name_that_is_no_sandbox_s_or_refuses_its_settings_fails_before_a_model_is_loaded() -> (
    None
):
    with pytest.raises(
        ValueError,
        match=r"'nothing' cannot be used: lab_sandbox\.nothing of the package 'lab'",
    ):
        UnitTestVerifier(sandbox="nothing")
    with pytest.raises(
        ValueError, match=r"'address', .* cannot be imported: AttributeError"
    ):
        UnitTestVerifier(sandbox="address")
    with pytest.raises(ValueError, match="write workers: 2"):
        UnitTestVerifier(sandbox="two_only")
    assert UnitTestVerifier(sandbox="two_only", workers=2).facts() == {"isolation": "lab"}


def test_a_name_that_two_packages_register_is_refused(tmp_path: Path) -> None:
    install(tmp_path, "other", "trl_grpo_ext.sandboxes", "lab = other_sandbox:Lab")
    with pytest.raises(
        ValueError,
        match=r"several packages register 'lab'.*lab_sandbox\.Lab of the package 'lab'",
    ):
        find_sandbox("lab", workers=3)
