"""Every limit of a run is held, is a setting of users, and is told in the documentation."""

from __future__ import annotations

from dataclasses import fields
from inspect import getdoc
from pathlib import Path

import pytest

from trl_grpo_ext.programs.sandbox.job import Ending, Job, Limits, StdioCase, StdioSuite
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.session import SESSION_LIMITS
from trl_grpo_ext.rewards import UnitTestVerifier

DOCS = Path(__file__).parents[2] / "docs"
NAMES = [field.name for field in fields(Limits)]
# The verifier's setting of a limit, where it has another name.
SETTINGS = {"wall_seconds": "timeout", "cpu_seconds": "timeout"}

THREADS = """
import threading
held = threading.Event()
for _ in range(9):
    threading.Thread(target=held.wait, daemon=True).start()
held.wait()
"""

# For each limit: a value, a program that exceeds it, and how that may end.
OVER: dict[str, tuple[float, str, set[Ending]]] = {
    "wall_seconds": (0.3, "import time; time.sleep(99)", {Ending.TIMEOUT}),
    "cpu_seconds": (1.0, "while True: pass", {Ending.TIMEOUT}),
    "memory_mb": (64, "bytearray(1 << 30)", {Ending.MEMORY}),
    # The kernel refuses a thread; where it does not count them, the zygote kills the program.
    "processes": (4, THREADS, {Ending.ERROR, Ending.KILLED}),
    "output_kb": (1, "print('x' * 3000)", {Ending.OUTPUT_LIMIT}),
    "disk_mb": (1, "open('file', 'w').write('x' * (2 << 20))", {Ending.ERROR}),
}


def test_every_limit_has_a_program_that_exceeds_it() -> None:
    assert set(OVER) == set(NAMES)


def test_a_program_that_exceeds_a_limit_ends_as_the_limit_says(
    sandbox: LocalSandbox,
) -> None:
    suite = StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
    jobs = []
    for name, (value, program, _) in OVER.items():
        # Time for a busy machine, unless time is what is limited.
        limits = Limits(**{"wall_seconds": 60.0, "cpu_seconds": 30.0, name: value})  # type: ignore[arg-type]
        jobs.append(Job(program=program, suite=suite, limits=limits))
    for (name, (_, _, endings)), result in zip(
        OVER.items(), sandbox.run(jobs), strict=True
    ):
        assert result.ending in endings, (name, result.detail)


def test_the_expected_output_may_be_printed_whatever_its_characters_take(
    sandbox: LocalSandbox,
) -> None:
    suite = StdioSuite(tests=(StdioCase(stdin="", stdout="中" * 3000),))
    job = Job(program="print('中' * 3000)", suite=suite, limits=Limits(output_kb=1))
    [result] = sandbox.run([job])
    assert result.ending is Ending.PASSED, result.detail


@pytest.mark.parametrize("name", NAMES)
def test_every_limit_is_a_setting_of_the_verifier_with_the_same_default(name: str) -> None:
    setting = SETTINGS.get(name, name)
    assert getattr(UnitTestVerifier().limits, name) == getattr(Limits(), name)
    assert getattr(UnitTestVerifier(**{setting: 7}).limits, name) == 7


@pytest.mark.parametrize("name", NAMES)
def test_every_limit_is_told_to_users(name: str) -> None:
    setting = SETTINGS.get(name, name)
    default = f"{getattr(SESSION_LIMITS, name):,g}"
    tool = (DOCS / "python_tool.md").read_text(encoding="utf-8")
    rows = [line for line in tool.splitlines() if line.startswith(f"| `limits.{name}` |")]
    assert rows, f"docs/python_tool.md has no row for limits.{name}"
    assert rows[0].endswith(f"| {default} |")
    pages = [DOCS / "sandbox.md", DOCS / "unit_tests_reference.md"]
    assert any(f"`{setting}`" in page.read_text(encoding="utf-8") for page in pages)
    assert f"\n    {name}: " in (getdoc(Limits) or "")
    assert f"\n    {setting}: " in (getdoc(UnitTestVerifier) or "")
