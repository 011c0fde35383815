"""Find the walls that hold on this machine by running attacks, not by looking for kernel features."""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trl_grpo_ext.programs.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.programs.sandbox.job import Ending, Job, Limits, StdioCase, StdioSuite
from trl_grpo_ext.programs.sandbox.stdio_run import run_cases
from trl_grpo_ext.programs.sandbox.zygote import LostError, Zygote

_USUAL = Limits(wall_seconds=10.0)
_SMALL = Limits(wall_seconds=10.0, cpu_seconds=5.0, memory_mb=128, processes=16, disk_mb=4)

RUN_AT_ALL = "run at all"
# The first program prints a dot and nothing else. Each other program prints something only if its attack succeeds.
# Names in capitals are replaced by values.
ATTACKS: Mapping[str, str] = {
    RUN_AT_ALL: """
import asyncio, json, platform
asyncio.run(asyncio.sleep(0))
print(".")
""",
    "write outside": """
open(FOLDER + "/written", "w").write("x")
print("written")
""",
    "change a file's mode": """
import os
os.chmod(FOLDER + "/keep", 0o600)
print("changed")
""",
    "read a file": """
print(open(FOLDER + "/keep").read())
""",
    "see other processes": """
import os
print(os.readlink(f"/proc/{VICTIM}/exe"))
""",
    "kill a process": """
import os
os.kill(VICTIM, 9)
print("killed")
""",
    "connect to this machine": """
import socket
socket.create_connection(("127.0.0.1", PORT), 2)
print("connected")
""",
    "connect to a unix socket": """
import socket
socket.socket(socket.AF_UNIX).connect("\\0" + ABSTRACT)
print("connected")
""",
    "run another program": """
import os
os.execv("/bin/sh", ["sh", "-c", "echo ran"])
""",
    "take too much memory": """
print(len(bytearray(400 << 20)))
""",
    "start many processes": """
import os, time
for i in range(64):
    if os.fork() == 0:
        time.sleep(60)
print("started")
""",
    "fill the disk": """
import tempfile
file = tempfile.TemporaryFile()
for _ in range(64):
    file.write(b"x" * (1 << 20))
    file.flush()
print("full")
""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """An attack's outcome: name, whether the walls held, evidence."""

    attack: str
    held: bool
    seen: str


def probe(isolation: Isolation) -> list[AttackResult]:
    """Run every attack as a program behind given walls.

    Raises:
        IsolationError: names a wall that this machine cannot put up.
        LostError: if the sandbox itself failed.
    """
    zygote = Zygote(isolation)
    try:
        with _targets() as targets:
            return [_try(zygote, attack, targets) for attack in ATTACKS]
    finally:
        zygote.kill()


def _try(zygote: Zygote, attack: str, targets: Mapping[str, object]) -> AttackResult:
    program = ATTACKS[attack]
    for name, value in targets.items():
        program = program.replace(name, repr(value))
    suite = StdioSuite(
        tests=(StdioCase(stdin="", stdout="." if attack == RUN_AT_ALL else ""),)
    )
    limits = _USUAL if attack == RUN_AT_ALL else _SMALL
    outcome = run_cases(zygote, Job(program=program, suite=suite, limits=limits), suite)
    # A program whose attack failed prints nothing: a system call is refused, or an exception or a signal ends it.
    got = outcome.ending is Ending.FAILED
    held = outcome.ending is Ending.PASSED if attack == RUN_AT_ALL else not got
    seen = f"it printed {outcome.detail}" if got else outcome.detail or outcome.ending
    return AttackResult(attack=attack, held=held, seen=seen)


@contextlib.contextmanager
def _targets() -> Iterator[dict[str, object]]:
    """Create targets for the attacks, keyed by names used in attack programs.

    Every user of the machine may read and write these targets, so only the sandbox protects them.
    """
    with contextlib.ExitStack() as opened:
        made = tempfile.TemporaryDirectory(
            prefix="trl_grpo_ext-canary-", ignore_cleanup_errors=True
        )
        folder = Path(opened.enter_context(made))
        folder.chmod(0o777)
        keep = folder / "keep"
        keep.write_text("canary")
        keep.chmod(0o666)
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = opened.enter_context(socket.socket(socket.AF_UNIX))
        # A name with a leading zero byte lies in no folder, so rules for files do not guard it.
        abstract.bind("\0" + folder.name)
        abstract.listen()
        command = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
        victim = subprocess.Popen(command, stdin=subprocess.PIPE)
        # Callbacks run in reverse order: `kill` comes first, then `communicate` reaps the process.
        opened.callback(victim.communicate)
        opened.callback(victim.kill)
        yield {
            "FOLDER": str(folder),
            "VICTIM": victim.pid,
            "PORT": listener.getsockname()[1],
            "ABSTRACT": folder.name,
        }


@functools.cache
def best_isolation() -> Isolation:
    """Return the strongest isolation level that holds on this machine; tested once per process.

    Raises:
        IsolationError: if no level holds; the message says what is missing and how to get it.
    """
    missing = []
    for isolation in (Isolation.FULL, Isolation.NAMESPACES, Isolation.LANDLOCK):
        try:
            broken = [attack for attack in probe(isolation) if not attack.held]
        except (IsolationError, LostError) as error:
            missing.append(f"  {isolation}: {error}")
            continue
        if not broken:
            return isolation
        missing.append(
            f"  {isolation}: " + "; ".join(f"{each.attack}: {each.seen}" for each in broken)
        )
    raise IsolationError(
        "This machine has no walls that a program could be run behind:\n"
        + "\n".join(missing)
        + "\n"
        "A Linux kernel of 5.13 or later with Landlock on (`lsm=landlock,...`) is enough; so are user namespaces. "
        "In a container, a seccomp profile must allow landlock_* or unshare. `trl-grpo-ext doctor` shows what holds. "
        "To run programs without walls, on a machine that you can afford to lose, pass allow_unsafe=True."
    )
