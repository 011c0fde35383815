"""Test this machine's sandbox: try every attack at each isolation level, and report which walls hold."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from trl_grpo_ext.programs.sandbox.installed import named
from trl_grpo_ext.programs.sandbox.isolation import Isolation, IsolationError
from trl_grpo_ext.programs.sandbox.job import Ending, Job, Limits, StdioCase, StdioSuite
from trl_grpo_ext.programs.sandbox.local import LocalSandbox
from trl_grpo_ext.programs.sandbox.packages import ALWAYS, visible_packages
from trl_grpo_ext.programs.sandbox.probe import AttackResult, probe
from trl_grpo_ext.programs.sandbox.zygote import LostError

HOLDS, BROKEN, NO_WALLS = 0, 1, 2
"""The results of `run_doctor`: all walls held; a wall or an import failed; no isolation level works here."""

LEVELS = (Isolation.FULL, Isolation.NAMESPACES, Isolation.LANDLOCK)

# Enough even if the machine loads numpy for the first time.
IMPORTING = Limits(wall_seconds=60.0, cpu_seconds=60.0)

# Advice by a word in the message about a missing feature; the first matching word counts.
_HOW = {
    "rlimit": "Start training with higher limits: `ulimit -Ha` shows them; in Docker, --ulimit.",
    "landlock": (
        "A kernel of 5.13 or later with landlock in /sys/kernel/security/lsm (boot with lsm=landlock,...); in a "
        "container, a seccomp profile that allows the landlock_ calls."
    ),
    "seccomp": "x86-64 or arm64, and a container runtime that lets a process filter its own system calls.",
    "clone": "In a container, a seccomp profile that allows clone with new namespaces.",
    "unshare": (
        "User namespaces: sysctl kernel.unprivileged_userns_clone=1, and user.max_user_namespaces above 0; on Ubuntu "
        "23.10 and later, sysctl kernel.apparmor_restrict_unprivileged_userns=0; in Docker, a seccomp profile that "
        "allows unshare and mount, or --cap-add SYS_ADMIN."
    ),
    "processes": "A trainer that is not root, or the capability SETUID: programs then become another user.",
    "user namespace": "A user that may be mapped into a user namespace, or the capability SYS_ADMIN.",
    "mount": "The right to mount inside a user namespace: in Docker, --security-opt apparmor=unconfined as well.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The results of probing one isolation level."""

    isolation: Isolation
    attacks: tuple[AttackResult, ...] = ()
    missing: str = ""

    @property
    def holds(self) -> bool:
        """Whether the level exists and stopped every probe attack."""
        return bool(self.attacks) and all(attack.held for attack in self.attacks)

    def to_record(self) -> dict[str, Any]:
        attacks = [asdict(attack) for attack in self.attacks]
        return {
            "level": self.isolation.value,
            "holds": self.holds,
            "missing": self.missing,
            "findings": attacks,
        }


def run_doctor(out: Callable[[str], object] = print, *, as_json: bool = False) -> int:
    """Attack every isolation level; print the results.

    Args:
        out: Receives each line of text.
        as_json: Print one JSON object instead of lines.

    Returns:
        `HOLDS`, 0, if every existing level stopped all attacks. `BROKEN`, 1, if an attack got through, even if programs
        use another level, or if programs cannot import an installed numpy. `NO_WALLS`, 2, if no level holds.
    """
    levels = [probe_level(isolation) for isolation in LEVELS]
    # Programs run at the strongest level that holds.
    best = next((level.isolation for level in levels if level.holds), None)
    seen = Imports() if best is None else try_imports(best)
    whole = all(level.holds or level.missing for level in levels) and not seen.failed
    status = HOLDS if whole else BROKEN
    if best is None:
        status = NO_WALLS
    if as_json:
        record = {
            "machine": machine(),
            "level": best and best.value,
            "status": status,
            "packages": seen.places,
            "packages_failed": seen.failed,
            "levels": [level.to_record() for level in levels],
        }
        out(json.dumps(record, indent=2))
        return status
    for line in _lines(levels, best, seen):
        out(line)
    return status


def _lines(levels: Iterable[Level], best: Isolation | None, seen: Imports) -> Iterable[str]:
    yield machine()
    for level in levels:
        yield from _level_lines(level)
    yield from _conclusion(best)
    if best is not None:
        yield from _import_lines(seen)


def probe_level(isolation: Isolation) -> Level:
    """Run the probe's attacks at one isolation level."""
    try:
        return Level(isolation=isolation, attacks=tuple(probe(isolation)))
    except (IsolationError, LostError, OSError) as error:
        return Level(isolation=isolation, missing=str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """Packages importable by programs besides Python's library: their folders, and the error if numpy fails."""

    places: dict[str, str] = field(default_factory=dict)
    failed: str = ""


def try_imports(isolation: Isolation) -> Imports:
    """Find the packages visible to all programs, and let a program import numpy if it is installed."""
    visible = {
        target.rpartition("/")[2]: source for target, source in visible_packages().places
    }
    # Metadata and bundled libraries are shown to programs too, and no program imports them.
    places = {
        name: place
        for name, place in visible.items()
        if name.removesuffix(".py").isidentifier()
    }
    suite = StdioSuite(tests=(StdioCase(stdin="", stdout=""),))
    program = f"import {ALWAYS}" if named(ALWAYS) else ""
    job = Job(program=program, suite=suite, limits=IMPORTING)
    with contextlib.closing(LocalSandbox(1, isolation=isolation)) as sandbox:
        (result,) = sandbox.run([job])
    failed = ""
    if result.ending is not Ending.PASSED:
        failed = result.detail or result.ending
    return Imports(places=places, failed=failed)


def machine() -> str:
    """Describe the system in one line: kernel, architecture, Python and user."""
    user = f"user {os.getuid()}" if hasattr(os, "getuid") else "no user number"
    return f"{platform.system()} {platform.release()}, {platform.machine()}, Python {platform.python_version()}, {user}"


def advice(missing: str) -> str:
    """Advise how to get a missing feature; an empty text if no advice is known."""
    for word, how in _HOW.items():
        if word in missing.lower():
            return how
    return ""


def _conclusion(best: Isolation | None) -> Iterable[str]:
    if best is None:
        yield "No level holds: programs are not run here, unless allow_unsafe says so. See docs/scaling.md for others."
        return
    yield f"Programs run at the level {best}."
    if not best.namespaces:
        yield "They may write no files and start no processes there; tests that need either fail."


def _import_lines(seen: Imports) -> Iterable[str]:
    if seen.failed:
        yield f"  BROKEN {ALWAYS} is installed, and programs cannot import it: {shown_text(seen.failed)}"
    if not seen.places:
        yield f"They may import Python's library, and no package: {ALWAYS} is not to be had here."
        return
    yield "They may import Python's library, what `packages` names, what a row's own tests import, and:"
    for name, place in seen.places.items():
        yield f"  {name}: {place}"


def _level_lines(level: Level) -> Iterable[str]:
    if level.missing:
        yield f"  {level.isolation}: not to be had: {level.missing}"
        if how := advice(level.missing):
            yield f"    It takes: {how}"
        return
    held = sum(attack.held for attack in level.attacks)
    yield f"  {level.isolation}: {held} of {len(level.attacks)} attacks held off"
    for attack in level.attacks:
        if not attack.held:
            yield f"    BROKEN {attack.attack}: {shown_text(attack.seen)}"


def shown_text(text: str) -> str:
    """Escape and shorten a program's text, so that it cannot control the terminal."""
    return ascii(text[:300])[1:-1]
