"""Run the sandbox as users with fewer privileges than the user who runs the tests.

Each check runs in a process that first drops privileges.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sandbox_corpus

import trl_grpo_ext
from trl_grpo_ext.doctor import probe_level
from trl_grpo_ext.programs.sandbox.isolation import Isolation
from trl_grpo_ext.programs.sandbox.walls import kernel

USER = 1000
SECONDS = 120
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64",
    reason="powers of Linux on x86-64",
)

# Drops the privileges named in argv[1], separated by commas, then executes the command that follows.
LAUNCHER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def refuse_unshare(users_only):
    new_user = [(0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000)] if users_only else []
    program = [(0x20, 0, 0, 0), (0x15, 0, len(new_user) + 1, 272), *new_user, (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    pointer = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", len(program), ctypes.addressof(buffer)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, pointer) == 0
for word in sys.argv[1].split(","):
    if word == "user":
        os.setgroups([]); os.setresgid(USER, USER, USER); os.setresuid(USER, USER, USER)
    elif word == "no_sys_admin":
        assert libc.prctl(24, 21, 0, 0, 0) == 0
    elif word == "no_setuid":
        assert libc.prctl(24, 7, 0, 0, 0) == 0
    elif word == "umask":
        os.umask(0o077)
    elif word.startswith("no_unshare"):
        refuse_unshare(word.endswith("_user"))
os.execv(sys.argv[2], sys.argv[2:])
""".replace("USER", str(USER))

BODY = """
import json, sys
from trl_grpo_ext.doctor import LEVELS, probe_level
from sandbox_corpus import load_corpus, try_corpus
levels = [probe_level(isolation) for isolation in LEVELS]
best = next((level.isolation for level in levels if level.holds), None)
wanted = ("host", "judge_code", "network", "persistence", "secrets")
more = {
    "recursion", "temporary_files", "processes", "threads", "input_loop", "res_disk", "res_zombies",
    "res_memory_together", "res_memory_together_talking", "res_small_threads", "res_disk_reserved",
    "chan_realtime_signal", "oracle_installed_packages", "database_in_a_file", "asks_for_its_host",
    "event_loop_and_pipes", "res_disk_deep", "res_disk_folders", "res_threads_bare", "res_threads_own_files",
}
more |= {each.id for each in load_corpus() if each.id.startswith(("res_memory_", "standing_in_", "class_of_tests_"))}
slow = {"persist_many_files", "persist_stubborn_files", "persist_double_fork_daemon"}
programs = [each for each in load_corpus() if (each.category in wanted or each.id in more) and each.id not in slow]
records = try_corpus(best, programs) if best is not None else []
# How long a program took says more of the machine than of the walls.
broken = {each.id: [text for text in each.broken if not text.startswith("it took")] for each in records}
print(json.dumps({
    "levels": {
        each.isolation.name: each.missing or [f.attack + ": " + f.seen for f in each.attacks if not f.held]
        for each in levels
    },
    "best": best and best.name, "programs": len(records),
    "broken": {name: texts for name, texts in broken.items() if texts}}))
"""


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    """Yield a folder with a copy of the package, readable for all users."""
    assert trl_grpo_ext.__file__ is not None
    folder = Path(tempfile.mkdtemp(prefix="trl_grpo_ext-identities-"))
    try:
        # With the compiled files, which the processes of another user could not write.
        ignored = shutil.ignore_patterns("tiny_*", "sums")
        shutil.copytree(
            Path(trl_grpo_ext.__file__).parent, folder / "trl_grpo_ext", ignore=ignored
        )
        for path in Path(sandbox_corpus.__file__).parent.glob("sandbox_*"):
            shutil.copy(path, folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield folder
    finally:
        shutil.rmtree(folder)


@functools.cache
def python_for(powers: str) -> str | None:
    """Find a Python that runs, and reads its own library, with reduced privileges; None without such a Python."""
    candidates = [
        sys.executable,
        *(f"/usr/bin/python3.{minor}" for minor in range(11, 16)),
        "/usr/bin/python3",
    ]
    for candidate in filter(os.path.exists, candidates):
        check = "import sys, json, ctypes; sys.exit(sys.version_info < (3, 11))"
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, powers, candidate, "-c", check],
            capture_output=True,
            cwd="/",
            timeout=60,
        )
        if done.returncode == 0:
            return candidate
    return None


@functools.cache
def examine(package: Path, powers: str) -> dict[str, Any]:
    """Return the doctor's findings with reduced privileges."""
    if not kernel.has_capability(kernel.CAP_SETUID) or not kernel.has_capability(
        kernel.CAP_SYS_ADMIN
    ):
        pytest.skip("only a privileged user can become others")
    python = python_for(powers)
    if python is None:
        pytest.skip(f"no Python here that can be run as {powers}")
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, powers, python, "-c", BODY],
        capture_output=True,
        text=True,
        cwd="/",
        env={
            "PYTHONPATH": str(package),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": os.environ["PATH"],
        },
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "powers",
    [
        "user",
        "no_unshare",
        "user,no_unshare",
        "no_sys_admin",
        "no_sys_admin,no_setuid",
        "no_unshare_user",
        "umask",
    ],
)
def test_what_holds_is_found_out_and_holds(package: Path, powers: str) -> None:
    found = examine(package, powers)
    if found["best"] is None:
        pytest.skip(f"no walls as {powers}: {found['levels']}")
    assert found["programs"] > 60
    assert found["broken"] == {}


# Probing the walls as another user takes seconds.
@pytest.mark.slow
def test_without_unshare_there_are_no_namespaces_and_landlock_is_used(
    package: Path,
) -> None:
    found = examine(package, "no_unshare")
    assert (
        "unshare" in found["levels"]["FULL"] and "unshare" in found["levels"]["NAMESPACES"]
    )
    assert found["best"] in ("LANDLOCK", None)


# Probing the walls as another user takes seconds.
@pytest.mark.slow
def test_where_the_kernel_does_not_count_the_users_processes_there_are_no_namespaces(
    package: Path,
) -> None:
    # Root without the capability to become another user.
    found = examine(package, "no_sys_admin,no_setuid")
    assert "processes: the kernel counts none of this user" in found["levels"]["FULL"]
    assert found["best"] in ("LANDLOCK", None)


# Probing the walls as another user takes seconds.
@pytest.mark.slow
def test_a_strict_umask_takes_no_walls_away(package: Path) -> None:
    strict, usual = examine(package, "umask"), probe_level(Isolation.FULL)
    assert (strict["best"] == "FULL") == usual.holds
