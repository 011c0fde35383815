"""Call Linux functions that Python does not wrap, through ctypes. Failures are OSErrors with the call's name."""

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
# The flags above, plus cgroup and time namespaces.
CLONE_NEW_ANY = 0x7E020080

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_NOSYMFOLLOW = 256
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    22,
    24,
    38,
)
SECCOMP_MODE_FILTER = 2

CAP_SETUID, CAP_SYS_ADMIN = 7, 21
# _LINUX_CAPABILITY_VERSION_3
_CAPABILITY_VERSION = 0x20080522

MACHINE = platform.machine()
# Numbers by machine. System calls above 424 have the same number on all machines.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(MACHINE)
_CAPGET = {"x86_64": 125, "aarch64": 90}.get(MACHINE)
_CLONE = {"x86_64": 56, "aarch64": 220}.get(MACHINE)
_CLOSE_RANGE = 436

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


PreparedCall = tuple[str, Callable[..., int], tuple[object, ...]]
"""A libc call, ready to run: name for its error message, function, arguments."""


def call(function: str, *arguments: object, why: str = "") -> PreparedCall:
    """Prepare a call of a libc function; integers are passed as longs, which fit every integer parameter used here."""
    passed: list[object] = []
    for value in arguments:
        passed.append(ctypes.c_long(value) if isinstance(value, int) else value)
    return why or function, getattr(_libc, function), tuple(passed)


def perform(calls: Iterable[PreparedCall]) -> None:
    """Run prepared calls in order.

    Raises:
        OSError: for the first call that fails; later calls are not made.
    """
    for name, function, arguments in calls:
        if function(*arguments) < 0:
            _checked(name, -1)


def do(function: str, *arguments: object, why: str = "") -> int:
    """Run a libc call now and return its result.

    Raises:
        OSError: if the result is negative; the message starts with `why`, or with the name of the function.
    """
    name, found, passed = call(function, *arguments, why=why)
    return _checked(name, found(*passed))


def syscall(name: str, number: int | None, *arguments: object) -> int:
    """Make a raw system call and return its result.

    Raises:
        OSError: if the call fails, or if `number` is None because this machine's number is unknown.
    """
    if number is None:
        raise OSError(f"{name}: no system call number is known for {MACHINE}")
    return do("syscall", number, *arguments, why=name)


def forking(namespaces: int) -> Callable[[], int]:
    """Return a fork function whose children start in new namespaces.

    The calling process must have a single thread and be process 1 of a process tree; so must the child. The function
    skips the after-fork work of Python and the C library: they would free resources of other threads and store the new
    thread number, which is 1 before and after. The skip saves 27 page faults.

    Raises:
        OSError: if the kernel refuses; one child is forked to test it.
    """
    # PyDLL keeps the interpreter lock during the call: there is no other thread.
    clone = ctypes.PyDLL(None, use_errno=True).syscall
    clone.restype = ctypes.c_long
    arguments = [
        ctypes.c_long(each)
        for each in (_CLONE or 0, namespaces | signal.SIGCHLD, 0, 0, 0, 0)
    ]
    pid = clone(*arguments)
    if pid == 0:
        os._exit(0)
    os.waitpid(_checked("clone", pid), 0)
    return partial(clone, *arguments)


def threads(pid: int) -> int:
    """Count a process's threads; 0 for an ended process."""
    try:
        # The task folder has a subfolder for each thread, and each subfolder adds a link beside `.` and `..`.
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def closing_from(first: int) -> PreparedCall:
    """Prepare a call that closes every file descriptor from `first` on."""
    try:
        # An empty range: this tests the call and closes nothing.
        syscall("close_range", _CLOSE_RANGE, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    except OSError:
        # Linux before 5.9 lacks close_range.
        return "closerange", lambda: 0 if os.closerange(first, 1 << 16) is None else -1, ()  # type: ignore[func-returns-value]
    return call("syscall", _CLOSE_RANGE, first, 0xFFFFFFFF, 0, why="close_range")


def mount(
    source: str, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    """Mount a file system."""
    names = [text and text.encode() for text in (source, target, kind)]
    options = data and data.encode()
    do("mount", *names, flags, options, why=f"mount {target}")


def enter_root(folder: str) -> None:
    """Make a mount point the root of the file system and detach the old root."""
    os.chdir(folder)
    # With equal paths the old root ends up mounted on top of the new root, and umount2 takes it off.
    syscall("pivot_root", _PIVOT_ROOT, b".", b".")
    do("umount2", b".", MNT_DETACH)
    os.chdir("/")


def prctl(option: int, value: int) -> None:
    """Set a process attribute with prctl, such as PR_SET_NO_NEW_PRIVS."""
    do("prctl", option, value, 0, 0, 0, why=f"prctl {option}")


def has_capability(number: int) -> bool:
    """Return whether this process has an effective capability.

    User number 0 does not decide it: root in a container may lack a capability, and another user may hold it.
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    syscall("capget", _CAPGET, header, data)
    # Three words for each 32 capabilities; the first has the effective ones.
    effective = data[3 * (number // 32)]
    return bool(effective >> (number % 32) & 1)


def drop_bounding_set() -> None:
    """Drop every capability from the bounding set: no executed file can then grant this process or a child one."""
    for number in range(64):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError:
            # The number exceeds the kernel's last capability, or this process may drop none (it lacks CAP_SETPCAP).
            return


def dropping_capabilities() -> PreparedCall:
    """Prepare a call that drops every capability of the process."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    return call("capset", header, (ctypes.c_uint32 * 6)())


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)
