"""Output and exit status of `trl-grpo-ext doctor`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from walls import walls_or_skip

from trl_grpo_ext import doctor as examination
from trl_grpo_ext.doctor import Level, advice, run_doctor, shown_text
from trl_grpo_ext.programs.sandbox import installed, packages
from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.probe import AttackResult

HELD = (AttackResult(attack="read a file", held=True, seen="no"),)
BROKEN = (AttackResult(attack="read a file", held=False, seen="canary \x1b[2J"),)


def with_levels(patch: pytest.MonkeyPatch, **found: Level) -> None:
    """Replace probing by given results per isolation level; unnamed levels count as missing."""

    def probe(isolation: Isolation) -> Level:
        return found.get(
            isolation.name,
            Level(isolation=isolation, missing="unshare: Operation not permitted"),
        )

    patch.setattr(examination, "probe_level", probe)


@pytest.fixture(scope="module")
def examined() -> tuple[int, list[str]]:
    """Examine this machine once, and return status and lines."""
    lines: list[str] = []
    return run_doctor(lines.append), lines


def test_it_says_which_walls_this_machine_has(examined: tuple[int, list[str]]) -> None:
    status, lines = examined
    text = "\n".join(lines)
    assert all(level in text for level in examination.LEVELS)
    assert status in (examination.HOLDS, examination.NO_WALLS)
    assert ("Programs run at the level" in text) == (status == examination.HOLDS)


def test_as_json_it_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    with_levels(monkeypatch)
    lines: list[str] = []
    status = run_doctor(lines.append, as_json=True)
    report = json.loads("\n".join(lines))
    assert report["status"] == status
    assert [level["level"] for level in report["levels"]] == list(examination.LEVELS)


def test_without_walls_it_says_how_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    with_levels(monkeypatch)
    lines: list[str] = []
    assert run_doctor(lines.append) == examination.NO_WALLS
    assert any("unprivileged_userns_clone" in line for line in lines)


def test_walls_that_an_attack_gets_through_are_not_used_and_make_the_status_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full, landlock = Isolation.FULL, Isolation.LANDLOCK
    with_levels(
        monkeypatch,
        FULL=Level(isolation=full, attacks=BROKEN),
        LANDLOCK=Level(isolation=landlock, attacks=HELD),
    )
    lines: list[str] = []
    assert run_doctor(lines.append) == examination.BROKEN
    assert "    BROKEN read a file: canary \\x1b[2J" in lines
    assert f"Programs run at the level {landlock}." in lines


def test_where_programs_can_write_no_files_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_levels(monkeypatch, LANDLOCK=Level(isolation=Isolation.LANDLOCK, attacks=HELD))
    lines: list[str] = []
    assert run_doctor(lines.append) == examination.HOLDS
    assert any("no files" in line for line in lines)


def test_it_says_what_programs_can_import_and_from_where(
    examined: tuple[int, list[str]],
) -> None:
    status, lines = examined
    assert status == examination.NO_WALLS or any(
        line.startswith("  numpy: /") for line in lines
    )
    assert not any(".dist-info" in line for line in lines)


def test_where_numpy_is_installed_and_cannot_be_shown_the_status_is_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best = walls_or_skip()
    with_levels(monkeypatch, FULL=Level(isolation=best, attacks=HELD))
    monkeypatch.setattr(installed, "find", lambda name: ())
    packages._shown.cache_clear()
    lines: list[str] = []
    try:
        assert run_doctor(lines.append) == examination.BROKEN
    finally:
        packages._shown.cache_clear()
    assert any(
        "numpy is installed, and programs cannot import it" in line for line in lines
    )


def test_what_is_missing_is_explained_where_that_is_known() -> None:
    assert "kernel of 5.13" in advice(
        "Landlock: this kernel does not have it, or it is off"
    )
    assert advice("something else") == ""


def test_a_program_cannot_write_to_the_terminal() -> None:
    assert shown_text("a\x1b]0;x\x07\n") == "a\\x1b]0;x\\x07\\n"


UNDER_A_LIMIT = """
from trl_grpo_ext.rewards import UnitTestVerifier
right, tests = "def one():\\n    return 1", [["assert one() == 1"]]
for disk_mb in (1, 64):
    verdict = UnitTestVerifier(disk_mb=disk_mb).judge([right], tests=tests)[0]
    print(verdict.blame, "RLIMIT_FSIZE" in str(verdict.details))
"""


def under_a_limit(megabytes: int, *command: str) -> subprocess.CompletedProcess[str]:
    size = megabytes << 20
    run = [
        "import os, resource, sys",
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))",
    ]
    start = "; ".join([*run, "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"])
    return subprocess.run(
        [sys.executable, "-c", start, *command], capture_output=True, text=True, check=False
    )


def test_where_programs_cannot_have_what_their_limits_say_the_doctor_says_why() -> None:
    done = under_a_limit(8, "-m", "trl_grpo_ext", "doctor")
    assert (
        "RLIMIT_FSIZE: programs get 16777216, and `ulimit` gives this process 8388608 at most"
        in done.stdout
    )
    assert "ulimit -Ha" in done.stdout


def test_a_program_that_gets_less_than_its_limits_say_has_no_verdict() -> None:
    done = under_a_limit(32, "-c", UNDER_A_LIMIT)
    assert done.stdout == "policy False\ngrader True\n", done.stderr
