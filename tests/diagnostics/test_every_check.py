"""Each check has a planted fault that names it alone, an action, and its place in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted_faults import PLANTS
from windows import diagnosis_of

from trl_grpo_ext.diagnostics.checks import CHECKS

ROOT = Path(__file__).resolve().parents[2]
CHECK_FOLDER = ROOT / "trl_grpo_ext" / "diagnostics" / "checks"


def test_each_check_stands_in_a_file_of_its_name() -> None:
    names = {path.stem for path in CHECK_FOLDER.rglob("*.py")} - {"__init__"}
    assert names == set(CHECKS), (
        "Name the file of a check by its code, and name the check in PARTS."
    )


@pytest.mark.parametrize("code", CHECKS)
def test_each_check_has_a_planted_fault(code: str) -> None:
    assert code in PLANTS, (
        f"Plant a fault for {code!r}: a simulated run in PLANTS of tests/harness/planted_faults.py."
    )


def test_each_planted_fault_is_of_a_check() -> None:
    assert set(PLANTS) <= set(CHECKS)


@pytest.mark.parametrize("code", CHECKS)
def test_each_check_has_its_section_and_its_row_in_the_documentation(code: str) -> None:
    sections = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    rows = (ROOT / "docs" / "findings_reference.md").read_text(encoding="utf-8")
    assert f"\n## {code}\n" in sections, (
        f"Add a section `## {code}` to docs/findings.md: what it means, what to do."
    )
    assert f"\n| `{code}` | " in rows, (
        f"Add a row `{code}` to docs/findings_reference.md: when it fires."
    )


# One quick plant here; the others run for seconds each.
QUICK = "mixed_groups"


@pytest.mark.parametrize(
    "code",
    [
        code if code == QUICK else pytest.param(code, marks=pytest.mark.slow)
        for code in PLANTS
    ],
)
def test_a_planted_fault_gives_its_finding_first_and_an_action(code: str) -> None:
    plant = PLANTS[code]
    found = diagnosis_of(plant.events(), plant.settings)
    first = found.causes[0]
    assert first.code == code, found.sentence
    assert first.action.strip(), f"Give the finding of {code!r} an action: one thing to do."
