"""Set up the walls that children of a zygote share: its namespaces, its user and its readable folders.

Each step that this machine may refuse raises an OSError whose message names the missing wall.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

from trl_grpo_ext.programs.sandbox.walls import filesystem, kernel, seccomp
from trl_grpo_ext.programs.sandbox.walls.jail import (
    Cell,
    becoming,
    limiting,
    prepare,
    rules_of,
)

NOBODY = 65534
# User numbers from here on belong to nobody. Each zygote takes one, because the process limit counts by user.
FIRST_SPARE_USER = 2_000_000_000


def set_up(config: dict[str, Any], base_bytes: int) -> Cell:
    """Put up all walls that children share, and return their jail settings.

    With namespaces, the function forks: it returns in the child, the first process of a new process tree, while the
    parent waits for the child to end.

    Args:
        config: The order of the trainer, made in `sandbox.zygote.Zygote`.
        base_bytes: Bytes of memory that this process has mapped.

    Raises:
        OSError: if this machine lacks a wall of `config`.
    """
    version = filesystem.landlock_abi() if config["landlock"] else 0
    if config["landlock"] and not version:
        raise OSError("Landlock: this kernel does not have it, or it is off")
    readable = filesystem.what_may_be_read(config["shown"])
    scratch, user, tasks = f"{config['folder']}/empty", None, None
    if config["namespaces"]:
        user = enter_namespaces(readable)
        if user is None and _succeeds(_fork_beyond_the_limit):
            raise OSError(
                "processes: the kernel counts none of this user, so that no limit of them would hold"
            )
        scratch = filesystem.PRIVATE_SCRATCH
        # Keeper, zygote and judge run beside the program under the same user; of a separate user, only the judge.
        tasks = 3 if user is None else 1
        # After unshare, the kernel puts only children into the new process tree, never the caller.
        zygote = os.fork()
        if zygote:
            _keep(zygote)
        # If the trainer kills the keeper, the zygote dies, and as process 1 takes its whole process tree along.
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
    """Enter new namespaces, a private root among them; later children start in a new process tree.

    Returns:
        The user number that children must change to; None if they can keep the user of this process.

    Raises:
        OSError: if this machine forbids the namespaces.
    """
    kinds = (
        kernel.CLONE_NEWNS
        | kernel.CLONE_NEWPID
        | kernel.CLONE_NEWNET
        | kernel.CLONE_NEWIPC
        | kernel.CLONE_NEWUTS
    )
    # The process limit does not hold for root, so root's children become nobody.
    user = NOBODY if os.getuid() == 0 and kernel.has_capability(kernel.CAP_SETUID) else None
    # Asked before the switch: in a new user namespace, every user has this capability.
    is_admin = kernel.has_capability(kernel.CAP_SYS_ADMIN)
    try:
        _enter_user_namespace(kinds, other=user)
    except OSError as error:
        if not is_admin or error.errno is None:
            # An OSError without a number came after the switch: the namespace is entered, but its users have no map.
            raise
        # Where user namespaces are forbidden, an administrator can still make the other namespaces.
        kernel.do("unshare", kinds)
        user = FIRST_SPARE_USER + os.getpid()
    filesystem.make_private_root(readable)
    return user


def _enter_user_namespace(kinds: int, *, other: int | None) -> None:
    """Enter a user namespace that maps this user and `other`, then namespaces of `kinds` with its capabilities."""
    waits, go = os.pipe()
    identifiers = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    parent = os.getpid()
    helper = os.fork()
    if helper == 0:
        # Only a process outside the new namespace can write a map of two users.
        os.close(go)
        status = 1
        try:
            # No byte arrives if unshare failed; then there is no namespace whose users could be mapped.
            if os.read(waits, 1):
                for name, own in identifiers.items():
                    lines = [
                        f"{each} {each} 1\n" for each in (own, other) if each is not None
                    ]
                    if other is None and name == "gid_map":
                        # The kernel takes a gid_map from an unprivileged process only after setgroups is denied.
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
    """Wait for the zygote, then exit with the zygote's status.

    This process stays outside the new process tree, so it cannot be the zygote itself.
    """
    # A copy of the zygote's socket here would keep the trainer from seeing that the zygote has ended.
    kernel.perform([kernel.closing_from(0)])
    _, status = os.waitpid(zygote, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _spare_user(shown: Iterable[str]) -> int | None:
    """Return an unused user number, if this process can switch to it.

    Return None without CAP_SETUID, or if the new user could not read Python's library and the packages `shown`.
    """
    if not kernel.has_capability(kernel.CAP_SETUID):
        return None
    user = FIRST_SPARE_USER + os.getpid()
    return (
        user
        if _succeeds(partial(_read_as, user, [os.path.dirname(os.__file__), *shown]))
        else None
    )


def _fork_beyond_the_limit() -> None:
    """Start a process under a limit of 0 processes. It succeeds for root, whose processes may escape the limit."""
    kernel.perform([limiting("RLIMIT_NPROC", 0)])
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def check_shown(shown: Mapping[str, str], user: int | None) -> None:
    """Check that children can read the packages of `shown`.

    Args:
        shown: Path in the sandbox -> path on this machine, for the error message.
        user: The user number of the children; None for the user of this process.

    Raises:
        OSError: with the paths on this machine that cannot be read.
    """
    if not _succeeds(partial(_read_as, user, shown)):
        hidden = [
            source
            for path, source in shown.items()
            if not _succeeds(partial(_read_as, user, [path]))
        ]
        raise OSError(
            f"packages: programs may not read {', '.join(hidden)}; make it readable for all users: chmod -R a+rX"
        )


def _read_as(user: int | None, paths: Iterable[str]) -> None:
    if user is not None:
        kernel.perform(becoming(user))
    for path in paths:
        os.close(os.open(path, os.O_RDONLY))


def hide_host(cell: Cell) -> None:
    """Replace host name, command line and environment of this Python by constants.

    The system call uname would still tell the host name: the seccomp filter refuses it, but without isolation no filter
    exists.
    """
    here = os.uname()
    shown = os.uname_result(
        (here.sysname, "sandbox", here.release, here.version, here.machine)
    )
    os.uname = lambda: shown
    # The cache of `platform` may hold the real host name.
    platform._uname_cache = None  # type: ignore[attr-defined]
    sys.orig_argv = ["python"]
    os.environ.clear()
    os.environ |= {"HOME": "/", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    if cell.namespaces:
        os.environ |= {"HOME": cell.scratch, "TMPDIR": cell.scratch}
    # Otherwise numpy starts one thread for each core.
    os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def _succeeds(attempt: Callable[[], None]) -> bool:
    """Run an attempt in a child process and return whether it raised nothing."""
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os._exit(0)
        finally:
            # An exception must not run on in the child: its callers' code would then run twice.
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
