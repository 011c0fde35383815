"""What the children of a zygote share: its namespaces, its user, and the folders that they may read.

Every attempt that this machine may refuse raises an OSError whose message says which wall is missing.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

from trl_grpo_ext.sandbox.walls import filesystem, kernel, seccomp
from trl_grpo_ext.sandbox.walls.jail import Cell, becoming, limiting, prepare, rules_of

NOBODY = 65534
# The first of the user numbers that no user has. Each zygote takes one: the limit of processes counts by user.
FIRST_SPARE_USER = 2_000_000_000


def set_up(config: dict[str, Any], base_bytes: int) -> Cell:
    """Put up the walls that children share, and prepare theirs. In a new process tree, it returns in a child.

    This process has mapped `base_bytes` of memory. Raises OSError if this machine lacks what the trainer has ordered.
    """
    version = filesystem.landlock_abi() if config["landlock"] else 0
    if config["landlock"] and not version:
        raise OSError("Landlock: this kernel does not have it, or it is off")
    readable = filesystem.what_may_be_read(config["shown"])
    scratch, user, tasks = f"{config['folder']}/empty", None, None
    if config["namespaces"]:
        user = enter_namespaces(readable)
        if user is None and _succeeds(_fork_beyond_the_limit):
            raise OSError("processes: the kernel counts none of this user, so that no limit of them would hold")
        scratch = filesystem.PRIVATE_SCRATCH
        # The keeper, the zygote and the judge are there beside the program; of another user, only the judge.
        tasks = 3 if user is None else 1
        zygote = os.fork()
        if zygote:
            _keep(zygote)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        os.mkdir(scratch)
        filesystem.make_links(config["shown"])
        user = _spare_user(config["shown"]) if config["filtered"] else None
        tasks = None if user is None else 1
    prepare(filtered=config["filtered"])
    return Cell(
        namespaces=config["namespaces"],
        scratch=scratch,
        rules=rules_of(version, config["namespaces"], scratch, readable) if version else {},
        filter=seccomp.build(own_world=config["namespaces"]) if config["filtered"] else b"",
        user=user,
        base_bytes=base_bytes,
        tasks=tasks,
    )


def enter_namespaces(readable: filesystem.Readable) -> int | None:
    """Go into namespaces of one's own, where children are in a new process tree; raises OSError if that is forbidden.

    Returns the user that children must become, None if they may stay who this process is.
    """
    kinds = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    # Root's processes are not counted against the limit of processes, so root's children become nobody.
    user = NOBODY if os.getuid() == 0 and kernel.has_capability(kernel.CAP_SETUID) else None
    is_admin = kernel.has_capability(kernel.CAP_SYS_ADMIN)  # asked here: in a new user namespace, everybody is
    try:
        _enter_user_namespace(kinds, other=user)
    except OSError as error:
        if not is_admin or error.errno is None:  # without a number: it was entered, and only its users are missing
            raise
        kernel.do("unshare", kinds)
        user = FIRST_SPARE_USER + os.getpid()
    filesystem.make_private_root(readable)
    return user


def _enter_user_namespace(kinds: int, *, other: int | None) -> None:
    """Enter a user namespace, and with its powers the other kinds, in which this user and the other one exist."""
    waits, go = os.pipe()
    identifiers = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    parent = os.getpid()
    helper = os.fork()
    if helper == 0:  # maps of two users can be written from outside only
        os.close(go)
        status = 1
        try:
            if os.read(waits, 1):
                for name, own in identifiers.items():
                    lines = [f"{each} {each} 1\n" for each in (own, other) if each is not None]
                    if other is None and name == "gid_map":
                        _write(f"/proc/{parent}/setgroups", "deny")
                    _write(f"/proc/{parent}/{name}", "".join(lines))
                status = 0
        finally:
            os._exit(status)
    os.close(waits)
    try:
        kernel.do("unshare", kernel.CLONE_NEWUSER | kinds)
        os.write(go, b"x")
    finally:
        os.close(go)
        _, status = os.waitpid(helper, 0)
    if status:
        raise OSError("user namespace: its users could not be named")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _keep(zygote: int) -> NoReturn:
    """Wait for the zygote to end. It cannot be this process: only a child is in the new process tree."""
    kernel.perform([kernel.closing_from(0)])
    _, status = os.waitpid(zygote, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _spare_user(shown: Iterable[str]) -> int | None:
    """A user that owns nothing, if this process may become it and could still read the library and what is shown."""
    if not kernel.has_capability(kernel.CAP_SETUID):
        return None
    user = FIRST_SPARE_USER + os.getpid()
    return user if _succeeds(partial(_read_as, user, [os.path.dirname(os.__file__), *shown])) else None


def _fork_beyond_the_limit() -> None:
    """Start a process where none is allowed, which root can: some of its processes are never counted."""
    kernel.perform([limiting("RLIMIT_NPROC", 0)])
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def check_shown(shown: Mapping[str, str], user: int | None) -> None:
    """Raise an OSError unless children can read what they are shown: paths here, and the paths that these stand for."""
    if not _succeeds(partial(_read_as, user, shown)):
        hidden = [source for path, source in shown.items() if not _succeeds(partial(_read_as, user, [path]))]
        raise OSError(
            f"packages: programs may not read {', '.join(hidden)}; make it readable for all users: chmod -R a+rX"
        )


def _read_as(user: int | None, paths: Iterable[str]) -> None:
    if user is not None:
        kernel.perform(becoming(user))
    for path in paths:
        os.close(os.open(path, os.O_RDONLY))


def hide_host(cell: Cell) -> None:
    """Have Python name no host, nor how this process was started, and give it an environment that says nothing.

    The kernel does not tell programs the host's name either.
    """
    here = os.uname()
    shown = os.uname_result((here.sysname, "sandbox", here.release, here.version, here.machine))
    os.uname = lambda: shown
    platform._uname_cache = None  # type: ignore[attr-defined]  # what it remembers
    sys.orig_argv = ["python"]
    os.environ.clear()
    os.environ |= {"HOME": "/", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    if cell.namespaces:
        os.environ |= {"HOME": cell.scratch, "TMPDIR": cell.scratch}
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")  # numpy starts one a core else


def _succeeds(attempt: Callable[[], None]) -> bool:
    """Whether a child of this process can do it."""
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
