"""What `trl-grpo-ext doctor` says, and the status that it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trl_grpo_ext.doctor import examination
from trl_grpo_ext.doctor.corpus import Record
from trl_grpo_ext.doctor.examination import Level, advice, run_doctor, shown
from trl_grpo_ext.sandbox.isolation import Isolation
from trl_grpo_ext.sandbox.probe import AttackResult

HELD = (AttackResult(attack="read a file", held=True, seen="no"),)
BROKEN = (AttackResult(attack="read a file", held=False, seen="canary"),)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of one attack."""
    row = {
        "id": "lie",
        "category": "comparison",
        "kind": "function",
        "completion": "class Yes:\n    def __eq__(self, other): return True\ndef f(x):\n    return Yes()",
        "tests": ["assert f(1) == 1"],
        "limits": {"wall_s": 3, "cpu_s": 3, "memory_mb": 128, "output_kb": 8, "disk_mb": 1, "pids": 8},
        "expected": {"passed": False},
    }
    (tmp_path / "lie.json").write_text(json.dumps(row))
    return tmp_path


def with_levels(patch: pytest.MonkeyPatch, **found: Level) -> None:
    """Let probing find this; what is not named is missing."""

    def probe(isolation: Isolation) -> Level:
        return found.get(isolation.name, Level(isolation=isolation, missing="unshare: Operation not permitted"))

    patch.setattr(examination, "probe_level", probe)


def test_it_says_which_walls_this_machine_has() -> None:
    lines: list[str] = []
    status = run_doctor(lines.append, corpus=False)
    text = "\n".join(lines)
    assert all(level.label in text for level in examination.LEVELS)
    assert status in (examination.HOLDS, examination.NO_WALLS)
    assert ("Programs run at the level" in text) == (status == examination.HOLDS)


def test_an_attack_of_the_corpus_is_tried(corpus: Path) -> None:
    lines: list[str] = []
    status = run_doctor(lines.append, folder=corpus)
    if status == examination.NO_WALLS:
        pytest.skip("this machine has no walls to run programs behind")
    assert status == examination.HOLDS
    assert any("comparison" in line and "1 of   1 held" in line for line in lines)
    assert lines[-1] == "Everything held."


def test_as_json_it_is_one_object(corpus: Path) -> None:
    lines: list[str] = []
    status = run_doctor(lines.append, folder=corpus, as_json=True)
    report = json.loads("\n".join(lines))
    assert report["status"] == status
    assert [level["level"] for level in report["levels"]] == [level.label for level in examination.LEVELS]
    if status != examination.NO_WALLS:
        assert [(each["id"], each["held"]) for each in report["programs"]] == [("lie", True)]


def test_without_walls_it_says_how_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    with_levels(monkeypatch)
    lines: list[str] = []
    assert run_doctor(lines.append) == examination.NO_WALLS
    assert any("unprivileged_userns_clone" in line for line in lines)


def test_walls_that_an_attack_gets_through_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    full, landlock = Isolation.FULL, Isolation.LANDLOCK
    with_levels(
        monkeypatch, FULL=Level(isolation=full, attacks=BROKEN), LANDLOCK=Level(isolation=landlock, attacks=HELD)
    )
    lines: list[str] = []
    assert run_doctor(lines.append, corpus=False) == examination.HOLDS
    assert "    BROKEN read a file: canary" in lines
    assert f"Programs run at the level {landlock.label}." in lines


def test_a_program_that_got_through_makes_the_status_1(monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    with_levels(monkeypatch, FULL=Level(isolation=Isolation.FULL, attacks=HELD))
    got_through = Record(id="lie", category="comparison", ending="passed", seconds=0.1, broken=("it passed \x1b[2J",))
    monkeypatch.setattr(examination, "try_corpus", lambda isolation, programs: [got_through])
    lines: list[str] = []
    assert run_doctor(lines.append, folder=corpus) == examination.BROKEN
    assert "    BROKEN lie: it passed \\x1b[2J" in lines


def test_what_is_missing_is_explained_where_that_is_known() -> None:
    assert "kernel of 5.13" in advice("Landlock: this kernel does not have it, or it is off")
    assert advice("something else") == ""


def test_a_program_cannot_write_to_the_terminal() -> None:
    assert shown("a\x1b]0;x\x07\n") == "a\\x1b]0;x\\x07\\n"
