"""The few Linux calls that Python has no name for, by ctypes. Each raises OSError with the call's name."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Callable, Iterable
from functools import partial

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEW_ANY = 0x7E020080  # the above, and cgroup and time namespaces

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_NOSYMFOLLOW = 256
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
SECCOMP_MODE_FILTER = 2

CAP_SETUID, CAP_SYS_ADMIN = 7, 21

MACHINE = platform.machine()
# (x86-64, arm64). Calls above 424 have one number everywhere.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(MACHINE)
_CAPGET = {"x86_64": 125, "aarch64": 90}.get(MACHINE)
_CLONE = {"x86_64": 56, "aarch64": 220}.get(MACHINE)
_CLOSE_RANGE = 436

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


PreparedCall = tuple[str, Callable[..., int], tuple[object, ...]]
"""A call that is ready to be made: what to say if it fails, the function, and its arguments."""


def call(function: str, *arguments: object, why: str = "") -> PreparedCall:
    """A call of libc's function of that name; integers are passed as longs, which fit whatever it takes."""
    passed = tuple(ctypes.c_long(value) if isinstance(value, int) else value for value in arguments)
    return why or function, getattr(_libc, function), passed


def perform(calls: Iterable[PreparedCall]) -> None:
    """Make these calls in order; raises an OSError for the first that fails."""
    for name, function, arguments in calls:
        if function(*arguments) < 0:
            _checked(name, -1)


def do(function: str, *arguments: object, why: str = "") -> int:
    """Make a call at once; what it returns."""
    name, found, passed = call(function, *arguments, why=why)
    return _checked(name, found(*passed))


def syscall(name: str, number: int | None, *arguments: object) -> int:
    """Make a raw system call."""
    if number is None:
        raise OSError(f"{name}: no system call number is known for {MACHINE}")
    return do("syscall", number, *arguments, why=name)


def forking(namespaces: int) -> Callable[[], int]:
    """An `os.fork` into new namespaces, for a process with one thread which is the first of a process tree.

    The child, the first of its own, must be that too. What Python and the C library do after a fork is left out: it
    frees what other threads held, and notes a new thread number, which is 1 here as it was. It costs 27 page faults.

    Raises:
        OSError: if this machine does not allow it, which is tried.
    """
    clone = ctypes.PyDLL(None, use_errno=True).syscall  # with the interpreter's lock held, for there is no other thread
    clone.restype = ctypes.c_long
    arguments = [ctypes.c_long(each) for each in (_CLONE or 0, namespaces | signal.SIGCHLD, 0, 0, 0, 0)]
    pid = clone(*arguments)
    if pid == 0:
        os._exit(0)
    os.waitpid(_checked("clone", pid), 0)
    return partial(clone, *arguments)


def threads(pid: int) -> int:
    """How many threads a process has; 0 if it is gone."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2  # a folder each
    except OSError:
        return 0


def closing_from(first: int) -> PreparedCall:
    """A call that closes every descriptor from this number on."""
    try:
        syscall("close_range", _CLOSE_RANGE, 0xFFFFFFFF, 0xFFFFFFFF, 0)  # closes none
    except OSError:  # before Linux 5.9
        return "closerange", lambda: 0 if os.closerange(first, 1 << 16) is None else -1, ()  # type: ignore[func-returns-value]
    return call("syscall", _CLOSE_RANGE, first, 0xFFFFFFFF, 0, why="close_range")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system."""
    first, last = [text and text.encode() for text in (source, target, kind)], data and data.encode()
    do("mount", *first, flags, last, why=f"mount {target}")


def enter_root(folder: str) -> None:
    """Make a mount point the root of the file system, and let go of the old one."""
    os.chdir(folder)
    syscall("pivot_root", _PIVOT_ROOT, b".", b".")
    do("umount2", b".", MNT_DETACH)
    os.chdir("/")


def prctl(option: int, value: int) -> None:
    """Set what the kernel lets this process do."""
    do("prctl", option, value, 0, 0, 0, why=f"prctl {option}")


def has_capability(number: int) -> bool:
    """Whether this process has an effective capability. Being root is neither needed nor enough."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    syscall("capget", _CAPGET, header, data)
    return bool(data[3 * (number // 32)] >> (number % 32) & 1)


def drop_bounding_set() -> None:
    """Give up, for all children, every capability that an executed file could bring."""
    for number in range(64):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError:
            return


def dropping_capabilities() -> PreparedCall:
    """A call that gives up every capability."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    return call("capset", header, (ctypes.c_uint32 * 6)())


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)
